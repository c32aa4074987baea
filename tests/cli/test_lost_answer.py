"""Answers that cannot be written after something was changed, and interruptions before anything is."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from gpucloud.market.catalog import PRICES
from tests.shell import PROGRAMS, TIMEOUT_S, Shell

FULL = Path("/dev/full")
BOX = ("--gpu", "T4", "--cloud", "aws", "--name", "x", "--yes")
full_device = pytest.mark.skipif(not FULL.exists(), reason="needs a full device")


def ended(shell: Shell, *arguments: str, stdout: IO[str] | int) -> tuple[int, str]:
    """Exit code and stderr of a command whose stdout goes where a test says."""
    ran = subprocess.run(
        [str(PROGRAMS / "gpucloud"), *arguments],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(shell.home),
            "GPUCLOUD_HOME": str(shell.home),
            "XDG_RUNTIME_DIR": str(shell.runtime),
            "GPUCLOUD_SANDBOX": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return ran.returncode, ran.stderr


def into_nothing(shell: Shell, *arguments: str) -> tuple[int, str]:
    """Whoever read the answer went away before it came."""
    read, write = os.pipe()
    os.close(read)
    try:
        return ended(shell, *arguments, stdout=write)
    finally:
        os.close(write)


@full_device
def test_a_purchase_whose_answer_is_lost_is_told_with_what_ends_it(cli: Shell) -> None:
    with FULL.open("w") as full:
        code, err = ended(cli, "launch", *BOX, "--json", stdout=full)
        assert (code, len(cli.billed())) == (8, 1), err
        assert "x is ready, but the answer could not be written" in err
        assert os.strerror(errno.ENOSPC) in err
        assert "gpucloud down x --yes" in err
        assert "unexpected" not in err
        code, err = ended(cli, "extend", "x", "--ttl", "2h", "--yes", "--json", stdout=full)
        assert (code, "gpucloud down x --yes" in err) == (8, True), err
        code, err = ended(cli, "down", "x", "--yes", "--json", stdout=full)
        assert (code, cli.billed()) == (2, []), err
        assert "deleted: x, but the answer" in err


def test_a_reader_who_went_away_does_not_take_the_news_along(cli: Shell) -> None:
    code, err = into_nothing(cli, "launch", *BOX, "--json")
    assert (code, len(cli.billed())) == (8, 1), err
    assert "gpucloud down x --yes" in err
    code, err = into_nothing(cli, "down", "x", "--yes", "--json")
    assert (code, cli.billed()) == (0, []), err
    assert "x is deleted" in err


@full_device
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (("plan", "--gpu", "T4", "--save", str(FULL)), 2),
        (("cost", "--gpu", "T4", "--hours", "10", "--html", str(FULL)), 2),
        (("run", "--gpu", "T4", "--summary", str(FULL), "--", "true"), 125),
    ],
)
def test_a_file_on_a_full_disk_is_named_and_nothing_is_bought(
    cli: Shell, line: tuple[str, ...], code: int
) -> None:
    ran = cli(*line)
    assert ran.code == code
    assert f"to {FULL}: {os.strerror(errno.ENOSPC)}" in ran.err
    assert not [entry for entry in cli.sandbox.ledger() if entry["event"] == "born"]


def test_a_refresh_that_cannot_be_kept_names_the_file(cli: Shell) -> None:
    known = cli("version", "--json").json["paths"]["state"]
    kept = Path(known, PRICES)
    kept.mkdir(parents=True)
    kept.parent.chmod(0o700)
    ran = cli("prices", "refresh", "--gpu", "T4", "--cloud", "aws")
    assert (ran.code, str(kept) in ran.err, "unexpected" in ran.err) == (2, True, False), ran.err


def interrupted(*argv: str, **environment: str) -> tuple[int, str]:
    """Exit code and stderr of a program that gets SIGINT once it has written a line."""
    process = subprocess.Popen(
        argv, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert line, err
    return process.returncode, err


def test_an_interruption_while_modules_are_imported_gives_130_and_no_traceback(tmp_path: Path) -> None:
    slow = "import time\nprint('importing', flush=True)\ntime.sleep(60)\n"
    (tmp_path / "typer.py").write_text(slow, encoding="utf-8")
    program = PROGRAMS / "gpucloud"
    assert interrupted(sys.executable, str(program), "version", PYTHONPATH=str(tmp_path)) == (130, "")
    assert interrupted(sys.executable, "-m", "gpucloud", "version", PYTHONPATH=str(tmp_path)) == (130, "")


def test_an_interruption_while_the_interpreter_ends_changes_nothing(tmp_path: Path) -> None:
    late = "atexit.register(lambda: (print('ending', flush=True), time.sleep(60)))"
    start = "sys.argv[1:] = ['completion', 'none']; from gpucloud.__main__ import main; main()"
    code, err = interrupted(sys.executable, "-c", f"import atexit, sys, time; {late}; {start}")
    assert (code, "Traceback" in err) == (2, False), err

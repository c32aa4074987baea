"""The set-up of a box: after the files and the data, which it may read, and before the command."""

from __future__ import annotations

import os
import random
import signal
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes import ssh_of
from tests.shell import Shell
from tests.waiting import until

T4 = ("--gpu", "T4", "--cloud", "aws", "--ttl", "1h")
READS = "cat requirements.txt && touch installed"


@pytest.fixture
def project(cli: Shell) -> Path:
    """A folder with a list of packages."""
    folder = cli.home / "project"
    folder.mkdir()
    (folder / "requirements.txt").write_text("torch\n")
    return folder


def test_the_setup_of_a_run_reads_what_was_synced_and_its_command_finds_what_that_has_made(
    cli: Shell, project: Path
) -> None:
    ran = cli("run", *T4, "--sync", f"{project}/", "--setup", READS, "--", "ls")
    assert (ran.code, ran.out.split()) == (0, ["installed", "requirements.txt"]), ran.err


def test_a_setup_is_a_file_of_up_to_a_mebibyte_and_runs_on_every_node_in_a_login_shell(
    cli: Shell, project: Path
) -> None:
    noise = b64encode(random.Random(1).randbytes(600_000)).decode()  # noqa: S311  (the same every time)
    (cli.home / "prepare.sh").write_text(f"shopt -q login_shell || exit 1\n: {noise}\numask >mask\n")
    nodes = ("--nodes", "2", "--sync", f"{project}/")
    assert cli.launch(*T4, "--name", "x", *nodes, "--setup-file", "prepare.sh")["state"] == "ready"
    for node in ("0", "1"):
        said = cli("exec", "x", "--node", node, "--", "cat", "mask", "requirements.txt").out
        assert said == "0022\ntorch\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--setup-file", "none.sh"), "none.sh cannot be read"),
        (("--setup-file", "long.sh"), "--setup-file: long.sh is not allowed; allowed: 1 to 1048576 bytes"),
        (("--setup-file", "empty.sh"), "--setup-file: empty.sh is not allowed"),
        (("--setup-file", "image"), "--setup-file: image is no text"),
        (("--setup-file", "nul"), "--setup-file: nul is no text"),
        (("--setup", "true", "--setup-file", "long.sh"), "--setup and --setup-file"),
    ],
)
def test_a_file_that_is_no_setup_is_refused_before_anything_is_asked(
    cli: Shell, words: tuple[str, ...], said: str
) -> None:
    (cli.home / "long.sh").write_bytes("é".encode() * (1 << 20))
    (cli.home / "empty.sh").write_bytes(b"")
    (cli.home / "nul").write_bytes(b"true\0")
    (cli.home / "image").write_bytes(b"\xff\xd8")
    refused = cli("launch", *T4, *words, "--yes")
    assert refused.code == 2
    assert said in refused.err
    assert cli.changes_asked() == []


def test_a_setup_goes_on_through_a_lost_connection_and_is_logged(cli: Shell) -> None:
    begun, go = cli.home / "begun", cli.home / "go"
    commands = f"echo first; touch {begun}; until [ -e {go} ]; do sleep 0.1; done; echo last"
    process = cli.start("launch", *T4, "--name", "x", "--yes", "--setup", commands)
    until(begun.exists)
    for pid in ssh_of(cli.runtime):
        with suppress(ProcessLookupError):  # it has ended with another
            os.kill(pid, signal.SIGKILL)
    go.touch()
    launched = cli.finish(process)
    assert launched.code == 0, launched.err
    log = cli("logs", "x").out
    assert log[log.index("setup: begins") :].splitlines()[1:3] == ["first", "last"]

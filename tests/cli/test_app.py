"""The program as a shell sees it: exit codes, streams, JSON errors, and hostile surroundings."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer

from gpucloud.cli.app import COMMANDS, functions_of, relays
from gpucloud.cli.failure import as_text, report
from gpucloud.cli.output import Output, encode
from gpucloud.config import find_owner, find_paths
from gpucloud.errors import CleanupIncompleteError, CloudError, ErrorClass, InterruptedBySignal, UsageError
from gpucloud.redaction import redact
from gpucloud.rendering.table import Table
from gpucloud.rendering.texts import clean
from gpucloud_pricing import format_money
from tests.waiting import PATIENCE_S

PROGRAM = [sys.executable, "-c", "from gpucloud.__main__ import main; main()"]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GPUCLOUD_HOME": str(tmp_path / "home")}


@pytest.fixture
def gpucloud(environment: dict[str, str]) -> Run:
    def run(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *arguments],
            env={**environment, **extra},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=False,
        )

    return run


def error_of(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    document = json.loads(ran.stdout)
    assert document["schema"] == "gpucloud.error/v1"
    error: dict[str, Any] = document["error"]
    return error


def test_help_lists_every_command_in_the_tables_order(gpucloud: Run) -> None:
    ran = gpucloud("--help")
    assert ran.returncode == 0
    assert ran.stderr == ""
    shown = [line.split()[0] for line in ran.stdout.splitlines() if line.startswith("  ") and line.strip()]
    assert [name for name in shown if name in COMMANDS] == list(COMMANDS)


def test_help_imports_no_command_and_nothing_heavy(environment: dict[str, str]) -> None:
    code = """
import sys
from gpucloud.__main__ import main
try:
    main(["--help"])
except SystemExit:
    print(*sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.splitlines()[-1].split())
    heavy = {"pydantic", "yaml", "rich", "sqlalchemy", "boto3", "platformdirs", "gpucloud_pricing"}
    assert not loaded & heavy
    assert {name for name in loaded if name.startswith("gpucloud")} == {
        "gpucloud",
        "gpucloud.__main__",
        "gpucloud.cli",
        "gpucloud.cli.app",
        "gpucloud.processes",
    }


def test_a_thread_that_still_waits_neither_delays_nor_crashes_the_end(environment: dict[str, str]) -> None:
    """OpenSSL frees its locks at a regular end, where a call in a thread may still use them."""
    code = """
import atexit, sys, threading, time
from gpucloud.__main__ import main
atexit.register(print, "a regular end")
if sys.argv.pop(1) == "waits":
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
main()
"""
    for kind, regular in (("waits", False), ("waits not", True)):
        line = [sys.executable, "-c", code, kind, "down", "nobody", "--json"]
        ran = subprocess.run(
            line, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (ran.returncode, ran.stderr) == (2, "")
        assert "there is no box named 'nobody'" in ran.stdout
        assert ("a regular end" in ran.stdout) == regular


def test_without_a_command_help_goes_to_stderr_and_the_exit_code_is_2(gpucloud: Run) -> None:
    ran = gpucloud()
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Usage:" in ran.stderr


@pytest.mark.parametrize("line", [["--json", "version"], ["version", "--json"], ["-v", "version", "--json"]])
def test_json_is_understood_before_and_after_the_command(
    gpucloud: Run, line: list[str], tmp_path: Path
) -> None:
    ran = gpucloud(*line)
    document = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr, document["schema"]) == (0, "", "gpucloud.version/v1")
    assert document["paths"] == {
        name: str(tmp_path / "home" / name) for name in ("state", "config", "sandbox")
    }


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        (["--sandbox", "version", "--json"], {}),
        (["version", "--sandbox", "--json"], {}),
        (["version", "--json"], {"GPUCLOUD_SANDBOX": "1"}),
    ],
)
def test_the_sandbox_is_switched_on_in_three_ways(
    gpucloud: Run, line: list[str], extra: dict[str, str]
) -> None:
    assert json.loads(gpucloud(*line, **extra).stdout)["paths"]["state"].endswith("state-sandbox")


def test_a_sandbox_variable_that_says_no_leaves_it_off(gpucloud: Run) -> None:
    ran = gpucloud("version", "--json", GPUCLOUD_SANDBOX="0")
    assert json.loads(ran.stdout)["paths"]["state"].endswith("state")


def test_version_touches_no_disk(gpucloud: Run, tmp_path: Path) -> None:
    assert gpucloud("version").returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["ofers"], "Did you mean 'offers'?"),
        (["terminate", "x"], "Did you mean 'down'?"),
        (["rm", "x"], "Did you mean 'down'?"),
        (["up"], "Did you mean 'launch'?"),
        (["serve"], "Did you mean 'run'"),
        (["prices"], "Missing command"),
        (["prices", "shw"], "did you mean 'show'?"),
        (["version", "--jsn"], "--json"),
        (["completion"], "shell"),
        (["completion", "tcsh"], "bash"),
        (["version", "extra"], "extra"),
    ],
)
def test_a_bad_line_exits_2_and_is_told_alike_to_people_and_programs(
    gpucloud: Run, line: list[str], told: str
) -> None:
    ran = gpucloud(*line)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert told.lower() in ran.stderr.lower()
    assert "Traceback" not in ran.stderr
    ran = gpucloud("--json", *line)
    assert (ran.returncode, ran.stderr) == (2, "")
    assert error_of(ran)["class"] == "usage"
    assert told.lower() in error_of(ran)["message"].lower()


def test_the_words_of_a_remote_command_do_not_ask_for_json(gpucloud: Run) -> None:
    assert gpucloud("ofers", "--", "--json").stdout == ""


def test_a_bad_spec_exits_2_before_anything_is_made(gpucloud: Run, tmp_path: Path) -> None:
    ran = gpucloud("plan", "--gpu", "A10O", "--json")
    assert ran.returncode == 2
    assert error_of(ran)["message"] == "--gpu: unknown GPU 'A10O'; did you mean A100?"
    file = tmp_path / "box.yaml"
    file.write_text("gpu: T4\nttl: 24\n")
    ran = gpucloud("plan", "-f", str(file))
    assert ran.returncode == 2
    assert f"{file}:2: ttl: '24' has no unit" in ran.stderr
    assert not (tmp_path / "home").exists()


def test_every_command_of_the_table_exists_and_explains_itself() -> None:
    for name in COMMANDS:
        found = functions_of(name)
        functions = [found] if callable(found) else list(found.values())
        assert all(function.__doc__ for function in functions), name


def test_the_schema_and_the_completion_are_printed_as_they_are_used(gpucloud: Run) -> None:
    assert "properties" in json.loads(gpucloud("schema").stdout)
    script = gpucloud("completion", "bash").stdout
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    completed = gpucloud(_GPUCLOUD_COMPLETE="complete_bash", COMP_WORDS="gpucloud vers", COMP_CWORD="1")
    assert completed.stdout.split() == ["version"]
    completed = gpucloud(_GPUCLOUD_COMPLETE="complete_bash", COMP_WORDS="gpucloud list --j", COMP_CWORD="2")
    assert completed.stdout.split() == ["--json"]


def test_a_reader_who_leaves_is_no_failure(environment: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [*PROGRAM, "schema"], env=environment, stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
@pytest.mark.parametrize("line", [["schema"], ["version", "--json"], ["--help"]])
def test_a_full_disk_under_stdout_is_told(environment: dict[str, str], line: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [*PROGRAM, *line], env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode == 1
    assert os.strerror(errno.ENOSPC) in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_closed_stdout_or_stderr_does_not_end_in_a_traceback(environment: dict[str, str]) -> None:
    for closed, line, code in ((">&-", "version", 0), ("2>&-", "nonsense", 2), (">&- 2>&- <&-", "schema", 0)):
        shell = ["sh", "-c", f'"$@" {closed}', "sh", *PROGRAM, line]
        ran = subprocess.run(shell, env=environment, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", "")


def test_a_name_that_the_terminal_cannot_show_is_written_another_way(gpucloud: Run) -> None:
    ran = gpucloud("--json", "plan", "--gpu", "Ä100", PYTHONIOENCODING="ascii")
    assert "Ä100" in error_of(ran)["message"]
    ran = gpucloud("plan", "--gpu", "Ä100", PYTHONIOENCODING="ascii")
    assert (ran.returncode, "\\xc4100" in ran.stderr) == (2, True)


def test_a_missing_home_is_looked_up_or_told(environment: dict[str, str], gpucloud: Run) -> None:
    del environment["HOME"], environment["GPUCLOUD_HOME"]
    ran = gpucloud("version", "--json")
    assert ran.returncode == 0
    assert Path(json.loads(ran.stdout)["paths"]["state"]).is_absolute()


@pytest.mark.parametrize("home", ["/dev/null/x", "/proc/nowhere"])
def test_a_home_that_cannot_be_written_is_told_with_what_to_set(home: str) -> None:
    paths = find_paths({"GPUCLOUD_HOME": home}, sandbox=False)
    with pytest.raises(UsageError) as caught:
        find_owner(paths, {})
    assert home in caught.value.message
    assert "GPUCLOUD_HOME" in str(caught.value.hint)


def test_no_colour_reaches_a_pipe(gpucloud: Run) -> None:
    for extra in ({}, {"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}):
        assert "\x1b" not in gpucloud("--help", **extra).stdout


def test_a_table_in_a_pipe_is_plain_lines_that_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(Table({"NAME": ["x" * 300, None, "a\x1b[31mb"], "PRICE": [3, 12, ""]}, right=["PRICE"]))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["NAME", "PRICE"], ["x" * 300, "3"], ["-", "12"], ["ab"]]


@pytest.mark.parametrize(
    ("extra", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_gets_colour_unless_it_is_declined(
    environment: dict[str, str], extra: dict[str, str], coloured: bool
) -> None:
    pty = pytest.importorskip("pty")
    code = "from gpucloud.cli.output import Output, Table; Output().table(Table({'NAME': ['x']}))"
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**environment, "TERM": "xterm", **extra},
        stdout=theirs,
        stderr=theirs,
    ) as process:
        process.wait(60)
    os.close(theirs)
    text = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "NAME" in text
    assert ("\x1b[" in text) is coloured


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[2J\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x\x1b]8;;http://evil\x1b\\link", "xlink"),
        ("\x1b]52;c;never closed", ""),
        ("a\rb\x00c\x9b31m\u202ed", "abc31md"),
        ("\x1b", ""),
    ],
)
def test_foreign_text_cannot_steer_the_terminal(foreign: str, shown: str) -> None:
    assert clean(foreign) == shown


def test_money_is_never_rounded_away() -> None:
    assert [format_money(Decimal(text)) for text in ("0.0042", "32.7726", "12345")] == [
        "$0.0042",
        "$32.77",
        "$12,345.00",
    ]
    assert (format_money(None), format_money(Decimal("7.5"), "CNY")) == ("?", "CNY 7.5000")
    assert encode({"amount": Decimal("1E+2")}) == '{"amount": "100"}'


def test_a_clouds_refusal_is_told_in_its_own_words_with_what_was_tried() -> None:
    error = CloudError(
        "cannot create a p4d.24xlarge",
        error_class=ErrorClass.CAPACITY,
        cloud="aws",
        code="InsufficientInstanceCapacity",
        request_id="abc-123",
        hint="try --spot",
        attempts=[
            {
                "cloud": "aws",
                "region": "us-east-1",
                "zone": "use1-az1",
                "instance_type": "p4d.24xlarge",
                "purchase": "on_demand",
                "class": "capacity",
                "code": "InsufficientInstanceCapacity",
                "message": "no p4d.24xlarge is free",
                "request_id": "abc-123",
            }
        ],
    )
    text = as_text(error)
    for told in ("aws", "InsufficientInstanceCapacity", "abc-123", "try --spot", "use1-az1", "p4d.24xlarge"):
        assert told in text


def test_what_is_left_is_told_with_the_command_that_ends_it() -> None:
    error = CleanupIncompleteError(
        "the box may still run",
        left=[{"kind": "instance", "id": "i-1", "cloud": "aws", "region": "us-east-1", "price": None}],
        owed_command="gpucloud down x",
    )
    assert "instance  i-1  aws  us-east-1" in as_text(error)
    assert "gpucloud down x" in as_text(error)


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (UsageError("x"), ["list"], 2),
        (CleanupIncompleteError("x"), ["down"], 8),
        (KeyboardInterrupt(), ["list"], 130),
        (typer.Abort(), ["list"], 130),
        (InterruptedBySignal("x", signum=signal.SIGTERM), ["exec", "box"], 143),
        (InterruptedBySignal("x", signum=signal.SIGHUP), ["launch"], 129),
        (ValueError("x"), ["list"], 1),
        (typer.Exit(7), ["exec"], 7),
        (UsageError("no box"), ["--sandbox", "exec", "box"], 125),
        (ValueError("x"), ["exec", "box"], 125),
    ],
)
def test_every_way_out_has_its_exit_code(
    error: BaseException, line: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error, line=line, relays=relays(line)) == code
    assert capsys.readouterr().out == ""


def test_the_unexpected_is_one_line_and_with_verbose_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError as raised:
        error = raised
    report(error, line=["list"])
    assert "Traceback" not in capsys.readouterr().err
    report(error, line=["list"], verbose=1)
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "aws_secret_access_key=hunter2hunter2",
        '{"SecretAccessKey": "hunter2hunter2"}',
        "Authorization: Bearer hunter2hunter2",
        "https://x/?X-Amz-Signature=hunter2hunter2&a=b",
        "AKIAHUNTER2HUNTER2AA",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----",
    ],
)
def test_no_credential_is_printed_with_a_failure(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "hunter2" not in redact(text).lower()
    for json_wanted in (False, True):
        report(RuntimeError(text), line=["list"], json=json_wanted)
        told = capsys.readouterr()
        assert "hunter2" not in (told.out + told.err).lower()


@pytest.mark.parametrize("verbose", [0, 2])
def test_what_libraries_log_is_not_shown(verbose: int) -> None:
    """MSAL, for one, logs a traceback where an answer is no JSON; the words of libraries may hold secrets."""
    program = (
        "import logging, sys; from gpucloud.cli.failure import log_to_stderr;"
        "log_to_stderr(int(sys.argv[1]));"
        "logging.getLogger('msal').error('secret');"
        "logging.getLogger('gpucloud.clouds.cloud').warning('ours')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(verbose)], capture_output=True, text=True, check=True
    )
    assert ran.stderr.endswith(" gpucloud.clouds.cloud: ours\n")
    assert "secret" not in ran.stderr

"""Tables and lists: what fits a terminal, which columns and forms a user can choose, and colours."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from gpucloud.api.box import Box
from gpucloud.cli.failure import as_text
from gpucloud.cli.output import Output, wrapped
from gpucloud.errors import CleanupIncompleteError
from gpucloud.rendering.table import Cell
from gpucloud.rendering.terminal import Column, fit, lines_of, shortened, sorted_rows
from gpucloud.rendering.texts import counted
from tests.shell import Shell

PROGRAM = Path(sysconfig.get_path("scripts"), "gpucloud")
Show = Callable[..., str]


class Hasty(io.StringIO):
    """A terminal whose user presses Ctrl-C before the question is written out."""

    def flush(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_what_is_said_after_an_interrupted_question_begins_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else would: a terminal's ^C ends no line, and a signal from elsewhere shows nothing."""
    asked = Hasty()
    monkeypatch.setattr("sys.stderr", asked)
    with pytest.raises(KeyboardInterrupt):
        Output().ask("Launch?")
    assert asked.getvalue() == "Launch? [y/N] \n"


@pytest.fixture
def terminal(tmp_path: Path) -> Show:
    """What a command shows on a terminal of a width, both streams together."""
    pty = pytest.importorskip("pty")

    def show(width: int, *arguments: str, **extra: str) -> str:
        ours, theirs = pty.openpty()
        fcntl, struct, termios = (pytest.importorskip(name) for name in ("fcntl", "struct", "termios"))
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "GPUCLOUD_HOME": str(tmp_path),
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm",
            **extra,
        }
        with subprocess.Popen(
            [str(PROGRAM), *arguments], env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        ) as process:
            os.close(theirs)
            parts: list[bytes] = []
            while part := _read(ours):
                parts.append(part)
            process.wait(60)
        os.close(ours)
        return b"".join(parts).decode().replace("\r\n", "\n")

    return show


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # Linux tells the end of a terminal so
        return b""


COMMANDS: Sequence[Sequence[str]] = (
    ("offers", "--gpu", "A100:8", "--spot", "--on-demand"),
    ("offers", "--gpu", "T4", "--include-hidden"),
    ("cost", "--gpu", "A100:8", "--hours", "72"),
    ("cost", "--gpu", "T4"),
    ("cost", "--gpu", "T4", "--cloud", "aws", "--explain"),
    ("offers", "--gpu", "A100:8", "--region", "eu", "--why"),
    ("images", "--gpu", "A100:8"),
    ("prices", "show"),
    ("equivalents", "A100:8", "H100:4"),
)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(
    terminal: Show, command: Sequence[str], width: int
) -> None:
    text = terminal(width, *command, NO_COLOR="1")
    words = {word for line in terminal(400, *command, NO_COLOR="1").splitlines() for word in line.split()}
    assert "\x1b" not in text
    for line in text.splitlines():
        assert len(line) <= width or len(line.split()) == 1, line
    for word in re.sub(
        r"Not shown at this width:.*?To\s+see\s+them:.*?\.", "", text, flags=re.DOTALL
    ).split():
        assert word in words or "…" in word or set(word) == {"─"}, word


def test_the_answer_to_what_a_node_costs_fits_one_screen_and_is_explained(terminal: Show) -> None:
    command = ("cost", "--gpu", "A100:8", "--hours", "72")
    answer = terminal(100, *command, NO_COLOR="1")
    assert len(answer.splitlines()) <= 24
    assert answer.startswith("Without interruptions: ")
    assert answer.split(".\n")[0].count("\n") <= 3, "one sentence"
    explained = " ".join(terminal(100, *command, "--explain", NO_COLOR="1").split("\n\n", 2)[2].split())
    figures = set(re.findall(r"\$[0-9][0-9.,]*[0-9]|[0-9]+ h\b", answer))
    assert len(figures) > 7
    assert {each for each in figures if each not in explained} == set()
    percent = re.compile(r"([0-9.]+)(?:-([0-9.]+))? ?%")
    exact = [Decimal(number) for found in percent.findall(explained) for number in found if number]
    chances = [Decimal(number) for found in percent.findall(answer) for number in found if number]
    assert len(chances) == 5
    assert all(any(each.quantize(chance) == chance for each in exact) for chance in chances)


def test_ctrl_c_at_the_question_of_a_launch_says_that_nothing_is_left(cli: Shell) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(cli.home),
        "GPUCLOUD_HOME": str(cli.home),
        "XDG_RUNTIME_DIR": str(cli.runtime),
        "GPUCLOUD_SANDBOX": "1",
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "NO_COLOR": "1",
        "COLUMNS": "80",
    }
    line = [str(PROGRAM), "launch", "--gpu", "T4", "--cloud", "aws"]
    with subprocess.Popen(line, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said and (part := _read(ours)):
            said += part
        process.send_signal(signal.SIGINT)
        while part := _read(ours):
            said += part
        process.wait(60)
    os.close(ours)
    lines = said.decode().replace("\r", "").splitlines()
    assert process.returncode == 128 + signal.SIGINT
    assert lines[-1] == "stopped by SIGINT; nothing of this launch is left"
    question = lines[-3:-1]
    assert question[1].endswith("[y/N] "), "the question wraps between words"
    assert max(map(len, question)) <= 80
    assert cli.changes_asked() == []


def test_hidden_columns_are_named_and_wide_shows_them(terminal: Show) -> None:
    narrow = terminal(80, "offers", "--gpu", "A100:8", "-n", "3")
    assert "Not shown at this width: " in narrow
    assert "VCPUS" in narrow.split("Not shown at this width: ")[1]
    assert "VCPUS" in terminal(80, "offers", "--gpu", "A100:8", "-n", "3", "-o", "wide").splitlines()[0]


def test_colours_mark_the_cheapest_and_spot_and_can_be_declined(terminal: Show) -> None:
    command = ("offers", "--gpu", "A100:8", "--spot", "--on-demand", "--max-age", "9y", "-n", "0")
    text = terminal(200, *command)
    assert "\x1b[36mspot\x1b[0m" in text
    assert text.count("\x1b[1;32m$") < text.count("$")
    assert "\x1b[1;31merror\x1b[0m:" in terminal(80, "offers", "--columns", "nonsense")
    for declined in (terminal(200, *command, NO_COLOR="1"), terminal(200, *command, "--no-color")):
        assert "\x1b" not in declined
    assert "\x1b" not in terminal(80, "--no-color", "offers", "--columns", "nonsense")


def test_columns_are_chosen_and_rows_are_sorted(cli: Shell) -> None:
    shown = cli("offers", "--gpu", "T4", "-n", "9", "--columns", "region,PER-HOUR", "--sort-by", "-region")
    heading, *rows = (line.split() for line in shown.out.splitlines())
    assert heading == ["REGION", "PER", "HOUR"]
    regions = [row[0] for row in rows]
    assert regions == sorted(regions, reverse=True)
    assert len(set(regions)) > 1


def test_a_column_that_does_not_exist_is_refused_with_those_that_do(cli: Shell) -> None:
    for flag in ("--columns", "--sort-by"):
        for form in ((), ("-o", "csv")):
            refused = cli("offers", "--gpu", "T4", flag, "nonsense", *form)
            assert (refused.code, refused.out) == (2, "")
            assert f"{flag}: there is no column 'nonsense'" in refused.err
            assert "region" in refused.err


def test_a_list_has_five_other_forms(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "b")
    cli.launch("--gpu", "L4", "--cloud", "aws", "--name", "a")
    assert cli("list", "-o", "name").out.split() == ["b", "a"]
    documents = [yaml.safe_load(cli("list", "-o", form).out) for form in ("json", "yaml")]
    for document in (*documents, cli("list", "--json").json):
        assert document["schema"] == "gpucloud.list/v1"
        assert [box["name"] for box in document["boxes"]] == ["b", "a"]
        assert document["boxes"][0]["gpu"]["model"] == "T4"
    text = cli("list", "-o", "csv", "--columns", "name,gpu.model", "--sort-by", "name").out
    assert list(csv.reader(io.StringIO(text))) == [["name", "gpu.model"], ["a", "L4"], ["b", "T4"]]
    shown = cli("show", "a").out.splitlines()
    assert [line.split()[0] for line in shown[:6]] == ["name", "state", "time", "per", "cost", "ssh"]
    assert shown[2].startswith("time left"), shown[2]
    assert "(compute $" in shown[3]
    assert shown[5].split() == ["ssh", "gpucloud", "ssh", "a"]
    assert not {"overdue", "cost at least"} & {line[:13].rstrip() for line in shown}, "what is usual"
    cli("down", "a", "--yes")
    assert "per hour" not in cli("show", "a").out, "it costs nothing any more"
    wide = cli("list", "-o", "wide").out
    assert "PAID AS" in wide
    assert wide.splitlines()[1].startswith("b ")


def test_plans_refreshes_and_the_sandbox_answer_in_the_forms_of_lists(cli: Shell) -> None:
    plan = cli("plan", "--gpu", "T4", "--cloud", "aws", "--columns", "try,zone,type", "--sort-by", "-try").out
    numbers = [int(line.split()[0]) for line in plan.splitlines()[1:]]
    assert len(numbers) > 1
    assert numbers == sorted(numbers, reverse=True)
    assert cli("plan", "--gpu", "T4", "--cloud", "aws", "-o", "name").out.split()[0] == "g4dn.xlarge"
    assert cli("prices", "refresh", "--gpu", "T4", "--cloud", "aws", "-o", "name").out == "aws\n"
    box = cli.launch("--gpu", "T4", "--cloud", "aws")
    billed = cli("sandbox", "status", "-o", "csv", "--columns", "kind,box").out.splitlines()
    assert billed[0] == "kind,box"
    assert f"instance,{box['id']}" in billed
    assert "RunInstances" in cli("sandbox", "calls", "-o", "name").out.split()
    cli("sandbox", "stock", "0", "--type", "g4dn.*")
    assert cli("sandbox", "fault").err == "No faults.\n"
    (rule,) = yaml.safe_load(cli("sandbox", "stock", "-o", "yaml").out)["rules"]
    assert (rule["instance_type"], rule["count"]) == ("g4dn.*", 0)


def test_forms_that_contradict_are_refused(cli: Shell) -> None:
    assert cli("list", "--json", "-o", "csv").code == 2
    assert cli("list", "-o", "yaml", "--columns", "name").code == 2
    assert cli("list", "-o", "xml").code == 2
    failed = cli("offers", "--gpu", "T4", "--region", "nowhere", "-o", "json")
    assert failed.error, "-o json is --json, for errors too"


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (["$10.00", "$9.50", "≥ $1,200", "?"], ["$9.50", "$10.00", "≥ $1,200", "?"]),
        (["2h30m", "45s", "1d", "-5m"], ["-5m", "45s", "2h30m", "1d"]),
        (["us-east-10", "us-east-2", "-"], ["us-east-2", "us-east-10", "-"]),
        (["CNY 7.5000", "$9.00"], ["$9.00", "CNY 7.5000"]),
        (["≤ $10.00", "≤ $9.00"], ["≤ $9.00", "≤ $10.00"]),
    ],
)
def test_cells_sort_by_what_they_mean(texts: list[str], order: list[str]) -> None:
    assert [texts[row] for row in sorted_rows(texts, down=False)] == order


def test_money_and_time_left_of_boxes_have_room_before_where_they_are() -> None:
    columns = {
        "NAME": "trainer",
        "STATE": "failed (still billed)",
        "GPU": "A100/1g.10gb:7",
        "WHERE": "alibaba cn-wulanchabu-a",
        "PER HOUR": "≥ CNY 31.27",
        "LEFT": "23h59m",
    }
    optional = Box.table_of([]).optional
    fitted = fit([Column(name, [Cell(text)]) for name, text in columns.items()], 80, optional)
    assert list(fitted.hidden) == ["WHERE"]
    narrow = fit([Column(name, [Cell(text)]) for name, text in columns.items()], 60, optional)
    text = [line.strip() for line in lines_of(narrow, framed=False, styled=False)]
    assert "≥ CNY 31.27" in text[1]
    assert text[2] == "billed)", "a state wraps between words"


def test_what_may_be_billed_is_told_in_columns_and_per_hour() -> None:
    machine = {
        "kind": "instance",
        "id": "i-1",
        "cloud": "aws",
        "price": {"amount": "7.79", "currency": "CNY"},
    }
    disk = {"kind": "disk", "id": "vol-12", "cloud": "aws", "price": None}
    lines = as_text(CleanupIncompleteError("left", left=[machine, disk])).splitlines()
    assert lines[2:4] == ["    instance  i-1     aws  CNY 7.7900/h", "    disk      vol-12  aws"]


def test_types_stay_distinct_where_they_are_shortened() -> None:
    types = ["Standard_NC24ads_long_A100_v4", "Standard_NC48ads_long_A100_v4", "p4d.24xlarge"]
    column = Column("TYPE", [Cell(each) for each in types])
    fitted = fit([Column("NAME", [Cell("x")] * 3), column], 31)
    lines = list(lines_of(fitted, framed=False, styled=False))[1:]
    assert len(set(lines)) == len(types)
    assert all(len(line) <= 31 for line in lines)
    assert any("…" in line for line in lines)
    names = Column("NAME", [Cell("x")] * 3)
    assert fit([names, column], 26).hidden == ["TYPE"], "no width in which two types look alike"
    assert lines[2].split() == ["x", "p4d.24xlarge"]


def test_one_thing_is_no_plural() -> None:
    assert [counted(number, "more row") for number in (1, 2)] == ["1 more row", "2 more rows"]
    assert [counted(2, thing) for thing in ("query", "box")] == ["2 queries", "2 boxes"]


def test_prose_breaks_between_words_and_never_inside_an_amount() -> None:
    text = "Your boxes cost CNY 39.39 per hour and ≥ $2.6527 now."
    assert wrapped(text, 22, indent=2) == "Your boxes cost\n  CNY 39.39 per hour\n  and ≥ $2.6527 now."
    assert wrapped("  ok  quota: 1 of 2\n  used", 12, indent=4) == "  ok  quota:\n      1 of 2\n  used"


def test_what_stands_before_a_shortened_type_stays() -> None:
    assert shortened("4 × Standard_NC24ads_A100_v4", 21) == "4 × Stan…4ads_A100_v4"


def test_attempts_with_one_region_and_code_are_told_once(cli: Shell) -> None:
    rule = {"cloud": "aws", "action": "RunInstances", "effect": "error"}
    cli.sandbox.fault(**rule, code="InsufficientInstanceCapacity", times=20)
    failed = cli("launch", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-*", "--yes")
    assert failed.code == 5
    told = failed.err.split("  tried:\n")[1].splitlines()
    regions = [line.split(":")[0].strip() for line in told if "attempt" in line]
    assert regions == ["aws us-east-1", "aws us-east-2"]
    assert "g4dn.xlarge on-demand in use1-az" in told[0]
    assert failed.err.count("could not create the instance") <= 1 + len(regions)

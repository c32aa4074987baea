"""``prices history``, ``diff`` and ``watch``: how prices went, and being told when they fall."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.shell import Shell

WHERE = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1")


def age(cli: Shell, days: int) -> None:
    """Makes all that was kept so many days older."""
    with closing(sqlite3.connect(cli.home / "state-sandbox" / "prices.db")) as connection:
        for statement in (
            "UPDATE spans SET since = strftime('%Y-%m-%dT%H:%M:%fZ', since, :back)",
            "UPDATE spans SET seen = strftime('%Y-%m-%dT%H:%M:%fZ', seen, :back)",
            "UPDATE spans SET ended = strftime('%Y-%m-%dT%H:%M:%fZ', ended, :back)",
        ):
            connection.execute(statement, {"back": f"-{days} days"})
        connection.commit()


@pytest.fixture
def moved(cli: Shell) -> Decimal:
    """Ten days ago a T4 cost what the sandbox says, now half of that; gives what it costs now."""
    assert cli("prices", "refresh", *WHERE).code == 0
    age(cli, 10)
    cli.sandbox.price(cloud="aws", instance_type="g4dn.xlarge", factor="0.5")
    assert cli("prices", "refresh", *WHERE).code == 0
    return Decimal("0.526") / 2


def day(ago: int) -> str:
    return f"{datetime.now(UTC) - timedelta(days=ago):%Y-%m-%d}"


def test_the_history_has_what_it_was_and_what_it_is(cli: Shell, moved: Decimal) -> None:
    told = cli("prices", "history", *WHERE, "-n", "1", "--json")
    assert told.code == 0, told.err
    (series,) = told.json["series"]
    assert (series["instance_type"], series["source"]) == ("g4dn.xlarge", "aws-price-list")
    amounts = [Decimal(span["amount"]["amount"]) for span in series["spans"]]
    assert amounts == [moved * 2, moved]
    assert series["spans"][0]["ended"] == series["spans"][1]["since"]
    assert series["spans"][1]["ended"] is None


def test_people_see_a_line(cli: Shell, moved: Decimal) -> None:
    table = cli("prices", "history", *WHERE, "-n", "1").out
    assert f"${moved:.4f}" in table
    assert "-50.0 %" in table
    assert "███" in table


def test_a_table_of_some_says_of_how_many_and_how_to_see_all(cli: Shell, moved: Decimal) -> None:
    known = cli("prices", "history", *WHERE, "-n", "1", "--json").json["known"]
    some = cli("prices", "history", *WHERE, "-n", "1")
    assert f"The 1 cheapest of {known} prices; all: --limit {known}" in some.err
    every = cli("prices", "history", *WHERE, "--limit", str(known))
    assert len(every.out.splitlines()) == known + 1
    assert "cheapest of" not in every.err


def test_only_the_last_days_can_be_shown(cli: Shell, moved: Decimal) -> None:
    assert "$0.5260" in cli("prices", "history", *WHERE, "-n", "1", "--since", "20d").out
    (series,) = cli("prices", "history", *WHERE, "-n", "1", "--since", "1w", "--json").json["series"]
    assert len(series["spans"]) == 2, "the first was in force when the week began"


@pytest.mark.parametrize(("name", "begins"), [("x.svg", b"<?xml"), ("x.png", b"\x89PNG")])
def test_it_can_be_drawn(cli: Shell, moved: Decimal, name: str, begins: bytes) -> None:
    drawn = cli("prices", "history", *WHERE, "--plot", "first.svg", "--plot", name)
    assert drawn.code == 0, drawn.err
    assert Path(cli.home, "first.svg").exists()
    content = Path(cli.home, name).read_bytes()
    assert content.startswith(begins)
    if name.endswith("svg"):
        assert b"g4dn.xlarge" in content


def test_what_cannot_be_shown_is_refused_with_what_to_do(cli: Shell) -> None:
    unknown = cli("prices", "history", *WHERE)
    assert unknown.code == 3
    assert "gpucloud prices refresh" in unknown.err
    assert cli("prices", "history", *WHERE, "--plot", "x.pdf").code == 2
    assert cli("prices", "history", *WHERE, "--plot", "no/such/x.svg").code == 2
    assert cli("prices", "history", *WHERE, "--since", "tuesday").code == 2
    assert cli("prices", "diff", "tuesday").code == 2
    assert cli("prices", "diff", day(0), day(5)).code == 2


def test_two_days_are_compared(cli: Shell, moved: Decimal) -> None:
    told = cli("prices", "diff", day(5), *WHERE, "--on-demand", "--json")
    assert told.code == 0, told.err
    (change,) = told.json["changes"]
    assert [Decimal(change[when]["amount"]) for when in ("before", "after")] == [moved * 2, moved]
    assert cli("prices", "diff", day(5), day(4), "--json").json["changes"] == []
    came = cli("prices", "diff", day(20), *WHERE, "--on-demand", "--json").json["changes"]
    assert {change["before"] for change in came} == {None}
    assert "-50.0 %" in cli("prices", "diff", day(5), *WHERE, "--on-demand").out


def test_somebody_who_waits_for_a_price_is_told_and_something_is_run(cli: Shell) -> None:
    """The offer is in its environment; --once ends with its exit code."""
    program = Path(cli.home, "buy.py")
    program.write_text(
        "import json, os, pathlib, sys\n"
        "pathlib.Path('offer').write_text(json.loads(os.environ['GPUCLOUD_OFFER'])['instance_type'])\n"
        "sys.exit(7)\n"
    )
    command = f"{sys.executable} {program}"
    told = cli("prices", "watch", *WHERE, "--below", "0.6", "--exec", command, "--once", "--json")
    assert told.code == 7, told.err
    assert Path(cli.home, "offer").read_text() == "g4dn.xlarge"
    (line,) = map(json.loads, told.out.splitlines())
    assert (line["schema"], line["below"]) == ("gpucloud.prices-watch/v1", True)


def test_a_price_that_is_not_low_enough_is_waited_for(cli: Shell) -> None:
    """Until it is, or a signal comes."""
    process = cli.start("prices", "watch", *WHERE, "--below", "0.3", "--once")
    assert process.stdout is not None
    assert "above" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert cli.finish(process).code == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    "wrong",
    [
        ["--below", "cheap"],
        ["--below", "0"],
        ["--below", "1", "--every", "5s"],
        ["--below", "1", "--exec", "no-such-program x"],
        ["--below", "1", "--exec", "'"],
    ],
    ids=" ".join,
)
def test_bad_wishes_are_refused_before_anything_is_asked(cli: Shell, wrong: list[str]) -> None:
    refused = cli("prices", "watch", *WHERE, *wrong)
    assert refused.code == 2, refused.err
    assert not cli.sandbox.calls()


def test_a_refresh_of_two_shells_at_once(cli: Shell) -> None:
    """Both end well, and what is kept is one of each."""
    both = [cli.start("prices", "refresh", *WHERE) for _ in range(2)]
    assert [cli.finish(each).code for each in both] == [0, 0]
    shown: list[Any] = cli("prices", "history", *WHERE, "--json").json["series"]
    assert all(len(series["spans"]) == 1 for series in shown)

"""``gpucloud cost``, as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

import pytest

from gpucloud.cli.app import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(line)
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def amount(money: dict[str, str]) -> Decimal:
    return Decimal(money["amount"])


def test_json_has_every_way_of_paying_side_by_side(run: Run) -> None:
    code, out, _ = run("cost", "--gpu", "A100:8", "--hours", "72", "--json", "--boot", "0")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "gpucloud.cost/v1"
    assert document["usage"]["hours"] == 72
    options = document["options"]
    assert {o["purchase"] for o in options} >= {"on_demand", "spot", "reserved_1y", "reserved_3y"}
    on_demand = next(o for o in options if o["purchase"] == "on_demand" and o["offer"]["cloud"] == "aws")
    assert amount(on_demand["compute"]) == round(amount(on_demand["offer"]["price_usd"]) * 72, 4)
    parts = sum(amount(on_demand[part]) for part in ("compute", "disk", "address", "egress"))
    assert amount(on_demand["total"]) == pytest.approx(parts, abs=Decimal("0.001"))
    assert on_demand["break_even_hours"] is None
    committed = next(o for o in options if o["purchase"] == "reserved_1y")
    assert 0 < committed["break_even_hours"] < 730


def test_without_hours_it_shows_hour_day_and_month(run: Run) -> None:
    code, out, _ = run("cost", "--gpu", "T4")
    assert code == 0
    assert all(word in out.splitlines()[0] for word in ("HOUR", "DAY", "MONTH"))
    _, out, _ = run("cost", "--gpu", "T4", "--json")
    document = json.loads(out)
    assert document["usage"]["hours"] == 730
    assert document["usage"]["hours_assumed"]
    running = document["options"][0]["running"]
    assert amount(running["day"]) == pytest.approx(amount(running["hour"]) * 24, abs=Decimal("0.01"))


def test_only_the_ways_of_paying_that_are_asked_for_are_compared(run: Run) -> None:
    _, out, _ = run("cost", "--gpu", "T4", "--hours", "1", "--spot", "--json")
    assert {o["purchase"] for o in json.loads(out)["options"]} == {"spot"}


def test_what_the_data_lacks_is_unknown_and_said(run: Run) -> None:
    line = ("cost", "--gpu", "T4", "--region", "eu-north-1", "--cloud", "aws", "--hours", "5")
    _, out, _ = run(*line, "--json")
    option = next(o for o in json.loads(out)["options"] if o["purchase"] == "on_demand")
    assert option["disk"] is None
    assert "no disk price is known" in option["unknown"]["disk"]
    assert not option["complete"]
    _, out, err = run(*line)
    assert "≥" in out
    assert "no disk price is known for aws eu-north-1" in err


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "many", "1e99"])
def test_impossible_hours_are_exit_2(run: Run, hours: str) -> None:
    code, out, err = run("cost", "--gpu", "T4", f"--hours={hours}")
    assert code == 2
    assert out == ""
    assert "--hours" in err


def test_nodes_multiply(run: Run) -> None:
    line = ("cost", "--gpu", "T4", "--hours", "10", "--on-demand", "--json")
    one, four = (json.loads(run(*line, "--nodes", nodes)[1])["options"][0] for nodes in ("1", "4"))
    assert amount(four["compute"]) == pytest.approx(amount(one["compute"]) * 4, abs=Decimal("0.001"))


def test_no_match_is_exit_3(run: Run) -> None:
    assert run("cost", "--gpu", "A100:3")[0] == 3

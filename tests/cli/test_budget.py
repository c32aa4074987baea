"""``gpucloud budget``: what it shows, and what a launch does then."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from tests.shell import Shell

T4 = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--ttl", "10h", "--yes", "--json")
CAPPED = (*T4, "--max-price", "0.6")


def test_a_launch_above_a_budget_buys_nothing_and_says_the_figures(cli: Shell) -> None:
    """Until the first box is gone, the second one does not fit; calls of other kinds go on."""
    assert cli("budget", "set", "lab", "8", "--per", "total", "--match", "gpu=T4").code == 0
    first = cli("launch", *CAPPED, "--name", "one")
    assert first.code == 0, first.err
    assert "budget 'lab' is used to" in first.err
    shown = cli("budget", "show", "lab", "--json").json["budget"]
    assert Decimal(shown["committed"]["amount"]) > 4
    assert shown["unknown"] == []
    refused = cli("launch", *CAPPED, "--name", "two")
    assert (refused.code, refused.error["class"]) == (7, "budget")
    assert "$8.0000 in total" in refused.error["message"]
    assert "budget show lab" in refused.error["hint"]
    assert [box["name"] for box in cli("list", "--json").json["boxes"]] == ["one"]
    ran = cli("run", *CAPPED, "--", "true")
    assert (ran.code, ran.error["class"]) == (125, "budget"), "a run is a launch"
    assert cli("down", "one", "--yes").code == 0
    assert cli("launch", *CAPPED, "--name", "two").code == 0
    assert cli("journal", "verify").code == 0


def test_what_would_cost_more_than_a_budget_is_refused_as_a_launch_is(cli: Shell) -> None:
    """A later end, a start, a volume: nothing is changed, and what is there stays."""
    assert cli("launch", *CAPPED, "--name", "one").code == 0
    ends = cli("show", "one", "--json").json["box"]["expires_at"]
    assert cli("budget", "set", "lab", "7", "--per", "total").code == 0
    extended = cli("extend", "one", "--ttl", "90h", "--json")
    assert (extended.code, extended.error["class"]) == (7, "budget")
    assert "the deadline was not changed" in extended.error["message"]
    assert cli("show", "one", "--json").json["box"]["expires_at"] == ends
    assert cli("extend", "one", "--ttl", "+1h", "--json").code == 0, "there is room for that"
    near = ("--near", "T4", "--cloud", "aws", "--region", "us-east-1")
    refused = cli("volume", "create", "data", "--size", "2000", *near, "--yes", "--json")
    assert (refused.code, refused.error["class"]) == (7, "budget"), refused.out
    assert cli("stop", "one", "--yes").code == 0
    started = cli("start", "one", "--ttl", "40h", "--yes", "--json")
    assert (started.code, started.error["class"]) == (7, "budget")
    assert "nothing was started" in started.error["message"]
    assert [each["state"] for each in cli("list", "--json").json["boxes"]] == ["stopped"]


def test_a_budget_ends_a_box_when_it_is_used_up(cli: Shell) -> None:
    """Its end is that of the budget; and if that is spent sooner, the next command ends it."""
    down = ("--per", "total", "--action", "down")
    assert cli("budget", "set", "lab", "2", *down).code == 0
    launched = cli("launch", *CAPPED, "--name", "one")
    assert launched.code == 0, launched.err
    assert "Budget 'lab' is used up at" in launched.err
    box = launched.json["boxes"][0] if "boxes" in launched.json else launched.json["box"]
    lives = datetime.fromisoformat(box["expires_at"]) - datetime.fromisoformat(box["created_at"])
    assert timedelta(hours=2) < lives < timedelta(hours=4)
    assert cli("tend").code == 0
    assert [each["name"] for each in cli("list", "--json").json["boxes"]] == ["one"]
    assert cli("budget", "set", "lab", "0.00001", *down).code == 0
    two = cli("launch", *CAPPED, "--name", "two")
    assert "Budget 'lab' is used up: ending one" in two.err
    assert two.error["class"] == "budget", "there is no room for another one"
    assert cli("tend").code == 0, "what was begun is finished"
    assert cli("list", "--json").json["boxes"] == []


def test_budgets_are_listed_and_removed(cli: Shell) -> None:
    assert "There is no budget" in cli("budget", "list").err
    cli("budget", "set", "lab", "500", "--per", "month", "--match", "tag=team:a", "--currency", "cny")
    [listed] = cli("budget", "list", "--json").json["budgets"]
    assert (listed["name"], listed["amount"]["currency"], listed["per"]) == ("lab", "CNY", "month")
    assert listed["match"]["tags"] == [{"name": "team", "value": "a"}]
    assert "team:a" in cli("budget", "list").out
    assert cli("budget", "set", "lab", "none", "--json").json["budget"] is None
    assert cli("budget", "show", "lab", "--json").error["hint"].startswith("set one: ")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (("lab", "500"), "needs --per"),
        (("lab", "-1", "--per", "day"), "-1"),
        (("lab", "many", "--per", "day"), "many"),
        (("Lab!", "5", "--per", "day"), "Lab!"),
        (("lab", "5", "--per", "day", "--match", "zone=a"), "zone=a"),
        (("lab", "5", "--per", "day", "--match", "tag=a"), "tag=a"),
        (("lab", "5", "--per", "day", "--match", "gpu=T44"), "did you mean T4?"),
        (("lab", "5", "--per", "day", "--match", "gpu=A100-80GB"), "did you mean A100?"),
        (("lab", "5", "--per", "day", "--match", "cloud=azur"), "did you mean azure?"),
        (("lab", "5", "--per", "day", "--match", "owner=two words"), "owner=two words"),
        (("lab", "5", "--per", "day", "--match", "tag=te*m:x"), "is not allowed"),
        (("lab", "5", "--per", "day", "--warn", "half"), "half"),
        (("lab", "5", "--per", "day", "--warn", "50,150"), "50,150"),
        (("lab", "5", "--per", "day", "--currency", "XXX"), "XXX"),
        (("lab", "none"), "there is no budget 'lab'"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(cli: Shell, line: tuple[str, ...], says: str) -> None:
    refused = cli("budget", "set", *line, "--json")
    assert refused.code == 2
    assert says in refused.err + refused.out

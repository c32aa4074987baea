"""``gpucloud budget``: what it shows, and what a launch does then."""

from __future__ import annotations

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
        (("lab", "5", "--per", "day", "--warn", "half"), "half"),
        (("lab", "5", "--per", "day", "--currency", "XXX"), "XXX"),
        (("lab", "none"), "there is no budget 'lab'"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(cli: Shell, line: tuple[str, ...], says: str) -> None:
    refused = cli("budget", "set", *line, "--json")
    assert refused.code == 2
    assert says in refused.err + refused.out

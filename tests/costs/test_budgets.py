"""What a budget counts, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.costs.budgets import (
    Standing,
    earlier_end,
    period,
    refuse_over,
    since_of,
    standings,
    to_end,
    warnings,
)
from gpucloud.errors import BudgetError
from gpucloud.journal.budgets import Budget, BudgetAction, Match, Per, Terms
from gpucloud.journal.facts import BoughtOffer, Ceiling, Gpu, Node, Place, Price, Usage, Wanted
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.plain import plain, reader
from gpucloud.journal.records import Box
from gpucloud.resources import State
from gpucloud_pricing import Market
from gpucloud_pricing.purchases import Purchase
from tests.builders import a_box, a_volume

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MARKET = Market.load()


def a_budget(amount: str = "100", *, per: Per = Per.MONTH, match: Match = Match(), **changes: Any) -> Budget:  # noqa: B008
    terms = Terms(
        amount=Decimal(amount),
        currency="USD",
        per=per,
        match=match,
        warn=(50, 80, 100),
        action=BudgetAction.REFUSE,
    )
    return Budget(id="budget:lab", name="lab", terms=replace(terms, **changes), by="me", at=NOW)


def billed(hours: float, *, ends_in: float | None, usd: str | None = "2", **changes: Any) -> Box:
    """A box that is billed since some hours."""
    price = Price(amount=Decimal(usd), currency=changes.pop("currency", "USD")) if usd else None
    start = NOW - hours * HOUR
    usage = Usage(box="b-1", resource="i-1", part="compute", start=start, end=None, price=price)
    values: dict[str, Any] = {
        "id": "b-1",
        "name": "old",
        "state": BoxState.READY,
        "place": Place(cloud="aws", region="us-east-1"),
        "offer": BoughtOffer(
            instance_type="p5", purchase=Purchase.SPOT, gpu=Gpu(model="H100", count=Decimal(1))
        ),
        "price": price,
        "usage": (usage,),
        "expires_at": None if ends_in is None else NOW + ends_in * HOUR,
    }
    return a_box(**{**values, **changes})


def planned(usd: str = "1", *, ends_in: float | None = 10, **changes: Any) -> Box:
    """A box that is planned, and of which nothing is billed yet."""
    ceiling = Ceiling(usd_per_hour=Decimal(usd), clouds=("azure", "aws"), gpus=("T4",))
    expires = None if ends_in is None else NOW + ends_in * HOUR
    values = {"id": "b-2", "name": "new", "state": BoxState.PLANNED, "place": None, "offer": None}
    return a_box(
        **{**values, "price": None, "usage": (), "ceiling": ceiling, "expires_at": expires, **changes}
    )


def standing(boxes: list[Box], budget: Budget | None = None, plan: Box | None = None) -> Standing:
    [found] = standings([budget or a_budget()], boxes, NOW, MARKET, plan)
    return found


@pytest.mark.parametrize(
    ("box", "budget", "spent", "committed"),
    [
        (billed(3, ends_in=5), a_budget(), 6, 10),
        (billed(3, ends_in=None), a_budget(), 6, 2 * 252),
        (billed(3, ends_in=5000), a_budget(), 6, 2 * 252),
        (billed(24, ends_in=24), a_budget(per=Per.DAY), 24, 24),
        (billed(1000, ends_in=1), a_budget(), 2 * 468, 2),
        (billed(1000, ends_in=1), a_budget(per=Per.TOTAL), 2000, 2),
        (billed(3, ends_in=-1), a_budget(), 6, 0),
        (billed(3, ends_in=5, state=BoxState.DELETED), a_budget(), 6, 0),
        (planned("7", ends_in=2), a_budget(), 0, 14),
        (billed(3, ends_in=5, ceiling=planned("7").ceiling), a_budget(), 6, 10),
        (billed(3, ends_in=5, state=BoxState.BOOTSTRAPPING, ceiling=planned("7").ceiling), a_budget(), 6, 35),
    ],
    ids=[
        "until its end",
        "without an end, until that of the month",
        "until the end of the month",
        "of a day, from midnight to midnight",
        "of a month, from its first day",
        "in total, from the beginning",
        "nothing after its end",
        "nothing after it was deleted",
        "at its ceiling before anything is billed",
        "at its price once it is ready",
        "at its ceiling while it is launched",
    ],
)
def test_what_is_spent_and_committed(box: Box, budget: Budget, spent: int, committed: int) -> None:
    found = standing([box], budget)
    assert (found.spent, found.committed) == (Decimal(spent), Decimal(committed))
    assert found.unknown == ()


def test_a_plan_is_refused_from_the_first_cent_above_and_says_the_three_figures() -> None:
    boxes = [billed(3, ends_in=5), planned("1", id="b-3", name="other")]
    fits = standing(boxes, a_budget("36"), planned())
    refuse_over([fits])
    assert warnings([fits]) == [
        "budget 'lab' is used to 100 %: $6.0000 spent, $20.00 committed, at most $10.00 for this plan;"
        " $36.00 per month"
    ]
    over = standing(boxes, a_budget("35.99"), planned())
    with pytest.raises(
        BudgetError, match=r"'lab' would be exceeded: \$6.0000 spent, \$20.00 comm.* \$10.00"
    ) as told:
        refuse_over([over])
    assert (told.value.exit_code, told.value.error_class) == (7, "budget")
    warns = standing(boxes, a_budget("35.99", action=BudgetAction.WARN), planned())
    refuse_over([warns])
    assert "would be exceeded" in warnings([warns])[0]


def test_the_box_in_whose_place_a_plan_is_launched_costs_no_more() -> None:
    found = standing([billed(3, ends_in=5)], a_budget(), planned(replaces="b-1"))
    assert [found.spent, found.committed, found.plan] == [6, 0, 10]


def test_a_budget_of_each_run_counts_the_boxes_of_one() -> None:
    boxes = [billed(3, ends_in=0, run_id="r-1"), billed(9, ends_in=0, id="b-9", run_id="r-2")]
    budget = a_budget(per=Per.RUN)
    assert standing(boxes, budget, planned(run_id="r-1")).spent == 6
    assert standing(boxes, budget, planned(run_id=None)).spent == 0
    assert standing(boxes, budget, planned(run_id="r-1", owner="somebody else")).spent == 0
    most = standing(boxes, budget)
    assert (most.run, most.spent) == ("r-2", Decimal(18))
    assert standing([], budget).run is None


def test_a_plan_ends_when_a_budget_that_ends_boxes_is_used_up() -> None:
    """Of 36 dollars 6 are spent and 10 committed: 20 are left, at 4 an hour, but for the last minute."""
    boxes, minute = [billed(3, ends_in=5)], timedelta(minutes=1)
    down = a_budget("36", action=BudgetAction.DOWN)
    found = earlier_end([standing(boxes, down, planned("4"))], NOW, minute)
    assert found is not None
    assert (found.at, found.budget) == (NOW + 5 * HOUR - minute, "lab")
    assert earlier_end([standing(boxes, down, planned("2"))], NOW, minute) is None, "it ends before"
    refuses = standing(boxes, a_budget("36"), planned("4"))
    assert earlier_end([refuses], NOW, minute) is None, "that is not for this budget to say"
    total = a_budget("36", action=BudgetAction.DOWN, per=Per.TOTAL)
    endless = earlier_end([standing(boxes, total, planned("4", ends_in=None))], NOW, minute)
    assert endless == found, "a plan without an end is given one"
    for amount in ("16", "16.1"):
        with pytest.raises(BudgetError, match="would be exceeded"):
            earlier_end([standing(boxes, replace_amount(down, amount), planned("4"))], NOW, minute)


def test_a_budget_that_is_used_up_ends_the_boxes_it_counts_and_leaves_what_holds_data() -> None:
    node = Node(instance_id="i-1", state=State.RUNNING)
    boxes = [
        billed(3, ends_in=5, nodes=(node,), owner="me"),
        billed(3, ends_in=5, nodes=(node,), owner="me", id="b-2", state=BoxState.STOPPED),
        billed(3, ends_in=5, nodes=(node,), id="b-3", owner="you"),
        a_volume(owner="me", usage=billed(3, ends_in=5).usage),
    ]
    mine = Match(owners=("me",))
    used = a_budget("18", action=BudgetAction.DOWN, match=mine)
    assert to_end([used], boxes, NOW, MARKET) == {"b-1": "lab"}
    assert to_end([replace_amount(used, "18.01")], boxes, NOW, MARKET) == {}, "it is not all spent"
    assert to_end([a_budget("1")], boxes, NOW, MARKET) == {}, "it only refuses"
    of_runs = a_budget("9", action=BudgetAction.DOWN, per=Per.RUN)
    runs = [
        billed(3, ends_in=5, nodes=(node,), run_id="r-1"),
        billed(9, ends_in=5, nodes=(node,), id="b-9", run_id="r-2"),
    ]
    assert to_end([of_runs], runs, NOW, MARKET) == {"b-9": "lab"}


def replace_amount(budget: Budget, amount: str) -> Budget:
    return replace(budget, terms=replace(budget.terms, amount=Decimal(amount)))


@pytest.mark.parametrize("per", [Per.RUN, Per.TOTAL])
def test_a_plan_without_an_end_needs_a_budget_whose_period_ends(per: Per) -> None:
    endless = planned(ends_in=None)
    with pytest.raises(BudgetError, match="no end") as told:
        refuse_over([standing([], a_budget("1000000", per=per), endless)])
    assert "--ttl" in str(told.value.hint)
    refuse_over([standing([], a_budget("1000000"), endless)])
    assert standing([billed(3, ends_in=None)], a_budget(per=Per.TOTAL)).unknown == ("old: it has no end",)


@pytest.mark.parametrize(
    ("match", "counts_box", "counts_plan"),
    [
        (Match(owners=("me", "you")), True, True),
        (Match(owners=("you",)), False, False),
        (Match(clouds=("aws",)), True, True),
        (Match(clouds=("azure",)), False, True),
        (Match(gpus=("h100",)), True, False),
        (Match(gpus=("t4", "h100")), True, True),
        (Match(tags=(("team", "a"), ("team", "b"))), True, True),
        (Match(tags=(("team", "a"), ("stage", "test"))), False, False),
        (Match(owners=("me",), gpus=("T4",)), False, True),
    ],
)
def test_a_budget_counts_what_it_matches(match: Match, counts_box: bool, counts_plan: bool) -> None:
    """A plan is matched by everything that it may become."""
    wanted = Wanted(spec={"tags": {"team": "a"}})
    box, plan = (each(owner="me", wanted=wanted) for each in (lambda **c: billed(3, ends_in=1, **c), planned))
    assert bool(standing([box], a_budget(match=match)).spent) == counts_box
    assert bool(standings([a_budget(match=match)], [], NOW, MARKET, plan)) == counts_plan


def test_what_has_no_price_or_rate_is_named() -> None:
    yuan = standing([billed(1, ends_in=1, currency="CNY")])
    assert Decimal("0.2") < yuan.spent < Decimal("0.4"), "two yuan in dollars"
    for box, what in (
        (billed(1, ends_in=1, usd=None), "old: no price is known for its compute"),
        (billed(1, ends_in=1, currency="XXX"), "old: no rate is known from XXX to USD"),
    ):
        found = standing([box])
        assert [found.spent, found.committed] == [0, 0]
        assert what in found.unknown
    ceiling = Ceiling(usd_per_hour=Decimal(1), without=("disks",))
    plan = standing([], plan=planned(ceiling=ceiling))
    assert warnings([plan]) == [
        "budget 'lab' counts the known prices alone: new: no price is known for disks"
    ]


def test_periods_are_in_utc_and_the_earliest_decides_what_is_read() -> None:
    assert period(Per.MONTH, NOW) == (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
    assert period(Per.DAY, NOW)[0] == datetime(2026, 11, 20, tzinfo=UTC)
    day, month, total = (a_budget(per=per) for per in (Per.DAY, Per.MONTH, Per.TOTAL))
    assert since_of([day, month], NOW) == datetime(2026, 11, 1, tzinfo=UTC)
    assert since_of([day, total], NOW) is None


def test_terms_are_read_back_as_they_were_written() -> None:
    match = Match(owners=("me",), gpus=("H100",), tags=(("team", "a"),))
    terms = a_budget("0.50", match=match, per=Per.TOTAL).terms
    assert reader(Terms)(json.loads(json.dumps(plain(terms)))) == terms

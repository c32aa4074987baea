"""Budgets in the journal: of all who share it, checked in the transaction that plans a box."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud.errors import BudgetError
from gpucloud.journal.budgets import BudgetAction, Match, Per, Terms
from gpucloud.journal.events import Extended, StateChanged
from gpucloud.journal.facts import Ceiling, Facts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.journal.store import Journal
from gpucloud.journal.verification import copy, verify
from gpucloud.policy.budget_check import BudgetCheck
from gpucloud_pricing import Market
from tests.journal.test_store import NOW, a_lease, clock
from tests.journals import open_journal

MARKET = Market.load()
TERMS = Terms(
    amount=Decimal(35), currency="USD", per=Per.MONTH, match=Match(), warn=(), action=BudgetAction.REFUSE
)


def plan(journal: Journal, name: str, owner: str = "me") -> Box:
    """Ten dollars at most."""
    return journal.plan(
        Box,
        id=f"b-{name}",
        name=name,
        owner=owner,
        run_id=None,
        op="op-1",
        expires_at=NOW + timedelta(hours=10),
        facts=Facts(ceiling=Ceiling(usd_per_hour=Decimal(1))),
        lease=a_lease(),
        limits=BudgetCheck(lambda: MARKET, clock),
    )


def test_of_twenty_launches_at_once_those_for_which_there_is_room_are_planned(
    tmp_path: Path,
) -> None:
    open_journal(tmp_path, clock).set_budget("lab", TERMS, by="me")
    told: list[str] = []
    ready = threading.Barrier(20)

    def launch(number: int) -> None:
        journal = open_journal(tmp_path, clock)
        ready.wait()
        try:
            told.append(plan(journal, f"x{number}", owner=f"owner-{number % 4}").name)
        except BudgetError as error:
            told.append(str(error))

    threads = [threading.Thread(target=launch, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [each for each in told if "$30.00 committed, at most $10.00 for this plan; $35.00" in each]
    journal = open_journal(tmp_path, clock)
    assert (len(journal.boxes(owner=None, over=True)), len(refused), len(told)) == (3, 17, 20)


def test_of_later_ends_at_once_those_for_which_there_is_room_are_written(tmp_path: Path) -> None:
    """Four boxes are committed to 10 dollars each; there is room for 15 more, and each asks for 10 more."""
    journal = open_journal(tmp_path, clock)
    journal.set_budget("lab", replace(TERMS, amount=Decimal(55)), by="me")
    boxes = [plan(journal, f"x{number}") for number in range(4)]
    told: list[str] = []
    ready = threading.Barrier(4)

    def extend(box: Box) -> None:
        mine = open_journal(tmp_path, clock)
        ready.wait()
        later = Extended(expires_at=NOW + timedelta(hours=20))
        try:
            mine.write(box, later, limits=BudgetCheck(lambda: MARKET, clock, "nothing was changed"))
            told.append("written")
        except BudgetError as error:
            told.append(error.message)

    threads = [threading.Thread(target=extend, args=(box,)) for box in boxes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told)[-1] == "written"
    assert sum("nothing was changed" in each for each in told) == 3
    ends = [box.expires_at for box in journal.boxes(owner=None)]
    assert ends.count(NOW + timedelta(hours=20)) == 1


def test_a_box_that_has_ended_makes_room(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, clock)
    journal.set_budget("lab", TERMS, by="me")
    boxes = [plan(journal, name) for name in ("a", "b", "c")]
    with pytest.raises(BudgetError):
        plan(journal, "d")
    journal.write(boxes[0], StateChanged(state=BoxState.FAILED))
    assert plan(journal, "d").ceiling == Ceiling(usd_per_hour=Decimal(1))


def test_budgets_are_set_again_removed_copied_and_verified(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, clock)
    for terms in (TERMS, None, TERMS):
        journal.set_budget("lab", terms, by="me")
    journal.set_budget("gone", TERMS, by="me")
    journal.set_budget("gone", None, by="you")
    with pytest.raises(KeyError):
        journal.set_budget("gone", None, by="me")
    [budget] = journal.budgets()
    assert (budget.name, budget.terms, budget.by, budget.at) == ("lab", TERMS, "me", NOW)
    (tmp_path / "other").mkdir()
    other = open_journal(tmp_path / "other", clock)
    assert (copy(journal, other), copy(journal, other)) == (5, 0)
    assert other.budgets() == [budget]
    assert verify(other).differences == ()
    assert other.budgets() == [budget]
    assert verify(other).differences == ()
    for name in "abc":
        plan(other, name)
    with pytest.raises(BudgetError):
        plan(other, "d")

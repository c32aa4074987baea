"""Which states of a box are worth a message, with words that name the box, the money and the next command."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from gpucloud.costs.anomalies import UnusualDay
from gpucloud.journal.budgets import Per
from gpucloud.journal.events import RunAttempted, RunLost
from gpucloud.journal.facts import GuardReport, Place
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Holding, Run, StoredEvent
from gpucloud.journal.runs import AttemptRecord, Loss, RunState, Work
from gpucloud.monitor.notices import Notice, of_budget, of_run_event, of_state, of_unusual_day
from tests.builders import START, a_volume
from tests.costs.test_budgets import NOW, a_budget, billed, standing

MINUTE = timedelta(minutes=1)
BOX = Box(
    id="b-1",
    name="demo",
    owner="u-me",
    run_id=None,
    op="o-1",
    state=BoxState.READY,
    epoch=1,
    lease=None,
    created_at=START,
    started_at=START,
    ended_at=None,
    expires_at=START + timedelta(hours=8),
    seen_at=None,
    taken_over_at=None,
    place=Place(cloud="aws", region="us-east-1"),
)
SICK = GuardReport(at=0, idle_s=0, health={"hardware": "79, GPU has fallen off the bus", "xid": "45, x"})
TAKEN = GuardReport(at=0, idle_s=0, taken_back_at=0.0, health={})


def lines(box: Holding, *, hours: float = 1, owed: int = 0) -> list[str]:
    return [f"{each.occasion}: {each.line}" for each in of_state(box, owed, START + timedelta(hours=hours))]


@pytest.mark.parametrize(
    ("box", "hours", "owed", "told"),
    [
        (BOX, 1, 0, []),
        (BOX, 7.6, 0, ["ending: demo (aws) ends in 24 min. Next: gpucloud extend demo --ttl 2h"]),
        (
            BOX,
            9,
            0,
            ["overdue: demo (aws) has passed its deadline by 60 min. Next: gpucloud down demo --yes"],
        ),
        (replace(BOX, expires_at=None), 99, 0, []),
        (replace(BOX, expires_at=START + timedelta(minutes=20)), 0, 0, []),
        (replace(BOX, state=BoxState.STOPPED), 9, 0, []),
        (
            replace(BOX, state=BoxState.DELETING),
            9,
            2,
            ["left-behind: 2 things of demo (aws) may still be billed. Next: gpucloud down demo --yes"],
        ),
        (
            a_volume(name="demo", place=BOX.place, state=BoxState.DELETING),
            1,
            1,
            [
                "left-behind: 1 thing of demo (aws) may still be billed."
                + " Next: gpucloud volume delete demo --yes"
            ],
        ),
        (
            replace(BOX, guards=(None, SICK)),
            1,
            0,
            [
                "sick: demo (aws) has faulty hardware: hardware: 79, GPU has fallen off the bus."
                " Next: gpucloud show demo --live"
            ],
        ),
        (replace(BOX, guards=(TAKEN,)), 1, 0, ["interrupted: aws takes demo back."]),
    ],
)
def test_a_state_is_told_with_what_to_do_about_it(
    box: Holding, hours: float, owed: int, told: list[str]
) -> None:
    assert lines(box, hours=hours, owed=owed) == told


def test_a_budget_is_told_at_the_highest_percentage_that_is_reached() -> None:
    def told(amount: str, per: Per = Per.MONTH) -> Notice | None:
        return of_budget(standing([billed(3, ends_in=5)], a_budget(amount, per=per)), NOW)

    assert told("33") is None, "16 dollars of 33 are less than half"
    half, most, day = told("32"), told("20"), told("20", Per.DAY)
    assert half is not None
    assert most is not None
    assert day is not None
    assert half.key == "budget:lab:32:2026-11-01:50"
    assert most.key == "budget:lab:20:2026-11-01:80"
    assert day.key == "budget:lab:20:2026-11-20:80"
    assert most.line == (
        "budget 'lab' is used to 80 %: $6.0000 spent, $10.00 committed; $20.00 per month."
        " Next: gpucloud budget show lab"
    )


def test_an_unusual_day_is_told_once() -> None:
    day = UnusualDay(day=NOW.date(), amount=Decimal(80), middle=Decimal(10), most=Decimal(30))
    [first, later] = (of_unusual_day(replace(day, amount=Decimal(amount)), NOW) for amount in (80, 90))
    assert first.key == later.key == "spend:2026-11-20"
    assert first.line.endswith("at most $30.00. Next: gpucloud spend --since 2026-11-20")


def test_a_deadline_that_was_moved_is_told_again_and_one_that_was_not_has_the_same_key() -> None:
    def key(box: Box) -> str:
        [notice] = of_state(box, 0, START + timedelta(hours=7.8))
        return notice.key

    assert key(BOX) == key(replace(BOX, epoch=2))
    assert key(BOX) != key(replace(BOX, expires_at=START + timedelta(hours=8, minutes=10)))


def test_a_run_that_waits_is_told_once_and_its_tries_are_no_news() -> None:
    times = [START + n * MINUTE for n in range(3)]
    tries = tuple(
        AttemptRecord(box="b", at=at, lost_at=at, loss=Loss.CAPACITY, message="none") for at in times
    )
    run = Run(
        id="run-1",
        run_id="r",
        owner="u-me",
        state=RunState.WAITING,
        epoch=1,
        number=9,
        lease=None,
        created_at=START,
        ended_at=None,
        expires_at=None,
        work=Work(spec={}, command="true", wait_s=3600),
        attempts=tries,
        detached=True,
        unattended=True,
        not_fetched=None,
        restart_at=START + 4 * MINUTE,
        exit_code=None,
        failure=None,
    )
    told: list[str | None] = []
    for each in tries:
        for event in (RunAttempted(box=str(each.box)), RunLost(attempt=each, restart_at=START)):
            stored = StoredEvent(id="e", box="run-1", at=each.at, number=1, event=event)
            notice = of_run_event(stored, run, None)
            told.append(notice.text if notice else None)
    assert told == [None, "Run r waits for a box: there is no capacity.", *[None] * 4]

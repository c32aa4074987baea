"""Waiting for capacity: what is tried again, until when, at which prices, and what is learned meanwhile."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud.ending.teardown import take_down
from gpucloud.errors import (
    CleanupIncompleteError,
    CloudError,
    ErrorClass,
    GpucloudError,
    NoOfferError,
    OutcomeUnknownError,
    PriceError,
)
from gpucloud.journal.errors import StaleWriterError
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.planning.plan import Plan
from gpucloud.planning.quota import refusal, shortfall
from gpucloud.planning.waiting import may_pass, within
from gpucloud.purchase.failover import launch
from gpucloud.purchase.waiting import Wait
from gpucloud.resources import Quota, Ref
from tests.bench import Bench
from tests.builders import START, Clock
from tests.memory import TOKEN_ATOMIC, Fault, MemoryProvider
from tests.planning.test_plan import a_candidate


def failure(error_class: ErrorClass, kind: type[CloudError] = CloudError) -> CloudError:
    return kind("no", error_class=error_class, cloud="aws")


@pytest.mark.parametrize(
    ("error", "first", "later"),
    [
        (failure(ErrorClass.CAPACITY), True, True),
        (failure(ErrorClass.UNSUPPORTED), False, False),
        (failure(ErrorClass.QUOTA), False, False),
        (failure(ErrorClass.PRICE), False, True),
        (PriceError("every offer costs more"), False, True),
        (failure(ErrorClass.AUTH), False, False),
        (failure(ErrorClass.BILLING), False, False),
        (failure(ErrorClass.THROTTLED), False, True),
        (failure(ErrorClass.SERVER), False, True),
        (failure(ErrorClass.BAD_PARAM), False, False),
        (failure(ErrorClass.CAPACITY, OutcomeUnknownError), False, False),
        (CleanupIncompleteError("something is left"), False, False),
        (NoOfferError("nothing matches"), False, False),
    ],
    ids=lambda each: type(each).__name__ + str(getattr(each, "error_class", "")),
)
def test_only_missing_capacity_begins_a_wait_and_what_passes_does_not_end_it(
    error: GpucloudError, first: bool, later: bool
) -> None:
    assert (may_pass(error, waiting=False), may_pass(error, waiting=True)) == (first, later)


@pytest.mark.parametrize(("limit", "passes"), [("4", True), ("2", False), ("0", False)])
def test_a_quota_that_others_use_up_passes_and_one_that_is_too_small_does_not(
    limit: str, passes: bool
) -> None:
    candidate = a_candidate("aws/us-east-1/use1-az4", "1", instance_type="g4dn.xlarge")
    quota = Quota(
        cloud="aws",
        region="us-east-1",
        name="G and VT",
        instance_types=("g4dn.xlarge",),
        unit="vcpus",
        limit=Decimal(limit),
        used=Decimal(limit),
        fix="ask",
        request="ask",
    )
    short = shortfall(candidate, 1, [quota])
    assert short is not None
    assert may_pass(refusal(short), waiting=False) is passes


class Rounds:
    """Launches on a cloud in memory that is sold out; before the fourth round there are machines again."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        provider = MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=self.clock, default_stock=0)
        self.cloud = provider.cloud
        self.bench = Bench(folder, self.clock, [provider])
        self.context = self.bench.context()
        self.learned: set[tuple[str, ...]] = set()
        self.made = 0

    def launch(self, wait: timedelta | None) -> Box:
        """Makes rounds until one succeeds, or the wait is over."""
        rounds = Wait(self.context, wait)
        while True:
            try:
                return self._round()
            except GpucloudError as error:
                rounds.pause_after(error)

    def _round(self) -> Box:
        self.made += 1
        if self.made == 4:
            self.cloud.default_stock = None
        return launch(self.context, self.bench.purchase(box=f"b-{self.made}", learned=self.learned))


def test_a_launch_waits_until_there_is_capacity_and_buys_one_box(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path)
    box = rounds.launch(timedelta(hours=1))
    assert (rounds.made, box.state, rounds.bench.machines()) == (4, BoxState.BOOTSTRAPPING, 1)
    assert rounds.clock() - START >= timedelta(minutes=3), "a minute between the rounds"
    said = [text for step, text in rounds.bench.lines if step == "wait"]
    assert len(said) == 3
    assert all("trying again in 60 s, until 2026-" in text for text in said)


def test_a_wait_ends_with_the_refusals_of_its_last_round_and_nothing_bought(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path)
    with pytest.raises(CloudError) as caught:
        rounds.launch(timedelta(seconds=90))
    assert (caught.value.error_class, caught.value.exit_code) == (ErrorClass.CAPACITY, 5)
    assert "3 rounds until 2026-" in caught.value.message
    assert len(caught.value.attempts) == 3
    assert rounds.bench.billed() == []


def test_without_a_wait_there_is_one_round(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path)
    with pytest.raises(CloudError):
        rounds.launch(None)
    assert rounds.made == 1


def test_a_later_round_asks_for_no_more_than_was_agreed_to() -> None:
    def plan(*prices: str) -> Plan:
        made = [a_candidate("aws/r/z", price) for price in prices]
        return Plan(created_at=START, spec={}, attempts=tuple(made), left_out={})

    agreed = plan("1", "2")
    most = max(each.ceiling_usd for each in agreed.attempts)
    again = within(agreed, plan("0.5", "2", "3"))
    assert [each.price_usd for each in again.attempts] == [Decimal("0.5"), Decimal(2)]
    assert all(each.ceiling_usd <= most for each in again.attempts)
    with pytest.raises(PriceError, match="costs more than"):
        within(agreed, plan("3"))


def test_what_a_place_does_not_have_at_all_is_tried_once_in_all_rounds(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path)
    never = rounds.cloud.say(ErrorClass.UNSUPPORTED, "not in this zone")
    rounds.cloud.faults.append(Fault(action="create", zone="use1-az4", error=never, times=99))
    box = rounds.launch(timedelta(hours=1))
    assert (rounds.made, box.place and box.place.zone) == (4, "use1-az6")
    assert rounds.cloud.faults[0].hits == 1


def test_a_wait_ends_where_somebody_ended_the_box_that_had_no_capacity(tmp_path: Path) -> None:
    """``down`` of its name, from another shell, while a round gives up: the next one must not buy it."""
    rounds = Rounds(tmp_path)

    class Ended(MemoryProvider):
        def delete(self, ref: Ref, /) -> None:
            if rounds.made == 2 and not ended:
                ended.append(ref)
                other = rounds.bench.context()
                [box] = other.journal.boxes(owner=other.owner)
                taken = other.take(box, by_force=True)
                assert taken is not None
                take_down(other, taken, budget_s=60)
                other.journal.release(taken)
            super().delete(ref)

    ended: list[Ref] = []
    rounds.bench.kind = Ended
    rounds.context = rounds.bench.context()
    with pytest.raises(StaleWriterError, match="taken over by another gpucloud"):
        rounds.launch(timedelta(hours=1))
    assert (rounds.made, rounds.bench.machines()) == (2, 0)

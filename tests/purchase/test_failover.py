"""Launching on clouds of three temperaments: failover, lost answers, price, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucloud.ending.reconcile import refresh, remains, settle
from gpucloud.ending.teardown import take_down
from gpucloud.errors import (
    CleanupIncompleteError,
    CloudError,
    ErrorClass,
    GpucloudError,
    OutcomeUnknownError,
    PriceError,
    Scope,
)
from gpucloud.journal.errors import NameTakenError
from gpucloud.journal.events import StateChanged
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState
from gpucloud.purchase.failover import Tried, launch
from gpucloud.resources import Machine, Request
from gpucloud_pricing.purchases import Purchase
from tests.bench import OWNER, Bench
from tests.builders import Clock
from tests.memory import (
    BY_NAME_LONG_RUNNING,
    TOKEN_ATOMIC,
    VANISHING,
    CloudSaid,
    ConnectionLost,
    MemoryProvider,
    Temperament,
)
from tests.planning.test_plan import a_candidate

TEMPERAMENTS = [TOKEN_ATOMIC, BY_NAME_LONG_RUNNING, VANISHING]
Make = Callable[..., Bench]


@pytest.fixture(params=TEMPERAMENTS, ids=[t.name for t in TEMPERAMENTS])
def temperament(request: pytest.FixtureRequest) -> Temperament:
    found: Temperament = request.param
    return found


@pytest.fixture
def bench(tmp_path: Path, temperament: Temperament) -> Make:
    def make(**of_cloud: Any) -> Bench:
        clock = Clock()
        provider = MemoryProvider.named("aws", temperament=temperament, clock=clock, **of_cloud)
        return Bench(tmp_path, clock, [provider])

    return make


def zones_worth_trying(temperament: Temperament) -> list[str]:
    """Where a cloud says that a whole region is out of stock, its other zones are not asked."""
    whole_region = temperament.capacity_scope is Scope.TYPE_IN_REGION
    return ["use1-az4", "usw2-az1"] if whole_region else ["use1-az4", "use1-az6", "usw2-az1"]


def test_the_first_offer_that_has_stock_is_taken(bench: Make, temperament: Temperament) -> None:
    """One box, in the next place that may have some, and what it is stands in the journal."""
    b = bench(stock={("use1-az4", "g4dn.xlarge"): 0})
    box = launch(b.context(), b.purchase())
    zone = zones_worth_trying(temperament)[1]
    assert (box.state, box.place and box.place.zone, b.machines()) == (BoxState.BOOTSTRAPPING, zone, 1)
    assert box.price_per_hour == {"use1-az6": 2, "usw2-az1": 3}[zone]
    assert [node.state for node in box.nodes] == ["running"]
    assert all(node.public_ip for node in box.nodes)


def test_without_stock_anywhere_every_attempt_is_told_and_nothing_is_left(
    bench: Make, temperament: Temperament
) -> None:
    """Exit 5, the cloud's own code for each attempt."""
    b = bench(default_stock=0)
    with pytest.raises(CloudError) as caught:
        launch(b.context(), b.purchase())
    assert caught.value.exit_code == 5
    assert [attempt["zone"] for attempt in caught.value.attempts] == zones_worth_trying(temperament)
    assert all(attempt["code"] for attempt in caught.value.attempts)
    assert b.billed() == []
    assert [box.state for box in b.context().journal.boxes(owner="u-tester", over=True)] == [BoxState.FAILED]


def test_past_the_limit_for_attempts_no_further_one_is_begun(bench: Make, temperament: Temperament) -> None:
    """A move gives all of its places one limit; in each that it begins, one machine is asked for."""
    b = bench(default_stock=0)
    with pytest.raises(CloudError) as caught:
        launch(b.context(), b.purchase(until=b.clock() - timedelta(seconds=1)))
    assert [attempt["zone"] for attempt in caught.value.attempts] == zones_worth_trying(temperament)[:1]
    assert b.billed() == []


@pytest.mark.parametrize(
    ("error_class", "exit_code", "attempts"),
    [
        (ErrorClass.QUOTA, 6, 2),  # the second zone of the region is not worth a call
        (ErrorClass.PRICE, 7, 3),
        (ErrorClass.AUTH, 4, 1),  # the whole cloud is left out
        (ErrorClass.BILLING, 4, 1),
    ],
)
def test_the_class_of_a_refusal_decides_what_is_tried_next(
    bench: Make, error_class: ErrorClass, exit_code: int, attempts: int
) -> None:
    """Quota skips the region, credentials and standing skip the cloud."""
    b = bench()
    cloud = b.providers[0].cloud
    cloud.fail("create", cloud.say(error_class), times=99)
    with pytest.raises(CloudError) as caught:
        launch(b.context(), b.purchase())
    assert (caught.value.exit_code, len(caught.value.attempts)) == (exit_code, attempts)
    assert b.billed() == []


@pytest.mark.parametrize(
    ("scope", "also"),
    [
        (Scope.ATTEMPT, ""),
        (Scope.ZONE, "type"),
        (Scope.TYPE_IN_REGION, "zone"),
        (Scope.REGION, "type, zone, purchase"),
        (Scope.TYPE, "zone, region"),
        (Scope.PURCHASE, "type, zone, region"),
        (Scope.ACCOUNT, "type, zone, region, purchase"),
        (Scope.EVERYWHERE, "type, zone, region, purchase, cloud"),
    ],
)
def test_exactly_what_a_refusal_reaches_is_skipped(scope: Scope, also: str) -> None:
    """``also`` are the others, named by how they differ from what was refused; spot is of another zone."""
    refused = a_candidate("aws/us-east-1/use1-az4")
    others = {
        "type": replace(refused, instance_type="t.huge"),
        "zone": replace(refused, zone="use1-az6"),
        "region": replace(refused, region="us-west-2", zone="usw2-az1"),
        "purchase": replace(refused, zone="use1-az1", purchase=Purchase.SPOT),
        "cloud": replace(refused, cloud="azure", region="eastus", zone=""),
    }
    tried = Tried(until=Clock()())
    tried.failed(refused, CloudError("no", error_class=ErrorClass.AUTH, cloud="aws", scope=scope))
    assert tried.skip(refused)
    assert ", ".join(name for name, other in others.items() if tried.skip(other)) == also


def test_one_reservation_that_is_used_up_does_not_rule_out_another() -> None:
    one = a_candidate("aws/us-east-1/use1-az4", purchase=Purchase.RESERVED, reservation="cr-1")
    tried = Tried(until=Clock()())
    tried.failed(one, CloudError("full", error_class=ErrorClass.CAPACITY, cloud="aws", scope=Scope.ATTEMPT))
    assert not tried.skip(replace(one, reservation="cr-2"))


ODD = CloudSaid("NeverHeardOf", "Our own words.", status=400)
"""A refusal with a code that no table knows."""


def test_a_code_that_no_table_knows_leaves_a_cloud_out_once_two_regions_have_refused_with_it(
    bench: Make,
) -> None:
    """Nothing is left, and the code's own words are told."""
    b = bench()
    b.providers[0].cloud.fail("create", ODD, times=99)
    offers = b.offers("us-east-1/use1-az4", "us-west-2/usw2-az1", "us-east-1/use1-az6")
    with pytest.raises(CloudError) as caught:
        launch(b.context(), b.purchase(offers))
    assert [attempt["zone"] for attempt in caught.value.attempts] == ["use1-az4", "usw2-az1"]
    assert caught.value.code == "NeverHeardOf"
    assert "Our own words." in caught.value.message
    assert any("Our own words.; refused in two regions: leaving out aws" in text for _, text in b.lines)
    assert b.billed() == []


def test_a_code_that_no_table_knows_may_be_about_one_place(bench: Make) -> None:
    b = bench()
    b.providers[0].cloud.fail("create", ODD)
    box = launch(b.context(), b.purchase())
    assert (b.machines(), box.place and box.place.zone) == (1, "use1-az6")


def test_after_a_lost_answer_a_code_that_no_table_knows_settles_nothing(bench: Make) -> None:
    """What the first call asked for may exist: no other offer is tried."""
    b = bench()
    cloud = b.providers[0].cloud
    cloud.fail("create", ConnectionLost())
    cloud.fail("create", ODD, times=99)
    with pytest.raises(GpucloudError):
        launch(b.context(), b.purchase())
    assert {call.region for call in cloud.calls if call.action == "create"} == {"us-east-1"}
    assert b.machines() == 0


def test_a_lost_answer_does_not_make_a_second_machine(bench: Make) -> None:
    """The same call again, with the same key, finds what the first one made."""
    b = bench()
    b.providers[0].cloud.fail("create", ConnectionLost(), applied=True)
    box = launch(b.context(), b.purchase())
    assert (b.machines(), box.place and box.place.zone) == (1, "use1-az4")
    assert len({entry.ref for entry in b.providers[0].cloud.ledger if str(entry.ref.kind) == "instance"}) == 1


def test_no_other_offer_is_tried_while_the_outcome_of_one_is_unknown(bench: Make) -> None:
    """Requests never arrive, nothing can be seen: it ends, the call stays owed, and no zone follows."""
    b = bench()
    cloud = b.providers[0].cloud
    cloud.fail("create", ConnectionLost(), times=999)
    with pytest.raises(CleanupIncompleteError) as caught:
        launch(b.context(), b.purchase())
    assert isinstance(caught.value.__cause__, OutcomeUnknownError)
    assert caught.value.left[0]["kind"] == "instance"
    tried = {call.name for call in cloud.calls if call.action == "create"}
    assert len(tried) <= 1
    assert b.machines() == 0


def test_what_was_owed_is_closed_after_the_window_and_the_name_is_free(bench: Make) -> None:
    """Nothing appeared within ten minutes: there was nothing."""
    b = bench()
    cloud = b.providers[0].cloud
    fault = cloud.fail("create", ConnectionLost(), times=999)
    with pytest.raises(CleanupIncompleteError):
        launch(b.context(), b.purchase())
    cloud.faults.remove(fault)
    b.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    assert settle(b.context()) == []
    box = launch(b.context(), b.purchase(box="b-2"))
    assert (box.name, b.machines()) == ("x", 1)


def test_a_machine_that_appears_late_is_found_and_taken_down(bench: Make) -> None:
    """The answer was lost for good, and the lists lag: the next command still finds it."""
    b = bench()
    cloud = b.providers[0].cloud
    fault = cloud.fail("create", ConnectionLost(), times=999, applied=True)
    looks = [cloud.fail(action, ConnectionLost(), times=999) for action in ("get", "list")]
    with pytest.raises(CleanupIncompleteError):
        launch(b.context(), b.purchase())
    assert b.machines() == 1
    for each in (fault, *looks):
        cloud.faults.remove(each)
    assert settle(b.context(), budget_s=120) == []
    assert b.billed() == []


class Died(BaseException):
    """The process is killed here."""


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("action", ["make-group", "create", "get"])
def test_a_process_that_dies_anywhere_leaves_nothing_for_long(
    bench: Make, action: str, applied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead launch's box is taken down by the next changing command, found by intent or by tag."""
    b = bench()
    context = b.context()
    monkeypatch.setattr(
        "gpucloud.purchase.failover.abandon", lambda *_: None
    )  # a dead process cleans nothing up
    b.providers[0].cloud.fail(action, Died(), applied=applied)
    try:
        launch(context, b.purchase())
    except Died:
        pass
    else:
        pytest.skip(f"this cloud makes no {action} call")
    context.journal.release(context.journal.box("b-1"))
    later = b.context()
    settle(later, budget_s=300)
    b.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    assert settle(later, budget_s=300) == []
    assert b.billed() == []
    assert remains(later, later.journal.boxes(owner=OWNER)) == []


def test_a_name_is_refused_while_its_box_lives(bench: Make) -> None:
    """Nothing is asked of the cloud."""
    b = bench()
    launch(b.context(), b.purchase())
    before = len(b.providers[0].cloud.calls)
    with pytest.raises(NameTakenError):
        launch(b.context(), b.purchase(box="b-2"))
    assert len(b.providers[0].cloud.calls) == before


def test_all_nodes_or_none(bench: Make, temperament: Temperament) -> None:
    """Three are asked for, two are in stock in the first zone: all three come from the next."""
    b = bench(stock={("use1-az4", "g4dn.xlarge"): 2})
    box = launch(b.context(), b.purchase(nodes=3))
    zone = zones_worth_trying(temperament)[1]
    assert (box.place and box.place.zone, len(box.nodes), b.machines()) == (zone, 3, 3)


class Cheat(MemoryProvider):
    """A cloud that starts something else than what was ordered."""

    def create(self, request: Request, /) -> Sequence[Machine]:
        return [replace(machine, instance_type="dear.24xlarge") for machine in super().create(request)]


def test_a_machine_that_is_not_what_was_agreed_to_is_taken_down(bench: Make) -> None:
    """Another type, another way of paying or another zone is never kept."""
    b = bench()
    b.kind = Cheat
    with pytest.raises(PriceError, match=r"dear\.24xlarge"):
        launch(b.context(), b.purchase())
    assert b.billed() == []


def test_down_returns_when_nothing_is_billed(bench: Make) -> None:
    """Machine, disk and what else was made: gone, and the box is deleted."""
    b = bench()
    context = b.context()
    box = launch(context, b.purchase())
    assert b.billed() != []
    over = take_down(context, box, budget_s=600)
    assert (over.state, b.billed()) == (BoxState.DELETED, [])


def test_a_deletion_that_does_nothing_is_asked_for_again(bench: Make) -> None:
    """The cloud says yes and does nothing: it is not believed."""
    b = bench()
    context = b.context()
    box = launch(context, b.purchase())
    b.providers[0].cloud.fail("delete", deliveries=0, times=2)
    assert take_down(context, box, budget_s=1200).state is BoxState.DELETED
    assert b.billed() == []


def test_other_credentials_change_nothing(bench: Make) -> None:
    """A box of one account is not touched with the credentials of another; it stays owed."""
    b = bench()
    context = b.context()
    box = launch(context, b.purchase())
    b.providers[0].cloud.account = "account-2"
    calls = len(b.providers[0].cloud.mutating())
    with pytest.raises(CleanupIncompleteError, match="account-1"):
        take_down(b.context(), box, budget_s=10)
    assert len(b.providers[0].cloud.mutating()) == calls


def test_a_box_past_its_end_is_taken_down_by_the_next_changing_command(bench: Make) -> None:
    """Overdue is unwanted."""
    b = bench()
    context = b.context()
    box = launch(context, b.purchase(expires_at=b.clock() + timedelta(hours=1)))
    context.journal.write(box, StateChanged(state=BoxState.READY))
    context.journal.release(box)
    assert remains(context, context.journal.boxes(owner=OWNER)) == []
    b.clock.sleep(3601)
    assert [each.name for each in remains(context, context.journal.boxes(owner=OWNER))] == ["x"]
    assert settle(context, budget_s=300) == []
    assert b.billed() == []


@pytest.mark.parametrize("young", [False, True])
def test_a_box_that_its_cloud_took_back_is_shown_as_interrupted(bench: Make, young: bool) -> None:
    """Looking changes nothing in the cloud; the journal says what was seen."""
    b = bench()
    context = b.context()
    box = launch(context, b.purchase(b.offers(purchase=Purchase.SPOT, ceiling_usd=Decimal(3))))
    context.journal.write(box, StateChanged(state=BoxState.READY))
    [machine] = b.providers[0].cloud.machines()
    if not young:
        b.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    b.providers[0].cloud.preempt(machine.ref)
    calls = len(b.providers[0].cloud.mutating())
    seen = refresh(context, context.journal.box(box.id))
    assert seen.state is BoxState.INTERRUPTED
    assert len(b.providers[0].cloud.mutating()) == calls

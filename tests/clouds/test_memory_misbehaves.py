"""The clouds in memory misbehave as told: what the engine's tests build on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.resources import End, Machine, Ref, ResourceKind, Search, State
from gpucloud_pricing.purchases import Purchase
from tests.builders import START, Told, an_order
from tests.conformance import ids
from tests.memory import BY_NAME_LONG_RUNNING, CloudSaid, ConnectionLost, MemoryProvider, Pace

ORDER = an_order()
HERE = Search(box=ORDER.tags.box, regions=(ORDER.region,))


def buy(provider: MemoryProvider, **changes: Any) -> Machine:
    return provider.create(provider.prepare(an_order(**changes), Told()))[0]


def kinds_billed(provider: MemoryProvider) -> list[ResourceKind]:
    return sorted(entry.ref.kind for entry in provider.cloud.billing())


def test_a_machine_runs_after_as_many_looks_and_seconds_as_said() -> None:
    provider = MemoryProvider.named("aws", boots=Pace(looks=2, seconds=30))
    machine = buy(provider)
    assert [provider.get(machine.ref).state for _ in range(3)] == [State.PENDING] * 3
    provider.cloud.clock.sleep(30)
    running = provider.get(machine.ref)
    assert isinstance(running, Machine)
    assert running.state is State.RUNNING
    assert running.public_ip is not None
    assert running.public_ip.startswith("203.0.113.")


def test_lists_lag_behind_creation() -> None:
    provider = MemoryProvider.named("aws", listed=Pace(seconds=60))
    machine = buy(provider)
    assert not provider.find(HERE).resources
    assert provider.get(machine.ref).ref == machine.ref
    provider.cloud.clock.sleep(60)
    assert machine.ref.id in ids(provider.find(HERE).resources)


def test_a_refused_call_does_nothing_and_a_lost_answer_does() -> None:
    provider = MemoryProvider.named("aws")
    request = provider.prepare(ORDER, Told())
    provider.cloud.fail("create", ConnectionLost())
    with pytest.raises(ConnectionLost):
        provider.create(request)
    assert not provider.cloud.machines()
    provider.cloud.fail("create", ConnectionLost(), applied=True)
    with pytest.raises(ConnectionLost):
        provider.create(request)
    assert len(provider.cloud.machines()) == 1


def test_a_fault_strikes_the_calls_that_it_names() -> None:
    provider = MemoryProvider.named("aws")
    provider.cloud.fail("create", CloudSaid("Blocked"), nth=2, zone=ORDER.zone)
    buy(provider, zone="use1-az6")
    buy(provider, attempt=2)
    with pytest.raises(CloudSaid) as refusal:
        buy(provider, attempt=3)
    assert refusal.value.request_id
    buy(provider, attempt=4)
    assert len(provider.cloud.machines()) == 3


def test_the_death_of_the_process_leaves_what_was_applied() -> None:
    class Killed(BaseException):
        pass

    provider = MemoryProvider.named("aws")
    provider.cloud.fail("create", Killed(), applied=True)
    with pytest.raises(Killed):
        buy(provider)
    assert len(provider.cloud.machines()) == 1


def test_a_request_that_is_delivered_twice_makes_one_machine() -> None:
    for name in ("aws", "azure", "alibaba"):
        provider = MemoryProvider.named(name)
        provider.cloud.fail("create", deliveries=2)
        buy(provider)
        assert len(provider.cloud.machines()) == 1


def test_a_deletion_may_be_answered_and_not_done() -> None:
    provider = MemoryProvider.named("aws")
    machine = buy(provider)
    provider.cloud.fail("delete", deliveries=0)
    provider.delete(machine.ref)
    assert [provider.get(machine.ref).state for _ in range(5)][-1] is State.RUNNING
    assert kinds_billed(provider) == [ResourceKind.DISK, ResourceKind.INSTANCE]


def test_a_call_takes_as_long_as_said() -> None:
    provider = MemoryProvider.named("aws")
    provider.cloud.fail("account", delay_s=90)
    provider.account()
    assert provider.cloud.clock() == START + timedelta(seconds=90)


def test_stock_is_taken_and_given_back() -> None:
    provider = MemoryProvider.named("aws", stock={(ORDER.zone, ORDER.instance_type): 1})
    machine = buy(provider)
    with pytest.raises(CloudSaid, match="InsufficientInstanceCapacity"):
        buy(provider, attempt=2)
    provider.delete(machine.ref)
    while provider.get(machine.ref).state is not State.GONE:
        pass
    assert buy(provider, attempt=2).ref != machine.ref


def test_a_token_of_a_dead_machine_is_an_error() -> None:
    provider = MemoryProvider.named("aws")
    request = provider.prepare(ORDER, Told())
    machine = provider.create(request)[0]
    provider.cloud.end(machine.ref)
    with pytest.raises(CloudSaid, match="IdempotentInstanceTerminated"):
        provider.create(request)


def test_a_put_that_fails_late_leaves_disk_interface_and_address_behind() -> None:
    provider = MemoryProvider.named("azure", default_stock=0)
    with pytest.raises(CloudSaid, match="AllocationFailed"):
        buy(provider)
    for _ in range(3):
        resources = provider.find(HERE).resources
    left = {resource.ref.kind for resource in resources} - set(BY_NAME_LONG_RUNNING.stands_on)
    assert left == {ResourceKind.DISK, ResourceKind.NIC, ResourceKind.ADDRESS}
    assert kinds_billed(provider) == [ResourceKind.ADDRESS, ResourceKind.DISK]
    provider.delete(Ref(cloud="azure", account=ORDER.account, region=ORDER.region,
                        kind=ResourceKind.RESOURCE_GROUP, id=_group_of(provider)))  # fmt: skip
    for _ in range(3):
        provider.find(HERE)
    assert not provider.cloud.billing()


def test_a_box_that_ends_itself_by_name_keeps_its_disk_and_address_on_the_bill() -> None:
    provider = MemoryProvider.named("azure")
    machine = buy(provider)
    while provider.get(machine.ref).state is not State.RUNNING:
        pass
    provider.ensure_end([machine], End(at=ORDER.deadline), (), lambda _: None)
    provider.cloud.clock.sleep(24 * 3600)
    assert provider.get(machine.ref).state is State.STOPPED
    assert kinds_billed(provider) == [ResourceKind.ADDRESS, ResourceKind.DISK]


@pytest.mark.parametrize("name", ["aws", "alibaba"])
def test_a_box_that_ends_itself_elsewhere_is_off_the_bill(name: str) -> None:
    provider = MemoryProvider.named(name)
    machine = buy(provider)
    while provider.get(machine.ref).state is not State.RUNNING:
        pass
    provider.cloud.clock.sleep(24 * 3600)
    provider.account()
    assert not provider.cloud.billing()


def test_ids_without_stock_vanish() -> None:
    provider = MemoryProvider.named("alibaba", default_stock=0, remembers=False)
    machine = buy(provider)
    assert provider.get(machine.ref).state is State.PENDING
    with pytest.raises(CloudSaid, match="NotFound"):
        provider.get(machine.ref)
    assert not provider.cloud.billing()


def test_the_history_tells_of_ids_that_vanished() -> None:
    provider = MemoryProvider.named("alibaba", default_stock=0)
    machine = buy(provider)
    provider.get(machine.ref)
    seen = provider.get(machine.ref)
    assert isinstance(seen, Machine)
    assert (seen.state, seen.reason) == (State.GONE, "SystemFailure.Delete")


def test_an_end_is_never_set_nearer_than_the_cloud_takes() -> None:
    provider = MemoryProvider.named("alibaba")
    request = provider.prepare(replace(ORDER, deadline=START + timedelta(minutes=5)), Told())
    assert datetime.fromisoformat(request["ends_at"]) == START + timedelta(minutes=32)
    provider.cloud.clock.sleep(10 * 60)
    with pytest.raises(CloudSaid, match="InvalidAutoReleaseTime"):
        provider.create(request)


def test_a_denied_list_is_empty_and_a_dry_run_tells() -> None:
    provider = MemoryProvider.named("alibaba")
    buy(provider)
    provider.cloud.deny("list")
    assert not provider.cloud.listing(ORDER.region, lambda _: True)
    assert [unread.region for unread in provider.find(HERE).unread] == [ORDER.region]


def test_prices_are_by_type_or_by_place() -> None:
    at = (ORDER.zone, "gpu.small", Purchase.SPOT)
    provider = MemoryProvider.named("aws", prices={"gpu.small": Decimal(2), at: Decimal("0.25")})
    spot = provider.quotes(ORDER.region, ["gpu.small"], Purchase.SPOT)
    assert {quote.zone: quote.price_per_hour for quote in spot}[ORDER.zone] == Decimal("0.25")
    assert {quote.zone: quote.price_per_hour for quote in spot}["use1-az6"] == Decimal("0.6")
    assert provider.quotes(ORDER.region, ["gpu.small"], Purchase.ON_DEMAND)[0].price_per_hour == 2


def test_the_ledger_keeps_what_was_billed_and_until_when() -> None:
    provider = MemoryProvider.named("aws", prices={ORDER.instance_type: Decimal(3)})
    machine = buy(provider)
    provider.cloud.clock.sleep(3600)
    provider.cloud.end(machine.ref)
    (entry,) = [entry for entry in provider.cloud.ledger if entry.ref == machine.ref]
    assert (entry.price_per_hour, entry.since) == (Decimal(3), START)
    assert entry.until == START + timedelta(hours=1)


def _group_of(provider: MemoryProvider) -> str:
    (group,) = [t for t in provider.find(HERE).resources if t.ref.kind is ResourceKind.RESOURCE_GROUP]
    return group.ref.id

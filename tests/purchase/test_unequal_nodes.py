"""Nodes that are not alike, clouds that are not installed, kinds that nobody declared: the box follows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucloud.bring_up.bring_up import targets
from gpucloud.clouds.cloud import Cloud, Clouds
from gpucloud.clouds.provider import DeletionGraph
from gpucloud.costs.spend import charges, per_hour
from gpucloud.ending.discovery import begin, finish
from gpucloud.ending.reconcile import refresh, refresh_all, settle
from gpucloud.ending.teardown import take_down
from gpucloud.errors import CleanupIncompleteError
from gpucloud.journal.events import Made, StateChanged, named
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState
from gpucloud.journal.records import Box
from gpucloud.purchase.failover import launch
from gpucloud.resources import ResourceKind, Search
from gpucloud_pricing.billing import billing_of
from gpucloud_pricing.purchases import Purchase
from tests.bench import OWNER, Bench
from tests.builders import Clock, a_ref, some_tags
from tests.memory import TOKEN_ATOMIC, VANISHING, MemoryProvider, Temperament


def a_bench(folder: Path, temperament: Temperament = TOKEN_ATOMIC) -> Bench:
    clock = Clock()
    return Bench(folder, clock, [MemoryProvider.named("aws", temperament=temperament, clock=clock)])


def ready(bench: Bench, box: str = "b-1", **changes: Any) -> Box:
    context = bench.context()
    made = launch(context, bench.purchase(bench.offers(purchase=Purchase.SPOT), box=box, **changes))
    context.journal.write(made, StateChanged(state=BoxState.READY))
    context.journal.release(made)
    return context.journal.box(box)


@pytest.mark.parametrize("temperament", [TOKEN_ATOMIC, VANISHING])
def test_a_spot_node_that_is_gone_of_three_is_told_and_not_paid_for(
    tmp_path: Path, temperament: Temperament
) -> None:
    """The others go on: the box stays ready, costs two thirds, and its nodes keep their numbers."""
    bench = a_bench(tmp_path, temperament)
    box = ready(bench, nodes=3)
    [price] = (money.amount for money in per_hour(box, billing_of).known)
    assert box.price is not None
    first, *others = [node.instance_id for node in box.nodes]
    bench.clock.sleep(3600)
    cloud = bench.providers[0].cloud
    cloud.preempt(a_ref(id=first, region=box.machine(0).region))
    for _ in range(2):  # what is known to be gone is not asked for again
        seen = refresh(bench.context(), bench.context().journal.box(box.id))
        assert seen.state is BoxState.READY
        assert [node.instance_id for node in seen.nodes] == [first, *others]
        assert [node.state for node in seen.nodes] == ["gone", "running", "running"]
        bench.clock.sleep(3600)
    assert [money.amount for money in per_hour(seen, billing_of).known] == [price * 2 / 3]
    cost = sum(
        (
            each.amount
            for each in charges(seen, None, bench.clock(), billing_of)
            if each.part == "compute" and each.amount
        ),
        Decimal(0),
    )
    hours = [(bench.clock() - box.started_at) / timedelta(hours=1) - gone for gone in (2, 0, 0)]  # type: ignore[operator]
    assert cost == pytest.approx(box.price.amount * Decimal(sum(hours)), abs=Decimal("0.001"))
    compute = [each for each in charges(seen, None, bench.clock(), billing_of) if each.part == "compute"]
    assert float(sum(each.quantity for each in compute)) == pytest.approx(sum(hours), abs=0.001)
    assert [target.node for target in targets(seen, tmp_path, None)] == [1, 2]

    for each in others:
        cloud.preempt(a_ref(id=each, region=box.machine(0).region))
    assert refresh(bench.context(), seen).state is BoxState.INTERRUPTED


def test_a_node_that_is_unknown_by_its_id_is_gone_once_it_can_not_be_late(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    box = ready(bench, nodes=2)
    cloud = bench.providers[0].cloud
    del cloud.items[box.machine(0).region, box.nodes[1].instance_id]
    assert refresh(bench.context(), box).gone_nodes == 0
    bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds())
    assert refresh(bench.context(), box).gone_nodes == 1


def test_a_cloud_whose_sdk_is_missing_breaks_no_command_about_others(tmp_path: Path) -> None:
    """Settling, looking, searching and ending go on; the box there is owed at once, not after ten minutes."""
    clock = Clock()
    both = [MemoryProvider.named(name, clock=clock) for name in ("aws", "azure")]
    bench = Bench(tmp_path, clock, both)
    there = Bench(tmp_path, clock, both[1:])
    here, lost = ready(bench), ready(there, "b-2", name="y", expires_at=clock() + timedelta(minutes=30))
    clock.sleep(3600)
    context = bench.context()

    def missing() -> MemoryProvider:
        raise ImportError("Azure needs its SDK")

    context = replace(context, clouds=Clouds({"aws": lambda: both[0], "azure": missing}))
    assert isinstance(context.clouds["aws"], Cloud)
    [trouble] = refresh_all(context, [here, lost])
    assert "Azure needs its SDK" in trouble.message
    assert "Azure needs its SDK" in settle(context)[0].message
    discovery = finish(context, begin(context, Search(owner=OWNER)))
    assert {resource.ref.cloud for resource in discovery.resources} == {"aws"}
    assert [region.cloud for region in discovery.unread] == ["azure"]
    assert take_down(context, here, budget_s=600).state is BoxState.DELETED
    before = clock()
    with pytest.raises(CleanupIncompleteError, match="Azure needs its SDK"):
        take_down(context, lost, budget_s=600)
    assert clock() - before < timedelta(minutes=1)


class Undeclared(MemoryProvider):
    """Does not say where keys come among its kinds."""

    @property
    def deletion(self) -> DeletionGraph:
        order = super().deletion.order
        return DeletionGraph.in_order(*(kind for kind in order if kind is not ResourceKind.KEY))


def test_a_kind_that_a_provider_does_not_declare_is_deleted_last(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    bench.kind = Undeclared
    box = ready(bench)
    cloud = bench.providers[0].cloud
    key = a_ref(kind=ResourceKind.KEY, id="key-1", region=box.machine(0).region)
    cloud.add(key, "key", some_tags(owner=OWNER, box="b-1").as_dict())
    context = bench.context()
    context.journal.write(box, Made(resource=named(key, "key")))
    assert take_down(context, context.journal.box(box.id), budget_s=600).state is BoxState.DELETED
    deleted = [call.name for call in cloud.calls if call.action == "delete"]
    assert deleted[-1] == "key-1"

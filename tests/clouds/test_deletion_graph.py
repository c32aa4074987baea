"""Which kinds depend on which when they are deleted."""

from __future__ import annotations

from gpucloud.clouds.provider import DeletionGraph
from gpucloud.resources import ResourceKind as Kind

GRAPH = DeletionGraph(
    held_by={
        Kind.GROUP: (Kind.INSTANCE, Kind.NIC),
        Kind.NIC: (Kind.INSTANCE,),
        Kind.INSTANCE: (),
        Kind.NETWORK: (Kind.INSTANCE, Kind.NETWORK),
    }
)


def test_each_kind_comes_after_those_that_hold_on_to_it() -> None:
    order = list(GRAPH.order)
    assert sorted(order) == sorted(GRAPH.held_by)
    assert order.index(Kind.INSTANCE) < order.index(Kind.NIC) < order.index(Kind.GROUP)


def test_what_is_not_declared_waits_for_all_that_is() -> None:
    assert GRAPH.holders(Kind.KEY) == set(GRAPH.held_by)
    assert GRAPH.holders(Kind.INSTANCE) == frozenset()


def test_a_kind_may_hold_itself() -> None:
    assert GRAPH.holders(Kind.NETWORK) == {Kind.INSTANCE}
    assert (GRAPH.holds_itself(Kind.NETWORK), GRAPH.holds_itself(Kind.GROUP)) == (True, False)


def test_in_an_order_each_kind_waits_for_all_before_it() -> None:
    graph = DeletionGraph.in_order(Kind.INSTANCE, Kind.DISK, Kind.GROUP)
    assert graph.holders(Kind.GROUP) == {Kind.INSTANCE, Kind.DISK}
    assert tuple(graph.order) == (Kind.INSTANCE, Kind.DISK, Kind.GROUP)

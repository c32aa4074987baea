"""The billable call: all or none, the same key the same machines, never above the bid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from functools import partial

from gpucloud.clouds.abilities import Reservations
from gpucloud.clouds.provider import Verdict
from gpucloud.errors import RULES, ErrorClass
from gpucloud.resources import Machine, NodeSlot, ResourceKind
from gpucloud_pricing.purchases import Purchase
from tests.builders import Told
from tests.conformance.harness import (
    Conformance,
    Harness,
    bought,
    cannot,
    eventually,
    found,
    ids,
    is_gone,
    machines_of,
    outcome,
    refused,
    running,
    take_down,
)


class Creating(Conformance):
    """The obligations; one test each."""

    def test_a_machine_is_what_was_ordered(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        machine = running(harness, machines[0])
        assert len(machines) == 1
        assert machine.tags == order.tags
        assert machine.instance_type == order.instance_type
        assert machine.purchase is order.purchase
        assert machine.zone in {order.zone, ""} or not order.zone
        assert machine.ref == machines[0].ref
        assert machine.ref.account == harness.provider.account()
        assert machine.ref.region == order.region
        assert machine.private_ip

    def test_a_repeated_create_call_gives_the_same_machines(self, harness: Harness) -> None:
        order = harness.order()
        request, first = bought(harness, order)
        again = harness.provider.create(json.loads(json.dumps(request)))
        assert ids(again) == ids(first)
        running(harness, first[0])
        assert ids(harness.provider.create(request)) == ids(first)
        assert len(machines_of(harness, order)) == 1

    def test_concurrent_create_calls_give_the_same_machines(self, harness: Harness) -> None:
        order = harness.order()
        request = harness.provider.prepare(order, Told())

        def create(_: int) -> Sequence[Machine]:
            return eventually(harness, lambda: harness.provider.create(request), "created")

        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(create, range(8)))
        assert len({frozenset(ids(machines)) for machines in answers}) == 1
        running(harness, answers[0][0])
        assert len(machines_of(harness, order)) == 1

    def test_a_lost_answer_is_resolved_by_the_same_request(self, harness: Harness) -> None:
        order = harness.order()
        request = harness.provider.prepare(order, Told())
        harness.lose_answer("create")
        verdict = refused(harness, lambda: harness.provider.create(request))
        assert not RULES[verdict.error_class].definite
        assert verdict.sent
        machines = harness.provider.create(request)
        running(harness, machines[0])
        assert machines_of(harness, order) == ids(machines)

    def test_another_order_with_the_same_key_is_refused(self, harness: Harness) -> None:
        order = harness.order()
        bought(harness, order)
        other = harness.provider.prepare(replace(order, disk_gib=order.disk_gib + 10), Told())
        verdict = refused(harness, lambda: harness.provider.create(other))
        assert not RULES[verdict.error_class].definite
        assert len(machines_of(harness, order)) == 1

    def test_a_key_never_brings_an_ended_machine_back_as_if_it_lived(self, harness: Harness) -> None:
        order = harness.order()
        request, machines = bought(harness, order)
        running(harness, machines[0])
        harness.provider.delete(machines[0].ref)
        eventually(harness, lambda: is_gone(harness, machines[0].ref), "gone")
        again = outcome(harness, lambda: harness.provider.create(request))
        if isinstance(again, Verdict):
            assert not RULES[again.error_class].definite
        else:  # a cloud that knows machines by name makes it anew; one that vanishes gives the dead id
            assert ids(again) == ids(machines)

    def test_the_next_attempt_has_another_key_and_gives_another_machine(self, harness: Harness) -> None:
        order = harness.order()
        _, first = bought(harness, order)
        _, second = bought(harness, replace(order, key=order.key[:-1] + "x"))
        assert ids(first).isdisjoint(ids(second))

    def test_all_nodes_are_made_by_one_order(self, harness: Harness) -> None:
        order = harness.order(nodes=3)
        request, machines = bought(harness, order)
        assert len(ids(machines)) == 3
        nodes = [running(harness, machine) for machine in machines]
        assert len({node.private_ip for node in nodes}) == 3
        assert {node.zone for node in nodes} == {nodes[0].zone}
        assert ids(harness.provider.create(request)) == ids(machines)

    def test_without_stock_for_all_nodes_none_lives(self, harness: Harness) -> None:
        order = harness.order(nodes=2)
        harness.empty_stock(order)
        request = harness.provider.prepare(order, Told())
        answer = outcome(harness, lambda: harness.provider.create(request))
        if isinstance(answer, Verdict):
            assert answer.error_class is ErrorClass.CAPACITY
        else:  # ids that are worth nothing
            for machine in answer:
                eventually(harness, partial(is_gone, harness, machine.ref), "gone")

        eventually(harness, lambda: not machines_of(harness, order), "without machines")

    def test_one_node_that_is_bought_alone_joins_the_others(self, harness: Harness) -> None:
        """In what they stand on, of which nothing is made anew."""
        order, first = harness.order(nodes=2), Told()
        request = harness.provider.prepare(order, first)
        pair = eventually(harness, lambda: harness.provider.create(request), "created")
        eventually(harness, lambda: ids(pair) <= machines_of(harness, order), "shown")
        harness.provider.delete(pair[1].ref)
        eventually(harness, lambda: is_gone(harness, pair[1].ref), "gone")
        alone = replace(order, key=f"{order.key[:-1]}x", vacancy=NodeSlot(rank=1, key=order.key))
        told = Told()
        request = harness.provider.prepare(alone, told)
        joined = eventually(harness, lambda: harness.provider.create(request), "created")
        assert len(joined) == 1
        assert not ids(joined) & ids(pair)
        own = {ResourceKind.ADDRESS, ResourceKind.NIC}
        assert {ref for ref in told.refs if ref.kind not in own} <= set(first.refs)
        there = {pair[0].ref.id, *ids(joined)}
        eventually(harness, lambda: machines_of(harness, order) == there, "two machines")

    def test_what_a_late_failure_leaves_behind_is_found_and_can_be_deleted(self, harness: Harness) -> None:
        order = harness.order()
        harness.empty_stock(order)
        request = harness.provider.prepare(order, Told())
        answer = outcome(harness, lambda: harness.provider.create(request))
        assert not isinstance(answer, Verdict) or answer.error_class is ErrorClass.CAPACITY
        billed = set(harness.billed())
        assert billed <= ids(found(harness, box=order.tags.box))
        take_down(harness, box=order.tags.box)
        assert not harness.billed()

    def test_a_spot_machine_says_so(self, harness: Harness) -> None:
        order = harness.order(purchase=Purchase.SPOT)
        _, machines = bought(harness, order)
        assert running(harness, machines[0]).purchase is Purchase.SPOT

    def test_the_bid_of_a_spot_machine_is_a_limit(self, harness: Harness) -> None:
        order = harness.order(purchase=Purchase.SPOT, max_price_usd=Decimal("0.0001"))
        harness.raise_spot_price(order)
        request = harness.provider.prepare(order, Told())
        verdict = refused(harness, lambda: harness.provider.create(request))
        assert verdict.error_class in {ErrorClass.PRICE, ErrorClass.CAPACITY}
        left = {t.ref.kind for t in found(harness, box=order.tags.box) if t.ref.kind.billable}
        assert left <= {ResourceKind.ADDRESS}

    def test_a_reserved_machine_goes_into_what_is_held(self, harness: Harness) -> None:
        source = harness.provider.ability(Reservations)
        if source is None:
            cannot("hold capacity")
        order = harness.order()
        held_id = harness.hold(order)
        held = source.held(order.region, [order.instance_type])
        assert [each.free > 0 for each in held if each.id == held_id] == [True]
        _, machines = bought(harness, replace(order, reservation=held_id, purchase=Purchase.RESERVED))
        assert running(harness, machines[0]).purchase is Purchase.RESERVED
        left = {each.id: each.free for each in source.held(order.region, [order.instance_type])}
        assert left.get(held_id, 0) == next(each.free for each in held if each.id == held_id) - 1

    def test_a_bought_machine_is_billed_until_it_is_gone(self, harness: Harness) -> None:
        _, machines = bought(harness, harness.order())
        running(harness, machines[0])
        assert machines[0].ref.id in harness.billed()
        harness.provider.delete(machines[0].ref)
        eventually(harness, lambda: is_gone(harness, machines[0].ref), "gone")
        assert machines[0].ref.id not in harness.billed()

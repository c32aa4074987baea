"""Deleting: idempotent, in the declared order, until nothing is billed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gpucloud.errors import ErrorClass
from gpucloud.resources import ResourceKind, State
from tests.builders import Told
from tests.conformance.harness import (
    Conformance,
    Harness,
    another,
    bought,
    cannot,
    eventually,
    found,
    is_gone,
    refused,
    running,
    take_down,
)


class Deleting(Conformance):
    """The obligations; one test each."""

    def test_deleting_twice_is_success(self, harness: Harness) -> None:
        _, machines = bought(harness, harness.order())
        running(harness, machines[0])
        harness.provider.delete(machines[0].ref)
        harness.provider.delete(machines[0].ref)
        eventually(harness, lambda: is_gone(harness, machines[0].ref), "gone")
        harness.provider.delete(machines[0].ref)

    def test_deleting_what_never_existed_is_success(self, harness: Harness) -> None:
        order = harness.order()
        told = Told()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        harness.provider.prepare(order, told)
        resources = [*machines, *found(harness, box=order.tags.box)]
        for ref in {resource.ref.kind: resource.ref for resource in resources}.values():
            harness.provider.delete(replace(ref, id=another(ref.id)))
        assert harness.provider.get(machines[0].ref).state is State.RUNNING

    def test_a_lost_answer_to_a_deletion_is_repeated(self, harness: Harness) -> None:
        _, machines = bought(harness, harness.order())
        running(harness, machines[0])
        harness.lose_answer("delete")
        refused(harness, lambda: harness.provider.delete(machines[0].ref))
        harness.provider.delete(machines[0].ref)
        eventually(harness, lambda: is_gone(harness, machines[0].ref), "gone")

    def test_what_is_still_in_use_is_refused_for_now(self, harness: Harness) -> None:
        order, told = harness.order(), Told()
        harness.provider.prepare(order, told)
        _, machines = bought(harness, order)
        running(harness, machines[0])
        group = next((ref for ref in told.refs if ref.kind is ResourceKind.GROUP), None)
        if group is None:
            cannot("make a group of the box's own")
        verdict = refused(harness, lambda: harness.provider.delete(group))
        assert verdict.error_class is ErrorClass.EVENTUAL

    def test_every_kind_that_is_found_has_its_place_in_the_order_of_deletion(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        kinds = {resource.ref.kind for resource in found(harness, box=order.tags.box)}
        declared = set(harness.provider.deletion.order)
        assert kinds | {part.kind for part in machines[0].parts} <= declared

    def test_it_is_said_what_ends_a_box_at_its_deadline(self, harness: Harness) -> None:
        assert harness.provider.ending.strip()

    def test_a_box_is_taken_down_in_that_order(self, harness: Harness) -> None:
        order = harness.order(nodes=2)
        told = Told()
        harness.provider.prepare(order, told)
        _, machines = bought(harness, order)
        parts = [part for machine in machines for part in running(harness, machine).parts]
        take_down(harness, box=order.tags.box)
        for ref in (*told.refs, *(machine.ref for machine in machines), *parts):
            eventually(harness, partial(is_gone, harness, ref), "gone")

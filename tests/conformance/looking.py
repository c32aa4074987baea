"""Getting and finding: by id, by tag, by key; and no conclusion where one may not look."""

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest

from gpucloud.clouds.abilities import ConsoleLog
from gpucloud.clouds.provider import Verdict
from gpucloud.errors import ErrorClass
from gpucloud.resources import Machine, ResourceKind, Search, State
from gpucloud_pricing.purchases import Purchase
from tests.conformance.harness import (
    Conformance,
    Harness,
    another,
    bought,
    cannot,
    eventually,
    found,
    ids,
    is_gone,
    outcome,
    refused,
    running,
    take_down,
)


class Looking(Conformance):
    """The obligations; one test each."""

    def test_the_tags_are_on_everything_that_is_billed(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        machine = running(harness, machines[0])
        assert ResourceKind.DISK in {part.kind for part in machine.parts}
        wanted = {machine.ref.id, *(part.id for part in machine.parts)}
        eventually(harness, lambda: wanted <= ids(found(harness, box=order.tags.box)), "found with all parts")
        resources = found(harness, box=order.tags.box)
        assert all(resource.tags == order.tags for resource in resources)
        assert len(ids(resources)) == len(resources)

    def test_all_that_is_billed_is_found(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        eventually(harness, lambda: set(harness.billed()) <= ids(found(harness, box=order.tags.box)), "found")

    @pytest.mark.parametrize("by", ["owner", "box", "op", "run"])
    def test_things_are_found_by_each_tag_and_only_by_theirs(self, harness: Harness, by: str) -> None:
        one, other = harness.order(), harness.order()
        _, (machine, *_) = bought(harness, one)
        _, (stranger, *_) = bought(harness, other)
        wanted = getattr(one.tags, by)
        eventually(harness, lambda: machine.ref.id in ids(found(harness, **{by: wanted})), f"found by {by}")
        assert (stranger.ref.id in ids(found(harness, **{by: wanted}))) == (by == "owner")
        assert not found(harness, **{by: "nobody-" + secrets.token_hex(4)})

    def test_two_tags_must_both_match(self, harness: Harness) -> None:
        order = harness.order()
        bought(harness, order)
        eventually(harness, lambda: found(harness, box=order.tags.box), "shown")
        assert not found(harness, box=order.tags.box, owner="somebody-else")

    def test_a_machine_is_found_by_the_key_of_its_create_call(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        if not harness.finds_by_token:
            assert not found(harness, token=order.key, regions=(order.region,))
            cannot("ask by key: nothing is found by one, rather than everything")
        search = {"token": order.key, "regions": (order.region,)}
        eventually(harness, lambda: ids(machines) <= ids(found(harness, **search)), "found by its key")
        instances = [t for t in found(harness, **search) if t.ref.kind is ResourceKind.INSTANCE]
        assert ids(instances) == ids(machines)
        assert not found(harness, token="gpc-" + "0" * 36, regions=(order.region,))

    def test_another_owners_things_are_never_given(self, harness: Harness) -> None:
        stranger = harness.order(tags=harness.tags(owner=harness.owner + "-x"))
        bought(harness, stranger)
        mine = harness.order()
        _, machines = bought(harness, mine)
        eventually(harness, lambda: machines[0].ref.id in ids(found(harness, owner=harness.owner)), "found")
        theirs = Search(owner=harness.owner)
        assert all(theirs.admits(resource.tags) for resource in found(harness, owner=harness.owner))
        take_down(harness, owner=harness.owner + "-x")

    def test_a_search_for_machines_only_gives_nothing_else(self, harness: Harness) -> None:
        _, machines = bought(harness, harness.order())
        mine = {"owner": harness.owner, "machines_only": True}
        eventually(harness, lambda: machines[0].ref.id in ids(found(harness, **mine)), "found")
        assert {resource.ref.kind for resource in found(harness, **mine)} == {ResourceKind.INSTANCE}

    def test_a_search_without_regions_looks_everywhere(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        eventually(harness, lambda: machines[0].ref.id in ids(found(harness, box=order.tags.box)), "found")
        assert machines[0].ref.id in ids(found(harness, box=order.tags.box, regions=(order.region,)))
        assert not found(harness, box=order.tags.box, regions=())

    def test_a_region_that_may_not_be_read_is_unread_and_no_proof_of_absence(self, harness: Harness) -> None:
        order = harness.order()
        bought(harness, order)
        harness.deny_lists(order.region)
        answer = harness.provider.find(Search(owner=harness.owner, regions=(order.region,)))
        assert not answer.resources
        assert [unread.region for unread in answer.unread] == [order.region]
        assert answer.unread[0].error
        everywhere = harness.provider.find(Search(owner=harness.owner))
        assert order.region in {unread.region for unread in everywhere.unread}

    def test_a_new_machine_can_be_got_by_its_id(self, harness: Harness) -> None:
        _, machines = bought(harness, harness.order())
        resource = eventually(harness, lambda: harness.provider.get(machines[0].ref), "got")
        assert resource.ref == machines[0].ref
        assert resource.state in {State.PENDING, State.RUNNING}

    def test_every_found_thing_can_be_got_by_its_id(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        eventually(harness, lambda: len(found(harness, box=order.tags.box)) > 1, "found")
        for resource in found(harness, box=order.tags.box):
            got = harness.provider.get(resource.ref)
            assert got.ref == resource.ref
            assert got.tags == resource.tags

    def test_an_unknown_id_is_not_found(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        unknown = replace(machines[0].ref, id=another(machines[0].ref.id))
        verdict = refused(harness, lambda: harness.provider.get(unknown))
        assert verdict.error_class is ErrorClass.NOT_FOUND

    def test_an_ended_machine_is_told_as_gone(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        harness.provider.delete(machines[0].ref)
        eventually(harness, lambda: is_gone(harness, machines[0].ref), "gone")
        resources = harness.provider.find(Search(box=order.tags.box)).resources
        again = [resource for resource in resources if resource.ref == machines[0].ref]
        assert all(resource.state is State.GONE for resource in again)

    def test_a_machine_that_was_taken_back_is_gone(self, harness: Harness) -> None:
        order = harness.order(purchase=Purchase.SPOT)
        _, machines = bought(harness, order)
        running(harness, machines[0])
        harness.preempt(machines[0].ref)
        eventually(harness, lambda: is_gone(harness, machines[0].ref), "gone")
        seen = outcome(harness, lambda: harness.provider.get(machines[0].ref))
        if isinstance(seen, Verdict):
            assert seen.error_class is ErrorClass.NOT_FOUND
        else:
            assert isinstance(seen, Machine)
            assert seen.preempted
            assert seen.reason

    def test_the_console_is_text(self, harness: Harness) -> None:
        source = harness.provider.ability(ConsoleLog)
        if source is None:
            cannot("read a console")
        _, machines = bought(harness, harness.order())
        running(harness, machines[0])
        assert isinstance(eventually(harness, lambda: source.console(machines[0].ref), "logged"), str)

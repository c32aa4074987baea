"""What every provider must do, as tests with one text for memory, the sandbox and the real clouds.

A provider's test class says in a few lines where it gets its cloud from::

    class TestAws(ProviderConformance):
        @pytest.fixture
        def harness(self) -> Harness:
            return AwsHarness(...)

What a harness cannot do (take stock away from a real cloud) skips the tests that need it, with the reason.
Every test takes down what it made. On a real cloud they rent machines: mark the class ``live`` and give
orders of the cheapest type.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, NoReturn, TypeVar

import pytest

from gpucloud.errors import RULES, ErrorClass, Next
from gpucloud.model import Kind, Machine, Order, Purchase, Ref, Request, Search, State, Tags, Thing
from gpucloud.provider import CapacitySource, ConsoleLog, PriceSource, Provider, Verdict
from tests.builders import Told, some_tags

T = TypeVar("T")


class Harness:
    """What the suite needs besides the provider. Override what your level can do.

    Attributes:
        provider: the provider under test.
        looks: how often something that takes time is looked at, with :meth:`tick` in between.
        empty_looks: how many looks in a row must find nothing before that is believed: lists lag.
        finds_by_token: whether the cloud can be asked by idempotency key.
    """

    provider: Provider
    looks: int = 50
    empty_looks: int = 4
    finds_by_token: bool = True

    def __init__(self) -> None:
        self.owner = f"u-conformance-{secrets.token_hex(4)}"
        self._numbers = itertools.count(1)

    def order(self, **changes: Any) -> Order:
        """A valid order for one cheap machine, on demand, with these changes; see ``an_order``."""
        raise NotImplementedError

    def tags(self, **changes: str) -> Tags:
        """The tags of a new box of this test's owner."""
        number = next(self._numbers)
        own = {"owner": self.owner, "box": f"{self.owner}-b{number}", "op": f"{self.owner}-o{number}"}
        return some_tags(**{**own, "run": f"{self.owner}-r{number}", **changes})

    def tick(self) -> None:
        """Lets a moment pass: moves a clock, or sleeps."""

    def billed(self) -> Collection[str]:
        """The ids that the cloud bills now, by its own account."""
        cannot("show what is billed")

    def mutating_calls(self) -> int:
        """How many changing calls the cloud has received."""
        cannot("count calls")

    def refuse(self, error_class: ErrorClass) -> None:
        """Makes the next create call fail in the cloud's words for this class."""
        cannot("make a create call fail")

    def lose_answer(self, of: str) -> None:
        """Applies the next call of this kind and loses its answer: ``prepare``, ``create`` or ``delete``."""
        cannot("lose an answer")

    def deny_lists(self, region: str) -> None:
        """Takes away the permission to look for things in a region."""
        cannot("take a permission away")

    def empty_stock(self, order: Order) -> None:
        """Leaves nothing of this order's type in its zone; for several nodes, one too few."""
        cannot("take stock away")

    def restore(self) -> None:
        """Gives back every permission and lifts every fault, so that a test can be cleaned up after."""

    def raise_spot_price(self, order: Order) -> None:
        """Makes the spot price higher than this order's bid."""
        cannot("move prices")

    def preempt(self, ref: Ref) -> None:
        """Takes a spot machine back."""
        cannot("take a machine back")

    def hold(self, order: Order) -> str:
        """Holds capacity for this order and gives its id."""
        cannot("hold capacity")


def cannot(what: str) -> NoReturn:
    """Skips a test that needs what this harness lacks."""
    pytest.skip(f"this harness cannot {what}")


def eventually(harness: Harness, look: Callable[[], T], what: str) -> T:
    """Looks until the answer is true; what cannot be asked for yet counts as not yet."""
    said = ""
    for _ in range(harness.looks):
        try:
            seen = look()
        except Exception as error:
            verdict = verdict_of(harness, error)
            if verdict.error_class not in {ErrorClass.NOT_FOUND, ErrorClass.EVENTUAL, ErrorClass.THROTTLED}:
                raise
            said = f" ({verdict.code})"
        else:
            if seen:
                return seen
        harness.tick()
    pytest.fail(f"never {what}{said}")


def verdict_of(harness: Harness, error: Exception) -> Verdict:
    """What the provider says of an exception; one that it does not know is a failure of the test."""
    verdict = harness.provider.classify(error)
    if verdict is None:
        raise error
    return verdict


def outcome(harness: Harness, call: Callable[[], T]) -> T | Verdict:
    """What a call gives, or the verdict on its failure."""
    try:
        return call()
    except Exception as error:
        return verdict_of(harness, error)


def refused(harness: Harness, call: Callable[[], object]) -> Verdict:
    """The verdict on a call that must fail."""
    verdict = outcome(harness, call)
    assert isinstance(verdict, Verdict), f"the call was not refused but gave {verdict}"
    return verdict


def bought(harness: Harness, order: Order) -> tuple[Request, Sequence[Machine]]:
    """Prepares and creates. A group that was just made may not be seen by the create call yet."""
    request = harness.provider.prepare(order, Told())

    def create() -> Sequence[Machine]:
        return harness.provider.create(request)

    return request, eventually(harness, create, "created")


def running(harness: Harness, machine: Machine) -> Machine:
    """The machine, once it runs and has an address."""

    def look() -> Thing | None:
        thing = harness.provider.get(machine.ref)
        ready = isinstance(thing, Machine) and thing.state is State.RUNNING and thing.public_ip
        return thing if ready else None

    thing = eventually(harness, look, "running")
    assert isinstance(thing, Machine)
    return thing


def found(harness: Harness, **search: Any) -> list[Thing]:
    """What is found and lives."""
    return [t for t in harness.provider.find(Search(**search)).things if t.state is not State.GONE]


def ids(things: Sequence[Thing]) -> set[str]:
    """The ids of things."""
    return {thing.ref.id for thing in things}


def machines_of(harness: Harness, order: Order) -> set[str]:
    """The ids of the living machines of an order's box, after as many looks as lists may lag."""
    shown: set[str] = set()
    for _ in range(harness.empty_looks):
        shown = ids([t for t in found(harness, box=order.tags.box) if t.ref.kind is Kind.INSTANCE])
        harness.tick()
    return shown


def is_gone(harness: Harness, ref: Ref) -> bool:
    """Whether the cloud says that a thing is gone: shows it so, or does not know it any more."""
    seen = outcome(harness, lambda: harness.provider.get(ref))
    if isinstance(seen, Verdict):
        assert seen.error_class in {ErrorClass.NOT_FOUND, ErrorClass.THROTTLED}, seen
        return seen.error_class is ErrorClass.NOT_FOUND
    return seen.state is State.GONE


def take_down(harness: Harness, **search: Any) -> None:
    """Deletes all that is found, in the provider's order, until nothing is found any more."""
    order = list(harness.provider.deletion_order)
    empty_looks = 0
    for _ in range(harness.looks):
        answer = harness.provider.find(Search(**search))
        assert not answer.unread
        living = [thing for thing in answer.things if thing.state is not State.GONE]
        empty_looks = empty_looks + 1 if not living else 0
        if empty_looks == harness.empty_looks:
            return
        for thing in sorted(living, key=lambda thing: order.index(thing.ref.kind)):
            verdict = outcome(harness, partial(harness.provider.delete, thing.ref))
            assert verdict is None or RULES[verdict.error_class].next is Next.AGAIN, f"{thing.ref}: {verdict}"
        harness.tick()
    pytest.fail(f"still there: {ids(found(harness, **search))}")


class ProviderConformance:
    """The obligations of :class:`gpucloud.provider.Provider`, one test each."""

    @pytest.fixture
    def harness(self) -> Harness:
        raise NotImplementedError("a provider's test class gives its own harness")

    @pytest.fixture(autouse=True)
    def leaves_nothing(self, harness: Harness) -> Iterator[None]:
        """Whatever a test did, nothing of its owner is left, and the cloud bills nothing."""
        yield
        harness.restore()
        take_down(harness, owner=harness.owner)
        if type(harness).billed is not Harness.billed:
            assert not harness.billed()

    # --- preparing

    def test_preparing_makes_nothing_billable(self, harness: Harness) -> None:
        order = harness.order()
        harness.provider.prepare(order, Told())
        assert not [t for t in found(harness, box=order.tags.box) if t.ref.kind.billable]

    def test_preparing_bills_nothing(self, harness: Harness) -> None:
        harness.provider.prepare(harness.order(), Told())
        assert not harness.billed()

    def test_preparing_again_gives_the_same_request_and_makes_nothing_more(self, harness: Harness) -> None:
        order = harness.order()
        first = harness.provider.prepare(order, Told())
        things = eventually(harness, lambda: found(harness, box=order.tags.box), "shown")
        again = harness.provider.prepare(order, Told())
        assert again == first
        assert ids(found(harness, box=order.tags.box)) == ids(things)

    def test_preparing_at_the_same_time_makes_one_group(self, harness: Harness) -> None:
        order = harness.order()

        def prepare(_: int) -> Request:
            return eventually(harness, lambda: harness.provider.prepare(order, Told()), "prepared")

        with ThreadPoolExecutor(4) as threads:
            requests = list(threads.map(prepare, range(4)))
        assert all(request == requests[0] for request in requests)
        eventually(harness, lambda: found(harness, box=order.tags.box), "shown")
        kinds = [thing.ref.kind for thing in found(harness, box=order.tags.box)]
        assert len(kinds) == len(set(kinds))

    def test_the_record_is_told_before_and_after_each_thing_that_is_made(self, harness: Harness) -> None:
        order, told = harness.order(), Told()
        harness.provider.prepare(order, told)
        pending: list[Kind] = []
        for event, kind, _ in told.events:
            if event == "making":
                pending.append(kind)
            elif pending:
                assert pending.pop() is kind
        assert not pending
        made = {ref.id for ref in told.refs}
        assert eventually(harness, lambda: found(harness, box=order.tags.box), "shown")
        assert ids(found(harness, box=order.tags.box)) <= made

    def test_the_record_is_told_before_the_call_is_made(self, harness: Harness) -> None:
        order, before = harness.order(), harness.mutating_calls()

        class Refuses(Told):
            def making(self, kind: Kind, name: str, /) -> None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            harness.provider.prepare(order, Refuses())
        assert harness.mutating_calls() == before
        assert not found(harness, box=order.tags.box)

    def test_the_id_of_a_thing_whose_answer_was_lost_is_told_when_it_is_found_again(
        self, harness: Harness
    ) -> None:
        order, told = harness.order(), Told()
        harness.lose_answer("prepare")
        refused(harness, lambda: harness.provider.prepare(order, told))
        harness.provider.prepare(order, told)
        things = eventually(harness, lambda: found(harness, box=order.tags.box), "shown")
        assert ids(things) <= {ref.id for ref in told.refs}

    def test_the_request_is_plain_json_without_credentials(self, harness: Harness) -> None:
        request = harness.provider.prepare(harness.order(), Told())
        text = json.dumps(request)
        assert json.loads(text) == request
        secret = [v for k, v in os.environ.items() if k.endswith(("SECRET", "SECRET_ACCESS_KEY", "TOKEN"))]
        assert not [value for value in secret if len(value) > 3 and value in text]
        assert "PRIVATE KEY" not in text

    # --- creating

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
        assert not [t for t in found(harness, box=order.tags.box) if t.ref.kind.billable]

    def test_a_reserved_machine_goes_into_what_is_held(self, harness: Harness) -> None:
        source = harness.provider
        if not isinstance(source, CapacitySource):
            cannot("hold capacity")
        order = harness.order()
        held_id = harness.hold(order)
        held = source.held(order.region, [order.instance_type])
        assert [each.free > 0 for each in held if each.id == held_id] == [True]
        _, machines = bought(harness, replace(order, reservation=held_id, purchase=Purchase.RESERVED))
        running(harness, machines[0])
        left = {each.id: each.free for each in source.held(order.region, [order.instance_type])}
        assert left.get(held_id, 0) == next(each.free for each in held if each.id == held_id) - 1

    def test_a_bought_machine_is_billed_until_it_is_gone(self, harness: Harness) -> None:
        _, machines = bought(harness, harness.order())
        running(harness, machines[0])
        assert machines[0].ref.id in harness.billed()
        harness.provider.delete(machines[0].ref)
        eventually(harness, lambda: is_gone(harness, machines[0].ref), "gone")
        assert machines[0].ref.id not in harness.billed()

    # --- looking

    def test_the_tags_are_on_everything_that_is_billed(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        machine = running(harness, machines[0])
        assert Kind.DISK in {part.kind for part in machine.parts}
        wanted = {machine.ref.id, *(part.id for part in machine.parts)}
        eventually(harness, lambda: wanted <= ids(found(harness, box=order.tags.box)), "found with all parts")
        things = found(harness, box=order.tags.box)
        assert all(thing.tags == order.tags for thing in things)
        assert len(ids(things)) == len(things)

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
        instances = [t for t in found(harness, **search) if t.ref.kind is Kind.INSTANCE]
        assert ids(instances) == ids(machines)
        assert not found(harness, token="gpc-" + "0" * 36, regions=(order.region,))

    def test_another_owners_things_are_never_given(self, harness: Harness) -> None:
        stranger = harness.order(tags=harness.tags(owner=harness.owner + "-x"))
        bought(harness, stranger)
        mine = harness.order()
        _, machines = bought(harness, mine)
        eventually(harness, lambda: machines[0].ref.id in ids(found(harness, owner=harness.owner)), "found")
        owners = {thing.tags.owner for thing in found(harness, owner=harness.owner) if thing.tags}
        assert owners == {harness.owner}
        take_down(harness, owner=harness.owner + "-x")

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
        assert not answer.things
        assert [unread.region for unread in answer.unread] == [order.region]
        assert answer.unread[0].error
        everywhere = harness.provider.find(Search(owner=harness.owner))
        assert order.region in {unread.region for unread in everywhere.unread}

    def test_a_new_machine_can_be_got_by_its_id(self, harness: Harness) -> None:
        _, machines = bought(harness, harness.order())
        thing = eventually(harness, lambda: harness.provider.get(machines[0].ref), "got")
        assert thing.ref == machines[0].ref
        assert thing.state in {State.PENDING, State.RUNNING}

    def test_every_found_thing_can_be_got_by_its_id(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        eventually(harness, lambda: len(found(harness, box=order.tags.box)) > 1, "found")
        for thing in found(harness, box=order.tags.box):
            got = harness.provider.get(thing.ref)
            assert got.ref == thing.ref
            assert got.tags == thing.tags

    def test_an_unknown_id_is_not_found(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        unknown = replace(machines[0].ref, id=_another(machines[0].ref.id))
        verdict = refused(harness, lambda: harness.provider.get(unknown))
        assert verdict.error_class is ErrorClass.NOT_FOUND

    def test_an_ended_machine_is_told_as_gone(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        harness.provider.delete(machines[0].ref)
        eventually(harness, lambda: is_gone(harness, machines[0].ref), "gone")
        things = harness.provider.find(Search(box=order.tags.box)).things
        again = [thing for thing in things if thing.ref == machines[0].ref]
        assert all(thing.state is State.GONE for thing in again)

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
        source = harness.provider
        if not isinstance(source, ConsoleLog):
            cannot("read a console")
        _, machines = bought(harness, harness.order())
        running(harness, machines[0])
        assert isinstance(eventually(harness, lambda: source.console(machines[0].ref), "logged"), str)

    # --- deleting

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
        things = [*machines, *found(harness, box=order.tags.box)]
        for ref in {thing.ref.kind: thing.ref for thing in things}.values():
            harness.provider.delete(replace(ref, id=_another(ref.id)))
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
        group = next((ref for ref in told.refs if ref.kind is Kind.GROUP), None)
        if group is None:
            cannot("make a group of the box's own")
        verdict = refused(harness, lambda: harness.provider.delete(group))
        assert verdict.error_class is ErrorClass.EVENTUAL

    def test_every_kind_that_is_found_has_its_place_in_the_order_of_deletion(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        kinds = {thing.ref.kind for thing in found(harness, box=order.tags.box)}
        declared = harness.provider.deletion_order
        assert kinds | {part.kind for part in machines[0].parts} <= set(declared)
        assert len(set(declared)) == len(declared)

    def test_a_box_is_taken_down_in_that_order(self, harness: Harness) -> None:
        order = harness.order(nodes=2)
        told = Told()
        harness.provider.prepare(order, told)
        _, machines = bought(harness, order)
        parts = [part for machine in machines for part in running(harness, machine).parts]
        take_down(harness, box=order.tags.box)
        for ref in (*told.refs, *(machine.ref for machine in machines), *parts):
            eventually(harness, partial(is_gone, harness, ref), "gone")

    # --- errors and prices

    @pytest.mark.parametrize(
        "error_class",
        [
            ErrorClass.CAPACITY,
            ErrorClass.UNSUPPORTED,
            ErrorClass.QUOTA,
            ErrorClass.PRICE,
            ErrorClass.AUTH,
            ErrorClass.THROTTLED,
            ErrorClass.SERVER,
        ],
    )
    def test_a_refusal_keeps_its_class_and_the_clouds_own_words(
        self, harness: Harness, error_class: ErrorClass
    ) -> None:
        order = harness.order()
        request = harness.provider.prepare(order, Told())
        harness.refuse(error_class)
        verdict = refused(harness, lambda: harness.provider.create(request))
        assert verdict.error_class is error_class
        assert verdict.code
        assert verdict.message
        assert verdict.request_id
        assert not [t for t in found(harness, box=order.tags.box) if t.ref.kind is Kind.INSTANCE]

    def test_an_error_of_another_origin_is_not_explained(self, harness: Harness) -> None:
        assert harness.provider.classify(ValueError("no SDK raised this")) is None
        assert harness.provider.classify(KeyError("nor this")) is None

    @pytest.mark.parametrize("purchase", [Purchase.ON_DEMAND, Purchase.SPOT])
    def test_prices_of_today_are_positive_and_have_a_currency(
        self, harness: Harness, purchase: Purchase
    ) -> None:
        source = harness.provider
        if not isinstance(source, PriceSource):
            cannot("ask for prices")
        order = harness.order()
        quotes = source.quotes(order.region, [order.instance_type], purchase)
        assert quotes
        for quote in quotes:
            assert quote.price_per_hour > 0
            assert len(quote.currency) == 3
            assert (quote.cloud, quote.region) == (harness.provider.name, order.region)
            assert (quote.instance_type, quote.purchase) == (order.instance_type, purchase)
            assert quote.source
            assert quote.as_of.tzinfo is not None

    def test_a_type_that_the_cloud_does_not_know_has_no_price(self, harness: Harness) -> None:
        source = harness.provider
        if not isinstance(source, PriceSource):
            cannot("ask for prices")
        assert not source.quotes(harness.order().region, ["no.such-type"], Purchase.ON_DEMAND)

    def test_looking_changes_nothing(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        before = harness.mutating_calls()
        harness.provider.find(Search(owner=harness.owner))
        harness.provider.get(machines[0].ref)
        harness.provider.account()
        if isinstance(harness.provider, PriceSource):
            harness.provider.quotes(order.region, [order.instance_type], Purchase.ON_DEMAND)
        assert harness.mutating_calls() == before

    def test_several_boxes_are_bought_and_taken_down_at_the_same_time(self, harness: Harness) -> None:
        orders = [harness.order() for _ in range(4)]

        def live_and_die(order: Order) -> set[str]:
            _, machines = bought(harness, order)
            running(harness, machines[0])
            take_down(harness, box=order.tags.box)
            return ids(machines)

        with ThreadPoolExecutor(4) as threads:
            made = list(threads.map(live_and_die, orders))
        assert len(set().union(*made)) == 4


def _another(id: str) -> str:  # noqa: A002
    """An id of the same form that nothing has."""
    last = id[-1]
    return id[:-2] + ("00" if last != "0" else "11") if id[-2:] != "00" else id[:-2] + "fe"

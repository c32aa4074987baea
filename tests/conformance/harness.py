"""What the conformance suite stands on: a harness per provider, and how it looks, waits and takes down."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

import pytest

from gpucloud.clouds.provider import Provider, Verdict
from gpucloud.errors import RULES, ErrorClass, Next
from gpucloud.resources import Machine, Order, Ref, Request, Resource, ResourceKind, Search, State, Tags
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

    def look() -> Resource | None:
        resource = harness.provider.get(machine.ref)
        ready = isinstance(resource, Machine) and resource.state is State.RUNNING and resource.public_ip
        return resource if ready else None

    resource = eventually(harness, look, "running")
    assert isinstance(resource, Machine)
    return resource


def found(harness: Harness, **search: Any) -> list[Resource]:
    """What is found and lives."""
    return [t for t in harness.provider.find(Search(**search)).resources if t.state is not State.GONE]


def ids(resources: Sequence[Resource]) -> set[str]:
    """The ids of things."""
    return {resource.ref.id for resource in resources}


def machines_of(harness: Harness, order: Order) -> set[str]:
    """The ids of the living machines of an order's box, after as many looks as lists may lag."""
    shown: set[str] = set()
    for _ in range(harness.empty_looks):
        shown = ids([t for t in found(harness, box=order.tags.box) if t.ref.kind is ResourceKind.INSTANCE])
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
    order = list(harness.provider.deletion.order)
    empty_looks = 0
    for _ in range(harness.looks):
        answer = harness.provider.find(Search(**search))
        assert not answer.unread
        living = [resource for resource in answer.resources if resource.state is not State.GONE]
        empty_looks = empty_looks + 1 if not living else 0
        if empty_looks == harness.empty_looks:
            return
        for resource in sorted(living, key=lambda resource: order.index(resource.ref.kind)):
            verdict = outcome(harness, partial(harness.provider.delete, resource.ref))
            assert verdict is None or RULES[verdict.error_class].next is Next.AGAIN, (
                f"{resource.ref}: {verdict}"
            )
        harness.tick()
    pytest.fail(f"still there: {ids(found(harness, **search))}")


def another(id: str) -> str:  # noqa: A002
    """An id of the same form that nothing has."""
    last = id[-1]
    return id[:-2] + ("00" if last != "0" else "11") if id[-2:] != "00" else id[:-2] + "fe"


class Conformance:
    """What the parts of the suite share."""

    @pytest.fixture
    def harness(self) -> Harness:
        raise NotImplementedError("a provider's test class gives its own harness")

    @pytest.fixture(autouse=True)
    def leaves_nothing(self, harness: Harness) -> Iterator[None]:
        """Whatever a test did, nothing of its owner is left, and the cloud bills nothing.

        A harness orders in one region. Where the cloud's own account of what it bills shows that nothing is
        left in the others, they are not searched: that would be most of the suite's time.
        """
        yield
        harness.restore()
        told = type(harness).billed is not Harness.billed
        take_down(harness, owner=harness.owner, regions=(harness.order().region,) if told else None)
        if told:
            assert not harness.billed()

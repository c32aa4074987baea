"""One unfit node of several is replaced alone; whatever happens meanwhile, everything ends with the box."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud.ending.reconcile import settle
from gpucloud.ending.resolution import nodes_with, vacant_rank
from gpucloud.ending.sweep import look
from gpucloud.ending.teardown import take_down
from gpucloud.errors import CloudError, ErrorClass, OutcomeUnknownError
from gpucloud.journal.events import StateChanged
from gpucloud.journal.facts import Node, Wanted
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, OVER, BoxState
from gpucloud.journal.records import Box
from gpucloud.journal.verification import verify
from gpucloud.planning.plan import Candidate
from gpucloud.purchase.failover import launch, replace_machines, replace_node
from gpucloud.purchase.replacement import NodeReplacement, opening_of
from gpucloud.resources import ResourceKind, State
from gpucloud.runtime.context import Context
from gpucloud_pricing.purchases import Purchase
from tests.bench import OWNER, Bench
from tests.builders import Clock
from tests.memory import (
    BY_NAME_LONG_RUNNING,
    TOKEN_ATOMIC,
    VANISHING,
    ConnectionLost,
    MemoryProvider,
    Pace,
    Temperament,
)

TEMPERAMENTS = [TOKEN_ATOMIC, BY_NAME_LONG_RUNNING, VANISHING]
NODES, RANK = 3, 1
each_cloud = pytest.mark.parametrize("temperament", TEMPERAMENTS, ids=[each.name for each in TEMPERAMENTS])


def a_box(folder: Path, temperament: Temperament, *, nodes: int = NODES) -> tuple[Bench, Context, Box]:
    """A box of several nodes whose machines run."""
    clock = Clock()
    bench = Bench(folder, clock, [MemoryProvider.named("aws", temperament=temperament, clock=clock)])
    context = bench.context()
    return bench, context, launch(context, bench.purchase(nodes=nodes))


def opening(bench: Bench, context: Context, box: Box) -> NodeReplacement:
    found = opening_of(box, (RANK,), context.journal.intents(box.id), bench.offers())
    assert found is not None
    return found


def replaced(bench: Bench, context: Context, box: Box) -> Box | None:
    purchase = bench.purchase(nodes=len(box.nodes))
    return replace_node(context, box, purchase, opening(bench, context, box), "a GPU is missing")


def ids(box: Box) -> list[str]:
    return [node.instance_id for node in box.nodes]


def most_at_once(bench: Bench) -> int:
    """How many machines were ever billed at the same time."""
    machines = [each for each in bench.providers[0].cloud.ledger if each.ref.kind is ResourceKind.INSTANCE]
    return max(
        sum(each.since <= one.since and (each.until is None or each.until > one.since) for each in machines)
        for one in machines
    )


@each_cloud
def test_one_node_gets_another_machine_and_the_others_keep_theirs(
    tmp_path: Path, temperament: Temperament
) -> None:
    """The money too: the old machine counts until its end, the new one from its start, and replay agrees."""
    bench, context, box = a_box(tmp_path, temperament)
    bench.clock.sleep(3600)
    new = replaced(bench, context, box)
    assert new is not None
    assert (new.state, new.replaced, new.started_at) == (
        BoxState.BOOTSTRAPPING,
        "a GPU is missing",
        box.started_at,
    )
    assert [mine == theirs for mine, theirs in zip(ids(new), ids(box), strict=True)] == [True, False, True]
    assert (bench.machines(), most_at_once(bench)) == (NODES, NODES)
    assert all(node.state is State.RUNNING for node in new.nodes)
    bench.clock.sleep(3600)
    usage = {each.resource: each for each in new.usage if each.part == "compute"}
    assert len(usage) == len(new.usage) / 3 == NODES + 1, "each with disk and address, and once"
    old, fresh = usage[ids(box)[RANK]], usage[ids(new)[RANK]]
    assert old.end is not None
    assert usage[ids(new)[0]].start < old.end <= fresh.start < bench.clock()
    assert {each.end for each in usage.values() if each is not old} == {None}
    kept = context.journal.box(box.id)
    assert verify(context.journal).differences == ()
    assert replace(context.journal.box(box.id), lease=None) == replace(kept, lease=None)
    context.journal.write(new, StateChanged(state=BoxState.READY))
    assert not any(each.unwanted for each in look(context, owner=OWNER, older_than=timedelta()).finds)
    assert take_down(context, new, budget_s=600).state is BoxState.DELETED
    assert bench.billed() == []


@each_cloud
def test_without_capacity_for_one_all_are_bought_elsewhere(tmp_path: Path, temperament: Temperament) -> None:
    bench, context, box = a_box(tmp_path, temperament)
    stock = bench.providers[0].cloud.stock  # the machine that ends is sold to somebody else
    stock.update({(zone, "g4dn.xlarge"): -1 for zone in ("use1-az4", "use1-az6")})
    assert replaced(bench, context, box) is None
    now = context.journal.held(box)
    moved = replace_machines(context, now, bench.purchase(nodes=NODES), "a GPU is missing")
    assert moved.place is not None
    assert (moved.place.region, len(moved.nodes)) == ("us-west-2", NODES)
    assert (bench.machines(), most_at_once(bench)) == (NODES, NODES)
    assert set(ids(moved)).isdisjoint(ids(box))
    take_down(context, moved, budget_s=600)
    assert bench.billed() == []


def test_without_capacity_anywhere_nothing_is_left(tmp_path: Path) -> None:
    bench, context, box = a_box(tmp_path, BY_NAME_LONG_RUNNING)
    bench.providers[0].cloud.default_stock = -NODES
    assert replaced(bench, context, box) is None
    with pytest.raises(CloudError) as caught:
        replace_machines(context, box, bench.purchase(nodes=NODES), "a GPU is missing")
    assert caught.value.message.startswith("none of 2 attempts started")
    assert bench.billed() == []


class Died(BaseException):
    """Stands for kill -9 at a call."""


@each_cloud
def test_who_dies_after_a_call_leaves_a_box_that_ends_whole(tmp_path: Path, temperament: Temperament) -> None:
    """Each call in turn; what lists show late is not forgotten, and never two machines are of one node."""
    for number in itertools.count(1):
        folder = tmp_path / str(number)
        folder.mkdir()
        bench, context, box = a_box(folder, temperament, nodes=2)
        cloud = bench.providers[0].cloud
        cloud.listed = Pace(seconds=120)
        bench.clock.sleep(600)
        death = cloud.fail("*", Died(), nth=number, applied=True)
        with suppress(Died):  # nobody waits for some calls
            replaced(bench, context, box)
        if death.hits < number:
            assert number > 15
            return
        assert most_at_once(bench) <= 2, number
        context.journal.release(box)
        for _ in range(2):  # what may still show up is looked for once more
            settle(bench.context(), budget_s=300)
            bench.clock.sleep(CONSISTENCY_WINDOW.total_seconds() + 1)
        assert bench.billed() == [], number
        assert context.journal.box(box.id).state in OVER, number


@each_cloud
def test_a_create_call_without_an_answer_is_not_taken_for_the_machines_that_were_there(
    tmp_path: Path, temperament: Temperament
) -> None:
    """Lists show the old machines, and not yet the one that it made: it stays owed until that shows."""
    bench, context, box = a_box(tmp_path, temperament)
    cloud = bench.providers[0].cloud
    bench.clock.sleep(600)
    cloud.listed = cloud.shown = Pace(seconds=300)
    cloud.fail("create", ConnectionLost(), applied=True, times=99)
    with pytest.raises(OutcomeUnknownError):
        replaced(bench, context, box)
    context.journal.release(box)
    assert settle(bench.context(), budget_s=5) != []
    assert [each.status for each in context.journal.intents(box.id)][-1] == "open"
    cloud.faults.clear()
    bench.clock.sleep(300)
    assert settle(bench.context(), budget_s=300) == []
    assert bench.billed() == []


def test_nor_is_it_where_all_machines_were_replaced(tmp_path: Path) -> None:
    """The cloud shows the one that has ended for a while."""
    bench, context, _ = a_box(tmp_path, TOKEN_ATOMIC)
    cloud = bench.providers[0].cloud
    purchase = bench.purchase(box="b-2", name="y")
    box = launch(context, purchase)
    bench.clock.sleep(600)
    cloud.listed = Pace(seconds=300)
    cloud.fail("create", ConnectionLost(), applied=True, times=99)
    with pytest.raises(OutcomeUnknownError):
        replace_machines(context, box, purchase, "a GPU is missing")
    context.journal.release(box)
    assert settle(bench.context(), budget_s=5) != []
    assert context.journal.intents("b-2")[-1].status == "open"


# --- what is decided


def a_node(number: int, state: State = State.RUNNING) -> Node:
    return Node(instance_id=f"i-{number}", state=state)


@pytest.mark.parametrize(
    ("nodes", "made", "rank", "expected"),
    [
        ([], [0, 1], None, [0, 1]),
        ([0, 1], [2, 3], None, [2, 3]),
        ([0, 1, 2], [9], 0, [9, 1, 2]),
        ([0, 1, 2], [9], 1, [0, 9, 2]),
        ([0, 1, 2], [9], 2, [0, 1, 9]),
    ],
)
def test_a_machine_takes_the_place_of_the_node_that_it_is_for(
    nodes: Sequence[int], made: Sequence[int], rank: int | None, expected: Sequence[int]
) -> None:
    found = nodes_with([*map(a_node, nodes)], [*map(a_node, made)], rank)
    assert found == tuple(map(a_node, expected))


@pytest.mark.parametrize(
    ("states", "rank"), [("", None), ("rr", None), ("rg", 1), ("gr", 0), ("grg", 0), ("sg", 1)]
)
def test_the_place_that_is_free_is_that_of_a_node_that_is_gone(states: str, rank: int | None) -> None:
    named = {"r": State.RUNNING, "g": State.GONE, "s": State.STOPPED}
    assert vacant_rank([a_node(number, named[each]) for number, each in enumerate(states)]) == rank


def elsewhere(offers: list[Candidate]) -> list[Candidate]:
    return [replace(each, region="eu-west-1") for each in offers]


def as_spot(offers: list[Candidate]) -> list[Candidate]:
    return [replace(each, purchase=Purchase.SPOT) for each in offers]


def test_one_node_is_replaced_alone_only_where_that_is_known_to_be_right(tmp_path: Path) -> None:
    bench, context, box = a_box(tmp_path, TOKEN_ATOMIC)
    intents, offers = context.journal.intents(box.id), bench.offers()
    found = opening_of(box, (2,), intents, offers)
    assert found is not None
    assert (found.vacancy.rank, found.vacancy.key) == (2, intents[-1].token)
    assert found.candidate == offers[0]
    anywhere = opening_of(box, (0,), intents, [replace(offers[0], zone="")])
    assert anywhere is not None
    assert anywhere.candidate.zone == "use1-az4", "in the zone of the others"
    armed = replace(box, wanted=Wanted(spec={"ttl_role": "arn:aws:iam::123456789012:role/end"}))
    for wrong in (
        opening_of(box, (), intents, offers),  # of an all-reduce: it names no node
        opening_of(box, (0, 2), intents, offers),
        opening_of(replace(box, nodes=box.nodes[:1]), (0,), intents, offers),
        opening_of(box, (0,), [replace(each, status="closed") for each in intents], offers),
        opening_of(box, (0,), intents, elsewhere(offers)),
        opening_of(box, (0,), intents, as_spot(offers)),
        opening_of(armed, (0,), intents, offers),
    ):
        assert wrong is None


def test_a_dearer_machine_is_not_bought_in_the_place_of_an_unfit_one(tmp_path: Path) -> None:
    bench, context, box = a_box(tmp_path, TOKEN_ATOMIC)
    bench.providers[0].cloud.prices["g4dn.xlarge"] = Decimal(99)
    assert replaced(bench, context, box) is None
    assert bench.machines() == NODES - 1
    assert context.journal.intents(box.id)[-1].price == Decimal(1)


def test_a_refusal_of_one_says_so_and_what_follows(tmp_path: Path) -> None:
    bench, context, box = a_box(tmp_path, TOKEN_ATOMIC)
    cloud = bench.providers[0].cloud
    cloud.fail("create", cloud.say(ErrorClass.QUOTA))
    assert replaced(bench, context, box) is None
    assert bench.lines[-1][1].endswith("replacing all nodes")

"""What is done about a box that is to be replaced once it is faulty, as one table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpucloud.journal.facts import BoughtOffer, Node, Place, Usage, Wanted
from gpucloud.journal.lifecycle import BoxState
from gpucloud.planning.avoidance import NOTHING_AVOIDED, Avoided
from gpucloud.resources import State
from gpucloud.runs.replacement import (
    AskGuard,
    EndPredecessor,
    Leave,
    Lineage,
    avoided_by,
    step_for,
    wants_replacement,
)
from gpucloud_pricing.purchases import Purchase
from tests.builders import START, a_box

NOW = START + timedelta(hours=1)
BOUGHT = (Usage(box="b-2", resource="i-1", part="compute", start=START, end=START, price=None),)
GONE = {"state": BoxState.FAILED, "attended": True, "created_at": START, "ended_at": NOW}
CASES: dict[str, tuple[list[dict[str, Any]], Leave | AskGuard | EndPredecessor]] = {
    "nothing was tried": ([], AskGuard()),
    "it is being launched": (
        [{"state": BoxState.BOOTSTRAPPING, "attended": True}],
        Leave("x-2, launched in its place, is bootstrapping"),
    ),
    "it has not the files yet": (
        [{"state": BoxState.READY, "attended": True}],
        Leave("x-2, launched in its place, is ready"),
    ),
    "it is its user's": ([{"state": BoxState.READY}], EndPredecessor("x-2")),
    "its user stopped it": ([{"state": BoxState.STOPPED}], EndPredecessor("x-2")),
    "it was taken back": (
        [{"state": BoxState.INTERRUPTED}],
        Leave("x-2, launched in its place, is interrupted"),
    ),
    "its user ended it": ([{"state": BoxState.DELETED}], Leave("x-2, which has replaced it, has ended")),
    "its launch failed": ([{**GONE, "usage": BOUGHT}], AskGuard()),
    "the last of two is its user's": (
        [{**GONE, "usage": BOUGHT}, {"state": BoxState.READY}],
        EndPredecessor("x-2"),
    ),
    "there was no machine an hour ago": ([GONE], AskGuard()),
    "there was no machine just now": (
        [{**GONE, "created_at": NOW}],
        AskGuard("no machine was to be had in its place a moment ago"),
    ),
    "three machines were bought": (
        [{**GONE, "usage": BOUGHT}] * 3,
        AskGuard("3 machines were bought in place of it, and of those that it replaced"),
    ),
    "four launches had none": ([GONE] * 4, AskGuard()),
}


def lineage(tried: list[dict[str, Any]], **changes: Any) -> Lineage:
    """A box with these launched in its place."""
    others = tuple(replace(a_box(name="x-2"), **{"attended": False, **each}) for each in tried)
    return Lineage(box=a_box(expires_at=NOW + timedelta(hours=5), **changes), tried=others)


@pytest.mark.parametrize("case", CASES)
def test_a_box_is_replaced_ended_or_left(case: str) -> None:
    tried, step = CASES[case]
    assert step_for(lineage(tried), NOW) == step


def test_replacements_of_predecessors_count_and_a_deadline_that_is_near_forbids_more() -> None:
    bought = a_box(name="x-2", usage=BOUGHT)
    chain = replace(lineage([]), tried_before=(bought, bought))
    assert step_for(chain, NOW) == AskGuard()
    assert step_for(replace(chain, tried_before=(bought,) * 3), NOW) != AskGuard()
    late = lineage([])
    assert step_for(late, NOW + timedelta(hours=5)) == AskGuard("its deadline is near")


NODE = Node(instance_id="i-1", state=State.RUNNING)
WANTS: dict[str, Any] = {"wanted": Wanted(spec={"on_unhealthy": "replace"}), "nodes": (NODE,)}


@pytest.mark.parametrize(
    ("changes", "wants"),
    [
        ({}, True),
        ({"wanted": Wanted(spec={"on_sick": "replace"})}, True),  # written before the field was renamed
        ({"state": BoxState.STOPPED}, False),
        ({"attended": True}, False),
        ({"wanted": Wanted(spec={"on_unhealthy": "keep"})}, False),
        ({"nodes": (NODE, NODE)}, False),
        ({"setup_error": "it failed"}, False),
    ],
)
def test_only_a_ready_box_of_one_node_whose_spec_says_so_is_looked_after(
    changes: dict[str, Any], wants: bool
) -> None:
    assert wants_replacement(a_box(**{**WANTS, **changes})) is wants


def test_the_place_of_a_faulty_box_is_left_out_and_its_region_after_two() -> None:
    at = Place(cloud="aws", region="r1", zone="z1")
    offer = BoughtOffer(instance_type="t.large", purchase=Purchase.SPOT)
    first = lineage([], place=at, offer=offer)
    assert avoided_by(first, NOW) == Avoided(places=frozenset({("aws", "r1", "z1", "t.large")}))
    before = a_box(place=replace(at, zone="z2"), offer=offer, ended_at=NOW - timedelta(minutes=5))
    assert avoided_by(replace(first, before=(before,)), NOW).regions == {("aws", "r1")}
    long_ago = replace(before, ended_at=NOW - timedelta(hours=2))
    assert avoided_by(replace(first, before=(long_ago,)), NOW) == avoided_by(first, NOW)
    assert avoided_by(replace(first, tried=lineage([GONE]).tried), NOW) == NOTHING_AVOIDED

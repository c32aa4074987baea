"""Slots as nodes of Ray's autoscaler."""

from __future__ import annotations

from datetime import UTC, datetime

from gpucloud.elastic.ray.nodes import REQUEST, free_slots, made_for, matches, nodes_of
from gpucloud.elastic.rules import Slot, SlotState


def slot(
    number: int, state: SlotState = SlotState.READY, *, request: str = "r1", wish: str = "run-1"
) -> Slot:
    name = f"lab-t4-{number}"
    at = datetime(2026, 11, 26, tzinfo=UTC)
    return Slot(
        name=name,
        gang=(name,),
        node_class="t4",
        state=state,
        since=at,
        wish=wish,
        labels={REQUEST: request},
    )


def test_a_node_is_what_is_wanted_launched_or_ready_and_not_given_back() -> None:
    slots = [slot(number, state) for number, state in enumerate(SlotState, start=1)]
    assert list(nodes_of(slots, ())) == ["lab-t4-1.run-1", "lab-t4-2.run-1", "lab-t4-4.run-1"]
    assert list(nodes_of(slots, {"lab-t4-2.run-1"})) == ["lab-t4-1.run-1", "lab-t4-4.run-1"]


def test_a_slot_that_is_wanted_again_is_another_node() -> None:
    assert nodes_of([slot(1)], ()).keys().isdisjoint(nodes_of([slot(1, wish="run-2")], ()))


def test_a_node_matches_a_filter_whose_tags_it_has_all() -> None:
    assert matches({"a": "1", "b": "2"}, {"a": "1"})
    assert matches({"a": "1"}, {})
    assert not matches({"a": "1"}, {"a": "1", "b": "2"})


def test_new_nodes_take_the_first_slots_that_nothing_is_left_in() -> None:
    every = [f"lab-t4-{n}" for n in range(1, 5)]
    taken = [slot(1), slot(3, SlotState.ENDING)]
    assert free_slots(every, taken, 1) == ["lab-t4-2"]
    assert free_slots(every, taken, 9) == ["lab-t4-2", "lab-t4-4"]


def test_what_is_wanted_for_a_request_is_told_from_what_is_wanted_for_others() -> None:
    slots = [slot(1), slot(2), slot(3, request="r2"), slot(4, request="")]
    assert (made_for("r1", slots), made_for("r2", slots), made_for("r3", slots)) == (2, 1, 0)
    assert made_for("", slots) == 0, "a call without a request is for itself"

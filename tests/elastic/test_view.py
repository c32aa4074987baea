"""The state of a slot by its wish and its box, as one table with a sentence per row."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpucloud import Cluster, NodeClass, Spec
from gpucloud.elastic.view import view_of
from gpucloud.journal.facts import Measured, Node
from gpucloud.journal.lifecycle import BoxState, EndedBy, Lease
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import AttemptRecord, Failure, Loss, RunState, Slots, Work
from gpucloud.resources import State
from tests.builders import START, a_box

ONE, TWO = "lab-t4-1", "lab-t4-2"
LAB = Cluster(name="lab", classes={"t4": NodeClass(spec=Spec(gpu="T4"), max=8)})
LATER = START + timedelta(minutes=5)
HELD = Lease(host="h", boot="b", pid=1, started=1, beat=START)
UP, GONE = Node(instance_id="i-1", state=State.RUNNING), Node(instance_id="i-2", state=State.GONE)


def a_wish(names: tuple[str, ...] = (ONE,), **changes: Any) -> Run:
    """A wish whose box, ``b-1``, was launched."""
    slots = Slots(cluster="lab", node_class="t4", names=names)
    values: dict[str, Any] = {
        "id": "run-1",
        "run_id": names[0],
        "owner": "u-tester",
        "state": RunState.RUNNING,
        "epoch": 1,
        "number": 1,
        "lease": None,
        "created_at": START,
        "ended_at": None,
        "expires_at": None,
        "work": Work(spec={}, command="", slots=slots),
        "attempts": (AttemptRecord(box="b-1", at=START),),
        "detached": True,
        "unattended": True,
        "restart_at": None,
        "exit_code": None,
        "failure": None,
        "not_fetched": None,
    }
    return Run(**(values | changes))


def lost(loss: Loss, minutes: float = 0) -> tuple[AttemptRecord, ...]:
    """An attempt that was lost then."""
    at = START + timedelta(minutes=minutes)
    return (AttemptRecord(box="b-1", at=at, loss=loss, lost_at=at, message="no capacity"),)


def states(box: Box | None, *runs: Run) -> list[str]:
    """The states of the slots, five minutes after their wishes; two wishes are not of one process."""
    boxes = {} if box is None else {box.id: box}
    view = view_of(LAB, runs, boxes, lambda one: one.lease is not None, LATER)
    return [str(slot.state) for _, slot in sorted(view.slots.items())]


WANTED = a_wish(attempts=())
OVER = a_wish(state=RunState.ENDED, ended_at=LATER)
GANG = a_wish((ONE, TWO))


@pytest.mark.parametrize(
    ("sentence", "box", "run", "state"),
    [
        ("a new wish waits for whoever launches it", None, WANTED, "wanted"),
        ("one that a process holds is being launched", None, replace(WANTED, lease=HELD), "launching"),
        ("a box that is up", a_box(nodes=(UP,)), a_wish(), "ready"),
        ("past its lease by our clock is ready", a_box(nodes=(UP,), expires_at=LATER), a_wish(), "ready"),
        ("a launch whose process died is repeated", a_box(state=BoxState.PROVISIONING), a_wish(), "wanted"),
        ("also once its remains are gone", a_box(state=BoxState.FAILED), a_wish(), "wanted"),
        ("or are being deleted", a_box(state=BoxState.DELETING), a_wish(), "wanted"),
        (
            "a box whose launcher lives is its, even if the wish is not",
            a_box(state=BoxState.PROVISIONING, lease=HELD),
            a_wish(),
            "launching",
        ),
        ("a box that was taken back", a_box(state=BoxState.INTERRUPTED), a_wish(), "lost"),
        ("a box that a user deleted", a_box(state=BoxState.DELETED), a_wish(), "lost"),
        ("or deletes", a_box(state=BoxState.DELETING, lease=HELD), a_wish(), "ending"),
        ("or stopped", a_box(state=BoxState.STOPPED), a_wish(), "lost"),
        (
            "a box that ended and is not gone yet",
            a_box(state=BoxState.DELETING, measured=Measured(gpus={}, boot_seconds={})),
            a_wish(),
            "lost",
        ),
        ("a failed launch waits", None, a_wish(attempts=lost(Loss.CAPACITY)), "waiting"),
        ("whatever it failed for", None, a_wish(attempts=lost(Loss.REFUSED)), "waiting"),
        ("a loss before a launch that was not begun", None, a_wish(attempts=lost(Loss.LAUNCH)), "wanted"),
        ("a wish that is over", a_box(nodes=(UP,)), OVER, "ended"),
        ("while its box is being deleted", a_box(nodes=(UP,), lease=HELD), OVER, "ending"),
    ],
)
def test_the_state_of_a_slot(sentence: str, box: Box | None, run: Run, state: str) -> None:
    assert states(box, run) == [state], sentence


def test_a_gang_with_a_lost_node_is_lost_as_a_whole() -> None:
    assert states(a_box(nodes=(UP, UP)), GANG) == ["ready", "ready"]
    assert states(a_box(nodes=(UP, GONE)), GANG) == ["lost", "lost"]


def test_a_slot_belongs_to_the_wish_that_goes_on() -> None:
    """Of a gang that is over, one slot is wanted alone by now."""
    over = replace(GANG, id="run-9", state=RunState.ENDED, ended_at=START)
    assert states(None, over, replace(WANTED, id="run-0")) == ["wanted", "ended"]


def test_a_slot_tells_why_it_was_lost_and_why_its_wish_is_over() -> None:
    box = a_box(state=BoxState.DELETED, ended_by=EndedBy.CLOUD, ended_at=LATER)
    cancelled = replace(OVER, failure=Failure(error_class="cancelled", message="it was cancelled"))
    for known, run, reason in (
        (box, a_wish(), "its cloud took it back"),
        (None, cancelled, "it was cancelled"),
    ):
        view = view_of(LAB, [run], {} if known is None else {known.id: known}, lambda _: False, LATER)
        assert (view.slots[ONE].reason, view.slots[ONE].since) == (reason, LATER)


@pytest.mark.parametrize(
    ("runs", "until", "sentence"),
    [
        ([a_wish(attempts=lost(Loss.REFUSED))], 10, "a failed launch makes its class pause"),
        ([a_wish(attempts=lost(Loss.LAUNCH))], None, "a process that died says nothing of its class"),
        (
            [a_wish(attempts=lost(Loss.CAPACITY), state=RunState.CANCELLED, ended_at=START)],
            10,
            "giving the slot back makes no capacity",
        ),
        (
            [a_wish(attempts=lost(Loss.CAPACITY)), a_wish((TWO,), id="run-2", attempts=lost(Loss.LAUNCH, 1))],
            10,
            "nor does a launch that was not finished",
        ),
        (
            [
                a_wish(attempts=lost(Loss.CAPACITY, -1)),
                a_wish((TWO,), id="run-2", state=RunState.ENDED, ended_at=LATER),
            ],
            None,
            "a box that came up since then ends the pause, also if it was given back",
        ),
        (
            [a_wish(attempts=(*lost(Loss.LAUNCH), *lost(Loss.LAUNCH, 2)))],
            12,
            "the second process that died in a launch of one wish would be followed by a third",
        ),
        ([a_wish(attempts=lost(Loss.CAPACITY, -300))], None, "an old failure does not count"),
    ],
)
def test_the_pause_of_a_class(runs: list[Run], until: float | None, sentence: str) -> None:
    found = view_of(LAB, runs, {}, lambda _: False, LATER).backoffs.get("t4")
    assert (found and found.until) == (None if until is None else START + timedelta(minutes=until)), sentence

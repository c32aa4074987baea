"""What is done about the slots of a cluster, as one table with a sentence per row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpucloud import Cluster, NodeClass, Slot, Spec, UsageError
from gpucloud.elastic.rules import (
    SOURCE,
    Action,
    Do,
    LaunchPause,
    SlotState,
    backoff_after,
    is_attended,
    of_others,
    reconcile,
)
from tests.builders import START

LAB = Cluster(name="lab", classes={"t4": NodeClass(spec=Spec(gpu="T4"), max=8)}, lease=timedelta(hours=1))
ONE, TWO = "lab-t4-1", "lab-t4-2"
EARLIER, LATER = START - timedelta(minutes=5), START + timedelta(minutes=5)
BACKOFF = {"t4": LaunchPause(LATER, "no capacity")}
LAPSED = {"t4": LaunchPause(EARLIER, "no capacity")}


def at(minutes: float) -> datetime:
    """A moment, in minutes from now."""
    return START + timedelta(minutes=minutes)


def slots(state: str, *names: str, left: float | None = None, **values: Any) -> list[Slot]:
    """The slots of one box, whose lease has so many minutes left."""
    given: dict[str, Any] = {"node_class": "t4", "since": START, **values}
    expires_at = None if left is None else at(left)
    return [
        Slot(name=name, gang=names, state=SlotState(state), expires_at=expires_at, **given) for name in names
    ]


def told(action: Action) -> str:
    """An action in a word, with its slots."""
    return " ".join((str(action.do), *(name.removeprefix("lab-t4-") for name in action.slots)))


ROWS = [
    ("a slot that is wanted and not there is launched", {ONE: START}, [], {}, "launch 1"),
    ("each of several by itself", {ONE: START, TWO: START}, [], {}, "launch 1, launch 2"),
    ("not while its class backs off", {ONE: START}, [], BACKOFF, "wait 1"),
    ("but once that is over", {ONE: START}, [], LAPSED, "launch 1"),
    ("nothing of a cluster that nobody wants", {}, [], {}, ""),
    ("a wish that nobody works on is launched", {ONE: START}, slots("wanted", ONE), {}, "launch 1"),
    ("it waits with its class", {ONE: START}, slots("wanted", ONE), BACKOFF, "wait 1"),
    ("a failed launch waits too", {ONE: START}, slots("waiting", ONE), BACKOFF, "wait 1"),
    ("and is repeated after its pause", {ONE: START}, slots("waiting", ONE), LAPSED, "launch 1"),
    ("what waits ends when nobody wants it", {}, slots("waiting", ONE), BACKOFF, "end 1"),
    ("a gang is launched together", {ONE: START, TWO: START}, slots("wanted", ONE, TWO), {}, "launch 1 2"),
    ("without the slots that are wanted no more", {TWO: START}, slots("wanted", ONE, TWO), {}, "launch 2"),
    ("what is being launched is left alone", {ONE: START}, slots("launching", ONE), {}, "nothing 1"),
    ("also while its class backs off", {ONE: START}, slots("launching", ONE), BACKOFF, "nothing 1"),
    ("unless nobody wants it", {}, slots("launching", ONE), {}, "end 1"),
    (
        "a box with half of its lease is left alone",
        {ONE: START},
        slots("ready", ONE, left=30),
        {},
        "nothing 1",
    ),
    ("with less, the lease is renewed", {ONE: START}, slots("ready", ONE, left=29), {}, "renew 1"),
    ("whatever its class does", {ONE: START}, slots("ready", ONE, left=29), BACKOFF, "renew 1"),
    ("a gang as long as one slot is wanted", {TWO: START}, slots("ready", ONE, TWO, left=9), {}, "renew 1 2"),
    ("a box that nobody wants is ended", {}, slots("ready", ONE, left=29), {}, "end 1"),
    ("a gang that nobody wants, once", {}, slots("ready", ONE, TWO, left=59), {}, "end 1 2"),
    ("a lost slot is told, not relaunched", {ONE: EARLIER}, slots("lost", ONE), {}, "lost 1"),
    ("also by a wish of the same moment", {ONE: START}, slots("lost", ONE), {}, "lost 1"),
    ("a later wish launches it again", {ONE: LATER}, slots("lost", ONE), {}, "launch 1"),
    ("if its class does not back off", {ONE: LATER}, slots("lost", ONE), BACKOFF, "wait 1"),
    (
        "of a lost gang what is wanted anew",
        {ONE: EARLIER, TWO: LATER},
        slots("lost", ONE, TWO),
        {},
        "lost 1, launch 2",
    ),
    ("a lost slot that nobody wants is ended", {}, slots("lost", ONE), {}, "end 1"),
    ("while a box is being deleted, nothing is done", {ONE: LATER}, slots("ending", ONE), {}, "nothing 1"),
    ("also if nobody wants it", {}, slots("ending", ONE), {}, "nothing 1"),
    ("a box that outlived its wish is ended", {}, slots("ended", ONE, has_box=True), {}, "end 1"),
    ("of what has ended nothing is to be done", {}, slots("ended", ONE), {}, ""),
    ("a slot that was cancelled is told", {ONE: EARLIER}, slots("ended", ONE), {}, "lost 1"),
    ("and launched if it is wanted again", {ONE: LATER}, slots("ended", ONE), {}, "launch 1"),
]


@pytest.mark.parametrize(
    ("wanted", "seen", "backoffs", "actions"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_is_done(
    wanted: Mapping[str, datetime], seen: list[Slot], backoffs: Mapping[str, LaunchPause], actions: str
) -> None:
    found = reconcile(LAB, wanted, seen, backoffs, START)
    assert ", ".join(map(told, found)) == actions


def test_a_cluster_of_the_same_name_is_another_one_until_its_slots_are_left_alone() -> None:
    """Whoever lives renews a slot before half of its lease is left."""
    lab, lease = replace(LAB, source="/a/cluster.yaml"), timedelta(hours=1)
    [mine] = slots("ready", ONE, left=14, labels={SOURCE: "/a/cluster.yaml"})
    [others] = slots("ready", TWO, left=16, labels={SOURCE: "/b/cluster.yaml"})
    assert of_others(lab, [mine, others, replace(others, state=SlotState.ENDED)]) == [others]
    assert of_others(LAB, [mine, others]) == [], "a program's own cluster has no file"
    assert of_others(lab, [replace(others, labels={})]) == []
    old = START - timedelta(hours=9)
    assert is_attended(replace(others, since=old), lease, START)
    assert not is_attended(replace(mine, since=old), lease, START)
    assert not is_attended(replace(mine, since=old, expires_at=None), lease, START)
    assert is_attended(replace(mine, since=START, expires_at=None), lease, START), "it is being launched"


def test_who_waits_is_told_until_when_and_why() -> None:
    [action] = reconcile(LAB, {ONE: START}, [], BACKOFF, START)
    assert action == Action(do=Do.WAIT, slots=(ONE,), until=LATER, reason="no capacity")


def test_what_another_process_wants_since_the_engine_was_asked_is_not_ended() -> None:
    """An engine wants a slot right after it was asked what it wants."""
    newer, older = slots("launching", ONE, since=START), slots("ready", TWO, left=59, since=EARLIER)
    found = reconcile(LAB, {}, newer + older, {}, LATER, as_of=at(-1))
    assert [told(action) for action in found] == ["nothing 1", "end 2"]
    assert [told(action) for action in reconcile(LAB, {}, newer, {}, LATER)] == ["end 1"]


@pytest.mark.parametrize("name", ["lab-t4-0", "lab-t4-9", "lab-t4-01", "lab-a100-1", "t4-1", "other-t4-1"])
def test_a_slot_that_the_cluster_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="has no slot"):
        reconcile(LAB, {name: START}, [], {}, START)


@pytest.mark.parametrize(
    ("failures", "came_up", "until", "sentence"),
    [
        ([], [], None, "a class without failures is launched"),
        ([0], [], 10, "after the first failure it pauses ten minutes"),
        ([0, 0.5, 9], [], 10, "launches that failed at the same time are one failure"),
        ([0, 10], [], 30, "the next one doubles the pause"),
        ([0, 10, 30], [], 70, "and the next"),
        ([0, 10, 30, 70], [], 130, "up to an hour"),
        ([0, 10, 30, 70, 130], [], 190, "and no further"),
        ([30, 10, 0], [], 70, "in whatever order they are read"),
        ([0, 10], [11], None, "a box that came up afterwards resets it"),
        ([0, 10, 30], [11], 40, "and the next failure begins anew"),
        ([0, 10], [5], 20, "one that was begun before the last failure does not undo that"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_how_long_a_class_backs_off(
    failures: list[float], came_up: list[float], until: float | None, sentence: str
) -> None:
    found = backoff_after([(at(each), "no capacity") for each in failures], [at(each) for each in came_up])
    assert (found and found.until) == (None if until is None else at(until)), sentence

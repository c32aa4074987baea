"""Decides whether a box with faulty hardware is replaced. Pure functions.

A box that was launched in place of another one is ``attended`` until it has the files of that one: until
then it is the remains of a launch, which the next command deletes. From then on it is its user's, and the
other one is only ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from gpucloud.errors import UsageError
from gpucloud.journal.lifecycle import HANDED_OVER, OVER, BoxState
from gpucloud.journal.records import Box
from gpucloud.planning.avoidance import NOTHING_AVOIDED, Avoided
from gpucloud.planning.waiting import CAPACITY_PAUSE_S
from gpucloud.runs.rules import AVOIDED_FOR, away_from, is_in_time
from gpucloud.spec.declarations import renamed
from gpucloud.spec.model import Spec

REPLACE = "replace"
WHO_REPLACES = (
    "If its guard reports faulty hardware, gpucloud tend replaces the box; without tend, nothing does."
)
MOST_REPLACEMENTS = 3
"""How many machines are bought at most in place of a box, and of those that replaced it."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """A box, and what the journal has of its replacements.

    Attributes:
        box: the box.
        before: those that it replaced: its predecessor, that one's predecessor …
        tried: those that were launched in its place, oldest first.
        tried_before: those that were launched in place of its predecessors, itself included.
    """

    box: Box
    before: tuple[Box, ...] = ()
    tried: tuple[Box, ...] = ()
    tried_before: tuple[Box, ...] = ()

    @property
    def machines(self) -> int:
        """How many replacements had a machine, whatever became of them: each was paid for."""
        return sum(bool(each.usage) for each in (*self.tried, *self.tried_before))


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing is to be done."""

    why: str


@dataclass(frozen=True, slots=True)
class AskGuard:
    """Its guard is to be asked; if its hardware is faulty, it is to be replaced unless ``but`` forbids it."""

    but: str | None = None


@dataclass(frozen=True, slots=True)
class EndPredecessor:
    """It was replaced, and is to be ended."""

    successor: str


def refuse_unreplaceable(spec: Spec) -> None:
    """Refuses the replacement of a launched box that cannot be replaced.

    Raises:
        UsageError: it has several nodes.
    """
    if spec.on_unhealthy == REPLACE and spec.nodes != 1:
        raise UsageError(
            f"on_unhealthy: replace is for boxes with one node, and this one has {spec.nodes}",
            hint="leave out --on-unhealthy, or launch boxes of their own: --count",
        )


def wants_replacement(box: Box) -> bool:
    """Whether a box of an earlier launch is to be replaced once it is faulty."""
    lives = box.shown_state is BoxState.READY and not box.attended  # the setup of another one would fail too
    return lives and len(box.nodes) == 1 and renamed(box.wanted.spec).get("on_unhealthy") == REPLACE


def step_for(lineage: Lineage, now: datetime) -> Leave | AskGuard | EndPredecessor:
    """The next step for a box that wants to be replaced once it is faulty."""
    last = lineage.tried[-1] if lineage.tried else None
    if last is not None and last.state in HANDED_OVER and not last.attended:
        return EndPredecessor(last.name)
    if last is not None and last.state not in OVER:
        return Leave(f"{last.name}, launched in its place, is {last.state}")
    if last is not None and not last.attended:
        # Its user ended it: whether another one is wanted is not known.
        return Leave(f"{last.name}, which has replaced it, has ended")
    return AskGuard(but=_why_not(lineage, last, now))


def _why_not(lineage: Lineage, last: Box | None, now: datetime) -> str | None:
    """Why nothing is bought in place of a box even if it is faulty; ``None`` if something may be."""
    if lineage.machines >= MOST_REPLACEMENTS:
        return f"{lineage.machines} machines were bought in place of it, and of those that it replaced"
    if not is_in_time(lineage.box.expires_at, now):
        return "its deadline is near"
    pause = timedelta(seconds=CAPACITY_PAUSE_S)
    if last is not None and not last.usage and now - last.created_at < pause:
        return "no machine was to be had in its place a moment ago"
    return None


def avoided_by(lineage: Lineage, now: datetime) -> Avoided:
    """The places that a replacement leaves out: that of the box, and those of its predecessors for an hour.

    Once all other places had no capacity, nothing is left out: the faulty machine is still rented, so that
    another one is bought.
    """
    if lineage.tried and not lineage.tried[-1].usage:
        return NOTHING_AVOIDED
    recent = [each for each in lineage.before if each.ended_at and now - each.ended_at < AVOIDED_FOR]
    return away_from(
        [
            (each.place.cloud, each.place.region, each.place.zone or "", each.offer.instance_type)
            for each in (lineage.box, *recent)
            if each.place is not None and each.offer is not None
        ]
    )

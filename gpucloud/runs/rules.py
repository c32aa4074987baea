"""What happens to a run whose attempt was lost: restarted or not, when, where, and with what. Pure functions.

An attempt is fruitless if its box was lost and no newer checkpoint was complete then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from gpucloud.errors import BoxLostError, ErrorClass, GpucloudError, PriceError, UsageError
from gpucloud.journal.events import RunEnded
from gpucloud.journal.lifecycle import HALTING, LEAST_LIFE, BoxState, EndedBy
from gpucloud.journal.records import Box
from gpucloud.journal.runs import (
    BEFORE_THE_COMMAND,
    AttemptRecord,
    Exited,
    Failure,
    Loss,
    RunState,
    Work,
    has_begun,
)
from gpucloud.planning.avoidance import Avoided
from gpucloud.planning.waiting import pause_after
from gpucloud.resources import State, rfc3339
from gpucloud.spec.model import Spec

ASKS_FOR_RESTART = 75
"""The exit code by which a command asks for a restart: EX_TEMPFAIL of sysexits.h."""
TIMED_OUT = 124
"""The exit code of a command that was stopped by ``--timeout``: that of timeout(1)."""
MOST_FRUITLESS = 3
"""How many fruitless attempts in a row end a run: another one would most likely be lost as well."""
AVOIDED_FOR = timedelta(hours=1)
"""How long a place is left out after a box was lost there."""
LAST_TRY_WITHIN = timedelta(minutes=5)
"""How late the last try of a wait may be: whoever tends looks every few minutes."""
LEAST_AHEAD, LONGEST_AHEAD = timedelta(hours=1), timedelta(days=1)
"""The bounds of what the next box is expected to live, where nothing else says more."""
EVERY_REASON = tuple(loss for loss in Loss if loss is not Loss.REFUSED)
_LOST_BOX = frozenset({Loss.INTERRUPTION, Loss.HARDWARE})


class FruitlessError(GpucloudError):
    """The boxes of a run were lost again and again, and no checkpoint was written meanwhile."""

    exit_code = 5
    error_class = str(ErrorClass.CAPACITY)


class DeadlinePassedError(GpucloudError):
    """The deadline of a run, or of its box, passed before its command had ended."""

    error_class = "deadline"


class WaitOverError(GpucloudError):
    """A run has waited for a box as long as it may, and none was to be had."""

    exit_code = 5
    error_class = str(ErrorClass.CAPACITY)

    def __init__(self, until: datetime, last: AttemptRecord) -> None:
        super().__init__(
            f"no box was to be had until {rfc3339(until)}; the last try: {last.message}",
            hint="wait longer: --wait; or allow more: other GPUs, regions or ways of paying",
            attempts=[tried(last)],
        )


class DeletedError(GpucloudError):
    """A user deleted the box of a run before its command had ended."""

    error_class = "cancelled"


def timed_out(timeout_s: float) -> Exited:
    """The end of a command that still ran after this time."""
    text = f"the command still ran after {timeout_s:g} s, and was stopped (--timeout)"
    return Exited(TIMED_OUT, Failure(error_class="timeout", message=text))


@dataclass(frozen=True, slots=True)
class Restart:
    """Another attempt is to be made, this time or later."""

    at: datetime


@dataclass(frozen=True, slots=True)
class NoRestart:
    """No other attempt is made. ``error`` is the reason; ``None``: the loss itself is."""

    error: GpucloudError | None = None


def after_loss(
    work: Work, attempts: Sequence[AttemptRecord], expires_at: datetime | None, now: datetime
) -> Restart | NoRestart:
    """The next step of a run whose last attempt was lost.

    Args:
        work: what the run is to do.
        attempts: all of its attempts.
        expires_at: its deadline.
        now: the present time.
    """
    waits_until = end_of_wait(work, attempts)
    if waits_until is not None:
        at = min(now + timedelta(seconds=_pause_s(attempts)), waits_until)
        return Restart(at) if now < waits_until else NoRestart(WaitOverError(waits_until, attempts[-1]))
    if not may_restart(work, attempts[:-1], attempts[-1].loss):
        return NoRestart()
    fruitless = _fruitless(attempts)
    if len(fruitless) >= MOST_FRUITLESS:
        return NoRestart(
            FruitlessError(
                f"{len(fruitless)} attempts were lost without a newer checkpoint;"
                f" the last: {fruitless[-1].message}",
                hint="write checkpoints more often, or pay for boxes that are not taken back: --on-demand",
                attempts=[tried(each) for each in fruitless],
            )
        )
    at = now + timedelta(seconds=_pause_s(attempts))
    if has_begun(attempts) and not is_in_time(expires_at, at):
        return NoRestart(_too_late(f"; the last was lost: {attempts[-1].message}"))
    return Restart(at)


def _too_late(why: str = "") -> DeadlinePassedError:
    return DeadlinePassedError(
        f"too little is left until the deadline of the run for another attempt{why}",
        hint="use a larger --ttl",
    )


def refuse_replacing(spec: Spec) -> None:
    """Refuses the replacement of a faulty box of a run that nobody would tend.

    Raises:
        UsageError: the spec has it.
    """
    if spec.on_unhealthy == "replace":
        raise UsageError("on_unhealthy: replace needs a run that tend looks after", hint="use: run --detach")


def is_in_time(expires_at: datetime | None, at: datetime) -> bool:
    """Whether a box that is launched at this moment can boot before the deadline of its run."""
    return expires_at is None or expires_at - at >= LEAST_LIFE


def may_restart(work: Work, before: Sequence[AttemptRecord], loss: Loss | None) -> bool:
    """Whether the spec of a run allows a restart after a loss, with these attempts lost before."""
    return loss in work.reasons and restarts_after(work, before) < work.restarts


def restarts_after(work: Work, lost: Sequence[AttemptRecord]) -> int:
    """How many restarts these lost attempts took; the rounds of a wait take none."""
    rounds = BEFORE_THE_COMMAND if work.wait_s is not None else frozenset[Loss]()
    return sum(each.loss not in rounds for each in lost)


def is_waiting(attempts: Sequence[AttemptRecord]) -> bool:
    """Whether the next attempt of a run, or the one under way, follows one that got no box."""
    lost = [each for each in attempts if each.loss is not None]
    return bool(lost) and lost[-1].loss in BEFORE_THE_COMMAND


def end_of_wait(work: Work, attempts: Sequence[AttemptRecord]) -> datetime | None:
    """Until when a run tries to get a box; ``None`` where it does not wait: it has one, or may not.

    The wait begins when the first try in a row has come to nothing.
    """
    if work.wait_s is None or not is_waiting(attempts) or attempts[-1].loss is None:
        return None
    begun: datetime | None = None
    for each in reversed(attempts):
        if each.loss not in BEFORE_THE_COMMAND:
            break
        begun = each.lost_at or each.at
    assert begun is not None  # noqa: S101  (it waits)
    return begun + timedelta(seconds=work.wait_s)


def _fruitless(attempts: Sequence[AttemptRecord]) -> list[AttemptRecord]:
    """The lost boxes since a newer checkpoint became complete, or the command itself asked for a restart."""
    found: list[AttemptRecord] = []
    newest: str | None = None
    for each in attempts:
        if each.checkpoint not in {None, newest} or each.loss is Loss.REQUEST:
            found = []
        elif each.loss in _LOST_BOX:
            found.append(each)
        newest = each.checkpoint or newest
    return found


def _pause_s(attempts: Sequence[AttemptRecord]) -> int:
    """The pause before the next attempt; the pauses begin anew with each newer checkpoint."""
    in_a_row = 0
    newest: str | None = None
    for each in attempts:
        in_a_row = 1 if each.checkpoint not in {None, newest} else in_a_row + 1
        newest = each.checkpoint or newest
    return pause_after(in_a_row, capacity=attempts[-1].loss is Loss.CAPACITY)


def avoided(attempts: Sequence[AttemptRecord], now: datetime) -> Avoided:
    """The places that the next attempt leaves out: where a box was lost within the hour.

    A region in which two were lost is left out as a whole. Once all other places had no capacity, nothing is
    left out.
    """
    lost: list[AttemptRecord] = []
    for each in reversed(attempts):
        if each.loss is Loss.CAPACITY:
            break
        recent = each.lost_at is not None and now - each.lost_at < AVOIDED_FOR
        if recent and each.loss in _LOST_BOX and each.place is not None:
            lost.append(each)
    places = [each.place for each in lost if each.place is not None]
    return away_from([(place.cloud, place.region, place.zone, place.instance_type) for place in places])


def away_from(places: Sequence[tuple[str, str, str, str]]) -> Avoided:
    """What is left out after losses at these places (cloud, region, zone, instance type)."""
    regions = [place[:2] for place in places]
    return Avoided(
        places=frozenset(places), regions=frozenset(each for each in regions if regions.count(each) > 1)
    )


def hours_ahead(attempts: Sequence[AttemptRecord], expires_at: datetime | None, now: datetime) -> Decimal:
    """For how long the next box of a run is expected to live, in hours.

    As long as the boxes that it lost, on average, and an hour at least; but not beyond the deadline of the
    run, or a day if it has none.
    """
    lives = [each.lost_at - each.at for each in attempts if each.loss in _LOST_BOX and each.lost_at]
    left = LONGEST_AHEAD if expires_at is None else expires_at - now
    expected = max(sum(lives, timedelta()) / len(lives), LEAST_AHEAD) if lives else left
    return Decimal(int(min(expected, left).total_seconds())) / 3600


def tried(attempt: AttemptRecord) -> dict[str, Any]:
    """A lost attempt, for ``attempts`` of the error document."""
    place = attempt.place
    return {
        "cloud": place.cloud if place else None,
        "region": place.region if place else None,
        "zone": place.zone or None if place else None,
        "instance_type": place.instance_type if place else None,
        "purchase": place.purchase if place else None,
        "class": str(attempt.loss),
        "code": None,
        "message": attempt.message or "",
        "hint": None,
        "request_id": None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of an attempt whose box is not ready any more: it was lost, or the run is over with it."""

    loss: Loss | None = None
    message: str = ""
    ended: RunEnded | None = None


def what_is_lost(box: Box, nodes: Sequence[int]) -> str:
    """A box, or those nodes of several that are lost, in words."""
    if not nodes or len(nodes) == len(box.nodes):
        return f"box {box.name!r}"
    numbers = ", ".join(map(str, nodes))
    return f"node{'s' if len(nodes) > 1 else ''} {numbers} of box {box.name!r}"


def why_lost(taken_back: bool) -> str:
    """Why, in words that go on after :func:`what_is_lost`."""
    return "was interrupted by its cloud" if taken_back else "ended before its command did"


def fate_of_nodes(box: Box, work: Work) -> Fate | None:
    """What became of the attempt of a detached run by the end of nodes of a box that has others left."""
    working = box.nodes[:1] if work.first_node_only else box.nodes
    lost = [number for number, node in enumerate(working) if node.state is State.GONE]
    if not lost:
        return None
    taken_back = any(box.nodes[each].taken_back for each in lost)
    text = f"{what_is_lost(box, lost)} {why_lost(taken_back)}"
    if taken_back:
        return Fate(loss=Loss.INTERRUPTION, message=text)
    return _over(RunState.FAILED, "box_lost", text)


def fate_of(box: Box) -> Fate | None:
    """What became of the attempt of a detached run by the end of its box; ``None`` while that is open.

    An ``attended`` box was still launched when its end came: nobody had begun the command on it.
    """
    if box.state in STOPPABLE:
        return None
    if box.ended_by is EndedBy.CLOUD:
        return Fate(loss=Loss.INTERRUPTION, message=f"{what_is_lost(box, ())} {why_lost(True)}")
    if box.attended or box.state is BoxState.FAILED:
        return Fate(loss=Loss.LAUNCH, message=f"the launch of box {box.name!r} was not finished")
    if passed_its_end(box):
        return DEADLINE_PASSED
    if box.ended_by is EndedBy.ITSELF:
        return _over(RunState.FAILED, "box_lost", f"{what_is_lost(box, ())} {why_lost(False)}")
    return _over(RunState.CANCELLED, "cancelled", f"box {box.name!r} was deleted")


def passed_its_end(box: Box) -> bool:
    """Whether a box that has ended did so at its deadline."""
    late = box.expires_at is not None and box.ended_at is not None and box.ended_at >= box.expires_at
    return box.ended_by is EndedBy.TTL or late


def why_gone(box: Box, lost: Sequence[int]) -> GpucloudError | None:
    """Why the command of a run cannot go on, on a box as its cloud has it now; ``None``: it can.

    Args:
        box: the box.
        lost: which of the nodes that the command is on are gone.
    """
    what = what_is_lost(box, lost)
    taken_back = box.state is BoxState.INTERRUPTED or any(box.nodes[each].taken_back for each in lost)
    if box.state is BoxState.READY and not lost:
        return None
    if taken_back:
        hint = "restart automatically: --restarts 3"
        return BoxLostError(f"{what} {why_lost(True)}", taken_back=True, hint=hint)
    if passed_its_end(box):
        text = f"the deadline of box {box.name!r} passed before its command ended"
        return DeadlinePassedError(text, hint="use a larger --ttl, or move it: gpucloud extend")
    if box.state in {BoxState.DELETING, BoxState.DELETED} and box.ended_by is None:
        return DeletedError(f"box {box.name!r} was deleted before its command ended")
    return BoxLostError(f"{what} {why_lost(False)}", taken_back=False, hint="see --ttl, --idle")


STOPPABLE = HALTING | {BoxState.STOPPED}
"""In these states a user has stopped the box, who may start it again."""


def _over(state: RunState, error_class: str, message: str) -> Fate:
    return Fate(ended=RunEnded(state=state, failure=Failure(error_class=error_class, message=message)))


DEADLINE_PASSED = _over(RunState.FAILED, DeadlinePassedError.error_class, "its deadline passed")


def spec_left(spec: Spec, expires_at: datetime | None, spent_usd: Decimal, now: datetime) -> Spec:
    """The spec of the next attempt: with what is left until the deadline of the run, and of its budget.

    Args:
        spec: the spec of the run.
        expires_at: the deadline of the run.
        spent_usd: what its boxes have cost so far.
        now: the present time.

    Raises:
        PriceError: nothing is left of the budget.
        DeadlinePassedError: too little is left until the deadline.
    """
    if not is_in_time(expires_at, now):
        raise _too_late()
    if expires_at is not None:
        spec = spec.replaced(ttl=expires_at - now)
    left = spec.after_spending(spent_usd)
    if left is None:
        raise PriceError(
            f"the run has cost {spent_usd:f} USD, and its budget is {spec.budget:f} USD",
            hint="run it again with a larger --budget",
        )
    return left


def job_environment(run_id: str, work: Work, attempts: Sequence[AttemptRecord]) -> Mapping[str, str]:
    """The variables that say to the command of a run which run it is, and how often it was restarted."""
    restarts = restarts_after(work, [each for each in attempts if each.loss is not None])
    return {"GPUCLOUD_RUN_ID": run_id, "GPUCLOUD_RESTARTS": str(restarts)}

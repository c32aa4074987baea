"""The life of a box as pure functions: states, ids, deadlines, and the recovery after a crash."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from gpucloud.resources import Ref, State

CONSISTENCY_WINDOW = timedelta(minutes=10)
"""How long a cloud's lists may lag; EC2's reference says "a few minutes" of eventual consistency."""


LEAST_LIFE = timedelta(minutes=1)
"""The shortest lifetime that is accepted: no machine of any cloud starts and answers over ssh in less."""


class BoxState(StrEnum):
    """The states of a box."""

    PLANNED = "planned"
    PROVISIONING = "provisioning"
    BOOTSTRAPPING = "bootstrapping"
    READY = "ready"
    INTERRUPTED = "interrupted"
    STOPPING = "stopping"
    STOPPED = "stopped"
    STARTING = "starting"
    DELETING = "deleting"
    DELETED = "deleted"
    FAILED = "failed"


class EndedBy(StrEnum):
    """Why the machines of a box ended without being taken down."""

    TTL = "ttl"
    CLOUD = "cloud"  # interrupted by the cloud
    ITSELF = "itself"  # by its guard because it was idle, or by a user in the cloud


OVER = frozenset({BoxState.DELETED, BoxState.FAILED})
"""In these states nothing billable is left of a box, and its name is free again."""

LAUNCHING = frozenset({BoxState.PLANNED, BoxState.PROVISIONING, BoxState.BOOTSTRAPPING})
"""In these states a box belongs to a running ``launch``; without one it is left from a failed launch."""

BEGINNING = LAUNCHING | {BoxState.STARTING}
"""In these states what a box costs per hour is not what is billed yet."""

HALTING = frozenset({BoxState.STOPPING, BoxState.STARTING})
"""In these states a box belongs to a running ``stop`` or ``start``; without one it is stopped."""

HANDED_OVER = HALTING | {BoxState.READY, BoxState.STOPPED}
"""In these states a box is its owner's: it lives until its deadline."""

_NEXT: dict[BoxState, frozenset[BoxState]] = {
    BoxState.PLANNED: frozenset({BoxState.PROVISIONING, BoxState.DELETING, BoxState.FAILED}),
    BoxState.PROVISIONING: frozenset(  # a volume or a snapshot has no boot: it is ready once it is there
        {BoxState.BOOTSTRAPPING, BoxState.READY, BoxState.DELETING, BoxState.FAILED}
    ),
    BoxState.BOOTSTRAPPING: frozenset({BoxState.READY, BoxState.PROVISIONING, BoxState.DELETING}),
    BoxState.READY: frozenset({BoxState.STOPPING, BoxState.INTERRUPTED, BoxState.DELETING}),
    BoxState.STOPPING: frozenset({BoxState.STOPPED, BoxState.READY, BoxState.INTERRUPTED, BoxState.DELETING}),
    BoxState.STOPPED: frozenset(
        {BoxState.STARTING, BoxState.STOPPING, BoxState.INTERRUPTED, BoxState.DELETING}
    ),
    BoxState.STARTING: frozenset(
        {BoxState.READY, BoxState.STOPPED, BoxState.STOPPING, BoxState.INTERRUPTED, BoxState.DELETING}
    ),
    BoxState.INTERRUPTED: frozenset({BoxState.DELETING}),
    BoxState.DELETING: frozenset({BoxState.DELETED, BoxState.FAILED}),
    BoxState.DELETED: frozenset(),
    BoxState.FAILED: frozenset(),
}


def may_become(old: BoxState, new: BoxState) -> bool:
    """Whether a box may go from one state to another; staying is always allowed."""
    return old == new or new in _NEXT[old]


_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str, now: datetime, randomness: bytes) -> str:
    """An id that sorts by time: 48 bits of milliseconds and 80 random bits, 26 characters."""
    number = int(now.timestamp() * 1000) << 80 | int.from_bytes(randomness[:10], "big")
    return prefix + "".join(_BASE32[number >> shift & 31] for shift in range(125, -1, -5))


def id_time(id: str) -> datetime | None:  # noqa: A002
    """When an id of :func:`new_id` was made, by the clock of its maker; ``None`` for any other text."""
    digits = id.rpartition("-")[2]
    if len(digits) != 26 or not set(digits) <= set(_BASE32):
        return None
    milliseconds = 0
    for digit in digits:
        milliseconds = milliseconds << 5 | _BASE32.index(digit)
    try:
        return datetime.fromtimestamp((milliseconds >> 80) / 1000, UTC)
    except (OverflowError, ValueError):
        return None


def generated_name(gpu_model: str, randomness: bytes) -> str:
    """A box name for a launch without ``--name``: the GPU and four characters, such as ``t4-9k2m``."""
    model = "".join(c for c in gpu_model.lower() if c.isalnum() or c == "-")[:30]
    return f"{model}-" + "".join(_BASE32[byte & 31] for byte in randomness[:4])


# --- recovery after a crash


class Phase(StrEnum):
    """The progress of one create call or one resource by the journal."""

    CREATE_OPEN = "create_open"  # a create call without an answer, or whose earlier try had none
    MADE = "made"  # an id is known, and the resource is no longer wanted
    DELETE_ASKED = "delete_asked"  # the cloud accepted the deletion
    GONE_ONCE = "gone_once"  # not found once after a deletion; to be checked again


class Sighting(StrEnum):
    """The answer of the cloud."""

    THERE = "there"
    ENDING = "ending"
    TERMINAL = "terminal"  # returned, in its terminal state
    ABSENT = "absent"  # not found, with permission proven
    UNREADABLE = "unreadable"


class RecoveryStep(StrEnum):
    """The next step of recovery."""

    ADOPT = "adopt"  # journal the id; the resource is then deleted like any other
    DELETE = "delete"
    WAIT = "wait"  # nothing can be concluded yet
    CLOSE = "close"  # proven gone or never made
    LOOK_AGAIN = "look_again"  # gone once: check a second time after the consistency window


_DO: dict[Phase, dict[Sighting, tuple[RecoveryStep, RecoveryStep]]] = {
    # (while younger than the consistency window, after it)
    Phase.CREATE_OPEN: {
        Sighting.UNREADABLE: (RecoveryStep.WAIT, RecoveryStep.WAIT),
        Sighting.THERE: (RecoveryStep.ADOPT, RecoveryStep.ADOPT),
        Sighting.ENDING: (RecoveryStep.ADOPT, RecoveryStep.ADOPT),
        Sighting.TERMINAL: (RecoveryStep.CLOSE, RecoveryStep.CLOSE),
        Sighting.ABSENT: (RecoveryStep.WAIT, RecoveryStep.CLOSE),
    },
    Phase.MADE: {
        Sighting.UNREADABLE: (RecoveryStep.WAIT, RecoveryStep.WAIT),
        Sighting.THERE: (RecoveryStep.DELETE, RecoveryStep.DELETE),
        Sighting.ENDING: (RecoveryStep.DELETE, RecoveryStep.DELETE),
        Sighting.TERMINAL: (RecoveryStep.CLOSE, RecoveryStep.CLOSE),
        # An id that the cloud does not find (yet): only a deletion by id proves it gone.
        Sighting.ABSENT: (RecoveryStep.DELETE, RecoveryStep.DELETE),
    },
    Phase.DELETE_ASKED: {
        Sighting.UNREADABLE: (RecoveryStep.WAIT, RecoveryStep.WAIT),
        Sighting.THERE: (RecoveryStep.DELETE, RecoveryStep.DELETE),
        Sighting.ENDING: (RecoveryStep.WAIT, RecoveryStep.DELETE),
        Sighting.TERMINAL: (RecoveryStep.CLOSE, RecoveryStep.CLOSE),
        Sighting.ABSENT: (RecoveryStep.LOOK_AGAIN, RecoveryStep.LOOK_AGAIN),
    },
    Phase.GONE_ONCE: {
        Sighting.UNREADABLE: (RecoveryStep.WAIT, RecoveryStep.WAIT),
        Sighting.THERE: (RecoveryStep.DELETE, RecoveryStep.DELETE),
        Sighting.ENDING: (RecoveryStep.WAIT, RecoveryStep.DELETE),
        Sighting.TERMINAL: (RecoveryStep.CLOSE, RecoveryStep.CLOSE),
        Sighting.ABSENT: (RecoveryStep.WAIT, RecoveryStep.CLOSE),
    },
}


def reconcile(phase: Phase, seen: Sighting, *, age: timedelta) -> RecoveryStep:
    """The next step for one intent or resource of a box that no process is launching any more.

    Args:
        phase: its progress by the journal.
        seen: the present answer of the cloud.
        age: since the intent was written, the deletion was requested, or the first absence was seen.
    """
    young, old = _DO[phase][seen]
    return old if age >= CONSISTENCY_WINDOW else young


def seen_state(state: State) -> Sighting:
    """A cloud's state as an answer for recovery."""
    return {State.GONE: Sighting.TERMINAL, State.STOPPING: Sighting.ENDING}.get(state, Sighting.THERE)


# --- leases


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The holder of a box: one process of one PID namespace of one boot of one machine.

    ``host`` is for people: a container, DHCP or a shared home changes it. ``started`` is the process's start
    time in clock ticks since boot, which distinguishes it from a later process with the same id. ``beat`` is
    when the holder last renewed the lease, by the journal's clock. ``call`` distinguishes the calls that one
    process makes at the same time. A field that the system does not provide is empty.
    """

    host: str
    boot: str
    pid: int
    started: int
    beat: datetime
    namespace: str = ""
    call: str = ""

    def is_of(self, other: Lease) -> bool:
        """Whether both are of the same process."""
        return self._place == other._place and (self.pid, self.started) == (other.pid, other.started)

    def can_ask(self, other: Lease) -> bool:
        """Whether the process of this lease can look up the process of another one."""
        # Without a namespace id the process ids of another process may belong to another namespace.
        return self._place == other._place and bool(self.namespace or not self.boot)

    @property
    def _place(self) -> tuple[str, ...]:
        return (self.boot, self.namespace) if self.namespace else (self.boot, self.host)


BEAT_EVERY_S = 10.0
"""How often a process renews the leases that it holds."""

LEASE_TIMEOUT = timedelta(seconds=45)
"""A holder that cannot be checked, and has not renewed its lease for this long, counts as dead."""


class Claim(StrEnum):
    """The meaning of a lease for another process."""

    FREE = "free"  # no process holds it, the call itself does, or its holder has ended
    SILENT = "silent"  # its holder cannot be checked and has not renewed it: it may be paused and resume
    HELD = "held"  # its holder is alive


def claim_on(
    lease: Lease | None, *, here: Lease, alive: Iterable[tuple[int, int]], calls: Collection[str] = ()
) -> Claim:
    """The meaning of a lease in the journal for a call of this process.

    Args:
        lease: the one in the journal, if any.
        here: the lease that this call would write now.
        alive: whether a process (pid, started) lives, of those that this process can see.
        calls: the calls of this process that are under way.
    """
    if lease is None:
        return Claim.FREE
    if lease.is_of(here):
        return Claim.HELD if lease.call in calls and lease.call != here.call else Claim.FREE
    if here.can_ask(lease):
        return Claim.HELD if (lease.pid, lease.started) in alive else Claim.FREE
    return Claim.HELD if here.beat - lease.beat < LEASE_TIMEOUT else Claim.SILENT


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDeletion:
    """A resource that may still be billed, for ``left`` of the error document."""

    ref: Ref
    name: str
    price_per_hour: Decimal | None
    currency: str | None

    def as_dict(self) -> dict[str, object]:
        """Its entry in the error document."""
        price = None
        if self.price_per_hour is not None:
            price = {"amount": format(self.price_per_hour, "f"), "currency": self.currency}
        return {
            "kind": str(self.ref.kind),
            "id": self.ref.id or self.name,
            "cloud": self.ref.cloud,
            "region": self.ref.region,
            "price": price,
        }

"""The journal's knowledge of a run, as values: its work, its attempts, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpucloud.journal.plain import Data


class RunState(StrEnum):
    """The states of a run."""

    RUNNING = "running"
    WAITING = "waiting"  # its last attempt was lost, and the next one is due later
    FETCHING = "fetching"  # its command has ended, and its files are on its box, which stays
    ENDED = "ended"  # its command has ended, with an exit code
    FAILED = "failed"
    CANCELLED = "cancelled"


RUNS_OVER = frozenset({RunState.ENDED, RunState.FAILED, RunState.CANCELLED})
"""In these states nothing more is bought for a run, and its id may be used again."""


class Loss(StrEnum):
    """Why an attempt of a run was lost, though its command may have done nothing wrong."""

    INTERRUPTION = "interruption"  # its cloud took the box back
    HARDWARE = "hardware"  # the box exists and no longer answers, or its GPUs are not those that were rented
    CAPACITY = "capacity"  # no offer started
    REQUEST = "request"  # the command asked for a restart, by its exit code
    LAUNCH = "launch"  # the process that launched the box ended before the command began
    REFUSED = "refused"  # the launch for a slot of a cluster failed otherwise: quota, price, credentials


BEFORE_THE_COMMAND = frozenset({Loss.CAPACITY, Loss.LAUNCH})
"""Losses of attempts whose command has not begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPlace:
    """Where the box of an attempt was. ``zone`` is empty if the cloud has none."""

    cloud: str
    region: str
    zone: str
    instance_type: str
    purchase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One box of a run.

    Attributes:
        box: its id; ``None`` if none was planned.
        at: when it was begun.
        lost_at: when its loss was noticed; ``None`` if it was not lost.
        loss: why it was lost.
        message: the loss, in words.
        place: where its box was.
        checkpoint: the name of the newest checkpoint that was complete then; ``None`` without one.
        checkpoint_bytes: about how large it was; ``None`` if that is not known.
    """

    box: str | None
    at: datetime
    lost_at: datetime | None = None
    loss: Loss | None = None
    message: str | None = None
    place: AttemptPlace | None = None
    checkpoint: str | None = None
    checkpoint_bytes: int | None = None


def has_begun(attempts: Iterable[AttemptRecord]) -> bool:
    """Whether a box was there for the command of a run: its deadline counts from the first one."""
    return any(each.loss not in BEFORE_THE_COMMAND for each in attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """The slots of a cluster that an engine wants as the nodes of one box: it runs its own commands there.

    Attributes:
        cluster: the name of the cluster.
        node_class: the name of their class.
        names: their names by rank; the first one is the run's id and the box's name.
        labels: what the engine says of them, in its own words.
    """

    cluster: str
    node_class: str
    names: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The files of a run, frozen at its submission: one archive, which every attempt unpacks.

    Attributes:
        sha256: the digest of the archive, which is its name.
        size_bytes: the size of the archive.
        files: how many files and links it has.
        commit: the git commit of the files, with ``+dirty`` if there were changes; ``None`` without one.
        absolute: whether some go to absolute paths.
        machine: the host that has the archive.
        stored: whether the run's store has it too.
    """

    sha256: str
    size_bytes: int
    files: int
    commit: str | None
    absolute: bool
    machine: str
    stored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a run is to do.

    Attributes:
        spec: the spec of its boxes as plain JSON, without the values of ``env``.
        command: a shell command, or the arguments of a program.
        restarts: how often it may be restarted.
        reasons: after which losses.
        wait_s: for how long a box is tried to be had, each time that one is needed; ``None``: once.
        timeout_s: how long its command may take; ``None`` for no limit.
        fetch: what to copy back at its end: (path on the box, path on the machine that began it).
        accept_snapshot_price: whether a box may be bought at a price that the cloud does not confirm.
        first_node_only: whether its command is on the first node alone, not on all.
        code: the files that its boxes get; ``None`` without any.
        keep_on_failure: whether its box stays until its deadline if the command fails.
        keep_results_s: how long its box stays where its files cannot be copied; ``None`` until its deadline.
        fetch_from_all: whether files are copied from every node, each into a folder named by its number.
        slots: what its boxes are for, if it is the wish of an engine: it has no command, and goes on until
            the engine does not want it any more; ``None`` for a command.
    """

    spec: Data
    command: tuple[str, ...] | str
    restarts: int = 0
    reasons: tuple[Loss, ...] = ()
    wait_s: float | None = None
    timeout_s: float | None = None
    fetch: tuple[tuple[str, str], ...] = ()
    accept_snapshot_price: bool = False
    first_node_only: bool = False
    code: Code | None = None
    keep_on_failure: bool = False
    keep_results_s: float | None = None
    fetch_from_all: bool = False
    slots: Slots | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run ended otherwise than with its command: an error class, and the error in words."""

    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The command of a run has ended, with an exit code; ``failure`` says why, where it did not by itself."""

    code: int
    failure: Failure | None = None

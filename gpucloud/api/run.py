"""Runs for programs: what a run is to do, its attempts and their costs, and how it ended."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from gpucloud.api.texts import sums_text
from gpucloud.costs.spend import charges, per_hour, totals_of
from gpucloud.journal.leases import claim
from gpucloud.journal.lifecycle import OVER, Claim
from gpucloud.journal.records import Box
from gpucloud.journal.runs import RUNS_OVER, Code, Failure, Loss, RunState
from gpucloud.rendering.table import Cell, Role, Table
from gpucloud.rendering.tabular import TableRow
from gpucloud.rendering.texts import counted, duration_text
from gpucloud.resources import rfc3339
from gpucloud.runs.rules import end_of_wait, restarts_after
from gpucloud_pricing import format_money
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.api.documents import (
        KeptResultsDocument,
        RunAttemptDocument,
        RunCodeDocument,
        RunFailureDocument,
        RunRecordDocument,
        SavedSetDocument,
    )
    from gpucloud.api.session import Session
    from gpucloud.journal.facts import SavedSet
    from gpucloud.journal.records import Run as JournalRun
    from gpucloud.journal.runs import AttemptRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAttempt:
    """One box of a run. A field that is not known is ``None``.

    Attributes:
        box: the name of the box.
        box_id: its id.
        at: when the attempt was begun.
        lost_at: when its loss was noticed.
        loss: why it was lost: ``interruption``, ``hardware``, ``capacity``, ``request`` or ``launch``; of a
            slot of a cluster, also ``refused``: its launch failed otherwise.
        message: the loss, in words.
        checkpoint: the number of the newest attempt with a whole checkpoint in the bucket then.
        checkpoint_bytes: about how large that was.
        saved: its newest whole checkpoint, as :meth:`Client.run` or :meth:`Tend.once` has seen it last.
        traffic: what it costs besides its box to restore the last checkpoint in its place, in words.
        cost_so_far: what the box has cost, by currency.
    """

    box: str | None
    box_id: str | None
    cloud: str | None
    region: str | None
    zone: str | None
    instance_type: str | None
    purchase: str | None
    at: datetime
    lost_at: datetime | None
    loss: Loss | None
    message: str | None
    checkpoint: str | None
    checkpoint_bytes: int | None
    saved: SavedSet | None
    traffic: str | None
    cost_so_far: tuple[Money, ...]

    @classmethod
    def read(cls, attempt: AttemptRecord, box: Box | None, session: Session, now: datetime) -> RunAttempt:
        """An attempt with its box from the journal, at a moment."""
        place, offer = (box.place, box.offer) if box else (None, None)
        return cls(
            box=box.name if box else None,
            box_id=attempt.box,
            cloud=place.cloud if place else None,
            region=place.region if place else None,
            zone=place.zone or None if place else None,
            instance_type=offer.instance_type if offer else None,
            purchase=str(offer.purchase) if offer else None,
            at=attempt.at,
            lost_at=attempt.lost_at,
            loss=attempt.loss,
            checkpoint=attempt.checkpoint,
            checkpoint_bytes=attempt.checkpoint_bytes,
            message=attempt.message,
            saved=box.saved if box else None,
            traffic=box.traffic if box else None,
            cost_so_far=tuple(totals_of(charges(box, None, now, session.billing_of))) if box else (),
        )

    def document(self) -> RunAttemptDocument:
        """An attempt of ``gpucloud.runs-show/v1``."""
        return {
            "box": self.box,
            "box_id": self.box_id,
            "cloud": self.cloud,
            "region": self.region,
            "zone": self.zone,
            "instance_type": self.instance_type,
            "purchase": self.purchase,
            "at": rfc3339(self.at),
            "lost_at": _time(self.lost_at),
            "loss": str(self.loss) if self.loss else None,
            "message": self.message,
            "checkpoint": self.checkpoint,
            "checkpoint_bytes": self.checkpoint_bytes,
            "saved": saved_document(self.saved) if self.saved else None,
            "traffic": self.traffic,
            "cost_so_far": [money.document() for money in self.cost_so_far],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResults:
    """Files of a command that has ended, which could not be copied, and the box that is kept for them.

    Attributes:
        why: what was not copied, and why.
        box: the name of the box.
        until: its deadline; ``None`` for none.
        per_hour: what it costs; ``None`` if that is not known.
        command: copies the files, and ends the box.
    """

    why: str
    box: str
    until: datetime | None
    per_hour: Money | None
    command: str

    @classmethod
    def read(cls, run: JournalRun, boxes: Mapping[str, Box], session: Session) -> KeptResults | None:
        """Those of a run, from the journal; ``None`` if it has none."""
        box = boxes.get(run.box or "")
        if run.state is not RunState.FETCHING or run.not_fetched is None or box is None or box.state in OVER:
            return None
        return cls(
            why=run.not_fetched,
            box=box.name,
            until=box.expires_at,
            per_hour=per_hour(box, session.billing_of).total,
            command=f"gpucloud runs fetch {run.run_id}",
        )

    @property
    def text(self) -> str:
        """The box, its price and its end, in words."""
        rate = self.per_hour
        price = f", for {format_money(rate.amount, rate.currency)} per hour" if rate else ""
        until = f"until {rfc3339(self.until)}" if self.until else "without a deadline"
        return f"box {self.box} is kept {until}{price}"

    def document(self) -> KeptResultsDocument:
        """``kept`` of a run in the JSON documents."""
        return {
            "why": self.why,
            "box": self.box,
            "until": _time(self.until),
            "per_hour": self.per_hour.document() if self.per_hour else None,
            "command": self.command,
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run(TableRow):
    """One run, as read from the journal. Times are in UTC; a field that is not known is ``None``.

    Attributes:
        run_id: its id, which its boxes have as a tag; unique among the runs that are not over.
        state: ``running``, ``waiting`` (for another attempt), ``ended`` (with an exit code), ``failed`` or
            ``cancelled``; ``fetching`` while files of a command that has ended are on its box.
        detached: whether it goes on without the process that began it: :meth:`Tend.once` looks after it.
        abandoned: whether its process has ended, and it was not detached: it will not go on.
        command: a shell command, or the arguments of a program.
        spec: the spec of its boxes, without the values of ``env``.
        restarts: how often it was restarted.
        most_restarts: how often it may be.
        restart_at: when the next attempt is due.
        waits_until: until when it tries to get a box, while it has none and may wait.
        expires_at: its deadline, also of its last box; ``None`` for none.
        exit_code: of its command.
        failure: why it ended otherwise: of a command that ran too long, ``timeout``, with exit code 124.
        attempts: its boxes, oldest first.
        cost_so_far: what they have cost, by currency.
        kept: its files that could not be copied, and their box.
        cluster: the cluster whose engine wants it, and runs its own commands there; ``None`` for a command.
        slots: the slots of that cluster, which are the nodes of its box.
        code: the files that every attempt gets, frozen at the submission; ``None`` without any.
    """

    run_id: str
    owner: str
    state: RunState
    detached: bool
    abandoned: bool
    command: Sequence[str] | str
    spec: Mapping[str, Any]
    restarts: int
    most_restarts: int
    restart_at: datetime | None
    waits_until: datetime | None
    created_at: datetime
    ended_at: datetime | None
    expires_at: datetime | None
    exit_code: int | None
    failure: Failure | None
    attempts: tuple[RunAttempt, ...]
    cost_so_far: tuple[Money, ...]
    kept: KeptResults | None = None
    cluster: str | None = None
    slots: tuple[str, ...] = ()
    code: Code | None = None

    def __repr__(self) -> str:
        """One line, for a prompt or a log: all fields are in :meth:`document`."""
        code = "" if self.exit_code is None else f" exit code {self.exit_code}"
        return f"<Run {self.run_id} {self.state}{code}: {len(self.attempts)} attempts>"

    @classmethod
    def read(cls, run: JournalRun, session: Session, now: datetime) -> Run:
        """A run from the journal's record, at a moment."""
        boxes = {
            box.id: box for box in session.journal.known(Box, {each.box for each in run.attempts if each.box})
        }
        spent = [charge for box in boxes.values() for charge in charges(box, None, now, session.billing_of)]
        held = claim(run.lease, session.journal.now()) is Claim.HELD
        return cls(
            run_id=run.run_id,
            owner=run.owner,
            state=run.state,
            detached=run.detached,
            abandoned=run.state not in RUNS_OVER and not run.unattended and not held,
            command=run.work.command,
            spec=run.work.spec,
            restarts=max(restarts_after(run.work, run.attempts) - 1, 0),
            most_restarts=run.work.restarts,
            restart_at=run.restart_at,
            waits_until=None if run.state in RUNS_OVER else end_of_wait(run.work, run.attempts),
            created_at=run.created_at,
            ended_at=run.ended_at,
            expires_at=run.expires_at,
            exit_code=run.exit_code,
            failure=run.failure,
            attempts=tuple(
                RunAttempt.read(each, boxes.get(each.box or ""), session, now) for each in run.attempts
            ),
            cost_so_far=tuple(totals_of(spent)),
            kept=KeptResults.read(run, boxes, session),
            cluster=run.work.slots.cluster if run.work.slots else None,
            slots=run.work.slots.names if run.work.slots else (),
            code=run.work.code,
        )

    def document(self) -> RunRecordDocument:
        """RUN of the JSON documents."""
        return {
            "run_id": self.run_id,
            "owner": self.owner,
            "state": str(self.state),
            "detached": self.detached,
            "abandoned": self.abandoned,
            "command": self.command if isinstance(self.command, str) else list(self.command),
            "spec": dict(self.spec),
            "restarts": self.restarts,
            "most_restarts": self.most_restarts,
            "restart_at": _time(self.restart_at),
            "waits_until": _time(self.waits_until),
            "created_at": rfc3339(self.created_at),
            "ended_at": _time(self.ended_at),
            "expires_at": _time(self.expires_at),
            "exit_code": self.exit_code,
            "failure": failure_document(self.failure),
            "attempts": [each.document() for each in self.attempts],
            "cost_so_far": [money.document() for money in self.cost_so_far],
            "kept": self.kept.document() if self.kept else None,
            "cluster": self.cluster,
            "slots": list(self.slots),
            "code": None if self.code is None else _code(self.code),
        }

    @classmethod
    def table_of(cls, rows: Sequence[Self]) -> Table:
        """The table of ``gpucloud runs list``."""
        now = datetime.now(UTC)
        columns: dict[str, Sequence[object]] = {
            "RUN": [run.run_id for run in rows],
            "STATE": [state_cell(run) for run in rows],
            "RESTARTS": [
                str(run.restarts) if run.cluster else f"{run.restarts}/{run.most_restarts}" for run in rows
            ],
            "BOX": [run.attempts[-1].box if run.attempts and run.ended_at is None else None for run in rows],
            "SO FAR": [sums_text(run.cost_so_far) for run in rows],
            "AGE": [duration_text(now - run.created_at) for run in rows],
            "LEFT": [_left_text(run, now) for run in rows],
            "COMMAND": [command_text(run) for run in rows],
        }
        right = ("RESTARTS", "SO FAR", "AGE", "LEFT")
        return Table(columns, right=right, optional=("COMMAND", "BOX", "AGE", "LEFT"))


def saved_document(saved: SavedSet) -> SavedSetDocument:
    """A checkpoint as the JSON documents have it."""
    return {
        "number": saved.number,
        "at": rfc3339(saved.at),
        "newest_file": saved.newest,
        "files": saved.files,
        "bytes": saved.size_bytes,
        "bytes_per_second": saved.bytes_per_s and round(saved.bytes_per_s, 1),
        "upload_seconds": None if saved.upload_s is None else round(saved.upload_s, 1),
        "notice_seconds": dict(saved.notices),
    }


def failure_document(failure: Failure | None) -> RunFailureDocument | None:
    """Why a run, or its command, ended otherwise than by itself."""
    return {"class": failure.error_class, "message": failure.message} if failure else None


def find_run(session: Session, run_id: str) -> JournalRun:
    """The run with this id; of several, the newest.

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    found = session.journal.runs_named(session.owner, run_id)
    if found:
        return found[-1]
    known = [run.run_id for run in session.journal.runs(owner=session.owner, over=True)]
    from gpucloud.boxes.connection import no_such

    raise no_such("run", run_id, known, hint="see your runs: gpucloud runs list --all")


def _code(code: Code) -> RunCodeDocument:
    return {
        "sha256": code.sha256,
        "size_bytes": code.size_bytes,
        "files": code.files,
        "commit": code.commit,
        "machine": code.machine,
        "stored": code.stored,
    }


def _time(moment: datetime | None) -> str | None:
    return rfc3339(moment) if moment else None


# --- as texts of a table


def ends_at(run: Run) -> datetime | None:
    """When a run ends: with the box that is kept for its files, once its command has ended."""
    return run.kept.until if run.kept else run.expires_at


def _left_text(run: Run, now: datetime) -> str | None:
    """The time until the deadline; ``None`` for a run that is over."""
    if run.ended_at is not None:
        return None
    end = ends_at(run)
    if end is None:
        return "while wanted" if run.cluster else "no end"
    return duration_text(end - now)


def state_cell(run: Run) -> Cell:
    """The state of a run, and what needs attention."""
    if run.abandoned:
        return Cell(f"{run.state} (its process has ended)", Role.FAILED)
    if run.waits_until is not None:
        return Cell(f"{run.state} (until {rfc3339(run.waits_until)})")
    if run.failure is not None and run.state is RunState.FAILED:
        return Cell(f"{run.state} ({run.failure.error_class})", Role.FAILED)
    if run.exit_code is not None:
        what = "results not fetched" if run.kept else run.state
        return Cell(f"{what} (exit code {run.exit_code})", Role.FAILED if run.exit_code or run.kept else None)
    return Cell(str(run.state))


def command_text(run: Run) -> str:
    """The first line of a command; of a cluster's run, its nodes."""
    if run.cluster is not None:
        return f"({counted(len(run.slots), 'node')} of cluster {run.cluster})"
    text = run.command if isinstance(run.command, str) else shlex.join(run.command)
    return text.splitlines()[0] if text else ""

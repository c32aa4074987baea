"""Runs for programs: what a run is to do, its attempts and their costs, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gpucloud.costs.spend import charges, totals_of
from gpucloud.journal.leases import claim
from gpucloud.journal.lifecycle import Claim
from gpucloud.journal.runs import RUNS_OVER, Code, Failure, Loss, RunState
from gpucloud.resources import rfc3339
from gpucloud.runs.rules import end_of_wait, restarts_after
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.api.client import Client
    from gpucloud.api.documents import (
        RunAttemptDocument,
        RunCodeDocument,
        RunRecordDocument,
        SavedSetDocument,
    )
    from gpucloud.journal.facts import SavedSet
    from gpucloud.journal.records import Box
    from gpucloud.journal.records import Run as JournalRun
    from gpucloud.journal.runs import Attempt


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
        saved: its newest whole checkpoint, as :meth:`Client.run` or :meth:`Client.tend` has seen it last.
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
    def read(cls, attempt: Attempt, box: Box | None, client: Client, now: datetime) -> RunAttempt:
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
            cost_so_far=tuple(totals_of(charges(box, None, now, client.billing_of))) if box else (),
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
class Run:
    """One run, as read from the journal. Times are in UTC; a field that is not known is ``None``.

    Attributes:
        run_id: its id, which its boxes have as a tag; unique among the runs that are not over.
        state: ``running``, ``waiting`` (for another attempt), ``ended`` (with an exit code), ``failed`` or
            ``cancelled``.
        detached: whether it goes on without the process that began it: :meth:`Client.tend` looks after it.
        abandoned: whether its process has ended, and it was not detached: it will not go on.
        command: a shell command, or the arguments of a program.
        spec: the spec of its boxes, without the values of ``env``.
        restarts: how often it was restarted.
        most_restarts: how often it may be.
        restart_at: when the next attempt is due.
        waits_until: until when it tries to get a box, while it has none and may wait.
        expires_at: its deadline, also of its last box; ``None`` for none.
        exit_code: of its command.
        failure: why it ended otherwise.
        attempts: its boxes, oldest first.
        cost_so_far: what they have cost, by currency.
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
    cluster: str | None = None
    slots: tuple[str, ...] = ()
    code: Code | None = None

    @classmethod
    def read(cls, run: JournalRun, client: Client, now: datetime) -> Run:
        """A run from the journal's record, at a moment."""
        boxes = {box.id: box for box in client.journal.known({each.box for each in run.attempts if each.box})}
        spent = [charge for box in boxes.values() for charge in charges(box, None, now, client.billing_of)]
        held = claim(run.lease, client.journal.now()) is Claim.HELD
        return cls(
            run_id=run.run_id,
            owner=run.owner,
            state=run.state,
            detached=run.detached,
            abandoned=run.state not in RUNS_OVER and not run.detached and not held,
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
                RunAttempt.read(each, boxes.get(each.box or ""), client, now) for each in run.attempts
            ),
            cost_so_far=tuple(totals_of(spent)),
            cluster=run.work.slots.cluster if run.work.slots else None,
            slots=run.work.slots.names if run.work.slots else (),
            code=run.work.code,
        )

    def document(self) -> RunRecordDocument:
        """RUN of the JSON documents."""
        failure = self.failure
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
            "failure": {"class": failure.error_class, "message": failure.message} if failure else None,
            "attempts": [each.document() for each in self.attempts],
            "cost_so_far": [money.document() for money in self.cost_so_far],
            "cluster": self.cluster,
            "slots": list(self.slots),
            "code": None if self.code is None else _code(self.code),
        }


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


def find_run(client: Client, run_id: str) -> JournalRun:
    """The run with this id; of several, the newest.

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    found = client.journal.runs_named(client.owner, run_id)
    if found:
        return found[-1]
    known = [run.run_id for run in client.journal.runs(owner=client.owner, over=True)]
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

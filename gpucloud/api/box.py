"""A box for programs: the fields of the JSON document BOX, typed, and the operations on a box."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from gpucloud.api import lifetime
from gpucloud.api.nodes import Completed, Nodes
from gpucloud.api.texts import alarms, gpu_text, money_text, place_text, sums_text
from gpucloud.costs.spend import PerHour, cost_so_far, per_hour
from gpucloud.journal.facts import Gpu, GuardReport, Node, Slice
from gpucloud.journal.leases import claim
from gpucloud.journal.lifecycle import OVER, BoxState, Claim, EndedBy
from gpucloud.journal.runs import RunState
from gpucloud.market.cells import paid_cell
from gpucloud.rendering.table import Cell, Role, Table
from gpucloud.rendering.tabular import Listing, TableRow
from gpucloud.rendering.texts import duration_text
from gpucloud.resources import State, rfc3339
from gpucloud_pricing.purchases import Purchase
from gpucloud_pricing.values import Money, number

if TYPE_CHECKING:
    from gpucloud.api.documents import BoxDocument, GuardDocument, SliceDocument
    from gpucloud.api.session import Session
    from gpucloud.clusters.members import Members
    from gpucloud.journal.records import Box as JournalBox
    from gpucloud.runs.job import Write
    from gpucloud.ssh.job import JobState
    from gpucloud_pricing.documents import GpuDocument


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Box(TableRow):
    """One box, as read from the journal; :meth:`refreshed` reads it again.

    Times are in UTC. A field that is not known yet is ``None``.

    Attributes:
        state: ``failed`` also for a box that lives: it was kept after its set-up failed (``setup_error``).
        name: unique among the owner's living boxes.
        id: unique for ever.
        run_id: the run of the box.
        price: the price of the compute, per hour and node, in the currency of the cloud's bill.
        price_as_of: the date of that price.
        per_hour: the present spending on all nodes: machines, disks and addresses, without capacity that
            was paid for before.
        overdue: whether it lives past its deadline.
        compute_ended_at: when the billing of its machines ended.
        cost_so_far: the cost until now, all nodes: compute, disks and addresses with a known price, without
            capacity that was paid for before.
        cost_at_least: the part of it that is certain. It is less where a machine's end is known by an upper
            limit only: when somebody looked, its cloud did not tell any more when it ended.
        ended_by: why it ended without ``down``: ``ttl``, ``cloud`` or ``itself``.
        mig: the MIG slices of its GPUs.
        accept_test: the measurements of the GPU test, by node.
        replaced: why its first machine was replaced.
        results_of: the run whose files it is kept for, as they could not be copied; ``None`` for none.
        setup_error: why its set-up failed; ``None`` for a box with a set-up that succeeded, or not yet ended.
        abandoned: whether a command that has ended left it; the next changing command deletes it.
        spec: the spec of its launch, without the values of ``env``; empty for one that was recovered.
        guards: the last report of each node's guard; ``None`` for a guard without one.
    """

    name: str
    id: str
    run_id: str | None
    owner: str
    state: BoxState
    cloud: str | None
    region: str | None
    zone: str | None
    instance_type: str | None
    gpu: Gpu | None
    purchase: Purchase | None
    nodes: tuple[Node, ...]
    price: Money | None
    price_as_of: date | None
    price_source: str | None
    per_hour: PerHour
    created_at: datetime
    expires_at: datetime | None
    overdue: bool
    seen_at: datetime | None
    ended_at: datetime | None
    ended_by: EndedBy | None
    compute_ended_at: datetime | None
    cost_so_far: Money | None
    cost_at_least: Money | None
    mig: tuple[Slice, ...]
    accept_test: tuple[Mapping[str, Any], ...]
    replaced: str | None
    results_of: str | None
    setup_error: str | None
    guards: tuple[GuardReport | None, ...]
    abandoned: bool
    spec: Mapping[str, Any]
    _session: Session = field(repr=False, compare=False)

    def __repr__(self) -> str:
        """One line, for a prompt or a log: all fields are in :meth:`document`."""
        where = (self.cloud, self.zone or self.region, self.instance_type)
        return " ".join(filter(None, ("<Box", self.name, self.state, *where))) + ">"

    @classmethod
    def read(cls, box: JournalBox, session: Session, now: datetime) -> Box:
        """A box from the journal's record, at a moment."""
        place, offer = box.place, box.offer
        price, measured, billing_of = box.price, box.measured, session.billing_of
        cost = cost_so_far(box, now, billing_of)
        return cls(
            name=box.name,
            id=box.id,
            run_id=box.run_id,
            owner=box.owner,
            state=box.shown_state,
            cloud=place.cloud if place else None,
            region=place.region if place else None,
            zone=place.zone if place else None,
            instance_type=offer.instance_type if offer else None,
            gpu=offer.gpu if offer else None,
            purchase=offer.purchase if offer else None,
            nodes=box.nodes,
            price=Money(amount=price.amount, currency=price.currency) if price else None,
            price_as_of=price.as_of if price else None,
            price_source=price.source if price else None,
            per_hour=per_hour(box, billing_of),
            created_at=box.created_at,
            expires_at=box.expires_at,
            overdue=box.state not in OVER and box.expires_at is not None and box.expires_at < now,
            seen_at=box.seen_at,
            ended_at=box.ended_at,
            ended_by=box.ended_by,
            compute_ended_at=box.compute_ended_at,
            cost_so_far=cost.amount if cost else None,
            cost_at_least=cost.least if cost else None,
            mig=measured.slices if measured else (),
            accept_test=measured.gpu_tests if measured else (),
            replaced=box.replaced,
            results_of=_results_of(box, session),
            setup_error=box.setup_error or None,
            guards=box.guards,
            abandoned=(box.is_remains or box.is_halting)
            and claim(box.lease, session.journal.now()) is not Claim.HELD,
            spec=box.wanted.spec,
            _session=session,
        )

    @property
    def paying(self) -> tuple[Money, ...]:
        """The present spending per hour, by currency: the parts of ``per_hour`` with a known price."""
        return self.per_hour.known

    @property
    def runs_command(self) -> bool:
        """Whether the command of its spec was started on it."""
        return bool(self.spec.get("run"))

    @property
    def is_over(self) -> bool:
        """Whether it was deleted: nothing billable is left of it."""
        return self.ended_at is not None

    def document(self) -> BoxDocument:
        """BOX of the JSON documents: money as ``{amount, currency}``, times in RFC 3339."""
        gpu, parts = self.gpu, self.per_hour
        return {
            "name": self.name,
            "id": self.id,
            "run_id": self.run_id,
            "owner": self.owner,
            "state": str(self.state),
            "cloud": self.cloud,
            "region": self.region,
            "zone": self.zone,
            "instance_type": self.instance_type,
            "gpu": None if gpu is None else _gpu_document(gpu),
            "purchase": str(self.purchase) if self.purchase else None,
            "nodes": [
                {
                    "instance_id": node.instance_id,
                    "state": str(node.state),
                    "public_ip": node.public_ip,
                    "private_ip": node.private_ip,
                }
                for node in self.nodes
            ],
            "price": self.price.document() if self.price else None,
            "price_as_of": self.price_as_of.isoformat() if self.price_as_of else None,
            "price_source": self.price_source,
            "per_hour": {
                "total": parts.total.document() if parts.total else None,
                "compute": parts.compute.document() if parts.compute else None,
                "disk": parts.disk.document() if parts.disk else None,
                "address": parts.address.document() if parts.address else None,
            },
            "created_at": rfc3339(self.created_at),
            "expires_at": _time(self.expires_at),
            "overdue": self.overdue,
            "seen_at": _time(self.seen_at),
            "ended_at": _time(self.ended_at),
            "ended_by": str(self.ended_by) if self.ended_by else None,
            "compute_ended_at": _time(self.compute_ended_at),
            "cost_so_far": self.cost_so_far.document() if self.cost_so_far else None,
            "cost_at_least": self.cost_at_least.document() if self.cost_at_least else None,
            "mig": [cast("SliceDocument", asdict(each)) for each in self.mig],
            "accept_test": [dict(each) for each in self.accept_test],
            "replaced": self.replaced,
            "results_of": self.results_of,
            "setup_error": self.setup_error,
            "guards": [guard_document(said) for said in self.guards],
        }

    @classmethod
    def table_of(cls, rows: Sequence[Self]) -> Table:
        """The table of ``gpucloud list``."""
        now = datetime.now(UTC)
        columns: dict[str, Sequence[object]] = {
            "NAME": [box.name for box in rows],
            "STATE": [state_cell(box) for box in rows],
            "GPU": [_gpus_text(box) for box in rows],
            "TYPE": [box.instance_type for box in rows],
            "WHERE": [place_text(box.cloud, box.zone or box.region) for box in rows],
            "PAID AS": [box.purchase and paid_cell(box.purchase) for box in rows],
            "PER HOUR": [per_hour_text(box) for box in rows],
            "SO FAR": [cost_text(box) for box in rows],
            "AGE": [duration_text(now - box.created_at) for box in rows],
            "LEFT": [left_text(box, now) for box in rows],
            "ADDRESS": [box.nodes[0].public_ip if box.nodes and not box.is_over else None for box in rows],
        }
        # What a narrow terminal does without: money and time left are shown before them.
        optional = ("PAID AS", "TYPE", "ADDRESS", "AGE", "SO FAR", "WHERE")
        return Table(columns, right=("PER HOUR", "SO FAR", "AGE", "LEFT"), optional=optional)

    def __enter__(self) -> Box:
        """For a ``with`` block, at the end of which the box is deleted, also by an exception."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def refreshed(self, *, live: bool = False) -> Box:
        """The same box, read again from the journal; with ``live``, updated from its cloud and its guards.

        Raises:
            CloudError: the cloud did not answer, or refused.
        """
        return read_box(self._session, self.id, live=live)

    def exec(
        self, command: Sequence[str] | str, *, node: int = 0, stdin: bytes = b"", timeout_s: float = 60.0
    ) -> Completed:
        """Runs a program or a shell command on a node.

        Args:
            command: a program and its arguments, which are passed unchanged; or a shell command.
            node: which node, from 0.
            stdin: its input.
            timeout_s: the limit on its time, in seconds.

        Raises:
            UsageError: the box has ended, or has no such node.
            ConnectionFailedError: it cannot be reached, or a limit of time or size was exceeded.
        """
        return Nodes(self._session).exec(self.id, command, node=node, stdin=stdin, timeout_s=timeout_s)

    def exec_all(self, command: Sequence[str] | str, show: Callable[[int, str, bool], None]) -> list[int]:
        """Runs a program or a shell command on every node at the same time.

        Args:
            command: as of :meth:`exec`.
            show: receives each line of output as it arrives, from several threads: the node's number, the
                line, and whether it is of the standard error.

        Returns:
            The exit codes, by node.

        Raises:
            UsageError: the box has ended.
            ConnectionFailedError: a node cannot be reached, or a connection was lost.
        """
        return Nodes(self._session).exec_all(self.id, command, show)

    def start_job(self, command: Sequence[str] | str, *, nodes: Sequence[int] | None = None) -> str:
        """Starts a program or a shell command that keeps running after the connection ends.

        A box with a running job is not idle. Its output: ``logs("job", job=ID)``.

        Args:
            command: as of :meth:`exec`.
            nodes: where it is started; by default on every node.

        Returns:
            The id of the job, the same on all nodes.

        Raises:
            UsageError: the box has ended, or has no such node.
            ConnectionFailedError: a node cannot be reached.
        """
        return Nodes(self._session).start_job(self.id, command, nodes=nodes)

    def jobs(self, *, node: int = 0) -> list[JobState]:
        """The jobs of a node, each with its exit code if it has ended; ``run`` is that of a launch or a run.

        Raises:
            ConnectionFailedError: the node cannot be reached.
        """
        return Nodes(self._session).jobs(self.id, node=node)

    def run(
        self,
        command: Sequence[str] | str,
        *,
        environment: Mapping[str, str] | None = None,
        out: Write | None = None,
        err: Write | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Runs a job on the first node, which survives a lost connection, and follows it to its end.

        Args:
            command: the arguments of a program, or a shell command.
            environment: variables for it; they are sent over ssh only.
            out: receives its standard output as it arrives; discarded by default.
            err: receives its standard error.
            timeout_s: it is stopped after this, with the exit code 124.

        Returns:
            The command's exit code.

        Raises:
            BoxLostError: the box ended before the job did.
            ConnectionFailedError: the box no longer answers.
        """
        return Nodes(self._session).run(
            self.id, command, environment=environment or {}, out=out, err=err, timeout_s=timeout_s
        )

    def upload(self, source: str, destination: str = ".", *, node: int = 0) -> None:
        """Copies files to a node, as rsync does: ``folder/`` means the contents of a folder.

        Of a folder, what git ignores, ``.git``, virtual environments and what ``.gpucloudignore`` names stay.

        Raises:
            NotCopiedError: they could not be copied.
        """
        Nodes(self._session).sync(self.id, source, destination, up=True, node=node)

    def download(self, source: str, destination: str = ".", *, node: int = 0) -> None:
        """Copies files from a node, as rsync does.

        Raises:
            NotCopiedError: they could not be copied.
        """
        Nodes(self._session).sync(self.id, source, destination, up=False, node=node)

    def hosts(self) -> Members:
        """The nodes, for programs that work on several: how each is reached, and its GPUs. Asks no cloud.

        Raises:
            UsageError: none can be reached: the box has ended, or its keys are on another machine.
        """
        return Nodes(self._session).hosts(self.id)

    def hosts_text(self, form: str = "hostfile") -> str:
        """The nodes in the format of another program. Asks no cloud.

        Args:
            form: ``hostfile`` (mpirun, DeepSpeed), ``torchrun`` (its command lines), ``ansible``,
                ``ssh-config``, ``sky`` or ``dstack``.

        Raises:
            UsageError: as :meth:`hosts`; the format is another, or needs an address that is not known yet.
        """
        return Nodes(self._session).hosts_text(self.id, form)

    def logs(self, source: str = "boot", *, node: int = 0, job: str = "run") -> str:
        """A log of a node: ``boot``, ``guard`` or ``job``; ``console`` is the console output from the cloud.

        ``job`` is the id of the job whose log it is.

        Raises:
            ConnectionFailedError: the node cannot be reached.
        """
        return Nodes(self._session).logs(self.id, source, node=node, job=job)

    def extend(self, ttl: timedelta | None, *, add: bool = False) -> Box:
        """Moves the deadline of the box, later or earlier, to ``ttl`` from now; ``None`` for no deadline.

        With ``add``, the deadline becomes later by ``ttl``.

        Raises:
            UsageError: it cannot be moved, or another process holds the box.
            CloudError: the cloud refused.
        """
        return self._now(lifetime.extend(self._session, self.id, ttl, add=add))

    def stop(self, *, keep: timedelta | None = None) -> Box:
        """Stops it: only its disk, and the address that it keeps, are billed. See :meth:`Boxes.stop`."""
        return self._now(lifetime.stop(self._session, self.id, keep=keep))

    def start(
        self, *, ttl: timedelta | Literal["none"] | None = None, max_price: Decimal | None = None
    ) -> Box:
        """Starts it again at today's price. See :meth:`Boxes.start`."""
        return self._now(lifetime.start(self._session, self.id, ttl=ttl, max_price=max_price))

    def setup(self) -> Box:
        """Repeats its set-up, and makes it ready. See :meth:`Boxes.setup`."""
        return self._now(lifetime.setup(self._session, self.id))

    def down(self) -> Box:
        """Deletes the box; returns when the cloud confirms that nothing billable is left.

        Raises:
            CleanupIncompleteError: something may still be billed; the next changing command continues.
        """
        from gpucloud.api.ending import down

        with self._session.operation() as context:
            ended, _ = down(self._session, context, [self.id], None, None, with_results=False)
        return self._now(ended[0])

    def _now(self, box: JournalBox) -> Box:
        return Box.read(box, self._session, self._session.now())


def read_boxes(session: Session, *, over: bool = False, run_id: str | None = None) -> Listing[Box]:
    """The owner's boxes in the journal, oldest first; ``over`` adds deleted and failed ones."""
    found, now = session.journal.boxes(owner=session.owner, over=over), session.now()
    session.tell_damaged()
    return Listing(Box.read(box, session, now) for box in found if run_id is None or box.run_id == run_id)


def read_box(session: Session, name: str, *, live: bool = False) -> Box:
    """The box of this name or id; with ``live``, updated from its cloud and its guards.

    Raises:
        UsageError: there is none.
    """
    if live:
        from gpucloud.boxes.look import look

        with session.operation() as context:
            look(context, [session.find(name)], {})
    return Box.read(session.find(name), session, session.now())


def _time(at: datetime | None) -> str | None:
    return rfc3339(at) if at else None


def guard_document(said: GuardReport | None) -> GuardDocument | None:
    """The last report of a node's guard, with its times in RFC 3339; ``None`` without a report."""
    if said is None:
        return None
    times = {
        name: None if seconds is None else rfc3339(datetime.fromtimestamp(seconds, UTC))
        for name, seconds in (
            ("at", said.at),
            ("taken_back_at", said.taken_back_at),
            ("deadline", said.deadline),
        )
    }
    return cast("GuardDocument", {**asdict(said), "gpu_percent": [*said.gpu_percent], **times})


def _gpu_document(gpu: Gpu) -> GpuDocument:
    memory = None if gpu.memory_gib is None else number(gpu.memory_gib)
    return {"model": gpu.model, "count": number(gpu.count), "memory_gib": memory}


def _results_of(box: JournalBox, session: Session) -> str | None:
    """The run whose files a box is kept for."""
    if box.run_id is None or box.attended or box.state is not BoxState.READY:
        return None
    runs = session.journal.runs_named(box.owner, box.run_id)
    kept = any(run.state is RunState.FETCHING and run.not_fetched and run.box == box.id for run in runs)
    return box.run_id if kept else None


# --- as texts of a table

ENDED = {
    "ttl": "ended by its ttl",
    "cloud": "interrupted by its cloud",
    "itself": "ended before its deadline",
}
"""Why a box ended without ``down`` (``gpucloud.journal.lifecycle.EndedBy``), as text."""


def _gpus_text(box: Box) -> str | None:
    """The GPUs of a box, with the number of nodes: ``2 × T4:1``."""
    each = gpu_text(box.gpu, box.mig)
    return f"{len(box.nodes)} × {each}" if each and len(box.nodes) > 1 else each


def state_cell(box: Box) -> Cell:
    """The state of a box, and what needs attention."""
    role = Role.OVERDUE if box.overdue else Role.FAILED if box.state in _ATTENTION else None
    return Cell(state_text(box), role)


_ATTENTION = (BoxState.FAILED, BoxState.INTERRUPTED)


def state_text(box: Box) -> str:
    """The state of a box and what needs attention, as text."""
    remarks = ["overdue"] if box.overdue else []
    if not box.is_over:
        if box.setup_error:
            remarks.append("still billed")
        stopped = [node for node in box.nodes if node.state == State.STOPPED]
        gone = sum(node.state == State.GONE for node in box.nodes)
        if box.ended_by:
            said_by_state = box.state is BoxState.INTERRUPTED and box.ended_by == "cloud"
            remarks = [] if said_by_state else [ENDED[box.ended_by]]
        elif gone:
            remarks.append(f"{gone} of {len(box.nodes)} nodes gone")
        if any(node.billed for node in stopped):
            remarks.append("stopped, still billed")
        elif stopped and box.state is not BoxState.STOPPED:
            remarks.append("stopped: disk and address are billed")
        remarks += dict.fromkeys(word for guard in box.guards if guard for word in alarms(guard))
    return f"{box.state} ({'; '.join(remarks)})" if remarks else str(box.state)


def per_hour_text(box: Box) -> str | None:
    """The present spending on a box; a lower bound if the price of a part is unknown."""
    if box.is_over or not box.nodes:
        return None
    nothing = Money(amount=Decimal(0), currency=box.price.currency if box.price else "USD")
    return ("≥ " if is_bound(box) else "") + str(sums_text(box.paying or (nothing,)))


def cost_text(box: Box) -> str | None:
    """The cost so far; an upper limit if nothing tells when its machines ended."""
    cost = money_text(box.cost_so_far)
    return f"≤ {cost}" if cost and is_at_most(box) else cost


def is_at_most(box: Box) -> bool:
    """Whether the cost so far is an upper limit."""
    return box.cost_so_far != box.cost_at_least


def is_bound(box: Box) -> bool:
    """Whether the price of a part is unknown, so that the box costs at least what is known."""
    return None in (box.per_hour.compute, box.per_hour.disk, box.per_hour.address)


def left_text(box: Box, now: datetime) -> str | None:
    """The time until the deadline; ``None`` for a box that has ended."""
    if box.is_over:
        return None
    return duration_text(box.expires_at - now) if box.expires_at else "no end"

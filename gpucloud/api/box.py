"""A box as programs see it: all that the JSON document BOX shows, typed, and what can be done with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from gpucloud.costs.spend import PerHour, paid_per_hour, per_hour
from gpucloud.journal.facts import Gpu, GuardReport, Node, Slice, plain
from gpucloud.journal.leases import claim
from gpucloud.journal.lifecycle import OVER, BoxState, Claim, EndedBy
from gpucloud.resources import rfc3339
from gpucloud_pricing.demand import Purchase
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.api.client import Client
    from gpucloud.journal.store import Box as JournalBox
    from gpucloud.runs.job import Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command that ended on a box: its exit code and what it wrote, at most 1 MiB of each."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One box, as the journal had it when it was read; :meth:`refreshed` reads it again.

    Times are in UTC. What is not known yet is ``None``.

    Attributes:
        name: unique among the owner's living boxes.
        id: never given again.
        run_id: the run that it belongs to.
        price: of the compute, per hour and node, in the currency that the cloud bills in.
        price_as_of: the date of that price.
        per_hour: what is paid for all nodes now.
        overdue: whether it lives and has passed its end.
        compute_ended_at: when its machines ceased to be billed.
        cost_so_far: of the compute, all nodes.
        ended_by: why it ended, where nobody has taken it down: ``ttl``, ``cloud`` or ``itself``.
        mig: the slices of its GPUs.
        accept_test: what the test of its GPUs measured, by node.
        replaced: why its first machine was not kept.
        paying: what is paid per hour now, by currency: the compute; of what is off and not billed, what the
            cloud keeps of it.
        abandoned: whether a command that has ended left it; the next one that changes anything ends it.
        runs_command: whether a command of its spec was started on it.
        guards: what the guard of each node said when it was last asked; ``None`` for one that said nothing.
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
    mig: tuple[Slice, ...]
    accept_test: tuple[Mapping[str, Any], ...]
    replaced: str | None
    guards: tuple[GuardReport | None, ...]
    paying: tuple[Money, ...]
    abandoned: bool
    runs_command: bool
    _client: Client = field(repr=False, compare=False)

    @classmethod
    def read(cls, box: JournalBox, client: Client, now: datetime) -> Box:
        """A box of the journal as it is at a moment."""
        place, offer, cost = box.place, box.offer, box.compute_cost(now)
        price, measured, billing_of = box.price, box.measured, client.billing_of
        return cls(
            name=box.name,
            id=box.id,
            run_id=box.run_id,
            owner=box.owner,
            state=box.state,
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
            cost_so_far=None if cost is None else Money(amount=cost, currency=box.currency),
            mig=measured.slices if measured else (),
            accept_test=measured.gpu_tests if measured else (),
            replaced=box.replaced,
            guards=box.guards,
            paying=tuple(
                Money(amount=amount, currency=currency)
                for currency, amount in paid_per_hour(box, billing_of).items()
            ),
            abandoned=box.is_remains and claim(box.lease, client.journal.now()) is not Claim.HELD,
            runs_command=bool(box.wanted.spec.get("run")),
            _client=client,
        )

    def document(self) -> dict[str, Any]:
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
            "gpu": gpu
            and {
                "model": gpu.model,
                "count": format(gpu.count, "f"),
                "memory_gib": gpu.memory_gib and format(gpu.memory_gib, "f"),
            },
            "purchase": self.purchase and str(self.purchase),
            "nodes": [
                {
                    "instance_id": node.instance_id,
                    "state": str(node.state),
                    "public_ip": node.public_ip,
                    "private_ip": node.private_ip,
                }
                for node in self.nodes
            ],
            "price": self.price and self.price.document(),
            "price_as_of": self.price_as_of and self.price_as_of.isoformat(),
            "price_source": self.price_source,
            "per_hour": {
                "total": parts.total and parts.total.document(),
                "compute": parts.compute and parts.compute.document(),
                "disk": parts.disk and parts.disk.document(),
                "address": parts.address and parts.address.document(),
            },
            "created_at": rfc3339(self.created_at),
            "expires_at": _time(self.expires_at),
            "overdue": self.overdue,
            "seen_at": _time(self.seen_at),
            "ended_at": _time(self.ended_at),
            "ended_by": self.ended_by and str(self.ended_by),
            "compute_ended_at": _time(self.compute_ended_at),
            "cost_so_far": self.cost_so_far and self.cost_so_far.document(),
            "mig": plain(self.mig),
            "accept_test": list(self.accept_test),
            "replaced": self.replaced,
            "guards": [guard_document(said) for said in self.guards],
        }

    def refreshed(self, *, live: bool = False) -> Box:
        """The same box as the journal has it now; with ``live``, as its cloud and its guard say.

        Raises:
            CloudError: the cloud was asked and cannot be.
        """
        return self._client.get(self.id, live=live)

    def exec(
        self, command: Sequence[str], *, node: int = 0, stdin: bytes = b"", timeout_s: float = 60.0
    ) -> Completed:
        """Runs a program on a node; its arguments arrive unchanged.

        Args:
            command: the program and its arguments.
            node: which node, from 0.
            stdin: what it reads.
            timeout_s: how long it may take, in seconds.

        Raises:
            UsageError: the box is over, or has no such node.
            ConnectionFailedError: it cannot be reached, or a limit of time or size was passed.
        """
        return self._client.exec(self.id, command, node=node, stdin=stdin, timeout_s=timeout_s)

    def run(
        self,
        command: Sequence[str] | str,
        *,
        environment: Mapping[str, str] | None = None,
        out: Write | None = None,
        err: Write | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Runs a job on the first node, which goes on if the connection breaks, and follows it to its end.

        Args:
            command: the arguments of a program, or a shell command.
            environment: variables for it; they go over ssh alone.
            out: takes its standard output as it comes; nobody, if absent.
            err: takes its standard error.
            timeout_s: it is ended after this; the exit code is 124 then.

        Returns:
            The command's exit code.

        Raises:
            BoxLostError: the box ended first.
            ConnectionFailedError: the box does not answer any more.
        """
        return self._client.run_job(
            self.id, command, environment=environment or {}, out=out, err=err, timeout_s=timeout_s
        )

    def upload(self, source: str, destination: str = ".", *, node: int = 0) -> None:
        """Copies files to a node, as rsync does: ``folder/`` is what is in a folder.

        Raises:
            NotCopiedError: they could not be copied.
        """
        self._client.sync(self.id, source, destination, up=True, node=node)

    def download(self, source: str, destination: str = ".", *, node: int = 0) -> None:
        """Copies files from a node, as rsync does.

        Raises:
            NotCopiedError: they could not be copied.
        """
        self._client.sync(self.id, source, destination, up=False, node=node)

    def logs(self, source: str = "boot", *, node: int = 0) -> str:
        """What a node wrote: ``boot``, ``guard`` or ``job``; the console as the cloud has it for ``console``.

        Raises:
            ConnectionFailedError: the node cannot be reached.
        """
        return self._client.logs(self.id, source, node=node)

    def extend(self, ttl: timedelta | None) -> Box:
        """Moves the end of the box, later or sooner, to ``ttl`` from now; ``None`` for no end.

        Raises:
            UsageError: it cannot be moved, or another process works on the box.
            CloudError: the cloud refused.
        """
        return self._client.extend(self.id, ttl)

    def down(self) -> Box:
        """Takes the box down; returns when the cloud says that nothing billable is left.

        Raises:
            OwedError: something may still be billed; the next command that changes anything goes on.
        """
        return self._client.down([self.id]).boxes[0]


def _time(at: datetime | None) -> str | None:
    return rfc3339(at) if at else None


def guard_document(said: GuardReport | None) -> dict[str, Any] | None:
    """What a node's guard said when it was last asked, its times as everywhere; ``None`` for silence."""
    if said is None:
        return None
    document: dict[str, Any] = plain(said)
    for name in ("at", "taken_back_at", "deadline"):
        if document[name] is not None:
            document[name] = rfc3339(datetime.fromtimestamp(document[name], UTC))
    return document

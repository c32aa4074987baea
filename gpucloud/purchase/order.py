"""A launch as it was asked for, as it was agreed, and as it is carried out: request, order and purchase."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpucloud.journal.facts import FirstBoot
from gpucloud.journal.records import Box, Run
from gpucloud.planning.avoidance import NOTHING_AVOIDED, Avoided
from gpucloud.planning.egress import CheckpointTransfer
from gpucloud.planning.plan import Candidate, Key, Plan
from gpucloud.planning.volume_choice import UsableVolume
from gpucloud.purchase.ceiling import Agreement
from gpucloud.resources import NodeSlot
from gpucloud.runtime.tasks import Call
from gpucloud.spec.model import Spec
from gpucloud.ssh.client import Target
from gpucloud_pricing import Market


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxRequest:
    """The properties of a box that do not depend on the offer.

    Attributes:
        spec: the spec of the user.
        environment: the variables of ``env`` in the spec, with their values.
        run_id: the run of the box.
        run: the run that it is an attempt of, which this process holds.
        instead_of: the box that it is to replace, which this process holds.
        avoided: places to leave out as long as others match.
        learned: what its launches have learned of places that do not have it; they add to it.
        ends_by: when it ends at the latest, whatever its spec says; ``None`` for no such time.
        carried: the checkpoint that it is to restore; its traffic counts in the order of the offers.
        attended: whether the box ends with the process that launches it, as the only living one of its run
            (but for the one that it is to replace, and the others of that one's launch).
        accept_snapshot_price: whether it may be bought at a price that the cloud does not confirm.
        keep_on_failure: whether it is kept until its deadline if its set-up fails.
        clean_up: the command that ends it after a second signal, if not ``down`` of its name.
        deliver: puts files on the nodes of the box, before its data and its set-up, instead of those that
            ``sync`` of the spec names here.
    """

    spec: Spec
    environment: Mapping[str, str]
    run_id: str | None = None
    run: Run | None = None
    instead_of: Box | None = None
    avoided: Avoided = NOTHING_AVOIDED
    learned: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    ends_by: datetime | None = None
    carried: CheckpointTransfer | None = None
    attended: bool = False
    accept_snapshot_price: bool = False
    keep_on_failure: bool = False
    clean_up: str | None = None
    deliver: Callable[[Box, Sequence[Target]], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOrder:
    """What was agreed: a request, and a plan to buy it at today's prices.

    Attributes:
        request: what is wanted.
        plan: the offers, in the order in which they are tried.
        market: for list prices and exchange rates.
        echo: asks for this machine's public address; ``None`` where the spec names who may connect.
        end: when the box ends (``None`` for never).
        agreed_at: when a person agreed to the plan and the end; ``None`` if nobody was asked.
        until: when no further attempt is begun; ``None`` for the limit of one launch.
    """

    request: BoxRequest
    plan: Plan
    market: Market
    echo: Call | None = None
    end: datetime | None
    agreed_at: datetime | None = None
    until: datetime | None = None

    def of(self, spec: Spec, attempts: Sequence[Candidate] | None = None) -> LaunchOrder:
        """The order of one box of this spec, of these attempts (all by default)."""
        plan = replace(self.plan, spec=spec.document())
        if attempts is not None:
            plan = replace(plan, attempts=tuple(attempts))
        return replace(self, request=replace(self.request, spec=spec), plan=plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootData:
    """The boot of a machine: user-data as it is sent, and the part of it that the journal keeps."""

    user_data: bytes
    written: FirstBoot = FirstBoot()  # noqa: RUF009  (frozen)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxPurchase:
    """An order that is carried out for one box: what is the same for every attempt.

    Attributes:
        order: what was agreed.
        box: the id of the box.
        name: its name.
        image: the image, as clouds are asked for it.
        allow_from: the networks that may connect.
        volumes: those that may be used, held by this process.
        boots: the boot of each candidate, by the candidate's key.
        op: the operation of the create calls, which tells their machines from those that the box had before;
            ``None`` for the box's own.
        vacancy: the node that is bought alone, beside the others that the box has; ``None`` for all nodes.
    """

    order: LaunchOrder
    box: str
    name: str
    image: str
    allow_from: Sequence[str]
    volumes: Sequence[UsableVolume] = ()
    boots: Mapping[Key, BootData] = field(default_factory=dict[Key, BootData])
    op: str | None = None
    vacancy: NodeSlot | None = None

    @property
    def spec(self) -> Spec:
        """The spec of the box."""
        return self.order.request.spec

    @property
    def rank(self) -> int | None:
        """The number of the node that is bought alone."""
        return self.vacancy.rank if self.vacancy else None

    @property
    def prices(self) -> Agreement:
        """The agreement about prices."""
        order = self.order
        return Agreement(
            usd=order.market.usd,
            agreed_at=order.agreed_at,
            unconfirmed=order.request.accept_snapshot_price,
        )

"""The usage of boxes, and the hours of it that are run and billed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud_pricing.values import InstanceType, Offer, number

if TYPE_CHECKING:
    from gpucloud_pricing.computation import Computation
    from gpucloud_pricing.documents import UsageDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of boxes.

    Attributes:
        hours: hours of work; with a computation, zero until a type of machine is known (:meth:`on`).
        nodes: identical boxes.
        disk_gib: root disk of each node.
        egress_gib: data sent to the internet, all nodes together.
        snapshot_gib: snapshots of each node, kept as long as the node.
        boot_s: billed before work begins, and again after every interruption.
        boot_limit_s: the timeout of a boot; the highest estimate has boots as long as this.
        failed_attempts: machines that were started and discarded before one worked; each is billed for the
            time of a boot.
        idle_s: billed after the work has ended.
        checkpoint_s: work between two checkpoints; ``None`` if an interruption loses all work.
        save_s: the time to write a checkpoint.
        computation: the work, if it takes different hours on different machines.
    """

    hours: Decimal
    nodes: int = 1
    disk_gib: int = 100
    egress_gib: Decimal = Decimal(0)
    snapshot_gib: int = 0
    boot_s: int = 300
    boot_limit_s: int = 1800
    failed_attempts: int = 0
    idle_s: int = 0
    checkpoint_s: int | None = None
    save_s: int = 0
    computation: Computation | None = None

    def on(self, kind: InstanceType) -> Usage:
        """This usage on machines of a type: with the hours that its computation takes there.

        Raises:
            UnsuitableError: how long it takes is not known, or it is too long.
        """
        if self.computation is None:
            return self
        return replace(self, hours=self.computation.hours(kind, self.nodes))

    @property
    def billed_hours(self) -> Decimal:
        """Work, boot and idle tail of one node, without interruptions and checkpoints."""
        return self.hours + Decimal(self.boot_s + self.idle_s) / 3600


def run_hours(offer: Offer, usage: Usage) -> Decimal:
    """The hours that machines of one node run: failed attempts, then work with its boot and idle tail."""
    least = Decimal(offer.kind.billing.minimum_s) / 3600
    return max(usage.billed_hours, least) + failed_hours(offer, usage)


def failed_hours(offer: Offer, usage: Usage) -> Decimal:
    """The billed hours of one node's failed attempts."""
    return Decimal(usage.failed_attempts * max(usage.boot_s, offer.kind.billing.minimum_s)) / 3600


def usage_document(usage: Usage) -> UsageDocument:
    """A usage for JSON; with a computation, each option has its own hours."""
    computation = usage.computation
    return {
        "hours": None if computation else number(usage.hours),
        "nodes": usage.nodes,
        "disk_gib": usage.disk_gib,
        "egress_gib": number(usage.egress_gib),
        "snapshot_gib": usage.snapshot_gib,
        "boot_s": usage.boot_s,
        "boot_limit_s": usage.boot_limit_s,
        "failed_attempts": usage.failed_attempts,
        "idle_s": usage.idle_s,
        "checkpoint_s": usage.checkpoint_s,
        "save_s": usage.save_s,
        "billed_hours": None if computation else float(round(usage.billed_hours, 4)),
        "computation": computation.document() if computation else None,
    }

"""The work of a box, as far as its cost depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from gpucloud.errors import UsageError
from gpucloud.journal.lifecycle import STEP_TIMEOUT_S
from gpucloud.spec.model import Spec
from gpucloud_pricing.demand import HOURS_PER_MONTH
from gpucloud_pricing.payment import BadProfileError, Layer, hours_per_month
from gpucloud_pricing.usage import Usage

MOST = 1_000_000
"""The most hours or GiB that are accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The work of a box, as far as its cost depends on it.

    Attributes:
        hours: hours of work on each node; ``None`` for the price per hour, day and month.
        egress_gib: data sent to the internet, in all.
        boot: time billed before work begins.
        failed_attempts: boxes that boot and fail before one works.
        snapshot_gib: snapshots of each node.
        checkpoint_every: work between two checkpoints; ``None`` for none: an interruption loses all work.
        checkpoint_takes: time to write one checkpoint.
        profile: when boxes run, for the cheapest mix: ``8h/day,5d/week``, ``40h/week``, ``100h/month``.
        steady: boxes that always run, in addition to those of ``profile``.
        burst: boxes that run as in ``profile``.

    Raises:
        UsageError: an amount or the profile is not valid.
    """

    hours: Decimal | None = None
    egress_gib: Decimal = Decimal(0)
    boot: timedelta = timedelta(minutes=5)
    failed_attempts: int = 0
    snapshot_gib: int = 0
    checkpoint_every: timedelta | None = None
    checkpoint_takes: timedelta = timedelta(minutes=1)
    profile: str | None = None
    steady: int = 0
    burst: int = 1

    def __post_init__(self) -> None:
        _refuse_beyond("--hours", self.hours, least=Decimal("0.01"))
        _refuse_beyond("--egress", self.egress_gib, least=Decimal(0))
        for flag, time in (
            ("--checkpoint-every", self.checkpoint_every),
            ("--checkpoint-takes", self.checkpoint_takes),
        ):
            if time is not None and time < timedelta(seconds=1):
                raise UsageError(f"{flag}: {time} is not allowed; allowed: 1s or more")
        self.layers(1)

    def usage(self, spec: Spec) -> Usage:
        """The usage of boxes of a spec that do this work."""
        idle, every = spec.idles_out_after(), self.checkpoint_every
        return Usage(
            hours=HOURS_PER_MONTH if self.hours is None else self.hours,
            nodes=spec.nodes,
            disk_gib=spec.disk,
            egress_gib=self.egress_gib,
            boot_s=int(self.boot.total_seconds()),
            boot_limit_s=int(STEP_TIMEOUT_S),
            failed_attempts=self.failed_attempts,
            snapshot_gib=self.snapshot_gib,
            checkpoint_s=None if every is None else int(every.total_seconds()),
            save_s=int(self.checkpoint_takes.total_seconds()),
            idle_s=0 if idle is None else int(idle.total_seconds()),
        )

    def layers(self, nodes: int) -> list[Layer]:
        """How many machines run for how long in a month; empty without a profile.

        Args:
            nodes: the machines of a box.

        Raises:
            UsageError: the profile is not valid, or is missing.
        """
        if self.profile is None:
            if self.steady:
                raise UsageError("--steady requires --profile, the times at which the other boxes run")
            return []
        try:
            hours = hours_per_month(self.profile)
        except BadProfileError as error:
            raise UsageError(f"--profile: {error}") from None
        layers = [
            Layer(machines=self.steady * nodes, hours=HOURS_PER_MONTH),
            Layer(machines=self.burst * nodes, hours=hours),
        ]
        return [layer for layer in layers if layer.machines]


def _refuse_beyond(flag: str, amount: Decimal | None, *, least: Decimal) -> None:
    """Refuses an amount outside of its limits.

    Raises:
        UsageError: it is.
    """
    if amount is not None and (not amount.is_finite() or not least <= amount <= MOST):
        raise UsageError(f"{flag}: {amount} is not allowed; allowed: a number from {least} to {MOST}")

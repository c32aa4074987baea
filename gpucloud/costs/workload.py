"""The work of a box, as far as its cost depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.errors import UsageError
from gpucloud.journal.timeouts import STEP_TIMEOUT_S
from gpucloud.spec.model import Spec
from gpucloud_pricing.payment import BadProfileError, LoadLayer, hours_per_month
from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.terms import Usage
from gpucloud_pricing.values import number

if TYPE_CHECKING:
    from gpucloud.costs.documents import TokensDocument
    from gpucloud_pricing.computation import Computation

MOST = 1_000_000
"""The most hours or GiB that are accepted."""

_LEAST_HOURS = Decimal("0.01")
_LEAST_FLOP, _MOST_FLOP = Decimal("1e12"), Decimal("1e30")  # a second of an old GPU; beyond all plans


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens that a box processes.

    Attributes:
        per_epoch: how many in one epoch.
        per_second: how many the whole box processes in a second, all nodes together.
        epochs: how often all of them are processed.

    Raises:
        UsageError: an amount is not above zero.
    """

    per_epoch: Decimal
    per_second: Decimal
    epochs: Decimal = Decimal(1)

    def __post_init__(self) -> None:
        for flag, amount in (
            ("--tokens", self.per_epoch),
            ("--throughput", self.per_second),
            ("--epochs", self.epochs),
        ):
            if not amount.is_finite() or amount <= 0:
                raise UsageError(f"{flag}: {amount} is not allowed; allowed: a number above 0")

    @property
    def hours(self) -> Decimal:
        """The hours that the box takes for all epochs."""
        return self.per_epoch * self.epochs / self.per_second / 3600

    @property
    def millions(self) -> Decimal:
        """How many million tokens are processed, in all epochs."""
        return self.per_epoch * self.epochs / 10**6

    def document(self) -> TokensDocument:
        """For JSON."""
        return {
            "per_epoch": number(self.per_epoch),
            "per_second": number(self.per_second),
            "epochs": number(self.epochs),
        }


LONG_WORK_HOURS = 24
ASSUMED_CHECKPOINTS = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The work of a box, as far as its cost depends on it.

    Attributes:
        hours: hours of work on each node; without these, ``tokens`` and ``computation``, costs are those per
            hour, day and month.
        tokens: the work as tokens, in place of hours.
        computation: the work as floating-point operations, in place of hours: these differ between machines.
        egress_gib: data sent to the internet, in all.
        boot: time billed before work begins.
        failed_attempts: boxes that boot and fail before one works.
        snapshot_gib: snapshots of each node.
        checkpoint_every: work between two checkpoints; ``None`` for none: an interruption loses all work. Of
            work of more than a day, one each half an hour is assumed (:attr:`assumes_checkpoints`).
        checkpoint_takes: time to write one checkpoint.
        profile: when boxes run, for the cheapest mix: ``8h/day,5d/week``, ``40h/week``, ``100h/month``.
        steady: boxes that always run, in addition to those of ``profile``.
        burst: boxes that run as in ``profile``.

    Raises:
        UsageError: an amount or the profile is not valid, or the work is given twice.
    """

    hours: Decimal | None = None
    tokens: Tokens | None = None
    computation: Computation | None = None
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
        given = {"--hours": self.hours, "--tokens": self.tokens, "--work": self.computation}
        names = [flag for flag, value in given.items() if value is not None]
        if self.egress_gib and not names:
            raise UsageError(
                "--egress is the traffic of a whole work", hint="add --hours, --tokens or --work"
            )
        if len(names) > 1:
            raise UsageError(f"{' and '.join(names)} contradict each other", hint="give one of them")
        _refuse_beyond("--hours", self.hours, least=_LEAST_HOURS)
        _refuse_tokens(self.tokens)
        _refuse_computation(self.computation)
        _refuse_beyond("--egress", self.egress_gib, least=Decimal(0))
        for flag, time in (
            ("--checkpoint-every", self.checkpoint_every),
            ("--checkpoint-takes", self.checkpoint_takes),
        ):
            if time is not None and time < timedelta(seconds=1):
                raise UsageError(f"{flag}: {time} is not allowed; allowed: 1s or more")
        self.layers(1)

    @property
    def assumed(self) -> bool:
        """Whether no work is given, so that a month is assumed."""
        return self.hours is None and self.tokens is None and self.computation is None

    @property
    def assumes_checkpoints(self) -> bool:
        """Whether checkpoints are assumed: nobody begins days of work again for one interruption."""
        return self.checkpoint_every is None and not self.assumed and self._hours() > LONG_WORK_HOURS

    def usage(self, spec: Spec) -> Usage:
        """The usage of boxes of a spec that do this work."""
        idle = spec.idles_out_after()
        every = ASSUMED_CHECKPOINTS if self.assumes_checkpoints else self.checkpoint_every
        return Usage(
            hours=self._hours(),
            computation=self.computation,
            nodes=spec.machines,
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

    def _hours(self) -> Decimal:
        """The hours of work that are known without a machine."""
        if self.computation is not None:
            return Decimal(0)
        if self.tokens is not None:
            return self.tokens.hours
        return HOURS_PER_MONTH if self.hours is None else self.hours

    def layers(self, nodes: int) -> list[LoadLayer]:
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
            LoadLayer(machines=self.steady * nodes, hours=HOURS_PER_MONTH),
            LoadLayer(machines=self.burst * nodes, hours=hours),
        ]
        return [layer for layer in layers if layer.machines]


def _refuse_tokens(tokens: Tokens | None) -> None:
    """Refuses tokens that take too few or too many hours.

    Raises:
        UsageError: they do.
    """
    if tokens is not None and not _LEAST_HOURS <= tokens.hours <= MOST:
        raise UsageError(
            f"--tokens and --throughput: the work takes {tokens.hours:.4g} h; "
            f"allowed: {_LEAST_HOURS} to {MOST} h"
        )


def _refuse_computation(computation: Computation | None) -> None:
    """Refuses operations, or a share of the peak rate, that cannot be.

    Raises:
        UsageError: they cannot.
    """
    if computation is None:
        return
    flop, mfu = computation.flop, computation.mfu
    if not flop.is_finite() or not _LEAST_FLOP <= flop <= _MOST_FLOP:
        raise UsageError(
            f"--work: {flop} flop is not allowed; allowed: {_LEAST_FLOP:g} to {_MOST_FLOP:g} flop"
        )
    if not mfu.is_finite() or not 0 < mfu <= 1:
        raise UsageError(f"--mfu: {mfu} is not allowed; allowed: a number above 0 and up to 1, such as 0.4")


def _refuse_beyond(flag: str, amount: Decimal | None, *, least: Decimal) -> None:
    """Refuses an amount outside of its limits.

    Raises:
        UsageError: it is.
    """
    if amount is not None and (not amount.is_finite() or not least <= amount <= MOST):
        raise UsageError(f"{flag}: {amount} is not allowed; allowed: a number from {least} to {MOST}")

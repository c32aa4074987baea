"""The options of ``gpucloud cost`` that say the work: hours, tokens or operations, and what else it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.options import Options
from gpucloud.costs import amounts as read
from gpucloud.costs.workload import Tokens, Workload
from gpucloud.errors import UsageError
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud_pricing.computation import Computation

_USAGE = "What for"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions(Options):
    """The work of the box."""

    hours: Annotated[
        str | None,
        typer.Option(
            "--hours",
            help="Hours of work: 72, 3d, 1d12h. Default: costs per hour, day and month.",
            rich_help_panel=_USAGE,
            metavar="TIME",
        ),
    ] = None
    tokens: Annotated[
        str | None,
        typer.Option(
            "--tokens",
            help="Tokens of one epoch, in place of --hours: 300M, 2B, 1e12. Requires --throughput.",
            rich_help_panel=_USAGE,
            metavar="N",
        ),
    ] = None
    throughput: Annotated[
        str | None,
        typer.Option(
            "--throughput",
            help="Tokens per second of the whole box, all its GPUs and nodes together: 25000, 1.2M.",
            rich_help_panel=_USAGE,
            metavar="N",
        ),
    ] = None
    epochs: Annotated[
        str | None,
        typer.Option(
            "--epochs",
            help="How often the tokens are processed. Default: 1.",
            rich_help_panel=_USAGE,
            metavar="N",
        ),
    ] = None
    work: Annotated[
        str | None,
        typer.Option(
            "--work",
            help="Work in place of --hours: '1e21 flop'. The hours follow from the GPUs of each option.",
            rich_help_panel=_USAGE,
            metavar="FLOP",
        ),
    ] = None
    mfu: Annotated[
        str | None,
        typer.Option(
            "--mfu",
            help="Share of the GPUs' dense BF16 peak that --work reaches. Default: 0.4.",
            rich_help_panel=_USAGE,
            metavar="SHARE",
        ),
    ] = None
    egress: Annotated[
        str,
        typer.Option(
            "--egress",
            help="Data sent to the internet, in all: 500GB, 1TB.",
            rich_help_panel=_USAGE,
            metavar="SIZE",
        ),
    ] = "0"
    boot: Annotated[
        str,
        typer.Option(
            "--boot",
            help="Time billed before work begins.",
            rich_help_panel=_USAGE,
            metavar="TIME",
        ),
    ] = "5m"
    failed_attempts: Annotated[
        int,
        typer.Option(
            "--failed-attempts",
            min=0,
            max=20,
            help="Boxes that boot and fail before one works.",
            rich_help_panel=_USAGE,
            metavar="N",
        ),
    ] = 0
    snapshots: Annotated[
        str,
        typer.Option(
            "--snapshots",
            help="Snapshots of each box: 100GB.",
            rich_help_panel=_USAGE,
            metavar="SIZE",
        ),
    ] = "0"
    checkpoint_takes: Annotated[
        str,
        typer.Option(
            "--checkpoint-takes",
            help="Time to write one checkpoint.",
            metavar="TIME",
            rich_help_panel=_USAGE,
        ),
    ] = "1m"
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            help="When boxes run: 8h/day,5d/week, 40h/week, 100h/month. Shows the cheapest mix.",
            metavar="HOURS",
            rich_help_panel=_USAGE,
        ),
    ] = None
    steady: Annotated[
        int,
        typer.Option("--steady", min=0, help="Boxes that always run.", rich_help_panel=_USAGE, metavar="N"),
    ] = 0
    burst: Annotated[
        int,
        typer.Option(
            "--burst",
            min=0,
            help="Boxes that run at the times of --profile.",
            rich_help_panel=_USAGE,
            metavar="N",
        ),
    ] = 1

    def workload(self, spec: Spec) -> Workload:
        """As estimates count it, with the checkpoints of a spec.

        Raises:
            UsageError: it makes no sense.
        """
        return Workload(
            hours=None if self.hours is None else read.hours("--hours", self.hours),
            tokens=self._tokens(),
            computation=self._computation(),
            egress_gib=read.size("--egress", self.egress),
            boot=read.minutes("--boot", self.boot),
            failed_attempts=self.failed_attempts,
            snapshot_gib=math.ceil(read.size("--snapshots", self.snapshots)),
            checkpoint_every=spec.checkpoint_every,
            checkpoint_takes=read.time("--checkpoint-takes", self.checkpoint_takes),
            profile=self.profile,
            steady=self.steady,
            burst=self.burst,
        )

    def _tokens(self) -> Tokens | None:
        """The tokens, if they are the work.

        Raises:
            UsageError: they cannot be read, or one of the options is missing.
        """
        if self.tokens is None or self.throughput is None:
            given = {"--tokens": self.tokens, "--throughput": self.throughput, "--epochs": self.epochs}
            if flags := [flag for flag, value in given.items() if value is not None]:
                missing = " and ".join(flag for flag in ("--tokens", "--throughput") if flag not in flags)
                raise UsageError(f"{' and '.join(flags)} requires {missing}")
            return None
        return Tokens(
            per_epoch=read.count("--tokens", self.tokens),
            per_second=read.count("--throughput", self.throughput),
            epochs=Decimal(1) if self.epochs is None else read.number("--epochs", self.epochs),
        )

    def _computation(self) -> Computation | None:
        """The operations, if they are the work.

        Raises:
            UsageError: they cannot be read, or are missing.
        """
        if self.work is None:
            if self.mfu is not None:
                raise UsageError("--mfu requires --work, the floating-point operations")
            return None
        from gpucloud_pricing.computation import USUAL_MFU, Computation

        mfu = USUAL_MFU if self.mfu is None else read.number("--mfu", self.mfu)
        return Computation(flop=read.flop("--work", self.work), mfu=mfu)

"""``gpucloud cost``: estimates before buying, every way of paying side by side."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Annotated

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.cost_answers import write_csv, write_markdown
from gpucloud.cli.cost_tables import at, show
from gpucloud.cli.option_groups import Options, takes_options
from gpucloud.cli.options import takes_spec
from gpucloud.cli.output import utc_now
from gpucloud.costs.comparison import Comparison
from gpucloud.costs.workload import Workload
from gpucloud.errors import NoOfferError, UsageError
from gpucloud.market.search import paid_text
from gpucloud.spec.file import load_spec
from gpucloud.spec.model import Spec

_USAGE = "What for"


class Sort(StrEnum):
    """The sort orders of ways of paying, the best first: total cost, or the cost of work."""

    TOTAL = "total"
    PER_GPU = "gpu-price"
    PER_GIB = "gpu-memory-price"
    PER_FP64 = "fp64-price"
    PER_FP32 = "fp32-price"
    PER_TF32 = "tf32-price"
    PER_FP16 = "fp16-price"
    PER_FP8 = "fp8-price"


_ORDERS = f"Sort order: {', '.join(Sort)}."


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions(Options):
    """The work of the box."""

    hours: Annotated[
        str | None,
        typer.Option(
            "--hours",
            help="Hours of work. Default: costs per hour, day and month.",
            rich_help_panel=_USAGE,
            metavar="HOURS",
        ),
    ] = None
    egress: Annotated[
        str,
        typer.Option(
            "--egress", help="GiB sent to the internet, in all.", rich_help_panel=_USAGE, metavar="GIB"
        ),
    ] = "0"
    boot: Annotated[
        int,
        typer.Option(
            "--boot",
            min=0,
            help="Minutes billed before work begins.",
            rich_help_panel=_USAGE,
            metavar="MINUTES",
        ),
    ] = 5
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
        int,
        typer.Option(
            "--snapshots", min=0, help="GiB of snapshots of each box.", rich_help_panel=_USAGE, metavar="GIB"
        ),
    ] = 0
    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-every",
            help="Time between two checkpoints: 30m. An interruption loses at most this much work.",
            metavar="TIME",
            rich_help_panel=_USAGE,
        ),
    ] = None
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

    def workload(self) -> Workload:
        """As estimates count it.

        Raises:
            UsageError: it makes no sense.
        """
        every = self.checkpoint_every
        return Workload(
            hours=None if self.hours is None else _number("--hours", self.hours),
            egress_gib=_number("--egress", self.egress),
            boot=timedelta(minutes=self.boot),
            failed_attempts=self.failed_attempts,
            snapshot_gib=self.snapshots,
            checkpoint_every=None if every is None else _time("--checkpoint-every", every),
            checkpoint_takes=_time("--checkpoint-takes", self.checkpoint_takes),
            profile=self.profile,
            steady=self.steady,
            burst=self.burst,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions(Options):
    """The form of the answer."""

    explain: Annotated[
        bool, typer.Option("--explain", help="Show how each figure is computed, with dates and sources.")
    ] = False
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a comment.")] = False
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write a report as one page: FILE.html.", metavar="FILE"),
    ] = None
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", help="Also plot the cost per month by hours: FILE.svg, FILE.png.", metavar="FILE"
        ),
    ] = None

    def refuse_several(self, *, json: bool) -> None:
        """Refuses flags that ask for several forms of the answer.

        Raises:
            UsageError: there are several.
        """
        forms = {"--json": json, "--csv": self.csv, "--markdown": self.markdown}
        given = [flag for flag, is_given in forms.items() if is_given]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} contradict each other")

    def write(self, app: App, comparison: Comparison, before: Comparison | None) -> None:
        """Writes the answer to stdout; a budget that does not hold is the answer to a program."""
        exceeded = comparison.over_budget
        if app.output.json and exceeded is None:
            app.output.document("cost", comparison.document(before, explain=self.explain))
        elif app.output.json:
            pass  # one document, and that is the error's
        elif self.csv:
            write_csv(comparison)
        elif self.markdown:
            write_markdown(comparison, before)
        else:
            show(app, comparison, before, explain=self.explain)
        if exceeded is not None:
            raise exceeded


@takes_spec
@takes_options
def cost(
    app: App,
    spec: Spec,
    *,
    work: WorkloadOptions,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Places to compare per way of paying.", metavar="N")
    ] = 1,
    sort: Annotated[Sort, typer.Option("--sort", help=_ORDERS, metavar="ORDER")] = Sort.TOTAL,
    max_age: Annotated[
        str | None, typer.Option("--max-age", help="Leave out older prices: 90d, 8w, 6m, 2y.", metavar="AGE")
    ] = None,
    hidden: Annotated[
        bool,
        typer.Option("--include-hidden", help="Include retired types and types that are not sold publicly."),
    ] = False,
    answer: AnswerOptions,
    conditions: Annotated[
        Path | None,
        typer.Option(
            "--conditions",
            help="Your discounts, credits and commitments. Default: conditions.yaml of the configuration.",
            metavar="FILE",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", help="Show the difference to another spec: FILE, or REF:FILE in git.", metavar="SPEC"
        ),
    ] = None,
) -> None:
    """Estimate every way of paying, side by side: compute, disk, address, egress, boot and idle time.

    With --budget, exit code 7 means that no offer that can be launched is expected to cost so little.
    """
    answer.refuse_several(json=app.output.json)
    other = None if against is None else _other_spec(against)
    plots = None if answer.plot is None else shown.load_plots("--plot", answer.plot)
    report_plots = None if answer.html is None else shown.load_plots("--html")
    estimate = partial(
        app.client.estimate,
        workload=work.workload(),
        places=limit,
        sort=sort,
        conditions=conditions,
        max_age=shown.read_age(max_age),
        include_hidden=hidden,
    )
    comparison = estimate(spec)
    before = None if other is None else estimate(other)
    for plan in dict.fromkeys((*comparison.uncounted, *(before.uncounted if before else ()))):
        app.output.say(f"Not counted, as its rate is not known: {plan}. Ask: gpucloud prices refresh")
    if answer.plot is not None and plots is not None:
        _draw(app, comparison, answer.plot, plots)
    if answer.html is not None and report_plots is not None:
        _report(app, comparison, answer.html, report_plots)
    answer.write(app, comparison, before)


def _report(app: App, comparison: Comparison, file: Path, plots: ModuleType) -> None:
    """Writes the comparison as a page."""
    from gpucloud.cli.cost_report import write_report

    write_report(file, comparison, app.client.catalog, plots, utc_now())
    app.output.say(f"Written: {file}")


def _draw(app: App, comparison: Comparison, file: Path, plots: ModuleType) -> None:
    """Draws the ways of paying in the first place that has several."""
    places = comparison.lasting()
    if not places:
        raise NoOfferError("there is nothing to draw: no place has several ways of paying for what lasts")
    plots.save(plots.draw_ways(places[0], paid_text), file)
    app.output.say(f"Drawn: {file}, {at(places[0][0].offer)}")


def _other_spec(text: str) -> Spec:
    """The spec in a file, or in a file at a commit: ``spec.yaml``, ``main:spec.yaml``.

    Raises:
        UsageError: there is none.
    """
    file = Path(text)
    if file.exists():
        return load_spec(file, {})
    if ":" not in text or text.startswith("-"):
        raise UsageError(
            f"--against: there is no file {text!r}; allowed: FILE, or REF:FILE of this repository"
        )
    if which("git") is None:
        raise UsageError(f"--against: {text!r} needs git, which is not installed")
    found = subprocess.run(["git", "show", text], capture_output=True, text=True, check=False)
    if found.returncode:
        raise UsageError(f"--against: git show {text}: {found.stderr.strip()}")
    with TemporaryDirectory() as folder:
        copy = Path(folder, "spec.yaml")
        copy.write_text(found.stdout, encoding="utf-8")
        return load_spec(copy, {})


def _time(flag: str, text: str) -> timedelta:
    from gpucloud.spec.fields import end

    try:
        time = end(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
    if isinstance(time, str):
        raise UsageError(f"{flag}: {text!r} is not allowed; allowed: 1s or more")
    return time


def _number(flag: str, text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise UsageError(f"{flag}: {text!r} is not a number; allowed: such as 72 or 0.5") from None

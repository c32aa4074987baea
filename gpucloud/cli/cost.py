"""``gpucloud cost``: estimates before buying, every way of paying side by side."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.cost_documents import Comparison, write_csv, write_json, write_markdown
from gpucloud.cli.cost_tables import at, show
from gpucloud.cli.options import takes_spec
from gpucloud.cli.output import utc_now
from gpucloud.errors import NoOfferError, PriceError, UsageError
from gpucloud.journal.lifecycle import STEP_TIMEOUT_S
from gpucloud.spec.file import load_spec
from gpucloud.spec.model import Spec
from gpucloud_pricing import PURCHASES, Demand, Market, Offer
from gpucloud_pricing.demand import HOURS_PER_MONTH
from gpucloud_pricing.estimate import Usage, compare, on_demand_prices, ways
from gpucloud_pricing.payment import BadProfileError, Layer, hours_per_month

if TYPE_CHECKING:
    from gpucloud.market.discounts import OwnConditions

CONDITIONS = "conditions.yaml"
"""Somebody's own conditions, in the configuration folder."""
_USAGE = "What for"


class Sort(StrEnum):
    """What the ways of paying are sorted by, the best first: all of the cost, or what work costs."""

    TOTAL = "total"
    PER_GPU = "gpu-price"
    PER_GIB = "gpu-memory-price"
    PER_FP64 = "fp64-price"
    PER_FP32 = "fp32-price"
    PER_TF32 = "tf32-price"
    PER_FP16 = "fp16-price"
    PER_FP8 = "fp8-price"


@takes_spec
def cost(
    app: App,
    spec: Spec,
    *,
    hours: Annotated[
        str | None,
        typer.Option(
            "--hours",
            help="Hours of work; if absent: hour, day, month.",
            rich_help_panel=_USAGE,
            metavar="HOURS",
        ),
    ] = None,
    egress: Annotated[
        str,
        typer.Option(
            "--egress", help="GiB sent to the internet, in all.", rich_help_panel=_USAGE, metavar="GIB"
        ),
    ] = "0",
    boot: Annotated[
        int,
        typer.Option(
            "--boot",
            min=0,
            help="Minutes paid before work begins.",
            rich_help_panel=_USAGE,
            metavar="MINUTES",
        ),
    ] = 5,
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
    ] = 0,
    snapshots: Annotated[
        int,
        typer.Option(
            "--snapshots", min=0, help="GiB of snapshots of each box.", rich_help_panel=_USAGE, metavar="GIB"
        ),
    ] = 0,
    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-every",
            help="Work between two checkpoints: 30m; an interruption loses no more.",
            metavar="TIME",
            rich_help_panel=_USAGE,
        ),
    ] = None,
    checkpoint_takes: Annotated[
        str,
        typer.Option(
            "--checkpoint-takes",
            help="What it takes to write one.",
            metavar="TIME",
            rich_help_panel=_USAGE,
        ),
    ] = "1m",
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            help="When it runs: 8h/day,5d/week, 40h/week, 100h/month; shows the cheapest mix.",
            metavar="HOURS",
            rich_help_panel=_USAGE,
        ),
    ] = None,
    steady: Annotated[
        int,
        typer.Option("--steady", min=0, help="Boxes that always run.", rich_help_panel=_USAGE, metavar="N"),
    ] = 0,
    burst: Annotated[
        int,
        typer.Option(
            "--burst", min=0, help="Boxes that run as --profile says.", rich_help_panel=_USAGE, metavar="N"
        ),
    ] = 1,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Places to compare per way of paying.", metavar="N")
    ] = 1,
    sort: Annotated[Sort, typer.Option("--sort", help="What comes first.")] = Sort.TOTAL,
    max_age: Annotated[
        str | None, typer.Option("--max-age", help="Leave out older prices: 90d, 8w, 6m, 2y.", metavar="AGE")
    ] = None,
    hidden: Annotated[
        bool, typer.Option("--include-hidden", help="Also retired and not publicly sold types.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="How each figure came about, with dates and sources.")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Answer with comma-separated values.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Answer with Markdown, for a comment.")
    ] = False,
    conditions: Annotated[
        Path | None,
        typer.Option(
            "--conditions",
            help="Your discounts, credits, commitments; conditions.yaml of the configuration if absent.",
            metavar="FILE",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write a report, one page: FILE.html.", metavar="FILE"),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", help="Also draw the cost of a month by its hours: FILE.svg, FILE.png.", metavar="FILE"
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", help="Show the difference to another spec: FILE, or REF:FILE of git.", metavar="SPEC"
        ),
    ] = None,
) -> None:
    """Estimate every way of paying, side by side: compute, disk, address, egress, boot and idle time.

    With --budget it is a gate: exit code 7 if nothing that can be launched is expected to cost so little.
    """
    checkpoint_s = None if checkpoint_every is None else _time_s("--checkpoint-every", checkpoint_every)
    save_s = _time_s("--checkpoint-takes", checkpoint_takes)
    layers = _layers(profile, steady, burst)
    measure = shown.MEASURES.get(sort)
    other = None if against is None else _other_spec(against)
    own = _own_conditions(app, conditions)
    plots = None if plot is None else shown.load_plots("--plot", plot)
    report_plots = None if html is None else shown.load_plots("--html")

    question = _Question(
        app=app,
        usage_of=partial(
            _usage,
            hours=hours,
            egress=egress,
            boot_minutes=boot,
            failed_attempts=failed_attempts,
            snapshot_gib=snapshots,
            checkpoint_s=checkpoint_s,
            save_s=save_s,
        ),
        assumed=hours is None,
        max_age=max_age,
        include_hidden=hidden,
        limit=limit,
        measure=measure,
        layers=layers,
        own=own,
    )
    comparison = question.ask(spec)
    before = None if other is None else question.ask(other)
    exceeded = None if spec.budget is None else _exceeded(spec.budget, comparison)
    if plot is not None and plots is not None:
        _draw(app, comparison, plot, plots)
    if html is not None and report_plots is not None:
        from gpucloud.cli.cost_report import write_report

        write_report(html, comparison, app.client.catalog, report_plots, utc_now())
        app.output.say(f"Written: {html}")
    if exceeded is not None and app.output.json:
        raise exceeded  # one document, and that is the error's
    if app.output.json:
        write_json(app, comparison, before, explain=explain)
    elif csv:
        write_csv(comparison)
    elif markdown:
        write_markdown(comparison, before)
    else:
        show(app, comparison, before, explain=explain)
    if exceeded is not None:
        raise exceeded


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What was asked about a spec, and is asked about another one too."""

    app: App
    usage_of: Callable[[Spec], Usage]
    assumed: bool
    max_age: str | None
    include_hidden: bool
    limit: int
    measure: str | None
    layers: Sequence[Layer]
    own: OwnConditions | None

    def ask(self, spec: Spec) -> Comparison:
        """What a spec costs in each way.

        Raises:
            NoOfferError: nothing matches, or no price is known.
        """
        demand = _demand(spec, self.max_age, include_hidden=self.include_hidden)
        usage = self.usage_of(spec)
        today = shown.today()
        market = self.app.client.catalog.market_for(demand)
        credit: dict[str, Decimal] = {}
        if self.own is not None:
            market, credit = self.own.apply(market, usage, today), self.own.credits_usd(market, today)
        found = market.search(demand, today)
        if not found:
            raise shown.nothing_matches(market.explain(demand, today))
        if (measure := self.measure) is not None:
            found.sort(key=lambda offer: shown.work_order(offer, measure))
        chosen = ways(found, demand.purchases, self.limit)
        _say_uncounted(self.app, self.own, market, chosen, usage)
        estimates = compare(market, chosen, usage, on_demand_prices(market, chosen))
        if not any(estimate.total is not None for estimate in estimates):
            raise NoOfferError("no price is known for what matches", hint="see it with `gpucloud offers`")
        comparison = Comparison(
            market=market,
            usage=usage,
            assumed=self.assumed,
            estimates=estimates,
            layers=self.layers,
            credit=credit,
            measure=measure,
        )
        return comparison if measure is None else comparison.by_work()


def _draw(app: App, comparison: Comparison, file: Path, plots: ModuleType) -> None:
    """Draws the ways of paying in the first place that has several."""
    places = comparison.lasting()
    if not places:
        raise NoOfferError("there is nothing to draw: no place has several ways of paying for what lasts")
    plots.save(plots.draw_ways(places[0], shown.paid_text), file)
    app.output.say(f"Drawn: {file}, {at(places[0][0].offer)}")


def _own_conditions(app: App, given: Path | None) -> OwnConditions | None:
    """Somebody's own conditions; ``None`` where there are none."""
    file = app.paths.config / CONDITIONS if given is None else given
    written = given is not None or file.exists()
    held = app.client.catalog.commitments()
    if not written and not held:
        return None
    from gpucloud.market.discounts import OwnConditions

    return OwnConditions.load(file, held) if written else OwnConditions(held=held)


def _say_uncounted(
    app: App, own: OwnConditions | None, market: Market, offers: Sequence[Offer], usage: Usage
) -> None:
    """Which savings plans would be for what is offered, if only their rates were known."""
    for plan in own.uncounted(market, offers, usage, shown.today()) if own else ():
        app.output.say(f"Not counted, as its rate is not known: {plan}. Ask: gpucloud prices refresh")


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


def _exceeded(budget: Decimal, comparison: Comparison) -> PriceError | None:
    """Why a budget does not hold; ``None`` where something that can be launched is expected to keep it."""
    best = comparison.best
    if best is None or best.expected_total is None:
        return PriceError("nothing that can be launched has a known cost to hold against the budget")
    where = f"{best.offer.cloud} {best.offer.region} {shown.paid_text(best.offer)}"
    if best.expected_total > budget:
        return PriceError(
            f"the cheapest way is expected to cost {best.expected_total:.2f} USD ({where}), "
            f"the budget is {budget:f} USD",
            hint="fewer --hours, other ways to pay, or a larger --budget",
        )
    if any(each.complete and (each.expected_total or 0) <= budget for each in comparison.launchable):
        return None
    unknown = " and ".join(name for name in best.parts if name in best.unknown)
    return PriceError(f"the budget cannot be shown to hold: the price of {unknown} is not known ({where})")


def _usage(
    spec: Spec,
    *,
    hours: str | None,
    egress: str,
    boot_minutes: int,
    failed_attempts: int,
    snapshot_gib: int,
    checkpoint_s: int | None,
    save_s: int,
) -> Usage:
    idle = spec.idles_out_after()
    return Usage(
        hours=HOURS_PER_MONTH if hours is None else _amount("--hours", hours, least=Decimal("0.01")),
        nodes=spec.nodes,
        disk_gib=spec.disk,
        egress_gib=_amount("--egress", egress, least=Decimal(0)),
        boot_s=boot_minutes * 60,
        boot_limit_s=int(STEP_TIMEOUT_S),
        failed_attempts=failed_attempts,
        snapshot_gib=snapshot_gib,
        checkpoint_s=checkpoint_s,
        save_s=save_s,
        idle_s=0 if idle is None else int(idle.total_seconds()),
    )


def _time_s(flag: str, text: str) -> int:
    from gpucloud.spec.fields import end

    try:
        time = end(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
    if isinstance(time, str) or time.total_seconds() < 1:
        raise UsageError(f"{flag}: {text!r} is not allowed; allowed: 1s or more")
    return int(time.total_seconds())


def _layers(profile: str | None, steady: int, burst: int) -> list[Layer]:
    """Which boxes run for how long in a month; none where nothing was said of that."""
    if profile is None:
        if steady:
            raise UsageError("--steady goes with --profile, which says when the other boxes run")
        return []
    try:
        hours = hours_per_month(profile)
    except BadProfileError as error:
        raise UsageError(f"--profile: {error}") from None
    layers = [Layer(machines=steady, hours=HOURS_PER_MONTH), Layer(machines=burst, hours=hours)]
    return [layer for layer in layers if layer.machines]


def _amount(flag: str, text: str, *, least: Decimal) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or not least <= amount <= 1_000_000:
        raise UsageError(f"{flag}: {text!r} is not allowed; allowed: a number from {least} to 1000000")
    return amount


def _demand(spec: Spec, max_age: str | None, *, include_hidden: bool) -> Demand:
    """The spec's demand; unless ways of paying are named, all of them."""
    demand = spec.demand(max_age=shown.read_age(max_age), include_hidden=include_hidden)
    return demand if "purchase" in spec.model_fields_set else replace(demand, purchases=PURCHASES)

"""What ``gpucloud cost`` shows to people."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from decimal import Decimal

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.cost_explanation import show_figures
from gpucloud.cli.cost_notes import (
    bounded_text,
    compared_text,
    notes,
    range_text,
    verdict_text,
    without_text,
    work_columns,
    work_text,
)
from gpucloud.costs.against import IncomparableError, difference
from gpucloud.costs.comparison import Comparison
from gpucloud.market import cells
from gpucloud.market.cells import paid_text
from gpucloud.rendering.table import Table
from gpucloud_pricing.estimate import PERIODS, Estimate, hourly
from gpucloud_pricing.payment import month_of
from gpucloud_pricing.purchases import Billed
from gpucloud_pricing.rules import caution

AMOUNTS = (
    *cells.UNIT_HEADINGS,
    "HOURS",
    "PER EPOCH",
    "PER 1M TOKENS",
    "EXPECTED",
    "PER NODE",
    "AFTER CREDIT",
    "PRESENT VALUE",
    "RANGE",
    "INTERRUPTED",
    "TOTAL",
    "UPFRONT",
    "COMPUTE",
    "DISK",
    "ADDRESS",
    "EGRESS",
    "SNAPSHOTS",
    "BREAK-EVEN",
)
"""The columns of numbers."""

Running = tuple[Estimate, Decimal | None, dict[str, str]]
"""An estimate, its cost per hour, and why parts of it are unknown."""


def show(
    app: App,
    comparison: Comparison,
    before: Comparison | None,
    *,
    estimates: Sequence[Estimate],
    explain: bool,
) -> None:
    """The verdict, the table, and what to know about them.

    Args:
        app: the output.
        comparison: the comparison.
        before: that of another spec, for the difference.
        estimates: the rows of the table.
        explain: add how each figure is computed, and all notes.
    """
    app.output.sentence(verdict_text(comparison))
    if not sys.stdout.isatty():  # a table on a terminal begins with an empty line
        app.output.line("")
    if comparison.assumed:
        _show_periods(app, comparison, estimates)
    else:
        _show_totals(app, comparison, estimates)
    _show_mixes(app, comparison)
    if explain:
        show_figures(app, comparison)
    if before is not None:
        _show_difference(app, comparison, before)
    app.output.say_each(notes(comparison, estimates))


def _show_difference(app: App, comparison: Comparison, before: Comparison) -> None:
    app.output.line("")
    try:
        found = difference(before, comparison)
    except IncomparableError as error:
        app.output.sentence(f"No difference: {error}.")
        return
    more = found.after - found.before
    sign = "less" if more < 0 else "more"
    before_text, after_text = (compared_text(cost, found) for cost in (found.before, found.after))
    app.output.sentence(
        f"The other spec: {before_text}; this one: {after_text}, "
        f"{shown.total_text(abs(more))} {sign}{without_text(found)}."
    )


def _part(estimate: Estimate, name: str) -> str:
    return shown.total_text(estimate.parts[name])


def unit_column(comparison: Comparison, estimates: Sequence[Estimate]) -> dict[str, Sequence[object]]:
    """What work costs, where that was asked for."""
    if comparison.measure is None:
        return {}
    costs = [(each.missing, comparison.unit_cost(each)) for each in estimates]
    texts = ["?" if c is None else f"{'≥ ' if bound else ''}{cells.usd_text(c)}" for bound, c in costs]
    return {cells.unit_heading(comparison.measure): texts}


def cost_columns(comparison: Comparison, estimates: Sequence[Estimate]) -> dict[str, Sequence[object]]:
    """Some estimates of a comparison by columns; a cell without a value is ``None``."""
    offers = [estimate.offer for estimate in estimates]
    return {
        "CLOUD": [o.cloud for o in offers],
        "PAID AS": [cells.paid_cell(o.purchase, o.terms) for o in offers],
        **unit_column(comparison, estimates),
        **{name.upper(): cells for name, cells in work_columns(comparison, estimates).items()},
        "EXPECTED": [expected_text(e) for e in estimates],
        "PER NODE": [_per_node_text(comparison, e) for e in estimates],
        "AFTER CREDIT": [_optional_text(comparison.after_credit(e), e) for e in estimates],
        "PRESENT VALUE": [_optional_text(comparison.present_value(e), e) for e in estimates],
        "RANGE": [range_text(e) for e in estimates],
        "INTERRUPTED": [_chance_text(e) for e in estimates],
        "UPFRONT": [_upfront_text(e) for e in estimates],
        "COMPUTE": [_part(e, "compute") for e in estimates],
        "DISK": [_part(e, "disk") for e in estimates],
        "ADDRESS": [_part(e, "address") for e in estimates],
        "EGRESS": [_part(e, "egress") if comparison.usage.egress_gib else None for e in estimates],
        "SNAPSHOTS": [_part(e, "snapshots") if comparison.usage.snapshot_gib else None for e in estimates],
        "BREAK-EVEN": [_break_even_text(e) for e in estimates],
        "GPU": [cells.gpu_text(o) for o in offers],
        "REGION": [o.region for o in offers],
        "TYPE": [o.instance_type for o in offers],
        "AS OF": [o.as_of for o in offers],
        "MONTHLY BAND": [cells.monthly_band_text(o) for o in offers],
        "FLAGS": [cells.flags_cell(o) for o in offers],
    }


def _per_node_text(comparison: Comparison, estimate: Estimate) -> str | None:
    """What one of several nodes is expected to cost."""
    if comparison.usage.nodes == 1 or estimate.expected_total is None:
        return None
    return bounded_text(estimate.expected_total / comparison.usage.nodes, estimate)


def _show_totals(app: App, comparison: Comparison, estimates: Sequence[Estimate]) -> None:
    app.output.table(
        Table(
            cost_columns(comparison, estimates),
            right=AMOUNTS,
            optional=(
                "AS OF",
                "ADDRESS",
                "PER NODE",
                "SNAPSHOTS",
                "EGRESS",
                "DISK",
                "COMPUTE",
                "GPU",
                "UPFRONT",
                "BREAK-EVEN",
                "MONTHLY BAND",
                "RANGE",
                "INTERRUPTED",
            ),
        )
    )


def _show_periods(app: App, comparison: Comparison, estimates: Sequence[Estimate]) -> None:
    usage = comparison.usage
    rows = [(e, *hourly(comparison.market, e.offer, usage)) for e in estimates if e.total is not None]
    if comparison.measure is None:
        rows = _by_cloud(sorted(rows, key=_by_hour))
    columns: dict[str, Sequence[object]] = {
        "CLOUD": [e.offer.cloud for e, _, _ in rows],
        "PAID AS": [cells.paid_cell(e.offer.purchase, e.offer.terms) for e, _, _ in rows],
    }
    columns |= unit_column(comparison, [e for e, _, _ in rows])
    for name, period in PERIODS.items():
        columns[name.upper()] = [
            running_text(per_hour and per_hour * period, missing) for _, per_hour, missing in rows
        ]
    columns |= {
        "BREAK-EVEN": [_break_even_text(e) for e, _, _ in rows],
        "GPU": [cells.gpu_text(e.offer) for e, _, _ in rows],
        "REGION": [e.offer.region for e, _, _ in rows],
        "TYPE": [e.offer.instance_type for e, _, _ in rows],
        "AS OF": [e.offer.as_of for e, _, _ in rows],
        "MONTHLY BAND": [cells.monthly_band_text(e.offer) for e, _, _ in rows],
        "FLAGS": [cells.flags_cell(e.offer) for e, _, _ in rows],
    }
    app.output.table(
        Table(
            columns,
            right=(*cells.UNIT_HEADINGS, "HOUR", "DAY", "MONTH", "BREAK-EVEN"),
            optional=("AS OF", "DAY", "GPU", "BREAK-EVEN", "MONTHLY BAND"),
        )
    )


def _by_hour(row: Running) -> tuple[bool, int, Decimal]:
    estimate, per_hour, missing = row
    return bool(missing), caution(estimate.offer.flags), per_hour or Decimal(0)


def _by_cloud(rows: Sequence[Running]) -> list[Running]:
    """The rows of each cloud together, the cloud of the first row first."""
    clouds = list(dict.fromkeys(row[0].offer.cloud for row in rows))
    return sorted(rows, key=lambda row: clouds.index(row[0].offer.cloud))


def _chance_text(estimate: Estimate) -> str | None:
    """The probability of an interruption, low to high; ``?`` for spot where nothing is known of it."""
    if not estimate.offer.paid_as.interruptible:
        return None
    if estimate.spot is None:
        return "?"
    low, high = map(shown.percent_text, (estimate.spot.chance.low, estimate.spot.chance.high))
    return f"{low}-{high} %"


def _optional_text(amount: Decimal | None, estimate: Estimate) -> str | None:
    """An amount that not every comparison has."""
    return None if amount is None else bounded_text(amount, estimate)


def _upfront_text(estimate: Estimate) -> str | None:
    """What is due at once."""
    return shown.total_text(estimate.upfront) if estimate.upfront else None


def _show_mixes(app: App, comparison: Comparison) -> None:
    """The cheapest mix for a profile."""
    for shares in comparison.mixes():
        app.output.line("")
        over = "" if comparison.assumed else f", over {work_text(comparison)}"
        month = shown.total_text(month_of(shares))
        app.output.line(f"{shown.at(shares[0].way.offer)}: {month} per month for compute{over}")
        columns: dict[str, Sequence[object]] = {
            "MACHINES": [share.layer.machines for share in shares],
            "HOURS": [f"{share.layer.hours:.0f}" for share in shares],
            "PAID AS": [paid_text(share.way.offer) for share in shares],
            "MONTH": [shown.total_text(share.cost) for share in shares],
        }
        app.output.table(Table(columns, right=("MACHINES", "HOURS", "MONTH")))


def running_text(amount: Decimal | None, missing: Collection[str]) -> str:
    """What is paid in a period, at least that if a part is missing; a cheap hour shows its small change."""
    text = cells.usd_text(amount) if amount is not None and amount < 10 else shown.total_text(amount)
    return f"≥ {text}" if missing else text


def expected_text(estimate: Estimate) -> str:
    """The expected total; without a rate of interruptions, the total without any is a lower bound."""
    if estimate.expected_total is None and estimate.total is not None:
        return f"≥ {shown.total_text(estimate.total)}"
    return bounded_text(estimate.expected_total, estimate)


def _break_even_text(estimate: Estimate) -> str | None:
    """From how many hours per month a commitment is cheaper than on-demand."""
    if estimate.offer.paid_as.billed is not Billed.IN_TERMS:
        return None
    if estimate.break_even_hours is not None:
        return f"{estimate.break_even_hours:.0f} h/mo"
    return "?" if "break_even_hours" in estimate.unknown else "never"

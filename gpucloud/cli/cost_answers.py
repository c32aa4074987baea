"""What ``gpucloud cost`` answers to spreadsheets and pull requests: CSV, Markdown."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from gpucloud.cli import market as shown
from gpucloud.cli.cost_notes import (
    bounded_text,
    compared_text,
    usage_text,
    verdict_text,
    without_text,
    work_columns,
    work_text,
)
from gpucloud.cli.output import Output
from gpucloud.costs.against import IncomparableError, difference, more_than
from gpucloud.costs.comparison import Comparison
from gpucloud.market.cells import paid_text
from gpucloud_pricing.estimate import PARTS

CSV_AMOUNTS = (*PARTS, "total", "low_total", "expected_total", "high_total")


def write_csv(output: Output, comparison: Comparison, before: Comparison | None) -> None:
    """One row for each way of paying; amounts in USD, empty where they are not known.

    ``against`` is the lowest expected cost of another spec, ``difference`` what the row is expected to cost
    more: empty without another spec, and where the two do not have the same known parts.
    """
    place = ("cloud", "region", "zone", "instance_type", "purchase", "terms")
    last = ("complete", "as_of", "source", "flags", "against", "difference")
    of_work = ("hours", "per_epoch", "per_million_tokens")
    names = (
        *place,
        *CSV_AMOUNTS,
        "after_credit",
        "present_value",
        "upfront",
        "break_even_hours",
        *last,
        *of_work,
    )
    against = None if before is None or before.best is None else before.best.expected_total
    rows: list[list[object]] = []
    for estimate in comparison.estimates:
        offer, document = estimate.offer, cast("Mapping[str, Any]", estimate.document())
        amounts = [document[name] and document[name]["amount"] for name in CSV_AMOUNTS]
        further = (
            comparison.after_credit(estimate),
            comparison.present_value(estimate),
            estimate.upfront,
        )
        compared = (against, None if before is None else more_than(before, estimate))
        work = (
            None if comparison.assumed else comparison.hours_on(offer),
            comparison.per_epoch(estimate),
            comparison.per_million_tokens(estimate),
        )
        rows.append(
            [
                *(getattr(offer, name) for name in place),
                *amounts,
                *map(_amount_text, further),
                document["break_even_hours"],
                document["complete"],
                offer.as_of,
                offer.source,
                " ".join(offer.flags),
                *map(_amount_text, (*compared, *work)),
            ]
        )
    output.csv(names, rows)


def _amount_text(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:.4f}"


def write_markdown(comparison: Comparison, before: Comparison | None) -> None:
    """A table, and the difference above it: fit for a comment on a pull request."""
    usage = comparison.usage
    lines: list[str] = []
    if before is not None:
        lines += [_difference_line(before, comparison), ""]
    lines += [verdict_text(comparison), ""]
    more = {
        "after credits": comparison.after_credit,
        "present value": comparison.present_value,
    }
    further = {
        name: amount_of
        for name, amount_of in more.items()
        if any(amount_of(each) is not None for each in comparison.estimates)
    }
    work = work_columns(comparison, comparison.estimates)
    headings = [*work, *further]
    lines += [
        f"| paid as | for {work_text(comparison)} |{''.join(f' {name} |' for name in headings)}"
        " of it compute | where | type | price of |",
        f"| --- | ---: |{' ---: |' * len(headings)} ---: | --- | --- | --- |",
    ]
    for row, estimate in enumerate(comparison.estimates):
        offer = estimate.offer
        total = estimate.cost
        bound = "" if not estimate.missing or total is None else "≥ "
        cells = (
            paid_text(offer) + (" (to buy)" if offer.to_buy else ""),
            bound + shown.total_text(total),
            *(column[row] for column in work.values()),
            *(bounded_text(amount_of(estimate), estimate) for amount_of in further.values()),
            shown.total_text(estimate.compute),
            f"{offer.cloud} {offer.region}",
            f"`{offer.instance_type}`",
            str(offer.as_of or "?"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"{usage_text(usage)} List prices before tax, in USD. "
        "A commitment owes its whole term. Made by `gpucloud cost --markdown`.",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def _difference_line(before: Comparison, after: Comparison) -> str:
    """The difference to another spec, or why there is none."""
    try:
        found = difference(before, after)
    except IncomparableError as error:
        return f"**No difference**: {error}."
    more = found.after - found.before
    percent = f" ({more / found.before * 100:+.1f} %)" if found.before else ""
    sign = "-" if more < 0 else "+"
    return (
        f"**{sign}{shown.total_text(abs(more))}**{percent}: {compared_text(found.before, found)} before, "
        f"{compared_text(found.after, found)} now{without_text(found)}"
    )

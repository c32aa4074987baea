"""What ``gpucloud cost`` answers to spreadsheets and pull requests: CSV, Markdown."""

from __future__ import annotations

import csv
import sys

from gpucloud.cli import market as shown
from gpucloud.cli.cost_tables import usage_text
from gpucloud.costs.comparison import Comparison
from gpucloud.market.search import paid_text
from gpucloud_pricing.estimate import PARTS

CSV_AMOUNTS = (*PARTS, "total", "low_total", "expected_total", "high_total")


def write_csv(comparison: Comparison) -> None:
    """One row for each way of paying; amounts in USD, empty where they are not known."""
    place = ("cloud", "region", "zone", "instance_type", "purchase", "terms")
    names = (*place, *CSV_AMOUNTS, "upfront", "break_even_hours", "complete", "as_of", "source", "flags")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    for estimate in comparison.estimates:
        offer, document = estimate.offer, estimate.document()
        amounts = [document[name] and document[name]["amount"] for name in CSV_AMOUNTS]
        upfront = document.get("upfront")
        writer.writerow(
            [
                *(getattr(offer, name) for name in place),
                *amounts,
                upfront and upfront["amount"],
                document["break_even_hours"],
                document["complete"],
                offer.as_of,
                offer.source,
                " ".join(offer.flags),
            ]
        )


def write_markdown(comparison: Comparison, before: Comparison | None) -> None:
    """A table, and the difference above it: fit for a comment on a pull request."""
    usage = comparison.usage
    lines: list[str] = []
    told = before and comparison.difference(before)
    if told:
        was, now, more = told
        percent = f" ({more / was * 100:+.1f} %)" if was else ""
        sign = "-" if more < 0 else "+"
        lines += [
            f"**{sign}{shown.total_text(abs(more))}**{percent}: "
            f"{shown.total_text(was)} before, {shown.total_text(now)} now",
            "",
        ]
    elif before is not None:
        lines += ["The difference is not known: one of the two costs is not.", ""]
    hours = "a month" if comparison.assumed else f"{usage.hours.normalize():f} h"
    lines += [
        f"| paid as | for {hours} | of it compute | where | type | price of |",
        "| --- | ---: | ---: | --- | --- | --- |",
    ]
    for estimate in comparison.estimates:
        offer = estimate.offer
        total = estimate.expected_total if estimate.expected_total is not None else estimate.total
        bound = "" if estimate.complete or total is None else "≥ "
        cells = (
            paid_text(offer) + (" (to buy)" if offer.to_buy else ""),
            bound + shown.total_text(total),
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

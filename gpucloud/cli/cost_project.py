"""``gpucloud cost --project``: the cheapest places for several specs and the data between them."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.cost_explanation import show_rows, show_sources
from gpucloud.costs.project_cost import Placement, ProjectCost
from gpucloud.costs.project_file import load_project
from gpucloud.market import cells
from gpucloud.market.cells import paid_text
from gpucloud.rendering.table import Table

Rows = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Headings and rows."""

_PATHS = {
    "internet": "over the internet",
    "between regions": "between regions",
    "region": "between zones",
    "zone": "within a zone",
}


def show_project(
    app: App,
    file: Path,
    conditions: Path | None,
    *,
    all_terms: bool,
    form: str,
    explain: bool,
) -> None:
    """Answers with the cheapest places of the project in a file.

    Args:
        app: the program.
        file: the project.
        conditions: the user's own conditions.
        all_terms: also consider commitments for longer than the parts last.
        form: ``json``, ``csv``, ``markdown`` or ``text``.
        explain: add how each figure is computed.
    """
    cost = app.client.market.project(load_project(file), conditions=conditions, all_terms=all_terms)
    match form:
        case "json":
            app.output.document("project", cost.document(explain=explain))
        case "csv":
            _write_csv(cost)
        case "markdown":
            _write_markdown(cost)
        case _:
            _show(app, cost, explain=explain)


def sentence(cost: ProjectCost) -> str:
    """The answer in one sentence."""
    best, other = cost.cheapest, cost.one_cloud
    places = ", ".join(
        f"{each.part.name} on {' '.join(each.place[:2])} {paid_text(each.estimate.offer)}"
        for each in best.parts
    )
    told = f"Cheapest: {places}: {total_text(best)}{' a month' if cost.project.monthly else ''}"
    if other is None:
        return f"{told}; no cloud has offers for all parts."
    if len(best.clouds) == 1:
        return f"{told}; mixing clouds saves nothing."
    told = f"{told}; everything on one cloud: {total_text(other)} on {other.clouds[0]}"
    if cost.saving is None:
        return f"{told}; what mixing saves is unknown: {cost.why_no_saving}."
    percent = cost.saving / other.total * 100
    return f"{told}; mixing saves {shown.total_text(cost.saving)} ({percent:.1f} %)."


def total_text(placement: Placement) -> str:
    """The total; a lower bound, if something is unknown."""
    return ("≥ " if placement.unknown else "") + shown.total_text(placement.total)


def notes(cost: ProjectCost) -> Iterator[str]:
    """At most three notes."""
    best = cost.cheapest
    free = "as if nothing else used the account's free amounts and steps"
    dates = sorted(each.estimate.offer.as_of for each in best.parts if each.estimate.offer.as_of)
    of = f", of {' to '.join(map(str, dict.fromkeys((dates[0], dates[-1]))))}" if dates else ""
    yield (
        f"List prices before tax{of}; data is priced per month, {free}; within a zone it is free, over "
        "private addresses."
    )
    if best.unknown:
        yield f"Unknown (≥, ?): {'; '.join(f'{what} of {part}' for part, what in best.unknown)}."
    elif any(each.estimate.offer.to_buy for each in best.parts):
        yield "A commitment must be bought first. Its whole term is billed; a month of it is counted here."
    elif cost.passed_over:
        yield (
            f"Older than their limit, so that they win over nothing: cheaper prices for "
            f"{', '.join(cost.passed_over)}. Ask for newer ones: gpucloud prices refresh"
        )
    yield "More: --explain shows how each figure is computed."


def _show(app: App, cost: ProjectCost, *, explain: bool) -> None:
    app.output.sentence(sentence(cost))
    for headings, rows in _tables(cost):
        if rows:
            app.output.line("")
            app.output.table(
                Table.of_rows(
                    headings,
                    rows,
                    right=("NODES", "HOURS", "COST", "GIB"),
                    optional=("AS OF", "NODES", "GPU", "ZONE"),
                )
            )
    if explain:
        _explain(app, cost)
    app.output.say_each(notes(cost))


def _tables(cost: ProjectCost) -> tuple[Rows, Rows, Rows]:
    """The parts, the transfers, and each cloud alone."""
    best = cost.cheapest
    parts = [
        (
            each.part.name,
            each.place.cloud,
            each.place.region,
            each.place.zone or None,
            each.estimate.offer.instance_type,
            paid_text(each.estimate.offer),
            cells.gpu_text(each.estimate.offer),
            each.comparison.usage.nodes,
            f"{each.comparison.usage.hours:.4g}",
            ("≥ " if each.unknown else "") + shown.total_text(each.usd),
            each.estimate.offer.as_of,
            " ".join(each.estimate.offer.flags) or None,
        )
        for each in best.parts
    ]
    transfers = [
        (
            each.transfer.origin,
            each.transfer.target,
            f"{each.transfer.gib.normalize():f}",
            _PATHS[each.path],
            shown.total_text(each.usd),
        )
        for each in best.transfers
    ]
    alone = [
        (
            cloud,
            ", ".join(
                f"{each.part.name}: {each.place.region} {paid_text(each.estimate.offer)}"
                for each in placement.parts
            ),
            total_text(placement),
        )
        for cloud, placement in sorted(cost.by_cloud.items(), key=lambda item: item[1].rank)
    ]
    headings = (
        "PART",
        "CLOUD",
        "REGION",
        "ZONE",
        "TYPE",
        "PAID AS",
        "GPU",
        "NODES",
        "HOURS",
        "COST",
        "AS OF",
        "FLAGS",
    )
    return (
        (headings, parts),
        (("FROM", "TO", "GIB", "PATH", "COST"), transfers),
        (("ONE CLOUD", "PLACES", "COST"), alone),
    )


def _explain(app: App, cost: ProjectCost) -> None:
    """How the figures of the cheapest places are computed."""
    used: set[str] = set()
    for name, figures in cost.figures():
        app.output.line("")
        app.output.line(name)
        used |= show_rows(app, figures)
    terms = " + ".join(
        f"{amount:.2f}"
        for amount in (
            *(each.usd for each in cost.cheapest.parts),
            *(each.usd for each in cost.cheapest.transfers),
        )
        if amount is not None
    )
    app.output.line("")
    app.output.line(f"total {cost.cheapest.total:.2f} USD = {terms}")
    show_sources(app, cost.market, used)


def _write_csv(cost: ProjectCost) -> None:
    """One row for each part and transfer; amounts in USD, empty where they are not known."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    names = (
        "kind",
        "name",
        "to",
        "cloud",
        "region",
        "zone",
        "instance_type",
        "purchase",
        "terms",
        "hours",
        "gib",
        "cost",
    )
    writer.writerow((*names, "complete", "as_of"))
    for part in cost.cheapest.parts:
        offer = part.estimate.offer
        place = (*part.place[:2], offer.zone, offer.instance_type, offer.purchase, offer.terms)
        amounts = (part.comparison.usage.hours, None, round(part.usd, 4))
        writer.writerow(("part", part.part.name, None, *place, *amounts, not part.unknown, offer.as_of))
    for sent in cost.cheapest.transfers:
        usd = None if sent.usd is None else round(sent.usd, 4)
        ends = (sent.transfer.origin, sent.transfer.target, *sent.origin[:2], sent.origin.zone or None)
        writer.writerow(
            ("transfer", *ends, None, None, None, None, sent.transfer.gib, usd, usd is not None, None)
        )


def _write_markdown(cost: ProjectCost) -> None:
    """The sentence and the tables: fit for a comment on a pull request."""
    lines = [sentence(cost)]
    for headings, rows in _tables(cost):
        if rows:
            ruler = ["---:" if name in {"COST", "GIB", "HOURS", "NODES"} else "---" for name in headings]
            cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
            lines += [
                "",
                *(f"| {' | '.join(line)} |" for line in ([name.lower() for name in headings], ruler, *cells)),
            ]
    lines += ["", "List prices before tax, in USD. Made by `gpucloud cost --project --markdown`."]
    sys.stdout.write("\n".join(lines) + "\n")

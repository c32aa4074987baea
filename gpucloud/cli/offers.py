"""``gpucloud offers``: searches the market, cheapest first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.options import takes_spec
from gpucloud.errors import UsageError
from gpucloud.spec.model import Spec
from gpucloud_pricing import Explanation, Market, Offer, Refusal

ROWS = 20
"""How many rows a table has unless ``--limit`` says more."""

CSV_COLUMNS = (
    "cloud",
    "region",
    "zone",
    "instance_type",
    "gpu_model",
    "gpu_count",
    "gpu_memory_gib",
    "vcpus",
    "memory_gib",
    "interconnect",
    "rdma",
    "arch",
    "purchase",
    "price_per_hour",
    "currency",
    "price_usd",
    "as_of",
    "source",
    "flags",
)


class Sort(StrEnum):
    """What the offers are sorted by, the best first."""

    PRICE = "price"
    PER_GPU = "gpu-price"
    PER_GIB = "gpu-memory-price"
    PER_FP64 = "fp64-price"
    PER_FP32 = "fp32-price"
    PER_TF32 = "tf32-price"
    PER_FP16 = "fp16-price"
    PER_FP8 = "fp8-price"
    GPU_MEMORY = "gpu-memory"
    VCPUS = "vcpus"
    MEMORY = "memory"
    AGE = "age"
    NAME = "name"


_ORDERS: dict[Sort, Callable[[Offer], Any]] = {
    Sort.GPU_MEMORY: lambda o: -o.gpu_memory_gib * o.gpu_count,
    Sort.VCPUS: lambda o: -o.vcpus,
    Sort.MEMORY: lambda o: -o.memory_gib,
    Sort.AGE: lambda o: -o.as_of.toordinal() if o.as_of else 0,
    Sort.NAME: lambda o: (o.cloud, o.region, o.zone or "", o.instance_type, o.purchase),
}


@takes_spec
def offers(
    app: App,
    spec: Spec,
    why: Annotated[
        bool, typer.Option("--why", help="Also what was turned down, and by which demand.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help="At most this many; 0 for all.", metavar="N")
    ] = None,
    sort: Annotated[Sort, typer.Option("--sort", help="What comes first.")] = Sort.PRICE,
    csv: Annotated[bool, typer.Option("--csv", help="Answer with comma-separated values.")] = False,
    max_age: Annotated[
        str | None, typer.Option("--max-age", help="Leave out older prices: 90d, 8w, 6m, 2y.", metavar="AGE")
    ] = None,
    hidden: Annotated[
        bool, typer.Option("--include-hidden", help="Also retired and not publicly sold types.")
    ] = False,
) -> int | None:
    """Search the market: every matching offer, cheapest first. Changes nothing anywhere."""
    if csv and app.output.json:
        raise UsageError("--csv and --json contradict each other")
    demand = spec.demand(max_age=shown.read_age(max_age), include_hidden=hidden)
    market = app.client.catalog.market_for(demand)
    day = shown.today()
    # Zones of equal price share a row of the table, so how many offers fill it is not known beforehand.
    whole = why or sort is not Sort.PRICE or not (app.output.json or csv)
    found = market.search(demand, day, None if whole else limit or None)
    explanation = market.explain(demand, day) if why or not found else None
    if not found and explanation and not why:
        raise shown.nothing_matches(explanation)
    if measure := shown.MEASURES.get(sort):
        found.sort(key=lambda offer: shown.work_order(offer, measure))
    elif sort is not Sort.PRICE:
        found.sort(key=_ORDERS[sort])
    if app.output.json:
        _write_document(app, market, found[: limit or None], explanation, limit)
    elif csv:
        _write_csv(found[: limit or None])
    else:
        _show(app, market, found, ROWS if limit is None else limit or sys.maxsize, measure)
        if explanation:
            _show_why(app, explanation)
    if not found and explanation:
        failure = shown.nothing_matches(explanation)
        app.output.say(failure.message)
        return failure.exit_code
    return None


def _write_document(
    app: App, market: Market, found: Sequence[Offer], explanation: Explanation | None, limit: int | None
) -> None:
    fields: dict[str, Any] = {
        "as_of": max((offer.as_of for offer in found if offer.as_of), default=None),
        "offers": [offer.document() for offer in found],
        "rates": shown.rates_document(shown.rates_of(market, found)),
    }
    fields["as_of"] = fields["as_of"] and fields["as_of"].isoformat()
    if explanation:
        fields["turned_down"] = [_refusal(refusal) for refusal in explanation.refused[: limit or None]]
        fields["turned_down_by"] = explanation.counts
        fields["relax"] = [
            {"rule": relaxation.rule, "offers": relaxation.offers, "best": relaxation.best.document()}
            for relaxation in explanation.relaxations
        ]
    app.output.document("offers", fields)


def _refusal(refusal: Refusal) -> dict[str, Any]:
    reasons = [{"rule": reason.rule, "text": reason.text} for reason in refusal.reasons]
    return {"offer": refusal.offer.document(), "reasons": reasons}


def _write_csv(found: Sequence[Offer]) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for offer in found:
        price = offer.price
        plain = [getattr(offer, name) for name in CSV_COLUMNS[:13]]
        usd = offer.document()["price_usd"]
        money = [price.amount, price.currency] if price else [None, None]
        writer.writerow(
            [*plain, *money, usd and usd["amount"], offer.as_of, offer.source, " ".join(offer.flags)]
        )


def _show(app: App, market: Market, found: Sequence[Offer], limit: int, measure: str | None) -> None:
    groups: dict[tuple[Any, ...], list[Offer]] = {}
    for offer in found:
        key = (offer.cloud, offer.region, offer.instance_type, offer.purchase, offer.price_usd, offer.as_of)
        groups.setdefault((*key, offer.flags), []).append(offer)
    rows = list(groups.values())[:limit]
    if not rows:
        return
    heads = [group[0] for group in rows]
    purchases = {offer.purchase for offer in heads}
    columns: dict[str, Sequence[object]] = {
        "PER HOUR": [shown.usd_text(o.price_usd) for o in heads],
        "BILLED AS": [shown.own_price_text(o) for o in heads],
        "PER GPU": [shown.usd_text(o.price_usd and o.price_usd / o.gpu_count) for o in heads],
        **_unit_column(heads, measure),
        "GPU": [shown.gpu_text(o) for o in heads],
        "CLOUD": [o.cloud for o in heads],
        "REGION": [o.region for o in heads],
        "ZONES": [shown.zones_text(o.zone for o in group) for group in rows],
        "TYPE": [o.instance_type for o in heads],
        "VCPUS": [o.vcpus for o in heads],
        "GIB": [f"{o.memory_gib.normalize():f}" for o in heads],
        "LINK": [o.interconnect for o in heads],
        "PAID AS": [shown.paid_text(o) if purchases != {"on_demand"} else None for o in heads],
        "PRICE OF": [o.as_of for o in heads],
        "FLAGS": [shown.flags_text(o) for o in heads],
    }
    shown.show_table(
        app.output,
        columns,
        right=("PER HOUR", "BILLED AS", "PER GPU", "PER GIB", "PER TFLOPH", "VCPUS", "GIB"),
        optional=("LINK", "GIB", "VCPUS", "PER GPU", "PRICE OF", "ZONES", "GPU"),
    )
    if len(groups) > len(rows):
        app.output.say(f"{len(groups) - len(rows)} more rows: --limit 0 shows all.")
    dates = sorted(offer.as_of for offer in heads if offer.as_of)
    if dates:
        app.output.say(f"List prices before tax, of {dates[0]} to {dates[-1]}.")
    shown.say_rates(app.output, shown.rates_of(market, heads))
    app.output.say("Next: the same flags with `cost`, `plan` or `launch`.")


def _unit_column(heads: Sequence[Offer], measure: str | None) -> dict[str, Sequence[object]]:
    """What a unit of work costs, where offers are sorted by that and no other column tells."""
    from gpucloud_pricing.work import price_for

    if measure is None or measure == "gpu":
        return {}
    prices = [price_for(offer, measure) for offer in heads]
    return {shown.unit_heading(measure): [shown.usd_text(price) for price in prices]}


def _show_why(app: App, explanation: Explanation) -> None:
    line = app.output.line
    line("")
    line(f"{len(explanation.matched)} offers match, {len(explanation.refused)} were turned down:")
    for rule, count in explanation.counts.items():
        line(f"  {count:5}  by {shown.rule_text(rule)}")
    if explanation.relaxations:
        line("What leaving out one demand would bring:")
        for relaxation in explanation.relaxations:
            line(f"  {shown.relaxation_text(relaxation)}")
    line("Nearest of those turned down:")
    for refusal in explanation.refused[:ROWS]:
        reasons = "; ".join(reason.text for reason in refusal.reasons)
        line(f"  {shown.offer_text(refusal.offer)}: {reasons}")

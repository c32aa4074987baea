"""``gpucloud offers``: searches the market, cheapest first."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App, completed
from gpucloud.cli.listing import lists
from gpucloud.cli.options import SpecFlags
from gpucloud.errors import UsageError
from gpucloud.market import cells
from gpucloud.market.search import ROWS, Offers, Sort, offer_text, relaxation_text, rule_text, table_of
from gpucloud.rendering.texts import counted
from gpucloud.spec.defaults import OF_OFFERS
from gpucloud_pricing import Explanation, Offer, Refusal

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
    "interruption_low_percent",
    "interruption_high_percent",
    "interruption_as_of",
)


@lists("offers", name="instance_type")
def offers(
    app: App,
    spec: SpecFlags,
    why: Annotated[
        bool, typer.Option("--why", help="Also list the refused offers, with the demand that refused them.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=0, help="Maximum number of offers; 0 for all.", metavar="N"),
    ] = None,
    sort: Annotated[
        Sort, typer.Option("--sort", help=f"Sort order: {', '.join(Sort)}.", metavar="ORDER")
    ] = Sort.PRICE,
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    max_age: Annotated[
        str | None, typer.Option("--max-age", help="Leave out older prices: 90d, 8w, 6m, 2y.", metavar="AGE")
    ] = None,
    hidden: Annotated[
        bool,
        typer.Option("--include-hidden", help="Include retired types and types that are not sold publicly."),
    ] = False,
) -> int | None:
    """Search the market: every matching offer, cheapest first. Changes nothing.

    Examples:
        gpucloud offers --gpu A100:8 --spot
        gpucloud offers --gpu H100 --region 'us-*' --why
    """
    if csv and app.output.json:
        raise UsageError("--csv and --json contradict each other")
    spec, _ = completed(app, spec, OF_OFFERS)
    most = limit or None
    # Zones of equal price share a row of the table, so how many offers fill it is not known beforehand.
    as_table = not (app.output.json or csv)
    found = app.client.market.offers(
        spec,
        sort=sort,
        limit=None if as_table else most,
        why=why,
        max_age=shown.read_age(max_age),
        include_hidden=hidden,
    )
    if app.output.json:
        app.output.document("offers", found.document(most))
    elif csv:
        _write_csv(app, found.offers)
    else:
        _show(app, found, ROWS if limit is None else limit or sys.maxsize)
        if found.explanation:
            _show_why(app, found.explanation)
    if found.failure:
        app.output.say(found.failure.message)
        return found.failure.exit_code
    return None


def _write_csv(app: App, found: Sequence[Offer]) -> None:
    app.output.csv(CSV_COLUMNS, map(_csv_row, found))


def _csv_row(offer: Offer) -> list[object]:
    price = offer.price
    plain = [getattr(offer, name) for name in CSV_COLUMNS[:13]]
    usd = offer.document()["price_usd"]
    money = [price.amount, price.currency] if price else [None, None]
    band = offer.interruption
    monthly = [band.low, band.high, band.as_of] if band else [None, None, None]
    flags = " ".join(offer.flags)
    return [*plain, *money, usd and usd["amount"], offer.as_of, offer.source, flags, *monthly]


def _show(app: App, found: Offers, limit: int) -> None:
    groups = found.groups()
    if not groups[:limit]:
        return
    heads = [group[0] for group in groups[:limit]]
    app.output.table(table_of(groups[:limit], found.measure))
    if len(groups) > len(heads):
        app.output.say(f"{counted(len(groups) - len(heads), 'more row')}: --limit 0 shows all.")
    dates = sorted(offer.as_of for offer in heads if offer.as_of)
    if dates:
        app.output.say(f"List prices before tax, of {shown.span_text(dates[0], dates[-1])}.")
    app.output.say_each(shown.rate_notes(found.rates, heads))
    if found.measure is not None:
        app.output.say_each(shown.doubt_notes(heads, found.measure))
    for rule, count in found.forbidden.items():
        app.output.say(f"The policy's `{rule}` forbids {count} of these offers: a launch leaves them out.")
    app.output.say("Next: the same flags with `cost`, `plan` or `launch`.")


def _show_why(app: App, explanation: Explanation) -> None:
    line = app.output.sentence
    line("")
    matched, refused = len(explanation.matched), len(explanation.refused)
    line(f"{counted(matched, 'offer')} {'matches' if matched == 1 else 'match'}, {refused} refused:")
    for rule, count in explanation.counts.items():
        line(f"  {count:5}  by {rule_text(rule)}")
    if explanation.relaxations:
        line("With one demand changed, these would match:")
        for relaxation in explanation.relaxations:
            line(f"  {relaxation_text(relaxation)}")
    line("The refused offers with the fewest reasons:")
    for refusals in _alike(explanation.refused):
        first = refusals[0]
        zones = cells.zones_text(each.offer.zone for each in refusals)
        line(f"  {offer_text(first.offer, zones)}: {_reasons_text(first)}", indent=2)


def _alike(refused: Iterable[Refusal]) -> list[list[Refusal]]:
    """The first refusals, those together whose offers differ in their zones alone."""
    groups: dict[tuple[object, ...], list[Refusal]] = {}
    for each in refused:
        offer = each.offer
        place = (offer.cloud, offer.region, offer.instance_type)
        key = (*place, offer.purchase, offer.terms, offer.price_usd, _reasons_text(each))
        if key not in groups and len(groups) == ROWS:
            break
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _reasons_text(refusal: Refusal) -> str:
    return "; ".join(reason.text for reason in refusal.reasons)

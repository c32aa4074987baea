"""Searches the market: the offers that match a spec, their order, and why none matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gpucloud.errors import GpucloudError, NoOfferError, PriceError, UsageError
from gpucloud.market import cells
from gpucloud.market.cells import paid_text
from gpucloud.rendering.table import Table
from gpucloud.rendering.tabular import Tabular
from gpucloud.spec.file import flag_of
from gpucloud_pricing import (
    Demand,
    Market,
    Offer,
    Rate,
    format_count,
    format_money,
)
from gpucloud_pricing.gpu_models import BY_NAME
from gpucloud_pricing.gpus import parse_requirements
from gpucloud_pricing.purchases import Purchase
from gpucloud_pricing.rules import caution
from gpucloud_pricing.values import number

if TYPE_CHECKING:
    from gpucloud.market.documents import OffersDocument, ReasonDocument, RefusalDocument
    from gpucloud_pricing import Explanation, Refusal, Relaxation

_REFUSED_BY = {
    "cloud": "--cloud",
    "region": "--region",
    "residency": "--residency",
    "zone": "--zone",
    "purchase": "--purchase",
    "status": "status: retired, or not sold publicly",
    "partition": "partition: GovCloud and China regions must be named",
    "opt_in_zone": "zone: Local and Wavelength Zones must be named",
}
"""What refuses an offer, by rule, where it is not the flag of the rule's name."""
_RELAXED = {
    "cloud": "without --cloud",
    "region": "without --region",
    "residency": "with another --residency",
    "zone": "without --zone",
    "near": "without --near",
    "purchase": "with any --purchase",
    "gpu": "with another --gpu",
    "instance_type": "with another --instance-type",
    "arch": "with another --arch",
    "status": "with --include-hidden",
    "partition": "with --region of another partition",
    "opt_in_zone": "with --zone of an opt-in zone",
}
"""What to change so that a rule refuses nothing."""


ROWS = 20
"""How many rows a table of offers has by default."""


class Sort(StrEnum):
    """The sort orders of offers, the best first."""

    PRICE = "price"
    PER_GPU = "gpu-price"
    PER_GIB = "gpu-memory-price"
    PER_BANDWIDTH = "bandwidth-price"
    PER_FP64 = "fp64-price"
    PER_FP32 = "fp32-price"
    PER_TF32 = "tf32-price"
    PER_FP16 = "fp16-price"
    PER_BF16 = "bf16-price"
    PER_FP8 = "fp8-price"
    GPU_MEMORY = "gpu-memory"
    VCPUS = "vcpus"
    MEMORY = "memory"
    INTERRUPTIONS = "interruptions"
    AGE = "age"
    NAME = "name"


MEASURES = {
    Sort.PER_GPU: "gpu",
    Sort.PER_GIB: "memory",
    Sort.PER_BANDWIDTH: "bandwidth",
    Sort.PER_FP64: "fp64",
    Sort.PER_FP32: "fp32",
    Sort.PER_TF32: "tf32",
    Sort.PER_FP16: "fp16",
    Sort.PER_BF16: "bf16",
    Sort.PER_FP8: "fp8",
}
"""The unit of work of a sort order by the cost of work; see :mod:`gpucloud_pricing.work`."""


def _band(offer: Offer) -> tuple[bool, int, int]:
    """How often the cloud says that it interrupts it; last what nobody knows. What is not spot never is."""
    band = offer.interruption if offer.paid_as.interruptible else None
    return offer.paid_as.interruptible and band is None, band.high if band else 0, band.low if band else 0


_ORDERS: dict[Sort, Callable[[Offer], Any]] = {
    Sort.GPU_MEMORY: lambda o: -o.gpu_memory_gib * o.gpu_count,
    Sort.VCPUS: lambda o: -o.vcpus,
    Sort.MEMORY: lambda o: -o.memory_gib,
    Sort.INTERRUPTIONS: _band,
    Sort.AGE: lambda o: -o.as_of.toordinal() if o.as_of else 0,
    Sort.NAME: lambda o: (o.cloud, o.region, o.zone or "", o.instance_type, o.purchase),
}


def order_named(name: str) -> Sort:
    """The sort order with a name.

    Raises:
        UsageError: there is none.
    """
    try:
        return Sort(name)
    except ValueError:
        raise UsageError(f"--sort: {name!r} is not a sort order; allowed: {', '.join(Sort)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers(Tabular):
    """The result of a search of the market.

    Attributes:
        offers: those that match, the best first.
        explanation: every refused offer with its reasons, if requested.
        rates: the exchange rates behind prices in USD.
        measure: the unit of work whose cost sorts them (:data:`MEASURES`); ``None`` for another order.
        forbidden: how many of them each rule of the policy forbids, by its words.
    """

    offers: Sequence[Offer]
    explanation: Explanation | None
    rates: Sequence[Rate]
    measure: str | None = None
    forbidden: Mapping[str, int] = field(default_factory=dict[str, int])

    def groups(self) -> list[list[Offer]]:
        """The offers by rows of their table: those together that differ in their zones alone."""
        groups: dict[tuple[object, ...], list[Offer]] = {}
        for offer in self.offers:
            place, price = (offer.cloud, offer.region, offer.instance_type), (offer.price_usd, offer.as_of)
            groups.setdefault((*place, offer.purchase, *price, offer.flags), []).append(offer)
        return list(groups.values())

    def table(self) -> Table:
        """The table of ``gpucloud offers``: its first rows."""
        groups = self.groups()
        return table_of(groups[:ROWS], self.measure, left_out=max(len(groups) - ROWS, 0))

    @property
    def failure(self) -> GpucloudError | None:
        """The error of :func:`search` if no offer matches; ``None`` if one does."""
        if self.offers or self.explanation is None:
            return None
        return nothing_matches(self.explanation)

    def document(self, limit: int | None = None) -> OffersDocument:
        """The fields of ``gpucloud.offers/v1``; with at most ``limit`` refused offers."""
        dates = [offer.as_of for offer in self.offers if offer.as_of]
        fields: OffersDocument = {
            "as_of": max(dates).isoformat() if dates else None,
            "offers": [offer.document() for offer in self.offers],
            "rates": [rate.document() for rate in self.rates],
            "policy": [{"rule": rule, "offers": count} for rule, count in self.forbidden.items()],
        }
        if self.explanation:
            fields["turned_down"] = [_refusal(refusal) for refusal in self.explanation.refused[:limit]]
            fields["turned_down_by"] = self.explanation.counts
            fields["other_counts"] = {
                gpu: [number(count) for count in counts]
                for gpu, counts in self.explanation.other_counts.items()
            }
            fields["relax"] = [
                {"rule": relaxation.rule, "offers": relaxation.offers, "best": relaxation.best.document()}
                for relaxation in self.explanation.relaxations
            ]
        return fields


def table_of(groups: Sequence[Sequence[Offer]], measure: str | None, *, left_out: int = 0) -> Table:
    """The table of groups of offers that differ in their zones alone."""
    heads = [group[0] for group in groups]
    varied = {offer.purchase for offer in heads} != {Purchase.ON_DEMAND}
    columns: dict[str, Sequence[object]] = {
        "PER HOUR": cells.price_cells([o.price_usd for o in heads]),
        "BILLED AS": [cells.own_price_text(o) for o in heads],
        "PER GPU": [cells.usd_text(o.price_usd and o.price_usd / o.gpu_count) for o in heads],
        **_unit_column(heads, measure),
        "GPU": [cells.gpu_text(o) for o in heads],
        "CLOUD": [o.cloud for o in heads],
        "REGION": [o.region for o in heads],
        "ZONES": [cells.zones_text(o.zone for o in group) for group in groups],
        "TYPE": [o.instance_type for o in heads],
        "VCPUS": [o.vcpus for o in heads],
        "GIB": [f"{o.memory_gib.normalize():f}" for o in heads],
        "GPU LINK": [o.interconnect for o in heads],
        "PAID AS": [cells.paid_cell(o.purchase, o.terms) if varied else None for o in heads],
        "MONTHLY BAND": [cells.monthly_band_text(o) for o in heads],
        "AS OF": [o.as_of for o in heads],
        "FLAGS": [cells.flags_cell(o) for o in heads],
    }
    right = ("PER HOUR", "BILLED AS", *cells.UNIT_HEADINGS, "VCPUS", "GIB")
    optional = ("MONTHLY BAND", "GPU LINK", "GIB", "VCPUS", "PER GPU", "AS OF", "ZONES", "GPU")
    return Table(columns, right=right, optional=optional, left_out=left_out)


def _unit_column(heads: Sequence[Offer], measure: str | None) -> dict[str, Sequence[object]]:
    """The cost of a unit of work, if offers are sorted by it and no other column shows it."""
    from gpucloud_pricing.work import price_for

    if measure is None or measure == "gpu":
        return {}
    prices = [price_for(offer, measure) for offer in heads]
    return {cells.unit_heading(measure): [cells.usd_text(price) for price in prices]}


def search(
    market: Market,
    demand: Demand,
    today: date,
    *,
    sort: Sort = Sort.PRICE,
    limit: int | None = None,
    why: bool = False,
) -> Offers:
    """The offers that match a demand.

    Args:
        market: the offers.
        demand: the demand.
        today: the date for the age of prices and for retired types.
        sort: the sort order.
        limit: the maximum number of offers.
        why: check every offer of the market against every rule; no match is then no error.

    Raises:
        PriceError: the matching offers cost more than the limit.
        NoOfferError: no offer matches.
    """
    found = market.search(demand, today, limit if sort is Sort.PRICE else None)
    explanation = market.explain(demand, today) if why or not found else None
    if not found and explanation and not why:
        raise nothing_matches(explanation)
    if measure := MEASURES.get(sort):
        found.sort(key=lambda offer: work_order(offer, measure))
    elif sort is not Sort.PRICE:
        found.sort(key=_ORDERS[sort])
    offers = found[:limit]
    return Offers(
        offers=offers, explanation=explanation, rates=market.rates_of(offers), measure=MEASURES.get(sort)
    )


def nothing_matches(explanation: Explanation) -> GpucloudError:
    """The error if no offer matches: the price limit alone, or other demands, and which to relax."""
    only_price = next((r for r in explanation.relaxations if r.rule == "max_price"), None)
    if only_price:
        return PriceError(
            f"every matching offer costs more than the limit; the cheapest is {offer_text(only_price.best)}",
            hint="raise --max-price",
        )
    counts = [counts_text(gpu, counts) for gpu, counts in explanation.other_counts.items()]
    hints = [
        *(
            counts_hint(gpu, explanation.asked_counts[gpu], has)
            for gpu, has in explanation.other_counts.items()
        ),
        *(relaxation_text(relaxation) for relaxation in explanation.relaxations[:3]),
    ]
    return NoOfferError(
        ": ".join(filter(None, ("no offer matches", "; ".join(counts)))),
        hint="; ".join(filter(None, hints)) or "see all reasons with --why",
    )


def counts_text(gpu: str, counts: Sequence[Decimal]) -> str:
    """The counts that a GPU comes in: ``H100 comes as 1, 2, 8``."""
    return f"{gpu} comes as {', '.join(map(format_count, counts))}" if counts else f"no type has {gpu}"


def counts_hint(gpu: str, asked: Decimal, counts: Sequence[Decimal]) -> str:
    """How to have more GPUs than a machine has, or a share of one; empty if there is no such way.

    Args:
        gpu: the GPU, as a demand names one of it.
        asked: the count that was requested.
        counts: those that it comes in.
    """
    most = max(counts, default=Decimal(1))
    if asked > most and asked % most == 0:
        each = "" if most == 1 else f":{format_count(most)}"
        return f"on several machines: --nodes {asked // most} --gpu {gpu}{each}"
    [wanted] = parse_requirements(gpu)
    if asked >= 1 or wanted.model is None:
        return ""
    slices = [
        (per_card, profile)
        for size, table in BY_NAME[wanted.model].mig.items()
        for profile, per_card in table.items()
        if wanted.max_memory_gib in {None, Decimal(size)} and asked * per_card <= 1
    ]
    return f"a slice, for the price of all of it: --gpu {gpu}/{max(slices)[1]}" if slices else ""


def work_order(offer: Offer, measure: str) -> tuple[bool, int, Decimal]:
    """The cost of an hour of work, as a sort key: unknown ones last, flagged ones before them."""
    from gpucloud_pricing.work import price_for

    price = price_for(offer, measure)
    return price is None, caution(offer.flags), price or Decimal(0)


def relaxation_text(relaxation: Relaxation) -> str:
    """The offers that would match with one demand changed, in one line."""
    change = _RELAXED.get(relaxation.rule, f"without {flag_of(relaxation.rule)}")
    return f"{change}: {relaxation.offers} more, the best {offer_text(relaxation.best)}"


def rule_text(rule: str) -> str:
    """A rule in the user's terms: its flag, or what it looks at."""
    return _REFUSED_BY.get(rule, flag_of(rule))


def offer_text(offer: Offer, zones: str | None = None) -> str:
    """An offer in one line; with the zones of several that differ in nothing else, if they are given."""
    where = " ".join(part for part in (offer.cloud, offer.region, zones or offer.zone) if part)
    price = "unknown" if offer.price_usd is None else format_money(offer.price_usd)
    return f"{price}/h {where} {offer.instance_type} {paid_text(offer)}"


def _refusal(refusal: Refusal) -> RefusalDocument:
    reasons: list[ReasonDocument] = [{"rule": reason.rule, "text": reason.text} for reason in refusal.reasons]
    return {"offer": refusal.offer.document(), "reasons": reasons}

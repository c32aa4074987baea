"""What ``gpucloud cost`` answers to programs and pull requests: JSON, CSV, Markdown."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud_pricing import Market, Offer
from gpucloud_pricing.demand import HOURS_PER_MONTH, OWNED
from gpucloud_pricing.estimate import PARTS, Estimate, Place, Usage, hourly, place_of, usage_document
from gpucloud_pricing.figures import Figure, Row, figures
from gpucloud_pricing.payment import Layer, Share, Stretch, Way, cheapest_by_hours, cheapest_mix, way_of
from gpucloud_pricing.values import usd_document

PERIODS = {"hour": Decimal(1), "day": Decimal(24), "month": HOURS_PER_MONTH}
CSV_AMOUNTS = (*PARTS, "total", "low_total", "expected_total", "high_total")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was asked, and what it costs in each way.

    Attributes:
        market: where prices are from.
        usage: what for; ``assumed`` where no hours were named.
        estimates: what is expected to cost least first.
        layers: which boxes run for how long in a month; empty where nothing was said of that.
        credit: what each cloud owes, in USD.
        measure: what work is measured in, where that was asked for; see :mod:`gpucloud_pricing.work`.
    """

    market: Market
    usage: Usage
    assumed: bool
    estimates: Sequence[Estimate]
    layers: Sequence[Layer]
    credit: Mapping[str, Decimal]
    measure: str | None = None

    def by_work(self) -> Comparison:
        """The same, what work costs least first."""

        def key(estimate: Estimate) -> tuple[bool, bool, Decimal]:
            cost = self.unit_cost(estimate)
            return cost is None, bool(estimate.offer.flags), cost or Decimal(0)

        return replace(self, estimates=sorted(self.estimates, key=key))

    def unit_cost(self, estimate: Estimate) -> Decimal | None:
        """What an hour of work is expected to cost per unit of the measure, in USD; ``None`` if unknown."""
        from gpucloud_pricing.work import amount_of

        amount = None if self.measure is None else amount_of(estimate.offer.kind, self.measure)
        if self.assumed:  # nobody said for how long: what runs is paid for, and no whole term
            hour, _ = hourly(self.market, estimate.offer, self.usage)
        else:
            total = estimate.expected_total if estimate.expected_total is not None else estimate.total
            hour = None if total is None else total / self.usage.hours
        return None if hour is None or amount is None else hour / (self.usage.nodes * amount)

    def figures(self, estimate: Estimate) -> list[Figure]:
        """What was computed for one way of paying, and how: also what goes by the asker's own conditions."""
        found = figures(self.market, estimate, self.usage)
        left = self.after_credit(estimate)
        if left is not None:
            from gpucloud.market.discounts import SOURCE

            owed = self.credit[estimate.offer.cloud]
            row = Row(what="credits", amount=owed, currency="USD", as_of=None, source=SOURCE)
            formula = "what credits leave of expected_total"
            found.append(Figure(part="after_credit", amount=left, formula=formula, rows=(row,)))
        return [*found, *self._unit_cost_figure(estimate)]

    def _unit_cost_figure(self, estimate: Estimate) -> Iterator[Figure]:
        from gpucloud_pricing.work import UNITS, amount_of, source_of

        cost, kind, usage = self.unit_cost(estimate), estimate.offer.kind, self.usage
        if self.measure is None or cost is None:
            return
        amount, unit = amount_of(kind, self.measure) or Decimal(0), UNITS[self.measure]
        row = Row(
            what=f"{kind.name}, {self.measure}",
            amount=amount,
            currency=unit,
            as_of=None,
            source=source_of(kind.gpu_model, self.measure) or "no source that can be relied on",
        )
        hour = "an hour of running" if self.assumed else f"expected_total / {usage.hours:f} h"
        formula = f"{hour} / ({usage.nodes} x {amount.normalize():f} {unit})"
        yield Figure(part="unit_cost", amount=cost, formula=formula, rows=(row,), unit="USD/h")

    def after_credit(self, estimate: Estimate) -> Decimal | None:
        """What is left to pay of an expected total, where its cloud owes something; else ``None``."""
        owed = self.credit.get(estimate.offer.cloud)
        total = estimate.expected_total
        return None if owed is None or total is None else max(total - owed, Decimal(0))

    @property
    def offers(self) -> list[Offer]:
        """What is compared."""
        return [estimate.offer for estimate in self.estimates]

    @property
    def best(self) -> Estimate | None:
        """What is expected to cost least of what can be launched; ``None`` where no such cost is known."""
        return min(self.launchable, key=lambda each: each.expected_total or Decimal(0), default=None)

    @property
    def launchable(self) -> list[Estimate]:
        """What can be launched, is not doubtful, and has a known expected cost."""
        return [
            each
            for each in self.estimates
            if not each.offer.to_buy and not each.offer.flags and each.expected_total is not None
        ]

    def lasting(self) -> list[list[Way]]:
        """The ways to pay for what may run all the time, in each place that has several.

        Spot is none, and what is paid for already is no choice any more.
        """
        places: dict[Place, list[Way]] = {}
        for offer in self.offers:
            way = way_of(offer)
            if way is not None and offer.purchase not in {"spot", OWNED} and not offer.flags:
                places.setdefault(place_of(offer), []).append(way)
        return [found for found in places.values() if len(found) > 1]

    def mixes(self) -> list[list[Share]]:
        """The cheapest mix in each place, the cheapest place first."""
        mixes = [cheapest_mix(found, self.layers) for found in self.lasting()] if self.layers else []
        return sorted(mixes, key=month_of)


def usage_text(usage: Usage) -> str:
    """What is counted besides the work."""
    times = usage.failed_attempts
    failed = f", {times} failed attempt{'s' if times > 1 else ''}" if times else ""
    snapshots = f", {usage.snapshot_gib} GiB of snapshots" if usage.snapshot_gib else ""
    return (
        f"{usage.nodes} × {usage.disk_gib} GiB disk and a public address{snapshots}; "
        f"{usage.boot_s // 60} min of boot{failed}, {usage.idle_s // 60} min idle at the end."
    )


def figure_text(figure: Figure) -> str:
    """What was computed, for people."""
    if figure.amount is not None and figure.unit == "h":
        return f"{figure.amount:.0f} h"
    return shown.total_text(figure.amount) if figure.unit == "USD" else shown.usd_text(figure.amount)


def month_of(shares: Sequence[Share]) -> Decimal:
    """What a mix costs in a month."""
    return sum((share.cost for share in shares), Decimal(0))


def difference(comparison: Comparison, before: Comparison) -> tuple[Decimal, Decimal, Decimal] | None:
    """What the best way cost before, what it costs now, and the difference; ``None`` if one is not known."""
    was, now = (None if each.best is None else each.best.expected_total for each in (before, comparison))
    return None if was is None or now is None else (was, now, now - was)


def write_json(app: App, comparison: Comparison, before: Comparison | None, *, explain: bool) -> None:
    """The contract's document."""
    from gpucloud_pricing.work import source_of

    market, usage = comparison.market, comparison.usage
    options = [estimate.document() for estimate in comparison.estimates]
    for option, estimate in zip(options, comparison.estimates, strict=True):
        if usage.nodes > 1 and estimate.expected_total is not None:
            option["expected_per_node"] = usd_document(round(estimate.expected_total / usage.nodes, 4))
        if comparison.credit:
            left = comparison.after_credit(estimate)
            option["after_credit"] = None if left is None else usd_document(round(left, 4))
        if comparison.measure is not None:
            unit_cost = comparison.unit_cost(estimate)
            option["unit_cost"] = {
                "measure": comparison.measure,
                "usd_per_hour": None if unit_cost is None else usd_document(unit_cost),
                "source": source_of(estimate.offer.gpu_model, comparison.measure),
            }
        if comparison.assumed:
            option["running"] = _running(market, estimate.offer, usage)
        if explain:
            option["figures"] = [figure.document() for figure in comparison.figures(estimate)]
    app.output.document(
        "cost",
        {
            "usage": {**usage_document(usage), "hours_assumed": comparison.assumed},
            "options": options,
            "cheapest_by_hours": [
                {
                    **_place_document(found[0].offer),
                    "stretches": [_stretch_document(stretch) for stretch in cheapest_by_hours(found)],
                }
                for found in comparison.lasting()
            ],
            "mixes": [
                {
                    **_place_document(shares[0].way.offer),
                    "month": usd_document(round(month_of(shares), 2)),
                    "shares": [_share_document(share) for share in shares],
                }
                for shares in comparison.mixes()
            ],
            "against": before and _against_document(comparison, before),
            "rates": shown.rates_document(shown.rates_of(market, comparison.offers)),
        },
    )


def _against_document(comparison: Comparison, before: Comparison) -> dict[str, Any]:
    told = difference(comparison, before)
    names = ("before", "after", "difference")
    amounts = told or (None, None, None)
    return {
        **{
            name: None if amount is None else usd_document(round(amount, 4))
            for name, amount in zip(names, amounts, strict=True)
        },
        "best_before": before.best and before.best.document(),
        "best_after": comparison.best and comparison.best.document(),
    }


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
    told = before and difference(comparison, before)
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
            shown.paid_text(offer) + (" (to buy)" if offer.to_buy else ""),
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


def _place_document(offer: Offer) -> dict[str, str]:
    return {"cloud": offer.cloud, "region": offer.region, "instance_type": offer.instance_type}


def _way_document(way: Way) -> dict[str, Any]:
    return {"purchase": way.offer.purchase, "terms": way.offer.terms or None}


def _stretch_document(stretch: Stretch) -> dict[str, Any]:
    return {
        "from_hours": float(round(stretch.start, 1)),
        "to_hours": float(round(stretch.end, 1)),
        **_way_document(stretch.way),
    }


def _share_document(share: Share) -> dict[str, Any]:
    return {
        "machines": share.layer.machines,
        "hours_per_month": float(round(share.layer.hours, 1)),
        **_way_document(share.way),
        "month": usd_document(round(share.cost, 2)),
    }


def _running(market: Market, offer: Offer, usage: Usage) -> dict[str, Any]:
    """What a running box costs per hour, day and month, without boot and egress."""
    per_hour, _ = hourly(market, offer, usage)
    return {
        name: None if per_hour is None else {"amount": f"{round(per_hour * period, 4):f}", "currency": "USD"}
        for name, period in PERIODS.items()
    }

"""``gpucloud spend``: what boxes have cost, those that are gone too."""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucloud.cli.context import App
from gpucloud.cli.logs import SINCE, read_since
from gpucloud.cli.market import show_table
from gpucloud.cli.options import RunId
from gpucloud.cli.output import duration_text, money, money_text, time_text, utc_now
from gpucloud.costs.spend import Charge, charges, first_of_month, first_of_next_month
from gpucloud.errors import UsageError
from gpucloud_pricing.billing import billing_of

if TYPE_CHECKING:
    from gpucloud.journal.store import Box

PARTS = ("compute", "disk", "address")
_SERVICES = {
    "compute": ("Compute", "Virtual Machines", "Virtual Machine"),
    "disk": ("Storage", "Block Storage", "Disk"),
    "address": ("Networking", "Public Addresses", "Public Address"),
}
"""Service category, service and type of resource of each part, in FOCUS."""
_PRICING = {"on_demand": "Standard", "spot": "Dynamic", "reserved": "Committed"}
"""FOCUS's pricing category of each way of paying."""


def spend(
    app: App,
    since: Annotated[
        str | None, typer.Option("--since", help=f"Only from then on: {SINCE}.", metavar="TIME")
    ] = None,
    run_id: RunId = None,
    focus: Annotated[
        bool, typer.Option("--focus", help="Answer in the FOCUS format 1.2, comma-separated values.")
    ] = False,
) -> None:
    """Show what boxes have cost, those that are gone too, at the prices of their launch.

    It is computed from the journal, and no cloud's invoice: neither discounts nor traffic are in it.
    """
    if focus and app.output.json:
        raise UsageError("--focus and --json contradict each other")
    moment = utc_now()
    first = None if since is None else read_since(since, moment)
    boxes = [
        box
        for box in app.client.journal.boxes(owner=app.client.owner, over=True)
        if run_id is None or box.run_id == run_id
    ]
    spent = [(box, list(charges(box, first, moment))) for box in boxes]
    spent = [(box, found) for box, found in spent if found]
    if focus:
        _write_focus(found for _, charged in spent for found in charged)
        return
    if app.output.json:
        app.output.document(
            "spend",
            {
                "since": first and time_text(first),
                "boxes": [_document(box, found) for box, found in spent],
                "totals": [money(amount, name) for name, amount in sorted(_totals(spent).items())],
            },
        )
        return
    if not spent:
        app.output.say("No box has cost anything yet.")
        return
    _show(app, spent)


def _totals(spent: Iterable[tuple[Box, Sequence[Charge]]]) -> dict[str, Decimal]:
    """The known amounts, by currency."""
    totals: dict[str, Decimal] = defaultdict(Decimal)
    for _, found in spent:
        for charge in found:
            totals[charge.currency] += charge.amount or Decimal(0)
    return {currency: round(amount, 4) for currency, amount in totals.items()}


def _document(box: Box, found: Sequence[Charge]) -> dict[str, Any]:
    return {
        "name": box.name,
        "id": box.id,
        "run_id": box.run_id,
        "state": str(box.state),
        "cloud": box.facts.get("cloud"),
        "region": box.facts.get("region"),
        "instance_type": box.facts.get("instance_type"),
        "purchase": box.facts.get("purchase"),
        "charges": [
            {
                "part": charge.part,
                "from": time_text(charge.start),
                "to": time_text(charge.end),
                "quantity": float(round(charge.quantity, 6)),
                "unit": charge.unit,
                "unit_price": money(charge.unit_price, charge.currency),
                "amount": money(charge.amount and round(charge.amount, 6), charge.currency),
                "as_of": charge.as_of,
                "source": charge.source,
            }
            for charge in found
        ],
    }


def _show(app: App, spent: Sequence[tuple[Box, Sequence[Charge]]]) -> None:
    rows: list[tuple[object, ...]] = []
    for box, found in spent:
        where = " ".join(filter(None, (box.facts.get("cloud"), box.facts.get("region"))))
        parts = [_part_text(found, part) for part in PARTS]
        times = (time_text(found[0].start), duration_text(found[-1].end - found[0].start))
        paid = str(box.facts.get("purchase") or "?").replace("_", "-")
        rows.append((box.name, *times, where, box.facts.get("instance_type"), paid, *parts))
    names = ("BOX", "FROM", "FOR", "WHERE", "TYPE", "PAID AS", *(part.upper() for part in PARTS))
    columns: dict[str, Sequence[object]] = dict(zip(names, zip(*rows, strict=True), strict=True))
    show_table(app.output, columns, right=("FOR", *names[-3:]), optional=("PAID AS", "TYPE", "FROM"))
    sums = " and ".join(
        money_text(amount, currency) for currency, amount in sorted(_totals(spent).items()) if amount
    )
    app.output.say(
        f"In all: {sums or 'nothing'}, at the prices of the launch; discounts and traffic are not in it."
    )
    if any(charge.amount is None for _, found in spent for charge in found):
        app.output.say("?: no price is known; it is left out of the sum.")


def _part_text(found: Sequence[Charge], part: str) -> str:
    """What one part has cost in all months; ``?`` where that is not known."""
    of_part = [charge for charge in found if charge.part == part]
    amounts = [charge.amount for charge in of_part]
    if None in amounts:
        return "?"
    return money_text(sum(filter(None, amounts), Decimal(0)), of_part[0].currency)


def _write_focus(found: Iterable[Charge]) -> None:
    """A row for each charge whose price is known."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_FOCUS)
    for charge in found:
        if charge.amount is not None:
            writer.writerow([value(charge) for value in _FOCUS.values()])


def _tags(charge: Charge) -> str:
    run = {"gpucloud:run": charge.box.run_id} if charge.box.run_id else {}
    return json.dumps({"gpucloud:box": charge.box.id, **run})


def _pricing(charge: Charge) -> str:
    paid = str(charge.box.facts.get("purchase"))
    return _PRICING.get(paid, "Standard") if charge.part == "compute" else "Standard"


def _digits(amount: Decimal | None) -> str:
    return f"{round(amount or Decimal(0), 6):f}"


def _cost(charge: Charge) -> str:
    return _digits(charge.amount)


def _unit_price(charge: Charge) -> str:
    return f"{charge.unit_price or Decimal(0):f}"


def _fact(name: str) -> Callable[[Charge], object]:
    return lambda charge: charge.box.facts.get(name)


def _vendor(charge: Charge) -> str:
    cloud = str(charge.box.facts.get("cloud"))
    return billing_of(cloud).vendor or cloud


_FOCUS: dict[str, Callable[[Charge], object]] = {
    "AvailabilityZone": _fact("zone"),
    "BilledCost": _cost,
    "BillingAccountId": _fact("account"),
    "BillingAccountName": lambda _: None,
    "BillingCurrency": lambda charge: charge.currency,
    "BillingPeriodEnd": lambda charge: time_text(first_of_next_month(charge.start)),
    "BillingPeriodStart": lambda charge: time_text(first_of_month(charge.start)),
    "ChargeCategory": lambda _: "Usage",
    "ChargeClass": lambda _: None,
    "ChargeDescription": lambda charge: f"{charge.part} of {charge.box.name}",
    "ChargeFrequency": lambda _: "Usage-Based",
    "ChargePeriodEnd": lambda charge: time_text(charge.end),
    "ChargePeriodStart": lambda charge: time_text(charge.start),
    "ConsumedQuantity": lambda charge: _digits(charge.quantity),
    "ConsumedUnit": lambda charge: charge.unit,
    "ContractedCost": _cost,
    "ContractedUnitPrice": _unit_price,
    "EffectiveCost": _cost,
    "InvoiceIssuerName": _vendor,
    "ListCost": _cost,
    "ListUnitPrice": _unit_price,
    "PricingCategory": _pricing,
    "PricingQuantity": lambda charge: _digits(charge.quantity),
    "PricingUnit": lambda charge: charge.unit,
    "ProviderName": _vendor,
    "PublisherName": _vendor,
    "RegionId": _fact("region"),
    "RegionName": _fact("region"),
    "ResourceId": lambda charge: charge.box.id,
    "ResourceName": lambda charge: charge.box.name,
    "ResourceType": lambda charge: _SERVICES[charge.part][2],
    "ServiceCategory": lambda charge: _SERVICES[charge.part][0],
    "ServiceName": lambda charge: _SERVICES[charge.part][1],
    "SkuId": lambda charge: (
        charge.box.facts.get("instance_type") if charge.part == "compute" else charge.part
    ),
    "Tags": _tags,
    "x_PriceAsOf": lambda charge: charge.as_of,
    "x_PriceSource": lambda charge: charge.source,
}
"""The columns of FOCUS 1.2 (focus.finops.org): the mandatory ones, and what is known of the others."""

"""Charges in the format of FOCUS 1.2 (focus.finops.org), which FinOps tools read.

The rows have every mandatory, conditional and recommended column of the data set; the columns whose names
start with ``x_`` are gpucloud's own. The journal knows prices and hours, not invoices: what an invoice adds
(its number, names of accounts, negotiated prices, commitment discounts) is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from gpucloud.costs.billed_resources import BilledResources
from gpucloud.costs.periods import Granularity, periods
from gpucloud.costs.spend import BillingOf, Charge, charges, first_of_month, first_of_next_month
from gpucloud.journal.facts import Usage, hours_of
from gpucloud.resources import TAG_PREFIX, rfc3339
from gpucloud_pricing.purchases import Purchase, PurchaseKind

if TYPE_CHECKING:
    from gpucloud.journal.records import Holding

Row = Mapping[str, str | None]
RegionName = Callable[[str, str], str]
"""Gives a region's name for people, by cloud and region."""

QUANTITY_PLACES = 10
"""The decimal places of quantities: an error of 1e-10 h is below 1e-7 of any currency in a million rows."""
_JUST_UNDER_A_SECOND = timedelta(microseconds=999_999)


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusService:
    """The words of FOCUS for one part of a box. ``sku`` stands for the part where it has no type."""

    category: str
    subcategory: str
    name: str
    resource_type: str
    meter: str
    sku: str


SERVICES = {
    "compute": FocusService(
        category="Compute",
        subcategory="Virtual Machines",
        name="Virtual Machines",
        resource_type="Virtual Machine",
        meter="Compute Usage",
        sku="virtual-machine",
    ),
    "disk": FocusService(
        category="Storage",
        subcategory="Block Storage",
        name="Block Storage",
        resource_type="Disk",
        meter="Block Volume Usage",
        sku="disk",
    ),
    "snapshot": FocusService(
        category="Storage",
        subcategory="Backup Storage",
        name="Snapshots",
        resource_type="Snapshot",
        meter="Snapshot Usage",
        sku="snapshot",
    ),
    "address": FocusService(
        category="Networking",
        subcategory="Network Infrastructure",
        name="Public Addresses",
        resource_type="Public Address",
        meter="Public Address Usage",
        sku="public-address",
    ),
}
"""By part of a box. Categories are allowed values of FOCUS 1.2, ServiceCategory and ServiceSubcategory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCharge:
    """The charge for one resource within one charge period.

    Attributes:
        charge: the charge; its holding has the usage of one machine alone.
        resource: the cloud's own id of the machine, disk or address.
        region_name: the region's name for people.
        account_type: the cloud's word for what its bill is for.
    """

    charge: Charge
    resource: str
    region_name: str | None
    account_type: str

    @property
    def quantity(self) -> Decimal:
        """The quantity as the row shows it, so that prices times quantities are exactly the costs."""
        return round(self.charge.quantity, QUANTITY_PLACES)

    @property
    def unit_price(self) -> Decimal:
        """The price per unit; zero if it is unknown, because FOCUS allows no null in the row of a usage."""
        return self.charge.unit_price or Decimal(0)

    @property
    def cost(self) -> Decimal:
        """The cost at the price of the launch; zero if it is unknown."""
        return self.unit_price * self.quantity


def rows(found: Iterable[ResourceCharge]) -> Iterator[Row]:
    """The row of each charge: the text of every column of :data:`COLUMNS`, ``None`` for null."""
    for each in found:
        yield {name: value(each) for name, value in COLUMNS.items()}


def resource_charges(
    holdings: Iterable[Holding],
    resources: BilledResources,
    *,
    since: datetime | None,
    now: datetime,
    granularity: Granularity,
    billing_of: BillingOf,
    region_name: RegionName,
) -> Iterator[ResourceCharge]:
    """The charges of holdings, one for each resource and charge period, one by one, by time.

    Args:
        holdings: boxes, volumes and snapshots.
        resources: every resource that they ever had.
        since: the start; earlier charges are left out.
        now: the end of the charges of those that live.
        granularity: the longest charge period.
        billing_of: how a cloud bills.
        region_name: the names of regions for people.
    """
    split = partial(periods, granularity=granularity)
    for holding in holdings:
        found = [
            (machine, charge)
            for machine, usage in _by_machine(holding).items()
            for charge in charges(replace(holding, usage=usage), since, now, billing_of, split)
            if _is_used(charge)
        ]
        for machine, charge in sorted(found, key=lambda each: each[1].start):
            place = holding.place
            yield ResourceCharge(
                charge=charge,
                resource=resources.id_of(holding.id, machine, charge.part),
                region_name=region_name(place.cloud, place.region) if place else None,
                account_type=billing_of(holding.cloud).account_type,
            )


def _by_machine(holding: Holding) -> dict[str, tuple[Usage, ...]]:
    machines = dict.fromkeys(usage.resource for usage in holding.usage)
    return {each: tuple(usage for usage in holding.usage if usage.resource == each) for each in machines}


def _is_used(charge: Charge) -> bool:
    """Whether the part was there within the period: compute that was stopped for a day has no row for it."""
    return any(
        usage.part == charge.part and hours_of(usage, charge.end, charge.start)
        for usage in charge.holding.usage
    )


# --- the values of columns


def _digits(amount: Decimal) -> str:
    return f"{amount.normalize():f}"


def _cost(each: ResourceCharge) -> str:
    return _digits(each.cost)


def _billed_cost(each: ResourceCharge) -> str:
    return "0" if each.charge.paid_before else _cost(each)


def _unit_price(each: ResourceCharge) -> str:
    return _digits(each.unit_price)


def _quantity(each: ResourceCharge) -> str:
    return _digits(each.quantity)


def _unit(each: ResourceCharge) -> str:
    return each.charge.unit


def _currency(each: ResourceCharge) -> str:
    return each.charge.currency


def _vendor(each: ResourceCharge) -> str:
    return each.charge.vendor


def _account(each: ResourceCharge) -> str | None:
    place = each.charge.holding.place
    return (place.account or None) if place else None


def _zone(each: ResourceCharge) -> str | None:
    place = each.charge.holding.place
    return place.zone if place else None


def _region(each: ResourceCharge) -> str | None:
    place = each.charge.holding.place
    return place.region if place else None


def _description(each: ResourceCharge) -> str:
    unknown = each.charge.unknown
    note = f"; cost unknown: {unknown}" if unknown else ""
    if each.charge.is_at_most:
        note += "; at most: the time of the end is not known"
    return f"{each.charge.part} of {each.charge.holding.name}{note}"


def _pricing(each: ResourceCharge) -> str:
    """Spot prices change at any time; what is held or bought on demand has the agreed price."""
    return "Dynamic" if _paid_as(each).price_moves else "Standard"


def _sku(each: ResourceCharge) -> str:
    offer = each.charge.offer
    return offer.instance_type if offer and each.charge.part == "compute" else _service(each).sku


def _sku_price(each: ResourceCharge) -> str:
    """The price's place in gpucloud's market: cloud, region, zone for spot, SKU, way of paying."""
    place, kind = each.charge.holding.place, _paid_as(each)
    where = (place.cloud, place.region, place.zone if kind.price_moves else None) if place else ()
    return "/".join(word for word in (*where, _sku(each), kind.listed_as) if word)


def _paid_as(each: ResourceCharge) -> PurchaseKind:
    """How a part is paid for: only machines are bought otherwise than on demand."""
    offer = each.charge.offer
    purchase = offer.purchase if offer and each.charge.part == "compute" else Purchase.ON_DEMAND
    return purchase.kind


def _sku_details(each: ResourceCharge) -> str | None:
    offer = each.charge.offer
    if each.charge.part != "compute" or offer is None:
        return None
    gpu = offer.gpu
    details: dict[str, object] = {"InstanceType": offer.instance_type}
    if gpu is not None:
        count = int(gpu.count) if gpu.count == int(gpu.count) else float(gpu.count)
        details |= {"GpuCount": count, "x_GpuModel": gpu.model}
    return json.dumps(details)


def _service(each: ResourceCharge) -> FocusService:
    return SERVICES[each.charge.part]


def _tags(each: ResourceCharge) -> str:
    """The user's tags, and those of gpucloud's that never change: the end of a box may be moved."""
    holding, box = each.charge.holding, each.charge.box
    run, tags = (box.run_id or "", box.wanted.tags) if box else ("", {})
    own = {"owner": holding.owner, "box": holding.id, "op": holding.op, "run": run}
    return json.dumps({**tags, **{f"{TAG_PREFIX}{name}": value for name, value in own.items()}})


def _reservation(each: ResourceCharge) -> str | None:
    offer = each.charge.offer
    return offer.reservation if offer and each.charge.part == "compute" else None


def _null(_: ResourceCharge) -> None:
    return None


COLUMNS: dict[str, Callable[[ResourceCharge], str | None]] = {
    "AvailabilityZone": _zone,
    "BilledCost": _billed_cost,
    "BillingAccountId": _account,
    "BillingAccountName": _null,
    "BillingAccountType": lambda each: each.account_type if _account(each) else None,
    "BillingCurrency": _currency,
    "BillingPeriodEnd": lambda each: rfc3339(first_of_next_month(each.charge.start)),
    "BillingPeriodStart": lambda each: rfc3339(first_of_month(each.charge.start)),
    "CapacityReservationId": _reservation,
    "CapacityReservationStatus": lambda each: "Used" if _reservation(each) else None,
    "ChargeCategory": lambda _: "Usage",
    "ChargeClass": _null,
    "ChargeDescription": _description,
    "ChargeFrequency": lambda _: "Usage-Based",
    "ChargePeriodEnd": lambda each: rfc3339(each.charge.end + _JUST_UNDER_A_SECOND),
    "ChargePeriodStart": lambda each: rfc3339(each.charge.start),
    "CommitmentDiscountCategory": _null,
    "CommitmentDiscountId": _null,
    "CommitmentDiscountName": _null,
    "CommitmentDiscountQuantity": _null,
    "CommitmentDiscountStatus": _null,
    "CommitmentDiscountType": _null,
    "CommitmentDiscountUnit": _null,
    "ConsumedQuantity": _quantity,
    "ConsumedUnit": _unit,
    "ContractedCost": _cost,
    "ContractedUnitPrice": _unit_price,
    "EffectiveCost": _cost,
    "InvoiceId": _null,
    "InvoiceIssuerName": _vendor,
    "ListCost": _cost,
    "ListUnitPrice": _unit_price,
    "PricingCategory": _pricing,
    "PricingCurrency": _currency,
    "PricingCurrencyContractedUnitPrice": _unit_price,
    "PricingCurrencyEffectiveCost": _cost,
    "PricingCurrencyListUnitPrice": _unit_price,
    "PricingQuantity": _quantity,
    "PricingUnit": _unit,
    "ProviderName": _vendor,
    "PublisherName": _vendor,
    "RegionId": _region,
    "RegionName": lambda each: each.region_name,
    "ResourceId": lambda each: each.resource,
    "ResourceName": lambda each: each.charge.holding.name,
    "ResourceType": lambda each: _service(each).resource_type,
    "ServiceCategory": lambda each: _service(each).category,
    "ServiceName": lambda each: _service(each).name,
    "ServiceSubcategory": lambda each: _service(each).subcategory,
    "SkuId": _sku,
    "SkuMeter": lambda each: _service(each).meter,
    "SkuPriceDetails": _sku_details,
    "SkuPriceId": _sku_price,
    "SubAccountId": _null,
    "SubAccountName": _null,
    "SubAccountType": _null,
    "Tags": _tags,
    "x_BoxId": lambda each: each.charge.holding.id,
    "x_PriceAsOf": lambda each: each.charge.as_of,
    "x_PriceSource": lambda each: each.charge.source,
    "x_UnknownCostReason": lambda each: each.charge.unknown,
}
"""How the text of each column comes about; ``None`` is null.

FOCUS allows no null in the costs and unit prices of a usage (BilledCost-C-003-M and ListUnitPrice-C-005-C of
its requirements model 1.2.0.1). An unknown price is therefore zero, and ``x_UnknownCostReason`` says why.
Capacity that was paid for before the launch has no billed cost; its effective cost is that of its hours.
"""

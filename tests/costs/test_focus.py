"""Rows of FOCUS 1.2: by its own rules, one per resource and period, the same money as ``spend``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.costs.billed_resources import BilledResources
from gpucloud.costs.focus import COLUMNS, resource_charges, rows
from gpucloud.costs.periods import Granularity
from gpucloud.costs.spend import charges
from gpucloud.journal.facts import BoughtOffer, Gpu, Place, Price, Usage, Wanted
from gpucloud.journal.records import Box, ResourceRow
from gpucloud.resources import Ref, ResourceKind
from gpucloud_pricing.billing import billing_of
from gpucloud_pricing.purchases import Purchase
from tests.builders import START, a_box
from tests.costs.focus_rules import Row, violations

NOW = START + timedelta(days=4, hours=3, minutes=7, microseconds=123_456)
PRICES = {
    "compute": Price(
        amount=Decimal("32.7726"), currency="USD", as_of=date(2026, 1, 5), source="AWS price list"
    ),
    "disk": Price(amount=Decimal("0.0801"), currency="USD", source="a list"),
    "address": Price(amount=Decimal("0.005"), currency="USD", source="a list"),
}


def box(
    *intervals: tuple[float, float | None],
    cloud: str = "aws",
    purchase: Purchase = Purchase.ON_DEMAND,
    prices: Mapping[str, Price | None] = PRICES,
    machines: Iterable[str] = ("i-1", "i-2"),
    **changes: Any,
) -> Box:
    """A box whose machines ran in these intervals: hours after the start."""
    usage = [
        Usage(
            box="b-1",
            resource=machine,
            part=part,
            start=START + timedelta(hours=start, microseconds=654_321),
            end=None if end is None else START + timedelta(hours=end),
            price=prices[part],
            gib=200 if part == "disk" else None,
            paid_before=part == "compute" and purchase is Purchase.RESERVED,
        )
        for machine in machines
        for start, end in intervals
        for part in ("compute", "disk", "address")
    ]
    values: dict[str, Any] = {
        "place": Place(cloud=cloud, region="us-east-1", account="123456789012", zone="use1-az1"),
        "offer": BoughtOffer(
            instance_type="p4d.24xlarge",
            purchase=purchase,
            gpu=Gpu(model="A100", count=Decimal(8)),
            reservation="cr-1" if purchase is Purchase.RESERVED else None,
        ),
        "price": prices["compute"],
        "wanted": Wanted(spec={"tags": {"team": "vision", "cost center": "7"}}),
        "usage": tuple(usage),
    }
    return a_box(**(values | changes))


def resource(kind: ResourceKind, id_: str) -> ResourceRow:
    ref = Ref(cloud="aws", account="1", region="us-east-1", kind=kind, id=id_)
    return ResourceRow(box="b-1", ref=ref, name="gpucloud-box-1", state="made", at=START)


def focus(
    *boxes: Box,
    granularity: Granularity = Granularity.DAY,
    resources: Iterable[ResourceRow] = (),
    since: datetime | None = None,
) -> list[Row]:
    found = resource_charges(
        boxes,
        BilledResources(resources),
        since=since,
        now=NOW,
        granularity=granularity,
        billing_of=billing_of,
        region_name=lambda cloud, region: f"{region} of {cloud}",
    )
    return list(rows(found))


def total(found: Iterable[Row], column: str = "BilledCost") -> Decimal:
    return sum((Decimal(row[column] or "0") for row in found), Decimal(0))


BOXES = {
    "ended": box((0, 73.5)),
    "living": box((0, None)),
    "stopped and started again": box((0, 5), (60, 80)),
    "over the end of a month": box((640, 700)),
    "spot": box((0, 10), purchase=Purchase.SPOT),
    "held capacity": box((0, 50), purchase=Purchase.RESERVED),
    "azure": box((0, 80), cloud="azure", machines=["/subscriptions/s/virtualMachines/x-0"]),
    "another cloud": box((0, 2), cloud="dummy"),
    "less than a second": box((0, 0.0002)),
    "without prices": box((0, 30), prices=dict.fromkeys(PRICES)),
    "without offer, zone and tags": box(
        (0, 30), offer=None, wanted=Wanted(spec={}), place=Place(cloud="aws", region="x", account="1")
    ),
}


@pytest.mark.parametrize("granularity", Granularity)
@pytest.mark.parametrize("name", BOXES)
def test_every_row_is_by_the_rules(name: str, granularity: Granularity) -> None:
    found = focus(BOXES[name], granularity=granularity)
    assert found
    assert violations(list(COLUMNS), found) == []


@pytest.mark.parametrize("granularity", Granularity)
def test_rows_are_the_same_money_as_the_charges(granularity: Granularity) -> None:
    for name in ("ended", "living", "stopped and started again", "over the end of a month", "azure"):
        each = BOXES[name]
        whole = sum((charge.amount or 0 for charge in charges(each, None, NOW, billing_of)), Decimal(0))
        assert abs(total(focus(each, granularity=granularity)) - whole) < Decimal("0.0001")


def test_a_row_is_one_resource_in_one_period() -> None:
    hours = focus(box((0, 73.5), machines=["i-1"]), granularity=Granularity.HOUR)
    assert len(hours) == 74 * 3, "from a whole hour on, three parts"
    days = focus(box((0, 73.5)))
    keys = {(row["ResourceId"], row["SkuId"], row["ChargePeriodStart"]) for row in days}
    assert len(keys) == len(days) == 2 * 3 * 4
    assert all((row["ChargePeriodStart"] or "").endswith("T00:00:00Z") for row in days[6:]), "days of UTC"
    assert len(focus(box((0, 5), (100, 105), machines=["i-1"]))) <= 4 * 3, "none for the days between"
    assert focus(box((0, 5)), since=START + timedelta(hours=5)) == []


def test_a_part_without_a_price_is_kept_with_the_reason() -> None:
    found = focus(box((0, 2), prices={**PRICES, "disk": None}, machines=["i-1"]))
    disk = next(row for row in found if row["ResourceType"] == "Disk")
    reason = "no disk price in aws us-east-1 was known at the launch"
    assert (disk["BilledCost"], disk["x_UnknownCostReason"]) == ("0", reason)
    assert reason in (disk["ChargeDescription"] or "")
    assert Decimal(disk["ConsumedQuantity"] or "0") > 0
    assert [row["x_UnknownCostReason"] for row in found if row is not disk] == [None, None]
    unmeasured = box((0, 2), machines=["i-1"])
    usage = tuple(part for part in unmeasured.usage if part.part == "disk")
    (row,) = focus(a_box(place=unmeasured.place, usage=(Usage(**{**_values(usage[0]), "gib": None}),)))
    assert row["x_UnknownCostReason"] == "the size of the disk is not known"


def _values(usage: Usage) -> dict[str, Any]:
    return {name: getattr(usage, name) for name in Usage.__dataclass_fields__}


def test_held_capacity_is_named_and_not_billed_again() -> None:
    found = focus(box((0, 10), purchase=Purchase.RESERVED, machines=["i-1"]))
    compute = [row for row in found if row["ResourceType"] == "Virtual Machine"]
    assert {row["CapacityReservationId"] for row in compute} == {"cr-1"}
    assert {row["CapacityReservationStatus"] for row in compute} == {"Used"}
    assert total(compute) == 0
    assert round(total(compute, "EffectiveCost"), 2) == Decimal("327.72"), "ten hours less 0.65 s"
    beside = [row for row in found if row not in compute]
    assert total(beside) > 0
    assert {row["CapacityReservationId"] for row in beside} == {None}


def test_tags_are_the_users_and_those_of_gpuclouds_that_never_change() -> None:
    row = focus(box((0, 1), run_id="r-1"))[0]
    assert json.loads(row["Tags"] or "") == {
        "team": "vision",
        "cost center": "7",
        "gpucloud:owner": "u-tester",
        "gpucloud:box": "b-1",
        "gpucloud:op": "o-1",
        "gpucloud:run": "r-1",
    }


def ids(*resources: ResourceRow, machines: Iterable[str]) -> list[str | None]:
    return [row["ResourceId"] for row in focus(box((0, 1), machines=machines), resources=resources)]


def test_each_part_has_the_clouds_own_id() -> None:
    machine, disk, nic = ResourceKind.INSTANCE, ResourceKind.DISK, ResourceKind.NIC
    made = [
        *(resource(machine, "i-1"), resource(disk, "vol-1"), resource(nic, "eni-1")),
        *(resource(machine, "i-2"), resource(disk, "vol-2"), resource(nic, "eni-2")),
    ]
    assert ids(*made, machines=["i-1", "i-2"]) == ["i-1", "vol-1", "eni-1", "i-2", "vol-2", "eni-2"]
    assert ids(*made[:-2], machines=["i-2"]) == ["i-2", "i-2", "i-2"], "which disk is whose is not known"


def test_parts_that_are_named_after_their_machine_are_told_apart_in_any_order() -> None:
    """As on Azure, where parts are made at the same time; ``vm-1`` is no part of ``vm-10``'s name."""
    machines = ["/rg/virtualMachines/vm-1", "/rg/virtualMachines/vm-10"]
    made = [
        *(resource(ResourceKind.INSTANCE, each) for each in machines),
        *(resource(ResourceKind.DISK, f"/rg/disks/vm-{each}-disk") for each in (10, 1)),
        *(resource(ResourceKind.ADDRESS, f"/rg/addresses/vm-{each}-ip") for each in (10, 1)),
    ]
    assert ids(*made, machines=machines) == [
        *(machines[0], "/rg/disks/vm-1-disk", "/rg/addresses/vm-1-ip"),
        *(machines[1], "/rg/disks/vm-10-disk", "/rg/addresses/vm-10-ip"),
    ]


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("BilledCost", None, "BilledCost is null"),
        ("BilledCost", "$5", "BilledCost: '$5' is no decimal"),
        ("ListUnitPrice", "-1", "ListUnitPrice: '-1' is no price"),
        ("ListCost", "999", "ListCost is not ListUnitPrice x PricingQuantity"),
        ("ServiceSubcategory", "Block Storage", "ServiceSubcategory: 'Block Storage' is not allowed"),
        ("PricingUnit", "hour", "PricingUnit: 'hour' is no unit"),
        ("ChargePeriodEnd", "2026-01-05T12:00:00+00:00", "ChargePeriodEnd: "),
        ("BillingPeriodEnd", "2020-01-01T00:00:00Z", "the charge period is not within the billing period"),
        ("RegionName", None, "RegionName is null"),
        ("CapacityReservationStatus", "Used", "CapacityReservationStatus is not null"),
        ("Tags", '{"a": {"b": 1}}', "Tags: a value is no number, text or boolean"),
        ("ResourceId", "i-2", "a resource has two rows for one period and price"),
    ],
)
def test_the_rules_find_what_is_wrong(column: str, value: str | None, told: str) -> None:
    good = focus(box((0, 1)))
    bad = [{**good[0], column: value}, *good[1:]]
    assert any(text.startswith(told) for text in violations(list(COLUMNS), bad))


def test_the_rules_find_wrong_columns() -> None:
    names = list(COLUMNS)
    assert violations(names[1:], []) == ["AvailabilityZone is missing"]
    assert violations([*names, "BoxId"], []) == ["BoxId needs the prefix x_"]
    assert violations(["x_BoxId", *(name for name in names if name != "x_BoxId")], []) == [
        "columns of FOCUS come first"
    ]

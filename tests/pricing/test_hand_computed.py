"""Bills that were computed by hand, to the cent: a pocket calculator can check ``hand_computed.csv``."""

from __future__ import annotations

import csv
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud_pricing import Market, Rate, Tariff
from gpucloud_pricing.billing import billing_of
from gpucloud_pricing.estimate import estimate
from gpucloud_pricing.terms import Usage
from tests.builders import a_price, an_instance_type, an_offer

DAY = date(2026, 11, 1)
LINES = Path(__file__).with_name("hand_computed.csv").read_text(encoding="utf-8").splitlines()
CASES = list(csv.DictReader(line for line in LINES if not line.startswith("#")))


def tariff(cloud: str, kind: str, unit: str, amount: str) -> Tariff:
    return Tariff(
        cloud=cloud,
        region="*",
        kind=kind,
        sku="x",
        unit=unit,
        amount=Decimal(amount),
        currency="USD",
        as_of=DAY,
        source="t",
    )


@pytest.mark.parametrize(
    "case", CASES, ids=lambda c: f"{c['purchase']} {c['price']} {c['hours']}h x{c['nodes']}"
)
def test_the_bill_is_what_was_computed_by_hand(case: dict[str, str]) -> None:
    rate = Decimal(case["rate"])
    market = Market.build(
        types=[],
        offers=[],
        tariffs=[
            tariff(case["cloud"], "disk", "gib_month", case["disk_month"]),
            tariff(case["cloud"], "address", "hour", case["address_hour"]),
            tariff(case["cloud"], "egress", "gb", case["egress_price"]),
            tariff(case["cloud"], "snapshot", "gib_month", case["snapshot_month"]),
        ],
        rates=[Rate(base="USD", quote="CNY", rate=rate, as_of=DAY, source="t")],
    )
    price = a_price(
        case["price"],
        cloud=case["cloud"],
        purchase=case["purchase"],
        currency=case["currency"],
        upfront=Decimal(case["upfront"] or 0),
    )
    offer = an_offer(
        kind=an_instance_type(cloud=case["cloud"], billing=billing_of(case["cloud"])),
        purchase=case["purchase"],
        quote=price,
        price_usd=market.usd(price.amount, price.currency),
    )
    usage = Usage(
        hours=Decimal(case["hours"]),
        nodes=int(case["nodes"]),
        disk_gib=int(case["gib"]),
        egress_gib=Decimal(case["egress_gib"]),
        boot_s=int(case["boot_min"]) * 60,
        idle_s=int(case["idle_min"]) * 60,
        snapshot_gib=int(case["snapshot_gib"]),
        failed_attempts=int(case["failed"]),
    )
    bill = estimate(
        market, offer, usage, on_demand_usd=Decimal(case["on_demand"]) if case["on_demand"] else None
    )
    told = {**bill.parts, "total": bill.total}
    assert {part: f"{amount:.2f}" for part, amount in told.items() if amount is not None} == {
        part: case[part] for part in ("compute", "disk", "address", "egress", "snapshots", "total")
    }


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 100
    assert len({case["purchase"] for case in CASES}) >= 8

"""``gpucloud spend``: what boxes have cost, as the sandbox's clouds billed it."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

from tests.shell import Shell

LAUNCH = ("launch", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--yes", "--json")
MANDATORY = {  # FOCUS 1.2
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
}


def test_what_a_box_has_cost_is_told_after_it_is_gone(cli: Shell) -> None:
    """At the price of its launch, whatever it costs now."""
    launched = cli(*LAUNCH, "--name", "gone", "--run-id", "r-1").box
    cli.sandbox.price(cloud="aws", factor="3")
    assert cli("down", "gone", "--yes").code == 0
    document = cli("spend", "--json").json
    (box,) = document["boxes"]
    assert (box["name"], box["run_id"], box["state"]) == ("gone", "r-1", "deleted")
    compute = next(each for each in box["charges"] if each["part"] == "compute")
    assert compute["unit_price"] == launched["price"]
    disk = next(each for each in box["charges"] if each["part"] == "disk")
    assert disk["unit_price"]["amount"] == "0.08"
    assert disk["source"]
    product = Decimal(compute["unit_price"]["amount"]) * Decimal(str(compute["quantity"]))
    assert abs(Decimal(compute["amount"]["amount"]) - product) < Decimal("0.00001")
    total = sum((Decimal(each["amount"]["amount"]) for each in box["charges"]), Decimal(0))
    assert abs(Decimal(document["totals"][0]["amount"]) - total) < Decimal("0.0002")
    assert "gone" in cli("spend", "--run-id", "r-1").out
    assert "gone" not in cli("spend", "--run-id", "r-2").out

    rows = list(csv.DictReader(io.StringIO(cli("spend", "--focus").out)))
    assert len(rows) == len(box["charges"])
    assert set(rows[0]) >= MANDATORY
    assert {row["ProviderName"] for row in rows} == {"Amazon Web Services"}
    assert {row["ServiceCategory"] for row in rows} == {"Compute", "Storage", "Networking"}
    assert all(row["BillingPeriodStart"] <= row["ChargePeriodStart"] for row in rows)
    assert all(row["ChargePeriodEnd"] <= row["BillingPeriodEnd"] for row in rows)
    assert abs(sum(Decimal(row["BilledCost"]) for row in rows) - total) < Decimal("0.0002")


def test_nothing_spent_is_said(cli: Shell) -> None:
    told = cli("spend")
    assert (told.code, told.out) == (0, "")
    assert "No box has cost anything yet." in told.err
    assert cli("spend", "--json").json["boxes"] == []
    assert set(next(csv.reader(io.StringIO(cli("spend", "--focus").out)))) >= MANDATORY
    assert cli("spend", "--focus", "--json").code == 2

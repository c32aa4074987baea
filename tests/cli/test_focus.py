"""``gpucloud spend --focus``: what a FinOps tool reads, of boxes on all clouds, however paid and ended."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from typing import Any

from tests.costs.focus_rules import Row, violations
from tests.shell import Shell


def focus(cli: Shell, *arguments: str) -> tuple[list[str], list[Row]]:
    """The columns and the rows; an empty cell is null."""
    told = cli("spend", "--focus", *arguments)
    assert told.code == 0, told.err
    reader = csv.DictReader(io.StringIO(told.out))
    rows: list[Row] = [{name: cell or None for name, cell in row.items()} for row in reader]
    return list(reader.fieldnames or ()), rows


def total(rows: list[Row], currency: str) -> Decimal:
    of_currency = (row["BilledCost"] for row in rows if row["BillingCurrency"] == currency)
    return sum((Decimal(cost or "0") for cost in of_currency), Decimal(0))


def billed(row: Row) -> tuple[str | None, str | None]:
    return (row["ResourceType"], row["ResourceId"])


def test_boxes_of_all_clouds_are_by_the_rules_and_by_the_clouds_ids(cli: Shell) -> None:
    cli.sandbox.cloud("aws", "reserve", region="us-east-2", zone="use2-az1", instance_type="p4d.24xlarge")
    tags = ("--tag", "team=vision", "--disk", "200")
    cli.launch("--gpu", "T4", "--cloud", "azure", "--spot", "--name", "spot", *tags)
    cli.launch("--gpu", "T4", "--cloud", "alibaba", "--nodes", "2", "--name", "nodes", *tags)
    held = cli.launch("--gpu", "A100:8", "--cloud", "aws", "--reserved", "--name", "held")
    cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "gone", "--run-id", "r-1", *tags)
    aws = cli.launch("--gpu", "T4", "--cloud", "aws", "--nodes", "2", "--name", "pair", *tags)
    assert cli("down", "gone", "--yes").code == 0

    names, rows = focus(cli)
    assert violations(names, rows) == []
    kinds = {"instance": "Virtual Machine", "disk": "Disk"}
    ledger = {(kinds[kind], entry["id"]) for kind in kinds for entry in cli.billed(kind)}
    seen = {billed(row) for row in rows if row["ResourceName"] != "gone"}
    assert {pair for pair in seen if pair[0] != "Public Address"} == ledger
    azure = {entry["id"] for entry in cli.billed("address") if entry["cloud"] == "azure"}
    assert {row["ResourceId"] for row in rows if "publicIPAddresses" in (row["ResourceId"] or "")} == azure
    parts = [[billed(row)[1] for row in rows if row["x_BoxId"] == aws["id"]][at : at + 3] for at in (0, 3)]
    assert sorted(parts) == sorted(parts_at_aws(cli, aws))

    (compute,) = [row for row in rows if row["x_BoxId"] == held["id"] and row["ServiceCategory"] == "Compute"]
    assert (compute["BilledCost"], compute["CapacityReservationStatus"]) == ("0", "Used")
    assert {row["PricingCategory"] for row in rows if row["ResourceName"] == "spot"} == {
        "Dynamic",
        "Standard",
    }
    assert {json.loads(row["Tags"] or "{}").get("team") for row in rows} == {"vision", None}
    assert {row["ProviderName"] for row in rows} == {"Amazon Web Services", "Microsoft", "Alibaba Cloud"}
    free = {
        (row["ProviderName"], row["ServiceCategory"]) for row in rows if Decimal(row["ListCost"] or "0") == 0
    }
    assert free <= {("Alibaba Cloud", "Networking")}, "an address that pays by traffic has no hourly charge"
    assert not any(row["x_UnknownCostReason"] for row in rows)


def parts_at_aws(cli: Shell, box: Any) -> list[list[str]]:
    """Each instance with its volume and its interface, as the ``aws`` client lists them."""
    ids = [node["instance_id"] for node in box["nodes"]]
    seen = cli.ec2(box["region"]).describe_instances(InstanceIds=list(ids))
    return [
        [
            instance["InstanceId"],
            instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"],
            instance["NetworkInterfaces"][0]["NetworkInterfaceId"],
        ]
        for reservation in seen["Reservations"]
        for instance in reservation["Instances"]
    ]


def test_rows_are_the_same_money_as_the_other_forms(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--cloud", "azure", "--name", "spent")
    cli.launch("--gpu", "T4", "--cloud", "alibaba", "--name", "spent-too")
    assert cli("down", "--all", "--yes").code == 0
    totals = {each["currency"]: Decimal(each["amount"]) for each in cli("spend", "--json").json["totals"]}
    for granularity in ("hour", "day", "month"):
        names, rows = focus(cli, "--granularity", granularity)
        assert violations(names, rows) == []
        for currency, amount in totals.items():
            assert abs(total(rows, currency) - amount) < Decimal("0.001")
    by_charge = list(csv.DictReader(io.StringIO(cli("spend", "--csv").out)))
    for currency, amount in totals.items():
        found = [row["cost"] for row in by_charge if row["currency"] == currency]
        assert abs(sum(map(Decimal, filter(None, found))) - amount) < Decimal("0.001")
    assert all(bool(row["cost"]) != bool(row["unknown"]) for row in by_charge)


def test_nothing_spent_has_the_columns_alone(cli: Shell) -> None:
    names, rows = focus(cli)
    assert rows == []
    assert violations(names, []) == []


def test_forms_that_contradict_each_other_are_refused(cli: Shell) -> None:
    for arguments in (
        ("--focus", "--json"),
        ("--focus", "--csv"),
        ("--csv", "--json"),
        ("--focus", "--by", "cloud"),
        ("--granularity", "day"),
        ("--focus", "--granularity", "year"),
    ):
        assert cli("spend", *arguments).code == 2, arguments

"""``gpucloud spend``: what boxes have cost, as the sandbox's clouds billed it."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

from tests.shell import Shell

LAUNCH = ("launch", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--yes", "--json")


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


def test_nothing_spent_is_said(cli: Shell) -> None:
    told = cli("spend")
    assert (told.code, told.out) == (0, "")
    assert "No box has cost anything yet." in told.err
    assert cli("spend", "--json").json["boxes"] == []
    assert cli("spend", "--by", "cloud", "--json").json["groups"] == []


def test_costs_are_added_up_by_tag_gpu_and_month(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--cloud", "azure", "--tag", "team=vision", "--name", "one")
    cli.launch("--gpu", "L4", "--cloud", "aws", "--tag", "team=speech", "--name", "two")
    cli.launch("--gpu", "T4", "--cloud", "alibaba", "--name", "three")
    assert cli("down", "--all", "--yes").code == 0, "what has ended costs the same in each answer"

    teams = cli("spend", "--by", "tag:team", "--json").json
    assert [group["values"]["tag:team"] for group in teams["groups"]] == ["speech", "vision", None]
    for keys in ("tag:team", "gpu", "owner", "month,cloud,gpu,owner,tag:team"):
        document = cli("spend", "--by", keys, "--json").json
        assert document["by"] == keys.split(",")
        assert len(document["boxes"]) == 3
        for total in document["totals"]:
            parts = [
                Decimal(each["amount"])
                for group in document["groups"]
                for each in group["totals"]
                if each["currency"] == total["currency"]
            ]
            assert abs(sum(parts) - Decimal(total["amount"])) < Decimal("0.005")

    rows = list(csv.DictReader(io.StringIO(cli("spend", "--by", "cloud,tag:team", "--csv").out)))
    assert [(row["cloud"], row["tag:team"], row["currency"]) for row in rows] == [
        ("alibaba", "", "CNY"),
        ("aws", "speech", "USD"),
        ("azure", "vision", "USD"),
    ]
    told = cli("spend", "--by", "gpu,tag:team")
    assert told.out.splitlines()[0].split() == ["GPU", "TEAM", "BOXES", "COST"]
    unknown = next(row["unknown"] for row in rows if row["cloud"] == "alibaba")
    assert ("≥ CNY" in told.out) == bool(unknown)
    assert all(reason in told.err for reason in filter(None, unknown.split("; ")))


def test_costs_are_told_from_a_day_on(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--name", "now")
    assert [box["name"] for box in cli("spend", "--since", "30d", "--json").json["boxes"]] == ["now"]
    assert cli("spend", "--since", "2026-01-01", "--json").json["since"] == "2026-01-01T00:00:00Z"
    assert cli("spend", "--since", "2999-01-01", "--json").json["boxes"] == []
    for bad in ("yesterday", "2026-13-01", "2026-01-01T00:00"):
        assert cli("spend", "--since", bad).code == 2


def test_other_owners_of_the_journal_are_counted_on_request(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--name", "mine")
    other = cli("launch", "--gpu", "T4", "--name", "theirs", "--yes", "--json", GPUCLOUD_OWNER="u-other")
    assert other.code == 0, other.err
    assert [box["name"] for box in cli("spend", "--json").json["boxes"]] == ["mine"]
    groups = cli("spend", "--all-owners", "--by", "owner", "--json").json["groups"]
    assert [group["boxes"] for group in groups] == [1, 1]
    assert "u-other" in {group["values"]["owner"] for group in groups}
    assert "u-other" in cli("spend", "--all-owners", "--focus").out

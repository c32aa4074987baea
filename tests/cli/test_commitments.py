"""``gpucloud commitments``: what the accounts say that they have paid for, and what ``cost`` makes of it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from tests.shell import Run, Shell

AWS = ("--cloud", "aws", "--region", "us-east-1")
COST = ("cost", "--gpu", "T4", "--hours", "100", "--json")
TYPES = {"aws": "g4dn.xlarge", "azure": "Standard_NC4as_T4_v3", "alibaba": "ecs.gn6i-c4g1.xlarge"}
REGIONS = {"aws": "us-east-1", "azure": "eastus", "alibaba": "us-east-1"}


def commit(cli: Shell, cloud: str, **values: Any) -> str:
    """Pays for a T4 until 2090, and gives the cloud's id of that."""
    place = {} if "per_hour" in values else {"region": REGIONS[cloud], "instance_type": TYPES[cloud]}
    id_: str = cli.sandbox.cloud(cloud, "commit", until="2090-12-31", **{**place, **values})
    return id_


def asked(cli: Shell, *arguments: str, code: int = 0) -> Any:
    """What a question of all clouds came to."""
    done = cli("commitments", "--json", *arguments)
    assert done.code == code, done.err
    return done.json


def owned(cli: Shell, *arguments: str) -> list[dict[str, Any]]:
    """The owned ways of paying for a T4."""
    options = cli(*COST, *arguments).json["options"]
    return [each for each in options if each["purchase"] == "owned"]


def amount(money: dict[str, str]) -> Decimal:
    return Decimal(money["amount"])


def make_old(cli: Shell) -> None:
    """Moves what was told so far to the first day of 2026."""
    with closing(sqlite3.connect(cli.home / "state-sandbox" / "prices.db")) as connection, connection:
        connection.execute("UPDATE commitments SET seen = '2026-01-01T12:00:00.000000Z'")


def test_every_cloud_tells_and_cost_counts_it_without_asking(cli: Shell) -> None:
    ids = {cloud: commit(cli, cloud, count=2) for cloud in TYPES}
    document = asked(cli)
    assert document["schema"] == "gpucloud.commitments/v1"
    assert {each["cloud"]: each["id"] for each in document["commitments"]} == ids
    assert [
        (each["cloud"], each["answered"] == each["inquiries"], each["failures"], each["left_out"])
        for each in document["clouds"]
    ] == [(cloud, True, [], None) for cloud in sorted(TYPES)]
    cli.sandbox.calls(clear=True)
    for cloud, region in REGIONS.items():
        [way] = owned(cli, "--cloud", cloud, "--region", region, "--nodes", "2", "--explain")
        assert amount(way["compute"]) == 0
        [row] = next(each["rows"] for each in way["figures"] if each["part"] == "compute")
        [told] = [each for each in document["commitments"] if each["cloud"] == cloud]
        assert (row["source"], row["as_of"]) == (told["source"], told["as_of"])
        assert not owned(cli, "--cloud", cloud, "--region", region, "--nodes", "3"), "there are two"
    assert cli.sandbox.calls() == []


def test_a_person_sees_a_table_and_where_a_figure_is_from(cli: Shell) -> None:
    commit(cli, "aws", zone="use1-az1")
    commit(cli, "aws", per_hour="2.5")
    shown = cli("commitments", "--cloud", "aws")
    assert shown.code == 0, shown.err
    header, plan, machine = (" ".join(line.split()) for line in shown.out.splitlines())
    assert header == "CLOUD REGION ZONE KIND WHAT COUNT PER HOUR UNTIL AS OF ID"
    assert plan.startswith("aws all - savings plan compute plan, no upfront - $2.5000 2090-12-31 ")
    assert machine.startswith("aws us-east-1 use1-az1 reserved instance g4dn.xlarge 1 - 2090-12-31 ")
    told = cli("cost", "--gpu", "T4", *AWS, "--hours", "100", "--explain")
    assert "owned, 1 reserved instance until 2090-12-31" in told.out
    assert "aws-reserved-instances: AWS ec2:DescribeReservedInstances (your account)" in told.out
    assert "the estimate assumes that nothing else uses it" in told.out


def test_a_savings_plan_pays_for_what_it_covers_at_its_own_rate(cli: Shell) -> None:
    """All amounts from the cloud's own answers: on demand, the plan's rate, what was promised."""
    commit(cli, "aws", per_hour="0.5")
    asked(cli, "--cloud", "aws")
    unknown = cli(*COST, *AWS)
    assert "Not counted, as its rate is not known: the savings plan 0.5 USD/h" in unknown.err
    assert cli("prices", "refresh", "--gpu", "T4", *AWS).code == 0
    for nodes in (1, 2):
        [way] = owned(cli, *AWS, "--explain", "--nodes", str(nodes))
        _, on_demand, rate = next(each["rows"] for each in way["figures"] if each["part"] == "compute")
        assert on_demand["amount"].startswith("0.526")
        assert rate["what"].startswith("g4dn.xlarge savings-1y compute plan, no upfront")
        covered = min(Decimal(1), Decimal("0.5") / (amount(rate) * nodes))
        hourly = amount(on_demand) * (1 - covered)
        hours = 100 + Decimal(300) / 3600
        assert amount(way["compute"]) == pytest.approx(hourly * nodes * hours, abs=Decimal("0.001"))
        assert (covered == 1) == (nodes == 1)


def test_what_an_account_may_not_ask_is_named_and_the_rest_stands(cli: Shell) -> None:
    """What was told before stays, as old as it is; what is answered is new."""
    before = commit(cli, "aws")
    plan = commit(cli, "aws", per_hour="1")
    commit(cli, "alibaba")
    asked(cli)
    make_old(cli)
    cli.sandbox.cloud("aws", "deny", actions=["ec2:DescribeReservedInstances"])
    commit(cli, "azure")
    document = asked(cli, code=4)
    told = {each["id"]: each["as_of"] for each in document["commitments"]}
    assert len(told) == 4
    assert told.pop(before) == "2026-01-01"
    assert plan in told
    assert "2026-01-01" not in told.values()
    failures = {each["cloud"]: each["failures"] for each in document["clouds"]}
    assert not failures["azure"]
    assert not failures["alibaba"]
    assert {each["class"] for each in failures["aws"]} == {"auth"}
    assert all(each["inquiry"].startswith("reserved instances in ") for each in failures["aws"])
    assert owned(cli, *AWS)[0]["offer"]["as_of"] == "2026-01-01"
    said = [line for line in cli("commitments").err.splitlines() if line.startswith("Not answered")]
    assert len(said) == 1, "once for all regions"
    assert f"and {len(failures['aws']) - 1} more: " in said[0]


@pytest.mark.parametrize("action", ["*", "DescribeRegions"])
def test_a_cloud_that_does_not_answer_at_all_keeps_what_it_told(cli: Shell, action: str) -> None:
    id_ = commit(cli, "aws")
    asked(cli)
    make_old(cli)
    cli.sandbox.fault(cloud="aws", action=action, effect="error", code="AuthFailure", status=401, times=None)
    document = asked(cli, code=4)
    [told] = document["commitments"]
    assert (told["id"], told["as_of"]) == (id_, "2026-01-01")


def test_what_is_gone_is_gone(cli: Shell) -> None:
    commit(cli, "aws")
    assert len(asked(cli)["commitments"]) == 1
    cli.sandbox.reset()
    assert asked(cli)["commitments"] == []
    assert not owned(cli, *AWS)


def test_an_empty_answer_that_proves_nothing_is_doubted(cli: Shell) -> None:
    [azure] = asked(cli, "--cloud", "azure")["clouds"]
    [doubt] = azure["doubts"]
    assert "Reservations Reader" in doubt
    assert f"azure: {doubt}" in cli("commitments", "--cloud", "azure").err
    commit(cli, "azure")
    assert asked(cli, "--cloud", "azure")["clouds"][0]["doubts"] == []


def test_only_the_clouds_that_are_named_are_asked(cli: Shell) -> None:
    asked(cli, "--cloud", "!azure", "--cloud", "!alibaba")
    assert {call["cloud"] for call in cli.sandbox.calls()} == {"aws"}
    refused = cli("commitments", "--cloud", "acme", "--json")
    assert (refused.code, refused.error["class"]) == (2, "usage")


def test_a_cloud_that_is_not_set_up_is_left_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    code, out, _ = run("commitments", "--cloud", "aws", "--json")
    [aws] = json.loads(out)["clouds"]
    assert (code, aws["account"], aws["failures"]) == (4, None, [])
    assert "credentials" in aws["left_out"].lower()
    assert "Left out: aws: " in run("commitments", "--cloud", "aws")[2]


def test_who_has_none_is_told_so_and_what_a_grant_lacks_is_named(cli: Shell) -> None:
    told = cli("commitments", "--cloud", "aws")
    assert told.code == 0
    assert "No commitment is known." in told.err
    assert "Next:" not in told.err
    refused = cli("sandbox", "control", "aws", "commit", "per_hour=1")
    assert refused.code == 2
    assert "'until' is missing" in refused.err

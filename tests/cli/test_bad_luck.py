"""What goes wrong on Azure and Alibaba Cloud: the right class, the right exit code, and nothing left behind.

AWS's part is in tests/cli/test_failover.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.shell import Result, Shell


def asked(cli: Shell, cloud: str, *more: str, **environment: str) -> Result:
    """A launch of a T4 on a cloud."""
    return cli("launch", "--gpu", "T4", "--cloud", cloud, "--yes", "--json", *more, **environment)


def nothing_is_left(cli: Shell) -> bool:
    """Nothing is billed, and nothing that carries our tags is found anywhere."""
    live = cli("list", "--live", "--json").json
    return not (cli.sandbox.status()["billing"] or live["strangers"] or live["boxes"])


@pytest.mark.parametrize(
    ("cloud", "control", "values", "error_class"),
    [
        ("azure", "register", {"namespace": "Microsoft.Compute", "registered": False}, "auth"),
        ("azure", "deny", {"actions": ["Microsoft.Compute/virtualMachines/write"]}, "auth"),
        ("azure", "deny", {"actions": ["Microsoft.Network/*/write"]}, "auth"),
        ("alibaba", "deny", {"actions": ["ecs:RunInstances"]}, "auth"),
        ("alibaba", "deny", {"actions": ["vpc:CreateVSwitch"]}, "auth"),
        ("alibaba", "balance", {"enough": False}, "billing"),
    ],
)
def test_an_account_that_may_not_buy_is_told_and_leaves_nothing(
    cli: Shell, cloud: str, control: str, values: dict[str, Any], error_class: str
) -> None:
    cli.sandbox.cloud(cloud, control, **values)
    refused = asked(cli, cloud)
    assert (refused.code, refused.error["class"]) == (4, error_class)
    assert refused.error["request_id"]
    assert nothing_is_left(cli)


def test_a_region_that_is_closed_to_the_account_sends_the_launch_to_another(cli: Shell) -> None:
    cli.sandbox.cloud("alibaba", "close", regions=["us-east-1"])
    box = asked(cli, "alibaba", "--region", "us-*").box
    assert box["region"] != "us-east-1"
    refused = asked(cli, "alibaba", "--region", "us-east-1")
    assert (refused.code, refused.error["code"]) == (4, "RegionUnauthorized")


def test_an_account_without_a_proven_name_is_sent_out_of_the_mainland(cli: Shell) -> None:
    cli.sandbox.cloud("alibaba", "real-name", verified=False)
    box = cli("launch", "--gpu", "V100:1", "--cloud", "alibaba", "--yes", "--json").box
    assert not box["region"].startswith("cn-")


def test_an_empty_list_from_a_user_who_may_not_look_is_unread_and_no_proof(cli: Shell) -> None:
    box = asked(cli, "alibaba").box
    cli.sandbox.cloud("alibaba", "deny", actions=["ecs:DescribeInstances"])
    live = cli("list", "--live", "--json").json
    unread = {each["cloud"] for each in live["unread"]}  # on a busy machine slow ones too: it waits 3.5 s
    assert "alibaba" in unread
    assert [each["state"] for each in live["boxes"]] == ["ready"], "nothing was concluded"
    denied = cli("down", "--all", "--yes", "--json")
    assert denied.code == 8
    cli.sandbox.cloud("alibaba", "deny", actions=[])
    assert cli("down", box["name"], "--yes").code == 0
    assert nothing_is_left(cli)


@pytest.mark.parametrize(
    ("cloud", "region", "name"),
    [("azure", "eastus", "lowPriorityCores"), ("alibaba", "us-east-1", "max-spot-instance-vcpu-count")],
)
def test_a_spot_quota_of_zero_is_told_before_anything_is_made(
    cli: Shell, cloud: str, region: str, name: str
) -> None:
    cli.sandbox.cloud(cloud, "quota", region=region, name=name, value=0)
    refused = asked(cli, cloud, "--spot", "--region", region)
    assert (refused.code, refused.error["class"], refused.error["code"]) == (6, "quota", name)
    assert cli.changes_asked() == []


def test_machines_that_azure_accepts_and_then_fails_are_cleared_away(cli: Shell) -> None:
    cli.sandbox.stock(cloud="azure", region="eastus*", count=0)
    ran = asked(cli, "azure")
    assert not ran.box["region"].startswith("eastus")
    assert "AllocationFailed" in ran.err
    assert {entry["region"] for entry in cli.sandbox.status()["billing"]} == {ran.box["region"]}
    assert cli("down", "--all", "--yes").code == 0
    assert nothing_is_left(cli)


def test_ids_that_vanish_after_they_were_given_are_a_shortage(cli: Shell) -> None:
    here = ("--region", "us-east-1")
    first = cli("plan", "--gpu", "T4", "--cloud", "alibaba", *here, "--json").json["attempts"][0]
    cli.sandbox.cloud("alibaba", "vanish", instance_types=[first["instance_type"]])
    ran = asked(cli, "alibaba", *here)
    assert ran.box["instance_type"] != first["instance_type"]
    assert "SystemFailure.Delete" in ran.err
    assert cli("down", "--all", "--yes").code == 0
    assert nothing_is_left(cli)


@pytest.mark.parametrize(("cloud", "action"), [("azure", "PUT virtualMachines"), ("alibaba", "RunInstances")])
def test_a_cloud_that_is_busy_is_asked_again_and_gives_one_box(cli: Shell, cloud: str, action: str) -> None:
    cli.sandbox.fault(effect="throttle", cloud=cloud, action=action, times=2)
    box = asked(cli, cloud).box
    assert [entry["box"] for entry in cli.billed()] == [box["id"]]


@pytest.mark.parametrize(("cloud", "action"), [("azure", "PUT virtualMachines"), ("alibaba", "RunInstances")])
def test_an_answer_that_is_lost_gives_one_box(cli: Shell, cloud: str, action: str) -> None:
    cli.sandbox.fault(effect="drop", stage="applied", cloud=cloud, action=action)
    box = asked(cli, cloud).box
    assert [entry["box"] for entry in cli.billed()] == [box["id"]]
    births = [e for e in cli.sandbox.ledger() if e["event"] == "born" and e["kind"] == "instance"]
    assert len(births) == 1


def test_a_token_that_has_expired_is_a_matter_of_credentials(own_clouds: Shell) -> None:
    own_clouds.sandbox.cloud("azure", "token-life", seconds=0)
    refused = asked(own_clouds, "azure")
    assert (refused.code, refused.error["class"]) == (4, "auth")
    assert refused.error["code"] == "ExpiredAuthenticationToken"

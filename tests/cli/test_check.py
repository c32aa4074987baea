"""``check``: what works is told apart from what does not, and every no comes with its fix."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.shell import Shell

CLOUDS = ("alibaba", "aws", "azure")
SECRETS = {
    "alibaba": "ALIBABA_CLOUD_ACCESS_KEY_SECRET",
    "aws": "AWS_SECRET_ACCESS_KEY",
    "azure": "AZURE_CLIENT_SECRET",
}
DENIED = {
    "alibaba": "ecs:RunInstances",
    "aws": "ec2:RunInstances",
    "azure": "Microsoft.Compute/virtualMachines/write",
}


def checks(document: Any, cloud: str) -> dict[str, Any]:
    [found] = [each for each in document["clouds"] if each["cloud"] == cloud]
    return {each["name"]: each for each in found["checks"]}


def test_in_the_sandbox_everything_works_and_nothing_is_changed(cli: Shell) -> None:
    ran = cli("check", "--gpu", "A100:8", "--json")
    assert ran.code == 0, ran.out + ran.err
    document = ran.json
    assert document["schema"] == "gpucloud.check/v1"
    assert [(each["cloud"], each["status"]) for each in document["clouds"]] == [(c, "ok") for c in CLOUDS]
    for cloud in CLOUDS:
        names = checks(document, cloud)
        assert {"credentials", "clock", "permissions"} <= set(names)
        assert any(name.startswith("quota ") for name in names)
    assert {each["name"]: each["ok"] for each in document["machine"]} == dict.fromkeys(
        ["ssh", "ssh-keygen", "rsync", "journal"], True
    )
    assert cli.sandbox.ledger() == []
    live = cli("list", "--all", "--live", "--json").json
    assert (live["boxes"], live["strangers"], live["unread"]) == ([], [], [])


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_wrong_secret_is_told_with_the_way_to_a_right_one(cli: Shell, cloud: str) -> None:
    environment = {**cli.endpoint.environ, SECRETS[cloud]: "canary-of-a-secret", "GPUCLOUD_SANDBOX": "0"}
    ran = cli("check", "--cloud", cloud, "--json", **environment)
    assert ran.code == 4
    [found] = ran.json["clouds"]
    assert found["status"] == "unusable"
    assert [(each["name"], each["ok"]) for each in found["checks"]] == [("credentials", False)]
    assert found["checks"][0]["fix"]
    assert "canary" not in ran.out + ran.err
    others = cli("check", "--json", **environment)
    assert others.code == 0, "the other clouds still work"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_missing_permission_is_named_with_its_fix(cli: Shell, cloud: str) -> None:
    cli.sandbox.cloud(cloud, "deny", actions=[DENIED[cloud]])
    ran = cli("check", "--cloud", cloud, "--json")
    assert ran.code == 4
    denied = [each for each in checks(ran.json, cloud).values() if each["name"].startswith("permission ")]
    assert denied
    assert all(each["ok"] is False and each["fix"] for each in denied)
    assert f"permission {DENIED[cloud].rpartition('/')[0]}" in denied[0]["name"] or DENIED[cloud] in str(
        denied
    )


COMMANDS = {
    "aws": "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code",
    "azure": "az quota update --resource-name",
}
"""How the command begins that asks for more of a quota."""


@pytest.mark.parametrize(
    ("cloud", "quota"),
    [
        ("aws", {"region": "us-east-1", "code": "L-DB2E81BA", "value": 0}),
        ("azure", {"region": "eastus", "name": "cores", "value": 0}),
    ],
)
def test_a_quota_that_is_too_small_is_told_before_anything_is_tried(
    cli: Shell, cloud: str, quota: dict[str, Any]
) -> None:
    place = ("--gpu", "T4", "--cloud", cloud, "--region", quota["region"], "--on-demand")
    cli.sandbox.cloud(cloud, "quota", **quota)
    ran = cli("check", *place, "--json")
    short = [each for each in checks(ran.json, cloud).values() if each["ok"] is False]
    assert [each["fix"].startswith("https://") for each in short] == [True]
    cli.sandbox.calls(clear=True)
    refused = cli("launch", *place, "--yes", "--json")
    assert (refused.code, refused.error["class"]) == (6, "quota")
    assert refused.error["hint"].startswith("https://")
    code = quota.get("code") or quota["name"]
    assert f"(quota {code}, {quota['region']})" in refused.error["hint"]
    assert f" {COMMANDS[cloud]} {code} " in refused.error["hint"]
    assert "LIMIT" not in refused.error["hint"], "the limit that would suffice is in the command"
    assert cli.changes_asked() == []


def test_an_account_that_is_blocked_is_told_so_by_a_check_and_by_a_plan(cli: Shell) -> None:
    """The remedy is that of the code."""
    cli.sandbox.fault(
        effect="error", cloud="aws", action="GetCallerIdentity", code="Blocked", status=403, times=None
    )
    found = checks(cli("check", "--cloud", "aws", "--json").json, "aws")
    assert "AWS Support" in found["credentials"]["fix"]
    plan = cli("plan", "--gpu", "A100:8", "--json")
    assert "AWS Support" in plan.json["left_out"]["aws"]


def test_a_quota_in_one_region_leaves_that_region_out_of_the_plan(cli: Shell) -> None:
    """A cached figure never refuses: raised quotas count at once."""
    place = ("--gpu", "T4", "--cloud", "aws")
    cli.sandbox.cloud("aws", "quota", region="us-east-1", code="L-DB2E81BA", value=0)
    plan = cli("plan", *place, "--json").json
    assert "us-east-1" not in {attempt["region"] for attempt in plan["attempts"]}
    assert "L-DB2E81BA" in plan["left_out"]["aws us-east-1"]
    assert len(plan["attempts"]) >= 20, "others came forward"
    cli.sandbox.cloud("aws", "quota", region="us-east-1", code="L-DB2E81BA", value=100)
    assert cli.launch(*place)["region"] == "us-east-1"


def test_quotas_that_cannot_be_read_stop_nothing(cli: Shell) -> None:
    cli.sandbox.cloud("aws", "deny", actions=["servicequotas:*"])
    assert cli.launch("--gpu", "T4", "--cloud", "aws")["state"] == "ready"


def test_a_clock_that_is_off_is_a_failure_with_its_fix(own_clouds: Shell) -> None:
    own_clouds.sandbox.clock(advance_s=600)
    ran = own_clouds("check", "--cloud", "aws", "--json")
    assert ran.code == 4
    clock = checks(ran.json, "aws")["clock"]
    assert clock["ok"] is False
    assert "sandbox reset" in clock["fix"]


def test_a_journal_of_a_newer_gpucloud_is_one_failure_among_the_results(cli: Shell) -> None:
    assert cli("list").code == 0
    with closing(sqlite3.connect(cli.home / "state-sandbox" / "journal.db")) as connection:
        connection.execute("PRAGMA user_version = 1000")
    ran = cli("check", "--cloud", "aws", "--json")
    assert ran.code == 2
    assert ran.json["clouds"][0]["status"] == "ok"
    [journal] = [each for each in ran.json["machine"] if each["ok"] is not True]
    assert (journal["name"], journal["ok"]) == ("journal", False)
    assert "another gpucloud" in journal["said"]
    assert "gpucloud recover" in journal["fix"]
    assert "journal" in cli("check", "--cloud", "aws").out


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_policy_is_printed_alone(cli: Shell, cloud: str) -> None:
    ran = cli("check", "--policy", cloud)
    assert ran.code == 0
    assert json.loads(ran.out)
    assert cli("check", "--policy", "moon").code == 2

"""Every command works under exactly the policy that ``check --policy`` prints, and by its leave only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpucloud.ssh.client import Target, disconnect
from tests.shell import Shell

CLOUDS = ("aws", "azure", "alibaba")
PLACES = {"aws": "us-east-1", "azure": "eastus", "alibaba": "us-east-1"}


def launch(cloud: str, *arguments: str) -> tuple[str, ...]:
    return ("launch", "--gpu", "T4", "--cloud", cloud, "--region", PLACES[cloud], "--yes", *arguments)


@pytest.fixture(params=CLOUDS)
def cloud(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def narrow(cli: Shell, cloud: str) -> Shell:
    """A shell whose account may do what the policy says and nothing else."""
    apply(cli, cloud, policy(cli, cloud))
    return cli


def policy(cli: Shell, cloud: str) -> Any:
    printed = cli("check", "--policy", cloud)
    assert printed.code == 0
    return json.loads(printed.out)


def apply(cli: Shell, cloud: str, document: Any) -> None:
    """As a user would try a policy of their own."""
    done = cli("sandbox", "control", cloud, "policy", f"document={json.dumps(document)}")
    assert done.code == 0, done.err


def test_the_life_of_a_box_on_spot(narrow: Shell, cloud: str) -> None:
    assert narrow("check", "--cloud", cloud).code == 0
    assert narrow("plan", "--gpu", "T4", "--cloud", cloud).code == 0
    assert narrow("commitments", "--cloud", cloud).code == 0
    assert narrow(*launch(cloud, "--name", "x", "--spot")).code == 0
    assert narrow("exec", "x", "--", "true").code == 0
    [box] = narrow.boxes("--live")
    assert [node["state"] for node in box["nodes"]] == ["running"]
    assert narrow("show", "x", "--live").code == 0
    assert narrow("extend", "x", "--ttl", "30h").code == 0
    assert narrow("extend", "x", "--ttl", "3h", "--yes").code == 0
    assert narrow("down", "x", "--yes").code == 0
    assert narrow.sandbox.status()["billing"] == []


def test_a_rule_that_ends_a_box_from_outside(cli: Shell) -> None:
    apply(cli, "aws", policy(cli, "aws"))
    role = "arn:aws:iam::123456789012:role/"
    refused = cli(*launch("aws", "--name", "x", "--ttl-role", f"{role}admin", "--json"))
    assert (refused.code, refused.error["class"]) == (4, "auth")
    assert cli.sandbox.status()["billing"] == []
    assert cli(*launch("aws", "--name", "x", "--ttl-role", f"{role}gpucloud-ttl")).code == 0
    assert cli("extend", "x", "--ttl", "3h", "--yes").code == 0
    assert cli("down", "x", "--yes").code == 0


def test_a_new_address_is_let_in_and_the_console_is_read(
    narrow: Shell, cloud: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(narrow.runtime))
    box = narrow(*launch(cloud, "--name", "x", "--json")).box
    keys = narrow.home / "state-sandbox" / "keys" / box["id"]
    shared = Target(box_id=box["id"], host="127.0.0.1", user="gpucloud", keys=keys)
    narrow.sandbox.address("198.51.100.99")
    disconnect(shared)
    assert "your address is now 198.51.100.99" in narrow("exec", "x", "--", "true").err
    disconnect(shared)
    keys.rename(narrow.home / "lost-keys")
    assert "cloud-init: finished" in narrow("logs", "x").out
    assert narrow("down", "x", "--yes").code == 0


def test_several_machines_together_on_demand(narrow: Shell, cloud: str) -> None:
    line = launch(cloud, "--name", "x", "--nodes", "2", "--ttl", "none", "--on-demand")
    assert narrow(*line).code == 0
    assert narrow("down", "x", "--yes").code == 0
    assert narrow.sandbox.status()["billing"] == []


def test_what_a_killed_launch_left_is_taken_down(narrow: Shell, cloud: str) -> None:
    create = {"aws": "RunInstances", "azure": "PUT virtualMachines", "alibaba": "RunInstances"}[cloud]
    narrow.sandbox.fault(cloud=cloud, action=create, effect="kill", stage="applied")
    assert narrow(*launch(cloud, "--name", "x")).code != 0
    assert narrow.billed()
    assert narrow("down", "--all", "--yes").code == 0
    assert narrow.sandbox.status()["billing"] == []


def test_a_machine_of_somebody_else_is_out_of_reach(cli: Shell) -> None:
    """The policy's conditions count: what carries no owner cannot be ended, by whichever program."""
    cli.launch("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--name", "x")
    place = ("--region", "us-east-1")
    apply(cli, "aws", None)
    [resource] = cli.billed()
    tag = ("--resources", resource["id"], "--tags", "Key=gpucloud:owner")
    assert cli.run("aws", "ec2", "delete-tags", *place, *tag).code == 0
    apply(cli, "aws", policy(cli, "aws"))
    refused = cli.run("aws", "ec2", "terminate-instances", *place, "--instance-ids", resource["id"])
    assert "UnauthorizedOperation" in refused.err
    assert cli.billed() == [resource]


@pytest.mark.parametrize(
    ("cloud", "action"),
    [
        ("aws", "ec2:RunInstances"),
        ("aws", "ec2:CreateTags"),
        ("aws", "ec2:AuthorizeSecurityGroupIngress"),
        ("azure", "Microsoft.Compute/virtualMachines/write"),
        ("azure", "Microsoft.Network/networkInterfaces/join/action"),
        ("alibaba", "ecs:RunInstances"),
        ("alibaba", "vpc:CreateVSwitch"),
    ],
)
def test_a_launch_that_lacks_an_action_fails_and_leaves_nothing(cli: Shell, cloud: str, action: str) -> None:
    apply(cli, cloud, without(policy(cli, cloud), action))
    failed = cli(*launch(cloud, "--name", "x", "--json"))
    assert (failed.code, failed.error["class"]) == (4, "auth")
    assert cli.sandbox.status()["billing"] == []


def test_a_policy_that_the_sandbox_does_not_understand_is_not_taken(cli: Shell) -> None:
    """A condition that is passed over would let pass what the cloud refuses."""
    statement = {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"IpAddress": {"a": "b"}}}
    refused = cli("sandbox", "control", "aws", "policy", f"document={json.dumps({'Statement': [statement]})}")
    assert refused.code == 2
    assert "IpAddress" in refused.err


def without(document: Any, action: str) -> Any:
    """A policy less one action."""
    if "Actions" in document:
        return {**document, "Actions": [each for each in document["Actions"] if each != action]}
    kept = []
    for statement in document["Statement"]:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        left = [each for each in actions if each != action]
        if left:
            kept.append({**statement, "Action": left})
    return {**document, "Statement": kept}


# --- roles, and what nobody may do


def printed(cli: Shell, cloud: str, *flags: str, owner: str = "me") -> Any:
    found = cli("check", "--policy", cloud, *flags, GPUCLOUD_OWNER=owner)
    assert found.code == 0, found.err
    return json.loads(found.out)


@pytest.mark.parametrize("cloud", ["aws", "alibaba"])
def test_an_operator_lives_with_its_own_boxes_and_cannot_end_those_of_somebody_else(
    cli: Shell, cloud: str
) -> None:
    """Whatever the journal says: the cloud refuses. A viewer sees them, and launches nothing."""
    assert cli(*launch(cloud, "--name", "theirs"), GPUCLOUD_OWNER="alice").code == 0
    [billed] = [each for each in cli.billed() if each["kind"] == "instance"]
    apply(cli, cloud, printed(cli, cloud, "--role", "operator", owner="bob"))
    assert cli(*launch(cloud, "--name", "mine", "--on-demand"), GPUCLOUD_OWNER="bob").code == 0
    assert cli("extend", "mine", "--ttl", "30h", GPUCLOUD_OWNER="bob").code == 0
    refused = cli("down", "theirs", "--yes", "--json", GPUCLOUD_OWNER="alice")
    assert refused.code == 8, refused.err
    assert cli("down", "mine", "--yes", GPUCLOUD_OWNER="bob").code == 0
    assert [each["id"] for each in cli.billed() if each["kind"] == "instance"] == [billed["id"]]

    apply(cli, cloud, printed(cli, cloud, "--role", "viewer"))
    [seen] = cli("list", "--live", "--json", GPUCLOUD_OWNER="alice").json["boxes"]
    assert [node["state"] for node in seen["nodes"]] == ["running"]
    assert cli("plan", "--gpu", "T4", "--cloud", cloud).code == 0
    failed = cli(*launch(cloud, "--name", "x", "--json"), GPUCLOUD_OWNER="vera")
    assert (failed.code, failed.error["class"]) == (4, "auth")

    apply(cli, cloud, printed(cli, cloud, "--role", "admin"))
    assert cli("down", "theirs", "--yes", GPUCLOUD_OWNER="alice").code == 0
    assert cli.sandbox.status()["billing"] == []


def test_a_viewer_of_azure_reads_and_an_operator_is_told_what_azure_cannot_hold(cli: Shell) -> None:
    assert all(each.endswith("/read") for each in printed(cli, "azure", "--role", "viewer")["Actions"])
    operator = cli("check", "--policy", "azure", "--role", "operator")
    assert "no conditions on tags" in operator.err
    assert json.loads(operator.out)["Actions"] == policy(cli, "azure")["Actions"]


RULES = (
    "regions: [us-east-1, eastus]\ninstance_types: [g4dn.*, Standard_NC*, ecs.gn*]\npurchase: [on-demand]\n"
    "tags: [team]\nmax_price: 9\nttl: 24h\n"
)


def test_a_guardrail_denies_everybody_what_the_policy_forbids(cli: Shell) -> None:
    """The emulated AWS evaluates it: also who has no policy in their journal is refused."""
    assert cli("check", "--policy", "aws", "--guardrail").code == 2
    file = cli.home / "policy.yaml"
    file.write_text(RULES)
    assert cli("policy", "apply", str(file)).code == 0
    said = cli("check", "--policy", "aws", "--guardrail").err
    for word in ("max_price: 9", "ttl: 1d", "aws budgets create-budget"):
        assert word in said
    denials = printed(cli, "aws", "--guardrail")["Statement"]
    assert {each["Effect"] for each in denials} == {"Deny"}
    file.write_text("")
    assert cli("policy", "apply", str(file)).code == 0
    apply(cli, "aws", {"Statement": [*policy(cli, "aws")["Statement"], *denials]})
    t4 = ("launch", "--gpu", "T4", "--cloud", "aws", "--yes", "--json", "--name", "x")
    good = ("--region", "us-east-1", "--tag", "team=a", "--on-demand")
    for bad in (
        ("--region", "us-east-2", "--tag", "team=a"),
        ("--region", "us-east-1"),
        ("--region", "us-east-1", "--tag", "team=a", "--spot"),
        ("--region", "us-east-1", "--tag", "team=a", "--gpu", "L4"),
    ):
        refused = cli(*t4, *bad)
        assert (refused.code, refused.error["class"]) == (4, "auth"), bad
    assert cli.sandbox.status()["billing"] == []
    assert cli(*t4, *good).code == 0
    assert cli("down", "x", "--yes").code == 0


def test_guardrails_of_the_other_clouds_say_what_they_deny(cli: Shell) -> None:
    file = cli.home / "policy.yaml"
    file.write_text(RULES)
    assert cli("policy", "apply", str(file)).code == 0
    rule = printed(cli, "azure", "--guardrail")["properties"]["policyRule"]
    assert rule["then"] == {"effect": "deny"}
    text = json.dumps(rule["if"])
    for part in (
        '"notIn": ["eastus"]',
        "sku.name",
        "Standard_NC4as_T4_v3",
        '"equals": "Spot"',
        "tags['team']",
    ):
        assert part in text
    alibaba = printed(cli, "alibaba", "--guardrail")["Statement"]
    assert "acs:ecs:cn-hangzhou:*:*" in alibaba[0]["Resource"]
    assert "acs:ecs:us-east-1:*:*" not in alibaba[0]["Resource"]
    assert alibaba[1]["Condition"] == {"StringNotLike": {"acs:RequestTag/team": "?*"}}
    assert "instance types" in cli("check", "--policy", "alibaba", "--guardrail").err
    file.write_text("clouds: [aws]")
    assert cli("policy", "apply", str(file)).code == 0
    assert printed(cli, "alibaba", "--guardrail")["Statement"][0]["Resource"] == "*"


def test_a_role_needs_a_cloud(cli: Shell) -> None:
    assert cli("check", "--role", "viewer").code == 2
    assert cli("check", "--policy", "aws", "--role", "viewer", "--guardrail").code == 2

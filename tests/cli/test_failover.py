"""When a cloud says no: where the launch lands, what it says, and that nothing is left."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.shell import Shell

PLACE = ("cloud", "region", "zone", "instance_type", "purchase")
T4 = ("--gpu", "T4", "--cloud", "aws")
"""What is asked for here; tests/cli/test_three_clouds.py fails over between clouds."""

G_ON_DEMAND = "L-DB2E81BA"
"""The quota of AWS for running on-demand G and VT instances, in vCPUs."""


def place(of: Any) -> tuple[str, ...]:
    return tuple(of[key] for key in PLACE)


def planned(cli: Shell, *arguments: str) -> list[Any]:
    """The attempts that `plan` names, in order."""
    plan = cli("plan", "--json", *arguments)
    assert plan.code == 0, plan.err
    attempts: list[Any] = plan.json["attempts"]
    return attempts


def nothing_was_started(cli: Shell) -> bool:
    """No instance was ever billed, and nothing is billed now."""
    instances = [event for event in cli.sandbox.ledger() if event["id"].startswith("i-")]
    return not instances and cli.sandbox.status()["billing"] == []


@pytest.mark.parametrize("paid", ["--on-demand", "--spot"])
def test_an_empty_zone_sends_the_launch_to_the_next_cheapest_which_says_so(cli: Shell, paid: str) -> None:
    attempts = planned(cli, *T4, paid)
    for empty in attempts[:4]:
        rule = {key: empty[key] for key in ("region", "zone", "instance_type", "purchase")}
        cli.sandbox.stock(count=0, **rule)
    ran = cli("launch", *T4, paid, "--yes", "--json")
    assert place(ran.box) == place(attempts[4])
    cheapest_left = min(Decimal(each["price"]["amount"]) for each in attempts[4:])
    assert Decimal(ran.box["price"]["amount"]) == cheapest_left
    refused = [line for line in ran.err.splitlines() if "InsufficientInstanceCapacity" in line]
    assert len(refused) == 4
    for line, empty in zip(refused, attempts, strict=False):
        assert empty["zone"] in line, "each zone that was tried is named, in order"
    assert len(cli.billed()) == 1


def test_with_no_stock_anywhere_every_attempt_is_listed_and_nothing_is_left(cli: Shell) -> None:
    attempts = planned(cli, *T4)
    cli.sandbox.stock(count=0)
    failed = cli("launch", *T4, "--name", "x", "--yes", "--json")
    assert failed.code == 5
    assert failed.error["class"] == "capacity"
    assert [place(each) for each in failed.error["attempts"]] == [place(each) for each in attempts]
    for each in failed.error["attempts"]:
        assert each["code"] == "InsufficientInstanceCapacity"
        assert each["message"]
        assert each["request_id"]
    assert failed.error["left"] == []
    assert nothing_was_started(cli)
    assert [box["state"] for box in cli.boxes("--all")] == ["failed"]
    assert cli.boxes() == []
    of_boxes = [{"Name": "tag-key", "Values": ["gpucloud:box"]}]
    assert cli.ec2("us-east-1").describe_security_groups(Filters=of_boxes)["SecurityGroups"] == []
    cli.sandbox.stock(count=5)
    assert cli.launch(*T4, "--name", "x")["state"] == "ready", "the name is free again"


def test_where_spot_is_sold_out_everywhere_a_launch_that_allows_both_is_paid_on_demand(cli: Shell) -> None:
    """Though more than twenty offers on spot are cheaper."""
    both = ("--gpu", "A10G", "--cloud", "aws", "--purchase", "spot,on-demand")
    assert {each["purchase"] for each in planned(cli, *both)[:20]} == {"spot"}
    cli.sandbox.stock(count=0, purchase="spot")
    ran = cli("launch", *both, "--yes", "--json")
    assert ran.code == 0, ran.err
    assert ran.box["purchase"] == "on_demand"
    assert len(cli.billed()) == 1


def test_where_a_cloud_is_sold_out_a_dearer_one_is_asked(cli: Shell) -> None:
    """Though twenty of its offers are cheaper than every one of another cloud."""
    eight = ("--gpu", "H100:8", "--region", "us,eu")
    assert {each["cloud"] for each in planned(cli, *eight)[:20]} == {"aws"}
    cli.sandbox.stock(count=0, cloud="aws")
    ran = cli("launch", *eight, "--yes", "--json")
    assert ran.code == 0, ran.err
    assert ran.box["cloud"] == "azure"


def test_without_a_limit_nothing_dearer_than_twice_the_cheapest_is_tried_and_the_plan_says_so(
    cli: Shell,
) -> None:
    made = cli("plan", *T4, "--json").json
    prices = [Decimal(each["price_usd"]["amount"]) for each in made["attempts"]]
    assert max(prices) <= 2 * min(prices)
    (why,) = (text for what, text in made["left_out"].items() if what.endswith("offers on-demand"))
    assert "--max-price" in why
    limited = cli("plan", *T4, "--max-price", "2", "--json").json
    assert not any(what.endswith("offers on-demand") for what in limited["left_out"])


@pytest.mark.parametrize("limit", ["budget", "policy"])
def test_what_a_limit_has_no_room_for_does_not_refuse_the_cheaper_attempts(cli: Shell, limit: str) -> None:
    """Spot alone fits; the same launch with the dearer offers that follow would not."""
    both = ("--gpu", "A10G", "--cloud", "aws", "--purchase", "spot,on-demand", "--ttl", "1h")
    cheap = cli("plan", *both[:-4], "--purchase", "spot", "--ttl", "1h", "--json").json
    most = Decimal(cheap["at_most"]["per_hour"]["amount"]) + Decimal("0.05")
    if limit == "budget":
        assert cli("budget", "set", "lab", f"{most:.2f}", "--per", "total").code == 0
    else:
        (cli.home / "policy.yaml").write_text(f"per_hour: {most:.2f}\n")
        applied = cli("policy", "apply", "policy.yaml")
        assert applied.code == 0, applied.err
    ran = cli("launch", *both, "--yes", "--json")
    assert ran.code == 0, ran.err
    assert ran.box["purchase"] == "spot"
    assert cli("down", "--all", "--yes").code == 0
    cli.sandbox.stock(count=0, purchase="spot")
    refused = cli("launch", *both, "--yes", "--json")
    assert refused.code == 5, refused.err


def test_an_account_that_is_refused_is_told_what_to_do_about_it(cli: Shell) -> None:
    """Also about a cloud whose refusal is not the last word; each code once."""
    refusals = [
        ("aws", "RunInstances", "PendingVerification"),
        ("azure", "PUT virtualMachines", "ReadOnlyDisabledSubscription"),
    ]
    for cloud, action, code in refusals:
        cli.sandbox.fault(effect="error", cloud=cloud, action=action, code=code, status=403, times=None)
    clouds = ("--cloud", "aws,azure", "--region", "us-east-1,eastus")
    failed = cli("launch", "--gpu", "T4", *clouds, "--on-demand", "--yes")
    assert failed.code == 4
    assert failed.err.count("AWS still verifies the account for this region") == 1
    assert failed.err.count("removes the spending limit") == 1
    assert failed.err.count("leaving out azure") == 1
    assert nothing_was_started(cli)


def test_a_region_that_is_not_enabled_is_passed_over_and_the_cloud_is_not(cli: Shell) -> None:
    """EC2 answers there as to wrong credentials."""
    place = (*T4, "--on-demand", "--region", "af-south-1,ap-east-1")
    disabled = planned(cli, *place)[0]["region"]
    cli.sandbox.fault(
        effect="error",
        cloud="aws",
        action="*",
        region=disabled,
        code="AuthFailure",
        status=401,
        message="AWS was not able to validate the provided access credentials",
        times=None,
    )
    ran = cli("launch", *place, "--yes", "--json")
    assert ran.code == 0, ran.out + ran.err
    assert ran.box["region"] != disabled
    assert ran.box["cloud"] == "aws"
    assert ran.err.count("AuthFailure; trying the next offer") == 1


def test_a_quota_for_disks_is_not_taken_for_one_for_machines(cli: Shell) -> None:
    """It holds for every type of the region, and what is asked for more of is named."""
    cli.sandbox.fault(
        effect="error", cloud="aws", action="RunInstances", code="VolumeLimitExceeded", status=400, times=None
    )
    failed = cli("launch", *T4, "--region", "us-east-1,us-east-2", "--yes", "--json")
    assert (failed.code, failed.error["code"]) == (6, "VolumeLimitExceeded")
    assert sorted(each["region"] for each in failed.error["attempts"]) == ["us-east-1", "us-east-2"]
    assert "Service Quotas > Amazon EBS" in failed.error["hint"]


@pytest.mark.parametrize(
    "namespaces", [["Microsoft.Compute"], ["Microsoft.ComputeSchedule", "Microsoft.DevTestLab"]]
)
def test_a_new_subscription_is_refused_once_and_before_a_machine_is_bought(
    cli: Shell, namespaces: list[str]
) -> None:
    """It is so in every region; the hint has the command."""
    for namespace in namespaces:
        cli.sandbox.cloud("azure", "register", namespace=namespace, registered=False)
    failed = cli("launch", "--gpu", "T4", "--cloud", "azure", "--yes", "--json")
    assert (failed.code, failed.error["class"], failed.error["code"]) == (
        4,
        "auth",
        "MissingSubscriptionRegistration",
    )
    assert len(failed.error["attempts"]) == 1
    assert f"az provider register --namespace {namespaces[0]}," in failed.error["hint"]
    assert [event for event in cli.sandbox.ledger() if event["kind"] == "instance"] == []
    assert failed.error["left"] == []


def test_a_price_above_the_limit_since_the_snapshot_stops_everything_before_it_begins(cli: Shell) -> None:
    cli.sandbox.price(factor="2")
    refused = cli("launch", *T4, "--max-price", "0.60", "--yes", "--json")
    assert refused.code == 7
    assert refused.error["class"] == "price"
    assert "1.052" in refused.error["message"], "today's price is named"
    assert cli.changes_asked() == []
    assert cli.boxes("--all") == []


def test_a_limit_holds_where_only_today_shows_that_every_place_grew_dearer(cli: Shell) -> None:
    """A limit above the snapshot's price of many places, and below today's of all: none is bought unasked."""
    cli.sandbox.price(factor="3")
    refused = cli("launch", *T4, "--max-price", "1.20", "--yes", "--json")
    assert refused.code == 7
    assert cli.changes_asked() == []


def test_where_only_one_place_grew_dearer_the_launch_goes_to_another(cli: Shell) -> None:
    cli.sandbox.price(region="us-east-1", factor="1.5")
    box = cli.launch(*T4, "--max-price", "0.60")
    assert box["region"] != "us-east-1"
    assert Decimal(box["price"]["amount"]) <= Decimal("0.60")


def test_a_price_that_fell_today_is_the_one_that_counts(cli: Shell) -> None:
    cli.sandbox.price(region="eu-west-1", instance_type="g4dn.xlarge", amount="0.111")
    ran = cli("launch", *T4, "--yes", "--json")
    assert (ran.box["region"], ran.box["price"]["amount"]) == ("eu-west-1", "0.111")
    assert "0.111 USD per hour today, 0.587 on" in ran.err, "the difference is shown"
    assert cli.billed()[0]["price"]["amount"] == "0.111"


def test_a_spot_price_above_the_limit_at_the_last_moment_is_never_paid(cli: Shell) -> None:
    """The limit is also the bid: what moved after the quote is refused by the cloud itself."""
    first = planned(cli, *T4, "--spot", "--max-price", "0.195")[0]
    cli.sandbox.fault(
        effect="error", action="RunInstances", code="SpotMaxPriceTooLow", status=400,
        message="Your Spot request price of 0.195 is lower than the minimum required.",
    )  # fmt: skip
    box = cli.launch(*T4, "--spot", "--max-price", "0.195")
    assert place(box) != place(first)
    assert Decimal(box["price"]["amount"]) <= Decimal("0.195")


def test_a_quota_in_one_region_sends_the_launch_to_the_next_region(cli: Shell) -> None:
    cli.sandbox.cloud("aws", "deny", actions=["servicequotas:*"])  # else it is not even tried
    cli.sandbox.cloud("aws", "quota", region="us-east-1", code=G_ON_DEMAND, value=0)
    ran = cli("launch", *T4, "--yes", "--json")
    assert ran.box["region"] == "us-east-2"
    refused = [line for line in ran.err.splitlines() if "VcpuLimitExceeded" in line]
    assert len(refused) == 1, "one refusal is enough for all zones of a region"


def test_a_quota_that_only_the_launch_meets_is_told_with_how_to_ask_for_more(cli: Shell) -> None:
    """The cloud's list of quotas says that there is room, and its machines call says that there is none."""
    rule = {"cloud": "aws", "action": "RunInstances", "effect": "error", "code": "VcpuLimitExceeded"}
    cli.sandbox.fault(**rule, times=20)
    place = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--on-demand")
    refused = cli("launch", *place, "--yes", "--json")
    assert (refused.code, refused.error["code"]) == (6, "VcpuLimitExceeded")
    assert f"(quota {G_ON_DEMAND}, us-east-1)" in refused.error["hint"]
    assert f"--quota-code {G_ON_DEMAND} --region us-east-1 --desired-value " in refused.error["hint"]


def test_a_quota_everywhere_is_told_with_the_clouds_words(cli: Shell) -> None:
    cli.sandbox.cloud("aws", "deny", actions=["servicequotas:*"])
    cli.sandbox.cloud("aws", "quota", region="us-east-1", code=G_ON_DEMAND, value=0)
    refused = cli("launch", *T4, "--region", "us-east-1", "--yes", "--json")
    assert refused.code == 6
    assert refused.error["code"] == "VcpuLimitExceeded"
    assert refused.error["request_id"]
    assert nothing_was_started(cli)


def test_credentials_that_the_cloud_refuses_are_told_and_nothing_is_tried(cli: Shell) -> None:
    environment = {**cli.endpoint.environ, "AWS_SECRET_ACCESS_KEY": "wrong", "GPUCLOUD_SANDBOX": "0"}
    environment["GPUCLOUD_JOURNAL"] = ""  # with --journal, that of this test is for the sandbox
    refused = cli("launch", *T4, "--yes", "--json", **environment)
    assert refused.code == 4
    assert refused.error["class"] == "auth"
    assert refused.error["code"] == "SignatureDoesNotMatch"
    assert cli.changes_asked() == []
    assert "wrong" not in refused.out + refused.err


def test_a_missing_permission_ends_the_launch_and_leaves_nothing(cli: Shell) -> None:
    cli.sandbox.fault(
        effect="error", action="RunInstances", times=None, code="UnauthorizedOperation", status=403,
        message="You are not authorized to perform this operation.",
    )  # fmt: skip
    refused = cli("launch", *T4, "--yes", "--json")
    assert refused.code == 4
    assert refused.error["code"] == "UnauthorizedOperation"
    assert len(refused.error["attempts"]) == 1, "another zone would not help"
    assert nothing_was_started(cli)


def test_a_cloud_that_is_busy_is_asked_again_and_gives_one_box(cli: Shell) -> None:
    cli.sandbox.fault(effect="throttle", action="RunInstances", times=2)
    cli.sandbox.fault(effect="throttle", action="DescribeSubnets", times=1)
    cli.sandbox.fault(effect="error", action="CreateSecurityGroup", times=1, code="InternalError", status=500)
    box = cli.launch(*T4)
    assert [entry["id"] for entry in cli.billed()] == [box["nodes"][0]["instance_id"]]


def test_capacity_that_is_held_is_found_wherever_it_is(cli: Shell) -> None:
    """A place where nobody would buy, of a type whose zones the price data does not know."""
    place = {"region": "ap-southeast-1", "zone": "apse1-az2", "instance_type": "p3.2xlarge"}
    cli.sandbox.cloud("aws", "reserve", **place)
    box = cli.launch("--gpu", "V100:1", "--reserved")
    assert {key: box[key] for key in place} == place
    assert box["purchase"] == "reserved"


def test_held_capacity_is_used_before_anything_is_bought(cli: Shell) -> None:
    """On demand it would be cheaper elsewhere; what is held is paid for whether it is used or not."""
    place = {"region": "ap-southeast-1", "zone": "apse1-az2", "instance_type": "p3.2xlarge"}
    cli.sandbox.cloud("aws", "reserve", **place)
    both = ("--gpu", "V100:1", "--purchase", "reserved,on-demand,spot", "--cloud", "aws")
    first, second = cli.launch(*both, "--name", "held"), cli.launch(*both, "--name", "bought")
    assert ({key: first[key] for key in place}, first["purchase"]) == (place, "reserved")
    assert second["purchase"] == "spot"


def test_capacity_that_is_held_for_fewer_nodes_than_asked_is_not_used(cli: Shell) -> None:
    cli.sandbox.cloud("aws", "reserve", region="us-east-1", zone="use1-az2", instance_type="g4dn.xlarge")
    refused = cli("launch", *T4, "--reserved", "--nodes", "2", "--yes", "--json")
    assert refused.code == 3
    assert cli.changes_asked() == []

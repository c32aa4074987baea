"""Networks, switches and groups of the emulated Alibaba Cloud, their tags, and what they are sold for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpucloud_sandbox import connect
from tests.sandbox.alibaba_lab import HERE, REGION, RULE, TAG, TYPE, ZONE, Alibaba


def rules(alibaba: Alibaba, group: str, **asked: str) -> list[dict[str, Any]]:
    shown = alibaba.ask("DescribeSecurityGroupAttribute", SecurityGroupId=group, **asked)
    found: list[dict[str, Any]] = shown["Permissions"]["Permission"]
    return found


# --- networks


@pytest.mark.parametrize(
    ("action", "changes", "code"),
    [
        ("CreateVpc", {"CidrBlock": "8.8.0.0/16"}, "InvalidCidrBlock.Malformed"),
        ("CreateVpc", {"CidrBlock": "10.0.0.1"}, "InvalidCidrBlock.Malformed"),
        ("CreateVSwitch", {"CidrBlock": "10.99.0.0/20"}, "InvalidCidrBlock.Malformed"),
        ("CreateVSwitch", {"CidrBlock": "10.42.0.0/20"}, "InvalidCidrBlock.Overlapped"),
        ("CreateVSwitch", {"ZoneId": "us-east-1z"}, "InvalidZoneId.NotFound"),
        ("CreateVSwitch", {"VpcId": "vpc-nothing"}, "InvalidVpcId.NotFound"),
        ("DeleteVpc", {"VpcId": "vpc-nothing"}, "InvalidVpcId.NotFound"),
        ("DeleteVSwitch", {"VSwitchId": "vsw-nothing"}, "InvalidVSwitchId.NotFound"),
    ],
)
def test_networks_that_the_cloud_refuses_are_refused(
    alibaba: Alibaba, action: str, changes: dict[str, str], code: str
) -> None:
    switch = {"VpcId": alibaba.make_network().vpc, "ZoneId": ZONE, "CidrBlock": "10.42.16.0/20"}
    parameters = {**switch, **changes} if action == "CreateVSwitch" else changes
    assert alibaba.refused(action, "vpc", **parameters)[0] == code


def test_an_account_has_ten_networks_in_a_region(alibaba: Alibaba) -> None:
    for _ in range(10):
        alibaba.ask("CreateVpc", "vpc", CidrBlock="10.42.0.0/16")
    assert alibaba.refused("CreateVpc", "vpc", CidrBlock="10.42.0.0/16") == ("QuotaExceeded.Vpc", 400)
    assert alibaba.ask("CreateVpc", "vpc", CidrBlock="10.42.0.0/16", RegionId="eu-central-1")["VpcId"]


def test_the_same_token_makes_the_same_network(alibaba: Alibaba) -> None:
    made = {alibaba.ask("CreateVpc", "vpc", CidrBlock="10.42.0.0/16", ClientToken="t")["VpcId"] for _ in "ab"}
    assert len(made) == 1
    assert alibaba.ask("DescribeVpcs", "vpc")["TotalCount"] == 1


def test_what_holds_on_to_something_goes_first(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    id_ = alibaba.launch(network)
    group, switch, vpc = (
        {"SecurityGroupId": network.group},
        {"VSwitchId": network.vswitch},
        {"VpcId": network.vpc},
    )
    assert alibaba.refused("DeleteSecurityGroup", **group) == ("DependencyViolation", 403)
    assert alibaba.refused("DeleteVSwitch", "vpc", **switch)[0] == "DependencyViolation"
    alibaba.ask("DeleteInstance", InstanceId=id_, Force=True)
    assert alibaba.refused("DeleteVpc", "vpc", **vpc)[0] == "DependencyViolation.VSwitch"
    alibaba.ask("DeleteVSwitch", "vpc", **switch)
    assert alibaba.refused("DeleteVpc", "vpc", **vpc)[0] == "DependencyViolation.SecurityGroup"
    alibaba.ask("DeleteSecurityGroup", **group)
    alibaba.ask("DeleteVpc", "vpc", **vpc)
    assert alibaba.ask("DescribeVpcs", "vpc")["Vpcs"]["Vpc"] == []


# --- groups


def test_a_rule_is_there_once_and_is_taken_back_by_what_it_says_or_by_its_id(alibaba: Alibaba) -> None:
    group = {"SecurityGroupId": alibaba.make_network().group}
    alibaba.ask("AuthorizeSecurityGroup", **group, Permissions=[RULE])
    [rule] = rules(alibaba, group["SecurityGroupId"])
    assert (rule["SourceCidrIp"], rule["PortRange"], rule["Policy"]) == (HERE, "22/22", "Accept")
    alibaba.ask("RevokeSecurityGroup", **group, SecurityGroupRuleId=[rule["SecurityGroupRuleId"]])
    assert rules(alibaba, group["SecurityGroupId"]) == []
    alibaba.ask("AuthorizeSecurityGroup", **group, Permissions=[RULE])
    alibaba.ask("RevokeSecurityGroup", **group, Permissions=[RULE])
    alibaba.ask("RevokeSecurityGroup", **group, Permissions=[RULE])
    assert rules(alibaba, group["SecurityGroupId"]) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"IpProtocol": "SCTP"}, "InvalidIpProtocol.Malformed"),
        ({"Policy": "maybe"}, "InvalidPolicy.Malformed"),
        ({"Priority": "0"}, "InvalidPriority.Malformed"),
        ({"PortRange": "22"}, "InvalidIpPortRange.Malformed"),
        ({"PortRange": "22/21"}, "InvalidIpPortRange.Malformed"),
        ({"SourceCidrIp": "here"}, "InvalidSourceCidrIp.Malformed"),
        ({"SourceCidrIp": None}, "MissingParameter.Source"),
        ({"SourceCidrIp": "0.0.0.0/0"}, "Forbidden.RAM"),
        ({"SourceCidrIp": None, "Ipv6SourceCidrIp": "::/0"}, "Forbidden.RAM"),
    ],
)
def test_rules_that_are_wrong_or_let_in_the_world_are_refused(
    alibaba: Alibaba, changes: dict[str, Any], code: str
) -> None:
    group = alibaba.make_network().group
    rule = {name: value for name, value in {**RULE, **changes}.items() if value is not None}
    asked: dict[str, Any] = {"SecurityGroupId": group, "Permissions": [rule]}
    assert alibaba.refused("AuthorizeSecurityGroup", **asked)[0] == code
    assert len(rules(alibaba, group)) == 1


def test_rules_that_add_up_to_the_world_are_refused_unless_they_keep_it_out(alibaba: Alibaba) -> None:
    group = alibaba.make_network().group

    def asked(source: str, **changes: str) -> dict[str, Any]:
        return {"SecurityGroupId": group, "Permissions": [{**RULE, "SourceCidrIp": source, **changes}]}

    alibaba.ask("AuthorizeSecurityGroup", **asked("0.0.0.0/0", Policy="drop"))
    alibaba.ask("AuthorizeSecurityGroup", **asked("0.0.0.0/2"))
    assert alibaba.refused("AuthorizeSecurityGroup", **asked("64.0.0.0/2"))[0] == "Forbidden.RAM"
    assert len(rules(alibaba, group)) == 3


OUT: dict[str, Any] = {"IpProtocol": "TCP", "PortRange": "443/443", "DestCidrIp": "0.0.0.0/0"}


def test_rules_out_are_kept_apart_from_rules_in(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    group = {"SecurityGroupId": network.group}
    for _ in "ab":
        alibaba.ask("AuthorizeSecurityGroupEgress", **group, Permissions=[OUT])
    [rule] = rules(alibaba, network.group, Direction="egress")
    assert (rule["DestCidrIp"], rule["PortRange"], rule["SourceCidrIp"]) == ("0.0.0.0/0", "443/443", "")
    assert [each["SourceCidrIp"] for each in rules(alibaba, network.group, Direction="ingress")] == [HERE]
    assert len(rules(alibaba, network.group)) == 2
    id_: dict[str, Any] = {"SecurityGroupRuleId": [rule["SecurityGroupRuleId"]]}
    alibaba.ask("RevokeSecurityGroup", **group, **id_)
    assert len(rules(alibaba, network.group)) == 2, "the id is of a rule out"
    alibaba.ask("RevokeSecurityGroupEgress", **group, **id_)
    alibaba.ask("AuthorizeSecurityGroupEgress", **group, **OUT, Policy="drop", Priority="2")
    alibaba.ask("RevokeSecurityGroupEgress", **group, **OUT, Policy="drop", Priority="2")
    assert rules(alibaba, network.group, Direction="egress") == []


def knock(alibaba: Alibaba, address: str) -> str:
    """What a connection to ssh ends with: the machines here have no inside that would answer."""
    program = Path(connect.__file__)
    ran = subprocess.run(
        [sys.executable, program, alibaba.endpoint.folder, address, "22"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stderr


def test_a_rule_out_lets_nobody_in(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    alibaba.launch(network)
    [address] = alibaba.instances()[0]["PublicIpAddress"]["IpAddress"]
    assert "connection refused" in knock(alibaba, address), "it is let in, and nobody answers"
    alibaba.ask("RevokeSecurityGroup", SecurityGroupId=network.group, Permissions=[RULE])
    everything = {"IpProtocol": "ALL", "PortRange": "-1/-1", "DestCidrIp": HERE}
    alibaba.ask("AuthorizeSecurityGroupEgress", SecurityGroupId=network.group, Permissions=[everything])
    assert "timed out" in knock(alibaba, address)


@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"DestCidrIp": None}, "MissingParameter.Dest", 400),
        ({"DestCidrIp": "there"}, "InvalidDestCidrIp.Malformed", 400),
        ({"Ipv6DestCidrIp": "there"}, "InvalidParam.Ipv6DestCidrIp", 400),
        ({"DestGroupId": "sg-nothing"}, "InvalidDestGroupId.NotFound", 404),
        ({"DestGroupId": "itself"}, "InvalidParamter.Conflict", 400),
        ({"DestGroupId": "elsewhere"}, "InvalidDestGroupId.Mismatch", 400),
        ({"SourceCidrIp": HERE}, "UnsupportedOperation", 400),
    ],
)
def test_rules_out_that_the_cloud_refuses_are_refused(
    alibaba: Alibaba, changes: dict[str, Any], code: str, status: int
) -> None:
    groups = {"itself": alibaba.make_network().group, "elsewhere": alibaba.make_network().group}
    rule = {name: value for name, value in {**OUT, **changes}.items() if value is not None}
    rule["DestGroupId"] = groups.get(rule.get("DestGroupId", ""), rule.get("DestGroupId", ""))
    asked: dict[str, Any] = {"SecurityGroupId": groups["itself"], "Permissions": [rule]}
    assert alibaba.refused("AuthorizeSecurityGroupEgress", **asked) == (code, status)
    assert rules(alibaba, groups["itself"], Direction="egress") == []


@pytest.mark.parametrize(
    ("action", "product", "given"),
    [
        ("CreateVpc", "vpc", {"CidrBlock": "10.43.0.0/16", "VpcName": "http://x"}),
        ("CreateVpc", "vpc", {"CidrBlock": "10.43.0.0/16", "VpcName": "x" * 129}),
        ("CreateSecurityGroup", "ecs", {"SecurityGroupName": "x"}),
        ("CreateSecurityGroup", "ecs", {"SecurityGroupName": "1x"}),
        ("CreateSecurityGroup", "ecs", {"Description": "https://x"}),
    ],
)
def test_names_that_the_cloud_does_not_take_are_refused(
    alibaba: Alibaba, action: str, product: str, given: dict[str, str]
) -> None:
    member = next(name for name in given if name != "CidrBlock")
    assert alibaba.refused(action, product, **given) == (f"Invalid{member}.Malformed", 400)


# --- elastic addresses


def test_an_elastic_address_is_billed_until_it_is_released(alibaba: Alibaba) -> None:
    kind: dict[str, Any] = {"InternetChargeType": "PayByTraffic", "Tag": TAG, "ClientToken": "t"}
    made = alibaba.ask("AllocateEipAddress", "vpc", **kind)
    assert alibaba.ask("AllocateEipAddress", "vpc", **kind)["AllocationId"] == made["AllocationId"]
    eip = {"AllocationId": made["AllocationId"]}
    assert alibaba.billed() == ["address"]
    id_ = alibaba.launch(InternetMaxBandwidthOut=0)
    pair = {**eip, "InstanceId": id_, "InstanceType": "EcsInstance"}
    alibaba.ask("AssociateEipAddress", "vpc", **pair)
    [instance] = alibaba.instances()
    assert instance["EipAddress"]["IpAddress"] == made["EipAddress"]
    assert instance["PublicIpAddress"]["IpAddress"] == []
    assert alibaba.refused("AssociateEipAddress", "vpc", **pair) == ("IncorrectEipStatus", 400)
    assert alibaba.refused("ReleaseEipAddress", "vpc", **eip) == ("IncorrectEipStatus", 400)
    alibaba.ask("UnassociateEipAddress", "vpc", **pair)
    alibaba.ask("AssociateEipAddress", "vpc", **pair)
    alibaba.ask("DeleteInstance", InstanceId=id_, Force=True)
    [shown] = alibaba.ask("DescribeEipAddresses", "vpc", Tag=TAG[:1])["EipAddresses"]["EipAddress"]
    assert (shown["Status"], shown["InstanceId"]) == ("Available", "")
    assert alibaba.billed() == ["address"]
    alibaba.ask("ReleaseEipAddress", "vpc", **eip)
    assert alibaba.billed() == []
    assert alibaba.refused("ReleaseEipAddress", "vpc", **eip) == ("InvalidAllocationId.NotFound", 404)


def test_an_instance_has_one_public_address_and_none_is_paid_by_bandwidth(alibaba: Alibaba) -> None:
    kind: dict[str, Any] = {"InternetChargeType": "PayByTraffic", "Tag": TAG}
    made = alibaba.ask("AllocateEipAddress", "vpc", **kind)["AllocationId"]
    pair = {"AllocationId": made, "InstanceId": alibaba.launch()}
    assert alibaba.refused("AssociateEipAddress", "vpc", **pair)[0] == "InvalidAssociation.Duplicated"
    assert alibaba.refused("AllocateEipAddress", "vpc", Tag=TAG) == ("UnsupportedOperation", 400)
    assert alibaba.refused("AllocateEipAddress", "vpc", **{**kind, "Tag": None})[0] == "Forbidden.RAM"


# --- tags


def test_everything_is_found_by_its_tags(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    id_ = alibaba.launch(network)
    alibaba.ask("CreateVpc", "vpc", CidrBlock="10.43.0.0/16")
    wanted = [{"Key": "gpucloud:box", "Value": "b"}]
    other = [{"Key": "gpucloud:box", "Value": "c"}]
    assert [each["InstanceId"] for each in alibaba.instances(Tag=wanted)] == [id_]
    assert alibaba.instances(Tag=other) == []
    [vpc] = alibaba.ask("DescribeVpcs", "vpc", Tag=wanted)["Vpcs"]["Vpc"]
    assert vpc["VpcId"] == network.vpc
    [switch] = alibaba.ask("DescribeVSwitches", "vpc", Tag=wanted)["VSwitches"]["VSwitch"]
    assert switch["VSwitchId"] == network.vswitch
    [group] = alibaba.ask("DescribeSecurityGroups", Tag=wanted)["SecurityGroups"]["SecurityGroup"]
    assert group["SecurityGroupId"] == network.group
    assert len(alibaba.ask("DescribeDisks", Tag=wanted)["Disks"]["Disk"]) == 1


def test_tags_can_be_changed_afterwards(alibaba: Alibaba) -> None:
    vpc = {"ResourceType": "VPC", "ResourceId": [alibaba.make_network().vpc]}
    alibaba.ask("TagResources", "vpc", **vpc, Tag=[{"Key": "colour", "Value": "red"}])
    listed = alibaba.ask("ListTagResources", "vpc", **vpc)["TagResources"]["TagResource"]
    assert {each["TagKey"] for each in listed} == {"colour", *(tag["Key"] for tag in TAG)}
    alibaba.ask("UnTagResources", "vpc", **vpc, TagKey=["colour"])
    assert len(alibaba.ask("ListTagResources", "vpc", **vpc)["TagResources"]["TagResource"]) == len(TAG)


# --- prices


def test_a_price_that_moves_is_told(alibaba: Alibaba) -> None:
    asked = {"InstanceType": TYPE, "PriceUnit": "Hour", "ZoneId": ZONE}

    def price(**more: Any) -> float:
        told: float = alibaba.ask("DescribePrice", **asked, **more)["PriceInfo"]["Price"]["TradePrice"]
        return told

    before, spot = price(), price(SpotStrategy="SpotAsPriceGo")
    assert 0 < spot < before
    alibaba.sandbox.price(cloud="alibaba", instance_type=TYPE, purchase="on_demand", factor="2")
    assert price() == pytest.approx(2 * before)
    assert price(SpotStrategy="SpotAsPriceGo") == spot


def test_prices_are_told_for_what_is_sold(alibaba: Alibaba) -> None:
    refused = alibaba.refused("DescribePrice", InstanceType="ecs.none", PriceUnit="Hour")
    assert refused == ("InvalidInstanceType.ValueNotSupported", 403)
    assert alibaba.refused("DescribePrice", PriceUnit="Hour")[0] == "MissingParameter"


def test_the_history_of_spot_prices_is_per_zone(alibaba: Alibaba) -> None:
    found = alibaba.ask("DescribeSpotPriceHistory", NetworkType="vpc", InstanceType=TYPE)
    rows = found["SpotPrices"]["SpotPriceType"]
    assert {row["InstanceType"] for row in rows} == {TYPE}
    assert all(0 < row["SpotPrice"] <= row["OriginPrice"] for row in rows)
    assert found["Currency"] == "CNY"
    alone = alibaba.ask("DescribeSpotPriceHistory", NetworkType="vpc", InstanceType=TYPE, ZoneId=ZONE)
    assert {row["ZoneId"] for row in alone["SpotPrices"]["SpotPriceType"]} == {ZONE}


def test_what_is_out_of_stock_is_shown_so(alibaba: Alibaba) -> None:
    asked = {"DestinationResource": "InstanceType", "InstanceType": TYPE, "ZoneId": ZONE}

    def shown() -> str:
        found = alibaba.ask("DescribeAvailableResource", **asked)
        [zone] = found["AvailableZones"]["AvailableZone"]
        resource = zone["AvailableResources"]["AvailableResource"][0]
        return str(resource["SupportedResources"]["SupportedResource"][0]["Status"])

    assert shown() == "Available"
    alibaba.sandbox.stock(cloud="alibaba", region=REGION, zone=ZONE, instance_type=TYPE, count=0)
    assert shown() == "SoldOut"

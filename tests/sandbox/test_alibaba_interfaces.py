"""Network interfaces of the emulated Alibaba Cloud, eRDMA interfaces among them."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import Any

import pytest

from gpucloud_sandbox.market import Catalog
from tests.sandbox.alibaba_lab import TAG, Alibaba, Network

TWO = "ecs.gn6i-c4g1.xlarge"
"""Takes two interfaces, and no eRDMA."""

SECOND = {"InstanceType": "Secondary"}
RDMA = "ecs.ebmgn7ix.32xlarge"


def make(alibaba: Alibaba, network: Network, **changes: Any) -> str:
    asked = {"VSwitchId": network.vswitch, "SecurityGroupId": network.group, **changes}
    id_: str = alibaba.ask("CreateNetworkInterface", **asked)["NetworkInterfaceId"]
    return id_


def shown(alibaba: Alibaba, **asked: Any) -> list[dict[str, Any]]:
    answer = alibaba.ask("DescribeNetworkInterfaces", **asked)
    found: list[dict[str, Any]] = answer["NetworkInterfaceSets"]["NetworkInterfaceSet"]
    return found


def test_an_interface_is_made_attached_detached_and_deleted_and_costs_nothing(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    instance = alibaba.launch(network)
    billed = alibaba.billed()
    made = make(alibaba, network, ClientToken="t", NetworkInterfaceName="second", Tag=TAG)
    assert make(alibaba, network, ClientToken="t", NetworkInterfaceName="second", Tag=TAG) == made
    pair = {"NetworkInterfaceId": made, "InstanceId": instance}
    alibaba.ask("AttachNetworkInterface", **pair)
    primary, second = shown(alibaba, InstanceId=instance)
    assert (primary["Type"], second["Type"], second["Status"]) == ("Primary", "Secondary", "InUse")
    assert primary["PrivateIpAddress"] != second["PrivateIpAddress"]
    [seen] = alibaba.instances()
    assert len(seen["NetworkInterfaces"]["NetworkInterface"]) == 2
    assert alibaba.refused("AttachNetworkInterface", **pair) == ("InvalidOperation.InvalidEniState", 400)
    state = alibaba.refused("DeleteNetworkInterface", NetworkInterfaceId=made)
    assert state == ("InvalidOperation.InvalidEniState", 400)
    alibaba.ask("DetachNetworkInterface", **pair)
    [free] = shown(alibaba, NetworkInterfaceId=[made])
    assert (free["Status"], free["InstanceId"]) == ("Available", "")
    alibaba.ask("DeleteNetworkInterface", NetworkInterfaceId=made)
    assert shown(alibaba, NetworkInterfaceId=[made]) == []
    assert alibaba.billed() == billed


def test_attaching_and_detaching_take_a_while(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    pair = {"InstanceId": alibaba.launch(network), "NetworkInterfaceId": make(alibaba, network)}
    alibaba.sandbox.pace(transition_s=60)
    for action, during, after in (
        ("AttachNetworkInterface", "Attaching", "InUse"),
        ("DetachNetworkInterface", "Detaching", "Available"),
    ):
        alibaba.ask(action, **pair)
        assert shown(alibaba, NetworkInterfaceId=[pair["NetworkInterfaceId"]])[0]["Status"] == during
        alibaba.sandbox.clock(advance_s=61)
        assert shown(alibaba, NetworkInterfaceId=[pair["NetworkInterfaceId"]])[0]["Status"] == after


def test_an_interface_goes_with_its_instance_unless_it_is_kept(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    kinds = {"goes": True, "stays": False}
    ids = {name: make(alibaba, network, DeleteOnRelease=value) for name, value in kinds.items()}
    instance = alibaba.launch(network, InstanceType="ecs.gn6i-c24g1.12xlarge")
    for id_ in ids.values():
        alibaba.ask("AttachNetworkInterface", InstanceId=instance, NetworkInterfaceId=id_)
    alibaba.ask("DeleteInstance", InstanceId=instance, Force=True)
    [left] = shown(alibaba)
    assert (left["NetworkInterfaceId"], left["Status"]) == (ids["stays"], "Available")
    switch = alibaba.refused("DeleteVSwitch", "vpc", VSwitchId=network.vswitch)
    assert switch == ("DependencyViolation", 400)
    alibaba.ask("DeleteNetworkInterface", NetworkInterfaceId=ids["stays"])
    alibaba.ask("DeleteVSwitch", "vpc", VSwitchId=network.vswitch)


def test_an_instance_takes_as_many_as_its_type_says(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    [type_] = alibaba.ask("DescribeInstanceTypes", InstanceTypes=[TWO])["InstanceTypes"]["InstanceType"]
    assert (type_["EniQuantity"], type_["EriQuantity"]) == (2, 0)
    instance = alibaba.launch(network, InstanceType=TWO)
    alibaba.ask("AttachNetworkInterface", InstanceId=instance, NetworkInterfaceId=make(alibaba, network))
    third = {"InstanceId": instance, "NetworkInterfaceId": make(alibaba, network)}
    assert alibaba.refused("AttachNetworkInterface", **third) == ("EniPerInstanceLimitExceeded", 403)
    order = alibaba.order(network, InstanceType=TWO, NetworkInterface=[SECOND, SECOND])
    refused = alibaba.refused("RunInstances", **order)
    assert refused == ("InvalidParameter.EniNumExceededWithLaunchEcs", 403)


@pytest.mark.parametrize(
    ("action", "changes", "code", "status"),
    [
        ("AttachNetworkInterface", {"NetworkInterfaceId": "eni-0"}, "InvalidEniId.NotFound", 404),
        ("AttachNetworkInterface", {"InstanceId": "i-0"}, "InvalidEcsId.NotFound", 404),
        ("DetachNetworkInterface", {}, "InvalidOperation.InvalidEniState", 400),
        ("CreateNetworkInterface", {"SecurityGroupId": "sg-0"}, "InvalidSecurityGroupId.NotFound", 404),
        ("CreateNetworkInterface", {"VSwitchId": "vsw-0"}, "InvalidVSwitchId.NotFound", 404),
        (
            "CreateNetworkInterface",
            {"PrimaryIpAddress": "10.9.9.9"},
            "InvalidPrivateIpAddress.Malformed",
            400,
        ),
        (
            "CreateNetworkInterface",
            {"NetworkInterfaceTrafficMode": "x"},
            "InvalidParameter.EniTrafficMode",
            403,
        ),
        ("CreateNetworkInterface", {"NetworkInterfaceName": "x"}, "InvalidParams.NetworkInterfaceName", 403),
        ("CreateNetworkInterface", {"InstanceType": "Trunk"}, "UnsupportedOperation", 400),
    ],
)
def test_what_the_cloud_refuses_is_refused(
    alibaba: Alibaba, action: str, changes: dict[str, str], code: str, status: int
) -> None:
    network = alibaba.make_network()
    made = {"VSwitchId": network.vswitch, "SecurityGroupId": network.group}
    if action != "CreateNetworkInterface":
        made = {"InstanceId": alibaba.launch(network), "NetworkInterfaceId": make(alibaba, network)}
    assert alibaba.refused(action, **{**made, **changes}) == (code, status)


def test_a_primary_interface_stays_where_it_is(alibaba: Alibaba) -> None:
    instance = alibaba.launch()
    [primary] = shown(alibaba, InstanceId=instance)
    pair = {"InstanceId": instance, "NetworkInterfaceId": primary["NetworkInterfaceId"]}
    detached = alibaba.refused("DetachNetworkInterface", **pair)
    assert detached == ("InvalidOperation.DetachPrimaryEniNotAllowed", 400)
    assert alibaba.refused("AttachNetworkInterface", **pair)[0] == "InvalidOperation.InvalidEniType"


def test_an_interface_stays_in_its_zone_and_network(alibaba: Alibaba) -> None:
    instance = alibaba.launch()
    elsewhere = make(alibaba, alibaba.make_network("us-east-1b"))
    pair = {"InstanceId": instance, "NetworkInterfaceId": elsewhere}
    refused = alibaba.refused("AttachNetworkInterface", **pair)
    assert refused == ("InvalidOperation.AvailabilityZoneMismatch", 403)
    pair["NetworkInterfaceId"] = make(alibaba, alibaba.make_network())
    assert alibaba.refused("AttachNetworkInterface", **pair) == ("InvalidOperation.VpcMismatch", 403)


# --- launches with several


def test_a_launch_has_the_interfaces_that_it_asks_for(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    primary = {
        "InstanceType": "Primary",
        "VSwitchId": network.vswitch,
        "SecurityGroupIds": [network.group],
        "PrimaryIpAddress": "10.42.0.9",
    }
    kept = {"NetworkInterfaceName": "kept", "DeleteOnRelease": False}
    order = alibaba.order(network, VSwitchId=None, SecurityGroupId=None, NetworkInterface=[kept, primary])
    twice = alibaba.refused("RunInstances", **{**order, "VSwitchId": network.vswitch})
    assert twice == ("InvalidParameter.Combination", 403)
    [id_] = alibaba.ask("RunInstances", **order)["InstanceIdSets"]["InstanceIdSet"]
    first, second = shown(alibaba, InstanceId=id_)
    assert (first["Type"], first["PrivateIpAddress"]) == ("Primary", "10.42.0.9")
    assert (second["NetworkInterfaceName"], second["VSwitchId"]) == ("kept", network.vswitch)
    assert (bool(first["Tags"]["Tag"]), bool(second["Tags"]["Tag"])) == (True, False)
    alibaba.ask("DeleteInstance", InstanceId=id_, Force=True)
    assert [each["NetworkInterfaceName"] for each in shown(alibaba)] == ["kept"]


def test_all_interfaces_of_several_instances_have_addresses_of_their_own(alibaba: Alibaba) -> None:
    alibaba.launch(Amount=3, NetworkInterface=[SECOND])
    addresses = [each["PrivateIpAddress"] for each in shown(alibaba)]
    assert len(addresses) == len(set(addresses)) == 6


# --- eRDMA


def test_erdma_interfaces_need_a_type_that_has_them(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    fast = {"NetworkInterfaceTrafficMode": "HighPerformance"}
    code = "InvalidOperation.InstanceTypeNotSupportHighPerformanceTrafficMode"
    order = alibaba.order(network, NetworkInterface=[fast])
    assert alibaba.refused("RunInstances", **order) == (code, 403)
    pair = {"InstanceId": alibaba.launch(network), "NetworkInterfaceId": make(alibaba, network, **fast)}
    assert alibaba.refused("AttachNetworkInterface", **pair) == (code, 403)
    card = alibaba.refused(
        "AttachNetworkInterface",
        InstanceId=pair["InstanceId"],
        NetworkInterfaceId=make(alibaba, network),
        NetworkCardIndex=0,
    )
    assert card == ("InvalidParameter.NetworkCardIndexInvalid", 400)


FAST: dict[str, Any] = {"NetworkInterfaceTrafficMode": "HighPerformance", "QueuePairNumber": 65536}


def fast_order(alibaba: Alibaba, *interfaces: Any) -> dict[str, Any]:
    """A launch of a machine with two network cards; the first interface is the primary one."""
    network = alibaba.make_network("cn-beijing-f", "cn-beijing")
    own = {"VSwitchId": network.vswitch, "SecurityGroupIds": [network.group]}
    first, *others = interfaces
    return alibaba.order(
        network,
        InstanceType=RDMA,
        RegionId="cn-beijing",
        ImageId=alibaba.image(region="cn-beijing"),
        VSwitchId=None,
        SecurityGroupId=None,
        NetworkInterface=[{"InstanceType": "Primary", **own, **first}, *others],
    )


def test_a_machine_with_two_network_cards_takes_two_erdma_interfaces(alibaba: Alibaba) -> None:
    order = fast_order(alibaba, {**FAST, "NetworkCardIndex": 0}, {**FAST, "NetworkCardIndex": 1})
    [id_] = alibaba.ask("RunInstances", **order)["InstanceIdSets"]["InstanceIdSet"]
    fast = shown(alibaba, RegionId="cn-beijing", InstanceId=id_)
    assert [each["NetworkInterfaceTrafficMode"] for each in fast] == ["HighPerformance"] * 2
    assert [each["Attachment"]["NetworkCardIndex"] for each in fast] == [0, 1]
    assert [each["QueuePairNumber"] for each in fast] == [65536] * 2
    [instance] = alibaba.instances(RegionId="cn-beijing")
    assert instance["PublicIpAddress"]["IpAddress"], "several interfaces do not exclude a public address"
    pair = {"RegionId": "cn-beijing", "InstanceId": id_, "NetworkInterfaceId": fast[1]["NetworkInterfaceId"]}
    hot = alibaba.refused("DetachNetworkInterface", **pair)
    assert hot == ("InvalidOperation.InvalidEcsState", 400), "it cannot be unplugged while the machine runs"
    alibaba.ask("StopInstance", InstanceId=id_, RegionId="cn-beijing")
    alibaba.ask("DetachNetworkInterface", **pair)


GREEDY = {**FAST, "QueuePairNumber": None}
NO_CARD = "InvalidParameter.NetworkCardIndexInvalid"
TOO_MANY = "InvalidOperation.HighPerformanceEniPerInstanceLimitExceeded"


@pytest.mark.parametrize(
    ("interfaces", "refusal"),
    [
        ([{}, *[{**FAST, "NetworkCardIndex": card} for card in (0, 1, 1)]], (TOO_MANY, 403)),
        ([FAST, {**FAST, "NetworkCardIndex": 2}], (NO_CARD, 400)),
        ([FAST, FAST], (NO_CARD, 400)),
        ([{**FAST, "NetworkCardIndex": 1}], (NO_CARD, 400)),
        ([FAST, {**GREEDY, "NetworkCardIndex": 1}], ("InvalidParameter.QueuePairNumber", 400)),
    ],
    ids=["three", "no such card", "one card", "primary on another", "all queue pairs"],
)
def test_erdma_interfaces_that_a_machine_does_not_take_together_are_refused(
    alibaba: Alibaba, interfaces: list[Any], refusal: tuple[str, int]
) -> None:
    assert alibaba.refused("RunInstances", **fast_order(alibaba, *interfaces)) == refusal
    assert alibaba.billed() == []


def test_every_type_of_the_market_has_its_row() -> None:
    with (files("gpucloud_sandbox.alibaba") / "interface_limits.csv").open(encoding="utf-8") as stream:
        known = {row["instance_type"] for row in csv.DictReader(stream)}
    assert set(Catalog("alibaba").types) - known == set()

"""RunInstances of the emulated Alibaba Cloud: what it makes, and all that it refuses."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from gpucloud_sandbox.review import Review
from tests.sandbox.alibaba_lab import REGION, SPOT, TYPE, ZONE, Alibaba, ClientException
from tests.sandbox.running import TAGS


def disk(**changes: Any) -> dict[str, Any]:
    asked = {"Category": "cloud_essd", "Size": 100, "Encrypted": True, **changes}
    return {name: value for name, value in asked.items() if value is not None}


NO_STOCK = ("OperationDenied.NoStock", 403)


def test_a_launch_gives_an_instance_with_disk_interface_address_and_tags(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    id_ = alibaba.launch(network)
    [instance] = alibaba.instances()
    assert (instance["InstanceId"], instance["Status"], instance["ZoneId"]) == (id_, "Running", ZONE)
    assert instance["InstanceChargeType"] == "PostPaid"
    assert {tag["TagKey"]: tag["TagValue"] for tag in instance["Tags"]["Tag"]} == TAGS
    assert instance["VpcAttributes"]["VSwitchId"] == network.vswitch
    assert instance["SecurityGroupIds"]["SecurityGroupId"] == [network.group]
    [address] = instance["PublicIpAddress"]["IpAddress"]
    [disk] = alibaba.ask("DescribeDisks", InstanceId=id_)["Disks"]["Disk"]
    assert (disk["Encrypted"], disk["Size"], disk["DeleteWithInstance"]) == (True, 100, True)
    [nic] = alibaba.ask("DescribeNetworkInterfaces", InstanceId=id_)["NetworkInterfaceSets"][
        "NetworkInterfaceSet"
    ]
    assert nic["PrivateIpAddress"] in instance["VpcAttributes"]["PrivateIpAddress"]["IpAddress"]
    billed = {entry["kind"]: entry for entry in alibaba.sandbox.status()["billing"]}
    assert set(billed) == {"address", "disk", "instance"}
    assert billed["address"]["id"] == address
    assert billed["instance"]["price"]["currency"] == "CNY"


def test_without_bandwidth_there_is_no_public_address(alibaba: Alibaba) -> None:
    alibaba.launch(InternetMaxBandwidthOut=0)
    [instance] = alibaba.instances()
    assert instance["PublicIpAddress"]["IpAddress"] == []
    assert alibaba.billed() == ["disk", "instance"]


def test_several_instances_have_names_and_hosts_of_their_own(alibaba: Alibaba) -> None:
    alibaba.launch(Amount=3, InstanceName="name", HostName="host", UniqueSuffix=True)
    names = [(each["InstanceName"], each["HostName"]) for each in alibaba.instances()]
    assert sorted(names) == [("name001", "host001"), ("name002", "host002"), ("name003", "host003")]
    assert len({each["PublicIpAddress"]["IpAddress"][0] for each in alibaba.instances()}) == 3


# --- the client token


def test_the_same_token_makes_the_same_instances(alibaba: Alibaba) -> None:
    order = alibaba.order(ClientToken="t", Amount=2)
    first, second = (alibaba.ask("RunInstances", **order)["InstanceIdSets"] for _ in range(2))
    assert first == second
    assert len(alibaba.instances()) == 2
    assert len(alibaba.instances(ClientToken="t")) == 2
    changed = {**order, "Amount": 1}
    assert alibaba.refused("RunInstances", **changed)[0] == "IdempotentParameterMismatch"


def test_a_dry_run_checks_everything_and_makes_nothing(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    passed = ("DryRunOperation", 400)
    assert alibaba.refused("RunInstances", **alibaba.order(network, DryRun=True)) == passed
    wrong = alibaba.order(network, DryRun=True, InstanceType="ecs.none")
    assert alibaba.refused("RunInstances", **wrong)[0] == "InvalidInstanceType.ValueNotSupported"
    assert alibaba.billed() == []


# --- refusals


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"InstanceType": None}, "MissingParameter.InstanceType"),
        ({"InstanceType": "ecs.gn9-nothing"}, "InvalidInstanceType.ValueNotSupported"),
        ({"ImageId": None}, "MissingParameter.ImageId"),
        ({"ImageId": "m-nothing"}, "InvalidImageId.NotFound"),
        ({"VSwitchId": None}, "MissingParameter.VSwitchId"),
        ({"VSwitchId": "vsw-nothing"}, "InvalidVSwitchId.NotFound"),
        ({"SecurityGroupId": None}, "MissingParameter.SecurityGroupId"),
        ({"SecurityGroupId": "sg-nothing"}, "InvalidSecurityGroupId.NotFound"),
        ({"ZoneId": "us-east-1b"}, "InvalidParameter.Mismatch"),
        ({"Amount": 0}, "InvalidParameter.Amount"),
        ({"Amount": 101}, "InvalidParameter.Amount"),
        ({"MinAmount": 2}, "InvalidParameter.Amount"),
        (
            {"SystemDisk": {"Category": "cloud", "Encrypted": True}},
            "InvalidSystemDiskCategory.ValueNotSupported",
        ),
        ({"SystemDisk": {"Size": "10", "Encrypted": True}}, "InvalidSystemDiskSize.LessThanImageSize"),
        ({"SystemDisk": {"Size": "4096", "Encrypted": True}}, "InvalidSystemDiskSize"),
        ({"SystemDisk": disk(PerformanceLevel="PL9")}, "InvalidPerformanceLevel.Malformed"),
        ({"SystemDisk": disk(PerformanceLevel="PL3")}, "InvalidSystemDiskSize"),
        ({"ImageId": "m-gpucloudimdsv1"}, "InvalidHttpTokens.NotSupported"),
        ({"UserData": "not base64!"}, "InvalidUserData.Base64FormatInvalid"),
        ({"UserData": base64.b64encode(bytes(32 * 1024 + 1)).decode()}, "InvalidUserData.SizeExceeded"),
        ({"SpotStrategy": "Cheap"}, "InvalidSpotStrategy"),
        ({"SpotStrategy": "SpotAsPriceGo"}, "InvalidSpotParam.EmptyZoneID"),
        ({**SPOT, "SpotDuration": 6}, "InvalidSpotDuration"),
        ({**SPOT, "SpotStrategy": "SpotWithPriceLimit"}, "InvalidSpotPriceLimit"),
        ({**SPOT, "SpotStrategy": "SpotWithPriceLimit", "SpotPriceLimit": 1.23456}, "InvalidSpotPriceLimit"),
        (
            {**SPOT, "SpotStrategy": "SpotWithPriceLimit", "SpotPriceLimit": 0.001},
            "InvalidSpotPriceLimit.LowerThanPublicPrice",
        ),
        ({"AutoReleaseTime": "tomorrow"}, "InvalidAutoReleaseTime.Malformed"),
        ({"AutoReleaseTime": timedelta(minutes=29)}, "InvalidAutoReleaseTime.Malformed"),
        ({"AutoReleaseTime": timedelta(days=3 * 366)}, "InvalidAutoReleaseTime.Malformed"),
        ({"KeyPairName": "nobodys"}, "InvalidKeyPairName.NotFound"),
        ({"InstanceName": "2nd"}, "InvalidInstanceName.Malformed"),
        ({"HostName": "-host"}, "InvalidHostName.Malformed"),
        ({"InternetMaxBandwidthOut": 101}, "InvalidInternetMaxBandwidthOut.ValueNotSupported"),
        ({"PrivateIpAddress": "10.42.16.1"}, "InvalidPrivateIpAddress.Malformed"),
        ({"PrivateIpAddress": "10.42.0.0"}, "InvalidPrivateIpAddress.Malformed"),
        ({"PrivateIpAddress": "10.42.15.252", "Amount": 2}, "InvalidPrivateIpAddress.Malformed"),
        ({"PrivateIpAddress": "here"}, "InvalidPrivateIpAddress.Malformed"),
        ({"DataDisk": [disk(Size=19)]}, "InvalidDataDiskSize.ValueNotSupported"),
        ({"DataDisk": [disk(Size=None)]}, "InvalidDataDiskSize.ValueNotSupported"),
        ({"DataDisk": [disk(PerformanceLevel="PL2")]}, "InvalidDataDiskSize.ValueNotSupported"),
        ({"DataDisk": [disk(Category="cloud")]}, "InvalidDataDiskCategory.ValueNotSupported"),
        ({"DataDisk": [disk()] * 17}, "InstanceDiskLimitExceeded"),
        ({"Tag": [{"Key": "acs:mine", "Value": ""}]}, "InvalidTagKey.Malformed"),
        ({"Tag": [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]}, "Duplicate.TagKey"),
        ({"Tag": [{"Key": f"k{n}", "Value": ""} for n in range(21)]}, "QuotaExceed.Tags"),
    ],
)
def test_what_the_cloud_refuses_is_refused_with_its_code(
    alibaba: Alibaba, changes: dict[str, Any], code: str
) -> None:
    moments = {
        name: alibaba.in_future(seconds=value.total_seconds())
        for name, value in changes.items()
        if isinstance(value, timedelta)
    }
    assert alibaba.refused("RunInstances", **alibaba.order(**{**changes, **moments}))[0] == code
    assert alibaba.billed() == []


def test_metadata_without_tokens_passes_only_for_an_image_that_takes_no_other(alibaba: Alibaba) -> None:
    alibaba.ask("RunInstances", **alibaba.order(ImageId="m-gpucloudimdsv1", HttpTokens="optional"))
    assert alibaba.billed() != []


@pytest.mark.parametrize(
    "changes",
    [
        {"InstanceChargeType": None},
        {"HttpTokens": "optional"},
        {"SystemDisk": {"Size": "100"}},
        {"DataDisk": [{"Size": 100}]},
        {"Tag": None},
    ],
)
def test_what_a_careful_reviewer_would_not_let_pass_is_refused(
    alibaba: Alibaba, changes: dict[str, Any]
) -> None:
    assert alibaba.refused("RunInstances", **alibaba.order(**changes)) == ("Forbidden.RAM", 403)
    assert alibaba.billed() == []


@pytest.mark.parametrize(
    ("changes", "member"),
    [
        ({"InstanceChargeType": "PrePaid"}, "InstanceChargeType=prepaid"),
        ({"AutoPay": True}, "AutoPay"),
        ({"Period": 1}, "Period"),
        ({"AutoRenew": True}, "AutoRenew"),
        ({**SPOT, "SpotInterruptionBehavior": "Stop"}, "SpotInterruptionBehavior=stop"),
    ],
)
def test_what_commits_to_pay_is_refused_whoever_asks(
    alibaba: Alibaba, changes: dict[str, Any], member: str
) -> None:
    alibaba.sandbox.review(Review.OFF)
    with pytest.raises(ClientException, match=f"does not emulate RunInstances: {member}"):
        alibaba.ask("RunInstances", **alibaba.order(**changes))
    assert alibaba.billed() == []


def test_a_launch_of_anybody_elses_has_the_clouds_defaults(alibaba: Alibaba) -> None:
    alibaba.sandbox.review(Review.OFF)
    ours = (
        "Tag",
        "InstanceChargeType",
        "HttpEndpoint",
        "HttpTokens",
        "SystemDisk",
        "InternetMaxBandwidthOut",
    )
    id_ = alibaba.launch(**dict.fromkeys(ours), DataDisk=[{"Size": 100}])
    [instance] = alibaba.instances()
    assert instance["MetadataOptions"]["HttpTokens"] == "optional"
    disks = alibaba.ask("DescribeDisks", InstanceId=id_)["Disks"]["Disk"]
    assert [(disk["Type"], disk["Size"], disk["Encrypted"]) for disk in disks] == [
        ("system", 40, False),
        ("data", 100, False),
    ]
    assert {disk["Category"] for disk in disks} == {"cloud_efficiency"}
    assert alibaba.billed() == ["disk", "disk", "instance"]


def test_private_addresses_are_given_from_the_one_asked_for_on(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    alibaba.launch(network, PrivateIpAddress="10.42.0.9", Amount=2)
    shown = {each["VpcAttributes"]["PrivateIpAddress"]["IpAddress"][0] for each in alibaba.instances()}
    assert shown == {"10.42.0.9", "10.42.0.10"}
    again = alibaba.order(network, PrivateIpAddress="10.42.0.10")
    assert alibaba.refused("RunInstances", **again) == ("InvalidIPAddress.AlreadyUsed", 403)


def test_the_parts_of_a_launch_belong_together(alibaba: Alibaba) -> None:
    network, other = alibaba.make_network(), alibaba.make_network()
    order = alibaba.order(network, SecurityGroupId=other.group)
    assert alibaba.refused("RunInstances", **order)[0] == "InvalidParameter.Mismatch"
    arm = alibaba.order(network, ImageId=alibaba.image("ubuntu_24_04_arm64"))
    assert alibaba.refused("RunInstances", **arm) == ("ImageNotSupportInstanceType", 403)


# --- the account's standing


@pytest.mark.parametrize(
    ("control", "values", "refusal"),
    [
        ("balance", {"enough": False}, ("InvalidAccountStatus.NotEnoughBalance", 403)),
        ("close", {"regions": [REGION]}, ("RegionUnauthorized", 403)),
        (
            "quota",
            {"region": REGION, "name": "max-postpaid-instance-vcpu-count", "value": 3},
            ("QuotaExceed.ElasticQuota", 403),
        ),
    ],
)
def test_an_account_that_may_not_buy_is_told_why(
    alibaba: Alibaba, control: str, values: dict[str, Any], refusal: tuple[str, int]
) -> None:
    order = alibaba.order()
    alibaba.sandbox.cloud("alibaba", control, **values)
    assert alibaba.refused("RunInstances", **order) == refusal
    assert alibaba.billed() == []


def test_the_mainland_wants_to_know_who_one_is(alibaba: Alibaba) -> None:
    alibaba.sandbox.cloud("alibaba", "real-name", verified=False)
    assert alibaba.launch()
    vpc = alibaba.ask("CreateVpc", "vpc", RegionId="cn-hangzhou", CidrBlock="10.42.0.0/16")["VpcId"]
    zone = alibaba.ask("DescribeZones", RegionId="cn-hangzhou")["Zones"]["Zone"][0]["ZoneId"]
    place = {"RegionId": "cn-hangzhou", "VpcId": vpc}
    switch = alibaba.ask("CreateVSwitch", "vpc", ZoneId=zone, CidrBlock="10.42.0.0/20", **place)["VSwitchId"]
    order = {**alibaba.order(), "RegionId": "cn-hangzhou", "VSwitchId": switch}
    assert alibaba.refused("RunInstances", **order)[0] == "RealNameAuthenticationError"


def test_quotas_can_be_read_with_what_is_used(alibaba: Alibaba) -> None:
    alibaba.sandbox.cloud("alibaba", "quota", region=REGION, name="max-spot-instance-vcpu-count", value=8)
    alibaba.launch(**SPOT)
    items = alibaba.ask("DescribeAccountAttributes")["AccountAttributeItems"]["AccountAttributeItem"]
    values = {item["AttributeName"]: item["AttributeValues"]["ValueItem"][0]["Value"] for item in items}
    assert values["max-spot-instance-vcpu-count"] == "8"
    assert values["used-spot-instance-vcpu-count"] == "4"
    quotas = alibaba.ask("ListProductQuotas", "quotas", ProductCode="ecs")["Quotas"]
    assert {(each["TotalQuota"], each["TotalUsage"]) for each in quotas} >= {(8, 4)}


# --- stock


def test_without_stock_a_launch_is_refused_and_its_token_is_spent(alibaba: Alibaba) -> None:
    order = alibaba.order(ClientToken="t")
    alibaba.sandbox.stock(cloud="alibaba", region=REGION, zone=ZONE, instance_type=TYPE, count=0)
    assert alibaba.refused("RunInstances", **order) == NO_STOCK
    alibaba.sandbox.stock(cloud="alibaba", region=REGION, zone=ZONE, instance_type=TYPE, count=5)
    assert alibaba.refused("RunInstances", **order) == NO_STOCK, "the same token, the same answer"
    assert alibaba.ask("RunInstances", **{**order, "ClientToken": "u"})["InstanceIdSets"]


def test_fewer_are_made_where_fewer_are_enough(alibaba: Alibaba) -> None:
    alibaba.sandbox.stock(cloud="alibaba", region=REGION, zone=ZONE, instance_type=TYPE, count=2)
    assert alibaba.refused("RunInstances", **alibaba.order(Amount=3)) == NO_STOCK
    alibaba.launch(Amount=3, MinAmount=1)
    assert len(alibaba.instances()) == 2


def test_ids_may_be_given_and_come_to_nothing(alibaba: Alibaba) -> None:
    alibaba.sandbox.cloud("alibaba", "vanish", instance_types=[TYPE])
    id_ = alibaba.launch()
    assert alibaba.status(id_) == "Pending"
    alibaba.sandbox.clock(advance_s=3)
    assert alibaba.status(id_) is None
    [event] = alibaba.ask("DescribeInstanceHistoryEvents", InstanceId=id_)["InstanceSystemEventSet"][
        "InstanceSystemEventType"
    ]
    assert event["EventType"]["Name"] == "SystemFailure.Delete"
    assert alibaba.billed() == []


def test_held_capacity_is_there_when_nothing_else_is(alibaba: Alibaba) -> None:
    place = {"region": REGION, "zone": ZONE, "instance_type": TYPE}
    pool = alibaba.sandbox.cloud("alibaba", "reserve", **place, count=1)
    alibaba.sandbox.stock(cloud="alibaba", region=REGION, zone=ZONE, instance_type=TYPE, count=0)
    network = alibaba.make_network()
    assert alibaba.refused("RunInstances", **alibaba.order(network)) == NO_STOCK
    target = {"PrivatePoolOptions": {"MatchCriteria": "Target", "Id": pool}}
    assert alibaba.launch(network, **target)
    full = ("Invalid.PrivatePoolOptions.NoStock", 403)
    assert alibaba.refused("RunInstances", **alibaba.order(network, **target)) == full
    assert len(alibaba.instances()) == 1
    unknown = {"PrivatePoolOptions": {"MatchCriteria": "Target", "Id": "crp-nothing"}}
    assert (
        alibaba.refused("RunInstances", **alibaba.order(network, **unknown))[0]
        == "Invalid.PrivatePoolOptions.Id"
    )

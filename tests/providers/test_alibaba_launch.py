"""Buying, looking and ending on Alibaba Cloud, with the real SDK over HTTP."""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.clouds.abilities import ConsoleLog, Deadlines, Firewall, Preflight
from gpucloud.errors import ErrorClass, Scope, UsageError
from gpucloud.resources import BadTags, Machine, Ref, Resource, ResourceKind, Search, State
from gpucloud_alibaba import network
from gpucloud_alibaba.descriptions import description_of, tags_in
from gpucloud_alibaba.errors import NoErdmaError, classify
from gpucloud_alibaba.models import ecs_models
from gpucloud_alibaba.placement import Erdma, interfaces, set_name
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_pricing.purchases import Purchase
from gpucloud_sandbox.client import SandboxClient
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.providers.alibaba_sandbox import alibaba, alibaba_environment, sandbox, wire
from tests.providers.alibaba_wire import (
    ACCOUNT,
    PROVEN,
    REQUEST_ID,
    Answer,
    Remembered,
    Wire,
    dry_run,
    order,
    ref,
    refusal,
)
from tests.providers.test_error_table import raised

__all__ = ["alibaba", "alibaba_environment", "sandbox", "wire"]

FIVE = {"gpucloud:owner", "gpucloud:box", "gpucloud:op", "gpucloud:run", "gpucloud:expires"}
NOW = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
IMAGES = [
    ("ubuntu_22_04_x64_20G_alibase_20260301.vhd", "2026-03-02T08:00:00Z"),
    ("ubuntu_22_04_x64_20G_alibase_20261015.vhd", "2026-10-16T08:00:00Z"),
    ("ubuntu_22_04_x64_20G_scc_alibase_20261101.vhd", "2026-11-02T08:00:00Z"),
    ("ubuntu_24_04_x64_20G_alibase_20261020.vhd", "2026-10-21T08:00:00Z"),
    ("aliyun_3_x64_20G_alibase_20260101.vhd", "2026-01-02T08:00:00Z"),
    ("m-bp1abcdefghij", "2026-05-01T08:00:00Z"),
]


def page(outer: str, inner: str, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {outer: {inner: list(items)}, "TotalCount": len(items), "RequestId": REQUEST_ID, **more}


def tags(name: tuple[str, str] = ("TagKey", "TagValue")) -> dict[str, Any]:
    """The five tags of the order, as ECS shows them; VPC calls the members ``Key`` and ``Value``."""
    key, value = name
    return {"Tag": [{key: k, value: v} for k, v in order().tags.as_dict().items()]}


def instance(**changes: Any) -> dict[str, Any]:
    """A running T4 as DescribeInstances shows it."""
    shown: dict[str, Any] = {
        "InstanceId": "i-1",
        "Status": "Running",
        "ZoneId": "cn-hangzhou-i",
        "InstanceType": "ecs.gn6i-c4g1.xlarge",
        "CreationTime": "2026-11-21T11:59Z",
        "SpotStrategy": "NoSpot",
        "PublicIpAddress": {"IpAddress": ["203.0.113.9"]},
        "VpcAttributes": {"PrivateIpAddress": {"IpAddress": ["10.42.8.3"]}},
        "NetworkInterfaces": {"NetworkInterface": [{"NetworkInterfaceId": "eni-1"}]},
        "OperationLocks": {"LockReason": []},
        "Tags": tags(),
    }
    return shown | changes


def a_cloud(wire: Wire) -> Wire:
    """An empty account in which everything works at once."""
    hardened = {"Features": {"ImdsSupport": "v2"}}
    images = [{"ImageId": id_, "CreationTime": since, **hardened} for id_, since in IMAGES]
    wire.say("DescribeImages", page("Images", "Image", *images))
    vpc = {"VpcId": "vpc-1", "Status": "Available", "Tags": tags(("Key", "Value"))}
    switch = {"VSwitchId": "vsw-1", "Status": "Available", "Tags": tags(("Key", "Value"))}
    wire.say("DescribeVpcs", page("Vpcs", "Vpc"), page("Vpcs", "Vpc", vpc))
    wire.say("CreateVpc", {"VpcId": "vpc-1"})
    wire.say("CreateVSwitch", {"VSwitchId": "vsw-1"})
    wire.say("DescribeVSwitches", page("VSwitches", "VSwitch", switch))
    wire.say("CreateSecurityGroup", {"SecurityGroupId": "sg-1"})
    wire.say("AuthorizeSecurityGroup", {"RequestId": REQUEST_ID})
    wire.say("RunInstances", {"InstanceIdSets": {"InstanceIdSet": ["i-1"]}})
    wire.say("DescribePrice", {"PriceInfo": {"Price": {"TradePrice": 3.5, "Currency": "CNY"}}})
    return wire


def provider() -> AlibabaProvider:
    return AlibabaProvider(own_profile(), clock=lambda: NOW, sleep=lambda _: None)


def sent_call(wire: Wire, **changes: Any) -> dict[str, str]:
    """What RunInstances of an order looks like on the wire."""
    cloud = provider()
    cloud.create(cloud.prepare(order(**changes), Remembered()))
    return wire.sent["RunInstances"][-1]


# --- what is asked of RunInstances


def test_a_box_is_private_encrypted_tagged_and_released_by_the_cloud(wire: Wire) -> None:
    call = sent_call(a_cloud(wire), deadline=NOW + timedelta(hours=24))
    assert call["HttpTokens"] == "required"
    assert call["HttpPutResponseHopLimit"] == "1"
    assert call["SystemDisk.Encrypted"] == "true"
    assert (call["SystemDisk.Category"], call["SystemDisk.Size"]) == ("cloud_essd", "100")
    assert call["AutoReleaseTime"] == "2026-11-22T12:01:00Z"
    assert call["ClientToken"] == "gpc-0123456789"
    assert base64.b64decode(call["UserData"]) == b"#cloud-config\n"
    assert call["InternetMaxBandwidthOut"] == "100"
    assert (call["VSwitchId"], call["SecurityGroupId"]) == ("vsw-1", "sg-1")
    assert {value for key, value in call.items() if key.startswith("Tag.") and key.endswith(".Key")} >= FIVE
    assert "KeyPairName" not in call
    assert "Password" not in call


def test_a_box_is_paid_as_it_goes_and_never_ahead(wire: Wire) -> None:
    call = sent_call(a_cloud(wire))
    assert call["InstanceChargeType"] == "PostPaid"
    assert not {"AutoPay", "AutoRenew", "Period", "PeriodUnit"} & call.keys()
    assert call["PrivatePoolOptions.MatchCriteria"] == "None"


# --- several instances together

CLOSE: dict[str, Any] = {
    "region": "cn-shenzhen",
    "zone": "cn-shenzhen-a",
    "instance_type": "ecs.ebmgn7ex.32xlarge",
    "nodes": 2,
}


def test_several_instances_are_in_a_set_and_joined_by_erdma(
    alibaba: AlibabaProvider, sandbox: SandboxClient
) -> None:
    record = Remembered()
    wanted = order(**CLOSE, fabric="erdma", account=alibaba.account())
    request = alibaba.prepare(wanted, record)
    assert alibaba.prepare(wanted, Remembered()) == request
    machines = alibaba.create(request)
    shown = [alibaba.get(each.ref) for each in machines]
    assert all(isinstance(each, Machine) and each.public_ip for each in shown)
    [made] = {id_ for event, id_ in record.told if event == "made" and id_.startswith("ds-")}
    found = alibaba.find(Search(box="box-1", regions=("cn-shenzhen",))).resources
    [placement] = [each for each in found if each.ref.kind is ResourceKind.PLACEMENT_GROUP]
    assert (placement.ref.id, placement.tags) == (made, wanted.tags)
    nics = alibaba.own_account.clients.ecs("cn-shenzhen").describe_network_interfaces(
        ecs_models().DescribeNetworkInterfacesRequest(region_id="cn-shenzhen")
    )
    each_nic = nics.body.network_interface_sets.network_interface_set
    modes = sorted((nic.network_interface_traffic_mode, nic.type) for nic in each_nic)
    assert modes == [("HighPerformance", kind) for kind in ["Primary"] * 2 + ["Secondary"] * 2]

    later = datetime(2026, 12, 1, tzinfo=UTC)
    able(alibaba, Deadlines).extend([placement.ref], later, (), lambda _: None)
    moved = alibaba.get(placement.ref).tags
    assert moved == replace(wanted.tags, expires="2026-12-01T00:00:00Z")
    with pytest.raises(Exception, match="still instance"):
        alibaba.delete(placement.ref)
    for each in machines:
        alibaba.delete(each.ref)
    while any(each.ref.kind is ResourceKind.INSTANCE for each in found_now(alibaba)):
        pass
    alibaba.delete(placement.ref)
    alibaba.delete(placement.ref)
    assert all(each.ref.kind is not ResourceKind.PLACEMENT_GROUP for each in found_now(alibaba))


def found_now(alibaba: AlibabaProvider) -> Sequence[Resource]:
    return alibaba.find(Search(box="box-1", regions=("cn-shenzhen",))).resources


HELD: dict[str, Any] = {"purchase": Purchase.RESERVED, "reservation": "eap-1"}


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": 1},
        {"nodes": 21},
        {"purchase": Purchase.SPOT},
        HELD,
        {"instance_type": "ecs.ebmgn7e.32xlarge"},
    ],
)
def test_instances_that_a_set_does_not_take_are_launched_without_one(changes: dict[str, Any]) -> None:
    assert set_name(order(**{**CLOSE, **changes})) is None


def test_sets_of_others_are_not_ours_whatever_their_names(
    alibaba: AlibabaProvider, sandbox: SandboxClient
) -> None:
    wanted = order(**CLOSE, account=alibaba.account())
    ecs, models = alibaba.own_account.clients.ecs("cn-shenzhen"), ecs_models()
    theirs = models.CreateDeploymentSetRequest(
        region_id="cn-shenzhen", deployment_set_name=set_name(wanted), description="gpucloud box=other"
    )
    ecs.create_deployment_set(theirs)
    record = Remembered()
    alibaba.prepare(wanted, record)
    assert ("making", set_name(wanted)) in record.told


@pytest.mark.parametrize(
    ("quantity", "pairs", "shared"),
    [(1, 400, {}), (2, 400, {"QueuePairNumber": 200}), (4, 400, {"QueuePairNumber": 100})],
)
def test_each_erdma_interface_has_a_card_and_its_share_of_the_queue_pairs(
    quantity: int, pairs: int, shared: dict[str, int]
) -> None:
    made = interfaces(Erdma(interfaces=quantity, queue_pairs=pairs), vswitch="vsw-1", group="sg-1")
    assert [each["InstanceType"] for each in made] == ["Primary", *["Secondary"] * (quantity - 1)]
    assert [each.get("NetworkCardIndex", 0) for each in made] == list(range(quantity))
    assert all({name: each.get(name) for name in shared} == shared for each in made)
    assert {each["NetworkInterfaceTrafficMode"] for each in made} == {"HighPerformance"}


def test_a_type_that_takes_no_erdma_is_another_types_turn(wire: Wire) -> None:
    shown = {"InstanceTypeId": "ecs.gn6i-c4g1.xlarge", "EriQuantity": 0}
    a_cloud(wire).say("DescribeInstanceTypes", page("InstanceTypes", "InstanceType", shown))
    with pytest.raises(NoErdmaError) as caught:
        provider().prepare(order(nodes=2, fabric="erdma"), Remembered())
    verdict = classify(caught.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.scope) == (ErrorClass.UNSUPPORTED, Scope.TYPE)
    assert "CreateVpc" not in wire.sent


def test_a_super_computing_cluster_is_refused_before_anything_is_sent(wire: Wire) -> None:
    with pytest.raises(UsageError, match="HPC cluster"):
        provider().prepare(order(instance_type="ecs.sccgn7ex.32xlarge"), Remembered())
    assert not wire.sent


def test_a_description_keeps_the_tags_and_drops_the_run_where_it_is_too_long() -> None:
    tags = order().tags
    assert tags_in(description_of(tags)) == tags
    long = replace(tags, run="r" * 128, owner="o" * 64, box="b" * 64)
    assert tags_in(description_of(long)) == replace(long, run="")
    assert tags_in("a set of mine") is None
    assert isinstance(tags_in("gpucloud box=../x"), BadTags)


@pytest.mark.parametrize(
    ("lives", "released"),
    [
        (timedelta(minutes=1), "2026-11-21T12:33:00Z"),
        (timedelta(hours=-1), "2026-11-21T12:33:00Z"),
        (timedelta(hours=2), "2026-11-21T14:01:00Z"),
        (timedelta(days=1094), "2029-11-19T12:01:00Z"),
    ],
)
def test_the_release_time_is_one_that_the_cloud_accepts(wire: Wire, lives: timedelta, released: str) -> None:
    """At least half an hour and at most three years ahead, in whole minutes."""
    assert sent_call(a_cloud(wire), deadline=NOW + lives)["AutoReleaseTime"] == released


def test_a_deadline_beyond_the_clouds_timer_is_refused_instead_of_moved(wire: Wire) -> None:
    with pytest.raises(UsageError, match="at most 1094 days ahead"):
        able(AlibabaProvider(own_profile(), clock=lambda: NOW), Preflight).check(
            order(deadline=NOW + timedelta(days=1095))
        )
    assert not wire.sent


def test_a_box_without_an_end_has_no_release_time(wire: Wire) -> None:
    assert "AutoReleaseTime" not in sent_call(a_cloud(wire), deadline=None)


def test_the_request_is_the_same_for_the_same_order_however_late(wire: Wire) -> None:
    """A repeated call with another release time would be refused as another order of the same token."""
    times = iter([NOW, NOW + timedelta(minutes=3)])
    cloud = AlibabaProvider(own_profile(), clock=lambda: next(times), sleep=lambda _: None)
    a_cloud(wire)
    soon = order(deadline=NOW + timedelta(minutes=5))
    first = cloud.prepare(soon, Remembered())
    wire.say("DescribeSecurityGroups", page("SecurityGroups", "SecurityGroup", {"SecurityGroupId": "sg-1"}))
    wire.say("DescribeSecurityGroupAttribute", {"Permissions": {"Permission": []}})
    assert cloud.prepare(soon, Remembered()) == first
    assert json.loads(json.dumps(first)) == first


@pytest.mark.parametrize(("currency", "limit"), [("USD", "0.526"), ("CNY", "3.551")])
def test_spot_has_no_protected_hour_and_bids_its_limit_in_the_accounts_currency_and_never_above(
    wire: Wire, currency: str, limit: str
) -> None:
    a_cloud(wire).say("DescribePrice", {"PriceInfo": {"Price": {"TradePrice": 3.5, "Currency": currency}}})
    rates = {"CNY": Decimal("6.7489")}
    call = sent_call(wire, purchase=Purchase.SPOT, max_price_usd=Decimal("0.5262"), rates=rates)
    assert call["SpotStrategy"] == "SpotWithPriceLimit"
    assert (call["SpotDuration"], call["SpotInterruptionBehavior"]) == ("0", "Terminate")
    assert call["SpotPriceLimit"] == limit


def test_held_capacity_is_named(wire: Wire) -> None:
    call = sent_call(a_cloud(wire), purchase=Purchase.RESERVED, reservation="crp-1")
    assert (call["PrivatePoolOptions.MatchCriteria"], call["PrivatePoolOptions.Id"]) == ("Target", "crp-1")


def test_several_nodes_are_one_call_for_all_or_none(wire: Wire) -> None:
    a_cloud(wire).say("RunInstances", {"InstanceIdSets": {"InstanceIdSet": [f"i-{n}" for n in range(16)]}})
    call = sent_call(wire, nodes=16)
    assert (call["Amount"], call["MinAmount"], call["UniqueSuffix"]) == ("16", "16", "True")


def test_an_answer_with_fewer_machines_than_asked_for_is_looked_up_rather_than_believed(wire: Wire) -> None:
    a_cloud(wire)
    cloud = provider()
    request = cloud.prepare(order(nodes=2), Remembered())
    verdict = classify(raised(lambda: cloud.create(request)))
    assert verdict is not None
    assert (verdict.error_class, verdict.sent) == (ErrorClass.SERVER, True)


def test_a_machine_is_what_was_ordered_until_the_cloud_shows_it(wire: Wire) -> None:
    a_cloud(wire)
    cloud = provider()
    [machine] = cloud.create(cloud.prepare(order(), Remembered()))
    assert (machine.ref, machine.state) == (ref(ResourceKind.INSTANCE, "i-1"), State.PENDING)
    assert machine.tags == order().tags
    assert (machine.zone, machine.purchase) == ("cn-hangzhou-i", Purchase.ON_DEMAND)


def test_the_users_own_tags_cannot_replace_the_five(wire: Wire) -> None:
    call = sent_call(a_cloud(wire), extra_tags={"team": "vision", "gpucloud:owner": "somebody"})
    sent = {call[f"Tag.{n}.Key"]: call[f"Tag.{n}.Value"] for n in range(1, 8)}
    assert sent["team"] == "vision"
    assert sent["gpucloud:owner"] == "own-1"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"user_data": b"#" * (32 * 1024 + 1)}, "accepts 32768"),
        ({"extra_tags": {"acs:x": "x"}}, "acs:"),
        ({"extra_tags": {"Aliyun": "x"}}, "Aliyun"),
        ({"extra_tags": {"x": "see https://example.org"}}, "https://"),
        ({"extra_tags": {"x" * 129: "x"}}, "128 characters"),
        ({"extra_tags": {"x": "x" * 129}}, "128 characters"),
        ({"extra_tags": {f"t{n}": "x" for n in range(15)}}, "20 tags"),
        ({"allow_from": ("0.0.0.0/0",)}, "whole world"),
        ({"allow_from": ("::/0",)}, "whole world"),
        ({"allow_from": ("203.0.113.7/33",)}, "not a network"),
        ({"allow_from": ("2001:db8::7/128",)}, "IPv4"),
        ({"image": "windows-95"}, "windows-95"),
        ({"purchase": Purchase.RESERVED}, "private pool"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_cloud_would_refuse_is_refused_before_anything_is_made(
    wire: Wire, changes: dict[str, Any], says: str
) -> None:
    record = Remembered()
    with pytest.raises(UsageError, match=says):
        provider().prepare(order(**changes), record)
    assert not record.told
    assert not wire.sent


def zones(**categories: str) -> dict[str, Any]:
    shown = [{"ZoneId": f"cn-hangzhou-{z}", "StatusCategory": has} for z, has in categories.items()]
    return page("AvailableZones", "AvailableZone", *shown)


def test_an_order_without_a_zone_goes_where_there_is_most(wire: Wire) -> None:
    a_cloud(wire)
    wire.say("DescribeAvailableResource", zones(b="ClosedWithStock", h="WithoutStock", i="WithStock"))
    request = provider().prepare(order(zone=""), Remembered())
    assert request["run_instances"]["ZoneId"] == "cn-hangzhou-i"


def test_an_order_without_a_zone_that_has_any_is_out_of_stock(wire: Wire) -> None:
    a_cloud(wire)
    wire.say("DescribeAvailableResource", zones(b="WithoutStock"))
    verdict = classify(raised(lambda: provider().prepare(order(zone=""), Remembered())))
    assert verdict is not None
    assert (verdict.error_class, verdict.scope) == (ErrorClass.CAPACITY, Scope.TYPE_IN_REGION)


def test_a_boot_script_and_the_credentials_never_reach_a_log(
    wire: Wire, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """Even at DEBUG, and where the SDK's own debugging is switched on: all parameters travel in the URL."""
    monkeypatch.setenv("DEBUG", "sdk")
    caplog.set_level(logging.DEBUG)
    script = b"#cloud-config\n# canary-7f3a\n"
    sent_call(a_cloud(wire), user_data=script)
    told = caplog.text + "".join(capfd.readouterr())
    assert "canary-7f3a" not in told
    assert base64.b64encode(script).decode()[:24] not in told
    assert os.environ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] not in told
    assert "Signature=" not in told


# --- images


@pytest.mark.parametrize(
    ("recipe", "image"),
    [
        ("cuda-12.4", "ubuntu_22_04_x64_20G_alibase_20261015.vhd"),
        ("cuda-12.6", "ubuntu_22_04_x64_20G_alibase_20261015.vhd"),
        ("pytorch", "ubuntu_24_04_x64_20G_alibase_20261020.vhd"),
        ("ubuntu-22.04", "ubuntu_22_04_x64_20G_alibase_20261015.vhd"),
        ("ubuntu-24.04", "ubuntu_24_04_x64_20G_alibase_20261020.vhd"),
        ("m-bp1abcdefghij", "m-bp1abcdefghij"),
        ("aliyun_3_x64_20G_alibase_20260101.vhd", "aliyun_3_x64_20G_alibase_20260101.vhd"),
    ],
)
def test_a_recipe_boots_the_newest_public_image(wire: Wire, recipe: str, image: str) -> None:
    assert sent_call(a_cloud(wire), image=recipe)["ImageId"] == image


@pytest.mark.parametrize(
    ("name", "system", "gib", "is_taken"),
    [
        ("Ubuntu 24.04 with NVIDIA GPU driver 580 and CUDA 13.0", "Ubuntu  24.04 64 bit", 40, True),
        ("Ubuntu 24.04 with NVIDIA GPU driver 535 and CUDA 12.2", "Ubuntu  24.04 64 bit", 40, False),
        ("Ubuntu 22.04 with NVIDIA GPU driver 580 and CUDA 13.0", "Ubuntu  22.04 64 bit", 40, False),
        ("Ubuntu 24.04 with NVIDIA GPU driver 580 and CUDA 13.0", "Ubuntu  24.04 64 bit", 200, False),
        ("Ubuntu 24.04 with GPU", "Ubuntu  24.04 64 bit", 40, False),
    ],
)
def test_a_public_image_with_the_driver_is_preferred(
    wire: Wire, name: str, system: str, gib: int, is_taken: bool
) -> None:
    """Only the branch that would be installed, on the system planned for, and if the disk holds it."""
    shown = {"ImageId": "m-gpu", "ImageName": name, "OSNameEn": system, "Size": gib}
    plain = [{"ImageId": id_, "CreationTime": since} for id_, since in IMAGES]
    more = page("Images", "Image", *plain, {**shown, "CreationTime": "2026-01-01T00:00:00Z"})
    a_cloud(wire).say("DescribeImages", more)
    assert (sent_call(wire, image="pytorch", disk_gib=100)["ImageId"] == "m-gpu") is is_taken


def test_who_asks_for_plain_ubuntu_gets_it(wire: Wire) -> None:
    shown = {"ImageName": "Ubuntu 24.04 with NVIDIA GPU driver 580", "OSNameEn": "Ubuntu  24.04 64 bit"}
    plain = [{"ImageId": id_, "CreationTime": since} for id_, since in IMAGES]
    more = page("Images", "Image", *plain, {"ImageId": "m-gpu", "CreationTime": "2027", "Size": 40, **shown})
    a_cloud(wire).say("DescribeImages", more)
    assert sent_call(wire, image="ubuntu-24.04")["ImageId"] == "ubuntu_24_04_x64_20G_alibase_20261020.vhd"


def test_only_images_that_the_type_can_boot_with_cloud_init_are_asked_for(wire: Wire) -> None:
    sent_call(a_cloud(wire))
    [asked] = wire.sent["DescribeImages"]
    assert (asked["ImageOwnerAlias"], asked["IsSupportCloudinit"]) == ("system", "True")
    assert asked["InstanceType"] == "ecs.gn6i-c4g1.xlarge"


@pytest.mark.parametrize(
    ("features", "tokens"),
    [
        ({"ImdsSupport": "v2", "NvmeSupport": "supported"}, "required"),
        ({"ImdsSupport": "v1"}, "optional"),
        ({"NvmeSupport": "supported"}, "optional"),
        (None, "optional"),
    ],
)
@pytest.mark.parametrize("image", ["ubuntu_24_04_x64_20G_alibase_20261020.vhd", "m-bp1own"])
def test_tokens_for_metadata_are_required_where_the_image_supports_it(
    wire: Wire, image: str, features: dict[str, str] | None, tokens: str
) -> None:
    shown = {"ImageId": image, "CreationTime": "2026-10-21T08:00:00Z", "Features": features}
    a_cloud(wire).say("DescribeImages", page("Images", "Image", shown))
    call = sent_call(wire, image=image)
    assert (call["ImageId"], call["HttpTokens"]) == (image, tokens)


def test_an_own_image_is_looked_up_in_the_region_before_anything_is_made(wire: Wire) -> None:
    a_cloud(wire)
    verdict = classify(raised(lambda: provider().prepare(order(image="m-bp1own"), Remembered())))
    assert verdict is not None
    assert (verdict.error_class, str(verdict.scope)) == (ErrorClass.UNSUPPORTED, "type_in_region")
    assert "CreateVpc" not in wire.sent


def test_a_region_without_the_image_is_left_for_another(wire: Wire) -> None:
    a_cloud(wire).say("DescribeImages", page("Images", "Image"))
    verdict = classify(raised(lambda: provider().prepare(order(), Remembered())))
    assert verdict is not None
    assert (verdict.error_class, str(verdict.scope)) == (ErrorClass.UNSUPPORTED, "type_in_region")
    assert "CreateVpc" not in wire.sent


# --- the ground


def test_network_switch_and_group_are_the_boxs_own_and_let_in_who_was_named(wire: Wire) -> None:
    a_cloud(wire)
    record = Remembered()
    provider().prepare(order(ports=(8888,)), record)
    making = ("making", "gpucloud-blue-0a1b2c3d")
    assert record.told[:2] == [making, ("made", "vpc-1")]
    assert sorted(record.told[2:]) == [("made", "sg-1"), ("made", "vsw-1"), making, making]
    [switch] = wire.sent["CreateVSwitch"]
    assert (switch["ZoneId"], switch["CidrBlock"]) == ("cn-hangzhou-i", "10.42.8.0/24")
    for action in ("CreateVpc", "CreateVSwitch", "CreateSecurityGroup"):
        [made] = wire.sent[action]
        assert {value for key, value in made.items() if key.startswith("Tag.")} >= FIVE
        assert 0 < len(made["ClientToken"]) <= 64
    [rules] = wire.sent["AuthorizeSecurityGroup"]
    ports = {rules[f"Permissions.{n}.PortRange"] for n in (1, 2)}
    sources = {rules[f"Permissions.{n}.SourceCidrIp"] for n in (1, 2)}
    assert (ports, sources) == ({"22/22", "8888/8888"}, {"203.0.113.7/32"})
    assert "Permissions.3.PortRange" not in rules


def test_zones_of_a_region_have_addresses_of_their_own() -> None:
    zones = [f"cn-hangzhou-{letter}" for letter in "bcdefghijklmn"]
    assert len({network.switch_cidr(zone) for zone in zones}) == len(zones)


def test_a_network_is_waited_for_until_it_can_be_used(wire: Wire) -> None:
    waits: list[float] = []
    pending = {"VpcId": "vpc-1", "Status": "Pending"}
    ready = {"VpcId": "vpc-1", "Status": "Available"}
    a_cloud(wire).say(
        "DescribeVpcs",
        page("Vpcs", "Vpc"),
        page("Vpcs", "Vpc"),
        page("Vpcs", "Vpc", pending),
        page("Vpcs", "Vpc", ready),
    )
    AlibabaProvider(own_profile(), clock=lambda: NOW, sleep=waits.append).prepare(order(), Remembered())
    assert len(waits) == 2


def test_a_network_that_never_gets_ready_is_tried_again_later(wire: Wire) -> None:
    pending = {"VpcId": "vpc-1", "Status": "Pending"}
    a_cloud(wire).say("DescribeVpcs", page("Vpcs", "Vpc"), page("Vpcs", "Vpc", pending))
    verdict = classify(raised(lambda: provider().prepare(order(), Remembered())))
    assert verdict is not None
    assert verdict.error_class is ErrorClass.EVENTUAL


def test_what_is_there_already_is_found_and_its_rules_are_put_right(wire: Wire) -> None:
    a_cloud(wire)
    provider().prepare(order(), Remembered())
    wire.say("DescribeSecurityGroups", page("SecurityGroups", "SecurityGroup", {"SecurityGroupId": "sg-1"}))
    rules = [
        ("sgr-1", "22/22", "203.0.113.7/32"),
        ("sgr-2", "22/22", "192.0.2.1/32"),
        ("sgr-3", "1/65535", "203.0.113.7/32"),
    ]
    shown = [
        {
            "SecurityGroupRuleId": id_,
            "PortRange": ports,
            "SourceCidrIp": source,
            "IpProtocol": "TCP",
            "Policy": "Accept",
        }
        for id_, ports, source in rules
    ]
    wire.say("DescribeSecurityGroupAttribute", {"Permissions": {"Permission": shown}})
    wire.say("RevokeSecurityGroup", {"RequestId": REQUEST_ID})
    record = Remembered()
    provider().prepare(order(ports=(8888,)), record)
    assert record.told[0] == ("made", "vpc-1")
    assert sorted(record.told[1:]) == [("made", "sg-1"), ("made", "vsw-1")]
    assert len(wire.sent["CreateVpc"]) == 1
    added = wire.sent["AuthorizeSecurityGroup"][-1]
    assert added["Permissions.1.PortRange"] == "8888/8888"
    assert "Permissions.2.PortRange" not in added
    [revoked] = wire.sent["RevokeSecurityGroup"]
    assert {revoked["SecurityGroupRuleId.1"], revoked["SecurityGroupRuleId.2"]} == {"sgr-2", "sgr-3"}


def test_another_address_is_let_in_in_place_of_the_old_one(wire: Wire) -> None:
    old = {
        "SecurityGroupRuleId": "sgr-1",
        "PortRange": "22/22",
        "SourceCidrIp": "203.0.113.7/32",
        "IpProtocol": "TCP",
        "Policy": "Accept",
    }
    wire.say("DescribeSecurityGroupAttribute", {"Permissions": {"Permission": [old]}})
    wire.say("AuthorizeSecurityGroup", {"RequestId": REQUEST_ID})
    wire.say("RevokeSecurityGroup", {"RequestId": REQUEST_ID})
    able(provider(), Firewall).admit(ref(ResourceKind.GROUP, "sg-1"), ["192.0.2.1/32"], [])
    assert list(wire.sent)[-2:] == ["AuthorizeSecurityGroup", "RevokeSecurityGroup"]
    assert wire.sent["AuthorizeSecurityGroup"][0]["Permissions.1.SourceCidrIp"] == "192.0.2.1/32"
    assert wire.sent["RevokeSecurityGroup"][0]["SecurityGroupRuleId.1"] == "sgr-1"


# --- looking


def shown(wire: Wire, **changes: Any) -> Machine:
    wire.say("DescribeInstances", page("Instances", "Instance", instance(**changes)))
    wire.say("DescribeDisks", page("Disks", "Disk", {"DiskId": "d-1"}))
    machine = provider().get(ref(ResourceKind.INSTANCE, "i-1"))
    assert isinstance(machine, Machine)
    return machine


def test_a_running_machine_is_given_with_its_parts_and_addresses(wire: Wire) -> None:
    machine = shown(wire)
    assert machine.state is State.RUNNING
    assert (machine.public_ip, machine.private_ip) == ("203.0.113.9", "10.42.8.3")
    assert machine.tags == order().tags
    assert machine.created_at == datetime(2026, 11, 21, 11, 59, tzinfo=UTC)
    assert {(part.kind, part.id) for part in machine.parts} == {
        (ResourceKind.DISK, "d-1"),
        (ResourceKind.NIC, "eni-1"),
    }


@pytest.mark.parametrize(
    ("changes", "purchase"),
    [
        ({}, Purchase.ON_DEMAND),
        ({"SpotStrategy": "SpotAsPriceGo"}, Purchase.SPOT),
        ({"SpotStrategy": "SpotWithPriceLimit"}, Purchase.SPOT),
        ({"EcsCapacityReservationAttr": {"CapacityReservationId": "crp-1"}}, Purchase.RESERVED),
    ],
)
def test_how_a_machine_is_paid_for_is_told(wire: Wire, changes: dict[str, Any], purchase: Purchase) -> None:
    assert shown(wire, **changes).purchase is purchase


def test_a_spot_machine_that_is_being_taken_back_says_so(wire: Wire) -> None:
    lock = {"LockReason": [{"LockReason": "Recycling"}]}
    machine = shown(wire, SpotStrategy="SpotAsPriceGo", OperationLocks=lock)
    assert machine.preempted
    assert machine.reason == "Recycling"


def test_a_machine_without_an_address_yet_is_pending(wire: Wire) -> None:
    machine = shown(wire, Status="Starting", PublicIpAddress={"IpAddress": []}, VpcAttributes={})
    assert (machine.state, machine.public_ip, machine.private_ip) == (State.PENDING, None, None)


def event(name: str) -> dict[str, Any]:
    return {"InstanceId": "i-1", "EventType": {"Name": name}, "EventCycleStatus": {"Name": "Executed"}}


def test_a_machine_that_vanished_for_lack_of_stock_is_gone_with_that_reason(wire: Wire) -> None:
    """So that the engine takes the next offer instead of waiting for it."""
    wire.say("DescribeInstances", page("Instances", "Instance"), PROVEN)
    wire.say(
        "DescribeInstanceHistoryEvents",
        page("InstanceSystemEventSet", "InstanceSystemEventType", event("SystemFailure.Delete")),
    )
    machine = provider().get(ref(ResourceKind.INSTANCE, "i-1"))
    assert isinstance(machine, Machine)
    assert (machine.state, machine.reason) == (State.GONE, "SystemFailure.Delete")


def test_a_machine_that_is_unknown_without_such_an_event_is_not_found(wire: Wire) -> None:
    wire.say("DescribeInstances", page("Instances", "Instance"), PROVEN)
    wire.say("DescribeInstanceHistoryEvents", page("InstanceSystemEventSet", "InstanceSystemEventType"))
    verdict = classify(raised(lambda: provider().get(ref(ResourceKind.INSTANCE, "i-1"))))
    assert verdict is not None
    assert verdict.error_class is ErrorClass.NOT_FOUND


@pytest.mark.parametrize(
    "dry_run", [refusal("Forbidden.RAM", status=403), Answer(page("Instances", "Instance"))]
)
def test_an_empty_answer_to_somebody_who_may_not_look_never_means_gone(wire: Wire, dry_run: Answer) -> None:
    wire.say("DescribeInstances", page("Instances", "Instance"), dry_run)
    verdict = classify(raised(lambda: provider().get(ref(ResourceKind.INSTANCE, "i-1"))))
    assert verdict is not None
    assert verdict.error_class is ErrorClass.AUTH


def an_empty_region(wire: Wire) -> None:
    """Lists without anything, each in its own form, and the proof that this may be seen."""
    wire.say(dry_run("DescribeInstances"), PROVEN)
    wire.say("DescribeRegions", {"Regions": {"Region": [{"RegionId": "cn-hangzhou"}]}})
    wire.say("DescribeDisks", page("Disks", "Disk"))
    wire.say("DescribeSnapshots", page("Snapshots", "Snapshot"))
    wire.say("DescribeImages", page("Images", "Image"))
    wire.say("DescribeNetworkInterfaces", page("NetworkInterfaceSets", "NetworkInterfaceSet"))
    wire.say("DescribeSecurityGroups", page("SecurityGroups", "SecurityGroup"))
    wire.say("DescribeDeploymentSets", page("DeploymentSets", "DeploymentSet"))
    wire.say("DescribeVpcs", page("Vpcs", "Vpc"))
    wire.say("DescribeVSwitches", page("VSwitches", "VSwitch"))
    wire.say("DescribeEipAddresses", page("EipAddresses", "EipAddress"))


def test_a_region_is_empty_only_with_proof(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    an_empty_region(wire)
    wire.say("DescribeInstances", page("Instances", "Instance"))
    cloud = provider()
    for _ in range(2):
        found = cloud.find(Search(owner="own-1"))
        assert (found.resources, found.unread) == ((), ())
    assert len(wire.sent["DescribeInstances"]) == 2
    assert len(wire.sent[dry_run("DescribeInstances")]) == 1
    assert not caplog.records


def test_an_empty_region_without_proof_is_unread(wire: Wire) -> None:
    an_empty_region(wire)
    wire.say("DescribeInstances", page("Instances", "Instance"))
    wire.say(dry_run("DescribeInstances"), refusal("Forbidden.RAM", status=403))
    [unread] = provider().find(Search(owner="own-1")).unread
    assert unread.region == "cn-hangzhou"
    assert "Forbidden.RAM" in unread.error


def test_a_list_that_fails_once_is_asked_for_again(wire: Wire) -> None:
    an_empty_region(wire)
    wire.say("DescribeInstances", page("Instances", "Instance", instance()))
    wire.say("DescribeDisks", refusal("InternalError", status=500), page("Disks", "Disk"))
    found = provider().find(Search(owner="own-1"))
    assert [resource.ref.id for resource in found.resources] == ["i-1"]
    assert not found.unread


@pytest.mark.parametrize("total", [51, 50, 1, None])
def test_every_page_is_read_whatever_the_total_says(wire: Wire, total: int | None) -> None:
    an_empty_region(wire)
    wire.say(
        "DescribeInstances",
        page("Instances", "Instance", instance(), NextToken="n"),
        page("Instances", "Instance", instance(InstanceId="i-2")),
    )
    vpcs = [{"VpcId": f"vpc-{n}", "Status": "Available", "Tags": tags(("Key", "Value"))} for n in range(51)]
    first, second = page("Vpcs", "Vpc", *vpcs[:50]), page("Vpcs", "Vpc", vpcs[50])
    wire.say("DescribeVpcs", first | {"TotalCount": total}, second | {"TotalCount": total})
    found = provider().find(Search(owner="own-1")).resources
    assert {resource.ref.id for resource in found} == {"i-1", "i-2", *(vpc["VpcId"] for vpc in vpcs)}
    assert [sent.get("NextToken") for sent in wire.sent["DescribeInstances"]] == [None, "n"]
    assert [sent["PageNumber"] for sent in wire.sent["DescribeVpcs"]] == ["1", "2"]


def test_what_does_not_match_exactly_is_left_out_whatever_the_cloud_sends(wire: Wire) -> None:
    an_empty_region(wire)
    wire.say(
        "DescribeInstances",
        page("Instances", "Instance", instance(), instance(InstanceId="i-2", Tags={"Tag": []})),
    )
    [found] = provider().find(Search(owner="own-1")).resources
    assert found.ref.id == "i-1"
    assert not provider().find(Search(owner="own-2")).resources


def test_a_machine_is_looked_for_by_the_token_that_it_carries(wire: Wire) -> None:
    wire.say("DescribeInstances", page("Instances", "Instance", instance()))
    wire.say(dry_run("DescribeInstances"), PROVEN)
    found = provider().find(Search(token="gpc-1", regions=("cn-hangzhou",)))
    assert [resource.ref.id for resource in found.resources] == ["i-1"]
    [sent] = wire.sent["DescribeInstances"]
    assert (sent["Tag.1.Key"], sent["Tag.1.Value"]) == ("gpucloud:key", "gpc-1")
    proof = dry_run("DescribeInstances")  # asked beside it, and needed only where nothing is found
    assert set(wire.sent) - {proof} == {"GetCallerIdentity", "DescribeInstances"}


def test_the_console_is_decoded(wire: Wire) -> None:
    text = base64.b64encode(b"boot\r\n\x1b[0m").decode()
    wire.say("GetInstanceConsoleOutput", {"ConsoleOutput": text})
    assert able(provider(), ConsoleLog).console(ref(ResourceKind.INSTANCE, "i-1")) == "boot\r\n\x1b[0m"


# --- ending


@pytest.mark.parametrize(
    ("kind", "resource_id", "action", "gone"),
    [
        (ResourceKind.INSTANCE, "i-1", "DeleteInstances", "InvalidInstanceId.NotFound"),
        (ResourceKind.DISK, "d-1", "DeleteDisk", "InvalidDiskId.NotFound"),
        (ResourceKind.NIC, "eni-1", "DeleteNetworkInterface", "InvalidEniId.NotFound"),
        (ResourceKind.ADDRESS, "eip-1", "ReleaseEipAddress", "InvalidAllocationId.NotFound"),
        (ResourceKind.GROUP, "sg-1", "DeleteSecurityGroup", "InvalidSecurityGroupId.NotFound"),
        (ResourceKind.NETWORK, "vsw-1", "DeleteVSwitch", "InvalidVSwitchId.NotFound"),
        (ResourceKind.NETWORK, "vpc-1", "DeleteVpc", "InvalidVpcId.NotFound"),
    ],
)
def test_every_kind_can_be_ended_and_what_is_gone_is_no_failure(
    wire: Wire, kind: ResourceKind, resource_id: str, action: str, gone: str
) -> None:
    wire.say(action, {"RequestId": REQUEST_ID}, refusal(gone, status=404))
    cloud = provider()
    cloud.delete(ref(kind, resource_id))
    cloud.delete(ref(kind, resource_id))
    assert resource_id in wire.sent[action][0].values()


def test_a_running_machine_is_ended_by_force(wire: Wire) -> None:
    wire.say("DeleteInstances", {"RequestId": REQUEST_ID})
    provider().delete(ref(ResourceKind.INSTANCE, "i-1"))
    assert wire.sent["DeleteInstances"][0]["Force"] == "True"


@pytest.mark.parametrize(
    ("kind", "resource_id", "action", "code"),
    [
        (ResourceKind.INSTANCE, "i-1", "DeleteInstances", "IncorrectInstanceStatus.Initializing"),
        (ResourceKind.GROUP, "sg-1", "DeleteSecurityGroup", "DependencyViolation"),
        (ResourceKind.NETWORK, "vsw-1", "DeleteVSwitch", "DependencyViolation.EnhancedNic"),
        (ResourceKind.NETWORK, "vpc-1", "DeleteVpc", "DependencyViolation.VSwitch"),
    ],
)
def test_what_is_still_in_use_is_refused_for_now(
    wire: Wire, kind: ResourceKind, resource_id: str, action: str, code: str
) -> None:
    wire.say(action, refusal(code, status=403))
    verdict = classify(raised(lambda: provider().delete(ref(kind, resource_id))))
    assert verdict is not None
    assert verdict.error_class is ErrorClass.EVENTUAL


def ignored(timers: Sequence[str]) -> None:
    """Alibaba's timers have no ids."""


def test_the_clouds_own_end_is_moved(wire: Wire) -> None:
    wire.say("ModifyInstanceAutoReleaseTime", {"RequestId": REQUEST_ID})
    wire.say("TagResources", {"RequestId": REQUEST_ID})
    resources = [
        ref(ResourceKind.INSTANCE, "i-1"),
        ref(ResourceKind.INSTANCE, "i-2"),
        ref(ResourceKind.GROUP, "sg-1"),
        ref(ResourceKind.NETWORK, "vsw-1"),
        ref(ResourceKind.NETWORK, "vpc-1"),
    ]
    able(provider(), Deadlines).extend(resources, NOW + timedelta(hours=5), (), ignored)
    times = [call["AutoReleaseTime"] for call in wire.sent["ModifyInstanceAutoReleaseTime"]]
    assert times == ["2026-11-21T17:01:00Z"] * 2
    tagged = wire.sent["TagResources"]
    assert {(call["ResourceType"], call["ResourceId.1"]) for call in tagged} == {
        ("instance", "i-1"),
        ("securitygroup", "sg-1"),
        ("VSWITCH", "vsw-1"),
        ("VPC", "vpc-1"),
    }
    assert tagged[0]["ResourceId.2"] == "i-2"
    assert {(call["Tag.1.Key"], call["Tag.1.Value"][:10]) for call in tagged} == {
        ("gpucloud:expires", "2026-11-21")
    }


def test_a_box_without_an_end_is_not_released(wire: Wire) -> None:
    wire.say("ModifyInstanceAutoReleaseTime", {"RequestId": REQUEST_ID})
    wire.say("TagResources", {"RequestId": REQUEST_ID})
    able(provider(), Deadlines).extend([ref(ResourceKind.INSTANCE, "i-1")], None, (), ignored)
    assert "AutoReleaseTime" not in wire.sent["ModifyInstanceAutoReleaseTime"][0]
    assert wire.sent["TagResources"][0]["Tag.1.Value"] == "none"


@pytest.mark.parametrize(
    "verb",
    [lambda cloud: cloud.delete, lambda cloud: able(cloud, ConsoleLog).console],
    ids=["delete", "console"],
)
def test_what_belongs_to_another_account_is_never_touched(
    wire: Wire, verb: Callable[[AlibabaProvider], Callable[[Ref], object]]
) -> None:
    """Another account would show nothing, which must not pass for gone."""
    with pytest.raises(UsageError, match=f"for {ACCOUNT}"):
        verb(provider())(ref(ResourceKind.INSTANCE, "i-1", account="999"))
    assert set(wire.sent) == {"GetCallerIdentity"}


def test_what_is_read_beside_the_check_of_the_account_counts_only_after_it(wire: Wire) -> None:
    """The list may already say that there is nothing: in another account that is no end."""
    with pytest.raises(UsageError, match=f"for {ACCOUNT}"):
        provider().get(ref(ResourceKind.INSTANCE, "i-1", account="999"))
    assert all(name == "GetCallerIdentity" or name.startswith("Describe") for name in wire.sent)


def test_a_kind_that_the_cloud_does_not_have_is_refused(wire: Wire) -> None:
    for verb in ("get", "delete"):
        with pytest.raises(UsageError, match="no resources of kind"):
            getattr(provider(), verb)(ref(ResourceKind.RESOURCE_GROUP, "rg-1"))

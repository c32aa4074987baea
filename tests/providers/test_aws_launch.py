"""Buying, looking and ending on AWS, with the real SDK over HTTP."""

from __future__ import annotations

import base64
import json
import logging
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpucloud.clouds.abilities import Checkup, ConsoleLog, Firewall, Prices, Reservations
from gpucloud.errors import ErrorClass, Scope, UsageError
from gpucloud.resources import Machine, ResourceKind, Search, State, UnreadableRegion
from gpucloud_aws import errors
from gpucloud_aws.create import market_of
from gpucloud_aws.provider import AwsProvider
from gpucloud_pricing.purchases import Purchase
from gpucloud_sandbox.client import SandboxClient
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.providers.aws_wire import ACCOUNT, Answer, Remembered, Wire, answer, order, ref, refusal
from tests.waiting import until

FIVE = {"gpucloud:owner", "gpucloud:box", "gpucloud:op", "gpucloud:run", "gpucloud:expires"}


def ec2(region: str = "us-east-1") -> Any:
    """An ordinary client, for a look from outside."""
    import boto3

    session: Any = boto3.session.Session()
    return session.client("ec2", region_name=region, endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def launched(aws: AwsProvider, **changes: Any) -> list[Machine]:
    return list(aws.create(aws.prepare(order(**changes), Remembered())))


# --- what is asked of RunInstances


def test_a_box_is_private_encrypted_tagged_and_ends_itself(aws: AwsProvider) -> None:
    call = aws.prepare(order(), Remembered())["run_instances"]
    assert call["MetadataOptions"] == {
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
        "InstanceMetadataTags": "enabled",
    }
    [disk] = call["BlockDeviceMappings"]
    assert disk["Ebs"] == {
        "VolumeSize": 100,
        "VolumeType": "gp3",
        "DeleteOnTermination": True,
        "Encrypted": True,
    }
    assert call["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert call["ClientToken"] == "gpc-0123456789"
    assert base64.b64decode(call["UserData"]) == b"#cloud-config\n"
    tagged = {
        spec["ResourceType"]: {tag["Key"] for tag in spec["Tags"]} for spec in call["TagSpecifications"]
    }
    assert set(tagged) == {"instance", "volume", "network-interface"}
    assert all(keys >= FIVE for keys in tagged.values())


def test_the_request_is_plain_json_and_the_same_for_the_same_order(aws: AwsProvider) -> None:
    request = aws.prepare(order(), Remembered())
    assert json.loads(json.dumps(request)) == request
    assert AwsProvider(own_profile()).prepare(order(), Remembered()) == request


def test_spot_is_asked_for_once_at_most_for_the_limit_and_its_request_is_tagged(aws: AwsProvider) -> None:
    call = aws.prepare(order(purchase=Purchase.SPOT, max_price_usd=Decimal("0.5260")), Remembered())[
        "run_instances"
    ]
    assert call["InstanceMarketOptions"] == {
        "MarketType": "spot",
        "SpotOptions": {
            "SpotInstanceType": "one-time",
            "InstanceInterruptionBehavior": "terminate",
            "MaxPrice": "0.526000",
        },
    }
    assert "spot-instances-request" in {spec["ResourceType"] for spec in call["TagSpecifications"]}


def test_a_limit_in_usd_is_bid_in_the_currency_of_the_region_and_never_above() -> None:
    spot = order(purchase=Purchase.SPOT, max_price_usd=Decimal("0.5262"), region="cn-north-1")
    spot = replace(spot, rates={"CNY": Decimal("6.7489")})
    options = market_of(spot, block=False, currency="CNY")["InstanceMarketOptions"]["SpotOptions"]
    assert options["MaxPrice"] == "3.551271"  # 0.5262 * 6.7489 is 3.55127118


def test_several_nodes_are_one_call_for_all_or_none(sandbox: SandboxClient) -> None:
    call = AwsProvider(own_profile()).prepare(order(nodes=16), Remembered())["run_instances"]
    assert (call["MinCount"], call["MaxCount"]) == (16, 16)


def test_the_users_own_tags_cannot_replace_the_five(aws: AwsProvider) -> None:
    [machine] = launched(aws, extra_tags={"team": "vision", "gpucloud:owner": "somebody"})
    assert machine.tags == order().tags
    shown = ec2().describe_instances(InstanceIds=[machine.ref.id])
    tags = {tag["Key"]: tag["Value"] for tag in shown["Reservations"][0]["Instances"][0]["Tags"]}
    assert tags["team"] == "vision"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"user_data": b"#" * (16 * 1024 + 1)}, "16385 bytes"),
        ({"extra_tags": {"a key": "x"}}, "a key"),
        ({"extra_tags": {"aws:x": "x"}}, "aws:"),
        ({"extra_tags": {"x": "a\nb"}}, "value of tag"),
        ({"allow_from": ("0.0.0.0/0",)}, "whole world"),
        ({"allow_from": ("::/0",)}, "whole world"),
        ({"allow_from": ("203.0.113.7/33",)}, "not a network"),
        ({"image": "windows-95"}, "windows-95"),
        ({"purchase": Purchase.RESERVED}, "reservation"),
    ],
)
def test_what_aws_would_refuse_is_refused_before_anything_is_made(
    aws: AwsProvider, changes: dict[str, Any], says: str
) -> None:
    record = Remembered()
    with pytest.raises(UsageError, match=says):
        aws.prepare(order(**changes), record)
    assert not record.told


def test_a_boot_script_of_exactly_the_limit_is_taken(aws: AwsProvider) -> None:
    [machine] = launched(aws, user_data=b"#" * 16 * 1024)
    assert machine.state in {State.PENDING, State.RUNNING}


def test_a_boot_script_and_the_credentials_never_reach_a_log(
    sandbox: SandboxClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Even at DEBUG, where the SDK would write whole requests."""
    caplog.set_level(logging.DEBUG)
    script = b"#cloud-config\n# canary-7f3a\n"
    launched(AwsProvider(own_profile()), user_data=script)
    assert "canary-7f3a" not in caplog.text
    assert base64.b64encode(script).decode()[:32] not in caplog.text
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in caplog.text


# --- images


@pytest.mark.parametrize(
    ("image", "instance_type", "arch", "says"),
    [
        ("cuda-12.4", "g4dn.xlarge", "x86_64", "base-oss-nvidia-driver-gpu-ubuntu-22.04"),
        ("cuda-12.4", "p3.2xlarge", "x86_64", "canonical/ubuntu/server/22.04/stable/current/amd64"),
        ("cuda-12.4", "g3.4xlarge", "x86_64", "canonical"),
        ("cuda-12.4", "g5g.xlarge", "arm64", "arm64/base-oss-nvidia-driver"),
        ("pytorch", "p6-b200.48xlarge", "x86_64", "oss-nvidia-driver-gpu-pytorch"),
        ("pytorch", "p3.2xlarge", "x86_64", "canonical"),
        ("ubuntu-24.04", "g6.xlarge", "x86_64", "ubuntu/server/24.04/stable/current/amd64"),
    ],
)
def test_a_gpu_boots_an_image_that_can_drive_it(
    aws: AwsProvider, image: str, instance_type: str, arch: str, says: str
) -> None:
    """The images with NVIDIA's open driver cannot drive V100 and older."""
    call = aws.prepare(order(image=image, instance_type=instance_type, arch=arch), Remembered())
    assert call["run_instances"]["ImageId"].startswith("resolve:ssm:/aws/service/")
    assert says in call["run_instances"]["ImageId"]


def test_a_users_own_image_keeps_its_own_root_device(aws: AwsProvider) -> None:
    images = ec2().describe_images()["Images"]
    own = next(image for image in images if image["RootDeviceName"] != "/dev/sda1")
    call = aws.prepare(order(image=own["ImageId"]), Remembered())["run_instances"]
    assert call["ImageId"] == own["ImageId"]
    assert call["BlockDeviceMappings"][0]["DeviceName"] == own["RootDeviceName"]


# --- network and group


def test_the_group_lets_in_the_caller_only(aws: AwsProvider) -> None:
    [machine] = launched(aws, ports=(8080,), allow_from=("203.0.113.7/32", "2001:db8::7/128"))
    [group] = ec2().describe_security_groups(GroupNames=[order().name])["SecurityGroups"]
    let_in = {
        (rule["FromPort"], source)
        for rule in group["IpPermissions"]
        for source in [r["CidrIp"] for r in rule["IpRanges"]] + [r["CidrIpv6"] for r in rule["Ipv6Ranges"]]
    }
    assert let_in == {
        (port, source) for port in (22, 8080) for source in ("203.0.113.7/32", "2001:db8::7/128")
    }
    shown = ec2().describe_instances(InstanceIds=[machine.ref.id])["Reservations"][0]["Instances"][0]
    [nic] = shown["NetworkInterfaces"]
    assert [of["GroupId"] for of in nic["Groups"]] == [group["GroupId"]]


def test_nodes_of_one_box_reach_each_other(sandbox: SandboxClient) -> None:
    launched(AwsProvider(own_profile()), nodes=2)
    [group] = ec2().describe_security_groups(GroupNames=[order().name])["SecurityGroups"]
    [among] = [rule for rule in group["IpPermissions"] if rule["UserIdGroupPairs"]]
    assert among["IpProtocol"] == "-1"
    assert among["UserIdGroupPairs"][0]["GroupId"] == group["GroupId"]


def test_the_group_is_written_down_before_and_after_it_is_made_and_found_again(aws: AwsProvider) -> None:
    record = Remembered()
    aws.prepare(order(), record)
    group_id = record.told[-1][1]
    assert record.told == [("making", order().name), ("made", group_id)]
    assert group_id.startswith("sg-")
    again = Remembered()
    aws.prepare(order(allow_from=("198.51.100.1/32",)), again)
    assert again.told == record.told
    [group] = ec2().describe_security_groups(GroupIds=[group_id])["SecurityGroups"]
    assert [r["CidrIp"] for rule in group["IpPermissions"] for r in rule["IpRanges"]] == ["198.51.100.1/32"]


def test_a_group_of_the_same_name_that_is_somebody_elses_is_left_alone(aws: AwsProvider) -> None:
    ec2().create_security_group(GroupName=order().name, Description="mine")
    record = Remembered()
    with pytest.raises(errors.ForeignGroupError) as caught:
        aws.prepare(order(), record)
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert verdict.error_class is ErrorClass.CONFLICT
    assert [what for what, _ in record.told] == ["making"]


def test_a_changed_address_is_let_in_and_the_old_one_is_not(sandbox: SandboxClient) -> None:
    aws, record = AwsProvider(own_profile()), Remembered()
    aws.prepare(order(nodes=2), record)
    group_id = record.told[1][1]
    able(aws, Firewall).admit(ref(ResourceKind.GROUP, group_id), ["198.51.100.9/32"], [443])
    [group] = ec2().describe_security_groups(GroupIds=[group_id])["SecurityGroups"]
    let_in = {
        (rule.get("FromPort"), r["CidrIp"]) for rule in group["IpPermissions"] for r in rule["IpRanges"]
    }
    assert let_in == {(22, "198.51.100.9/32"), (443, "198.51.100.9/32")}
    assert [rule for rule in group["IpPermissions"] if rule["UserIdGroupPairs"]], (
        "nodes still reach each other"
    )


def test_a_given_vpc_is_used(moto: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vpc = ec2().create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2().create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24", AvailabilityZoneId="use1-az2")["Subnet"]
    gateway = ec2().create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2().attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    [main] = ec2().describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
    ec2().create_route(RouteTableId=main["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    monkeypatch.setenv("GPUCLOUD_AWS_VPC_ID", vpc)
    call = AwsProvider(own_profile()).prepare(order(), Remembered())["run_instances"]
    assert call["NetworkInterfaces"][0]["SubnetId"] == subnet["SubnetId"]


def test_a_zone_without_a_subnet_sends_the_launch_elsewhere(aws: AwsProvider) -> None:
    with pytest.raises(errors.NoSubnetError) as caught:
        aws.prepare(order(zone="use1-az99"), Remembered())
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.sent) == (ErrorClass.UNSUPPORTED, False)


def test_the_zone_is_the_one_that_was_ordered(aws: AwsProvider) -> None:
    """AZ ids are the market's terms; names mean another zone in every account."""
    for zone in ("use1-az1", "use1-az4"):
        [machine] = launched(aws, zone=zone, key=f"gpc-{zone}")
        assert machine.zone == zone


# --- looking


def test_a_machine_is_shown_with_what_was_made_with_it(aws: AwsProvider) -> None:
    [made] = launched(aws, purchase=Purchase.SPOT)
    seen = aws.get(made.ref)
    assert isinstance(seen, Machine)
    assert (seen.state, seen.purchase, seen.instance_type) == (State.RUNNING, Purchase.SPOT, "g4dn.xlarge")
    assert seen.tags == order().tags
    assert seen.created_at is not None
    assert {part.kind for part in seen.parts} >= {ResourceKind.DISK, ResourceKind.NIC}
    for part in seen.parts:
        assert aws.get(part).ref == part


def test_an_ended_machine_is_gone_with_the_clouds_word_for_why(aws: AwsProvider) -> None:
    [machine] = launched(aws)
    aws.delete(machine.ref)
    seen = aws.get(machine.ref)
    assert isinstance(seen, Machine)
    assert (seen.state, seen.preempted) == (State.GONE, False)
    assert seen.reason == "Client.UserInitiatedShutdown"


@pytest.mark.parametrize(
    ("kind", "resource_id"),
    [
        (ResourceKind.INSTANCE, "i-0123456789abcdef0"),
        (ResourceKind.DISK, "vol-0123456789abcdef0"),
        (ResourceKind.NIC, "eni-0123456789abcdef0"),
        (ResourceKind.GROUP, "sg-0123456789abcdef0"),
    ],
)
def test_what_does_not_exist_is_not_found_and_its_deletion_is_success(
    aws: AwsProvider, kind: ResourceKind, resource_id: str
) -> None:
    with pytest.raises((ClientError, errors.GoneError)) as caught:
        aws.get(ref(kind, resource_id))
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert verdict.error_class is ErrorClass.NOT_FOUND
    aws.delete(ref(kind, resource_id))


def test_another_accounts_thing_is_never_called_gone(aws: AwsProvider) -> None:
    """Under other credentials AWS says "not found", which must not end what is owed."""
    foreign = ref(ResourceKind.INSTANCE, "i-0123456789abcdef0", account="999999999999")
    for verb in (aws.get, aws.delete):
        with pytest.raises(UsageError, match="999999999999"):
            verb(foreign)


def test_a_search_finds_every_kind_in_every_region(aws: AwsProvider) -> None:
    launched(aws)
    launched(aws, region="eu-west-1", zone="euw1-az1")
    found = aws.find(Search(owner="own-1"))
    assert found.unread == ()
    for region in ("us-east-1", "eu-west-1"):
        kinds = {resource.ref.kind for resource in found.resources if resource.ref.region == region}
        assert kinds >= {ResourceKind.INSTANCE, ResourceKind.DISK, ResourceKind.GROUP}


@pytest.mark.parametrize(
    "asked", [{"owner": "other"}, {"box": "other"}, {"op": "other"}, {"run": "other"}, {"owner": "own-*"}]
)
def test_a_search_gives_only_what_matches(aws: AwsProvider, asked: dict[str, Any]) -> None:
    """EC2 takes ``*`` in a filter for anything; an owner of that name is nobody."""
    launched(aws)
    assert aws.find(Search(**asked, regions=("us-east-1",))).resources == ()
    assert aws.find(
        Search(owner="own-1", box="box-1", op="op-1", run="run-1", regions=("us-east-1",))
    ).resources


def test_many_things_come_in_pages(sandbox: SandboxClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpucloud_aws.find.PAGE_SIZE", 5)
    aws = AwsProvider(own_profile())
    launched(aws, nodes=12)
    found = aws.find(Search(owner="own-1", regions=("us-east-1",)))
    assert len([resource for resource in found.resources if resource.ref.kind is ResourceKind.INSTANCE]) == 12


def test_everything_found_can_be_ended_in_the_declared_order(moto: str) -> None:
    """Also a volume and an address that no instance holds: remains of something older."""
    aws = AwsProvider(own_profile())
    aws.delete(ref(ResourceKind.ADDRESS, "eipalloc-0123456789abcdef0"))  # gone already: fine
    launched(aws, purchase=Purchase.SPOT)
    ec2().create_volume(Size=1, AvailabilityZone="us-east-1a", TagSpecifications=tagged("volume"))
    ec2().allocate_address(Domain="vpc", TagSpecifications=tagged("elastic-ip"))
    for kind in aws.deletion.order:
        for resource in aws.find(Search(owner="own-1", regions=("us-east-1",))).resources:
            if resource.ref.kind is kind:
                aws.delete(resource.ref)
    left = aws.find(Search(owner="own-1", regions=("us-east-1",))).resources
    assert [resource.ref for resource in left if resource.state is not State.GONE] == []


def tagged(kind: str) -> list[dict[str, Any]]:
    tags = [{"Key": key, "Value": value} for key, value in order().tags.as_dict().items()]
    return [{"ResourceType": kind, "Tags": tags}]


def test_a_console_is_text(aws: AwsProvider) -> None:
    [machine] = launched(aws)
    assert until(lambda: able(aws, ConsoleLog).console(machine.ref).count("\n") > 1)


# --- what moto does not know


def test_the_same_request_gives_the_same_machines_never_more(sandbox: SandboxClient) -> None:
    aws = AwsProvider(own_profile())
    request = aws.prepare(order(nodes=2), Remembered())
    first, second = aws.create(request), aws.create(request)
    assert [machine.ref for machine in first] == [machine.ref for machine in second]
    found = aws.find(Search(token=order().key, regions=("us-east-1",)))
    assert sorted(resource.ref.id for resource in found.resources) == sorted(
        machine.ref.id for machine in first
    )


def test_nothing_billed_is_left_after_what_a_launch_made_is_ended(sandbox: SandboxClient) -> None:
    aws = AwsProvider(own_profile())
    machines = launched(aws, purchase=Purchase.SPOT, nodes=3)
    assert len(sandbox.status()["billing"]) > 0
    for machine in machines:
        for made in (machine.ref, *machine.parts):
            if made.kind in {ResourceKind.INSTANCE, ResourceKind.SPOT_REQUEST}:
                aws.delete(made)
    assert sandbox.status()["billing"] == []


def test_everything_billed_carries_the_tags_that_find_it(sandbox: SandboxClient) -> None:
    aws = AwsProvider(own_profile())
    launched(aws, purchase=Purchase.SPOT)
    found = aws.find(Search(owner="own-1", box="box-1"))
    assert found.unread == ()
    # An automatic public address has no life of its own: it cannot be tagged, and goes with its interface.
    billed = {entry["id"] for entry in sandbox.status()["billing"] if entry["kind"] != "address"}
    assert {resource.ref.id for resource in found.resources} >= billed
    kinds = {resource.ref.kind for resource in found.resources}
    assert kinds == {
        ResourceKind.INSTANCE,
        ResourceKind.DISK,
        ResourceKind.NIC,
        ResourceKind.SPOT_REQUEST,
        ResourceKind.GROUP,
    }


def test_looking_quoting_and_searching_change_nothing(sandbox: SandboxClient) -> None:
    aws = AwsProvider(own_profile())
    aws.find(Search(owner="own-1"))
    able(aws, Prices).quotes("us-east-1", ["g4dn.xlarge"], Purchase.SPOT)
    able(aws, Prices).quotes("us-east-1", ["g4dn.xlarge"], Purchase.ON_DEMAND)
    able(aws, Reservations).held("us-east-1", ["g4dn.xlarge"])
    assert [call for call in sandbox.calls() if call["mutating"]] == []


def test_a_zone_without_stock_is_a_shortage_there_and_nothing_is_made(sandbox: SandboxClient) -> None:
    sandbox.stock(cloud="aws", zone="use1-az2", instance_type="g4dn.*", count=0)
    aws = AwsProvider(own_profile())
    with pytest.raises(ClientError) as caught:
        launched(aws)
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.scope) == (ErrorClass.CAPACITY, Scope.ATTEMPT)
    assert sandbox.status()["billing"] == []


def test_a_bid_below_the_market_is_refused_for_its_price(sandbox: SandboxClient) -> None:
    aws = AwsProvider(own_profile())
    with pytest.raises(ClientError) as caught:
        launched(aws, purchase=Purchase.SPOT, max_price_usd=Decimal("0.002"))
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert verdict.error_class is ErrorClass.PRICE


def test_a_machine_that_is_not_shown_yet_is_not_found_rather_than_gone(sandbox: SandboxClient) -> None:
    """EC2 is eventually consistent; the same request still gives the same machine meanwhile."""
    aws = AwsProvider(own_profile())
    request = aws.prepare(order(), Remembered())
    sandbox.pace(lag_calls=2)
    [machine] = aws.create(request)
    sandbox.pace(lag_calls=0)
    with pytest.raises(ClientError) as caught:
        aws.get(machine.ref)
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert verdict.error_class is ErrorClass.NOT_FOUND
    assert [again.ref for again in aws.create(request)] == [machine.ref]
    aws.find(Search(token=order().key, regions=("us-east-1",)))
    assert aws.get(machine.ref).ref == machine.ref


def test_a_spot_quote_is_what_the_zone_asks_now(sandbox: SandboxClient) -> None:
    sandbox.price(cloud="aws", zone="use1-az2", instance_type="g4dn.xlarge", purchase="spot", amount="0.3")
    quotes = able(AwsProvider(own_profile()), Prices).quotes("us-east-1", ["g4dn.xlarge"], Purchase.SPOT)
    assert {quote.zone: quote.price_per_hour for quote in quotes}["use1-az2"] == Decimal("0.3")


# --- answers that neither gives

INSTANCE = """<reservationSet><item><ownerId>123456789012</ownerId><instancesSet><item>
<instanceId>i-1</instanceId><instanceType>g4dn.xlarge</instanceType>
<instanceState><code>48</code><name>terminated</name></instanceState>
<stateReason><code>{reason}</code><message>{reason}: it ended</message></stateReason>
<placement><availabilityZone>us-east-1a</availabilityZone></placement>
<instanceLifecycle>spot</instanceLifecycle><spotInstanceRequestId>sir-1</spotInstanceRequestId>
</item></instancesSet></item></reservationSet>"""
ZONES = """<availabilityZoneInfo><item><zoneName>us-east-1a</zoneName><zoneId>use1-az6</zoneId></item>
</availabilityZoneInfo>"""


@pytest.mark.parametrize(
    ("reason", "preempted"),
    [
        ("Server.SpotInstanceTermination", True),
        ("Server.SpotInstanceShutdown", True),
        ("Client.InstanceInitiatedShutdown", False),
        ("Server.InsufficientInstanceCapacity", False),
    ],
)
def test_an_interruption_is_told_from_other_ends(wire: Wire, reason: str, preempted: bool) -> None:
    wire.say("DescribeInstances", answer("DescribeInstances", INSTANCE.format(reason=reason)))
    wire.say("DescribeAvailabilityZones", answer("DescribeAvailabilityZones", ZONES))
    seen = AwsProvider(own_profile()).get(ref(ResourceKind.INSTANCE, "i-1"))
    assert isinstance(seen, Machine)
    assert (seen.state, seen.preempted, seen.reason) == (State.GONE, preempted, reason)
    assert seen.zone == "use1-az6", "an AZ name is turned into its id where AWS says only the name"
    assert [part.kind for part in seen.parts] == [ResourceKind.SPOT_REQUEST]


def test_a_lost_create_is_looked_up_by_its_token(wire: Wire) -> None:
    wire.say("DescribeInstances", answer("DescribeInstances", "<reservationSet/>"))
    found = AwsProvider(own_profile()).find(Search(token="gpc-1", regions=("us-east-1",)))
    assert found.resources == ()
    [sent] = wire.sent["DescribeInstances"]
    assert (sent["Filter.1.Name"], sent["Filter.1.Value.1"]) == ("client-token", "gpc-1")


def test_an_empty_answer_without_an_id_is_not_found(wire: Wire) -> None:
    wire.say("DescribeInstances", answer("DescribeInstances", "<reservationSet/>"))
    with pytest.raises(errors.GoneError):
        AwsProvider(own_profile()).get(ref(ResourceKind.INSTANCE, "i-1"))


def test_an_answer_about_another_instance_is_not_taken_for_this_one(wire: Wire) -> None:
    wire.say("DescribeInstances", answer("DescribeInstances", INSTANCE.format(reason="x")))
    with pytest.raises(errors.GoneError):
        AwsProvider(own_profile()).get(ref(ResourceKind.INSTANCE, "i-2"))


def test_an_answer_without_ids_leaves_the_outcome_of_a_create_unknown(wire: Wire) -> None:
    wire.say("RunInstances", answer("RunInstances", "<instancesSet><item/></instancesSet>"))
    request = {
        "account": ACCOUNT,
        "region": "us-east-1",
        "run_instances": {"MinCount": 1, "MaxCount": 1, "UserData": ""},
    }
    aws = AwsProvider(own_profile())
    with pytest.raises(errors.MalformedAnswerError) as caught:
        aws.create(request)
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert verdict.sent
    assert verdict.error_class is ErrorClass.SERVER


def test_an_answer_that_never_comes_leaves_the_outcome_of_a_create_unknown(wire: Wire) -> None:
    wire.say("RunInstances", Answer("", hang_up=True))
    request = {
        "account": ACCOUNT,
        "region": "us-east-1",
        "run_instances": {"MinCount": 1, "MaxCount": 1, "UserData": ""},
    }
    aws = AwsProvider(own_profile())
    with pytest.raises(Exception, match="closed") as caught:
        aws.create(request)
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert verdict.sent
    assert verdict.error_class is ErrorClass.SERVER
    assert len(wire.sent["RunInstances"]) == 1


def test_a_region_that_cannot_be_read_is_unread_with_the_clouds_code_and_not_empty(wire: Wire) -> None:
    denied = Answer(refusal("UnauthorizedOperation", "You are not authorized"), 403)
    empty = {
        "DescribeInstances": "<reservationSet/>",
        "DescribeNetworkInterfaces": "<networkInterfaceSet/>",
        "DescribeSecurityGroups": "<securityGroupInfo/>",
        "DescribeAddresses": "<addressesSet/>",
        "DescribeSpotInstanceRequests": "<spotInstanceRequestSet/>",
        "DescribeSnapshots": "<snapshotSet/>",
        "DescribeImages": "<imagesSet/>",
        "DescribePlacementGroups": "<placementGroupSet/>",
    }
    for action, body in empty.items():
        wire.say(action, answer(action, body))
    wire.say("DescribeVolumes", denied)
    found = AwsProvider(own_profile()).find(Search(owner="own-1", regions=("us-east-1",)))
    assert found.resources == ()
    assert found.unread == (
        UnreadableRegion(
            cloud="aws", region="us-east-1", error="UnauthorizedOperation: You are not authorized"
        ),
    )


def test_pages_without_end_are_an_unread_region(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpucloud_aws.find.PAGES", 3)
    pages = [
        answer("DescribeInstances", f"<reservationSet/><nextToken>{number}</nextToken>")
        for number in range(9)
    ]
    wire.say("DescribeInstances", *pages)
    found = AwsProvider(own_profile()).find(Search(token="gpc-1", regions=("us-east-1",)))
    assert [unread.region for unread in found.unread] == ["us-east-1"]


def test_only_the_enabled_regions_are_searched(wire: Wire) -> None:
    region = "<regionInfo><item><regionName>eu-north-1</regionName></item></regionInfo>"
    wire.say("DescribeRegions", answer("DescribeRegions", region))
    wire.say("DescribeInstances", answer("DescribeInstances", "<reservationSet/>"))
    AwsProvider(own_profile()).find(Search(token="gpc-1"))
    assert "AllRegions" not in wire.sent["DescribeRegions"][0]
    assert len(wire.sent["DescribeInstances"]) == 1


def test_a_launch_in_a_known_region_changes_aws_three_times(wire: Wire) -> None:
    subnet = (
        "<subnetSet><item><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId>"
        "<availabilityZone>us-east-1a</availabilityZone><availabilityZoneId>use1-az2</availabilityZoneId>"
        "</item></subnetSet>"
    )
    wire.say("DescribeSubnets", answer("DescribeSubnets", subnet))
    wire.say("CreateSecurityGroup", answer("CreateSecurityGroup", "<groupId>sg-1</groupId>"))
    wire.say("AuthorizeSecurityGroupIngress", answer("AuthorizeSecurityGroupIngress"))
    wire.say("RunInstances", answer("RunInstances", "<instancesSet/>"))
    aws = AwsProvider(own_profile())
    for attempt in ("one", "two"):
        aws.create(aws.prepare(order(key=attempt), Remembered()))
    counts = {action: len(calls) for action, calls in wire.sent.items()}
    assert counts == {
        "DescribeSubnets": 1,
        "CreateSecurityGroup": 2,
        "AuthorizeSecurityGroupIngress": 2,
        "RunInstances": 2,
    }
    assert [call["ClientToken"] for call in wire.sent["RunInstances"]] == ["one", "two"]


def test_a_group_that_exists_but_is_not_shown_yet_is_tried_again_later(wire: Wire) -> None:
    test_a_launch_in_a_known_region_changes_aws_three_times(wire)
    wire.say("CreateSecurityGroup", Answer(refusal("InvalidGroup.Duplicate"), 400))
    wire.say("DescribeSecurityGroups", answer("DescribeSecurityGroups", "<securityGroupInfo/>"))
    aws = AwsProvider(own_profile())
    with pytest.raises(errors.NotVisibleError) as caught:
        aws.prepare(order(), Remembered())
    verdict = aws.classify(caught.value)
    assert verdict is not None
    assert verdict.error_class is ErrorClass.EVENTUAL


RESERVATION = """<capacityReservationSet><item><capacityReservationId>cr-1</capacityReservationId>
<instanceType>g4dn.xlarge</instanceType><availabilityZoneId>use1-az2</availabilityZoneId><state>{state}</state>
<availableInstanceCount>{free}</availableInstanceCount><tenancy>default</tenancy>
<reservationType>{kind}</reservationType></item></capacityReservationSet>"""


@pytest.mark.parametrize(("kind", "market"), [("default", None), ("capacity-block", "capacity-block")])
def test_held_capacity_is_named_in_the_call(wire: Wire, kind: str, market: str | None) -> None:
    test_a_launch_in_a_known_region_changes_aws_three_times(wire)
    shown = RESERVATION.format(state="active", free=2, kind=kind)
    wire.say("DescribeCapacityReservations", answer("DescribeCapacityReservations", shown))
    aws = AwsProvider(own_profile())
    [held] = able(aws, Reservations).held("us-east-1", ["g4dn.xlarge"])
    assert (held.id, held.zone, held.free) == ("cr-1", "use1-az2", 2)
    assert held.purchase == ("capacity_block" if market else "reservation")
    request = aws.prepare(order(purchase=Purchase.RESERVED, reservation=held.id), Remembered())
    call = request["run_instances"]
    target = call["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": "cr-1"}
    assert call.get("InstanceMarketOptions", {}).get("MarketType") == market


@pytest.mark.parametrize(("state", "free"), [("scheduled", 2), ("expired", 2), ("active", 0)])
def test_capacity_that_cannot_be_used_now_is_not_held(wire: Wire, state: str, free: int) -> None:
    shown = RESERVATION.format(state=state, free=free, kind="default")
    wire.say("DescribeCapacityReservations", answer("DescribeCapacityReservations", shown))
    assert list(able(AwsProvider(own_profile()), Reservations).held("us-east-1", ["g4dn.xlarge"])) == []


def test_a_refusal_of_what_a_wrong_clock_has_signed_tells_the_time(wire: Wire) -> None:
    wire.answers["GetCallerIdentity"] = [Answer(refusal("SignatureDoesNotMatch"), status=403)]
    assert abs(able(AwsProvider(own_profile()), Checkup).server_time() - datetime.now(UTC)) < timedelta(
        seconds=60
    )

"""Describing, tagging, ending, spot, reservations, groups and prices in the sandbox, as boto3 sees them."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint, SandboxError
from tests.sandbox.running import GROUP_PORT, SPOT, HollowBoxes, client, launch, shown, subnet_in
from tests.sandbox.test_aws_launch import refused


def run(ec2: Any, group: str, **changes: Any) -> str:
    made: str = ec2.run_instances(**launch(group, **changes))["Instances"][0]["InstanceId"]
    return made


def test_termination_ends_everything_and_bills_nothing(
    ec2: Any, group: str, endpoint: Endpoint, boxes: HollowBoxes
) -> None:
    made = run(ec2, group)
    change = ec2.terminate_instances(InstanceIds=[made])["TerminatingInstances"][0]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("running", "shutting-down")
    (seen,) = shown(ec2, made)
    assert seen["State"]["Name"] == "terminated"
    assert seen["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert "PublicIpAddress" not in seen
    assert ec2.describe_volumes()["Volumes"] == []
    assert ec2.describe_network_interfaces()["NetworkInterfaces"] == []
    assert endpoint.client.status()["billing"] == []
    assert boxes.ended.wait(5)
    assert boxes.alive == {}
    again = ec2.terminate_instances(InstanceIds=[made])["TerminatingInstances"][0]
    assert again["CurrentState"]["Name"] == "terminated"


def test_one_wrong_id_spares_all(ec2: Any, group: str) -> None:
    made = run(ec2, group)
    ids = [made, "i-0123456789abcdef0"]
    assert refused(ec2.terminate_instances, InstanceIds=ids) == ("InvalidInstanceID.NotFound", 400)
    assert shown(ec2, made)[0]["State"]["Name"] == "running"
    assert refused(ec2.terminate_instances, InstanceIds=["x"]) == ("InvalidInstanceID.Malformed", 400)


def test_a_disk_that_is_to_stay_is_billed_until_it_is_deleted(
    ec2: Any, group: str, endpoint: Endpoint
) -> None:
    disk = {"VolumeSize": 100, "Encrypted": True, "DeleteOnTermination": False}
    made = run(ec2, group, BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": disk}])
    (volume,) = ec2.describe_volumes()["Volumes"]
    assert refused(ec2.delete_volume, VolumeId=volume["VolumeId"]) == ("VolumeInUse", 400)
    ec2.terminate_instances(InstanceIds=[made])
    assert [entry["kind"] for entry in endpoint.client.status()["billing"]] == ["disk"]
    assert ec2.describe_volumes()["Volumes"][0]["State"] == "available"
    ec2.delete_volume(VolumeId=volume["VolumeId"])
    assert endpoint.client.status()["billing"] == []


def test_pages_hold_every_instance_once(ec2: Any, group: str) -> None:
    made = {
        each["InstanceId"]
        for each in ec2.run_instances(**launch(group, MinCount=12, MaxCount=12))["Instances"]
    }
    paginator = ec2.get_paginator("describe_instances")
    pages = list(paginator.paginate(PaginationConfig={"PageSize": 5}))
    seen = [i["InstanceId"] for page in pages for r in page["Reservations"] for i in r["Instances"]]
    assert len(pages) == 3
    assert sorted(seen) == sorted(made)
    ids = sorted(made)
    assert refused(ec2.describe_instances, InstanceIds=ids, MaxResults=5)[0] == "InvalidParameterCombination"


@pytest.mark.parametrize(
    ("name", "value", "hits"),
    [
        ("tag:gpucloud:owner", "u", 1),
        ("tag:gpucloud:owner", "v", 0),
        ("tag-key", "gpucloud:*", 1),
        ("instance-state-name", "running", 1),
        ("instance-state-name", "terminated", 0),
        ("instance-type", "g4dn.*", 1),
        ("instance-lifecycle", "spot", 0),
        ("availability-zone-id", "nowhere", 0),
    ],
)
def test_filters_select(ec2: Any, group: str, name: str, value: str, hits: int) -> None:
    run(ec2, group)
    found = ec2.describe_instances(Filters=[{"Name": name, "Values": [value]}])["Reservations"]
    assert len(found) == hits


def test_an_unknown_filter_is_refused(ec2: Any) -> None:
    filters = [{"Name": "no-such-filter", "Values": ["x"]}]
    assert refused(ec2.describe_instances, Filters=filters) == ("InvalidParameterValue", 400)


def test_tags_can_be_changed_later(ec2: Any, group: str) -> None:
    made = run(ec2, group)
    ec2.create_tags(Resources=[made, group], Tags=[{"Key": "a&b", "Value": "<x>"}])
    assert {"Key": "a&b", "Value": "<x>"} in shown(ec2, made)[0]["Tags"]
    ec2.delete_tags(Resources=[made], Tags=[{"Key": "a&b"}])
    found = ec2.describe_tags(Filters=[{"Name": "key", "Values": ["a&b"]}])["Tags"]
    assert [tag["ResourceId"] for tag in found] == [group]


def test_groups_have_unique_names_and_rules_and_cannot_go_while_used(ec2: Any, group: str) -> None:
    assert refused(ec2.create_security_group, GroupName="g", Description="d") == (
        "InvalidGroup.Duplicate",
        400,
    )
    rule = [{**GROUP_PORT, "IpRanges": [{"CidrIp": "198.51.100.7/32"}]}]
    twice = refused(ec2.authorize_security_group_ingress, GroupId=group, IpPermissions=rule)
    assert twice == ("InvalidPermission.Duplicate", 400)
    (seen,) = ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["g"]}])[
        "SecurityGroups"
    ]
    assert seen["IpPermissions"][0]["IpRanges"] == [{"CidrIp": "198.51.100.7/32"}]
    made = run(ec2, group)
    assert refused(ec2.delete_security_group, GroupId=group) == ("DependencyViolation", 400)
    ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=rule)
    gone = refused(ec2.revoke_security_group_ingress, GroupId=group, IpPermissions=rule)
    assert gone == ("InvalidPermission.NotFound", 400)
    ec2.terminate_instances(InstanceIds=[made])
    ec2.delete_security_group(GroupId=group)
    assert refused(ec2.delete_security_group, GroupId=group) == ("InvalidGroup.NotFound", 400)


@pytest.mark.parametrize(
    "source",
    [
        {"IpRanges": [{"CidrIp": "0.0.0.0/0"}]},
        {"Ipv6Ranges": [{"CidrIpv6": "::/0"}]},
        {"IpRanges": [{"CidrIp": "0.0.0.0/1"}, {"CidrIp": "128.0.0.0/1"}]},
    ],
)
def test_no_group_lets_in_the_world(ec2: Any, group: str, source: dict[str, Any]) -> None:
    call = ec2.authorize_security_group_ingress
    answer = refused(call, GroupId=group, IpPermissions=[{**GROUP_PORT, **source}])
    assert answer == ("UnauthorizedOperation", 403)


def test_a_group_is_not_opened_to_the_world_in_two_steps(ec2: Any, group: str) -> None:
    half, other = ({**GROUP_PORT, "IpRanges": [{"CidrIp": block}]} for block in ("0.0.0.0/2", "64.0.0.0/2"))
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[half])
    answer = refused(ec2.authorize_security_group_ingress, GroupId=group, IpPermissions=[other])
    assert answer == ("UnauthorizedOperation", 403)


def test_a_spot_instance_has_a_request_that_ends_with_it(ec2: Any, group: str) -> None:
    made = run(ec2, group, InstanceMarketOptions=SPOT)
    (seen,) = shown(ec2, made)
    assert seen["InstanceLifecycle"] == "spot"
    (request,) = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
    assert (request["InstanceId"], request["State"], request["Type"]) == (made, "active", "one-time")
    assert {tag["Key"] for tag in request["Tags"]} >= {"gpucloud:owner"}
    ec2.terminate_instances(InstanceIds=[made])
    (request,) = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
    assert (request["State"], request["Status"]["Code"]) == ("closed", "instance-terminated-by-user")


def test_a_bid_below_the_market_is_too_low_and_the_market_moves(
    ec2: Any, group: str, endpoint: Endpoint
) -> None:
    def price() -> Decimal:
        history = ec2.describe_spot_price_history(
            InstanceTypes=["g4dn.xlarge"], ProductDescriptions=["Linux/UNIX"], StartTime=datetime.now(UTC)
        )["SpotPriceHistory"]
        zones = {
            zone["ZoneName"]: zone["ZoneId"]
            for zone in ec2.describe_availability_zones()["AvailabilityZones"]
        }
        return next(
            Decimal(row["SpotPrice"]) for row in history if zones[row["AvailabilityZone"]] == "use1-az1"
        )

    before = price()
    options = {"SpotInstanceType": "one-time", "MaxPrice": str(before)}
    market = {"MarketType": "spot", "SpotOptions": options}
    here = subnet_in(ec2, "use1-az1")
    made = run(ec2, group, InstanceMarketOptions=market, zone_subnet=here)
    billed = {each["id"]: each["price"]["amount"] for each in endpoint.client.status()["billing"]}
    assert Decimal(billed[made]) == before
    endpoint.client.price(factor="1.5", purchase="spot", zone="use1-az1", instance_type="g4dn.*")
    assert price() == before * Decimal("1.5")
    parameters = launch(group, InstanceMarketOptions=market, zone_subnet=here)
    assert refused(ec2.run_instances, **parameters) == ("SpotMaxPriceTooLow", 400)


def test_an_interruption_is_noticed_and_then_takes_the_instance(
    ec2: Any, group: str, endpoint: Endpoint, boxes: HollowBoxes
) -> None:
    made = run(ec2, group, InstanceMarketOptions=SPOT)
    endpoint.client.interrupt(made, notice_s=120)
    assert boxes.notices[made] - datetime.now(UTC) > timedelta(seconds=100)
    assert shown(ec2, made)[0]["State"]["Name"] == "running"
    endpoint.client.clock(advance_s=121)
    (seen,) = shown(ec2, made)
    assert seen["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert endpoint.client.status()["billing"] == []
    with pytest.raises(SandboxError):
        endpoint.client.interrupt(made)


def test_a_held_reservation_takes_as_many_as_it_holds(ec2: Any, group: str, endpoint: Endpoint) -> None:
    held = endpoint.client.cloud(
        "aws", "reserve", region="us-east-1", zone="use1-az1", instance_type="g4dn.xlarge", count=1
    )
    endpoint.client.stock(count=0)
    target = {"CapacityReservationTarget": {"CapacityReservationId": held}}
    parameters = launch(
        group, CapacityReservationSpecification=target, zone_subnet=subnet_in(ec2, "use1-az1")
    )
    assert ec2.run_instances(**parameters)["Instances"][0]["CapacityReservationId"] == held
    (seen,) = ec2.describe_capacity_reservations()["CapacityReservations"]
    assert (seen["TotalInstanceCount"], seen["AvailableInstanceCount"]) == (1, 0)
    assert refused(ec2.run_instances, **parameters) == ("ReservationCapacityExceeded", 400)
    elsewhere = launch(group, CapacityReservationSpecification=target, zone_subnet=subnet_in(ec2, "use1-az2"))
    assert refused(ec2.run_instances, **elsewhere)[0] == "InvalidParameterValue"


def test_on_demand_prices_have_the_shape_of_the_price_list(endpoint: Endpoint) -> None:
    filters = {
        "instanceType": "p4d.24xlarge",
        "regionCode": "us-east-1",
        "marketoption": "OnDemand",
        "operatingSystem": "Linux",
    }
    asked = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in filters.items()]
    pricing = client(endpoint, "pricing")

    def price() -> Decimal:
        (product,) = pricing.get_products(ServiceCode="AmazonEC2", Filters=asked)["PriceList"]
        (term,) = json.loads(product)["terms"]["OnDemand"].values()
        (dimension,) = term["priceDimensions"].values()
        assert dimension["unit"] == "Hrs"
        return Decimal(dimension["pricePerUnit"]["USD"])

    assert price() == Decimal("21.957642")
    endpoint.client.price(amount="30", purchase="on_demand", instance_type="p4d.24xlarge")
    assert price() == 30


def test_image_aliases_lead_to_images(ec2: Any, endpoint: Endpoint) -> None:
    ssm = client(endpoint, "ssm")
    name = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
    image_id = ssm.get_parameter(Name=name)["Parameter"]["Value"]
    (image,) = ec2.describe_images(ImageIds=[image_id])["Images"]
    assert (image["RootDeviceName"], image["Architecture"]) == ("/dev/sda1", "x86_64")
    assert refused(ssm.get_parameter, Name="/aws/service/nothing") == ("ParameterNotFound", 400)


def test_the_console_can_be_read(ec2: Any, group: str) -> None:
    made = run(ec2, group)
    assert ec2.get_console_output(InstanceId=made)["Output"].startswith(f"boot of {made}")


def test_user_data_and_shutdown_behaviour_can_be_looked_up(ec2: Any, group: str) -> None:
    made = run(ec2, group, UserData="#!/bin/sh\n")
    answer = ec2.describe_instance_attribute(InstanceId=made, Attribute="userData")
    assert base64.b64decode(answer["UserData"]["Value"]) == b"#!/bin/sh\n"


def test_only_the_sandboxs_own_key_is_let_in(endpoint: Endpoint) -> None:
    stranger = client(endpoint, key="AKIAIOSFODNN7EXAMPLE")
    assert refused(stranger.describe_instances) == ("AuthFailure", 401)
    forger = client(endpoint, secret="not the secret")
    assert refused(forger.describe_instances) == ("SignatureDoesNotMatch", 403)
    assert client(endpoint, "sts").get_caller_identity()["Account"] == "123456789012"


def test_every_region_has_zones_and_a_default_network(ec2: Any, endpoint: Endpoint) -> None:
    regions = [region["RegionName"] for region in ec2.describe_regions()["Regions"]]
    assert "us-east-1" in regions
    assert not [name for name in regions if name.startswith(("cn-", "us-gov-"))]
    far = client(endpoint, region="eu-central-1")
    (vpc,) = far.describe_vpcs(Filters=[{"Name": "isDefault", "Values": ["true"]}])["Vpcs"]
    filters = [{"Name": "vpc-id", "Values": [vpc["VpcId"]]}, {"Name": "default-for-az", "Values": ["true"]}]
    assert len(far.describe_subnets(Filters=filters)["Subnets"]) == 3


def test_key_pairs_are_answered_by_moto(ec2: Any) -> None:
    assert ec2.create_key_pair(KeyName="k")["KeyName"] == "k"
    assert [pair["KeyName"] for pair in ec2.describe_key_pairs()["KeyPairs"]] == ["k"]

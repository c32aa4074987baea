"""RunInstances in the sandbox, as boto3 sees it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpucloud_sandbox.client import Endpoint
from tests.sandbox.running import SPOT, HollowBoxes, client, launch, make_group, shown, subnet_in


def refused(call: Any, **parameters: Any) -> tuple[str, int]:
    """The code and HTTP status with which a call is refused."""
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    answer = caught.value.response
    assert answer["ResponseMetadata"]["RequestId"]
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


def test_a_launch_gives_an_instance_with_disk_interface_address_and_tags(
    ec2: Any, group: str, boxes: HollowBoxes, endpoint: Endpoint
) -> None:
    made = ec2.run_instances(**launch(group, UserData="#cloud-config\n"))["Instances"][0]
    assert made["State"]["Name"] == "pending"
    assert "PublicIpAddress" not in made
    (seen,) = shown(ec2, made["InstanceId"])
    assert seen["State"]["Name"] == "running"
    assert seen["PublicIpAddress"].startswith("203.0.113.")
    assert {tag["Key"] for tag in seen["Tags"]} >= {"gpucloud:owner", "gpucloud:box", "gpucloud:expires"}
    assert seen["MetadataOptions"]["HttpTokens"] == "required"
    (volume,) = ec2.describe_volumes(Filters=[{"Name": "tag:gpucloud:box", "Values": ["b"]}])["Volumes"]
    assert (volume["Encrypted"], volume["Size"], volume["State"]) == (True, 100, "in-use")
    (interface,) = ec2.describe_network_interfaces()["NetworkInterfaces"]
    assert interface["Attachment"]["InstanceId"] == made["InstanceId"]
    spec = boxes.alive[made["InstanceId"]]
    assert (spec.gpu_model, spec.gpu_count, spec.user_data) == ("T4", 1, "#cloud-config\n")
    billing = endpoint.client.status()["billing"]
    assert sorted(entry["kind"] for entry in billing) == ["address", "disk", "instance"]
    assert {entry["box"] for entry in billing} == {"b"}


def test_the_same_token_gives_the_same_instance_and_never_another(
    ec2: Any, group: str, endpoint: Endpoint
) -> None:
    parameters = launch(group, ClientToken="once")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ec2.run_instances(**parameters), range(8)))
    assert len({answer["Instances"][0]["InstanceId"] for answer in answers}) == 1
    assert len({answer["ReservationId"] for answer in answers}) == 1
    births = [entry for entry in endpoint.client.ledger() if entry["kind"] == "instance"]
    assert len(births) == 1
    found = ec2.describe_instances(Filters=[{"Name": "client-token", "Values": ["once"]}])["Reservations"]
    assert len(found) == 1


def test_a_token_with_other_parameters_or_of_a_dead_instance_is_refused(
    ec2: Any, group: str, endpoint: Endpoint
) -> None:
    made = ec2.run_instances(**launch(group, ClientToken="t"))["Instances"][0]["InstanceId"]
    other = launch(group, ClientToken="t", InstanceType="g4dn.2xlarge")
    assert refused(ec2.run_instances, **other) == ("IdempotentParameterMismatch", 400)
    far = client(endpoint, region="us-west-2")
    elsewhere = far.run_instances(**launch(make_group(far), ClientToken="t"))["Instances"][0]["InstanceId"]
    assert elsewhere != made
    ec2.terminate_instances(InstanceIds=[made])
    assert refused(ec2.run_instances, **launch(group, ClientToken="t")) == (
        "IdempotentInstanceTerminated",
        400,
    )


def test_a_failed_launch_does_not_use_up_its_token(ec2: Any, group: str, endpoint: Endpoint) -> None:
    endpoint.client.stock(count=0)
    parameters = launch(group, ClientToken="t")
    assert refused(ec2.run_instances, **parameters) == ("InsufficientInstanceCapacity", 500)
    endpoint.client.stock(count=1)
    assert ec2.run_instances(**parameters)["Instances"]


def test_stock_is_per_zone_and_all_or_nothing(ec2: Any, group: str, endpoint: Endpoint) -> None:
    endpoint.client.stock(count=3, cloud="aws", zone="use1-az1", instance_type="g4dn.*")
    here = subnet_in(ec2, "use1-az1")
    four = launch(group, MinCount=4, MaxCount=4, zone_subnet=here)
    assert refused(ec2.run_instances, **four) == ("InsufficientInstanceCapacity", 500)
    assert ec2.describe_instances()["Reservations"] == []
    some = ec2.run_instances(**launch(group, MinCount=1, MaxCount=4, zone_subnet=here))["Instances"]
    assert len(some) == 3
    assert ec2.run_instances(**launch(group, zone_subnet=subnet_in(ec2, "use1-az2")))["Instances"]
    ec2.terminate_instances(InstanceIds=[some[0]["InstanceId"]])
    again = ec2.run_instances(**launch(group, zone_subnet=here))["Instances"][0]
    assert again["Placement"]["AvailabilityZoneId"] == "use1-az1"


def test_a_type_that_a_zone_does_not_offer_is_unsupported(ec2: Any, group: str) -> None:
    offered = ec2.describe_instance_type_offerings(
        LocationType="availability-zone-id", Filters=[{"Name": "instance-type", "Values": ["p4d.24xlarge"]}]
    )["InstanceTypeOfferings"]
    zones = {zone["ZoneId"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]}
    without = sorted(zones - {each["Location"] for each in offered})
    parameters = launch(group, InstanceType="p4d.24xlarge", zone_subnet=subnet_in(ec2, without[0]))
    assert refused(ec2.run_instances, **parameters) == ("Unsupported", 400)


def test_zone_names_are_not_zone_ids(ec2: Any) -> None:
    zones = {
        zone["ZoneName"]: zone["ZoneId"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]
    }
    assert len(zones) == 6
    assert zones["us-east-1a"] != "use1-az1"


@pytest.mark.parametrize(
    ("region", "domain"), [("us-east-1", "ec2.internal"), ("eu-west-1", "eu-west-1.compute.internal")]
)
def test_private_names_are_of_their_region(endpoint: Endpoint, region: str, domain: str) -> None:
    ec2 = client(endpoint, region=region)
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    asked = {**launch(make_group(ec2)), "ImageId": image}
    seen = ec2.run_instances(**asked)["Instances"][0]
    assert seen["PrivateDnsName"] == f"ip-{seen['PrivateIpAddress'].replace('.', '-')}.{domain}"


def test_old_types_that_only_the_price_list_knows_can_be_launched(ec2: Any, group: str) -> None:
    ubuntu = "resolve:ssm:/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id"
    assert ec2.run_instances(**launch(group, InstanceType="p3.2xlarge", ImageId=ubuntu))["Instances"]


def test_a_gpu_that_needs_grid_is_seen_by_no_driver(ec2: Any, group: str, boxes: HollowBoxes) -> None:
    made = ec2.run_instances(**launch(group, InstanceType="g6f.large"))["Instances"][0]
    assert boxes.alive[made["InstanceId"]].gpu_count == 0
    (type_,) = ec2.describe_instance_types(InstanceTypes=["g6f.large"])["InstanceTypes"]
    assert type_["GpuInfo"]["Gpus"][0]["Count"] == 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"InstanceType": "g4dn.huge"}, "InvalidParameterValue"),
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"ImageId": "resolve:ssm:/aws/service/nothing"}, "InvalidParameterValue"),
        ({"MinCount": 0}, "InvalidParameterValue"),
        ({"MinCount": 3, "MaxCount": 2}, "InvalidParameterValue"),
        ({"SubnetId": "subnet-1"}, "InvalidParameterCombination"),
        ({"UserData": "x" * 16385}, "InvalidParameterValue"),
        ({"InstanceType": "g5g.xlarge"}, "InvalidParameterValue"),
    ],
)
def test_what_ec2_refuses_is_refused_with_its_code(
    ec2: Any, group: str, changes: dict[str, Any], code: str, endpoint: Endpoint
) -> None:
    assert refused(ec2.run_instances, **launch(group, **changes)) == (code, 400)
    assert endpoint.client.status()["billing"] == []


def _without(kind: str) -> list[dict[str, Any]]:
    specifications = launch("sg-1", InstanceMarketOptions=SPOT)["TagSpecifications"]
    return [each for each in specifications if each["ResourceType"] != kind]


@pytest.mark.parametrize(
    "changes",
    [
        {"MetadataOptions": None},
        {"MetadataOptions": {"HttpTokens": "optional", "HttpPutResponseHopLimit": 1}},
        {"MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2}},
        {"BlockDeviceMappings": None},
        {"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 100}}]},
        {"InstanceInitiatedShutdownBehavior": None},
        {"TagSpecifications": None},
        {"TagSpecifications": _without("instance")},
        {"TagSpecifications": _without("volume")},
        {"TagSpecifications": _without("network-interface")},
        {"TagSpecifications": _without("spot-instances-request"), "InstanceMarketOptions": SPOT},
    ],
)
def test_what_a_careful_reviewer_would_not_let_pass_is_refused(
    ec2: Any, group: str, changes: dict[str, Any], endpoint: Endpoint
) -> None:
    assert refused(ec2.run_instances, **launch(group, **changes)) == ("UnauthorizedOperation", 403)
    assert endpoint.client.status()["billing"] == []


def test_no_purchase_can_be_made(ec2: Any) -> None:
    call = ec2.purchase_capacity_block
    parameters = {"CapacityBlockOfferingId": "cbo-1", "InstancePlatform": "Linux/UNIX"}
    assert refused(call, **parameters) == ("UnauthorizedOperation", 403)
    code, _ = refused(
        ec2.create_capacity_reservation,
        InstanceType="g4dn.xlarge",
        InstancePlatform="Linux/UNIX",
        InstanceCount=1,
    )
    assert code == "UnauthorizedOperation"


def test_capacity_blocks_are_offered_for_days_and_weeks(ec2: Any) -> None:
    asked = {"InstanceType": "p5.48xlarge", "InstanceCount": 2}
    pages = ec2.get_paginator("describe_capacity_block_offerings").paginate(
        **asked, CapacityDurationHours=48, PaginationConfig={"PageSize": 3}
    )
    offered = [each for page in pages for each in page["CapacityBlockOfferings"]]
    assert len(offered) > 3, "pages"
    for each in offered:
        assert each["EndDate"] - each["StartDate"] == timedelta(hours=48)
        assert (each["InstanceCount"], each["CapacityBlockDurationHours"]) == (2, 48)
    later = max(each["StartDate"] for each in offered)
    found = ec2.describe_capacity_block_offerings(**asked, CapacityDurationHours=48, StartDateRange=later)
    assert {each["StartDate"] for each in found["CapacityBlockOfferings"]} == {later}
    early = {"StartDateRange": min(each["StartDate"] for each in offered), "EndDateRange": later}
    assert not ec2.describe_capacity_block_offerings(**asked, CapacityDurationHours=48, **early)[
        "CapacityBlockOfferings"
    ], "none ends so soon"
    for hours in (12, 15 * 24, 189 * 24):
        refusal = refused(ec2.describe_capacity_block_offerings, **asked, CapacityDurationHours=hours)
        assert refusal == ("UnsupportedException", 400)
    assert ec2.describe_capacity_block_offerings(**asked, CapacityDurationHours=21 * 24)[
        "CapacityBlockOfferings"
    ]
    none = ec2.describe_capacity_block_offerings(InstanceType="g4dn.xlarge", CapacityDurationHours=24)
    assert none["CapacityBlockOfferings"] == []


def test_a_dry_run_makes_nothing(ec2: Any, group: str, endpoint: Endpoint) -> None:
    assert refused(ec2.run_instances, **launch(group, DryRun=True)) == ("DryRunOperation", 412)
    assert endpoint.client.status()["billing"] == []


def test_quotas_are_enforced_and_told(ec2: Any, group: str, endpoint: Endpoint) -> None:
    quotas = client(endpoint, "service-quotas")
    endpoint.client.cloud("aws", "quota", region="us-east-1", code="L-DB2E81BA", value=8)
    told = quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-DB2E81BA")["Quota"]["Value"]
    assert told == 8
    assert ec2.run_instances(**launch(group))["Instances"]  # 4 of 8 vCPUs
    two = launch(group, MinCount=2, MaxCount=2)
    assert refused(ec2.run_instances, **two) == ("VcpuLimitExceeded", 400)
    assert ec2.run_instances(**launch(group, InstanceMarketOptions=SPOT))["Instances"]


def test_an_unknown_or_unemulated_action_says_so(ec2: Any) -> None:
    code, _ = refused(ec2.modify_fleet, FleetId="fleet-1")
    assert code == "UnsupportedOperation"


def test_an_instance_is_hidden_from_as_many_reads_as_asked(ec2: Any, group: str, endpoint: Endpoint) -> None:
    endpoint.client.pace(lag_calls=2)
    made = ec2.run_instances(**launch(group))["Instances"][0]["InstanceId"]
    assert refused(ec2.describe_instances, InstanceIds=[made]) == ("InvalidInstanceID.NotFound", 400)
    assert ec2.describe_instances()["Reservations"] == []
    assert shown(ec2, made)


def test_transitions_follow_the_clouds_clock(ec2: Any, group: str, endpoint: Endpoint) -> None:
    endpoint.client.pace(transition_s=600)
    made = ec2.run_instances(**launch(group))["Instances"][0]["InstanceId"]
    assert shown(ec2, made)[0]["State"]["Name"] == "pending"
    assert "PublicIpAddress" not in shown(ec2, made)[0]
    endpoint.client.clock(advance_s=601)
    assert shown(ec2, made)[0]["State"]["Name"] == "running"
    ec2.terminate_instances(InstanceIds=[made])
    assert shown(ec2, made)[0]["State"]["Name"] == "shutting-down"
    assert refused(ec2.delete_security_group, GroupId=group) == ("DependencyViolation", 400)
    endpoint.client.clock(advance_s=601)
    assert shown(ec2, made)[0]["State"]["Name"] == "terminated"
    ec2.delete_security_group(GroupId=group)
    endpoint.client.clock(advance_s=4000)
    assert refused(ec2.describe_instances, InstanceIds=[made]) == ("InvalidInstanceID.NotFound", 400)

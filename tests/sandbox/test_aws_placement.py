"""Placement groups and network interfaces on their own, with EFA, as boto3 sees them."""

from __future__ import annotations

from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.sandbox.running import IMAGE, launch, make_group, shown, subnet_in
from tests.sandbox.test_aws_launch import refused
from tests.sandbox.test_aws_power import PLAIN

FULL = ("InsufficientInstanceCapacity", 500)


@pytest.fixture
def ec2(ec2: Any, endpoint: Endpoint) -> Any:
    """EC2 for clients that are not gpucloud."""
    endpoint.client.review(Review.OWN)
    return ec2


def run(ec2: Any, **changes: Any) -> list[str]:
    """Launches instances; returns their ids."""
    return [each["InstanceId"] for each in ec2.run_instances(**{**PLAIN, **changes})["Instances"]]


def into(name: str, subnet: str, count: int = 1, **placement: Any) -> dict[str, Any]:
    """Parameters of a launch into a group."""
    changes = {"Placement": {"GroupName": name, **placement}, "SubnetId": subnet}
    return {**PLAIN, **changes, "MinCount": count, "MaxCount": count}


def test_a_cluster_is_in_one_zone_and_is_deleted_after_its_instances(ec2: Any) -> None:
    group = ec2.create_placement_group(GroupName="near", Strategy="cluster")["PlacementGroup"]
    first, second = subnet_in(ec2, "use1-az1"), subnet_in(ec2, "use1-az2")
    made = run(ec2, **into("near", first, 2))
    placement = shown(ec2, made[0])[0]["Placement"]
    assert (placement["GroupName"], placement["GroupId"]) == ("near", group["GroupId"])
    assert refused(ec2.run_instances, **into("near", second)) == ("InvalidParameterValue", 400)
    by_name = {"Filters": [{"Name": "placement-group-name", "Values": ["near"]}]}
    assert len(ec2.describe_instances(**by_name)["Reservations"][0]["Instances"]) == 2
    assert refused(ec2.delete_placement_group, GroupName="near") == ("InvalidPlacementGroup.InUse", 400)
    ec2.stop_instances(InstanceIds=made[:1])
    ec2.terminate_instances(InstanceIds=made[1:])
    assert refused(ec2.delete_placement_group, GroupName="near") == ("InvalidPlacementGroup.InUse", 400)
    ec2.terminate_instances(InstanceIds=made[:1])
    ec2.delete_placement_group(GroupName="near")
    assert ec2.describe_placement_groups()["PlacementGroups"] == []


def test_a_spread_group_takes_seven_instances_a_zone(ec2: Any) -> None:
    ec2.create_placement_group(GroupName="far", Strategy="spread")
    first, second = subnet_in(ec2, "use1-az1"), subnet_in(ec2, "use1-az2")
    made = run(ec2, **into("far", first, 6))
    assert refused(ec2.run_instances, **into("far", first, 2)) == FULL
    more = into("far", first) | {"MaxCount": 5}
    assert len(run(ec2, **more)) == 1, "as many as there is room for"
    assert refused(ec2.run_instances, **into("far", first)) == FULL
    assert run(ec2, **into("far", second))
    ec2.terminate_instances(InstanceIds=made[:1])
    assert run(ec2, **into("far", first))


def test_partitions_are_filled_evenly_or_as_asked(ec2: Any) -> None:
    ec2.create_placement_group(GroupName="parts", Strategy="partition", PartitionCount=3)
    subnet = subnet_in(ec2, "use1-az1")

    def partitions(*ids: str) -> list[int]:
        return sorted(each["Placement"]["PartitionNumber"] for each in shown(ec2, *ids))

    assert partitions(*run(ec2, **into("parts", subnet, 6))) == [1, 1, 2, 2, 3, 3]
    assert partitions(*run(ec2, **into("parts", subnet, PartitionNumber=3))) == [3]
    beyond = into("parts", subnet, PartitionNumber=4)
    assert refused(ec2.run_instances, **beyond) == ("InvalidParameterValue", 400)


def test_placement_groups_are_checked(ec2: Any) -> None:
    ec2.create_placement_group(GroupName="near", Strategy="cluster")
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (ec2.create_placement_group, {"GroupName": "near"}, "InvalidPlacementGroup.Duplicate"),
        (ec2.create_placement_group, {"Strategy": "cluster"}, "MissingParameter"),
        (
            ec2.create_placement_group,
            {"GroupName": "parts", "Strategy": "partition", "PartitionCount": 8},
            "InvalidParameterValue",
        ),
        (
            ec2.create_placement_group,
            {"GroupName": "parts", "Strategy": "spread", "PartitionCount": 2},
            "InvalidParameterCombination",
        ),
        (ec2.delete_placement_group, {"GroupName": "none"}, "InvalidPlacementGroup.Unknown"),
        (ec2.describe_placement_groups, {"GroupNames": ["none"]}, "InvalidPlacementGroup.Unknown"),
        (ec2.run_instances, {**PLAIN, "Placement": {"GroupName": "none"}}, "InvalidPlacementGroup.Unknown"),
        (
            ec2.run_instances,
            {**PLAIN, "Placement": {"GroupName": "near", "PartitionNumber": 1}},
            "InvalidParameterCombination",
        ),
    ]
    answers = [refused(call, **parameters) for call, parameters, _ in wrong]
    assert answers == [(code, 400) for _, _, code in wrong]


def test_an_interface_is_made_attached_detached_and_deleted(ec2: Any) -> None:
    subnet = subnet_in(ec2, "use1-az1")
    (made,) = run(ec2, SubnetId=subnet)
    interface = ec2.create_network_interface(SubnetId=subnet, Description="second")["NetworkInterface"]
    id_ = interface["NetworkInterfaceId"]
    taken = {"SubnetId": subnet, "PrivateIpAddress": interface["PrivateIpAddress"]}
    assert refused(ec2.create_network_interface, **taken) == ("InvalidIPAddress.InUse", 400)
    asked = {"NetworkInterfaceId": id_, "InstanceId": made}
    assert refused(ec2.attach_network_interface, **asked, DeviceIndex=0) == ("InvalidParameterValue", 400)
    attachment = ec2.attach_network_interface(**asked, DeviceIndex=1)["AttachmentId"]
    (seen,) = shown(ec2, made)
    assert [each["Attachment"]["DeviceIndex"] for each in seen["NetworkInterfaces"]] == [0, 1]
    assert refused(ec2.attach_network_interface, **asked, DeviceIndex=2) == (
        "InvalidNetworkInterface.InUse",
        400,
    )
    assert refused(ec2.delete_network_interface, NetworkInterfaceId=id_) == ("InvalidParameterValue", 400)
    primary = seen["NetworkInterfaces"][0]["Attachment"]["AttachmentId"]
    assert refused(ec2.detach_network_interface, AttachmentId=primary) == ("OperationNotPermitted", 400)
    ec2.detach_network_interface(AttachmentId=attachment)
    gone = refused(ec2.detach_network_interface, AttachmentId=attachment)
    assert gone == ("InvalidAttachmentID.NotFound", 400)
    assert len(shown(ec2, made)[0]["NetworkInterfaces"]) == 1
    elsewhere = ec2.create_network_interface(SubnetId=subnet_in(ec2, "use1-az2"))["NetworkInterface"]
    far = {"NetworkInterfaceId": elsewhere["NetworkInterfaceId"], "InstanceId": made, "DeviceIndex": 1}
    assert refused(ec2.attach_network_interface, **far) == ("InvalidParameterCombination", 400)
    ec2.delete_network_interface(NetworkInterfaceId=id_)
    lost = refused(ec2.describe_network_interfaces, NetworkInterfaceIds=[id_])
    assert lost == ("InvalidNetworkInterfaceID.NotFound", 400)


def test_a_type_has_room_for_so_many_interfaces(ec2: Any) -> None:
    subnet = subnet_in(ec2, "use1-az1")
    (made,) = run(ec2, SubnetId=subnet)
    ids = [
        ec2.create_network_interface(SubnetId=subnet)["NetworkInterface"]["NetworkInterfaceId"]
        for _ in range(3)
    ]
    for index, id_ in enumerate(ids[:2], 1):
        ec2.attach_network_interface(NetworkInterfaceId=id_, InstanceId=made, DeviceIndex=index)
    fourth = {"NetworkInterfaceId": ids[2], "InstanceId": made, "DeviceIndex": 3}
    assert refused(ec2.attach_network_interface, **fourth) == ("AttachmentLimitExceeded", 400)


def test_an_interface_of_ones_own_outlives_the_instance_that_was_launched_with_it(ec2: Any) -> None:
    subnet = subnet_in(ec2, "use1-az1")
    interface = ec2.create_network_interface(SubnetId=subnet)["NetworkInterface"]
    id_ = interface["NetworkInterfaceId"]
    named = [{"DeviceIndex": 0, "NetworkInterfaceId": id_}]
    (made,) = run(ec2, NetworkInterfaces=named)
    (seen,) = shown(ec2, made)
    assert seen["PrivateIpAddress"] == interface["PrivateIpAddress"]
    assert "PublicIpAddress" not in seen
    again = {**PLAIN, "NetworkInterfaces": named}
    assert refused(ec2.run_instances, **again) == ("InvalidNetworkInterface.InUse", 400)
    both = [{**named[0], "SubnetId": subnet}]
    ec2.terminate_instances(InstanceIds=[made])
    (left,) = ec2.describe_network_interfaces()["NetworkInterfaces"]
    assert (left["NetworkInterfaceId"], left["Status"]) == (id_, "available")
    mixed = {**PLAIN, "NetworkInterfaces": both}
    assert refused(ec2.run_instances, **mixed) == ("InvalidParameterCombination", 400)


def test_groups_of_the_primary_interface_are_those_of_its_instance(ec2: Any, group: str) -> None:
    (made,) = run(ec2)
    primary = shown(ec2, made)[0]["NetworkInterfaces"][0]
    named = {"NetworkInterfaceId": primary["NetworkInterfaceId"]}
    ec2.modify_network_interface_attribute(**named, Groups=[group])
    assert [each["GroupId"] for each in shown(ec2, made)[0]["SecurityGroups"]] == [group]
    kept = {"AttachmentId": primary["Attachment"]["AttachmentId"], "DeleteOnTermination": False}
    ec2.modify_network_interface_attribute(**named, Attachment=kept)
    ec2.terminate_instances(InstanceIds=[made])
    (left,) = ec2.describe_network_interfaces()["NetworkInterfaces"]
    assert left["Status"] == "available"


def test_efa_is_attached_to_stopped_instances_of_types_that_have_it(ec2: Any) -> None:
    subnet = subnet_in(ec2, "use1-az1")
    efa = ec2.create_network_interface(SubnetId=subnet, InterfaceType="efa")["NetworkInterface"]
    plain, able = run(ec2, SubnetId=subnet), run(ec2, SubnetId=subnet, InstanceType="g4dn.8xlarge")
    ec2.stop_instances(InstanceIds=plain)
    asked = {"NetworkInterfaceId": efa["NetworkInterfaceId"], "DeviceIndex": 1}
    assert refused(ec2.attach_network_interface, **asked, InstanceId=plain[0]) == (
        "InvalidParameterCombination",
        400,
    )
    assert refused(ec2.attach_network_interface, **asked, InstanceId=able[0]) == (
        "IncorrectInstanceState",
        400,
    )
    ec2.stop_instances(InstanceIds=able)
    ec2.attach_network_interface(**asked, InstanceId=able[0])
    (seen,) = shown(ec2, able[0])
    assert [each["InterfaceType"] for each in seen["NetworkInterfaces"]] == ["interface", "efa"]


def test_an_instance_of_several_interfaces_gets_an_address_by_its_primary_one(ec2: Any) -> None:
    subnet = subnet_in(ec2, "use1-az1")
    interfaces = [{"DeviceIndex": index, "SubnetId": subnet} for index in (0, 1)]
    (made,) = run(ec2, NetworkInterfaces=interfaces)
    (seen,) = shown(ec2, made)
    assert "PublicIpAddress" not in seen
    address = ec2.allocate_address(Domain="vpc")
    named = {"AllocationId": address["AllocationId"]}
    assert refused(ec2.associate_address, **named, InstanceId=made) == ("InvalidInstanceID", 400)
    first, second = (each["NetworkInterfaceId"] for each in seen["NetworkInterfaces"])
    other = refused(ec2.associate_address, **named, NetworkInterfaceId=second)
    assert other == ("UnsupportedOperation", 400)
    ec2.associate_address(**named, NetworkInterfaceId=first)
    assert shown(ec2, made)[0]["PublicIpAddress"] == address["PublicIp"]
    vpc = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    inner = ec2.create_subnet(VpcId=vpc, CidrBlock="10.7.1.0/24")["Subnet"]["SubnetId"]
    (closed,) = run(ec2, SubnetId=inner)
    without = refused(ec2.associate_address, **named, InstanceId=closed, AllowReassociation=True)
    assert without == ("Gateway.NotAttached", 400)


@pytest.mark.parametrize(
    ("instance_type", "asked", "code"),
    [
        ("g4dn.xlarge", [{"InterfaceType": "efa"}], "InvalidParameterCombination"),
        ("p4d.24xlarge", [{"InterfaceType": "efa-only"}], "InvalidParameterValue"),
        ("p4d.24xlarge", [{}, {"NetworkCardIndex": 4, "InterfaceType": "efa-only"}], "InvalidParameterValue"),
        (
            "p6-b300.48xlarge",
            [{}, {"DeviceIndex": 1, "InterfaceType": "efa-only"}],
            "InvalidParameterCombination",
        ),
        (
            "g5.8xlarge",
            [{"InterfaceType": "efa"}, {"DeviceIndex": 1, "InterfaceType": "efa-only"}],
            "AttachmentLimitExceeded",
        ),
        (
            "p4d.24xlarge",
            [{"AssociatePublicIpAddress": True}, {"NetworkCardIndex": 1, "InterfaceType": "efa-only"}],
            "InvalidParameterCombination",
        ),
    ],
)
def test_interfaces_that_the_cards_of_a_type_do_not_take_are_refused(
    ec2: Any, instance_type: str, asked: list[dict[str, Any]], code: str
) -> None:
    own = {"DeviceIndex": 0, "SubnetId": subnet_in(ec2, "use1-az1")}
    interfaces = [{**own, **each} for each in asked]
    request = {**PLAIN, "InstanceType": instance_type, "NetworkInterfaces": interfaces}
    assert refused(ec2.run_instances, **request) == (code, 400)


def test_interfaces_bring_their_groups_which_are_of_their_own_vpc(ec2: Any) -> None:
    subnet, group = subnet_in(ec2, "use1-az1"), make_group(ec2)
    vpc = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    other = ec2.create_security_group(GroupName="other", Description="x", VpcId=vpc)["GroupId"]
    interface = {"DeviceIndex": 0, "SubnetId": subnet, "InterfaceType": "efa"}
    request = {**PLAIN, "InstanceType": "p4d.24xlarge"}
    at_the_top = {"NetworkInterfaces": [interface], "SecurityGroupIds": [group]}
    assert refused(ec2.run_instances, **request, **at_the_top)[0] == "InvalidParameterCombination"
    elsewhere = {"NetworkInterfaces": [{**interface, "Groups": [other]}]}
    assert refused(ec2.run_instances, **request, **elsewhere)[0] == "InvalidParameter"


def test_a_launch_of_gpuclouds_with_efa_has_a_group_that_is_open_to_itself(
    ec2: Any, endpoint: Endpoint
) -> None:
    """The sandbox's own refusal: EC2 says nothing, and NCCL hangs."""
    endpoint.client.review(Review.ALL)
    group = make_group(ec2)
    subnet = subnet_in(ec2, "use1-az1")
    interface = {"DeviceIndex": 0, "SubnetId": subnet, "Groups": [group], "InterfaceType": "efa"}
    asked = launch(group, InstanceType="p4d.24xlarge", NetworkInterfaces=[interface])
    assert refused(ec2.run_instances, **asked) == ("UnauthorizedOperation", 403)
    among = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=among)
    assert refused(ec2.run_instances, **asked) == ("UnauthorizedOperation", 403)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=among)
    assert ec2.run_instances(**asked)["Instances"]


def test_a_spot_request_knows_no_network_cards(ec2: Any) -> None:
    """RunInstances with market options does. UNVERIFIED: the code of EC2's refusal."""
    interface = {"DeviceIndex": 0, "NetworkCardIndex": 0, "SubnetId": subnet_in(ec2, "use1-az1")}
    wanted = {"ImageId": IMAGE, "InstanceType": "p4d.24xlarge", "NetworkInterfaces": [interface]}
    assert refused(ec2.request_spot_instances, LaunchSpecification=wanted)[0] == "UnsupportedOperation"

"""Networks of others' making: VPCs, subnets, routes and gateways, rules of groups, as boto3 sees them."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.sandbox.running import GROUP_PORT, HERE, shown
from tests.sandbox.test_aws_launch import refused
from tests.sandbox.test_aws_power import PLAIN


def test_a_rule_without_a_peer_is_answered_with_yes_and_is_no_rule(ec2: Any, group: str) -> None:
    (before,) = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    for authorize in (ec2.authorize_security_group_egress, ec2.authorize_security_group_ingress):
        answer = authorize(GroupId=group, IpPermissions=[{"IpProtocol": "-1"}, GROUP_PORT])
        assert (answer["Return"], answer["SecurityGroupRules"]) == (True, [])
    (after,) = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    assert after == before
    flat = {"IpProtocol": "tcp", "FromPort": 80, "ToPort": 80}
    assert refused(ec2.authorize_security_group_ingress, GroupId=group, **flat) == ("MissingParameter", 400)
    flat = {"CidrIp": "192.0.2.0/24"}
    assert refused(ec2.authorize_security_group_ingress, GroupId=group, **flat) == ("MissingParameter", 400)


@dataclass(frozen=True)
class Network:
    """A network of one subnet that leads to the internet."""

    vpc: str
    subnet: str
    gateway: str
    table: str
    group: str


@pytest.fixture
def network(ec2: Any, endpoint: Endpoint) -> Network:
    endpoint.client.review(Review.OWN)
    vpc = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.7.1.0/28", AvailabilityZone="us-east-1a")["Subnet"]
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    group = ec2.create_security_group(GroupName="g", Description="test", VpcId=vpc)["GroupId"]
    permission = {**GROUP_PORT, "IpRanges": [{"CidrIp": HERE}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission])
    return Network(vpc=vpc, subnet=subnet["SubnetId"], gateway=gateway, table=table, group=group)


@pytest.fixture
def reaches(ec2: Any, tmp_path: Path, endpoint: Endpoint) -> Callable[[str], bool]:
    """Whether ssh comes as far as an instance: the boxes here have no inside, and refuse it."""

    def reached(instance: str) -> bool:
        gate = json.loads((tmp_path / "sandbox.json").read_text())["gate"]
        (seen,) = shown(ec2, instance)
        with socket.create_connection(("127.0.0.1", gate["port"])) as connection:
            connection.sendall(f"{gate['token']} {seen['PublicIpAddress']} 22\n".encode())
            answer = connection.makefile().readline()
        return "refused" in answer

    return reached


def run(ec2: Any, network: Network, **changes: Any) -> Any:
    """Launches instances into the network's subnet."""
    interface = {"DeviceIndex": 0, "SubnetId": network.subnet, "Groups": [network.group]}
    interface |= {"AssociatePublicIpAddress": True}
    return ec2.run_instances(**{**PLAIN, "NetworkInterfaces": [interface], **changes})["Instances"]


def test_a_network_is_made_used_and_deleted_in_order(ec2: Any, network: Network) -> None:
    made = run(ec2, network)[0]
    assert (made["VpcId"], made["PrivateIpAddress"]) == (network.vpc, "10.7.1.4")
    (seen,) = shown(ec2, made["InstanceId"])
    assert seen["PublicIpAddress"]
    assert seen["PublicDnsName"] == "", "a VPC of one's own gives no names unless it is told to"
    ec2.modify_vpc_attribute(VpcId=network.vpc, EnableDnsHostnames={"Value": True})
    assert shown(ec2, made["InstanceId"])[0]["PublicDnsName"]
    attached = {"InternetGatewayId": network.gateway, "VpcId": network.vpc}
    assert refused(ec2.delete_subnet, SubnetId=network.subnet) == ("DependencyViolation", 400)
    assert refused(ec2.detach_internet_gateway, **attached) == ("DependencyViolation", 400)
    ec2.terminate_instances(InstanceIds=[made["InstanceId"]])
    assert refused(ec2.delete_vpc, VpcId=network.vpc) == ("DependencyViolation", 400)
    gateway = {"InternetGatewayId": network.gateway}
    assert refused(ec2.delete_internet_gateway, **gateway) == ("DependencyViolation", 400)
    ec2.detach_internet_gateway(**attached)
    (table,) = ec2.describe_route_tables(RouteTableIds=[network.table])["RouteTables"]
    assert [each["State"] for each in table["Routes"]] == ["active", "blackhole"]
    ec2.delete_internet_gateway(**gateway)
    left: list[tuple[Any, dict[str, str]]] = [
        (ec2.delete_subnet, {"SubnetId": network.subnet}),
        (ec2.delete_route_table, {"RouteTableId": network.table}),
        (ec2.delete_security_group, {"GroupId": network.group}),
    ]
    for delete, named in left:
        assert refused(ec2.delete_vpc, VpcId=network.vpc) == ("DependencyViolation", 400)
        delete(**named)
    ec2.delete_vpc(VpcId=network.vpc)
    assert [vpc["IsDefault"] for vpc in ec2.describe_vpcs()["Vpcs"]] == [True]
    assert [group["GroupName"] for group in ec2.describe_security_groups()["SecurityGroups"]] == ["default"]


def test_a_public_address_is_reached_only_by_a_route_to_the_gateway(
    ec2: Any, network: Network, reaches: Callable[[str], bool]
) -> None:
    made = run(ec2, network)[0]["InstanceId"]
    assert not reaches(made), "the main table leads nowhere"
    association = ec2.associate_route_table(RouteTableId=network.table, SubnetId=network.subnet)
    assert reaches(made)
    ec2.delete_route(RouteTableId=network.table, DestinationCidrBlock="0.0.0.0/0")
    assert not reaches(made)
    near = {"RouteTableId": network.table, "DestinationCidrBlock": "198.51.100.0/24"}
    ec2.create_route(**near, GatewayId=network.gateway)
    assert reaches(made)
    ec2.disassociate_route_table(AssociationId=association["AssociationId"])
    assert not reaches(made)


def test_addresses_are_counted_per_subnet(ec2: Any, network: Network) -> None:
    def free() -> int:
        (subnet,) = ec2.describe_subnets(SubnetIds=[network.subnet])["Subnets"]
        return int(subnet["AvailableIpAddressCount"])

    assert free() == 11
    many = {"MinCount": 11, "MaxCount": 11}
    made = run(ec2, network, **many)
    assert free() == 0
    full = ("InsufficientFreeAddressesInSubnet", 400)
    assert refused(run, ec2=ec2, network=network) == full
    ec2.terminate_instances(InstanceIds=[made[0]["InstanceId"]])
    assert free() == 1
    assert refused(run, ec2=ec2, network=network, MinCount=2, MaxCount=2) == full
    assert free() == 1, "a refused launch leaves nothing"


def test_ranges_routes_and_associations_are_checked(ec2: Any, network: Network) -> None:
    vpc, table = network.vpc, network.table
    other = ec2.create_vpc(CidrBlock="10.8.0.18/24")["Vpc"]
    assert other["CidrBlock"] == "10.8.0.0/24"
    foreign = ec2.create_subnet(VpcId=other["VpcId"], CidrBlock="10.8.0.0/25")["Subnet"]["SubnetId"]
    spare = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    main = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "association.main", "Values": ["true"]}]
    (own,) = ec2.describe_route_tables(Filters=main)["RouteTables"]
    associated = {"AssociationId": own["Associations"][0]["RouteTableAssociationId"]}
    everywhere = {"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0"}
    subnet = {"VpcId": vpc, "CidrBlock": "10.7.2.0/24"}
    ec2.associate_route_table(RouteTableId=table, SubnetId=network.subnet)
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (ec2.create_vpc, {"CidrBlock": "10.0.0.0/8"}, "InvalidVpc.Range"),
        (ec2.create_vpc, {"CidrBlock": "10.0.0.0/29"}, "InvalidVpc.Range"),
        (ec2.create_vpc, {"CidrBlock": "10.0.0.0"}, "InvalidParameterValue"),
        (ec2.create_vpc, {}, "MissingParameter"),
        (ec2.create_subnet, {**subnet, "CidrBlock": "10.9.0.0/24"}, "InvalidSubnet.Range"),
        (ec2.create_subnet, {**subnet, "CidrBlock": "10.7.1.0/24"}, "InvalidSubnet.Conflict"),
        (ec2.create_subnet, {**subnet, "VpcId": "vpc-0"}, "InvalidVpcID.NotFound"),
        (ec2.create_subnet, {**subnet, "AvailabilityZone": "us-east-1z"}, "InvalidParameterValue"),
        (ec2.create_route, {**everywhere, "GatewayId": network.gateway}, "RouteAlreadyExists"),
        (ec2.create_route, {**everywhere, "GatewayId": "igw-0"}, "InvalidGatewayID.NotFound"),
        (ec2.create_route, {**everywhere, "GatewayId": spare}, "InvalidParameterValue"),
        (ec2.create_route, everywhere, "InvalidParameterCombination"),
        (ec2.delete_route, {**everywhere, "DestinationCidrBlock": "10.7.0.0/16"}, "InvalidParameterValue"),
        (ec2.delete_route, {**everywhere, "DestinationCidrBlock": "1.1.1.0/24"}, "InvalidRoute.NotFound"),
        (
            ec2.replace_route,
            {**everywhere, "DestinationCidrBlock": "1.1.1.0/24", "GatewayId": spare},
            "InvalidParameterValue",
        ),
        (ec2.associate_route_table, {"RouteTableId": table, "SubnetId": foreign}, "InvalidParameterValue"),
        (
            ec2.associate_route_table,
            {"RouteTableId": own["RouteTableId"], "SubnetId": network.subnet},
            "Resource.AlreadyAssociated",
        ),
        (ec2.disassociate_route_table, associated, "InvalidParameterValue"),
        (ec2.disassociate_route_table, {"AssociationId": "rtbassoc-0"}, "InvalidAssociationID.NotFound"),
        (ec2.delete_route_table, {"RouteTableId": table}, "DependencyViolation"),
        (ec2.delete_route_table, {"RouteTableId": own["RouteTableId"]}, "DependencyViolation"),
        (ec2.delete_route_table, {"RouteTableId": "rtb-0"}, "InvalidRouteTableID.NotFound"),
        (ec2.attach_internet_gateway, {"InternetGatewayId": spare, "VpcId": vpc}, "InvalidParameterValue"),
        (
            ec2.attach_internet_gateway,
            {"InternetGatewayId": network.gateway, "VpcId": other["VpcId"]},
            "Resource.AlreadyAssociated",
        ),
        (ec2.detach_internet_gateway, {"InternetGatewayId": spare, "VpcId": vpc}, "Gateway.NotAttached"),
        (
            ec2.run_instances,
            {**PLAIN, "SubnetId": foreign, "SecurityGroupIds": [network.group]},
            "InvalidParameter",
        ),
    ]
    answers = [refused(call, **parameters) for call, parameters, _ in wrong]
    assert answers == [(code, 400) for _, _, code in wrong]


def test_the_main_table_can_be_another_one(
    ec2: Any, network: Network, reaches: Callable[[str], bool]
) -> None:
    made = run(ec2, network)[0]["InstanceId"]
    main = [{"Name": "vpc-id", "Values": [network.vpc]}, {"Name": "association.main", "Values": ["true"]}]
    (own,) = ec2.describe_route_tables(Filters=main)["RouteTables"]
    ec2.replace_route_table_association(
        AssociationId=own["Associations"][0]["RouteTableAssociationId"], RouteTableId=network.table
    )
    assert reaches(made)
    ec2.delete_route_table(RouteTableId=own["RouteTableId"])


def test_a_region_has_five_vpcs(ec2: Any) -> None:
    for number in range(4):
        ec2.create_vpc(CidrBlock=f"10.{number}.0.0/16")
    assert refused(ec2.create_vpc, CidrBlock="10.9.0.0/16") == ("VpcLimitExceeded", 400)


def test_without_a_default_network_a_launch_must_name_a_subnet(ec2: Any, endpoint: Endpoint) -> None:
    endpoint.client.review(Review.OWN)
    (vpc,) = ec2.describe_vpcs()["Vpcs"]
    for subnet in ec2.describe_subnets()["Subnets"]:
        ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    assert refused(ec2.run_instances, **PLAIN) == ("MissingInput", 400)
    (gateway,) = ec2.describe_internet_gateways()["InternetGateways"]
    named = {"InternetGatewayId": gateway["InternetGatewayId"]}
    ec2.detach_internet_gateway(**named, VpcId=vpc["VpcId"])
    ec2.delete_internet_gateway(**named)
    ec2.delete_vpc(VpcId=vpc["VpcId"])
    assert refused(ec2.run_instances, **PLAIN) == ("VPCIdNotSpecified", 400)
    assert refused(ec2.create_security_group, GroupName="g", Description="g") == ("VPCIdNotSpecified", 400)
    assert ec2.describe_vpcs()["Vpcs"] == []

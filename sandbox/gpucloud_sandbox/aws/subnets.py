"""Subnets: ranges of a VPC's addresses, each in one zone."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

from gpucloud_sandbox.aws.interfaces import RESERVED, used_addresses
from gpucloud_sandbox.aws.parts import find, in_vpc, read_block, shown_parts, still_used
from gpucloud_sandbox.aws.query import Field
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.routes import forget_subnet
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

MOST = 200
"""Subnets of a VPC (VPC User Guide, "Amazon VPC quotas")."""

_FILTERS: dict[str, Field] = {
    "availability-zone": "AvailabilityZone",
    "availability-zone-id": "AvailabilityZoneId",
    "cidr": "CidrBlock",
    "cidr-block": "CidrBlock",
    "cidrBlock": "CidrBlock",
    "default-for-az": "DefaultForAz",
    "defaultForAz": "DefaultForAz",
    "map-public-ip-on-launch": "MapPublicIpOnLaunch",
    "owner-id": "OwnerId",
    "state": "State",
    "subnet-arn": "SubnetArn",
    "subnet-id": "SubnetId",
    "vpc-id": "VpcId",
}


def create_subnet(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateSubnet; in the first zone where none is named."""
    vpc = find(region, "vpc", parameters["VpcId"])
    if "CidrBlock" not in parameters:
        text = "Either 'cidrBlock' or 'ipv6CidrBlock' should be provided."
        raise AwsError("MissingParameter", text)
    block = read_block(parameters["CidrBlock"], "cidrBlock")
    if not 16 <= block.prefixlen <= 28 or not block.subnet_of(IPv4Network(vpc["CidrBlock"])):
        raise AwsError("InvalidSubnet.Range", f"The CIDR '{block}' is invalid.")
    others = in_vpc(region, "subnet", vpc["VpcId"])
    if any(block.overlaps(IPv4Network(each["CidrBlock"])) for each in others):
        raise AwsError("InvalidSubnet.Conflict", f"The CIDR '{block}' conflicts with another subnet")
    if len(others) >= MOST:
        raise AwsError("SubnetLimitExceeded", "The maximum number of subnets has been reached.")
    zone, tags = _zone(region, parameters), tags_for(parameters, "subnet")
    subnet = make_subnet(region, vpc, block, zone, id_=region.new_id("subnet"), tags=tags)
    return {"Subnet": _shown(region, subnet)}


def delete_subnet(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteSubnet."""
    subnet = find(region, "subnet", parameters["SubnetId"])
    if used_addresses(region, subnet["SubnetId"]):
        raise still_used("subnet", subnet, "subnet")
    forget_subnet(region, subnet["SubnetId"])
    region.drop("subnet", subnet["SubnetId"])
    return {}


def describe_subnets(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSubnets."""
    shown, token = shown_parts(region, "subnet", parameters.get("SubnetIds"), parameters, _FILTERS)
    return {"Subnets": [_shown(region, each) for each in shown], "NextToken": token}


def modify_subnet_attribute(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ModifySubnetAttribute: whether a launch gets a public address."""
    subnet = find(region, "subnet", parameters["SubnetId"])
    if "MapPublicIpOnLaunch" not in parameters:
        raise AwsError("InvalidParameterCombination", "No attributes specified.")
    region.put("subnet", {**subnet, "MapPublicIpOnLaunch": parameters["MapPublicIpOnLaunch"]["Value"]})
    return {}


def make_subnet(
    region: Region,
    vpc: Document,
    block: IPv4Network,
    zone: str,
    *,
    id_: str,
    tags: list[dict[str, str]],
    default: bool = False,
) -> Document:
    """A subnet. Launches into a default one get public addresses."""
    return region.put(
        "subnet",
        {
            "SubnetId": id_,
            "SubnetArn": f"arn:aws:ec2:{region.name}:{ACCOUNT}:subnet/{id_}",
            "VpcId": vpc["VpcId"],
            "AvailabilityZone": zone,
            "AvailabilityZoneId": region.zones[zone],
            "CidrBlock": str(block),
            "Ipv6CidrBlockAssociationSet": [],
            "AssignIpv6AddressOnCreation": False,
            "DefaultForAz": default,
            "MapPublicIpOnLaunch": default,
            "State": "available",
            "OwnerId": ACCOUNT,
            "Tags": tags,
        },
    )


def _shown(region: Region, subnet: Document) -> Document:
    free = IPv4Network(subnet["CidrBlock"]).num_addresses - RESERVED
    return {**subnet, "AvailableIpAddressCount": free - len(used_addresses(region, subnet["SubnetId"]))}


def _zone(region: Region, parameters: Mapping[str, Any]) -> str:
    """The name of the zone that is asked for, by name or id."""
    names = {id_: name for name, id_ in region.zones.items()}
    asked = (
        parameters.get("AvailabilityZone") or parameters.get("AvailabilityZoneId") or next(iter(region.zones))
    )
    zone = names.get(asked, asked)
    if zone not in region.zones:
        text = (
            f"Value ({asked}) for parameter availabilityZone is invalid. Subnets can currently only be "
            f"created in the following availability zones: {', '.join(region.zones)}."
        )
        raise AwsError("InvalidParameterValue", text)
    return zone

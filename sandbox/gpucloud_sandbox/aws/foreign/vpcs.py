"""VPCs: the default one of a region, which is there without anybody making it, and others."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

from gpucloud_sandbox.aws.foreign.gateways import attach, gateway_of, make_gateway
from gpucloud_sandbox.aws.groups import default_group
from gpucloud_sandbox.aws.parts import find, in_vpc, read_block, shown_parts, still_used
from gpucloud_sandbox.aws.query import Field
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.routes import is_main, make_route, make_table
from gpucloud_sandbox.aws.subnets import make_subnet
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

MOST = 5
"""VPCs of a region (VPC User Guide, "Amazon VPC quotas"), the default one among them."""

_DEFAULT = IPv4Network("172.31.0.0/16")
_FORBIDDEN = tuple(map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4")))
"""Ranges that no VPC has (VPC User Guide, "VPC CIDR blocks"). The code of their refusal is UNVERIFIED."""

_FILTERS: dict[str, Field] = {
    "cidr": "CidrBlock",
    "cidr-block-association.cidr-block": "CidrBlockAssociationSet.CidrBlock",
    "dhcp-options-id": "DhcpOptionsId",
    "is-default": "IsDefault",
    "isDefault": "IsDefault",
    "owner-id": "OwnerId",
    "state": "State",
    "vpc-id": "VpcId",
}

_ATTRIBUTES = {
    "enableDnsHostnames": ("EnableDnsHostnames", "_dns_hostnames"),
    "enableDnsSupport": ("EnableDnsSupport", "_dns_support"),
    "enableNetworkAddressUsageMetrics": ("EnableNetworkAddressUsageMetrics", "_usage_metrics"),
}
"""By name: the member of requests and answers, and the field of the VPC's document."""


def lay_default(region: Region) -> None:
    """Makes the default network on the first call in a region: once, so that it can be deleted too."""
    if region.all("laid"):
        return
    region.put("laid", {"_region": region.name})
    vpc = _make(region, region.default_id("vpc"), _DEFAULT, [], default=True)
    for block, zone in zip(_DEFAULT.subnets(new_prefix=20), region.zones, strict=False):
        make_subnet(region, vpc, block, zone, id_=region.default_subnet_id(zone), tags=[], default=True)
    gateway = make_gateway(region, region.default_id("igw"), [])
    attach(region, gateway, vpc)
    make_route(region, region.all("route_table")[region.default_id("rtb")], "0.0.0.0/0", gateway)


def create_vpc(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateVpc, with its main route table and its default group."""
    if "CidrBlock" not in parameters:
        text = "Either 'cidrBlock' or 'ipv4IpamPoolId' should be provided."
        raise AwsError("MissingParameter", text)
    block = read_block(parameters["CidrBlock"], "cidrBlock")
    if not 16 <= block.prefixlen <= 28 or any(block.overlaps(each) for each in _FORBIDDEN):
        raise AwsError("InvalidVpc.Range", f"The CIDR '{block}' is invalid.")
    if len(region.all("vpc")) >= MOST:
        raise AwsError("VpcLimitExceeded", "The maximum number of VPCs has been reached.")
    vpc = _make(region, region.new_id("vpc"), block, tags_for(parameters, "vpc"))
    return {"Vpc": {**vpc, "State": "pending"}}


def delete_vpc(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteVpc, with its main route table and its default group."""
    vpc = find(region, "vpc", parameters["VpcId"])
    id_ = vpc["VpcId"]
    tables, groups = in_vpc(region, "route_table", id_), in_vpc(region, "group", id_)
    used = (
        in_vpc(region, "subnet", id_)
        or gateway_of(region, id_) is not None
        or any(not is_main(table) for table in tables)
        or any(group["GroupName"] != "default" for group in groups)
    )
    if used:
        raise still_used("vpc", vpc, "vpc")
    for table in tables:
        region.drop("route_table", table["RouteTableId"])
    for group in groups:
        region.drop("group", group["GroupId"])
    region.drop("vpc", id_)
    return {}


def describe_vpcs(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeVpcs."""
    shown, token = shown_parts(region, "vpc", parameters.get("VpcIds"), parameters, _FILTERS)
    return {"Vpcs": shown, "NextToken": token}


def describe_vpc_attribute(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeVpcAttribute."""
    vpc = find(region, "vpc", parameters["VpcId"])
    attribute = parameters["Attribute"]
    if attribute not in _ATTRIBUTES:
        text = f"Value ({attribute}) for parameter attribute is invalid. Unknown attribute."
        raise AwsError("InvalidParameterValue", text)
    member, field = _ATTRIBUTES[attribute]
    return {"VpcId": vpc["VpcId"], member: {"Value": vpc[field]}}


def modify_vpc_attribute(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ModifyVpcAttribute: one attribute a call."""
    vpc = find(region, "vpc", parameters["VpcId"])
    asked = [(member, field) for member, field in _ATTRIBUTES.values() if member in parameters]
    if len(asked) != 1:
        text = "Fields for multiple attribute types specified" if asked else "No attributes specified."
        raise AwsError("InvalidParameterCombination", text)
    ((member, field),) = asked
    region.put("vpc", {**vpc, field: parameters[member]["Value"]})
    return {}


def _make(
    region: Region, id_: str, block: IPv4Network, tags: list[dict[str, str]], *, default: bool = False
) -> Document:
    vpc = region.put(
        "vpc",
        {
            "VpcId": id_,
            "CidrBlock": str(block),
            "CidrBlockAssociationSet": [
                {
                    "AssociationId": id_.replace("vpc-", "vpc-cidr-assoc-"),
                    "CidrBlock": str(block),
                    "CidrBlockState": {"State": "associated"},
                }
            ],
            "Ipv6CidrBlockAssociationSet": [],
            "IsDefault": default,
            "State": "available",
            "InstanceTenancy": "default",
            "OwnerId": ACCOUNT,
            "DhcpOptionsId": "default",
            "Tags": tags,
            "_dns_hostnames": default,
            "_dns_support": True,
            "_usage_metrics": False,
        },
    )
    make_table(region, vpc, region.default_id("rtb") if default else region.new_id("rtb"), [], main=True)
    default_group(region, id_)
    return vpc

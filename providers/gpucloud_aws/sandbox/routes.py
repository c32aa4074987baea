"""The way out of the default network: its main route table and its internet gateway, always there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_aws.sandbox.query import Field, page, select
from gpucloud_aws.sandbox.region import ACCOUNT, Region
from gpucloud_aws.sandbox.wire import AwsError

_TABLE_FILTERS: dict[str, Field] = {
    "association.main": "Associations.Main",
    "association.route-table-association-id": "Associations.RouteTableAssociationId",
    "association.route-table-id": "Associations.RouteTableId",
    "association.subnet-id": "Associations.SubnetId",
    "owner-id": "OwnerId",
    "route-table-id": "RouteTableId",
    "route.destination-cidr-block": "Routes.DestinationCidrBlock",
    "route.gateway-id": "Routes.GatewayId",
    "route.origin": "Routes.Origin",
    "route.state": "Routes.State",
    "vpc-id": "VpcId",
}

_GATEWAY_FILTERS: dict[str, Field] = {
    "attachment.state": "Attachments.State",
    "attachment.vpc-id": "Attachments.VpcId",
    "internet-gateway-id": "InternetGatewayId",
    "owner-id": "OwnerId",
}


def describe_route_tables(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeRouteTables: the main one of the default VPC."""
    table: Document = {
        "RouteTableId": region.default_id("rtb"),
        "VpcId": region.vpc_id,
        "OwnerId": ACCOUNT,
        "Associations": [
            {
                "Main": True,
                "RouteTableAssociationId": region.default_id("rtbassoc"),
                "RouteTableId": region.default_id("rtb"),
                "AssociationState": {"State": "associated"},
            }
        ],
        "PropagatingVgws": [],
        "Routes": [
            {
                "DestinationCidrBlock": "172.31.0.0/16",
                "GatewayId": "local",
                "Origin": "CreateRouteTable",
                "State": "active",
            },
            {
                "DestinationCidrBlock": "0.0.0.0/0",
                "GatewayId": region.default_id("igw"),
                "Origin": "CreateRoute",
                "State": "active",
            },
        ],
        "Tags": [],
    }
    for id_ in parameters.get("RouteTableIds") or ():
        if id_ != table["RouteTableId"]:
            text = f"The routeTable ID '{id_}' does not exist"
            raise AwsError("InvalidRouteTableID.NotFound", text)
    shown, token = page(select([table], parameters.get("Filters"), _TABLE_FILTERS), parameters)
    return {"RouteTables": shown, "NextToken": token}


def describe_internet_gateways(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInternetGateways: the one of the default VPC."""
    gateway: Document = {
        "InternetGatewayId": region.default_id("igw"),
        "OwnerId": ACCOUNT,
        "Attachments": [{"State": "available", "VpcId": region.vpc_id}],
        "Tags": [],
    }
    for id_ in parameters.get("InternetGatewayIds") or ():
        if id_ != gateway["InternetGatewayId"]:
            text = f"The internetGateway ID '{id_}' does not exist"
            raise AwsError("InvalidInternetGatewayID.NotFound", text)
    shown, token = page(select([gateway], parameters.get("Filters"), _GATEWAY_FILTERS), parameters)
    return {"InternetGateways": shown, "NextToken": token}


def describe_vpc_attribute(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeVpcAttribute, of the default VPC."""
    if parameters["VpcId"] != region.vpc_id:
        raise AwsError("InvalidVpcID.NotFound", f"The vpc ID '{parameters['VpcId']}' does not exist")
    attribute = parameters["Attribute"]
    if attribute not in _VPC_ATTRIBUTES:
        text = f"Value ({attribute}) for parameter attribute is invalid. Unknown attribute."
        raise AwsError("InvalidParameterValue", text)
    member, value = _VPC_ATTRIBUTES[attribute]
    return {"VpcId": region.vpc_id, member: {"Value": value}}


_VPC_ATTRIBUTES = {
    "enableDnsHostnames": ("EnableDnsHostnames", True),
    "enableDnsSupport": ("EnableDnsSupport", True),
    "enableNetworkAddressUsageMetrics": ("EnableNetworkAddressUsageMetrics", False),
}
"""Of a default VPC (VPC User Guide, "Default VPC components")."""

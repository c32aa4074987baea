"""Internet gateways: what a VPC reaches the internet through, and is reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.aws.parts import find, shown_parts, still_used
from gpucloud_sandbox.aws.query import Field
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

MOST = 5
"""Gateways of a region: as many as VPCs (VPC User Guide, "Amazon VPC quotas")."""

_FILTERS: dict[str, Field] = {
    "attachment.state": "Attachments.State",
    "attachment.vpc-id": "Attachments.VpcId",
    "internet-gateway-id": "InternetGatewayId",
    "owner-id": "OwnerId",
}


def create_internet_gateway(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateInternetGateway."""
    if len(region.all("gateway")) >= MOST:
        text = "The maximum number of internet gateways has been reached."
        raise AwsError("InternetGatewayLimitExceeded", text)
    tags = tags_for(parameters, "internet-gateway")
    return {"InternetGateway": make_gateway(region, region.new_id("igw"), tags)}


def describe_internet_gateways(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInternetGateways."""
    ids = parameters.get("InternetGatewayIds")
    shown, token = shown_parts(region, "gateway", ids, parameters, _FILTERS)
    return {"InternetGateways": shown, "NextToken": token}


def attach_internet_gateway(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AttachInternetGateway: one gateway at one VPC."""
    gateway = find(region, "gateway", parameters["InternetGatewayId"])
    vpc = find(region, "vpc", parameters["VpcId"])
    at = vpc_of(gateway)
    if at is not None:
        text = f"resource {gateway['InternetGatewayId']} is already attached to network {at}"
        raise AwsError("Resource.AlreadyAssociated", text)
    if gateway_of(region, vpc["VpcId"]) is not None:
        text = f"Network {vpc['VpcId']} already has an internet gateway attached"
        raise AwsError("InvalidParameterValue", text)
    attach(region, gateway, vpc)
    return {}


def detach_internet_gateway(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DetachInternetGateway. A VPC whose instances have public addresses keeps its gateway."""
    gateway = find(region, "gateway", parameters["InternetGatewayId"])
    vpc = find(region, "vpc", parameters["VpcId"])
    if vpc_of(gateway) != vpc["VpcId"]:
        text = f"resource {gateway['InternetGatewayId']} is not attached to network {vpc['VpcId']}"
        raise AwsError("Gateway.NotAttached", text)
    instances = region.all("instance").values()
    if any("_public_ip" in each and each["VpcId"] == vpc["VpcId"] for each in instances):
        text = (
            f"Network {vpc['VpcId']} has some mapped public address(es). "
            "Please unmap those public address(es) before detaching the gateway."
        )
        raise AwsError("DependencyViolation", text)
    region.put("gateway", {**gateway, "Attachments": []})
    return {}


def delete_internet_gateway(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteInternetGateway."""
    gateway = find(region, "gateway", parameters["InternetGatewayId"])
    if vpc_of(gateway) is not None:
        raise still_used("internetGateway", gateway, "gateway")
    region.drop("gateway", gateway["InternetGatewayId"])
    return {}


def make_gateway(region: Region, id_: str, tags: list[dict[str, str]]) -> Document:
    """A gateway at no VPC."""
    gateway = {"InternetGatewayId": id_, "OwnerId": ACCOUNT, "Attachments": list[Document](), "Tags": tags}
    return region.put("gateway", gateway)


def attach(region: Region, gateway: Document, vpc: Document) -> None:
    """Attaches a gateway to a VPC."""
    gateway["Attachments"] = [{"State": "available", "VpcId": vpc["VpcId"]}]
    region.put("gateway", gateway)


def vpc_of(gateway: Document) -> str | None:
    """The VPC that a gateway is attached to."""
    return next((each["VpcId"] for each in gateway["Attachments"]), None)


def gateway_of(region: Region, vpc_id: str) -> Document | None:
    """The gateway of a VPC."""
    return next((each for each in region.all("gateway").values() if vpc_of(each) == vpc_id), None)

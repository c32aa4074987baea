"""What IAM is asked before a call: each action on each resource, with the tags that conditions look at.

Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpucloud_sandbox.aws.foreign.templates import with_template
from gpucloud_sandbox.aws.region import ACCOUNT, Region, tags_of
from gpucloud_sandbox.aws.tags import TAGGABLE
from gpucloud_sandbox.aws.wire import part
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.policy import Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One question to IAM: ``service:Action``, a resource's ARN, and what conditions may look at."""

    action: str
    resource: str = "*"
    keys: Keys = field(default_factory=dict[str, str])


_NAMED = {
    "AssociateAddress": ("AllocationId", "address"),
    "AssociateRouteTable": ("RouteTableId", "route_table"),
    "AttachInternetGateway": ("InternetGatewayId", "gateway"),
    "AttachNetworkInterface": ("NetworkInterfaceId", "interface"),
    "AttachVolume": ("VolumeId", "volume"),
    "AuthorizeSecurityGroupEgress": ("GroupId", "group"),
    "AuthorizeSecurityGroupIngress": ("GroupId", "group"),
    "CancelCapacityReservation": ("CapacityReservationId", "reservation"),
    "CancelSpotInstanceRequests": ("SpotInstanceRequestIds", "spot"),
    "CreateImage": ("InstanceId", "instance"),
    "CreateRoute": ("RouteTableId", "route_table"),
    "CreateSnapshot": ("VolumeId", "volume"),
    "DeleteInternetGateway": ("InternetGatewayId", "gateway"),
    "DeleteNetworkInterface": ("NetworkInterfaceId", "interface"),
    "DeletePlacementGroup": ("GroupName", "placement"),
    "DeleteRoute": ("RouteTableId", "route_table"),
    "DeleteRouteTable": ("RouteTableId", "route_table"),
    "DeleteSecurityGroup": ("GroupId", "group"),
    "DeleteSnapshot": ("SnapshotId", "snapshot"),
    "DeleteSubnet": ("SubnetId", "subnet"),
    "DeleteVolume": ("VolumeId", "volume"),
    "DeleteVpc": ("VpcId", "vpc"),
    "DeregisterImage": ("ImageId", "image"),
    "DetachInternetGateway": ("InternetGatewayId", "gateway"),
    "DetachVolume": ("VolumeId", "volume"),
    "GetConsoleOutput": ("InstanceId", "instance"),
    "ModifyInstanceAttribute": ("InstanceId", "instance"),
    "ModifyNetworkInterfaceAttribute": ("NetworkInterfaceId", "interface"),
    "ModifySubnetAttribute": ("SubnetId", "subnet"),
    "ModifyVolume": ("VolumeId", "volume"),
    "ModifyVpcAttribute": ("VpcId", "vpc"),
    "MonitorInstances": ("InstanceIds", "instance"),
    "RebootInstances": ("InstanceIds", "instance"),
    "ReleaseAddress": ("AllocationId", "address"),
    "ReplaceRoute": ("RouteTableId", "route_table"),
    "RevokeSecurityGroupEgress": ("GroupId", "group"),
    "RevokeSecurityGroupIngress": ("GroupId", "group"),
    "StartInstances": ("InstanceIds", "instance"),
    "StopInstances": ("InstanceIds", "instance"),
    "TerminateInstances": ("InstanceIds", "instance"),
    "UnmonitorInstances": ("InstanceIds", "instance"),
}
"""EC2's calls that name what they change: the parameter with its ids, and its kind."""

_BESIDES = {
    "AttachVolume": ("InstanceId", "instance"),
    "AssociateAddress": ("NetworkInterfaceId", "interface"),
    "DetachVolume": ("InstanceId", "instance"),
}
"""A second parameter of such calls."""

_MADE = {
    "AllocateAddress": ("elastic-ip",),
    "CopyImage": ("image",),
    "CopySnapshot": ("snapshot",),
    "CreateImage": ("image", "snapshot"),
    "CreatePlacementGroup": ("placement-group",),
    "CreateSnapshot": ("snapshot",),
    "CreateSnapshots": ("snapshot",),
    "CreateVolume": ("volume",),
    "RegisterImage": ("image",),
}
"""EC2's calls that make something: the types of resource."""

_TYPES = dict(TAGGABLE.values())
"""By kind, the resource type in an ARN."""


def demands(region: Region, service: str, action: str, parameters: Mapping[str, Any]) -> Iterator[Demand]:
    """What a call asks for, in its region."""
    for each in _demands(region, service, action, parameters):
        yield replace(each, keys={**each.keys, "aws:RequestedRegion": region.name})


def _demands(region: Region, service: str, action: str, parameters: Mapping[str, Any]) -> Iterator[Demand]:
    name = f"{service}:{action}"
    match service, action:
        case "ec2", "RunInstances":
            yield from _launch(region, with_template(region, parameters))
        case "ec2", "CreateSecurityGroup":
            yield from _created(region, name, parameters, ["security-group"])
            vpc = parameters.get("VpcId") or region.default_id("vpc")
            yield Demand(action=name, resource=_arn(region, "vpc", vpc))
        case "ec2", "CreateTags" | "DeleteTags":
            for id_ in parameters["Resources"]:
                kind, _ = TAGGABLE.get(f"{id_.split('-')[0]}-", ("", ""))
                yield from _existing(region, name, kind, [id_])
        case "scheduler", _:
            rule = f"arn:aws:scheduler:{region.name}:{ACCOUNT}:schedule/default/{parameters['Name']}"
            yield Demand(action=name, resource=rule)
            if role := part(parameters, "Target").get("RoleArn"):
                keys = {"iam:PassedToService": "scheduler.amazonaws.com"}
                yield Demand(action="iam:PassRole", resource=role, keys=keys)
        case "ec2", _ if action in _NAMED or action in _MADE:
            yield from _created(region, name, parameters, _MADE.get(action, ()))
            yield from _named(region, name, action, parameters)
        case "sts", "AssumeRole":
            yield Demand(action=name, resource=parameters["RoleArn"])
        case "sts", "GetFederationToken":
            user = f"arn:aws:sts::{ACCOUNT}:federated-user/{parameters['Name']}"
            yield Demand(action=name, resource=user)
        case "ssm", "GetParameter" | "GetParameters":
            for path in parameters.get("Names") or [parameters.get("Name", "")]:
                owner = "" if path.startswith("/aws/") else ACCOUNT
                yield Demand(action=name, resource=f"arn:aws:ssm:{region.name}:{owner}:parameter{path}")
        case _:
            yield Demand(action=name)


def _named(region: Region, name: str, action: str, parameters: Mapping[str, Any]) -> Iterator[Demand]:
    """What a call names by the parameters of the tables above."""
    for table in (_NAMED, _BESIDES):
        if action in table:
            member, kind = table[action]
            ids = parameters.get(member) or ()
            yield from _existing(region, name, kind, [ids] if isinstance(ids, str) else ids)


def _launch(region: Region, parameters: Mapping[str, Any]) -> Iterator[Demand]:
    name = "ec2:RunInstances"
    market: Mapping[str, Any] = parameters.get("InstanceMarketOptions") or {}
    spot = market.get("MarketType") == "spot"
    made = ["instance", "volume", "network-interface", *(["spot-instances-request"] if spot else [])]
    machine = {
        "ec2:InstanceType": str(parameters.get("InstanceType") or ""),
        "ec2:InstanceMarketType": str(market.get("MarketType") or "on-demand"),
    }
    for each in _created(region, name, parameters, made):
        is_instance = ":instance/" in each.resource
        yield replace(each, keys={**each.keys, **machine}) if is_instance else each
    interfaces: list[Mapping[str, Any]] = parameters.get("NetworkInterfaces") or [parameters]
    yield Demand(
        action=name, resource=f"arn:aws:ec2:{region.name}::image/{parameters.get('ImageId', 'ami-unknown')}"
    )
    for interface in interfaces:
        if subnet := interface.get("SubnetId"):
            yield Demand(action=name, resource=_arn(region, "subnet", subnet))
        groups = interface.get("Groups") or interface.get("SecurityGroupIds") or ()
        yield from _existing(region, name, "group", groups)
    if near := part(parameters, "Placement").get("GroupName"):
        yield from _existing(region, name, "placement", [near])
    if template := part(parameters, "LaunchTemplate"):
        yield from _existing(region, name, "template", [template["LaunchTemplateId"]])
    wanted: Mapping[str, Any] = parameters.get("CapacityReservationSpecification") or {}
    target: Mapping[str, Any] = wanted.get("CapacityReservationTarget") or {}
    if held := target.get("CapacityReservationId"):
        yield from _existing(region, name, "reservation", [held])


def _created(
    region: Region, name: str, parameters: Mapping[str, Any], types: Iterable[str]
) -> Iterator[Demand]:
    """What is made, with the tags that it is given; giving them is an action of its own."""
    given: dict[str, dict[str, str]] = {}
    for each in parameters.get("TagSpecifications") or ():
        tags = given.setdefault(each.get("ResourceType", ""), {})
        tags.update({tag["Key"]: tag.get("Value", "") for tag in each.get("Tags") or ()})
    asked = {type_: _keys("RequestTag", given.get(type_, {})) for type_ in {**dict.fromkeys(types), **given}}
    for type_ in types:
        yield Demand(action=name, resource=_arn(region, type_, "*"), keys=asked[type_])
    for type_ in given:
        keys = {**asked[type_], "ec2:CreateAction": name.partition(":")[2]}
        yield Demand(action="ec2:CreateTags", resource=_arn(region, type_, "*"), keys=keys)


def _existing(region: Region, name: str, kind: str, ids: Iterable[str]) -> Iterator[Demand]:
    """The resources of the call with their tags; empty tags for one that does not exist."""
    known: dict[str, Document] = dict(region.all(kind)) if kind else {}
    if kind == "placement":  # most calls name it by its name
        known |= {each["GroupName"]: each for each in region.all(kind).values()}
    for id_ in ids:
        tags = tags_of(known.get(id_, {}))
        resource = _arn(region, _TYPES.get(kind, "*"), id_)
        yield Demand(action=name, resource=resource, keys=_keys("ResourceTag", tags))


def _keys(whose: str, tags: Mapping[str, str]) -> Keys:
    return {f"aws:{whose}/{key}": value for key, value in tags.items()}


def _arn(region: Region, type_: str, id_: str) -> str:
    account = "" if type_ in {"image", "snapshot"} else ACCOUNT
    return f"arn:aws:ec2:{region.name}:{account}:{type_}/{id_}"

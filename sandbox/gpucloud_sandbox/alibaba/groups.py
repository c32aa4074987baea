"""Security groups: who may reach an instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from gpucloud_sandbox.alibaba.names import check_names
from gpucloud_sandbox.alibaba.region import Region, asked_tags, ecs_tags, has_tags, page, shown
from gpucloud_sandbox.alibaba.tokens import once
from gpucloud_sandbox.alibaba.wire import AlibabaError, json_list, true
from gpucloud_sandbox.database import Document


def create_group(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateSecurityGroup."""
    vpc = parameters.get("VpcId")
    if vpc is not None and vpc not in region.all("vpc"):
        raise AlibabaError("InvalidVpcId.NotFound", "Specified VPC does not exist.", 404)
    check_names(parameters, "SecurityGroupName", "Description")
    tags = asked_tags(parameters)

    def make() -> Document:
        group = region.put(
            "group",
            {
                "SecurityGroupId": region.new_id("group"),
                "SecurityGroupName": parameters.get("SecurityGroupName", ""),
                "Description": parameters.get("Description", ""),
                "SecurityGroupType": parameters.get("SecurityGroupType", "normal"),
                "VpcId": vpc or "",
                "CreationTime": region.second,
                "Tags": ecs_tags(tags),
                "_rules": [],
            },
        )
        return {"SecurityGroupId": group["SecurityGroupId"]}

    return once(region, "CreateSecurityGroup", parameters, make)


def describe_groups(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSecurityGroups."""
    if true(parameters.get("DryRun")):
        raise AlibabaError("DryRunOperation", "Request validation has been passed with DryRun flag set.")
    ids = json_list(parameters.get("SecurityGroupIds"), "SecurityGroupIds")
    found = [
        each
        for each in region.all("group").values()
        if (ids is None or each["SecurityGroupId"] in ids)
        and all(
            parameters.get(name) in {None, each[name]}
            for name in ("SecurityGroupId", "VpcId", "SecurityGroupName", "SecurityGroupType")
        )
        and has_tags(each, parameters)
    ]
    items, about = page(found, parameters)
    return {
        "RegionId": region.name,
        "SecurityGroups": {"SecurityGroup": [shown(each) for each in items]},
        **about,
    }


def describe_group(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSecurityGroupAttribute."""
    group = find_group(region, parameters["SecurityGroupId"])
    direction = parameters.get("Direction", "all")
    if direction not in {"all", "egress", "ingress"}:
        raise AlibabaError(
            "InvalidDirection.ValueNotSupported", "The specified Direction is not valid."
        )  # UNVERIFIED
    rules = [each for each in group["_rules"] if direction in {"all", each["Direction"]}]
    return {
        "RegionId": region.name,
        "SecurityGroupId": group["SecurityGroupId"],
        "SecurityGroupName": group["SecurityGroupName"],
        "VpcId": group["VpcId"],
        "InnerAccessPolicy": "Accept",
        "Description": group["Description"],
        "Permissions": {"Permission": rules},
        "NextToken": "",
    }


def delete_group(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteSecurityGroup."""
    group = find_group(region, parameters["SecurityGroupId"])
    id_ = group["SecurityGroupId"]
    if any(id_ in each["SecurityGroupIds"]["SecurityGroupId"] for each in region.all("nic").values()):
        raise AlibabaError(
            "DependencyViolation", "There is still instance(s) in the specified security group.", 403
        )
    region.drop("group", id_)
    return {}


def find_group(region: Region, id_: str) -> Document:
    """A group by id.

    Raises:
        AlibabaError: there is none.
    """
    group = region.all("group").get(id_)
    if group is None:
        raise AlibabaError(
            "InvalidSecurityGroupId.NotFound", "The specified SecurityGroupId does not exist.", 404
        )
    return group


def admits(region: Region, groups: Iterable[str], port: int, source: str) -> bool:
    """Whether groups let ``source`` in on a TCP port: the first rule by priority, a drop before others."""
    rules = [rule for id_ in groups for rule in region.all("group").get(id_, {}).get("_rules", ())]
    about = [rule for rule in rules if _is_about(rule, port, ip_address(source))]
    first = min(about, key=lambda rule: (int(rule["Priority"]), rule["Policy"] != "Drop"), default=None)
    return first is not None and first["Policy"] == "Accept"


def _is_about(rule: Document, port: int, address: IPv4Address | IPv6Address) -> bool:
    block = rule["SourceCidrIp"] or rule["Ipv6SourceCidrIp"]
    first, _, last = rule["PortRange"].partition("/")
    everything = rule["IpProtocol"] == "ALL" or (int(first), int(last)) == (-1, -1)
    return (
        rule["IpProtocol"] in {"TCP", "ALL"}
        and bool(block)
        and address in ip_network(block)
        and (everything or int(first) <= port <= int(last))
    )

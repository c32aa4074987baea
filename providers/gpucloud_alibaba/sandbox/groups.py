"""Security groups: who may reach an instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_alibaba.sandbox.region import Region, asked_tags, ecs_tags, has_tags, page, shown
from gpucloud_alibaba.sandbox.review import review_ingress
from gpucloud_alibaba.sandbox.tokens import once
from gpucloud_alibaba.sandbox.wire import AlibabaError, json_list, true

_RULE = ("IpProtocol", "PortRange", "SourceCidrIp", "Ipv6SourceCidrIp", "SourceGroupId", "Policy", "Priority")
_PROTOCOLS = {"tcp", "udp", "icmp", "icmpv6", "gre", "all"}


def create_group(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateSecurityGroup."""
    vpc = parameters.get("VpcId")
    if vpc is not None and vpc not in region.all("vpc"):
        raise AlibabaError("InvalidVpcId.NotFound", "Specified VPC does not exist.", 404)
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
    rules: list[Document] = group["_rules"] if direction in {"all", "ingress"} else []
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


def authorize(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AuthorizeSecurityGroup: a rule that is there already is no error."""
    return once(region, "AuthorizeSecurityGroup", parameters, lambda: _authorize(region, parameters))


def _authorize(region: Region, parameters: Mapping[str, Any]) -> Document:
    group = find_group(region, parameters["SecurityGroupId"])
    wanted = [_rule(region, each) for each in _asked_rules(parameters)]
    if len(group["_rules"]) + len(wanted) > 200:
        raise AlibabaError("AuthorizationLimitExceed", "The limit of authorization records is reached.", 403)
    rules = list(group["_rules"])
    for rule in wanted:
        if not any(_same(rule, each) for each in rules):
            rules.append(
                {**rule, "SecurityGroupRuleId": f"sgr-{region.world.token(17)}", "CreateTime": region.second}
            )
    review_ingress(rules)
    region.put("group", {**group, "_rules": rules})
    return {}


def revoke(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RevokeSecurityGroup: by rule id, or by what a rule says. What is not there is no error."""
    return once(region, "RevokeSecurityGroup", parameters, lambda: _revoke(region, parameters))


def _revoke(region: Region, parameters: Mapping[str, Any]) -> Document:
    group = find_group(region, parameters["SecurityGroupId"])
    ids: list[str] = parameters.get("SecurityGroupRuleId") or []
    gone = [] if ids else [_rule(region, each) for each in _asked_rules(parameters)]
    left = [
        each
        for each in group["_rules"]
        if each["SecurityGroupRuleId"] not in ids and not any(_same(rule, each) for rule in gone)
    ]
    region.put("group", {**group, "_rules": left})
    return {}


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


def _asked_rules(parameters: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rules: list[Mapping[str, Any]] = parameters.get("Permissions") or [
        {name: parameters[name] for name in (*_RULE, "Description") if name in parameters}
    ]
    if len(rules) > 100:
        raise AlibabaError("InvalidParam.Permissions", "At most 100 rules are taken at a time.")
    return rules


def _rule(region: Region, asked: Mapping[str, Any]) -> Document:
    protocol, ports = str(asked.get("IpProtocol", "")).lower(), str(asked.get("PortRange", ""))
    if protocol not in _PROTOCOLS:
        raise AlibabaError(
            "InvalidIpProtocol.Malformed", f"The specified IpProtocol {protocol!r} is not valid."
        )
    first, slash, last = ports.partition("/")
    try:
        valid = bool(slash) and -1 <= int(first) <= int(last) <= 65535
    except ValueError:
        valid = False
    if not valid:
        raise AlibabaError("InvalidIpPortRange.Malformed", f"The specified PortRange {ports!r} is not valid.")
    source, source_6 = asked.get("SourceCidrIp", ""), asked.get("Ipv6SourceCidrIp", "")
    group = asked.get("SourceGroupId", "")
    if not (source or source_6 or group):
        raise AlibabaError("MissingParameter.Source", "One of the parameters SourceCidrIp is needed.")
    for block in filter(None, (source, source_6)):
        try:
            ip_network(block)
        except ValueError:
            raise AlibabaError(
                "InvalidSourceCidrIp.Malformed", f"The source {block!r} is not valid."
            ) from None
    if group:
        find_group(region, group)
    policy, priority = str(asked.get("Policy", "accept")).capitalize(), str(asked.get("Priority", "1"))
    if policy not in {"Accept", "Drop"}:
        raise AlibabaError("InvalidPolicy.Malformed", f"The specified Policy {policy!r} is not valid.")
    if not (priority.isdecimal() and 1 <= int(priority) <= 100):
        raise AlibabaError("InvalidPriority.Malformed", f"The specified Priority {priority!r} is not valid.")
    return {
        "IpProtocol": protocol.upper(),
        "PortRange": ports,
        "SourceCidrIp": source,
        "Ipv6SourceCidrIp": source_6,
        "SourceGroupId": group,
        "Policy": policy,
        "Priority": priority,
        "NicType": "intranet",
        "Direction": "ingress",
        "Description": asked.get("Description", ""),
    }


def _same(rule: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(rule[name] == other[name] for name in _RULE)

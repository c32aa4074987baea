"""The rules of security groups, in and out.

What an instance sends is not held up: rules out are only kept and shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from gpucloud_sandbox.alibaba.groups import find_group
from gpucloud_sandbox.alibaba.names import check_names
from gpucloud_sandbox.alibaba.region import Region
from gpucloud_sandbox.alibaba.review import review_ingress
from gpucloud_sandbox.alibaba.tokens import once
from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.database import Document

RULES = 200
"""Rules of a group, in and out together. Source: ECS user guide, "Limits", security groups."""

RULES_PER_CALL = 100
"""Source: ECS API reference, AuthorizeSecurityGroup, ``Permissions.N``."""

_PROTOCOLS = {"tcp", "udp", "icmp", "icmpv6", "gre", "all"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """A direction: how its rules name the other end, and its calls."""

    direction: str
    end: str
    cidr: str
    cidr_6: str
    group: str
    authorize: str
    revoke: str


_IN = _Way(
    direction="ingress",
    end="Source",
    cidr="SourceCidrIp",
    cidr_6="Ipv6SourceCidrIp",
    group="SourceGroupId",
    authorize="AuthorizeSecurityGroup",
    revoke="RevokeSecurityGroup",
)
_OUT = _Way(
    direction="egress",
    end="Dest",
    cidr="DestCidrIp",
    cidr_6="Ipv6DestCidrIp",
    group="DestGroupId",
    authorize="AuthorizeSecurityGroupEgress",
    revoke="RevokeSecurityGroupEgress",
)
_ENDS = tuple(member for way in (_IN, _OUT) for member in (way.cidr, way.cidr_6, way.group))
_RULE = ("IpProtocol", "PortRange", "Policy", "Priority", *_ENDS)
"""What tells one rule from another, in one direction."""


def authorize(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AuthorizeSecurityGroup: a rule that is there already is no error."""
    return once(region, _IN.authorize, parameters, lambda: _authorize(region, parameters, _IN))


def authorize_egress(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AuthorizeSecurityGroupEgress."""
    return once(region, _OUT.authorize, parameters, lambda: _authorize(region, parameters, _OUT))


def revoke(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RevokeSecurityGroup: by rule id, or by what a rule says. What is not there is no error."""
    return once(region, _IN.revoke, parameters, lambda: _revoke(region, parameters, _IN))


def revoke_egress(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RevokeSecurityGroupEgress."""
    return once(region, _OUT.revoke, parameters, lambda: _revoke(region, parameters, _OUT))


def _authorize(region: Region, parameters: Mapping[str, Any], way: _Way) -> Document:
    group = find_group(region, parameters["SecurityGroupId"])
    wanted = [_rule(region, group, each, way) for each in _asked_rules(parameters)]
    if len(group["_rules"]) + len(wanted) > RULES:
        raise AlibabaError("AuthorizationLimitExceed", "The limit of authorization records is reached.", 403)
    rules = list(group["_rules"])
    for rule in wanted:
        if not any(_same(rule, each) for each in rules):
            rules.append(
                {**rule, "SecurityGroupRuleId": f"sgr-{region.world.token(17)}", "CreateTime": region.second}
            )
    review_ingress(each for each in rules if each["Direction"] == _IN.direction)
    region.put("group", {**group, "_rules": rules})
    return {}


def _revoke(region: Region, parameters: Mapping[str, Any], way: _Way) -> Document:
    group = find_group(region, parameters["SecurityGroupId"])
    ids: list[str] = parameters.get("SecurityGroupRuleId") or []
    gone = [] if ids else [_rule(region, group, each, way) for each in _asked_rules(parameters)]

    def goes(rule: Document) -> bool:
        by_id = rule["SecurityGroupRuleId"] in ids and rule["Direction"] == way.direction
        return by_id or any(_same(each, rule) for each in gone)

    region.put("group", {**group, "_rules": [each for each in group["_rules"] if not goes(each)]})
    return {}


def _asked_rules(parameters: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rules: list[Mapping[str, Any]] = parameters.get("Permissions") or [
        {name: parameters[name] for name in (*_RULE, "Description") if name in parameters}
    ]
    if len(rules) > RULES_PER_CALL:
        raise AlibabaError("InvalidParam.Permissions", f"At most {RULES_PER_CALL} rules are taken at a time.")
    return rules


def _rule(region: Region, group: Document, asked: Mapping[str, Any], way: _Way) -> Document:
    check_names(asked, "Description")
    policy, priority = str(asked.get("Policy", "accept")).capitalize(), str(asked.get("Priority", "1"))
    if policy not in {"Accept", "Drop"}:
        raise AlibabaError("InvalidPolicy.Malformed", f"The specified Policy {policy!r} is not valid.")
    if not (priority.isdecimal() and 1 <= int(priority) <= 100):
        raise AlibabaError("InvalidPriority.Malformed", f"The specified Priority {priority!r} is not valid.")
    return {
        **_packets(asked),
        **dict.fromkeys(_ENDS, ""),
        **_other_end(region, group, asked, way),
        "Policy": policy,
        "Priority": priority,
        "NicType": "intranet",
        "Direction": way.direction,
        "Description": asked.get("Description", ""),
    }


def _packets(asked: Mapping[str, Any]) -> Document:
    """Protocol and ports of a rule."""
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
    return {"IpProtocol": protocol.upper(), "PortRange": ports}


def _other_end(region: Region, group: Document, asked: Mapping[str, Any], way: _Way) -> Document:
    """Whence or where to: addresses or a group."""
    ends = {member: asked.get(member, "") for member in (way.cidr, way.cidr_6, way.group)}
    if not any(ends.values()):
        raise AlibabaError(
            f"MissingParameter.{way.end}", f"One of the parameters {', '.join(ends)} is needed."
        )
    malformed = {way.cidr: f"Invalid{way.cidr}.Malformed", way.cidr_6: f"InvalidParam.{way.cidr_6}"}
    for member, code in malformed.items():
        if ends[member]:
            _check_block(ends[member], code)
    if other := ends[way.group]:
        _check_group(region, group, other, way)
    return ends


def _check_block(block: str, code: str) -> None:
    try:
        ip_network(block)
    except ValueError:
        raise AlibabaError(code, f"The address block {block!r} is not valid.") from None


def _check_group(region: Region, group: Document, other: str, way: _Way) -> None:
    if other == group["SecurityGroupId"]:
        text = f"The specified SecurityGroupId should be different from the {way.group}."
        raise AlibabaError("InvalidParamter.Conflict", text)  # the API's own spelling
    found = region.all("group").get(other)
    if found is None:
        raise AlibabaError(f"Invalid{way.group}.NotFound", f"The specified {way.group} does not exist.", 404)
    if found["VpcId"] != group["VpcId"]:
        raise AlibabaError(f"Invalid{way.group}.Mismatch", "The two security groups are not in one VPC.")


def _same(rule: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(rule[name] == other[name] for name in (*_RULE, "Direction"))

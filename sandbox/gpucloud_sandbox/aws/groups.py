"""Security groups: making, opening, closing, deleting, and whether a packet passes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from gpucloud_sandbox.aws.parts import default_vpc, find, in_vpc
from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.review import review_ingress
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

Rule = dict[str, Any]
"""One rule: ``IpProtocol``, ``FromPort``, ``ToPort`` and one of ``CidrIpv4``, ``CidrIpv6``, ``_Group``."""

_FILTERS: dict[str, Field] = {
    "description": "Description",
    "group-id": "GroupId",
    "group-name": "GroupName",
    "owner-id": "OwnerId",
    "vpc-id": "VpcId",
}

_EGRESS: Rule = {"IpProtocol": "-1", "FromPort": -1, "ToPort": -1, "CidrIpv4": "0.0.0.0/0"}
"""What every new group lets out."""

_NAME = re.compile(r"[\w .:/()#,@\[\]+=&;{}!$*-]{1,255}", re.ASCII)


def default_group(region: Region, vpc_id: str) -> Document:
    """A VPC's own group, made when first needed."""
    for group in in_vpc(region, "group", vpc_id):
        if group["GroupName"] == "default":
            return group
    return region.put("group", _group(region, vpc_id, "default", "default VPC security group", []))


def find_group(region: Region, group_id: str) -> Document:
    """A group by id.

    Raises:
        AwsError: there is none.
    """
    group = region.all("group").get(group_id)
    if group is None:
        if not re.fullmatch(r"sg-[0-9a-f]{8,17}", group_id):
            raise AwsError("InvalidGroupId.Malformed", f'Invalid id: "{group_id}" (expecting "sg-...")')
        raise AwsError("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist")
    return group


def group_named(region: Region, name: str) -> Document:
    """A group of the default VPC by name.

    Raises:
        AwsError: there is none.
    """
    groups = in_vpc(region, "group", default_vpc(region)["VpcId"])
    group = next((each for each in groups if each["GroupName"] == name), None)
    if group is None:
        raise AwsError("InvalidGroup.NotFound", f"The security group '{name}' does not exist in default VPC")
    return group


def create_security_group(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateSecurityGroup."""
    name, description = parameters["GroupName"], parameters["Description"]
    vpc = (find(region, "vpc", parameters["VpcId"]) if "VpcId" in parameters else default_vpc(region))[
        "VpcId"
    ]
    if not _NAME.fullmatch(name) or name.startswith("sg-"):
        raise AwsError("InvalidParameterValue", f"Value ({name}) for parameter GroupName is invalid.")
    if not _NAME.fullmatch(description):
        raise AwsError(
            "InvalidParameterValue", f"Value ({description}) for parameter GroupDescription is invalid."
        )
    if any(group["GroupName"] == name for group in in_vpc(region, "group", vpc)):
        raise AwsError(
            "InvalidGroup.Duplicate", f"The security group '{name}' already exists for VPC '{vpc}'"
        )
    tags = tags_for(parameters, "security-group")
    group = region.put("group", _group(region, vpc, name, description, tags))
    return {"GroupId": group["GroupId"], "Tags": group["Tags"], "SecurityGroupArn": group["SecurityGroupArn"]}


def describe_security_groups(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSecurityGroups."""
    ids, names = parameters.get("GroupIds"), parameters.get("GroupNames")
    groups = list(region.all("group").values()) if ids is None else [find_group(region, id_) for id_ in ids]
    for name in names or ():
        if not any(group["GroupName"] == name for group in groups):
            raise AwsError(
                "InvalidGroup.NotFound", f"The security group '{name}' does not exist in default VPC"
            )
    found = select(
        (group for group in groups if names is None or group["GroupName"] in names),
        parameters.get("Filters"),
        _FILTERS,
    )
    shown, token = page([_shown(group) for group in found], parameters)
    return {"SecurityGroups": shown, "NextToken": token}


def describe_security_group_rules(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSecurityGroupRules."""
    rules = [rule for group in region.all("group").values() for rule in _shown_rules(group)]
    fields: dict[str, Field] = {"group-id": "GroupId", "security-group-rule-id": "SecurityGroupRuleId"}
    found = select(rules, parameters.get("Filters"), fields)
    ids = parameters.get("SecurityGroupRuleIds")
    for id_ in ids or ():
        if id_ not in {rule["SecurityGroupRuleId"] for rule in rules}:
            text = f"The security group rule ID '{id_}' does not exist"
            raise AwsError("InvalidSecurityGroupRuleId.NotFound", text)
    shown, token = page([r for r in found if ids is None or r["SecurityGroupRuleId"] in ids], parameters)
    return {"SecurityGroupRules": shown, "NextToken": token}


def delete_security_group(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteSecurityGroup."""
    group = _named(region, parameters)
    id_ = group["GroupId"]
    if group["GroupName"] == "default":
        raise AwsError(
            "CannotDelete", f'the specified group: "{id_}" name: "default" cannot be deleted by a user'
        )
    users = [
        each for each in region.all("interface").values() for used in each["Groups"] if used["GroupId"] == id_
    ]
    named = any(
        rule.get("_Group") == id_
        for other in region.all("group").values()
        if other is not group
        for rule in (*other["_ingress"], *other["_egress"])
    )
    if users or named:
        raise AwsError("DependencyViolation", f"resource {id_} has a dependent object")
    region.drop("group", id_)
    return {"Return": True, "GroupId": id_}


def authorize_ingress(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AuthorizeSecurityGroupIngress."""
    group = _named(region, parameters)
    added = list(_rules(region, parameters, group))
    after = [*group["_ingress"], *added]
    review_ingress([rule[key] for rule in after for key in ("CidrIpv4", "CidrIpv6") if rule.get(key)])
    return _authorize(region, group, added, egress=False)


def authorize_egress(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AuthorizeSecurityGroupEgress."""
    group = _named(region, parameters)
    return _authorize(region, group, list(_rules(region, parameters, group)), egress=True)


def revoke_ingress(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RevokeSecurityGroupIngress."""
    return _revoke(region, parameters, egress=False)


def revoke_egress(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RevokeSecurityGroupEgress."""
    return _revoke(region, parameters, egress=True)


def _authorize(region: Region, group: Document, added: list[Rule], *, egress: bool) -> Document:
    way = _way(egress=egress)
    for rule in added:
        if any(_same(rule, old) for old in group[way]):
            raise AwsError(
                "InvalidPermission.Duplicate", f'the specified rule "{_words(rule)}" already exists'
            )
    group[way] = [*group[way], *added]
    region.put("group", group)
    return {"Return": True, "SecurityGroupRules": [_shown_rule(group, rule, egress=egress) for rule in added]}


def _revoke(region: Region, parameters: Mapping[str, Any], *, egress: bool) -> Document:
    group, way = _named(region, parameters), _way(egress=egress)
    ids = parameters.get("SecurityGroupRuleIds")
    if ids is not None:
        known = {_rule_id(group, rule, egress=egress): rule for rule in group[way]}
        unknown = [id_ for id_ in ids if id_ not in known]
        if unknown:
            text = f"The security group rule ID '{unknown[0]}' does not exist"
            raise AwsError("InvalidSecurityGroupRuleId.NotFound", text)
        old = [known[id_] for id_ in ids]
    else:
        old = list(_rules(region, parameters, group))
    for rule in old:
        if not any(_same(rule, each) for each in group[way]):
            text = "The specified rule does not exist in this security group."
            raise AwsError("InvalidPermission.NotFound", text)
    group[way] = [each for each in group[way] if not any(_same(each, rule) for rule in old)]
    region.put("group", group)
    return {"Return": True}


def _way(*, egress: bool) -> str:
    return "_egress" if egress else "_ingress"


def admits(region: Region, group_ids: Iterable[str], port: int, source: str) -> bool:
    """Whether one of the groups lets a TCP packet from ``source`` in on ``port``."""
    address = ip_address(source)
    for group_id in group_ids:
        for rule in region.all("group").get(group_id, {}).get("_ingress", ()):
            block = rule.get("CidrIpv4") or rule.get("CidrIpv6")
            everything = rule["IpProtocol"] == "-1"
            tcp = rule["IpProtocol"] == "tcp" and rule["FromPort"] <= port <= rule["ToPort"]
            if block and (everything or tcp) and address in ip_network(block):
                return True
    return False


def _group(region: Region, vpc_id: str, name: str, description: str, tags: list[dict[str, str]]) -> Document:
    id_ = region.new_id("sg")
    return {
        "GroupId": id_,
        "GroupName": name,
        "Description": description,
        "VpcId": vpc_id,
        "OwnerId": ACCOUNT,
        "SecurityGroupArn": f"arn:aws:ec2:{region.name}:{ACCOUNT}:security-group/{id_}",
        "Tags": tags,
        "_ingress": [{"IpProtocol": "-1", "FromPort": -1, "ToPort": -1, "_Group": id_}]
        if name == "default"
        else [],
        "_egress": [_EGRESS],
    }


def _named(region: Region, parameters: Mapping[str, Any]) -> Document:
    if "GroupId" in parameters:
        return find_group(region, parameters["GroupId"])
    name = parameters.get("GroupName")
    if name is None:
        raise AwsError("MissingParameter", "The request must contain the parameter groupName or groupId")
    return group_named(region, name)


def _rules(region: Region, parameters: Mapping[str, Any], group: Document) -> Iterator[Rule]:
    """The rules that permissions are, one for each peer; a permission without a peer is none.

    EC2 says yes to such a permission, and adds nothing: https://github.com/aws/aws-cli/issues/7068 and 7069,
    https://github.com/hashicorp/terraform/issues/20530.
    """
    permissions: list[dict[str, Any]] = list(parameters.get("IpPermissions") or ())
    if "CidrIp" in parameters or "IpProtocol" in parameters:
        if "CidrIp" not in parameters:
            text = "Missing source specification: include source security group or CIDR information"
            raise AwsError("MissingParameter", text)
        permissions.append({**parameters, "IpRanges": [{"CidrIp": parameters["CidrIp"]}]})
    if not permissions:
        raise AwsError(
            "MissingParameter", "Either 'ipPermissions' or 'securityGroupRuleIds' should be provided."
        )
    for permission in permissions:
        ports = _ports(permission)
        for each in permission.get("IpRanges") or ():
            yield {**ports, "CidrIpv4": _block(each["CidrIp"], 4), "Description": each.get("Description")}
        for each in permission.get("Ipv6Ranges") or ():
            yield {**ports, "CidrIpv6": _block(each["CidrIpv6"], 6), "Description": each.get("Description")}
        for each in permission.get("UserIdGroupPairs") or ():
            id_ = each.get("GroupId", group["GroupId"])
            yield {
                **ports,
                "_Group": find_group(region, id_)["GroupId"],
                "Description": each.get("Description"),
            }


def _ports(permission: Mapping[str, Any]) -> Rule:
    if "IpProtocol" not in permission:
        raise AwsError("MissingParameter", "The request must contain the parameter ipProtocol")
    protocol = {"6": "tcp", "17": "udp", "1": "icmp"}.get(permission["IpProtocol"], permission["IpProtocol"])
    if protocol == "-1":
        return {"IpProtocol": "-1", "FromPort": -1, "ToPort": -1}
    if protocol not in {"tcp", "udp", "icmp"}:
        raise AwsError(
            "InvalidParameterValue", f"Invalid value '{protocol}' for IP protocol. Unknown protocol."
        )
    first, last = permission.get("FromPort"), permission.get("ToPort")
    if first is None or last is None or (protocol != "icmp" and not 0 <= first <= last <= 65535):
        raise AwsError("InvalidParameterValue", f"Invalid port range {first}-{last} for {protocol}")
    return {"IpProtocol": protocol, "FromPort": first, "ToPort": last}


def _block(text: str, version: int) -> str:
    try:
        network = ip_network(text)
    except ValueError:
        raise AwsError("InvalidParameterValue", f"CIDR block {text} is malformed") from None
    if network.version != version:
        raise AwsError("InvalidParameterValue", f"CIDR block {text} is malformed")
    return str(network)


def _same(one: Rule, other: Rule) -> bool:
    keys = ("IpProtocol", "FromPort", "ToPort", "CidrIpv4", "CidrIpv6", "_Group")
    return all(one.get(key) == other.get(key) for key in keys)


def _words(rule: Rule) -> str:
    peer = rule.get("CidrIpv4") or rule.get("CidrIpv6") or rule.get("_Group")
    ports = f"from port: {rule['FromPort']}, to port: {rule['ToPort']}"
    return f"peer: {peer}, {rule['IpProtocol'].upper()}, {ports}, ALLOW"


def _rule_id(group: Document, rule: Rule, *, egress: bool) -> str:
    text = json.dumps([group["GroupId"], egress, {**rule, "Description": None}], sort_keys=True)
    return f"sgr-0{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _shown_rule(group: Document, rule: Rule, *, egress: bool) -> Document:
    shown = {
        "SecurityGroupRuleId": _rule_id(group, rule, egress=egress),
        "GroupId": group["GroupId"],
        "GroupOwnerId": ACCOUNT,
        "IsEgress": egress,
        **rule,
    }
    if "_Group" in rule:
        shown["ReferencedGroupInfo"] = {"GroupId": rule["_Group"], "UserId": ACCOUNT, "VpcId": group["VpcId"]}
    return shown


def _shown_rules(group: Document) -> list[Document]:
    return [
        _shown_rule(group, rule, egress=egress)
        for egress in (False, True)
        for rule in group[_way(egress=egress)]
    ]


def _shown(group: Document) -> Document:
    return {
        **group,
        "IpPermissions": _permissions(group["_ingress"]),
        "IpPermissionsEgress": _permissions(group["_egress"]),
    }


def _permissions(rules: Iterable[Rule]) -> list[Document]:
    """Rules as DescribeSecurityGroups groups them: one permission per protocol and port range."""
    found: dict[tuple[str, int, int], Document] = {}
    for rule in rules:
        key = (rule["IpProtocol"], rule["FromPort"], rule["ToPort"])
        permission = found.setdefault(
            key,
            {
                "IpProtocol": key[0],
                **({} if key[0] == "-1" else {"FromPort": key[1], "ToPort": key[2]}),
                "IpRanges": [],
                "Ipv6Ranges": [],
                "PrefixListIds": [],
                "UserIdGroupPairs": [],
            },
        )
        described = {"Description": rule["Description"]} if rule.get("Description") else {}
        if "CidrIpv4" in rule:
            permission["IpRanges"].append({"CidrIp": rule["CidrIpv4"], **described})
        elif "CidrIpv6" in rule:
            permission["Ipv6Ranges"].append({"CidrIpv6": rule["CidrIpv6"], **described})
        else:
            pair = {"GroupId": rule["_Group"], "UserId": ACCOUNT, **described}
            permission["UserIdGroupPairs"].append(pair)
    return list(found.values())

"""Networks and switches: the VPC API."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, ip_network
from itertools import islice
from typing import Any

from gpucloud_sandbox.alibaba.names import check_names
from gpucloud_sandbox.alibaba.region import Region, asked_tags, has_tags, page_by_number, shown, vpc_tags
from gpucloud_sandbox.alibaba.tokens import once
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.database import Document

VPCS = 10
"""Networks per region that an account may have. Source: VPC user guide, "Limits and quotas"."""

SWITCHES = 24
"""Switches per network. Source: as above."""

_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))


def create_vpc(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateVpc."""
    block = _block(parameters.get("CidrBlock", "172.16.0.0/12"))
    if not any(block.subnet_of(each) for each in _PRIVATE) or not 8 <= block.prefixlen <= 28:
        raise AlibabaError("InvalidCidrBlock.Malformed", f"The specified CidrBlock {block} is not valid.")
    tags = asked_tags(parameters)
    if len(region.all("vpc")) >= VPCS:
        raise AlibabaError("QuotaExceeded.Vpc", "The number of VPCs exceeds the quota.", 400)
    check_names(parameters, "VpcName")
    _stop_dry_run(parameters)

    def make() -> Document:
        vpc = region.put(
            "vpc",
            {
                "VpcId": region.new_id("vpc"),
                "VpcName": parameters.get("VpcName", ""),
                "Description": parameters.get("Description", ""),
                "RegionId": region.name,
                "Status": "Pending",
                "CidrBlock": str(block),
                "IsDefault": False,
                "CreationTime": region.second,
                "VRouterId": f"vrt-{region.world.token(17)}",
                "Tags": vpc_tags(tags),
                "_available_at": region.later(region.world.dials.pace.transition_s),
            },
        )
        return {
            "VpcId": vpc["VpcId"],
            "VRouterId": vpc["VRouterId"],
            "RouteTableId": "",
            "ResourceGroupId": "",
        }

    return once(region, "CreateVpc", parameters, make)


def create_vswitch(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateVSwitch."""
    vpc = _vpc(region, parameters["VpcId"])
    if vpc["Status"] != "Available":
        raise AlibabaError("IncorrectVpcStatus", "Current VPC status does not support this operation.")
    zone = parameters["ZoneId"]
    if zone not in region.zones:
        raise AlibabaError("InvalidZoneId.NotFound", "Specified value of ZoneId is not exists.", 404)
    block = _block(parameters["CidrBlock"])
    if not block.subnet_of(IPv4Network(vpc["CidrBlock"])) or not 16 <= block.prefixlen <= 29:
        raise AlibabaError("InvalidCidrBlock.Malformed", f"The specified CidrBlock {block} is not valid.")
    check_names(parameters, "VSwitchName")
    tags = asked_tags(parameters)

    def make() -> Document:
        neighbours = [each for each in region.all("vswitch").values() if each["VpcId"] == vpc["VpcId"]]
        if len(neighbours) >= SWITCHES:
            raise AlibabaError("QuotaExceeded.VSwitch", "The number of VSwitches exceeds the quota.")
        if any(block.overlaps(IPv4Network(each["CidrBlock"])) for each in neighbours):
            raise AlibabaError("InvalidCidrBlock.Overlapped", "The CIDR block overlaps with another one.")
        vswitch = region.put(
            "vswitch",
            {
                "VSwitchId": region.new_id("vswitch"),
                "VSwitchName": parameters.get("VSwitchName", ""),
                "Description": parameters.get("Description", ""),
                "VpcId": vpc["VpcId"],
                "ZoneId": zone,
                "CidrBlock": str(block),
                "Status": "Pending",
                "IsDefault": False,
                "AvailableIpAddressCount": block.num_addresses - 4,
                "CreationTime": region.second,
                "Tags": vpc_tags(tags),
                "_available_at": region.later(region.world.dials.pace.transition_s),
            },
        )
        return {"VSwitchId": vswitch["VSwitchId"]}

    return once(region, "CreateVSwitch", parameters, make)


def describe_vpcs(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeVpcs."""
    _stop_dry_run(parameters)
    found, about = described(region, "vpc", parameters, ("VpcId", "VpcName"))
    for vpc in found:
        switches = [
            each["VSwitchId"] for each in region.all("vswitch").values() if each["VpcId"] == vpc["VpcId"]
        ]
        vpc["VSwitchIds"] = {"VSwitchId": switches}
    return {"Vpcs": {"Vpc": found}, **about}


def describe_vswitches(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeVSwitches."""
    _stop_dry_run(parameters)
    found, about = described(region, "vswitch", parameters, ("VSwitchId", "VpcId", "ZoneId", "VSwitchName"))
    return {"VSwitches": {"VSwitch": found}, **about}


def delete_vswitch(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteVSwitch."""
    id_ = parameters["VSwitchId"]
    if id_ not in region.all("vswitch"):
        raise AlibabaError("InvalidVSwitchId.NotFound", "Specified virtual switch does not exist.", 404)
    if any(each["VSwitchId"] == id_ for each in region.all("nic").values()):
        raise AlibabaError("DependencyViolation", "There is still an ENI or instance in the VSwitch.")
    _stop_dry_run(parameters)
    region.drop("vswitch", id_)
    return {}


def delete_vpc(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteVpc."""
    vpc = _vpc(region, parameters["VpcId"], 404)
    for kind, what in (("vswitch", "VSwitch"), ("group", "SecurityGroup")):
        if any(each["VpcId"] == vpc["VpcId"] for each in region.all(kind).values()):
            raise AlibabaError(f"DependencyViolation.{what}", f"There is still a {what} in the VPC.")
    _stop_dry_run(parameters)
    region.drop("vpc", vpc["VpcId"])
    return {}


def settle(region: Region) -> None:
    """What is being made becomes available."""
    for kind in ("vpc", "vswitch"):
        for each in list(region.all(kind).values()):
            if each["Status"] == "Pending" and each["_available_at"] <= region.stamp:
                region.put(kind, {**each, "Status": "Available"})


def take_addresses(
    region: Region, vswitch: Document, count: int, first: str | None = None, *, besides: Collection[str] = ()
) -> list[str]:
    """Addresses of a switch that are free: any, or those from a first one on; none of ``besides``.

    Raises:
        AlibabaError: there are not as many, or they are not the switch's to give.
    """
    used = {*besides, *(each["PrivateIpAddress"] for each in region.all("nic").values())}
    block = IPv4Network(vswitch["CidrBlock"])
    if first is None:
        free = (text for host in _given(block) if (text := str(host)) not in used)
        found = list(islice(free, count))
        if len(found) < count:
            raise AlibabaError("InvalidVSwitchId.IpNotEnough", "The VSwitch has no free addresses left.")
        return found
    try:
        start = IPv4Address(first)
    except ValueError:
        start = None
    wanted = [start + number for number in range(count)] if start is not None else []
    if not wanted or not all(_is_given(block, each) for each in wanted):
        text = "The specified PrivateIpAddress is malformed, or is not in the CIDR block of the VSwitch."
        raise AlibabaError("InvalidPrivateIpAddress.Malformed", text)
    if used.intersection(map(str, wanted)):
        text = "The specified private IP address is already used by other resources."
        raise AlibabaError("InvalidIPAddress.AlreadyUsed", text, 403)
    return list(map(str, wanted))


def _given(block: IPv4Network) -> Iterator[IPv4Address]:
    """The addresses that a switch gives: its first and its last three are the cloud's."""
    return (block[number] for number in range(1, block.num_addresses - 3))


def _is_given(block: IPv4Network, address: IPv4Address) -> bool:
    return block[0] < address < block[-3]


def described(
    region: Region, kind: str, parameters: Mapping[str, Any], members: tuple[str, ...]
) -> tuple[list[Document], Document]:
    """A page of the matching resources, with the fields for paging."""
    found = [
        each
        for each in region.all(kind).values()
        if all(_asks_for(parameters.get(name), each[name]) for name in members) and has_tags(each, parameters)
    ]
    items, about = page_by_number(found, parameters, 50)
    return [shown(each) for each in items], about


def _asks_for(wanted: str | None, value: str) -> bool:
    """Whether a parameter is left out, or is a value or several, with commas between them."""
    return not wanted or value in wanted.split(",")


def _vpc(region: Region, id_: str, status: int = 404) -> Document:
    vpc = region.all("vpc").get(id_)
    if vpc is None:
        raise AlibabaError("InvalidVpcId.NotFound", "Specified VPC does not exist.", status)
    return vpc


def _block(text: str) -> IPv4Network:
    try:
        block = ip_network(text)
    except ValueError:
        block = None
    if not isinstance(block, IPv4Network):
        raise AlibabaError("InvalidCidrBlock.Malformed", f"The specified CidrBlock {text} is not valid.")
    return block


def _stop_dry_run(parameters: Mapping[str, Any]) -> None:
    """A dry run that would have worked ends here."""
    if true(parameters.get("DryRun")):
        raise AlibabaError("DryRunOperation", "Request validation has been passed with DryRun flag set.")

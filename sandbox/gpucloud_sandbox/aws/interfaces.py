"""The network interfaces of a launch: checked against subnets, groups and the type, then made."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

from gpucloud_sandbox.aws.groups import default_group, find_group, group_named
from gpucloud_sandbox.aws.hardware import cards, kinds, most_efa
from gpucloud_sandbox.aws.parts import default_vpc, find
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

RESERVED = 5
"""Addresses of a subnet that nobody gets: the first four and the last (VPC User Guide, "Subnet sizing")."""


EFA = frozenset({"efa", "efa-only"})


class Place(NamedTuple):
    """Where at an instance an interface is, and of which kind."""

    card: int
    device: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One interface that is wanted, or an ``existing`` one.

    No ``address``: any free one. ``public`` unsaid: as the subnet has it.
    """

    kind: str
    subnet: Document | None
    groups: list[Document]
    description: str
    device: int = 0
    card: int = 0
    address: str | None = None
    public: bool | None = None
    ends: bool = True
    existing: Document | None = None

    @property
    def place(self) -> Place:
        """Where it is to be."""
        return Place(self.card, self.device, self.kind)


def read_interfaces(region: Region, parameters: Mapping[str, Any], instance_type: str) -> list[Interface]:
    """The interfaces of a launch, the primary one first.

    Raises:
        AwsError: EC2 would refuse them.
    """
    asked: list[dict[str, Any]] = parameters.get("NetworkInterfaces") or []
    top = ("SubnetId", "SecurityGroupIds", "SecurityGroups", "PrivateIpAddress")
    if asked and any(parameters.get(key) for key in top):
        text = (
            "Network interfaces and an instance-level subnet ID or security groups may not be specified "
            "on the same request"
        )
        raise AwsError("InvalidParameterCombination", text)
    if not asked:
        named = [group_named(region, name)["GroupId"] for name in parameters.get("SecurityGroups") or ()]
        groups = [*(parameters.get("SecurityGroupIds") or ()), *named]
        asked = [{**{key: parameters.get(key) for key in top}, "DeviceIndex": 0, "Groups": groups}]
    if len(asked) > 1 and any("AssociatePublicIpAddress" in each for each in asked):
        text = (
            "The associatePublicIPAddress parameter cannot be specified when launching with "
            "multiple network interfaces."
        )
        raise AwsError("InvalidParameterCombination", text)
    own = ("PrivateIpAddress", "NetworkInterfaceId")
    if parameters["MaxCount"] > 1 and any(each.get(key) for each in asked for key in own):
        text = "A private IP address or interface can be specified for the launch of one instance only"
        raise AwsError("InvalidParameterCombination", text)
    wanted = [_read(region, each) for each in asked]
    check_places([each.place for each in wanted], instance_type)
    return sorted(wanted, key=lambda each: (each.card, each.device))


def _read(region: Region, asked: Mapping[str, Any]) -> Interface:
    if asked.get("NetworkInterfaceId"):
        return _existing(region, asked)
    id_, ids = asked.get("SubnetId"), asked.get("Groups")
    subnet = find(region, "subnet", id_) if id_ else None
    return Interface(
        device=asked.get("DeviceIndex", 0),
        card=asked.get("NetworkCardIndex", 0),
        kind=asked.get("InterfaceType", "interface"),
        subnet=subnet,
        groups=groups_in(region, ids, (subnet or default_vpc(region))["VpcId"]),
        address=asked.get("PrivateIpAddress"),
        public=asked.get("AssociatePublicIpAddress"),
        description=asked.get("Description", ""),
        ends=asked.get("DeleteOnTermination", True),
    )


def _existing(region: Region, asked: Mapping[str, Any]) -> Interface:
    """An interface of somebody's own. It gets no public address, and stays when its instance ends."""
    interface = find(region, "interface", asked["NetworkInterfaceId"])
    refuse_used(interface)
    if any(asked.get(key) for key in ("SubnetId", "Groups", "PrivateIpAddress", "AssociatePublicIpAddress")):
        text = "A network interface may not specify both a network interface ID and what it is to be like"
        raise AwsError("InvalidParameterCombination", text)
    return Interface(
        device=asked.get("DeviceIndex", 0),
        card=asked.get("NetworkCardIndex", 0),
        kind=interface["InterfaceType"],
        subnet=find(region, "subnet", interface["SubnetId"]),
        groups=[find_group(region, each["GroupId"]) for each in interface["Groups"]],
        address=interface["PrivateIpAddress"],
        public=False,
        description=interface["Description"],
        ends=asked.get("DeleteOnTermination", False),
        existing=interface,
    )


def refuse_used(interface: Document) -> None:
    """Refuses an interface that is attached. Raises :class:`AwsError`."""
    if interface["Status"] == "in-use":
        text = f"Interface: [{interface['NetworkInterfaceId']}] in use."
        raise AwsError("InvalidNetworkInterface.InUse", text)


def groups_in(region: Region, ids: Iterable[str] | None, vpc_id: str) -> list[Document]:
    """The groups with ids, all of one VPC; without ids its default one.

    Raises:
        AwsError: a group is not there, or of another VPC.
    """
    groups = [find_group(region, id_) for id_ in ids or ()] or [default_group(region, vpc_id)]
    for group in groups:
        if group["VpcId"] != vpc_id:
            text = f"Security group {group['GroupId']} and subnet belong to different networks."
            raise AwsError("InvalidParameter", text)
    return groups


def check_places(places: list[Place], instance_type: str) -> None:
    """Refuses interfaces that a type's network cards do not take.

    Raises:
        AwsError: a place is there twice, a card has no room, or there are too many of EFA.
    """
    rooms = cards(instance_type)
    primary = next((each for each in places if (each.card, each.device) == (0, 0)), None)
    if primary is None:
        raise AwsError("InvalidParameterValue", "A network interface with device index 0 is needed")
    if len({(each.card, each.device) for each in places}) < len(places):
        raise AwsError("InvalidParameterValue", "Each network interface requires a unique device index.")
    for card, count in Counter(each.card for each in places).items():
        if card >= len(rooms):
            text = f"Network card index {card} exceeds the limit for {instance_type}"
            raise AwsError("InvalidParameterValue", text)
        if count > rooms[card]:
            text = f"Interface count {count} exceeds the limit for {instance_type}"
            raise AwsError("AttachmentLimitExceeded", text)
    if any(each.kind not in {"interface", *EFA} for each in places):
        raise AwsError("InvalidParameterValue", "Invalid value for parameter interfaceType")
    if primary.kind == "efa-only":
        raise AwsError("InvalidParameterValue", "The primary network interface cannot be efa-only")
    efa = sum(each.kind in EFA for each in places)
    if efa and not most_efa(instance_type):
        text = f"EFA interfaces are not supported on {instance_type}"
        raise AwsError("InvalidParameterCombination", text)
    if efa > most_efa(instance_type):
        text = f"EFA interface count {efa} exceeds the limit for {instance_type}"
        raise AwsError("AttachmentLimitExceeded", text)
    for each in places:
        if each.kind not in kinds(instance_type, each.card):
            text = f"Network card {each.card} of {instance_type} does not support interface type {each.kind}"
            raise AwsError("InvalidParameterCombination", text)  # UNVERIFIED


def make_interface(
    region: Region, wanted: Interface, subnet: Document, address: str, tags: list[dict[str, str]]
) -> Document:
    """An interface in a subnet, attached to nothing."""
    id_ = region.new_id("eni")
    digits = hashlib.sha256(id_.encode()).hexdigest()
    return region.put(
        "interface",
        {
            "NetworkInterfaceId": id_,
            "SubnetId": subnet["SubnetId"],
            "VpcId": subnet["VpcId"],
            "AvailabilityZone": subnet["AvailabilityZone"],
            "AvailabilityZoneId": subnet["AvailabilityZoneId"],
            "Description": wanted.description,
            "OwnerId": ACCOUNT,
            "RequesterManaged": False,
            "Status": "available",
            "MacAddress": ":".join(["02", *(digits[at : at + 2] for at in range(0, 10, 2))]),
            "PrivateIpAddress": address,
            "PrivateIpAddresses": [{"PrivateIpAddress": address, "Primary": True}],
            "SourceDestCheck": True,
            "Groups": [group_name(group) for group in wanted.groups],
            "InterfaceType": wanted.kind,
            "TagSet": tags,
            "Attachment": None,
        },
    )


def attach(region: Region, interface: Document, instance: Document, place: Place, *, ends: bool) -> Document:
    """Attaches an interface to an instance; returns the attachment."""
    attachment: Document = {
        "AttachmentId": region.new_id("eni-attach"),
        "InstanceId": instance["InstanceId"],
        "InstanceOwnerId": ACCOUNT,
        "DeviceIndex": place.device,
        "NetworkCardIndex": place.card,
        "Status": "attached",
        "AttachTime": region.stamp,
        "DeleteOnTermination": ends,
    }
    region.put("interface", {**interface, "Status": "in-use", "Attachment": attachment})
    return attachment


def group_name(group: Document) -> Document:
    """A group as instances and interfaces name it."""
    return {"GroupId": group["GroupId"], "GroupName": group["GroupName"]}


def room(region: Region, subnet: Document, wanted: list[Interface], least: int, most: int) -> int:
    """For how many instances, of ``least`` to ``most``, a subnet has addresses.

    Raises:
        AwsError: for fewer than ``least``.
    """
    each = sum(interface.existing is None for interface in wanted)
    free = (
        ip_network(subnet["CidrBlock"]).num_addresses
        - RESERVED
        - len(used_addresses(region, subnet["SubnetId"]))
    )
    if free < least * each:
        raise _no_address()
    return min(most, free // each) if each else most


def free_address(region: Region, subnet: Document, taken: Iterable[str] = ()) -> str:
    """The first address of a subnet that nothing has, and that is not ``taken``.

    Raises:
        AwsError: all are in use.
    """
    used = used_addresses(region, subnet["SubnetId"]) | set(taken)
    network = ip_network(subnet["CidrBlock"])
    for number in range(RESERVED - 1, network.num_addresses - 1):
        if (address := str(network[number])) not in used:
            return address
    raise _no_address()


def _no_address() -> AwsError:
    text = "There are not enough free addresses in the subnet to satisfy the requested number of instances."
    return AwsError("InsufficientFreeAddressesInSubnet", text)


def check_address(region: Region, subnet: Document, address: str) -> None:
    """Refuses an address that is not free in its subnet.

    Raises:
        AwsError: it is no address, of another network, or in use.
    """
    network = ip_network(subnet["CidrBlock"])
    try:
        number = int(ip_address(address)) - int(network.network_address)
    except ValueError:
        raise AwsError("InvalidParameterValue", f"Invalid IPv4 address: {address}") from None
    if not RESERVED - 1 <= number < network.num_addresses - 1:
        text = f"Address {address} does not fall within the subnet's address range"
        raise AwsError("InvalidParameterValue", text)
    if address in used_addresses(region, subnet["SubnetId"]):
        raise AwsError("InvalidIPAddress.InUse", f"Address {address} is in use.")


def used_addresses(region: Region, subnet_id: str) -> set[str]:
    """The addresses of a subnet that interfaces have."""
    return {
        each["PrivateIpAddress"] for each in region.all("interface").values() if each["SubnetId"] == subnet_id
    }

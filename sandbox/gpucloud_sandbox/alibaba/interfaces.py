"""Network interfaces: what one may be, how many an instance takes, and what becomes of them.

They cost nothing.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from gpucloud_sandbox.alibaba.groups import find_group
from gpucloud_sandbox.alibaba.names import check_names
from gpucloud_sandbox.alibaba.network import take_addresses
from gpucloud_sandbox.alibaba.region import ACCOUNT, Region, ecs_tags
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.database import Document

STANDARD, ERDMA = "Standard", "HighPerformance"
"""How an interface communicates. Source: ECS API reference, ``NetworkInterfaceTrafficMode``."""

_PRIMARY = ("VSwitchId", "SecurityGroupId", "SecurityGroupIds")
"""Members of a launch that are its primary interface's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceOrder:
    """Interfaces that are to be made, one per address, checked.

    ``card`` is the network card asked for, ``queue_pairs`` how many of an eRDMA interface.
    """

    vswitch: Document
    groups: list[str]
    addresses: list[str]
    name: str
    description: str
    traffic: str
    card: int | None
    queue_pairs: int | None
    deleted_with_instance: bool


# --- how many


@dataclass(frozen=True, slots=True)
class Limits:
    """How many interfaces an instance takes.

    Attributes:
        enis: the primary one included (``EniQuantity``).
        eris: so many of them may be eRDMA interfaces (``EriQuantity``), each on a network card of its own.
        queue_pairs: of all eRDMA interfaces together (``QueuePairNumber``).
    """

    enis: int = 2
    eris: int = 0
    queue_pairs: int = 0


def limits_of(type_name: str) -> Limits:
    """The limits of a type; those of the smallest documented types for one that the table does not have."""
    return _limits().get(type_name, Limits())


@cache
def _limits() -> Mapping[str, Limits]:
    file = files("gpucloud_sandbox.alibaba").joinpath("interface_limits.csv")
    with file.open(encoding="utf-8") as stream:
        return {
            row["instance_type"]: Limits(int(row["enis"]), int(row["eris"]), int(row["queue_pairs"]))
            for row in csv.DictReader(stream)
        }


def check_count(type_name: str, count: int, code: str = "EniPerInstanceLimitExceeded") -> None:
    """Refuses more interfaces than a type takes, with the code of the call."""
    most = limits_of(type_name).enis
    if count > most:
        raise AlibabaError(code, f"An instance of {type_name} takes at most {most} interfaces.", 403)


def check_traffic(type_name: str, modes: Iterable[str]) -> None:
    """Refuses eRDMA interfaces that a type does not take.

    Args:
        type_name: the instance's type.
        modes: of all interfaces that the instance is to have.

    Raises:
        AlibabaError: it takes none, or not so many.
    """
    count, most = list(modes).count(ERDMA), limits_of(type_name).eris
    if count and not most:
        raise AlibabaError(
            "InvalidOperation.InstanceTypeNotSupportHighPerformanceTrafficMode",
            f"The instance type {type_name} does not support the HighPerformance traffic mode.",
            403,
        )
    if count > most:
        raise AlibabaError(
            "InvalidOperation.HighPerformanceEniPerInstanceLimitExceeded",
            f"An instance of {type_name} takes at most {most} interfaces of HighPerformance.",
            403,
        )


def check_erdma(type_name: str, primary: InterfaceOrder, *others: InterfaceOrder) -> None:
    """Refuses eRDMA interfaces of a launch that a type does not take together.

    Sources: SDK 7.11.8, RunInstances, ``NetworkInterface.N.NetworkCardIndex`` (that of a primary interface is
    0) and ``.QueuePairNumber`` (an interface without it takes all that the type has, so that there can be no
    other); GPU guide, "Enable eRDMA on a GPU-accelerated instance" (two interfaces are on two cards). All
    codes are UNVERIFIED but that of the card.

    Raises:
        AlibabaError: they share a card, or want more queue pairs than there are.
    """
    check_traffic(type_name, (each.traffic for each in (primary, *others)))
    for each in (primary, *others):
        check_card(type_name, each.card)
    fast = [each for each in (primary, *others) if each.traffic == ERDMA]
    cards = [each.card or 0 for each in fast]
    if primary.card or len(set(cards)) < len(cards):
        text = "Invalid network card index, please check your instance type."
        raise AlibabaError("InvalidParameter.NetworkCardIndexInvalid", text)
    most = limits_of(type_name).queue_pairs
    if sum(most if each.queue_pairs is None else each.queue_pairs for each in fast) > most:
        text = f"An instance of {type_name} has {most} queue pairs for all its interfaces."
        raise AlibabaError("InvalidParameter.QueuePairNumber", text)


def check_card(type_name: str, card: int | None) -> None:
    """Refuses a network card that a type does not have; only types with several have any by number."""
    if card is not None and not 0 <= card < limits_of(type_name).eris:
        text = "Invalid network card index, please check your instance type."
        raise AlibabaError("InvalidParameter.NetworkCardIndexInvalid", text)


# --- what is asked for


def read_interfaces(region: Region, parameters: Mapping[str, Any], count: int) -> list[InterfaceOrder]:
    """The interfaces of a launch, the primary one first.

    Args:
        region: where it is.
        parameters: those of RunInstances.
        count: how many instances are launched.

    Raises:
        AlibabaError: there can be no such interfaces.
    """
    listed: list[Mapping[str, Any]] = parameters.get("NetworkInterface") or []
    kinds = [each.get("InstanceType", "Secondary") for each in listed]
    if not set(kinds) <= {"Primary", "Secondary"}:
        raise AlibabaError("InvalidParameter.EniType", "The interface is neither Primary nor Secondary.", 403)
    primary = read_interface(region, primary_of(parameters), count)
    orders, used = [primary], [*primary.addresses]
    shared = {"VSwitchId": primary.vswitch["VSwitchId"], "SecurityGroupIds": primary.groups}
    for each, kind in zip(listed, kinds, strict=True):
        if kind == "Primary":
            continue
        if each.get("PrimaryIpAddress") and count > 1:
            text = "Several instances cannot have one PrimaryIpAddress."
            raise AlibabaError("InvalidParameter.Combination", text, 403)
        own = {"VSwitchId": shared["VSwitchId"], **each} if _names_group(each) else {**shared, **each}
        order = read_interface(region, own, count, besides=used)
        check_same_place(order.vswitch, primary.vswitch)
        orders.append(order)
        used += order.addresses
    return orders


def primary_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What a launch says of its primary interface, wherever it says so.

    Raises:
        AlibabaError: it says so twice.
    """
    own = {name: parameters[name] for name in _PRIMARY if name in parameters}
    if "PrivateIpAddress" in parameters:
        own["PrimaryIpAddress"] = parameters["PrivateIpAddress"]
    listed = [
        each for each in parameters.get("NetworkInterface") or () if each.get("InstanceType") == "Primary"
    ]
    if len(listed) > 1 or (listed and own):
        text = "The primary interface is described twice: among the interfaces, and beside them."
        raise AlibabaError("InvalidParameter.Combination", text, 403)
    return {**listed[0]} if listed else own


def read_interface(
    region: Region, asked: Mapping[str, Any], count: int = 1, *, besides: Collection[str] = ()
) -> InterfaceOrder:
    """One interface, or one for each of several instances.

    Args:
        region: where it is.
        asked: the members of CreateNetworkInterface.
        count: how many addresses it takes.
        besides: addresses that are given away already.

    Raises:
        AlibabaError: there can be no such interface.
    """
    vswitch = find_vswitch(region, asked.get("VSwitchId"))
    traffic = asked.get("NetworkInterfaceTrafficMode", STANDARD)
    if traffic not in {STANDARD, ERDMA}:
        text = "The traffic mode must be either Standard or HighPerformance."
        raise AlibabaError("InvalidParameter.EniTrafficMode", text, 403)
    check_names(asked, "NetworkInterfaceName", "Description")
    return InterfaceOrder(
        vswitch=vswitch,
        groups=_groups(region, asked, vswitch),
        addresses=take_addresses(region, vswitch, count, asked.get("PrimaryIpAddress"), besides=besides),
        name=asked.get("NetworkInterfaceName", ""),
        description=asked.get("Description", ""),
        traffic=traffic,
        card=int(card) if (card := asked.get("NetworkCardIndex")) else None,
        queue_pairs=int(pairs) if (pairs := asked.get("QueuePairNumber")) else None,
        deleted_with_instance=true(asked.get("DeleteOnRelease", "true")),
    )


def find_vswitch(region: Region, id_: str | None) -> Document:
    """A switch that can be used.

    Raises:
        AlibabaError: there is none, or it is being made.
    """
    if not id_:
        raise AlibabaError("MissingParameter.VSwitchId", 'The input parameter "VSwitchId" is mandatory.')
    vswitch = region.all("vswitch").get(id_)
    if vswitch is None:
        raise AlibabaError("InvalidVSwitchId.NotFound", "The specified VSwitchId does not exist.", 404)
    if vswitch["Status"] != "Available":
        text = "The current status of the VSwitch does not support this."
        raise AlibabaError("IncorrectVSwitchStatus", text)
    return vswitch


def _groups(region: Region, asked: Mapping[str, Any], vswitch: Document) -> list[str]:
    groups: list[str] = list(asked.get("SecurityGroupIds") or ())
    if asked.get("SecurityGroupId"):
        groups.insert(0, asked["SecurityGroupId"])
    if not groups:
        raise AlibabaError("MissingParameter.SecurityGroupId", "A security group is needed.")
    for id_ in groups:
        if find_group(region, id_)["VpcId"] != vswitch["VpcId"]:
            raise AlibabaError(
                "InvalidParameter.Mismatch", "The security group and the VSwitch are not in one VPC."
            )
    return groups


def _names_group(asked: Mapping[str, Any]) -> bool:
    return bool(asked.get("SecurityGroupId") or asked.get("SecurityGroupIds"))


def check_same_place(interface: Mapping[str, Any], instance: Mapping[str, Any]) -> None:
    """Refuses interfaces of one instance in two zones or networks; both arguments say theirs."""
    if interface["ZoneId"] != instance["ZoneId"]:
        text = "The interface and the instance are not in one zone."
        raise AlibabaError("InvalidOperation.AvailabilityZoneMismatch", text, 403)
    if interface["VpcId"] != instance["VpcId"]:
        text = "The interface and the instance are not in one VPC."
        raise AlibabaError("InvalidOperation.VpcMismatch", text, 403)


# --- making and ending


def make_interface(
    region: Region, order: InterfaceOrder, index: int, tags: Mapping[str, str], *, primary: bool = False
) -> Document:
    """A new interface with one of the order's addresses, attached to nothing."""
    address, vswitch = order.addresses[index], order.vswitch
    digits = hashlib.sha256(f"{vswitch['VSwitchId']} {address}".encode()).hexdigest()
    nic: Document = {
        "NetworkInterfaceId": region.new_id("nic"),
        "NetworkInterfaceName": order.name,
        "Description": order.description,
        "Type": "Primary" if primary else "Secondary",
        "NetworkInterfaceTrafficMode": order.traffic,
        "QueuePairNumber": order.queue_pairs or 0,
        "OwnerId": ACCOUNT,
        "ServiceManaged": False,
        "VpcId": vswitch["VpcId"],
        "VSwitchId": vswitch["VSwitchId"],
        "ZoneId": vswitch["ZoneId"],
        "PrivateIpAddress": address,
        "PrivateIpSets": {"PrivateIpSet": [{"PrivateIpAddress": address, "Primary": True}]},
        "MacAddress": ":".join(["00", "16", *(digits[at : at + 2] for at in range(0, 8, 2))]),
        "SecurityGroupIds": {"SecurityGroupId": order.groups},
        "CreationTime": region.second,
        "DeleteOnRelease": order.deleted_with_instance,
        "Tags": ecs_tags(tags),
    }
    return free(region, nic)


def hold(
    region: Region, nic: Document, instance_id: str, *, card: int | None, status: str = "InUse"
) -> Document:
    """Gives an interface to an instance; ``Attaching`` ends when the clouds' pace says so."""
    attachment = {"InstanceId": instance_id, "NetworkCardIndex": card or 0}
    held: Document = {**nic, "InstanceId": instance_id, "Attachment": attachment}
    return _enter(region, held, status)


def let_loose(region: Region, nic: Document) -> Document:
    """Begins to take an interface from its instance."""
    return _enter(region, nic, "Detaching")


def free(region: Region, nic: Document) -> Document:
    """Leaves an interface attached to nothing."""
    return _enter(region, {**nic, "InstanceId": "", "Attachment": {}}, "Available")


def _enter(region: Region, nic: Document, status: str) -> Document:
    at = region.later(region.world.dials.pace.transition_s)
    return region.put("nic", {**nic, "Status": status, "_settles_at": at})


def interfaces_of(region: Region, instance_id: str) -> list[Document]:
    """The interfaces of an instance, the primary one first."""
    return [each for each in region.all("nic").values() if each["InstanceId"] == instance_id]


def let_go(region: Region, instance_id: str) -> None:
    """What becomes of the interfaces of an instance that is released."""
    for nic in interfaces_of(region, instance_id):
        if nic["DeleteOnRelease"]:
            region.drop("nic", nic["NetworkInterfaceId"])
        else:
            free(region, nic)


def settle(region: Region) -> None:
    """What is being attached or detached becomes so."""
    for nic in list(region.all("nic").values()):
        if nic["Status"] == "Attaching" and nic["_settles_at"] <= region.stamp:
            _enter(region, nic, "InUse")
        elif nic["Status"] == "Detaching" and nic["_settles_at"] <= region.stamp:
            free(region, nic)

"""Network interfaces on their own: made, attached to instances and taken off, changed, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.aws.instances import find_instances, wrong_state
from gpucloud_sandbox.aws.interfaces import (
    EFA,
    Interface,
    Place,
    attach,
    check_address,
    check_places,
    free_address,
    group_name,
    groups_in,
    make_interface,
    refuse_used,
)
from gpucloud_sandbox.aws.parts import find, shown_parts
from gpucloud_sandbox.aws.query import Field
from gpucloud_sandbox.aws.region import Region
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.tokens import idempotent
from gpucloud_sandbox.aws.wire import AwsError, part
from gpucloud_sandbox.database import Document

_FILTERS: dict[str, Field] = {
    "attachment.attachment-id": "Attachment.AttachmentId",
    "attachment.delete-on-termination": "Attachment.DeleteOnTermination",
    "attachment.device-index": "Attachment.DeviceIndex",
    "attachment.instance-id": "Attachment.InstanceId",
    "attachment.status": "Attachment.Status",
    "availability-zone": "AvailabilityZone",
    "description": "Description",
    "group-id": "Groups.GroupId",
    "interface-type": "InterfaceType",
    "mac-address": "MacAddress",
    "network-interface-id": "NetworkInterfaceId",
    "owner-id": "OwnerId",
    "private-ip-address": "PrivateIpAddress",
    "status": "Status",
    "subnet-id": "SubnetId",
    "vpc-id": "VpcId",
}


@idempotent
def create_network_interface(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateNetworkInterface, attached to nothing."""
    subnet = find(region, "subnet", parameters["SubnetId"])
    address = parameters.get("PrivateIpAddress")
    if address is not None:
        check_address(region, subnet, address)
    wanted = Interface(
        kind=parameters.get("InterfaceType", "interface"),
        subnet=subnet,
        groups=groups_in(region, parameters.get("Groups"), subnet["VpcId"]),
        description=parameters.get("Description", ""),
    )
    tags = tags_for(parameters, "network-interface")
    made = make_interface(region, wanted, subnet, address or free_address(region, subnet), tags)
    return {"NetworkInterface": {**made, "Status": "pending"}}


def describe_network_interfaces(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeNetworkInterfaces."""
    ids = parameters.get("NetworkInterfaceIds")
    shown, token = shown_parts(region, "interface", ids, parameters, _FILTERS)
    return {"NetworkInterfaces": shown, "NextToken": token}


def delete_network_interface(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteNetworkInterface. The code is EC2's own: https://github.com/gruntwork-io/cloud-nuke/pull/1132."""
    interface = find(region, "interface", parameters["NetworkInterfaceId"])
    if interface["Status"] == "in-use":
        text = f"Network interface '{interface['NetworkInterfaceId']}' is currently in use."
        raise AwsError("InvalidParameterValue", text)
    region.drop("interface", interface["NetworkInterfaceId"])
    return {}


def attach_network_interface(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AttachNetworkInterface, to an instance of the same zone whose type has room for it."""
    interface = find(region, "interface", parameters["NetworkInterfaceId"])
    (instance,) = find_instances(region, [parameters["InstanceId"]])
    refuse_used(interface)
    _check_state(instance, interface, "attached to")
    if interface["AvailabilityZone"] != instance["Placement"]["AvailabilityZone"]:
        text = (
            "You may not attach a network interface to an instance if they are not in the same availability "
            "zone"
        )
        raise AwsError("InvalidParameterCombination", text)  # UNVERIFIED
    place = Place(
        parameters.get("NetworkCardIndex", 0), parameters["DeviceIndex"], interface["InterfaceType"]
    )
    places = [
        Place(at["NetworkCardIndex"], at["DeviceIndex"], each["InterfaceType"])
        for each in (region.all("interface")[id_] for id_ in instance["_interfaces"])
        for at in [each["Attachment"]]
    ]
    if any((each.card, each.device) == (place.card, place.device) for each in places):
        id_ = instance["InstanceId"]
        text = f"Instance '{id_}' already has an interface attached at device index '{place.device}'."
        raise AwsError("InvalidParameterValue", text)
    check_places([*places, place], instance["InstanceType"])
    attached = attach(region, interface, instance, place, ends=False)
    instance["_interfaces"] = [*instance["_interfaces"], interface["NetworkInterfaceId"]]
    region.put("instance", instance)
    return {"AttachmentId": attached["AttachmentId"], "NetworkCardIndex": place.card}


def detach_network_interface(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DetachNetworkInterface: any but the primary one."""
    interface = _attached(region, parameters["AttachmentId"])
    attachment = interface["Attachment"]
    (instance,) = find_instances(region, [attachment["InstanceId"]])
    if instance["_interfaces"][0] == interface["NetworkInterfaceId"]:
        text = "The network interface at device index 0 cannot be detached."
        raise AwsError("OperationNotPermitted", text)
    _check_state(instance, interface, "detached from")
    region.put("interface", {**interface, "Status": "available", "Attachment": None})
    kept = [each for each in instance["_interfaces"] if each != interface["NetworkInterfaceId"]]
    region.put("instance", {**instance, "_interfaces": kept})
    return {}


def modify_network_interface_attribute(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ModifyNetworkInterfaceAttribute: one attribute a call. The primary interface's are its instance's."""
    interface = find(region, "interface", parameters["NetworkInterfaceId"])
    asked = {name: value for name, value in parameters.items() if name != "NetworkInterfaceId"}
    if len(asked) != 1:
        text = "Fields for multiple attribute types specified" if asked else "No attributes specified."
        raise AwsError("InvalidParameterCombination", text)
    ((member, value),) = asked.items()
    match member:
        case "Groups":
            interface["Groups"] = [group_name(each) for each in groups_in(region, value, interface["VpcId"])]
        case "Attachment":
            if part(interface, "Attachment").get("AttachmentId") != value.get("AttachmentId"):
                raise _no_attachment(value.get("AttachmentId", ""))
            interface["Attachment"]["DeleteOnTermination"] = value.get("DeleteOnTermination", False)
        case _:
            interface[member] = value["Value"]
    region.put("interface", interface)
    instance = region.all("instance").get(part(interface, "Attachment").get("InstanceId", ""))
    if instance is not None and instance["_interfaces"][0] == interface["NetworkInterfaceId"]:
        own = {"SecurityGroups": interface["Groups"], "SourceDestCheck": interface["SourceDestCheck"]}
        region.put("instance", {**instance, **own})
    return {}


def _check_state(instance: Document, interface: Document, change: str) -> None:
    """Refuses a change that an instance's state does not allow: EFA needs a stopped one.

    Source: EC2 User Guide, "Attach an Elastic Fabric Adapter". The code for EFA is UNVERIFIED.
    """
    states = {"stopped"} if interface["InterfaceType"] in EFA else {"running", "stopped"}
    if instance["State"]["Name"] not in states:
        raise wrong_state(instance, f"{change} an interface")


def _attached(region: Region, id_: str) -> Document:
    for interface in region.all("interface").values():
        if part(interface, "Attachment").get("AttachmentId") == id_:
            return interface
    raise _no_attachment(id_)


def _no_attachment(id_: str) -> AwsError:
    text = f"The networkInterfaceAttachment ID '{id_}' does not exist"
    return AwsError("InvalidAttachmentID.NotFound", text)

"""Elastic addresses: billed from their allocation to their release, at an instance or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.addresses import NoAddressError
from gpucloud_sandbox.aws import billing
from gpucloud_sandbox.aws.foreign.gateways import gateway_of
from gpucloud_sandbox.aws.instances import find_instances, free_public_address, is_gone, wrong_state
from gpucloud_sandbox.aws.parts import find
from gpucloud_sandbox.aws.query import Field, select
from gpucloud_sandbox.aws.region import CLOUD, Region
from gpucloud_sandbox.aws.review import review_tags
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.wire import AwsError, not_emulated, part
from gpucloud_sandbox.database import Document

_FILTERS: dict[str, Field] = {
    "allocation-id": "AllocationId",
    "association-id": "AssociationId",
    "domain": "Domain",
    "instance-id": "InstanceId",
    "network-border-group": "NetworkBorderGroup",
    "network-interface-id": "NetworkInterfaceId",
    "private-ip-address": "PrivateIpAddress",
    "public-ip": "PublicIp",
}
_ASSOCIATED = ("AssociationId", "InstanceId", "NetworkInterfaceId", "PrivateIpAddress")


def allocate_address(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AllocateAddress."""
    review_tags(parameters, "elastic-ip")
    world, id_ = region.world, region.new_id("eipalloc")
    try:
        ip = world.addresses.take(id_, but=world.dials.caller_address)
    except NoAddressError:
        text = "Insufficient addresses to satisfy this request."
        raise AwsError("InsufficientAddressCapacity", text) from None
    address = region.put(
        "address",
        {
            "AllocationId": id_,
            "PublicIp": ip,
            "PublicIpv4Pool": "amazon",
            "Domain": "vpc",
            "NetworkBorderGroup": region.name,
            "Tags": tags_for(parameters, "elastic-ip"),
        },
    )
    billing.begin(
        region, "address", id_, world.market.address_price(CLOUD, region.name).amount, billed=address
    )
    return address


def describe_addresses(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeAddresses, which knows no pages."""
    known = region.all("address")
    for id_ in parameters.get("AllocationIds") or ():
        _find(region, {"AllocationId": id_})
    for ip in parameters.get("PublicIps") or ():
        _find(region, {"PublicIp": ip})
    found = [
        each
        for each in known.values()
        if each["AllocationId"] in (parameters.get("AllocationIds") or known)
        and each["PublicIp"] in (parameters.get("PublicIps") or {each["PublicIp"]})
    ]
    return {"Addresses": select(found, parameters.get("Filters"), _FILTERS)}


def associate_address(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AssociateAddress: the instance's own public address goes for it. Idempotent, says its API reference."""
    address = _find(region, parameters)
    instance = _target(region, parameters)
    if address.get("InstanceId") == instance["InstanceId"]:
        return {member: address[member] for member in _ASSOCIATED}
    if is_gone(instance) or instance["State"]["Name"] == "pending":
        raise wrong_state(instance, "associated")
    if "AssociationId" in address and not parameters.get("AllowReassociation", False):
        text = f"resource {address['AllocationId']} is already associated with {address['AssociationId']}"
        raise AwsError("Resource.AlreadyAssociated", text)
    if gateway_of(region, instance["VpcId"]) is None:
        text = f"Network {instance['VpcId']} is not attached to any internet gateway"
        raise AwsError("Gateway.NotAttached", text)
    leave(region, address)
    before = region.all("address").get(instance.get("_elastic", ""))
    if before is not None:
        leave(region, before)
    free_public_address(region, instance, "an elastic address came in its place")
    instance |= {"_public_ip": address["PublicIp"], "_elastic": address["AllocationId"]}
    region.put("instance", instance)
    association = {
        "AssociationId": region.new_id("eipassoc"),
        "InstanceId": instance["InstanceId"],
        "NetworkInterfaceId": instance["_interfaces"][0],
        "PrivateIpAddress": instance["PrivateIpAddress"],
    }
    region.put("address", {**address, **association})
    region.world.addresses.lead(address["PublicIp"], instance["InstanceId"])
    return association


def _target(region: Region, parameters: Mapping[str, Any]) -> Document:
    """The instance that gets an address: named, if it has one interface only, or by its primary interface."""
    id_, interface_id = parameters.get("InstanceId"), parameters.get("NetworkInterfaceId")
    if interface_id is not None:
        interface = find(region, "interface", interface_id)
        id_ = part(interface, "Attachment").get("InstanceId")
        if id_ is None or region.all("instance")[id_]["_interfaces"][0] != interface_id:
            raise not_emulated("AssociateAddress with an interface that is no instance's primary one")
    if id_ is None:
        raise AwsError("MissingParameter", "Either 'instanceId' or 'networkInterfaceId' should be provided.")
    (instance,) = find_instances(region, [id_])
    if interface_id is None and len(instance["_interfaces"]) > 1:
        text = (
            f"There are multiple interfaces attached to instance '{id_}'. Please specify an interface ID for "
            "the operation instead."
        )
        raise AwsError("InvalidInstanceID", text)
    return instance


def disassociate_address(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DisassociateAddress."""
    id_ = parameters.get("AssociationId")
    ip = parameters.get("PublicIp")
    for address in region.all("address").values():
        if "AssociationId" in address and (address["AssociationId"] == id_ or address["PublicIp"] == ip):
            leave(region, address)
            return {}
    raise AwsError("InvalidAssociationID.NotFound", f"The association ID '{id_ or ip}' does not exist")


def release_address(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ReleaseAddress."""
    address = _find(region, parameters)
    if "AssociationId" in address:
        raise AwsError("InvalidIPAddress.InUse", f"Address {address['PublicIp']} is in use.")
    region.drop("address", address["AllocationId"])
    region.world.addresses.free(address["PublicIp"])
    billing.end(region, address["AllocationId"], "released")
    return {}


def leave(region: Region, address: Document) -> None:
    """Takes an address away from its instance, if it is at one."""
    instance = region.all("instance").get(address.get("InstanceId", ""))
    if instance is not None:
        kept = {key: value for key, value in instance.items() if key not in {"_public_ip", "_elastic"}}
        region.put("instance", kept)
    for member in _ASSOCIATED:
        address.pop(member, None)
    region.put("address", address)
    region.world.addresses.lead(address["PublicIp"], address["AllocationId"])


def settle(region: Region) -> None:
    """Takes addresses away from instances that have ended."""
    for address in list(region.all("address").values()):
        instance = region.all("instance").get(address.get("InstanceId", ""))
        if "AssociationId" in address and (instance is None or is_gone(instance)):
            leave(region, address)


def _find(region: Region, parameters: Mapping[str, Any]) -> Document:
    id_, ip = parameters.get("AllocationId"), parameters.get("PublicIp")
    if id_ is None and ip is None:
        raise AwsError("MissingParameter", "The request must contain the parameter allocationId or publicIp")
    for address in region.all("address").values():
        if id_ in {None, address["AllocationId"]} and ip in {None, address["PublicIp"]}:
            return address
    if id_ is not None:
        raise AwsError("InvalidAllocationID.NotFound", f"The allocation ID '{id_}' does not exist")
    raise AwsError("InvalidAddress.NotFound", f"Address '{ip}' not found.")

"""Elastic addresses: billed until they are released, whatever they are associated with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.addresses import NoAddressError
from gpucloud_sandbox.alibaba import bills
from gpucloud_sandbox.alibaba.instances import find_instance
from gpucloud_sandbox.alibaba.network import described
from gpucloud_sandbox.alibaba.region import CLOUD, Region, asked_tags, vpc_tags
from gpucloud_sandbox.alibaba.review import review_tags
from gpucloud_sandbox.alibaba.tokens import once
from gpucloud_sandbox.alibaba.validation import not_emulated
from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.database import Document

MOST_MBPS = 200
"""The most of an address that pays by traffic. Source: VPC API reference, AllocateEipAddress."""


def allocate(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AllocateEipAddress."""
    review_tags(parameters)
    if "InternetChargeType" not in parameters:
        raise not_emulated("AllocateEipAddress: InternetChargeType=paybybandwidth")
    bandwidth = parameters.get("Bandwidth", "5")
    if not (bandwidth.isdecimal() and 1 <= int(bandwidth) <= MOST_MBPS):
        raise AlibabaError("InvalidBandwidth.Malformed", f"The specified Bandwidth {bandwidth} is not valid.")
    tags = asked_tags(parameters)

    def make() -> Document:
        id_, world = region.new_id("eip"), region.world
        try:
            address = world.addresses.take(id_, but=world.dials.caller_address)
        except NoAddressError:
            text = "There are no public addresses left."
            raise AlibabaError("InvalidOperation.PublicIpAddressNoStock", text, 403) from None
        region.put(
            "eip",
            {
                "AllocationId": id_,
                "IpAddress": address,
                "Name": parameters.get("Name", ""),
                "Descritpion": parameters.get("Description", ""),  # the API's own spelling
                "Status": "Available",
                "InstanceId": "",
                "InstanceType": "",
                "Bandwidth": bandwidth,
                "InternetChargeType": "PayByTraffic",
                "ChargeType": "PostPaid",
                "ISP": "BGP",
                "RegionId": region.name,
                "AllocationTime": region.second,
                "Tags": vpc_tags(tags),
            },
        )
        price = world.market.address_price(CLOUD, region.name)
        bills.begin(region, "address", id_, price, tags=tags, token=parameters.get("ClientToken", ""))
        return {"AllocationId": id_, "EipAddress": address, "OrderId": 0, "ResourceGroupId": ""}

    return once(region, "AllocateEipAddress", parameters, make)


def describe(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeEipAddresses."""
    asked = {
        **parameters,
        "IpAddress": parameters.get("EipAddress"),
        "Name": parameters.get("EipName"),
        "InstanceId": parameters.get("AssociatedInstanceId"),
        "InstanceType": parameters.get("AssociatedInstanceType"),
    }
    found, about = described(
        region, "eip", asked, ("AllocationId", "IpAddress", "Name", "Status", "InstanceId", "InstanceType")
    )
    return {"EipAddresses": {"EipAddress": found}, **about}


def associate(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AssociateEipAddress, with an instance that has no public address."""
    eip = _find(region, parameters["AllocationId"])
    instance = find_instance(region, parameters["InstanceId"])

    def make() -> Document:
        if eip["Status"] != "Available":
            raise _wrong_state()
        if instance["Status"] not in {"Running", "Stopped"}:
            text = "The current status of the resource does not support this operation."
            raise AlibabaError("IncorrectInstanceStatus", text)
        if instance.get("_public_ip") or instance["EipAddress"]["AllocationId"]:
            text = "Specified instance already is associated with a public address."
            raise AlibabaError("InvalidAssociation.Duplicated", text)
        id_ = instance["InstanceId"]
        region.put("eip", {**eip, "Status": "InUse", "InstanceId": id_, "InstanceType": "EcsInstance"})
        shown = {
            "AllocationId": eip["AllocationId"],
            "IpAddress": eip["IpAddress"],
            "InternetChargeType": eip["InternetChargeType"],
            "Bandwidth": int(eip["Bandwidth"]),
        }
        region.put("instance", {**instance, "EipAddress": shown})
        region.world.addresses.lead(eip["IpAddress"], id_)
        return {}

    return once(region, "AssociateEipAddress", parameters, make)


def unassociate(region: Region, parameters: Mapping[str, Any]) -> Document:
    """UnassociateEipAddress."""
    eip = _find(region, parameters["AllocationId"])

    def make() -> Document:
        if eip["Status"] != "InUse" or parameters.get("InstanceId") not in {None, eip["InstanceId"]}:
            raise _wrong_state()
        free(region, eip)
        return {}

    return once(region, "UnassociateEipAddress", parameters, make)


def release(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ReleaseEipAddress."""
    eip = _find(region, parameters["AllocationId"])
    if eip["Status"] != "Available":
        raise _wrong_state()
    region.drop("eip", eip["AllocationId"])
    region.world.addresses.free(eip["IpAddress"])
    bills.end(region, eip["AllocationId"], "released")
    return {}


def settle(region: Region) -> None:
    """The addresses of instances that were released are free again."""
    instances = region.all("instance")
    for eip in list(region.all("eip").values()):
        if eip["InstanceId"] and instances[eip["InstanceId"]]["_gone_at"] is not None:
            free(region, eip)


def free(region: Region, eip: Document) -> None:
    """Takes an address from its instance."""
    instance = region.all("instance")[eip["InstanceId"]]
    none = {"AllocationId": "", "IpAddress": "", "InternetChargeType": ""}
    region.put("instance", {**instance, "EipAddress": none})
    region.put("eip", {**eip, "Status": "Available", "InstanceId": "", "InstanceType": ""})
    region.world.addresses.lead(eip["IpAddress"], eip["AllocationId"])


def _find(region: Region, id_: str) -> Document:
    eip = region.all("eip").get(id_)
    if eip is None:
        raise AlibabaError("InvalidAllocationId.NotFound", "Specified allocation ID is not found", 404)
    return eip


def _wrong_state() -> AlibabaError:
    return AlibabaError("IncorrectEipStatus", "Current elastic IP status does not support this operation.")

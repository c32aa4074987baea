"""Requests that AWS would accept and a careful reviewer would not: the sandbox refuses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from gpucloud_sandbox.addresses import are_the_world
from gpucloud_sandbox.aws.wire import AwsError, part
from gpucloud_sandbox.review import reviewer

TAGS = tuple(f"gpucloud:{name}" for name in ("owner", "box", "op", "run", "expires"))

PURCHASES = {
    "AcceptReservedInstancesExchangeQuote",
    "CreateCapacityReservation",
    "CreateCapacityReservationFleet",
    "ModifyReservedInstances",
    "PurchaseCapacityBlock",
    "PurchaseCapacityBlockExtension",
    "PurchaseHostReservation",
    "PurchaseReservedInstancesOffering",
    "PurchaseScheduledInstances",
}
"""Calls that commit to pay. gpucloud must not be able to send them."""


def refusal(what: str) -> AwsError:
    """The sandbox's own no, in the form of AWS's."""
    return AwsError(
        "UnauthorizedOperation",
        f"You are not authorized to perform this operation. Refused by the gpucloud sandbox: {what}",
        403,
    )


@reviewer
def review_action(action: str) -> None:
    """Refuses every purchase."""
    if action in PURCHASES:
        raise refusal(f"{action} commits to pay")


@reviewer
def review_launch(parameters: Mapping[str, Any], root_device: str) -> None:
    """Refuses a launch that is open, unencrypted, untagged, or would not end itself.

    Args:
        parameters: those of RunInstances.
        root_device: the name of the image's root device.
    """
    metadata = part(parameters, "MetadataOptions")
    if metadata.get("HttpTokens") != "required":
        raise refusal("MetadataOptions.HttpTokens is not required")
    if metadata.get("HttpPutResponseHopLimit") != 1:
        raise refusal("MetadataOptions.HttpPutResponseHopLimit is not 1")
    disks = {
        each.get("DeviceName"): each["Ebs"]
        for each in parameters.get("BlockDeviceMappings") or ()
        if "Ebs" in each
    }
    for name in {root_device, *disks}:
        if not disks.get(name, {}).get("Encrypted"):
            raise refusal(f"the disk {name} is not encrypted")
    if parameters.get("InstanceInitiatedShutdownBehavior") != "terminate":
        raise refusal(
            "InstanceInitiatedShutdownBehavior is not terminate: a box that powers off would be billed on"
        )
    market = part(parameters, "InstanceMarketOptions")
    spot = market.get("MarketType") == "spot"
    if part(market, "SpotOptions").get("SpotInstanceType", "one-time") != "one-time":
        raise refusal("a persistent spot request starts instances anew")
    kinds = ("instance", "volume", "network-interface", *(("spot-instances-request",) if spot else ()))
    _check_tags(parameters, kinds)


@reviewer
def review_storage(parameters: Mapping[str, Any], *kinds: str, encrypted: bool = True) -> None:
    """Refuses volumes, snapshots and images that are not encrypted or not tagged.

    Args:
        parameters: those of the create call.
        kinds: of the resources that it makes.
        encrypted: whether what is new is encrypted.
    """
    if not encrypted:
        raise refusal("the disk is not encrypted")
    _check_tags(parameters, kinds)


@reviewer
def review_tags(parameters: Mapping[str, Any], *kinds: str) -> None:
    """Refuses what carries no tags of gpucloud's: nobody would ever find and delete it.

    Args:
        parameters: those of the create call.
        kinds: of the resources that it makes.
    """
    _check_tags(parameters, kinds)


def _check_tags(parameters: Mapping[str, Any], kinds: Sequence[str]) -> None:
    tagged = {
        each.get("ResourceType"): {tag["Key"] for tag in each.get("Tags") or ()}
        for each in parameters.get("TagSpecifications") or ()
    }
    for kind in kinds:
        missing = [tag for tag in TAGS if tag not in tagged.get(kind, ())]
        if missing:
            raise refusal(f"TagSpecifications for {kind} lack {', '.join(missing)}")


@reviewer
def review_fabric(groups: Sequence[Mapping[str, Any]]) -> None:
    """Refuses interfaces of EFA in groups whose members may not send each other everything.

    Source: EC2 User Guide, "Get started with EFA and MPI", "Prepare an EFA-enabled security group".

    Args:
        groups: the security groups of these interfaces.
    """
    for group, way in product(groups, ("_ingress", "_egress")):
        rules: Sequence[Mapping[str, Any]] = group[way]
        if not any(rule["IpProtocol"] == "-1" and rule.get("_Group") == group["GroupId"] for rule in rules):
            raise refusal(f"EFA in {group['GroupId']}, which allows no {way[1:]} of all traffic to itself")


@reviewer
def review_ingress(blocks: Sequence[str]) -> None:
    """Refuses a group that lets in the world, on whatever ports."""
    if are_the_world(blocks):
        raise refusal(f"ingress from {', '.join(blocks)} lets in the world")

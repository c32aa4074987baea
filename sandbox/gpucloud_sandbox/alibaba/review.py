"""Requests that Alibaba Cloud would accept and a careful reviewer would not: the sandbox refuses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpucloud_sandbox.addresses import are_the_world
from gpucloud_sandbox.alibaba.region import asked_tags
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.review import reviewer

TAGS = tuple(f"gpucloud:{name}" for name in ("owner", "box", "op", "run", "expires"))

PURCHASES = {
    "AllocateDedicatedHosts",
    "CreateCapacityReservation",
    "CreateElasticityAssurance",
    "ModifyInstanceChargeType",
    "PurchaseElasticityAssurance",
    "PurchaseReservedInstancesOffering",
    "PurchaseStorageCapacityUnit",
    "RenewDedicatedHosts",
    "RenewElasticityAssurances",
    "RenewInstance",
    "RenewReservedInstances",
}
"""Calls that commit to pay. gpucloud must not be able to send them."""


def refusal(what: str) -> AlibabaError:
    """The sandbox's own no, in the form of the cloud's."""
    return AlibabaError("Forbidden.RAM", f"User not authorized. Refused by the gpucloud sandbox: {what}", 403)


@reviewer
def review_action(action: str) -> None:
    """Refuses every purchase."""
    if action in PURCHASES:
        raise refusal(f"{action} commits to pay")


@reviewer
def review_ingress(rules: Iterable[Document]) -> None:
    """Refuses a group that lets in the world, on whatever ports."""
    keys = ("SourceCidrIp", "Ipv6SourceCidrIp")
    accepted = [rule[key] for rule in rules for key in keys if rule[key] and rule["Policy"] == "Accept"]
    if are_the_world(accepted):
        raise refusal(f"ingress from {', '.join(accepted)} lets in the world")


@reviewer
def review_metadata(parameters: Mapping[str, Any], imds: str) -> None:
    """Refuses metadata without tokens, unless the image (``ImdsSupport``) takes no other."""
    if imds == "v2" and parameters.get("HttpTokens") != "required":
        raise refusal("HttpTokens is not required")


@reviewer
def review_disk(parameters: Mapping[str, Any]) -> None:
    """Refuses a disk of its own that is unencrypted or untagged.

    Args:
        parameters: those of CreateDisk.
    """
    if not true(parameters.get("Encrypted")):
        raise refusal("the disk is not encrypted")
    review_tags(parameters)


@reviewer
def review_launch(parameters: Mapping[str, Any]) -> None:
    """Refuses a launch whose way of paying is not said, that is unencrypted, or untagged.

    Args:
        parameters: those of RunInstances.
    """
    if parameters.get("InstanceChargeType") != "PostPaid":
        raise refusal("InstanceChargeType is not PostPaid")
    if not true(parameters.get("SystemDisk", {}).get("Encrypted")):
        raise refusal("the system disk is not encrypted")
    if any(not true(disk.get("Encrypted")) for disk in parameters.get("DataDisk") or ()):
        raise refusal("a data disk is not encrypted")
    review_tags(parameters)


@reviewer
def review_tags(parameters: Mapping[str, Any]) -> None:
    """Refuses what is made without gpucloud's tags: snapshots, images, addresses."""
    tags = asked_tags(parameters)
    missing = [tag for tag in TAGS if tag not in tags]
    if missing:
        raise refusal(f"the tags lack {', '.join(missing)}")

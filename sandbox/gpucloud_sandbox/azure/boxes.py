"""From an emulated virtual machine to its inside."""

from __future__ import annotations

from functools import partial

from gpucloud_pricing.demand import NO_RDMA
from gpucloud_sandbox.azure import metadata
from gpucloud_sandbox.azure.network import addresses_of, private_address
from gpucloud_sandbox.azure.subscription import CLOUD, DISK, NIC, Subscription, part
from gpucloud_sandbox.boxes import BoxSpec
from gpucloud_sandbox.boxes_user_data import User, unpacked
from gpucloud_sandbox.database import Document

_NONE = "#cloud-config\n"
"""The user-data of a machine without any."""
LOCAL_DISK = "Microsoft NVMe Direct Disk v2"
"""The model of local disks. Sizes before version 6 have a temporary SCSI disk at /mnt, which is not emulated.

Source: Azure documentation, "Temporary NVMe disks: frequently asked questions"."""


def boot(subscription: Subscription, machine: Document) -> None:
    """Starts a machine's inside; its address leads there from now on."""
    type_ = subscription.world.market.catalog(CLOUD).types.get(machine["_size"])
    if type_ is None:  # the catalog changed since it was made
        return
    public, private = "", ""
    named = part(machine, "properties", "networkProfile").get("networkInterfaces") or ()
    found = [subscription.find(NIC, each["id"]) for each in named]
    nics = [nic for nic in found if nic is not None]
    for nic in sorted(nics, key=lambda nic: not nic["properties"].get("primary")):
        private = private or private_address(nic)
        for address, _ in addresses_of(subscription, nic):
            public = public or address["_address"]
            subscription.world.addresses.lead(address["_address"], machine["_box"])
    principal = part(machine, "identity").get("principalId")
    token = partial(subscription.issue, principal) if principal else None
    subscription.world.boxes.boot(
        BoxSpec(
            id=machine["_box"],
            hostname=machine["properties"]["osProfile"]["computerName"],
            public_ip=public,
            private_ip=private,
            user_data=unpacked(machine["_user_data"]) or _NONE,
            gpu_model=type_.gpu_model,
            gpu_count=type_.driven_gpus,
            gpu_memory_mib=type_.gpu_memory_mib,
            driver=machine["_driver"],
            tags=machine.get("tags") or {},
            spot=machine["_purchase"] == "spot",
            fabric=type_.rdma if type_.rdma != NO_RDMA and _is_joined(machine) else None,
            local_disks=(LOCAL_DISK,) if type_.local_ssd_gib else (),
            metadata=partial(metadata.answer, resource_id=machine["id"], token=token),
            users=_users(part(machine, "properties", "osProfile")),
            root_volume=_root_of(subscription, machine),
            environ=subscription.world.box_environ,
        )
    )


def _is_joined(machine: Document) -> bool:
    """Whether a machine whose size has InfiniBand reaches others by it: in a set, on an image with drivers.

    Only the HPC images bring NVIDIA's driver, and they bring those of InfiniBand too.
    """
    in_set = part(machine, "properties", "availabilitySet").get("id") or machine.get("_group")
    return bool(in_set and machine["_driver"])


def _root_of(subscription: Subscription, machine: Document) -> str:
    """The unique id of a machine's OS disk."""
    disk = subscription.find(DISK, machine["_disk"])
    return str(disk["properties"]["uniqueId"]) if disk else ""


def _users(guest: Document) -> tuple[User, ...]:
    """The first user, with its keys."""
    keys: list[Document] = part(guest, "linuxConfiguration", "ssh").get("publicKeys") or []
    return (User(name=guest["adminUsername"], keys=tuple(each["keyData"] for each in keys)),)


def restart(subscription: Subscription, machine: Document) -> None:
    """Stops a machine's inside and boots it again from the same disk."""
    stop(subscription, machine)
    boot(subscription, machine)


def stop(subscription: Subscription, machine: Document) -> None:
    """Stops a machine's inside and keeps its disk."""
    subscription.world.boxes.stop(machine["_box"])


def end(subscription: Subscription, machine: Document) -> None:
    """Ends a machine's inside and its disk."""
    subscription.world.boxes.end(machine["_box"])

"""From an emulated ECS instance to its inside."""

from __future__ import annotations

from functools import partial

from gpucloud_sandbox.alibaba import metadata
from gpucloud_sandbox.alibaba.disks import disks_of
from gpucloud_sandbox.alibaba.interfaces import ERDMA, interfaces_of
from gpucloud_sandbox.alibaba.region import Region, tags_of
from gpucloud_sandbox.boxes import BoxSpec
from gpucloud_sandbox.boxes_user_data import User, unpacked
from gpucloud_sandbox.database import Document

KEY_USER = "root"
"""Who logs in with the key pair. Source: ECS user guide, "Connect to an instance by using a key pair"."""
LOCAL_DISK = ""
"""The model of local disks, which no source tells: they are NVMe (ECS user guide, "Local disks")."""


def boot(region: Region, instance: Document) -> None:
    """Starts an instance's inside."""
    type_ = region.type_of(instance["InstanceType"])
    if type_ is None:  # the catalog changed since it was launched
        return
    region.world.boxes.boot(
        BoxSpec(
            id=instance["InstanceId"],
            hostname=instance["HostName"],
            public_ip=instance.get("_public_ip", ""),
            private_ip=instance["_private_ip"],
            user_data=unpacked(instance["_user_data"]),
            gpu_model=type_.gpu_model,
            gpu_count=type_.driven_gpus,
            gpu_memory_mib=type_.gpu_memory_mib,
            driver=instance["_driver"],
            tags=tags_of(instance),
            spot=instance["_purchase"] == "spot",
            fabric="erdma" if _has_erdma(region, instance) else None,
            users=(User(name=KEY_USER, keys=(key,)),) if (key := instance.get("_public_key")) else (),
            local_disks=(LOCAL_DISK,) if type_.local_ssd_gib else (),
            root_volume=_root_of(region, instance),
            metadata=partial(
                metadata.answer,
                hardened=instance["MetadataOptions"]["HttpTokens"] == "required",
                public_key=instance.get("_public_key", ""),
            ),
            environ=region.world.box_environ,
        )
    )


def _has_erdma(region: Region, instance: Document) -> bool:
    nics = interfaces_of(region, instance["InstanceId"])
    return any(each["NetworkInterfaceTrafficMode"] == ERDMA for each in nics)


def _root_of(region: Region, instance: Document) -> str:
    """The id of an instance's system disk."""
    disks = disks_of(region, instance["InstanceId"])
    return next(str(each["DiskId"]) for each in disks if each["Type"] == "system")


def restart(region: Region, instance: Document) -> None:
    """Stops an instance's inside and boots it again from the same disk."""
    stop(region, instance)
    boot(region, instance)


def stop(region: Region, instance: Document) -> None:
    """Stops an instance's inside and keeps its disk."""
    region.world.boxes.stop(instance["InstanceId"])


def end(region: Region, instance: Document) -> None:
    """Ends an instance's inside and its disk."""
    region.world.boxes.end(instance["InstanceId"])

"""From an emulated EC2 instance to its inside."""

from __future__ import annotations

from gpucloud_sandbox.aws import metadata
from gpucloud_sandbox.aws.interfaces import EFA
from gpucloud_sandbox.aws.region import Region, tags_of
from gpucloud_sandbox.boxes import BoxSpec
from gpucloud_sandbox.boxes_user_data import User, unpacked
from gpucloud_sandbox.database import Document

DEFAULT_USER = "ubuntu"
"""The own user of all emulated images, who logs in with the key pair. Source: images.toml."""
LOCAL_DISK = "Amazon EC2 NVMe Instance Storage"
"""The model of local disks. Source: EC2 user guide, "SSD instance store volumes"."""


def boot(region: Region, instance: Document) -> None:
    """Starts an instance's inside."""
    type_ = region.type_of(instance["InstanceType"])
    if type_ is None:  # the catalog changed since it was launched
        return
    region.world.boxes.boot(
        BoxSpec(
            id=instance["InstanceId"],
            hostname=instance["PrivateDnsName"].partition(".")[0],
            public_ip=instance.get("_public_ip", ""),
            private_ip=instance["PrivateIpAddress"],
            user_data=unpacked(instance["_user_data"]),
            gpu_model=type_.gpu_model,
            gpu_count=type_.driven_gpus,
            gpu_memory_mib=type_.gpu_memory_mib,
            driver=instance["_driver"],
            tags=tags_of(instance),
            spot=instance["_purchase"] == "spot",
            default_user=User(name=DEFAULT_USER, keys=(key,))
            if (key := instance.get("_public_key"))
            else None,
            fabric="efa" if _has_efa(region, instance) else None,
            local_disks=(LOCAL_DISK,) if type_.local_ssd_gib else (),
            root_volume=root_of(instance),
            metadata=metadata.service(instance["MetadataOptions"]),
            environ=region.world.box_environ,
        )
    )


def _has_efa(region: Region, instance: Document) -> bool:
    known = region.all("interface")
    return any(known[id_]["InterfaceType"] in EFA for id_ in instance["_interfaces"])


def root_of(instance: Document) -> str:
    """The id of an instance's root volume; empty if it was detached."""
    root = instance["RootDeviceName"]
    mappings = instance["BlockDeviceMappings"]
    return next((each["Ebs"]["VolumeId"] for each in mappings if each["DeviceName"] == root), "")


def restart(region: Region, instance: Document) -> None:
    """Stops an instance's inside if it runs, and boots it from its disk."""
    stop(region, instance)
    boot(region, instance)


def stop(region: Region, instance: Document) -> None:
    """Stops an instance's inside and keeps its disk."""
    region.world.boxes.stop(instance["InstanceId"])


def end(region: Region, instance: Document) -> None:
    """Ends an instance's inside and its disk."""
    region.world.boxes.end(instance["InstanceId"])

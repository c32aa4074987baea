"""From an emulated EC2 instance to its inside."""

from __future__ import annotations

import threading

from gpucloud.sandbox.boxes import BoxSpec
from gpucloud.sandbox.boxes_user_data import User, unpacked
from gpucloud.sandbox.database import Document
from gpucloud_aws.sandbox import metadata
from gpucloud_aws.sandbox.region import Region, tags_of

DEFAULT_USER = "ubuntu"
"""The own user of all emulated images, who logs in with the key pair. Source: images.toml."""

_ENDING: dict[str, threading.Thread] = {}
"""The threads that end boxes, by box."""


def boot(region: Region, instance: Document) -> None:
    """Starts an instance's inside."""
    spec = _spec(region, instance)
    if spec is not None:
        region.world.boxes.boot(spec)


def restart(region: Region, instance: Document) -> None:
    """Ends an instance's inside if it is there, and starts it again, without waiting."""
    spec, before = _spec(region, instance), _ENDING.get(instance["InstanceId"])

    def restarted() -> None:
        if before is not None:
            before.join()
        region.world.boxes.end(instance["InstanceId"])
        if spec is not None:
            region.world.boxes.boot(spec)

    threading.Thread(target=restarted, daemon=True).start()


def end(region: Region, instance: Document) -> None:
    """Ends an instance's inside, without waiting: its connections may take a moment to close."""
    box = instance["InstanceId"]

    def ended() -> None:
        region.world.boxes.end(box)
        _ENDING.pop(box, None)

    _ENDING[box] = threading.Thread(target=ended, daemon=True)
    _ENDING[box].start()


def _spec(region: Region, instance: Document) -> BoxSpec | None:
    type_ = region.type_of(instance["InstanceType"])
    if type_ is None:  # the catalog changed since it was launched
        return None
    return BoxSpec(
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
        default_user=User(name=DEFAULT_USER, keys=(key,)) if (key := instance.get("_public_key")) else None,
        metadata=metadata.service(instance["MetadataOptions"]),
    )

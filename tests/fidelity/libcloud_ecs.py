"""Apache Libcloud's ECS driver, which speaks XML and the older signature: what it sees and does.

It runs in the environment of the clients, takes the id of a node, and prints a document of what the driver
returned.
"""

import json
import os
import sys
from urllib.parse import urlsplit

from libcloud.compute.drivers.ecs import ECSDriver


def driver() -> ECSDriver:
    """The driver, for an endpoint of one's own."""
    place = urlsplit(os.environ["GPUCLOUD_ALIBABA_ENDPOINT"])
    return ECSDriver(
        os.environ["ALIBABA_CLOUD_ACCESS_KEY_ID"],
        os.environ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"],
        region="us-east-1",
        host=place.hostname,
        port=place.port,
        secure=False,
    )


def main(node_id: str) -> object:
    """Looks at a node, gives it a disk for a while, takes a snapshot of that, restarts and ends the node."""
    ecs = driver()
    [node] = ecs.list_nodes(ex_node_ids=[node_id])
    group = ecs.ex_create_security_group(description="of the fidelity tests")
    zone = next(each for each in ecs.ex_list_zones() if each.id == node.extra["zone_id"])
    disk = ecs.create_volume(20, "libcloud", ex_zone_id=zone.id, ex_disk_category="cloud_essd")
    attached = ecs.attach_volume(node, disk)
    volumes = [(each.size, each.extra["type"]) for each in ecs.list_volumes(ex_volume_ids=[disk.id])]
    snapshot = ecs.create_volume_snapshot(disk, "libcloud")
    snapshots = [each.id == snapshot.id for each in ecs.list_volume_snapshots(disk)]
    return {
        "node": [node.state, node.public_ips, node.extra["image_id"]],
        "sizes": len(ecs.list_sizes()),
        "images": len(ecs.list_images()),
        "attached": attached,
        "volumes": volumes,
        "snapshots": snapshots,
        "rebooted": ecs.reboot_node(node),
        "detached": ecs.detach_volume(disk),
        "ended": [
            ecs.destroy_volume_snapshot(snapshot),
            ecs.destroy_volume(disk),
            ecs.destroy_node(node),
            ecs.ex_delete_security_group_by_id(group),
        ],
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))

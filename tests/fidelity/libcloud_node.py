"""Apache Libcloud's EC2 driver: the life of a node, as one program.

It runs in the environment of the clients, and prints a document of what the driver returned.
"""

import json
import os
import sys
from urllib.parse import urlsplit

from libcloud.compute.base import NodeImage
from libcloud.compute.drivers.ec2 import EC2NodeDriver

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE2ZkXo0o4lSVwCEb9fZ2gKQf7Yp2mWb0mR3Lq1xq7Zb libcloud"


def driver() -> EC2NodeDriver:
    """The driver as its documentation says for an endpoint of one's own, with today's signature."""
    place = urlsplit(os.environ["AWS_ENDPOINT_URL"])
    return EC2NodeDriver(
        os.environ["AWS_ACCESS_KEY_ID"],
        os.environ["AWS_SECRET_ACCESS_KEY"],
        region="us-east-1",
        host=place.hostname,
        port=place.port,
        secure=False,
        signature_version="4",
    )


def node() -> object:
    """Makes a node and lists, tags and ends it."""
    ec2 = driver()
    size = next(size for size in ec2.list_sizes() if size.id == "g4dn.xlarge")
    group = ec2.ex_create_security_group("libcloud", "of the fidelity tests")["group_id"]
    ec2.ex_authorize_security_group_ingress(group, 22, 22, cidr_ips=["192.0.2.7/32"])
    ec2.import_key_pair_from_string("libcloud", PUBLIC_KEY)
    made = ec2.create_node(
        name="libcloud",
        size=size,
        image=image(ec2),
        ex_keyname="libcloud",
        ex_security_group_ids=[group],
        ex_subnet=ec2.ex_list_subnets()[0],
    )
    [(ready, addresses)] = ec2.wait_until_running([made], wait_period=0.1, timeout=30)
    ec2.ex_create_tags(made, {"purpose": "fidelity"})
    listed = ec2.list_nodes(ex_node_ids=[made.id])
    answer = {
        "id": made.id,
        "addresses": addresses,
        "state": ready.state,
        "tags": ec2.ex_describe_tags(made),
        "listed": [(each.name, each.extra["instance_type"]) for each in listed],
        "destroyed": ec2.destroy_node(made),
    }
    ec2.delete_key_pair(ec2.get_key_pair("libcloud"))
    ec2.ex_delete_security_group_by_id(group)
    return answer


def volume() -> object:
    """Makes a volume, attaches it to a node, takes a snapshot, and deletes all of them."""
    ec2 = driver()
    size = next(size for size in ec2.list_sizes() if size.id == "g4dn.xlarge")
    [(made, _)] = ec2.wait_until_running(
        [ec2.create_node(name="libcloud", size=size, image=image(ec2))], wait_period=0.1, timeout=30
    )
    zone = next(
        zone for zone in ec2.list_locations() if zone.availability_zone.name == made.extra["availability"]
    )
    disk = ec2.create_volume(10, "libcloud", location=zone, ex_volume_type="gp3")
    attached = ec2.attach_volume(made, disk, "/dev/sdf")
    snapshot = ec2.create_volume_snapshot(disk, "libcloud")
    answer = {
        "attached": attached,
        "volumes": sorted(each.size for each in ec2.list_volumes()),
        "snapshots": [each.id == snapshot.id for each in ec2.list_snapshots(owner="self")],
        "detached": ec2.detach_volume(disk),
    }
    snapshot.destroy()
    ec2.destroy_node(made)
    return {**answer, "deleted": ec2.destroy_volume(disk)}


def image(ec2: EC2NodeDriver) -> NodeImage:
    """The newest image for x86."""
    images = ec2.list_images(ex_owner="amazon", ex_filters={"architecture": "x86_64"})
    return max(images, key=lambda each: str(each.extra["creation_date"]))


if __name__ == "__main__":
    print(json.dumps({"node": node, "volume": volume}[sys.argv[1]]()))

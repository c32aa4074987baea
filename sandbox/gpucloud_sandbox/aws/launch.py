"""RunInstances: its client token, and what it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.aws import moto_backend
from gpucloud_sandbox.aws.boxes import boot
from gpucloud_sandbox.aws.disks import attach, make_volume
from gpucloud_sandbox.aws.foreign.templates import template_tags, with_template
from gpucloud_sandbox.aws.instances import PENDING, bill_instance, is_gone, show, take_address
from gpucloud_sandbox.aws.interfaces import attach as attach_interface
from gpucloud_sandbox.aws.interfaces import free_address, group_name, make_interface
from gpucloud_sandbox.aws.order import Order, read_order
from gpucloud_sandbox.aws.placement import place
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.spot import new_request
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.tokens import digest_of, mismatch
from gpucloud_sandbox.aws.wire import AwsError, part
from gpucloud_sandbox.database import Document


def run_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RunInstances."""
    token = parameters.get("ClientToken")
    digest = _digest(parameters)
    if token is not None:
        if not (1 <= len(token) <= 64 and token.isascii()):
            raise AwsError("InvalidParameterValue", f"Value ({token}) for parameter clientToken is invalid.")
        before = _repeated(region, token, digest)
        if before is not None:
            return before
    order = read_order(region, with_template(region, parameters))
    if parameters.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
    reservation_id = region.new_id("r")
    instances = [make_instance(region, order, reservation_id, index) for index in range(order.count)]
    if token is not None:
        ids = [instance["InstanceId"] for instance in instances]
        region.put(
            "token", {"_token": token, "_digest": digest, "_instances": ids, "_reservation": reservation_id}
        )
    return _answer(region, reservation_id, instances)


def _repeated(region: Region, token: str, digest: str) -> Document | None:
    """What an earlier call with this token made; ``None`` if there was none."""
    known = region.all("token").get(token)
    if known is None:
        return None
    if known["_digest"] != digest:
        raise mismatch()
    instances = [region.all("instance").get(id_) for id_ in known["_instances"]]
    standing = [each for each in instances if each is not None and not is_gone(each)]
    if len(standing) < len(instances):
        raise AwsError(
            "IdempotentInstanceTerminated",
            "The instance that was launched with this client token has been terminated.",
        )
    return _answer(region, known["_reservation"], standing)


def _digest(parameters: Mapping[str, Any]) -> str:
    """A hash of what must not change under one token: all but the zone (EC2, "Ensuring idempotency")."""
    placement = {k: v for k, v in part(parameters, "Placement").items() if k != "AvailabilityZone"}
    return digest_of({**parameters, "Placement": placement})


def _answer(region: Region, reservation_id: str, instances: list[Document]) -> Document:
    return {
        "ReservationId": reservation_id,
        "OwnerId": ACCOUNT,
        "Groups": [],
        "Instances": [show(region, instance) for instance in instances],
    }


def make_instance(
    region: Region, order: Order, reservation_id: str, index: int, request: str | None = None
) -> Document:
    """One instance of an order, billed, with a box inside. A spot ``request`` unnamed is made with it."""
    instance = _instance(region, order, region.new_id("i"), index) | _unseen(region, order, reservation_id)
    if order.public:
        take_address(region, instance)
    if order.purchase == "spot":
        instance["InstanceLifecycle"] = "spot"
        made = request or new_request(region, order.parameters, instance, order.max_price)
        instance["SpotInstanceRequestId"] = made
    elif order.purchase == "capacity_block":
        instance["InstanceLifecycle"] = "capacity-block"
    if order.reservation is not None:
        instance["CapacityReservationId"] = order.reservation["CapacityReservationId"]
    instance["BlockDeviceMappings"] = []
    tags = tags_for(order.parameters, "volume")
    for disk in order.disks:
        volume = make_volume(region, disk, order.zone, tags, token=order.token)
        attach(region, volume, instance, disk.device, ends=disk.ends)
        instance["_fails"] |= volume["_fails"]
    instance["_interfaces"] = _make_interfaces(region, order, instance)
    region.put("instance", instance)
    bill_instance(region, instance, order.price, order.token)
    boot(region, instance)
    return instance


def _instance(region: Region, order: Order, id_: str, index: int) -> Document:
    """An instance as ``DescribeInstances`` shows it."""
    parameters, primary = order.parameters, order.interfaces[0]
    ip = primary.address or _free(region, order)
    return {
        "InstanceId": id_,
        "ImageId": order.image.id_in(region.name),
        "State": PENDING,
        "StateReason": {"Code": "pending", "Message": "pending"},
        "StateTransitionReason": "",
        "AmiLaunchIndex": index,
        "ClientToken": parameters.get("ClientToken", ""),
        "InstanceType": order.type.name,
        "LaunchTime": region.stamp,
        "Placement": {
            "AvailabilityZone": order.zone,
            "AvailabilityZoneId": region.zones[order.zone],
            "Tenancy": "default",
            **place(region, order.placement, part(parameters, "Placement").get("PartitionNumber")),
        },
        "KeyName": parameters.get("KeyName"),
        "IamInstanceProfile": order.profile,
        "Monitoring": {"State": "enabled" if part(parameters, "Monitoring").get("Enabled") else "disabled"},
        "Architecture": order.type.arch,
        "RootDeviceType": "ebs",
        "RootDeviceName": order.image.root_device,
        "VirtualizationType": "hvm",
        "Hypervisor": "xen",
        "EnaSupport": True,
        "EbsOptimized": parameters.get("EbsOptimized", False),
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
        "SubnetId": order.subnet["SubnetId"],
        "VpcId": order.subnet["VpcId"],
        "PrivateIpAddress": ip,
        "PrivateDnsName": region.private_name(ip),
        "PrivateDnsNameOptions": {"HostnameType": "ip-name", "EnableResourceNameDnsARecord": False},
        "SourceDestCheck": True,
        "SecurityGroups": [group_name(group) for group in primary.groups],
        "CpuOptions": {
            "CoreCount": max(1, order.type.vcpus // 2),
            "ThreadsPerCore": min(2, order.type.vcpus),
        },
        "MetadataOptions": {
            "State": "applied",
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "HttpPutResponseHopLimit": 1,
            "HttpTokens": "optional",
            "InstanceMetadataTags": "disabled",
            **part(parameters, "MetadataOptions"),
        },
        "EnclaveOptions": {"Enabled": False},
        "HibernationOptions": {"Configured": False},
        "MaintenanceOptions": {"AutoRecovery": "default"},
        "CapacityReservationSpecification": parameters.get("CapacityReservationSpecification")
        or {"CapacityReservationPreference": "open"},
        "Tags": [*tags_for(parameters, "instance"), *template_tags(parameters)],
    }


def _unseen(region: Region, order: Order, reservation_id: str) -> Document:
    """What the emulator knows of an instance, and no answer shows."""
    pace, key_name = region.world.dials.pace, order.parameters.get("KeyName")
    return {
        "_order": len(region.all("instance")),
        "_reservation": reservation_id,
        "_purchase": order.purchase,
        "_shutdown_behavior": order.parameters.get("InstanceInitiatedShutdownBehavior", "stop"),
        "_protected": order.parameters.get("DisableApiTermination", False),
        "_stop_protected": order.parameters.get("DisableApiStop", False),
        "_user_data": order.user_data,
        "_public_key": key_name and moto_backend.public_key(region.name, key_name),
        "_driver": order.image.driver,
        "_public": order.public,
        "_running_at": region.later(pace.transition_s),
        "_fails": False,
        "_visible_at": region.later(pace.lag_s),
        "_hidden_reads": pace.lag_calls,
    }


def _make_interfaces(region: Region, order: Order, instance: Document) -> list[str]:
    tags = tags_for(order.parameters, "network-interface")
    ids: list[str] = []
    for wanted in order.interfaces:
        first = wanted is order.interfaces[0]
        address = instance["PrivateIpAddress"] if first else wanted.address or _free(region, order)
        interface = wanted.existing or make_interface(region, wanted, order.subnet, address, tags)
        attach_interface(region, interface, instance, wanted.place, ends=wanted.ends)
        ids.append(interface["NetworkInterfaceId"])
    return ids


def _free(region: Region, order: Order) -> str:
    """An address of the subnet that nobody has, and that the order does not name."""
    return free_address(region, order.subnet, [each.address for each in order.interfaces if each.address])

"""Instances after their launch: what they look like, how they end, what ends with them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from gpucloud_sandbox.addresses import NoAddressError
from gpucloud_sandbox.aws import billing, boxes
from gpucloud_sandbox.aws.disks import detached
from gpucloud_sandbox.aws.held import unused
from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import ACCOUNT, CLOUD, Region
from gpucloud_sandbox.aws.spot import close_request, mark_request
from gpucloud_sandbox.aws.wire import AwsError, HiddenError
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document

PENDING = {"Code": 0, "Name": "pending"}
RUNNING = {"Code": 16, "Name": "running"}
SHUTTING_DOWN = {"Code": 32, "Name": "shutting-down"}
TERMINATED = {"Code": 48, "Name": "terminated"}
STOPPING = {"Code": 64, "Name": "stopping"}
STOPPED = {"Code": 80, "Name": "stopped"}

BY_USER = "Client.UserInitiatedShutdown"
BY_GUEST = "Client.InstanceInitiatedShutdown"
BY_SPOT = "Server.SpotInstanceTermination"
BY_KEY = "Client.InternalError"
"""What EC2 says when a disk's key cannot be used."""

_REASONS = {
    BY_USER: "User initiated shutdown",
    BY_GUEST: "Instance initiated shutdown",
    BY_SPOT: "Spot instance termination",
    BY_KEY: "Client error on launch",
}

REMEMBERED_S = 3600.0
"""For about so long a terminated instance is still shown (EC2 user guide, "Terminate instances")."""

_FILTERS: dict[str, Field] = {
    "architecture": "Architecture",
    "availability-zone": "Placement.AvailabilityZone",
    "availability-zone-id": "Placement.AvailabilityZoneId",
    "block-device-mapping.volume-id": "BlockDeviceMappings.Ebs.VolumeId",
    "capacity-reservation-id": "CapacityReservationId",
    "client-token": "ClientToken",
    "dns-name": "PublicDnsName",
    "image-id": "ImageId",
    "instance-id": "InstanceId",
    "instance-lifecycle": "InstanceLifecycle",
    "instance-state-code": "State.Code",
    "instance-state-name": "State.Name",
    "instance-type": "InstanceType",
    "instance.group-id": "SecurityGroups.GroupId",
    "instance.group-name": "SecurityGroups.GroupName",
    "ip-address": "PublicIpAddress",
    "key-name": "KeyName",
    "launch-time": "LaunchTime",
    "metadata-options.http-tokens": "MetadataOptions.HttpTokens",
    "network-interface.network-interface-id": "NetworkInterfaces.NetworkInterfaceId",
    "owner-id": "NetworkInterfaces.OwnerId",
    "placement-group-name": "Placement.GroupName",
    "placement-partition-number": "Placement.PartitionNumber",
    "private-ip-address": "PrivateIpAddress",
    "reservation-id": "_reservation",
    "spot-instance-request-id": "SpotInstanceRequestId",
    "state-reason-code": "StateReason.Code",
    "subnet-id": "SubnetId",
    "vpc-id": "VpcId",
}


def alive(instance: Document) -> bool:
    """Whether it is billed: pending or running."""
    return instance["State"]["Name"] in {"pending", "running"}


def is_gone(instance: Document) -> bool:
    """Whether it ends or has ended."""
    return instance["State"]["Name"] in {"shutting-down", "terminated"}


def in_use(region: Region, zone: str, instance_type: str, purchase: str) -> int:
    """How many instances of a type a zone has given out, or holds for reservations."""
    held: int = sum(
        each["AvailableInstanceCount"]
        for each in unused(region)
        if (each["InstanceType"], each["AvailabilityZone"], "on_demand") == (instance_type, zone, purchase)
    )
    given: int = sum(
        alive(each)
        and each["InstanceType"] == instance_type
        and each["Placement"]["AvailabilityZone"] == zone
        and each["_purchase"] == purchase
        for each in region.all("instance").values()
    )
    return held + given


def show(region: Region, instance: Document) -> Document:
    """An instance as a caller sees it: its public address from running on, its network until it is gone."""
    state = instance["State"]["Name"]
    if state == "terminated":
        hidden = {"PrivateIpAddress", "SubnetId", "VpcId", "BlockDeviceMappings", "SecurityGroups"}
        shown = {key: value for key, value in instance.items() if key not in hidden}
        return {
            **shown,
            "PrivateDnsName": "",
            "PublicDnsName": "",
            "NetworkInterfaces": [],
            "SecurityGroups": [],
        }
    address = instance.get("_public_ip") if state != "pending" else None
    association = _association(region, instance, address)
    interfaces = [
        {**each, **(association if number == 0 else {})}
        for number, id_ in enumerate(instance["_interfaces"])
        if (each := region.all("interface").get(id_))
    ]
    shown = {**instance, "PublicDnsName": "", "NetworkInterfaces": interfaces}
    if address:
        name = association["Association"]["PublicDnsName"]
        shown |= {"PublicIpAddress": address, "PublicDnsName": name}
    return shown


def find_instances(region: Region, ids: Iterable[str]) -> list[Document]:
    """Instances by id.

    Raises:
        AwsError: one is not there. Nothing is done to the others then.
    """
    known, asked = region.all("instance"), list(dict.fromkeys(ids))
    for id_ in asked:
        if not id_.startswith("i-"):
            raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{id_}"')
    missing = [id_ for id_ in asked if id_ not in known]
    if missing:
        raise _unknown(missing)
    return [known[id_] for id_ in asked]


def describe_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInstances."""
    found = _described(region, parameters)
    reservations: dict[str, Document] = {}
    shown, token = page(found, parameters)
    for instance in shown:
        reservation = reservations.setdefault(
            instance["_reservation"],
            {"ReservationId": instance["_reservation"], "OwnerId": ACCOUNT, "Groups": [], "Instances": []},
        )
        reservation["Instances"].append(instance)
    return {"Reservations": list(reservations.values()), "NextToken": token}


def describe_instance_status(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInstanceStatus."""
    everything = parameters.get("IncludeAllInstances", False)
    found = [each for each in _described(region, parameters) if everything or each["State"] == RUNNING]
    check = {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
    statuses = [
        {
            "InstanceId": each["InstanceId"],
            "AvailabilityZone": each["Placement"]["AvailabilityZone"],
            "InstanceState": each["State"],
            "InstanceStatus": check if each["State"] == RUNNING else {"Status": "not-applicable"},
            "SystemStatus": check if each["State"] == RUNNING else {"Status": "not-applicable"},
        }
        for each in found
    ]
    shown, token = page(statuses, parameters)
    return {"InstanceStatuses": shown, "NextToken": token}


def get_console_output(region: Region, parameters: Mapping[str, Any]) -> Document:
    """GetConsoleOutput."""
    (instance,) = find_instances(region, [parameters["InstanceId"]])
    text = region.world.boxes.console(instance["InstanceId"])
    return {
        "InstanceId": instance["InstanceId"],
        "Timestamp": instance.get("_ended_at") or region.stamp,
        "Output": base64.b64encode(text.encode()).decode(),
    }


def terminate_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """TerminateInstances: all of them, or none if one is not there."""
    found = find_instances(region, parameters["InstanceIds"])
    protected = [each["InstanceId"] for each in found if each["_protected"] and not is_gone(each)]
    if protected:
        raise AwsError(
            "OperationNotPermitted",
            f"The instance '{protected[0]}' may not be terminated. Modify its 'disableApiTermination' "
            "instance attribute and try again.",
        )
    if parameters.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
    changes: list[Document] = []
    for instance in found:
        before = instance["State"]
        end(region, instance, BY_USER, region.now)
        changes.append(
            {"InstanceId": instance["InstanceId"], "PreviousState": before, "CurrentState": instance["State"]}
        )
    return {"TerminatingInstances": changes}


def wrong_state(instance: Document, change: str) -> AwsError:
    """The refusal of a change (``stopped``, ``started``, ...) that an instance's state does not allow."""
    text = f"The instance '{instance['InstanceId']}' is not in a state from which it can be {change}."
    return AwsError("IncorrectInstanceState", text)


def check_root(instance: Document) -> None:
    """Refuses what needs the root disk of an instance that it was detached from.

    Raises:
        AwsError: the instance has none.
    """
    root = instance["RootDeviceName"]
    if not any(each["DeviceName"] == root for each in instance["BlockDeviceMappings"]):
        text = (
            f"Invalid value '{instance['InstanceId']}' for instanceId. Instance does not have a volume "
            f"attached at root ({root})"
        )
        raise AwsError("InvalidParameterValue", text)


def power_off(region: Region, instance: Document) -> None:
    """The guest switched itself off: what follows is the instance's shutdown behaviour.

    One whose stop was requested meanwhile only stops.
    """
    if not alive(instance):
        return
    behave = end if instance["_shutdown_behavior"] == "terminate" or _is_spot(instance) else stop
    behave(region, instance, BY_GUEST, region.now)


def _is_spot(instance: Document) -> bool:
    return "SpotInstanceRequestId" in instance


def interrupt(region: Region, instance: Document, at: datetime) -> None:
    """The cloud wants a spot instance back."""
    instance["_interrupted_at"] = stamp(at)
    region.put("instance", instance)
    mark_request(region, instance)
    region.world.boxes.notice_interruption(instance["InstanceId"], at)


def bill_instance(region: Region, instance: Document, price: Decimal, token: str | None) -> None:
    """Bills an instance, and its public address where it has one of its own, from now on."""
    zone = instance["Placement"]["AvailabilityZone"]
    billing.begin(region, "instance", instance["InstanceId"], price, billed=instance, zone=zone, token=token)
    address = instance.get("_public_ip")
    if address and "_elastic" not in instance:
        price = region.world.market.address_price(CLOUD, region.name).amount
        billing.begin(region, "address", address, price, billed=instance, zone=zone, token=token)


def take_address(region: Region, instance: Document) -> None:
    """Takes a public address for an instance.

    Raises:
        AwsError: all are in use.
    """
    world = region.world
    try:
        taken = world.addresses.take(instance["InstanceId"], but=world.dials.caller_address)
    except NoAddressError:
        text = "Not enough available addresses to satisfy the requested operation."
        raise AwsError("InsufficientAddressCapacity", text) from None
    instance["_public_ip"] = taken


def free_public_address(region: Region, instance: Document, reason: str) -> None:
    """Takes an instance's own public address back; an elastic one stays."""
    address = None if "_elastic" in instance else instance.pop("_public_ip", None)
    if address:
        region.world.addresses.free(address)
        billing.end(region, address, reason)


def end(region: Region, instance: Document, reason: str, at: datetime) -> None:
    """Begins to end an instance: it is no longer billed from here on. Ending it again does nothing."""
    if is_gone(instance):
        return
    instance["State"] = SHUTTING_DOWN
    _explain(instance, reason, at)
    instance["_gone_at"] = region.later(region.world.dials.pace.transition_s)
    region.put("instance", instance)
    region.world.ledger.end_billing(CLOUD, instance["InstanceId"], at, reason)
    close_request(region, instance, reason)
    boxes.end(region, instance)


def stop(region: Region, instance: Document, reason: str, at: datetime) -> None:
    """Begins to stop an instance: from here on only its disks are billed. Does nothing to a dead one."""
    if not alive(instance):
        return
    instance["State"] = STOPPING
    _explain(instance, reason, at)
    instance["_stopped_at"] = region.later(region.world.dials.pace.transition_s)
    free_public_address(region, instance, "freed as its instance stopped")
    region.put("instance", instance)
    region.world.ledger.end_billing(CLOUD, instance["InstanceId"], at, reason)
    boxes.stop(region, instance)


def settle(region: Region) -> None:
    """Advances instances to the present: pending to running, ending to gone; forgets the long gone."""
    now = region.stamp
    for instance in list(region.all("instance").values()):
        interrupted = instance.get("_interrupted_at")
        if interrupted and interrupted <= now and alive(instance):
            end(region, instance, BY_SPOT, region.now)
        match instance["State"]["Name"]:
            case "pending" if instance["_running_at"] <= now and instance.get("_fails"):
                end(region, instance, BY_KEY, region.now)
            case "pending" if instance["_running_at"] <= now:
                instance["State"] = RUNNING
                del instance["StateReason"]
                region.put("instance", instance)
            case "stopping" if instance["_stopped_at"] <= now:
                instance["State"] = STOPPED
                region.put("instance", instance)
            case "shutting-down" if instance["_gone_at"] <= now:
                _finish(region, instance)
            case "terminated" if instance["_forgotten_at"] <= now:
                region.drop("instance", instance["InstanceId"])
            case _:
                pass


def _explain(instance: Document, reason: str, at: datetime) -> None:
    instance["_ended_at"] = stamp(at)
    instance["StateReason"] = {"Code": reason, "Message": f"{reason}: {_REASONS[reason]}"}
    by_user = reason == BY_USER
    instance["StateTransitionReason"] = f"User initiated ({at:%Y-%m-%d %H:%M:%S} GMT)" if by_user else reason


def _finish(region: Region, instance: Document) -> None:
    """What dies with an instance dies; a disk that is to stay becomes available, and is billed on."""
    ledger = region.world.ledger
    for mapping in instance["BlockDeviceMappings"]:
        volume = region.all("volume").get(mapping["Ebs"]["VolumeId"])
        if volume is None:
            continue
        if mapping["Ebs"]["DeleteOnTermination"]:
            region.drop("volume", volume["VolumeId"])
            region.world.boxes.wipe(volume["VolumeId"])
            ledger.end_billing(CLOUD, volume["VolumeId"], region.now, "deleted with its instance")
        else:
            detached(region, volume)
    for id_ in instance["_interfaces"]:
        interface = region.all("interface").get(id_)
        if interface is None:
            continue
        if interface["Attachment"]["DeleteOnTermination"]:
            region.drop("interface", id_)
        else:
            region.put("interface", {**interface, "Status": "available", "Attachment": None})
    free_public_address(region, instance, "freed with its instance")
    instance["State"] = TERMINATED
    instance["_forgotten_at"] = region.later(REMEMBERED_S)
    region.put("instance", instance)


def _described(region: Region, parameters: Mapping[str, Any]) -> list[Document]:
    ids = parameters.get("InstanceIds")
    if ids is not None and parameters.get("MaxResults") is not None:
        text = "The parameter instancesSet cannot be used with the parameter maxResults"
        raise AwsError("InvalidParameterCombination", text)
    found = list(region.all("instance").values()) if ids is None else find_instances(region, ids)
    hidden = {each["InstanceId"] for each in found if _hides(region, each)}
    if ids is not None and hidden:
        unknown = _unknown(sorted(hidden))
        raise HiddenError(unknown.code, unknown.message)
    visible = [show(region, each) for each in found if each["InstanceId"] not in hidden]
    return select(visible, parameters.get("Filters"), _FILTERS)


def _hides(region: Region, instance: Document) -> bool:
    """Whether a read does not see an instance yet (eventual consistency). Each read counts."""
    if instance["_hidden_reads"] > 0:
        instance["_hidden_reads"] -= 1
        region.put("instance", instance)
        return True
    return bool(instance["_visible_at"] > region.stamp)


def _unknown(ids: list[str]) -> AwsError:
    if len(ids) == 1:
        return AwsError("InvalidInstanceID.NotFound", f"The instance ID '{ids[0]}' does not exist")
    return AwsError("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(ids)}' do not exist")


def _association(region: Region, instance: Document, address: str | None) -> Document:
    """The public address of an interface; with a name where the VPC has ``enableDnsHostnames``."""
    if address is None:
        return {}
    named = region.all("vpc")[instance["VpcId"]]["_dns_hostnames"]
    name = f"ec2-{address.replace('.', '-')}.compute-1.amazonaws.com" if named else ""
    owner = ACCOUNT if "_elastic" in instance else "amazon"
    return {"Association": {"PublicIp": address, "PublicDnsName": name, "IpOwnerId": owner}}

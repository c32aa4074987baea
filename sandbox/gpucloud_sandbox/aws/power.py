"""Stopping, starting and rebooting instances, and what each changes in the bill.

A stopped instance is billed for its disks alone, its own public address goes, and starting finds the stock of
that moment in the zone of its disks (EC2 User Guide, "Stop and start Amazon EC2 instances").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.aws import boxes, instances
from gpucloud_sandbox.aws.instances import find_instances, is_gone, wrong_state
from gpucloud_sandbox.aws.order import available, current_price
from gpucloud_sandbox.aws.quotas import check_quota
from gpucloud_sandbox.aws.region import Region
from gpucloud_sandbox.aws.spot import is_persistent
from gpucloud_sandbox.aws.wire import AwsError, not_emulated
from gpucloud_sandbox.database import Document


def stop_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """StopInstances: all of them, or none if one cannot be stopped."""
    found = find_instances(region, parameters["InstanceIds"])
    for instance in found:
        id_ = instance["InstanceId"]
        if is_gone(instance) or instance["State"]["Name"] == "pending":
            raise wrong_state(instance, "stopped")
        if is_persistent(region, instance):
            raise not_emulated("StopInstances of a persistent Spot Instance")
        if "SpotInstanceRequestId" in instance:
            raise AwsError(
                "UnsupportedOperation",
                f"You can't stop the Spot Instance '{id_}' because it is associated with a one-time Spot "
                "Instance request. You can only stop Spot Instances associated with persistent Spot Instance "
                "requests.",
            )
        if instance["_stop_protected"]:
            text = (
                f"The instance '{id_}' may not be stopped. Modify its 'disableApiStop' instance attribute "
                "and try again."
            )
            raise AwsError("OperationNotPermitted", text)
    changes: list[Document] = []
    for instance in found:
        before = instance["State"]
        instances.stop(region, instance, instances.BY_USER, region.now)
        changes.append(_change(instance, before))
    return {"StoppingInstances": changes}


def start_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """StartInstances, at today's price, as far as the zone has stock."""
    found = find_instances(region, parameters["InstanceIds"])
    for instance in found:
        if instance["State"]["Name"] not in {"stopped", "running", "pending"}:
            raise wrong_state(instance, "started")
    changes: list[Document] = []
    for instance in found:
        before = instance["State"]
        if before == instances.STOPPED:
            _start(region, instance)
        changes.append(_change(instance, before))
    return {"StartingInstances": changes}


def reboot_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RebootInstances: their insides boot anew, and nothing else changes."""
    found = find_instances(region, parameters["InstanceIds"])
    for instance in found:
        if instance["State"] != instances.RUNNING:
            raise wrong_state(instance, "rebooted")
    for instance in found:
        boxes.restart(region, instance)
    return {}


def monitor_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """MonitorInstances."""
    return _monitored(region, parameters, "enabled")


def unmonitor_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """UnmonitorInstances."""
    return _monitored(region, parameters, "disabled")


def _monitored(region: Region, parameters: Mapping[str, Any], state: str) -> Document:
    found = find_instances(region, parameters["InstanceIds"])
    for instance in found:
        region.put("instance", {**instance, "Monitoring": {"State": state}})
    return {
        "InstanceMonitorings": [
            {"InstanceId": each["InstanceId"], "Monitoring": {"State": state}} for each in found
        ]
    }


def _start(region: Region, instance: Document) -> None:
    name, zone = instance["InstanceType"], instance["Placement"]["AvailabilityZone"]
    type_ = region.type_of(name)
    if type_ is None:  # the catalog changed since it was launched
        raise AwsError("Unsupported", f"The instance type {name} is not sold in {region.name}.")
    instances.check_root(instance)
    price = current_price(region, name, zone, "on_demand", None)
    check_quota(region, type_, "on_demand", 1)
    available(region, name, zone, "on_demand", least=1, most=1)
    instance["State"] = instances.PENDING
    instance["StateReason"] = {"Code": "pending", "Message": "pending"}
    instance["StateTransitionReason"] = ""
    instance["_ended_at"] = None
    instance["LaunchTime"] = region.stamp
    instance["_running_at"] = region.later(region.world.dials.pace.transition_s)
    if instance["_public"] and "_elastic" not in instance:
        instances.take_address(region, instance)
    region.put("instance", instance)
    instances.bill_instance(region, instance, price, None)
    boxes.restart(region, instance)


def _change(instance: Document, before: Document) -> Document:
    return {"InstanceId": instance["InstanceId"], "PreviousState": before, "CurrentState": instance["State"]}

"""Instances after their launch: how they look, stop, end, and what ends with them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from gpucloud.sandbox.clock import stamp
from gpucloud.sandbox.database import Document
from gpucloud.sandbox.ledger import Entry
from gpucloud_alibaba.sandbox import boxes
from gpucloud_alibaba.sandbox.order import is_dry, release_at
from gpucloud_alibaba.sandbox.region import CLOUD, Region, has_tags, page, shown, tags_of
from gpucloud_alibaba.sandbox.stock import alive
from gpucloud_alibaba.sandbox.wire import AlibabaError, json_list, true

VANISHED = "SystemFailure.Delete"
INTERRUPTED = "InstanceExpiration.Delete"
BY_USER = "deleted by its user"
BY_TIME = "released at its time"
BY_SPOT = "taken back"

_SAME = (
    "InstanceName",
    "InstanceType",
    "InstanceTypeFamily",
    "ImageId",
    "Status",
    "ZoneId",
    "InstanceChargeType",
    "KeyPairName",
)
"""Parameters of a search that are members of an instance."""


# --- looking


def describe_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInstances."""
    if is_dry(parameters):
        raise AlibabaError("DryRunOperation", "Request validation has been passed with DryRun flag set.")
    ids = json_list(parameters.get("InstanceIds"), "InstanceIds")
    if ids is not None and len(ids) > 100:
        raise AlibabaError("InvalidParameter", "At most 100 InstanceIds are taken.")
    found = [
        each
        for each in region.all("instance").values()
        if alive(each)
        and (ids is None or each["InstanceId"] in ids)
        and all(parameters.get(name) in {None, "", each[name]} for name in _SAME)
        and parameters.get("VpcId") in {None, each["VpcAttributes"]["VpcId"]}
        and parameters.get("VSwitchId") in {None, each["VpcAttributes"]["VSwitchId"]}
        and parameters.get("ClientToken") in {None, each["_token"]}
        and (
            not (group := parameters.get("SecurityGroupId"))
            or group in each["SecurityGroupIds"]["SecurityGroupId"]
        )
        and has_tags(each, parameters)
        and not _hides(region, each)
    ]
    items, about = page(found, parameters)
    return {"Instances": {"Instance": [show(region, each) for each in items]}, **about}


def describe_instance_status(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInstanceStatus."""
    ids = parameters.get("InstanceId")
    found = [
        {"InstanceId": each["InstanceId"], "Status": each["Status"]}
        for each in region.all("instance").values()
        if alive(each) and (ids is None or each["InstanceId"] in ids)
    ]
    items, about = page(found, {"PageNumber": "1", **parameters})
    return {"InstanceStatuses": {"InstanceStatus": items}, **about}


def describe_instance_attribute(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInstanceAttribute."""
    return show(region, find_instance(region, parameters["InstanceId"]))


def get_console_output(region: Region, parameters: Mapping[str, Any]) -> Document:
    """GetInstanceConsoleOutput."""
    instance = find_instance(region, parameters["InstanceId"])
    text = region.world.boxes.console(instance["InstanceId"])
    return {
        "InstanceId": instance["InstanceId"],
        "ConsoleOutput": base64.b64encode(text.encode()).decode(),
        "LastUpdateTime": region.second,
    }


def describe_history(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInstanceHistoryEvents: without a wish for others, only those that are over."""
    types = parameters.get("InstanceEventType")
    cycles = parameters.get("InstanceEventCycleStatus") or ["Executed", "Canceled", "Avoided", "Failed"]
    found = [
        shown(each)
        for each in region.all("event").values()
        if parameters.get("InstanceId") in {None, each["InstanceId"]}
        and (types is None or each["EventType"]["Name"] in types)
        and each["EventCycleStatus"]["Name"] in cycles
    ]
    items, about = page(found, {"MaxResults": 100, **parameters})
    return {"InstanceSystemEventSet": {"InstanceSystemEventType": items}, **about}


def find_instance(region: Region, id_: str) -> Document:
    """An instance that exists, by id.

    Raises:
        AlibabaError: there is none.
    """
    instance = region.all("instance").get(id_)
    if instance is None or not alive(instance):
        raise AlibabaError("InvalidInstanceId.NotFound", "The specified InstanceId does not exist.", 404)
    return instance


def show(region: Region, instance: Document) -> Document:
    """An instance as a caller sees it: its public address from running on."""
    address = instance.get("_public_ip") if instance["Status"] != "Pending" else None
    nics = [
        {
            "NetworkInterfaceId": each["NetworkInterfaceId"],
            "PrimaryIpAddress": each["PrivateIpAddress"],
            "MacAddress": each["MacAddress"],
            "Type": "Primary",
            "PrivateIpSets": {
                "PrivateIpSet": [{"PrivateIpAddress": each["PrivateIpAddress"], "Primary": True}]
            },
        }
        for each in region.all("nic").values()
        if each["InstanceId"] == instance["InstanceId"]
    ]
    return {
        **shown(instance),
        "PublicIpAddress": {"IpAddress": [address] if address else []},
        "NetworkInterfaces": {"NetworkInterface": nics},
    }


def _hides(region: Region, instance: Document) -> bool:
    """Whether a read does not see an instance yet. Each read counts."""
    if instance["_hidden_reads"] > 0:
        instance["_hidden_reads"] -= 1
        region.put("instance", instance)
        return True
    return bool(instance["_visible_at"] > region.stamp)


# --- changing


def delete_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteInstances, and DeleteInstance: all of them, or none if one cannot be."""
    ids = _ids(parameters)
    if len(ids) > 100:
        raise AlibabaError("InvalidParameter", "At most 100 instances are deleted at a time.")
    found = [find_instance(region, id_) for id_ in ids]
    for instance in found:
        if instance["DeletionProtection"]:
            text = "The instance is protected against deletion."
            raise AlibabaError("OperationDenied.DeletionProtection", text, 403)
        if instance["Status"] == "Pending":
            text = "The instance is being initialised."
            raise AlibabaError("IncorrectInstanceStatus.Initializing", text, 403)
        if instance["Status"] != "Stopped" and not true(parameters.get("Force")):
            text = "The current status of the resource does not support this operation."
            raise AlibabaError("IncorrectInstanceStatus", text, 403)
    if is_dry(parameters):
        raise AlibabaError("DRYRUN.SUCCESS", "The request is validated.")
    for instance in found:
        end(region, instance, BY_USER, region.now)
    return {}


def stop_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """StopInstances, and StopInstance. Only ``StopCharging`` ends what the instance itself costs."""
    for instance in _named(region, parameters):
        if instance["Status"] != "Running":
            raise AlibabaError("IncorrectInstanceStatus", "The instance is not running.", 403)
        mode = parameters.get("StoppedMode", "KeepCharging")
        _stop(region, instance, mode)
        boxes.end(region, instance)
    return {"InstanceResponses": {"InstanceResponse": []}}


def start_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """StartInstances, and StartInstance."""
    for instance in _named(region, parameters):
        if instance["Status"] != "Stopped":
            raise AlibabaError("IncorrectInstanceStatus", "The instance is not stopped.", 403)
        if instance["StoppedMode"] == "StopCharging":
            _bill_again(region, instance)
        region.put("instance", {**instance, "Status": "Running", "StoppedMode": "Not-applicable"})
        boxes.boot(region, instance)
    return {"InstanceResponses": {"InstanceResponse": []}}


def set_release_time(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ModifyInstanceAutoReleaseTime: without a time, no release."""
    instance = find_instance(region, parameters["InstanceId"])
    moment = release_at(region, parameters.get("AutoReleaseTime"))
    region.put("instance", {**instance, "AutoReleaseTime": moment or ""})
    return {}


def _named(region: Region, parameters: Mapping[str, Any]) -> list[Document]:
    return [find_instance(region, id_) for id_ in _ids(parameters)]


def _ids(parameters: Mapping[str, Any]) -> list[str]:
    """One id or several."""
    asked: Any = parameters["InstanceId"]
    return [asked] if isinstance(asked, str) else list(asked)


def _stop(region: Region, instance: Document, mode: str) -> None:
    region.put("instance", {**instance, "Status": "Stopped", "StoppedMode": mode})
    if mode == "StopCharging":
        region.world.ledger.died(CLOUD, instance["InstanceId"], region.now, "stopped charging")


def _bill_again(region: Region, instance: Document) -> None:
    tags = tags_of(instance)
    entry = Entry(
        kind="instance",
        id=instance["InstanceId"],
        cloud=CLOUD,
        region=region.name,
        zone=instance["ZoneId"],
        price=Decimal(instance["_billed"]),
        currency=instance["_currency"],
        box=tags.get("gpucloud:box"),
        owner=tags.get("gpucloud:owner"),
        op=tags.get("gpucloud:op"),
        token=instance["_token"],
        tags=tags,
    )
    region.world.ledger.born(entry, region.now)


def power_off(region: Region, instance: Document) -> None:
    """The guest switched itself off: the instance is stopped, and billed on."""
    if alive(instance) and instance["Status"] in {"Running", "Pending"}:
        _stop(region, instance, "KeepCharging")


def interrupt(region: Region, instance: Document, at: datetime) -> None:
    """The cloud wants a spot instance back."""
    locks = {"LockReason": [{"LockReason": "Recycling", "LockMsg": ""}]}
    region.put("instance", {**instance, "OperationLocks": locks, "_interrupted_at": stamp(at)})
    region.world.boxes.notice_interruption(instance["InstanceId"], at)


def end(region: Region, instance: Document, reason: str, at: datetime) -> None:
    """Releases an instance with all that goes with it; it is shown no more. Twice does nothing."""
    if not alive(instance):
        return
    id_, ledger = instance["InstanceId"], region.world.ledger
    region.put("instance", {**instance, "_gone_at": stamp(at)})
    ledger.died(CLOUD, id_, at, reason)
    for disk in [each for each in region.all("disk").values() if each["InstanceId"] == id_]:
        region.drop("disk", disk["DiskId"])
        ledger.died(CLOUD, disk["DiskId"], at, "released with its instance")
    for nic in [each for each in region.all("nic").values() if each["InstanceId"] == id_]:
        region.drop("nic", nic["NetworkInterfaceId"])
    address = instance.get("_public_ip")
    if address:
        region.world.addresses.free(address)
        ledger.died(CLOUD, address, at, "freed with its instance")
    boxes.end(region, instance)


def _note(region: Region, instance: Document, name: str) -> None:
    region.put(
        "event",
        {
            "EventId": region.new_id("event"),
            "InstanceId": instance["InstanceId"],
            "EventType": {"Name": name, "Code": 0},
            "EventCycleStatus": {"Name": "Executed", "Code": 0},
            "EventPublishTime": region.second,
            "EventFinishTime": region.second,
            "NotBefore": region.second,
            "Reason": "",
            "ImpactLevel": "100",
        },
    )


def settle(region: Region) -> None:
    """Applies due transitions: start, spot interruption, release time, removal of ids."""
    now, minute = region.stamp, region.minute
    for instance in list(region.all("instance").values()):
        if not alive(instance):
            continue
        interrupted, vanishes = instance["_interrupted_at"], instance["_vanishes_at"]
        if vanishes and vanishes <= now:
            _note(region, instance, VANISHED)
            end(region, instance, "there was no stock after all", region.now)
        elif interrupted and interrupted <= now:
            _note(region, instance, INTERRUPTED)
            end(region, instance, BY_SPOT, region.now)
        elif instance["AutoReleaseTime"] and instance["AutoReleaseTime"] <= minute:
            end(region, instance, BY_TIME, region.now)
        elif instance["Status"] == "Pending" and not vanishes and instance["_running_at"] <= now:
            region.put("instance", {**instance, "Status": "Running", "StartTime": minute})


Action = Callable[[Region, Mapping[str, Any]], Document]
"""What a call does."""

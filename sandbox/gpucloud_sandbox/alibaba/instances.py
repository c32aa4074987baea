"""Instances after their launch: how they look, stop, end, and what ends with them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from gpucloud_sandbox.alibaba import boxes, interfaces
from gpucloud_sandbox.alibaba.disks import let_go
from gpucloud_sandbox.alibaba.order import is_dry
from gpucloud_sandbox.alibaba.region import CLOUD, Region, has_tags, page, shown
from gpucloud_sandbox.alibaba.stock import alive
from gpucloud_sandbox.alibaba.tokens import once
from gpucloud_sandbox.alibaba.wire import AlibabaError, json_list, true
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document

VANISHED = "SystemFailure.Delete"
INTERRUPTED = "InstanceExpiration.Delete"  # UNVERIFIED: for a spot instance
BY_USER = "deleted by its user"
BY_TIME = "released at its time"
BY_SPOT = "taken back"

_SAME = (
    "InstanceType",
    "InstanceTypeFamily",
    "ImageId",
    "Status",
    "ZoneId",
    "InstanceChargeType",
    "KeyPairName",
)
"""Parameters of a search that are members of an instance."""

_ADDRESSES = ("PrivateIpAddresses", "PublicIpAddresses")


# --- looking


def describe_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInstances."""
    if is_dry(parameters):
        raise AlibabaError("DryRunOperation", "Request validation has been passed with DryRun flag set.")
    ids = json_list(parameters.get("InstanceIds"), "InstanceIds")
    private, public = (json_list(parameters.get(name), name) for name in _ADDRESSES)
    if ids is not None and len(ids) > 100:
        raise AlibabaError("InvalidParameter", "At most 100 InstanceIds are taken.")
    found = [
        each
        for each in region.all("instance").values()
        if alive(each)
        and (ids is None or each["InstanceId"] in ids)
        and all(parameters.get(name) in {None, "", each[name]} for name in _SAME)
        and fnmatchcase(each["InstanceName"], parameters.get("InstanceName") or "*")
        and (private is None or each["_private_ip"] in private)
        and (public is None or each.get("_public_ip") in public)
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
        if alive(each)
        and (ids is None or each["InstanceId"] in ids)
        and parameters.get("ZoneId") in {None, each["ZoneId"]}
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
            "Type": each["Type"],
            "PrivateIpSets": each["PrivateIpSets"],
        }
        for each in interfaces.interfaces_of(region, instance["InstanceId"])
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
    return once(region, "DeleteInstances", parameters, lambda: _delete(region, parameters))


def _delete(region: Region, parameters: Mapping[str, Any]) -> Document:
    ids = ids_of(parameters)
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
    end_dry_run(parameters)
    for instance in found:
        end(region, instance, BY_USER, region.now)
    return {}


def ids_of(parameters: Mapping[str, Any]) -> list[str]:
    """The instances of a call: one id or several."""
    asked: Any = parameters["InstanceId"]
    return [asked] if isinstance(asked, str) else list(asked)


def end_dry_run(parameters: Mapping[str, Any]) -> None:
    """A dry run that would have worked ends here; calls for several instances have a code of their own."""
    if is_dry(parameters):
        code = "DryRunOperation" if isinstance(parameters["InstanceId"], str) else "DRYRUN.SUCCESS"
        raise AlibabaError(code, "Request validation has been passed with DryRun flag set.")


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
    ledger.end_billing(CLOUD, id_, at, reason)
    let_go(region, id_)
    interfaces.let_go(region, id_)
    address = instance.get("_public_ip")
    if address:
        region.world.addresses.free(address)
        ledger.end_billing(CLOUD, address, at, "freed with its instance")
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

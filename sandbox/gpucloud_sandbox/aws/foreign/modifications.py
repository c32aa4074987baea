"""Changing a volume while it is in use: its size, type and speed.

Source: EC2 API Reference, ModifyVolume and DescribeVolumesModifications. Since January 2026 a volume can be
modified four times in any 24 hours, each time after the one before has completed; before, every six hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from gpucloud_sandbox.aws import billing
from gpucloud_sandbox.aws.disks import bill_volume, configuration, find_volume, read_disk
from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document

_MOST, _WINDOW = 4, timedelta(hours=24)
_CHANGED = ("Size", "VolumeType", "Iops", "Throughput")

_FILTERS: dict[str, Field] = {
    "modification-state": "ModificationState",
    "original-iops": "OriginalIops",
    "original-size": "OriginalSize",
    "original-volume-type": "OriginalVolumeType",
    "start-time": "StartTime",
    "target-iops": "TargetIops",
    "target-size": "TargetSize",
    "target-volume-type": "TargetVolumeType",
    "volume-id": "VolumeId",
}


def modify_volume(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ModifyVolume: the new price applies from now on, and the new size from ``optimizing`` on."""
    volume = find_volume(region, parameters["VolumeId"])
    changes = {name: parameters[name] for name in _CHANGED if name in parameters}
    if not changes:
        text = "Invalid input: Must specify at least one of size, type, iops, throughput or multi-attach."
        raise AwsError("InvalidParameterValue", text)
    if parameters.get("Size", volume["Size"]) < volume["Size"]:
        raise AwsError("InvalidParameterValue", "New size cannot be smaller than existing size")
    if volume["State"] not in {"available", "in-use"}:
        text = f"Volume {volume['VolumeId']} must be in the available or in-use state to be modified."
        raise AwsError("IncorrectState", text)
    starts = _recent_starts(region, volume)
    target = configuration(read_disk(_wanted(volume, changes)))
    half, full = (region.later(times * region.world.dials.pace.transition_s) for times in (1, 2))
    modification = region.put(
        "modification",
        {
            "VolumeId": volume["VolumeId"],
            "ModificationState": "modifying",
            "Progress": 0,
            "StartTime": region.stamp,
            **{f"Original{name}": volume[name] for name in _CHANGED},
            **{f"Target{name}": target[name] for name in _CHANGED},
            "OriginalMultiAttachEnabled": False,
            "TargetMultiAttachEnabled": False,
            "_starts": [*starts, region.stamp],
            "_half_at": half,
            "_full_at": full,
        },
    )
    billing.end(region, volume["VolumeId"], "modified")
    bill_volume(region, {**volume, **target})
    return {"VolumeModification": modification}


def describe_volumes_modifications(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeVolumesModifications: the last one of each volume."""
    known = region.all("modification")
    ids = parameters.get("VolumeIds")
    for id_ in ids or ():
        find_volume(region, id_)
        if id_ not in known:
            text = f"Modification for volume '{id_}' does not exist."
            raise AwsError("InvalidVolumeModification.NotFound", text)
    found = select((known[id_] for id_ in ids or known), parameters.get("Filters"), _FILTERS)
    shown, token = page(found, parameters, ids="VolumeIds")
    return {"VolumesModifications": shown, "NextToken": token}


def settle(region: Region) -> None:
    """Advances modifications to ``optimizing`` and ``completed``; a volume's end is theirs."""
    now = region.stamp
    for modification in list(region.all("modification").values()):
        volume = region.all("volume").get(modification["VolumeId"])
        if volume is None:
            region.drop("modification", modification["VolumeId"])
            continue
        if modification["ModificationState"] == "modifying" and modification["_half_at"] <= now:
            target = {name: modification[f"Target{name}"] for name in _CHANGED}
            region.put("volume", {**volume, **target})
            modification |= {"ModificationState": "optimizing", "Progress": 50}
            region.put("modification", modification)
        if modification["ModificationState"] == "optimizing" and modification["_full_at"] <= now:
            modification |= {"ModificationState": "completed", "Progress": 100, "EndTime": region.stamp}
            region.put("modification", modification)


def _recent_starts(region: Region, volume: Document) -> list[str]:
    """When the modifications of the last day began.

    Raises:
        AwsError: the last one goes on, or there were too many.
    """
    last = region.all("modification").get(volume["VolumeId"])
    if last is None:
        return []
    state = last["ModificationState"]
    if state != "completed":
        text = f"Volume {volume['VolumeId']} cannot be modified in modification state {state.upper()}"
        raise AwsError("IncorrectModificationState", text)
    starts = [start for start in last["_starts"] if start > stamp(region.now - _WINDOW)]
    if len(starts) >= _MOST:
        again = stamp(datetime.fromisoformat(starts[0]) + _WINDOW)
        text = (
            f"You've reached the maximum modification rate per volume limit. Wait until {again} before you "
            "can issue the next modification request for this volume."
        )
        raise AwsError("VolumeModificationRateExceeded", text)
    return starts


def _wanted(volume: Document, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The volume as a mapping's ``Ebs``: its speed stays with its type, and is the default of another one."""
    same = changes.get("VolumeType", volume["VolumeType"]) == volume["VolumeType"]
    set_ = volume["VolumeType"] in {"gp3", "io1", "io2"}  # the speed of the others follows from their size
    kept = ("Iops", "Throughput") if same and set_ else ()
    wanted = {name: volume[name] for name in ("VolumeType", *kept) if volume[name] is not None}
    if not same and changes["VolumeType"] in {"io1", "io2"}:
        wanted["Iops"] = 3000
    wanted |= {name: value for name, value in changes.items() if name != "Size"}
    return {**wanted, "VolumeSize": changes.get("Size", volume["Size"])}

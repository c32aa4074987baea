"""One-shot rules of EventBridge Scheduler that terminate instances."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gpucloud_sandbox.aws import instances
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.wire import AwsError, part
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document

TERMINATE = "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances"
_NAME = re.compile(r"[0-9a-zA-Z._-]{1,64}")
_AT = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
_SHOWN = (
    *("Name", "Arn", "GroupName", "ScheduleExpression", "ScheduleExpressionTimezone", "State", "Target"),
    *("FlexibleTimeWindow", "ActionAfterCompletion", "CreationDate", "LastModificationDate"),
)


def create_schedule(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateSchedule: the same token again is the same rule."""
    name, token = parameters["Name"], parameters.get("ClientToken")
    known = region.all("schedule").get(name)
    if known is None:
        known = {**_rule(region, parameters), "CreationDate": region.stamp, "_token": token}
        region.put("schedule", known)
    elif token is None or known["_token"] != token:
        raise AwsError("ConflictException", f"Schedule {name} already exists.", 409)
    return {"ScheduleArn": known["Arn"]}


def get_schedule(region: Region, parameters: Mapping[str, Any]) -> Document:
    """GetSchedule."""
    found = _find(region, parameters["Name"])
    return {name: found[name] for name in _SHOWN}


def update_schedule(region: Region, parameters: Mapping[str, Any]) -> Document:
    """UpdateSchedule: everything anew."""
    found = _find(region, parameters["Name"])
    region.put("schedule", {**found, **_rule(region, parameters)})
    return {"ScheduleArn": found["Arn"]}


def delete_schedule(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteSchedule."""
    region.drop("schedule", _find(region, parameters["Name"])["Name"])
    return {}


def settle(region: Region) -> None:
    """Runs what is due."""
    for rule in list(region.all("schedule").values()):
        if rule["_at"] > region.stamp:
            continue
        for id_ in json.loads(rule["Target"]["Input"])["InstanceIds"]:
            instance = region.all("instance").get(id_)
            if instance is not None:
                instances.end(region, instance, instances.BY_USER, region.now)
        region.drop("schedule", rule["Name"])


def _find(region: Region, name: str) -> Document:
    found = region.all("schedule").get(name)
    if found is None:
        raise AwsError("ResourceNotFoundException", f"Schedule {name} does not exist.", 404)
    return dict(found)


def _rule(region: Region, parameters: Mapping[str, Any]) -> Document:
    """A rule of the only kind that is known here: once, to the second, terminating instances.

    Raises:
        AwsError: it is not valid, or of another kind.
    """
    name, at = parameters["Name"], _AT.fullmatch(parameters["ScheduleExpression"])
    target = part(parameters, "Target")
    if not _NAME.fullmatch(name):
        raise _invalid(f"Value '{name}' at 'name' failed to satisfy the pattern [0-9a-zA-Z-_.]+")
    if at is None or parameters.get("ScheduleExpressionTimezone", "UTC") != "UTC":
        raise _invalid(f"Invalid Schedule Expression {parameters['ScheduleExpression']}.")
    moment = datetime.fromisoformat(at[1]).replace(tzinfo=UTC)
    if moment <= region.now:
        raise _invalid("The schedule's time is in the past.")
    if part(parameters, "FlexibleTimeWindow").get("Mode") != "OFF" or target["Arn"] != TERMINATE:
        raise AwsError(
            "UnsupportedOperation", "The gpucloud sandbox knows rules that terminate instances only"
        )
    if not re.fullmatch(rf"arn:aws:iam::{ACCOUNT}:role/.+", target["RoleArn"]):
        raise _invalid(
            "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
        )
    try:
        ids: Any = json.loads(target.get("Input", ""))["InstanceIds"]
    except (ValueError, KeyError, TypeError):
        ids = None
    if not isinstance(ids, list) or not ids:
        raise _invalid("Invalid RequestJson provided for target.")
    return {
        "Name": name,
        "Arn": f"arn:aws:scheduler:{region.name}:{ACCOUNT}:schedule/default/{name}",
        "GroupName": "default",
        "ScheduleExpression": parameters["ScheduleExpression"],
        "ScheduleExpressionTimezone": "UTC",
        "State": "ENABLED",
        "Target": target,
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": parameters.get("ActionAfterCompletion", "NONE"),
        "LastModificationDate": region.stamp,
        "_at": stamp(moment),
    }


def _invalid(text: str) -> AwsError:
    return AwsError("ValidationException", text)

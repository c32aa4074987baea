"""Deallocation at a time: scheduled actions, once and to the second, and the daily shutdown."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from gpucloud_sandbox.azure import instances, permissions, validation
from gpucloud_sandbox.azure.subscription import (
    MACHINE,
    SCHEDULE,
    SUBSCRIPTION,
    Subscription,
    canonical,
    is_nested,
    part,
    tail,
)
from gpucloud_sandbox.azure.wire import Answer, AzureError, Json
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document

SCHEDULED = "scheduled"
SUBMIT, STATUS, CANCEL = (
    f"POST Microsoft.ComputeSchedule/locations/virtualMachines{each}"
    for each in ("SubmitDeallocate", "GetOperationStatus", "CancelOperations")
)
BY_ACTION, BY_DAY = "deallocated by its scheduled action", "deallocated by its daily schedule"
LONGEST = timedelta(days=14)
"""How far ahead an action may be. Azure's own limit is not documented; this keeps callers honest about it."""


def submit_deallocate(subscription: Subscription, location: str, body: Json) -> Answer:
    """virtualMachinesSubmitDeallocate: each machine is answered by itself."""
    body = validation.read(SUBMIT, body)
    schedule = part(body, "schedule")
    try:
        deadline = datetime.fromisoformat(str(schedule.get("deadline"))).astimezone(UTC)
    except ValueError:
        raise AzureError("InvalidRequest", "The deadline is no time.") from None
    if schedule.get("deadlineType") not in {"InitiateAt", "CompleteBy"} or not body.get("correlationid"):
        raise AzureError("InvalidRequest", "deadlineType and correlationid are needed.")
    ids: list[str] = part(body, "resources").get("ids") or []
    if not 0 < len(ids) <= 100:
        raise AzureError("InvalidRequest", "Between 1 and 100 resources are taken.")
    results = [_submit(subscription, location, id_, deadline, schedule) for id_ in ids]
    answer = {"description": "Deallocate Resource Request", "type": MACHINE, "location": location}
    return Answer(body={**answer, "results": results})


def _submit(subscription: Subscription, location: str, id_: str, deadline: datetime, schedule: Json) -> Json:
    machine = subscription.find(MACHINE, id_)
    if machine is None or is_nested(machine) or machine["location"] != location:
        return {"resourceId": id_, "errorCode": "ResourceNotFound", "errorDetails": f"{id_} was not found."}
    if not permissions.allows(subscription, f"{MACHINE}/deallocate/action"):
        text = f"No role allows {MACHINE}/deallocate/action over {id_}."
        return {"resourceId": id_, "errorCode": "AuthorizationFailed", "errorDetails": text}
    if not timedelta() <= deadline - subscription.now <= LONGEST:
        return {
            "resourceId": id_,
            "errorCode": "InvalidDeadline",
            "errorDetails": "The deadline is too far or past.",
        }
    operation = subscription.new_uuid()
    subscription.keep(
        SCHEDULED, operation, {"machine": canonical(id_), "at": stamp(deadline), "state": "Scheduled"}
    )
    return {
        "resourceId": id_,
        "operation": _operation(operation, id_, deadline.isoformat(), "Scheduled", schedule),
    }


def _operation(id_: str, resource: str, deadline: str, state: str, schedule: Json) -> Json:
    return {
        "operationId": id_,
        "resourceId": resource,
        "opType": "Deallocate",
        "subscriptionId": SUBSCRIPTION,
        "deadline": deadline,
        "deadlineType": schedule.get("deadlineType", "InitiateAt"),
        "state": state,
        "timezone": "UTC",
    }


def operation_status(subscription: Subscription, location: str, body: Json) -> Answer:
    """virtualMachinesGetOperationStatus."""
    body = validation.read(STATUS, body)
    return Answer(body={"results": [_status(subscription, id_) for id_ in body.get("operationIds") or ()]})


def cancel(subscription: Subscription, location: str, body: Json) -> Answer:
    """virtualMachinesCancelOperations."""
    body = validation.read(CANCEL, body)
    results: list[Json] = []
    for id_ in body.get("operationIds") or ():
        known = subscription.all(SCHEDULED).get(id_)
        if known is not None and known["state"] == "Scheduled":
            subscription.keep(SCHEDULED, id_, {**known, "state": "Cancelled"})
        results.append(_status(subscription, id_))
    return Answer(body={"results": results})


def _status(subscription: Subscription, id_: str) -> Json:
    known = subscription.all(SCHEDULED).get(id_)
    if known is None:
        return {"errorCode": "OperationNotFound", "errorDetails": f"{id_} was not found."}
    operation = _operation(id_, known["machine"], known["at"], known["state"], {})
    return {"resourceId": known["machine"], "operation": operation}


def make_daily(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of a daily shutdown: Azure finds it by its name."""
    properties = part(body, "properties")
    target = str(properties.get("targetResourceId", ""))
    if document["name"].lower() != f"shutdown-computevm-{tail(target)}".lower():
        raise AzureError(
            "InvalidScheduleId", "The schedule's name must be shutdown-computevm- and the machine's."
        )
    if properties.get("taskType") != "ComputeVmShutdownTask":
        raise AzureError("InvalidTaskType", "The task type must be ComputeVmShutdownTask.")
    time = part(properties, "dailyRecurrence").get("time", "")
    if not re.fullmatch(r"([01]\d|2[0-3])[0-5]\d", time):
        raise AzureError("InvalidDailyRecurrence", f"{time!r} is no time of the day.")
    instances.find(subscription, target)
    at = subscription.now.replace(hour=int(time[:2]), minute=int(time[2:]), second=0, microsecond=0)
    document["_next"] = stamp(at if at > subscription.now else at + timedelta(days=1))


def settle(subscription: Subscription) -> None:
    """Deallocates what is due."""
    now = subscription.stamp
    for id_, action in list(subscription.all(SCHEDULED).items()):
        if action["state"] != "Scheduled" or action["at"] > now:
            continue
        machine = subscription.find(MACHINE, action["machine"])
        if machine is not None:
            instances.deallocate(subscription, machine, BY_ACTION)
        subscription.keep(SCHEDULED, id_, {**action, "state": "Succeeded" if machine else "Failed"})
    for daily in list(subscription.all(SCHEDULE).values()):
        properties = part(daily, "properties")
        if daily["_next"] > now or properties.get("status") != "Enabled":
            continue
        machine = subscription.find(MACHINE, properties["targetResourceId"])
        if machine is not None:
            instances.deallocate(subscription, machine, BY_DAY)
        following = datetime.fromisoformat(daily["_next"]) + timedelta(days=1)
        subscription.put(SCHEDULE, {**daily, "_next": stamp(following)})

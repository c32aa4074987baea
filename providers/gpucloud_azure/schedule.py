"""The cloud's own timers that end a machine at its deadline, independently of the box and of gpucloud.

A guest that shuts down goes on being billed, so that a deallocation is scheduled with
Microsoft.ComputeSchedule, to the second and once. Where the deadline is at most a day away, the daily
auto-shutdown of Microsoft.DevTestLab is set besides.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gpucloud.clouds.kit import in_threads, together
from gpucloud.errors import ErrorClass
from gpucloud.resources import ResourceKind
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import (
    AzureRefusal,
    DeadlineTooFarError,
    NotCancelledError,
    NotEndingError,
    classify,
    reading,
)
from gpucloud_azure.ids import api, canonical, id_in, name_of, parts_of
from gpucloud_azure.json_paths import at, list_at, plain, text_at

log = logging.getLogger(__name__)

DAY = timedelta(hours=24)
FURTHEST = timedelta(days=14)
"""How far ahead a deallocation can be scheduled. UNVERIFIED: Microsoft documents no limit."""
OVER = {"Succeeded", "Failed", "Cancelled"}
"""States of a scheduled action that does nothing more (Azure's "Scheduled Actions", operation states)."""
DUE = {"pendingscheduling", "scheduled", "pendingexecution", "executing", "succeeded"}
"""States of an operation that deallocates its machine, in lower case; any other may not."""
NO_ERROR = {"", "null", "success"}
"""Error codes, in lower case, that stand for none."""
RETRY_COUNT = 5
RETRY_WINDOW_MINUTES = 60


def deallocation_of(ids: Sequence[str], deadline: datetime) -> dict[str, Any]:
    """The request that schedules the deallocation of machines. The same wish has the same correlation id."""
    return {
        "schedule": {
            "deadline": _text(deadline),
            "timezone": "UTC",
            "deadlineType": "InitiateAt",
        },
        "executionParameters": {
            "retryPolicy": {"retryCount": RETRY_COUNT, "retryWindowInMinutes": RETRY_WINDOW_MINUTES}
        },
        "resources": {"ids": list(ids)},
        "correlationid": _correlation(*ids, _text(deadline)),
    }


def refused_in(answer: Mapping[str, Any], ids: Sequence[str]) -> dict[str, str]:
    """The machines that will not be deallocated by an answer, and why not.

    An operation with an id and a state in which it is due decides, not an error code: Microsoft's examples of
    accepted operations have codes such as "null" and "Success" (azure-rest-api-specs, computeschedule).
    """
    results = [
        (text_at(result, "resourceId") or text_at(result, "operation", "resourceId"), result)
        for result in list_at(answer, "results")
    ]
    due = {resource.lower() for resource, result in results if _is_due(result)}
    why = {resource.lower(): _reason(result) for resource, result in results}
    return {each: why.get(each.lower(), "no answer") for each in ids if each.lower() not in due}


def _is_due(result: Any) -> bool:
    operation = at(result, "operation")
    return bool(text_at(operation, "operationId")) and text_at(operation, "state").lower() in DUE


def _reason(result: Any) -> str:
    operation = at(result, "operation")
    codes = (text_at(result, "errorCode"), text_at(operation, "resourceOperationError", "errorCode"))
    code = next((each for each in codes if each.lower() not in NO_ERROR), "")
    state = text_at(operation, "state") or "no operation"
    details = text_at(result, "errorDetails") or text_at(operation, "resourceOperationError", "errorDetails")
    return f"{code or state}: {details}"


def timers_in(answer: Mapping[str, Any], refused: Collection[str]) -> list[str]:
    """The timers that an answer tells of: a machine's name, and the operation that will deallocate it.

    Args:
        answer: to a request for deallocations.
        refused: the machines that will not be deallocated.
    """
    return [
        f"{machine.name}/{operation}"
        for each in list_at(answer, "results")
        if (operation := text_at(each, "operation", "operationId"))
        and (machine := parts_of(canonical(text_at(each, "operation", "resourceId")))) is not None
        and machine.canonical() not in refused
    ]


def without_timer(ids: Sequence[str], timers: Sequence[str]) -> list[str]:
    """The machines that none of these timers is of."""
    named = {timer.partition("/")[0] for timer in timers}
    return [each for each in ids if name_of(each)[1] not in named]


def refuse_far(deadline: datetime | None, now: datetime) -> None:
    """Refuses a deadline that no timer reaches: nothing would end the machine from outside.

    Raises:
        DeadlineTooFarError: it is further ahead than :data:`FURTHEST`.
    """
    if deadline is not None and deadline - now > FURTHEST:
        hours = (deadline - now) / timedelta(hours=1)
        most = FURTHEST // timedelta(hours=1)
        raise DeadlineTooFarError(
            f"a timer on Azure ends a machine at most {most} h ahead, and this one would end in {hours:.0f} h"
            " (Microsoft documents no limit: this one is gpucloud's own)"
        )


def submit(
    clients: Clients,
    region: str,
    ids: Sequence[str],
    deadline: datetime,
    note: Callable[[Sequence[str]], None],
    *,
    only: Callable[[], bool],
) -> dict[str, str]:
    """Schedules the deallocation of machines; returns those that Azure did not accept, and why.

    If it is the only timer, a missing permission or registration is raised: another place would not help.

    Args:
        clients: the clients.
        region: the region of the machines.
        ids: the machines.
        deadline: when.
        note: called with the timers that Azure has set.
        only: says whether there is no other timer; called when Azure refuses this one.

    Raises:
        DeadlineTooFarError: the deadline is too far ahead.
    """
    refuse_far(deadline, datetime.now(UTC))
    try:
        with reading("virtualMachinesSubmitDeallocate"):
            answer = clients.schedules().scheduled_actions.virtual_machines_submit_deallocate(
                region, deallocation_of(ids, deadline)
            )
    except Exception as error:
        verdict = classify(error)
        if verdict is None or isinstance(error, AzureRefusal):
            raise
        if verdict.error_class is ErrorClass.AUTH and only():
            raise
        return dict.fromkeys(ids, f"{verdict.code}: {verdict.message}")
    refused = refused_in(plain(answer), ids)
    timers = timers_in(plain(answer), refused)
    if timers:
        note(timers)
    return refused


def arm(
    clients: Clients,
    region: str,
    ids: Sequence[str],
    deadline: datetime,
    note: Callable[[Sequence[str]], None],
    *,
    late: Sequence[str],
    now: datetime,
    tags: Mapping[str, str],
) -> None:
    """Sets both timers of machines, as far as they are not set.

    Args:
        clients: the clients.
        region: the region of the machines.
        ids: the machines.
        deadline: when.
        note: called with the timers that Azure has set for a deallocation.
        late: the machines whose deallocation is not scheduled.
        now: the time.
        tags: those of the daily shutdown.

    Raises:
        NotEndingError: Azure takes none for a machine.
    """

    def set_once() -> dict[str, str]:
        if not late:
            return {}
        return submit(clients, region, late, deadline, note, only=lambda: daily_time(deadline, now) is None)

    def set_daily() -> dict[str, str]:
        return arm_daily(clients, region, ids, deadline, now=now, tags=tags)

    check_armed(ids, *together(set_once, set_daily))


def cancel(clients: Clients, region: str, timers: Sequence[str]) -> None:
    """Takes scheduled deallocations back; those that are over need none of it.

    Raises:
        NotCancelledError: Azure goes on with one.
    """
    if not timers:
        return
    operations = [timer.rpartition("/")[2] for timer in timers]  # older journals have the operation alone
    with reading("virtualMachinesCancelOperations"):
        answer = clients.schedules().scheduled_actions.virtual_machines_cancel_operations(
            region, {"operationIds": operations, "correlationid": _correlation(*operations)}
        )
    states = {
        text_at(result, "operation", "operationId"): text_at(result, "operation", "state")
        for result in list_at(plain(answer), "results")
    }
    going_on = {each: states.get(each) or "no answer" for each in operations if states.get(each) not in OVER}
    if going_on:
        raise NotCancelledError(
            f"the deallocation of the old time was not cancelled: {', '.join(sorted(set(going_on.values())))}"
        )


def disarm_daily(clients: Clients, ids: Sequence[str]) -> None:
    """Deletes the daily shutdowns of machines; a machine that has none needs none of it."""

    def delete_one(machine: str) -> None:
        try:
            clients.resources().resources.begin_delete_by_id(
                schedule_id(machine), api_version=api(ResourceKind.SCHEDULE), polling=False
            )
        except Exception as error:
            verdict = classify(error)
            if verdict is None or verdict.error_class is not ErrorClass.NOT_FOUND:
                raise

    in_threads(delete_one, ids)


def arm_daily(
    clients: Clients,
    region: str,
    ids: Sequence[str],
    deadline: datetime,
    *,
    now: datetime,
    tags: Mapping[str, str],
) -> dict[str, str]:
    """Sets the daily shutdown of machines; returns those without one, and why."""
    time = daily_time(deadline, now)
    if time is None:
        return dict.fromkeys(ids, "the daily shutdown would come too early")

    def set_one(machine: str) -> str | None:
        try:
            clients.resources().resources.begin_create_or_update_by_id(
                schedule_id(machine),
                daily_of(machine, region, time, tags),
                api_version=api(ResourceKind.SCHEDULE),
                polling=False,
            )
        except Exception as error:
            verdict = classify(error)
            if verdict is None or isinstance(error, AzureRefusal):
                raise
            return f"{verdict.code}: {verdict.message}"
        return None

    answers = zip(ids, in_threads(set_one, ids), strict=True)
    return {machine: why for machine, why in answers if why is not None}


def daily_time(deadline: datetime, now: datetime) -> str | None:
    """The daily time (UTC, ``HHMM``) that comes first at the deadline; ``None`` for more than a day ahead.

    Rounded down to the minute, and before the minute that it is now: else the first time would be today's.
    """
    if not timedelta() < deadline - now <= DAY:
        return None
    time = deadline.astimezone(UTC).replace(second=0, microsecond=0)
    if time - DAY >= now.astimezone(UTC).replace(second=0, microsecond=0):
        time -= timedelta(minutes=1)
    return f"{time:%H%M}"


def schedule_id(machine: str) -> str:
    """The id of a machine's daily shutdown: Azure finds it by this name only."""
    group, name = name_of(machine)
    subscription = machine.split("/")[2]
    return id_in(subscription, group, ResourceKind.SCHEDULE, f"shutdown-computevm-{name}")


def daily_of(machine: str, region: str, time: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """The body of a daily shutdown."""
    return {
        "location": region,
        "tags": dict(tags),
        "properties": {
            "status": "Enabled",
            "taskType": "ComputeVmShutdownTask",
            "dailyRecurrence": {"time": time},
            "timeZoneId": "UTC",
            "targetResourceId": machine,
            "notificationSettings": {"status": "Disabled", "timeInMinutes": 30},
        },
    }


def check_armed(machines: Sequence[str], *refused: Mapping[str, str]) -> None:
    """Checks that a timer ends every machine.

    Args:
        machines: their ids.
        refused: per kind of timer, the machines that have none, and why.

    Raises:
        NotEndingError: a machine has none of any kind.
    """
    for machine in machines:
        if all(machine in each for each in refused):
            reasons = "; ".join(dict.fromkeys(each[machine] for each in refused))
            raise NotEndingError(
                f"no timer ends {name_of(machine)[1]} at its deadline ({reasons}). "
                "Is the provider registered? az provider register --namespace Microsoft.ComputeSchedule"
            )


def _correlation(*words: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, ":".join(("gpucloud", *words))))


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")

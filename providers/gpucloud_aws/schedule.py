"""A one-shot rule of EventBridge Scheduler that ends instances: also when their guest hangs.

It needs a role that the scheduler may assume and that may terminate instances. The rule comes a little after
the deadline, so that the guard on the box, which runs the checkpoint, comes first; it deletes itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gpucloud.clouds.abilities import Deadlines
from gpucloud.clouds.kit import gone_is_fine
from gpucloud.errors import RULES, ErrorClass, Next, UsageError
from gpucloud.resources import (
    EXPIRES_TAG,
    End,
    Machine,
    Ref,
    Resource,
    ResourceKind,
    State,
    expires_text,
)
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.errors import NotEndingError, classify, reading

AFTER = timedelta(minutes=6)
"""The guard's checkpoint has five; the scheduler's times are of one minute (its user guide)."""
TARGET = "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances"
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}", re.ASCII)


def checked_role(arn: str) -> str:
    """A role's ARN.

    Raises:
        UsageError: it is none.
    """
    if not _ROLE.fullmatch(arn):
        raise UsageError(
            f"--ttl-role: {arn!r} is not the ARN of a role", hint="arn:aws:iam::ACCOUNT:role/NAME"
        )
    return arn


def expression(deadline: datetime) -> str:
    """When the rule runs."""
    return f"at({(deadline + AFTER).astimezone(UTC):%Y-%m-%dT%H:%M:%S})"


def rule_of(name: str, ids: Sequence[str], deadline: datetime, role: str) -> dict[str, Any]:
    """The rule, as CreateSchedule takes it."""
    return {
        "Name": name,
        "ScheduleExpression": expression(deadline),
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "Target": {"Arn": TARGET, "RoleArn": role, "Input": json.dumps({"InstanceIds": list(ids)})},
    }


class AwsDeadlines(Deadlines):
    """A rule for the instances of a box, if there is a role for it; otherwise they end themselves alone."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    def ensure_end(
        self,
        machines: Sequence[Machine],
        end: End,
        timers: Sequence[str],  # noqa: ARG002  (the rule is a resource, found by its name)
        note: Callable[[Sequence[str]], None],  # noqa: ARG002
        /,
    ) -> Sequence[Ref]:
        """Creates the rule that ends the machines, if there is a role."""
        if end.at is None or end.ttl_role is None:
            return ()
        scheduler = self._account.clients.scheduler(machines[0].ref.region)
        return (_arm(scheduler, machines, end.at, end.ttl_role),)

    def extend(
        self,
        resources: Sequence[Ref],
        expires_at: datetime | None,
        timers: Sequence[str],  # noqa: ARG002  (EC2 keeps none)
        note: Callable[[Sequence[str]], None],  # noqa: ARG002
        /,
    ) -> Sequence[str]:
        """Moves the rule, if there is one, and tags all resources; the timer is on the box."""
        clients = self._account.clients
        for ref in resources:
            self._account.refuse_foreign(ref)
            if ref.kind is ResourceKind.SCHEDULE:
                _move(clients.scheduler(ref.region), ref.id, expires_at)
        tagged = [ref for ref in resources if ref.kind is not ResourceKind.SCHEDULE]
        for region in {ref.region for ref in tagged}:
            clients.ec2_once(region).create_tags(
                Resources=[ref.id for ref in tagged if ref.region == region],
                Tags=[{"Key": EXPIRES_TAG, "Value": expires_text(expires_at)}],
            )
        return ()


def _arm(scheduler: Any, machines: Sequence[Machine], deadline: datetime, role: str) -> Ref:
    """Makes the rule for instances; one that is there already is that of an earlier try.

    Args:
        scheduler: a client that sends once.
        machines: the instances, in any order.
        deadline: their end.
        role: the role with which the rule ends them.

    Returns:
        The rule, to be accounted for.

    Raises:
        NotEndingError: the rule was refused.
    """
    ids = sorted(machine.ref.id for machine in machines)
    first, name = machines[0].ref, f"gpucloud-{ids[0]}"
    try:
        scheduler.create_schedule(**rule_of(name, ids, deadline, role), ClientToken=name)
    except Exception as error:
        verdict = classify(error)
        if verdict is None or RULES[verdict.error_class].next is Next.AGAIN:
            raise
        if verdict.error_class is not ErrorClass.CONFLICT:
            said = f"the schedule that ends the box could not be created: {verdict.code}: {verdict.message}"
            raise NotEndingError(said) from error
    return Ref(
        cloud=first.cloud, account=first.account, region=first.region, kind=ResourceKind.SCHEDULE, id=name
    )


def _move(scheduler: Any, name: str, expires_at: datetime | None) -> None:
    """Moves a rule to a new end; ``None`` deletes it."""
    if expires_at is None:
        delete(scheduler, name)
        return
    shown = scheduler.get_schedule(Name=name)
    with reading("GetSchedule"):
        kept = {key: shown[key] for key in ("ScheduleExpressionTimezone", "FlexibleTimeWindow", "Target")}
    scheduler.update_schedule(
        Name=name, ScheduleExpression=expression(expires_at), ActionAfterCompletion="DELETE", **kept
    )


def get(scheduler: Any, ref: Ref) -> Resource:
    """The present rule. Raises the SDK's not-found error if there is none."""
    shown = scheduler.get_schedule(Name=ref.id)
    return Resource(ref=ref, state=State.RUNNING, tags=None, created_at=shown.get("CreationDate"))


def delete(scheduler: Any, name: str) -> None:
    """Deletes a rule; one that is gone is fine."""
    with gone_is_fine(classify):
        scheduler.delete_schedule(Name=name)

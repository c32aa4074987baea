"""Sets and moves the deadline of a box: its timers, and its tag."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from gpucloud.clouds.abilities import Deadlines
from gpucloud.clouds.kit import in_threads
from gpucloud.errors import ErrorClass
from gpucloud.resources import EXPIRES_TAG, End, Machine, Order, Ref, ResourceKind, Tags, expires_text
from gpucloud_azure import identity, schedule
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import NotEndingError, classify, reading
from gpucloud_azure.find import is_deallocated, show
from gpucloud_azure.ids import name_of
from gpucloud_azure.network import all_tags

log = logging.getLogger(__name__)


def cloud_end(at: datetime | None, *, identified: bool) -> datetime | None:
    """When the cloud's own timers end a machine; one with an identity deletes itself earlier."""
    return at and at + (identity.AFTER if identified else timedelta())


def refuse_far(order: Order, now: datetime) -> None:
    """Refuses an order whose machines no timer would end.

    Raises:
        DeadlineTooFarError: its deadline is too far ahead.
    """
    schedule.refuse_far(cloud_end(order.deadline, identified=order.box_identity is not None), now)


class AzureDeadlines(Deadlines):
    """The timers that deallocate machines, and the role with which these delete themselves."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    def ensure_end(
        self,
        machines: Sequence[Machine],
        end: End,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[Ref]:
        """Sets the missing timers of machines, and the role with which they delete themselves.

        Args:
            machines: the machines of one box.
            end: their deadline.
            timers: the known timers of the box, in the form of :func:`schedule.timers_in`.
            note: called with the new ones.

        Raises:
            NotEndingError: Azure accepts no timer for a machine, or does not assign its role.
        """
        clients = self._account.clients
        for machine in machines:
            self._account.refuse_foreign(machine.ref)
        first, ids = machines[0], [machine.ref.id for machine in machines]
        ends_at = cloud_end(end.at, identified=end.box_identity is not None)
        if ends_at is not None:
            five = first.tags if isinstance(first.tags, Tags) else None
            tags = all_tags(first.name, end.extra_tags, five)
            late = schedule.without_timer(ids, timers)
            schedule.arm(
                clients, first.ref.region, ids, ends_at, note, late=late, now=datetime.now(UTC), tags=tags
            )
        if end.box_identity is not None:
            role = identity.checked_role(end.box_identity)
            identity.assign(clients, name_of(ids[0])[0], ids, role)
        return ()

    def extend(
        self,
        resources: Sequence[Ref],
        expires_at: datetime | None,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[str]:
        """Sets timers for the new deadline before it cancels the old ones, and tags all resources with it.

        Args:
            resources: all resources of the box; its machines are in one region.
            expires_at: the new deadline; ``None`` for none.
            timers: the timers in force.
            note: called with the new ones before the old ones are cancelled.

        Returns:
            The timers in force from now on.

        Raises:
            NotEndingError: Azure accepts no timer for the new deadline; nothing was moved.
            NotCancelledError: Azure did not cancel an old one.
        """
        clients = self._account.clients
        for ref in resources:
            self._account.refuse_foreign(ref)
        machines = [ref for ref in resources if ref.kind is ResourceKind.INSTANCE]
        new: list[str] = []

        def learn(set_now: Sequence[str]) -> None:
            new.extend(set_now)
            note(set_now)

        for region in {ref.region for ref in machines}:
            ids = [ref.id for ref in machines if ref.region == region]
            _move_timers(clients, region, ids, expires_at, learn)
            schedule.cancel(clients, region, timers)
        in_threads(lambda ref: _tag(clients, ref, expires_at), resources)
        return tuple(new)


@reading("a virtual machine")
def _move_timers(
    clients: Clients,
    region: str,
    ids: Sequence[str],
    expires_at: datetime | None,
    note: Callable[[Sequence[str]], None],
) -> None:
    """Sets the timers of the new deadline, and moves the daily one to it.

    A machine that is deallocated may go without: only ComputeSchedule sets a timer for more than a day ahead,
    and not every subscription has it. Whoever starts the machine asks again when it runs.
    """
    now = datetime.now(UTC)
    machine = show(clients, ids[0])
    at = cloud_end(expires_at, identified="identity" in machine)
    if at is not None:
        tags: Mapping[str, str] = {**machine["tags"], EXPIRES_TAG: expires_text(expires_at)}
        try:
            schedule.arm(clients, region, ids, at, note, late=ids, now=now, tags=tags)
        except Exception as error:
            if not (is_deallocated(machine) and _sets_none(error)):
                raise
            log.info("no timer for a deallocated machine, which has nothing to end: %s", error)
    if at is None or schedule.daily_time(at, now) is None:
        schedule.disarm_daily(clients, ids)


def _sets_none(error: Exception) -> bool:
    """Whether an error says that Azure will set no timer, however often it is asked."""
    verdict = classify(error)
    return isinstance(error, NotEndingError) or (
        verdict is not None and verdict.error_class is ErrorClass.AUTH
    )


def _tag(clients: Clients, ref: Ref, expires_at: datetime | None) -> None:
    clients.resources().tags.begin_update_at_scope(
        ref.id,
        {"operation": "Merge", "properties": {"tags": {EXPIRES_TAG: expires_text(expires_at)}}},
        polling=False,
    )

"""Sets and moves the deadline of a box: its timers, and its tag."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from gpucloud.clouds.kit import in_threads
from gpucloud.resources import EXPIRES_TAG, End, Machine, Ref, ResourceKind, Tags, Timers, expires_text
from gpucloud_azure import identity, schedule
from gpucloud_azure.clients import Clients
from gpucloud_azure.find import show
from gpucloud_azure.ids import name_of
from gpucloud_azure.network import all_tags


def cloud_end(at: datetime | None, *, identified: bool) -> datetime | None:
    """When the cloud's own timers end a machine; one with an identity deletes itself earlier."""
    return at and at + (identity.AFTER if identified else timedelta())


def ensure_end(clients: Clients, machines: Sequence[Machine], end: End, submitted: dict[str, str]) -> Timers:
    """Sets the missing timers of machines, and the role with which they delete themselves.

    Args:
        clients: the clients.
        machines: the machines of one box.
        end: their deadline.
        submitted: the machines by the operation that will deallocate them, as far as this process knows
            them; receives the new ones.

    Raises:
        NotEndingError: Azure accepts no timer for a machine, or does not assign its role.
    """
    first, ids = machines[0], [machine.ref.id for machine in machines]
    ends_at = cloud_end(end.at, identified=end.box_identity is not None)
    if ends_at is not None:
        five = first.tags if isinstance(first.tags, Tags) else None
        tags = all_tags(first.name, end.extra_tags, five)
        schedule.arm(clients, first.ref.region, ids, ends_at, submitted, now=datetime.now(UTC), tags=tags)
    if end.box_identity is not None:
        role = identity.checked_role(end.box_identity)
        identity.assign(clients, name_of(ids[0])[0], ids, role)
    return Timers(ids=tuple(operation for operation, id_ in submitted.items() if id_ in ids))


def extend(
    clients: Clients,
    things: Sequence[Ref],
    expires_at: datetime | None,
    timers: Sequence[str],
    note: Callable[[Sequence[str]], None],
) -> Sequence[str]:
    """Sets timers for the new deadline before it cancels the old ones, and tags all resources with it.

    Args:
        clients: the clients.
        resources: all resources of the box; its machines are in one region.
        expires_at: the new deadline; ``None`` for none.
        timers: the scheduled actions in force.
        note: called with the new ones before the old ones are cancelled.

    Returns:
        The scheduled actions in force from now on.

    Raises:
        NotEndingError: Azure accepts no timer for the new deadline; nothing was moved.
        NotCancelledError: Azure did not cancel an old one.
    """
    machines = [ref for ref in things if ref.kind is ResourceKind.INSTANCE]
    submitted: dict[str, str] = {}
    for region in {ref.region for ref in machines}:
        ids = [ref.id for ref in machines if ref.region == region]
        submitted |= _move_timers(clients, region, ids, expires_at, note)
        schedule.cancel(clients, region, timers)
    in_threads(lambda ref: _tag(clients, ref, expires_at), things)
    return tuple(submitted)


def _move_timers(
    clients: Clients,
    region: str,
    ids: Sequence[str],
    expires_at: datetime | None,
    note: Callable[[Sequence[str]], None],
) -> dict[str, str]:
    """Sets the timers of the new deadline, and moves the daily one to it."""
    now = datetime.now(UTC)
    submitted: dict[str, str] = {}
    machine = show(clients, ids[0])
    at = cloud_end(expires_at, identified="identity" in machine)
    if at is not None:
        tags: Mapping[str, str] = {**machine["tags"], EXPIRES_TAG: expires_text(expires_at)}
        try:
            schedule.arm(clients, region, ids, at, submitted, now=now, tags=tags)
        finally:
            note(tuple(submitted))
    if at is None or schedule.daily_time(at, now) is None:
        schedule.disarm_daily(clients, ids)
    return submitted


def _tag(clients: Clients, ref: Ref, expires_at: datetime | None) -> None:
    clients.resources().tags.begin_update_at_scope(
        ref.id,
        {"operation": "Merge", "properties": {"tags": {EXPIRES_TAG: expires_text(expires_at)}}},
        polling=False,
    )

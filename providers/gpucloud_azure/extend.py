"""Moving the end of a box: its timers, and the tag that tells it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from gpucloud.model import EXPIRES_TAG, Kind, Ref, expires_text
from gpucloud_azure import identity, schedule
from gpucloud_azure.clients import Clients
from gpucloud_azure.find import show
from gpucloud_azure.parallel import in_threads


def extend(
    clients: Clients,
    things: Sequence[Ref],
    expires_at: datetime | None,
    timers: Sequence[str],
    note: Callable[[Sequence[str]], None],
) -> Sequence[str]:
    """Sets timers for the new end before it takes the old ones back, and tags everything with it.

    Args:
        clients: the clients.
        things: all that the box has; its machines are in one region.
        expires_at: the new end; ``None`` for none.
        timers: the scheduled actions in force.
        note: told the new ones before the old ones are cancelled.

    Returns:
        The scheduled actions in force from now on.

    Raises:
        NotEndingError: Azure takes no timer for the new end; nothing was moved.
        NotCancelledError: Azure goes on with an old one.
    """
    machines = [ref for ref in things if ref.kind is Kind.INSTANCE]
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
    """The timers of the new end are set, and the daily one does not go by the old end any more."""
    now = datetime.now(UTC)
    submitted: dict[str, str] = {}
    machine = show(clients, ids[0])
    after = identity.AFTER if "identity" in machine else timedelta()
    at = None if expires_at is None else expires_at + after
    daily = at is not None and schedule.daily_time(at, now) is not None
    if at is not None:
        refused = [schedule.submit(clients, region, ids, at, submitted, only=not daily)]
        note(tuple(submitted))
        if daily:
            tags = {**machine["tags"], EXPIRES_TAG: expires_text(expires_at)}
            refused.append(schedule.arm_daily(clients, region, ids, at, now=now, tags=tags))
        schedule.check_armed(ids, *refused)
    if not daily:
        schedule.disarm_daily(clients, ids)
    return submitted


def _tag(clients: Clients, ref: Ref, expires_at: datetime | None) -> None:
    clients.resources().tags.begin_update_at_scope(
        ref.id,
        {"operation": "Merge", "properties": {"tags": {EXPIRES_TAG: expires_text(expires_at)}}},
        polling=False,
    )

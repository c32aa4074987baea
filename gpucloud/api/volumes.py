"""Volumes as calls: create, read, delete."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from gpucloud.api.volume import Confirm
from gpucloud.boxes.launch import check_name
from gpucloud.boxes.volumes import create_volume
from gpucloud.errors import UsageError
from gpucloud.inventory.down import end_all, merged
from gpucloud.inventory.settling import settle_first
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.records import Box as JournalBox
from gpucloud.planning.volume_choice import holder_of
from gpucloud.planning.volume_plan import plan_volume
from gpucloud.runtime.context import Context
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud.errors import GpucloudError
    from gpucloud_pricing import Market


def create(
    context: Context,
    market: Market,
    near: Spec,
    *,
    name: str,
    size_gib: int,
    keep: timedelta,
    confirm: Confirm | None,
) -> JournalBox:
    """See :meth:`gpucloud.Client.create_volume`."""
    settle_first(context)
    check_name(context, name)
    plan = plan_volume(context, market, near, name=name, size_gib=size_gib, keep=keep)
    if confirm is not None:
        with context.tasks.asking():
            agreed = confirm(plan)
        if not agreed:
            raise UsageError("no volume was created")
    return create_volume(context, plan)


def delete(context: Context, volume: JournalBox, confirm: Callable[[], bool]) -> JournalBox:
    """See :meth:`gpucloud.Client.delete_volume`."""
    holder = holder_of(context.journal, volume)
    if holder is not None:
        raise UsageError(
            f"volume {volume.name!r} is attached to box {holder.name!r}",
            hint=f"delete the box before: gpucloud down {holder.name}",
        )
    if volume.state not in OVER:
        with context.tasks.asking():
            agreed = confirm()
        if not agreed:
            raise UsageError("nothing was deleted")
    troubles: list[GpucloudError] = []
    ended = end_all(context, [volume], troubles)
    owed = merged(troubles)
    if owed is not None:
        raise owed
    settle_first(context)
    return ended[0]

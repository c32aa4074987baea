"""Volumes and snapshots as calls: create, restore, delete."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from gpucloud.api.volume import Confirm
from gpucloud.clouds.abilities import Images
from gpucloud.ending.down import end_all, merged
from gpucloud.errors import UsageError
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.records import Box, H, Holding, Snapshot, Volume
from gpucloud.planning.snapshot_plan import SnapshotPlan, plan_snapshot
from gpucloud.planning.volume_choice import holder_of
from gpucloud.planning.volume_plan import plan_volume
from gpucloud.purchase.failover import check_name
from gpucloud.runs.first_step import settle_first
from gpucloud.runtime.context import Context
from gpucloud.spec.model import Spec
from gpucloud.storage.snapshots import create_snapshot, wait_complete
from gpucloud.storage.volumes import create_volume

if TYPE_CHECKING:
    from gpucloud.errors import GpucloudError
    from gpucloud_pricing import Market

T = TypeVar("T")


def create(
    context: Context,
    market: Market,
    near: Spec,
    *,
    name: str,
    size_gib: int,
    keep: timedelta,
    confirm: Confirm | None,
) -> Volume:
    """See :meth:`Volumes.create`."""
    settle_first(context)
    check_name(context, name)
    plan = plan_volume(context, market, near, name=name, size_gib=size_gib, keep=keep)
    _agree(context, confirm, plan)
    return create_volume(context, plan)


def snapshot(
    context: Context,
    market: Market,
    source: Holding,
    *,
    name: str,
    keep: timedelta,
    confirm: Callable[[SnapshotPlan], bool] | None,
) -> Snapshot:
    """See :meth:`Snapshots.create`."""
    settle_first(context)
    check_name(context, name)
    if isinstance(source, Box):
        _refuse_without_images(context, source)
    plan = plan_snapshot(market, source, name=name, keep=keep)
    if isinstance(source, Volume):
        _agree(context, confirm, plan)
        return create_snapshot(context, plan, holder_of(context.journal, source))
    with _held(context, source) as box:  # nobody starts it meanwhile
        plan = plan_snapshot(market, box, name=name, keep=keep)
        _agree(context, confirm, plan)
        return create_snapshot(context, plan, None)


def restore(
    context: Context,
    market: Market,
    near: Spec,
    source: Snapshot,
    *,
    name: str,
    size_gib: int,
    keep: timedelta,
    confirm: Confirm | None,
) -> Volume:
    """See :meth:`Snapshots.restore`."""
    settle_first(context)
    check_name(context, name)
    with _held(context, source) as held:
        plan = plan_volume(context, market, near, name=name, size_gib=size_gib, keep=keep, snapshot=held)
        _agree(context, confirm, plan)
        wait_complete(context, held)
        return create_volume(context, plan)


def _refuse_without_images(context: Context, box: Box) -> None:
    """Refuses a box of a cloud where no machine boots from the copy of another one's disk.

    Raises:
        UsageError: it is one.
    """
    if box.place is not None and context.clouds.usable(box.place.cloud).ability(Images) is None:
        raise UsageError(
            f"box {box.name!r} cannot be copied: gpucloud makes no images on {box.place.cloud}",
            hint="keep data on a volume (gpucloud volume create), and install the rest with --setup",
        )


@contextmanager
def _held(context: Context, source: H) -> Generator[H]:
    """Holds what something is made of meanwhile.

    Raises:
        UsageError: another process holds it.
    """
    held = context.take(source)
    if held is None:
        raise UsageError(
            f"another process works on {source.kind} {source.name!r}", hint="wait for it, then repeat"
        )
    try:
        yield held
    finally:
        context.journal.release(held)


def _agree(context: Context, confirm: Callable[[T], bool] | None, plan: T) -> None:
    if confirm is None:
        return
    with context.tasks.asking():
        agreed = confirm(plan)
    if not agreed:
        raise UsageError("nothing was created")


def delete(context: Context, volume: Volume, confirm: Callable[[], bool]) -> Volume:
    """See :meth:`Volumes.delete`."""
    holder = holder_of(context.journal, volume)
    if holder is not None:
        raise UsageError(
            f"volume {volume.name!r} is attached to box {holder.name!r}",
            hint=f"delete the box before: gpucloud down {holder.name}",
        )
    return end(context, volume, confirm)


def end(context: Context, stored: H, confirm: Callable[[], bool]) -> H:
    """See :meth:`Volumes.delete` and :meth:`Snapshots.delete`."""
    if stored.state not in OVER:
        with context.tasks.asking():
            agreed = confirm()
        if not agreed:
            raise UsageError("nothing was deleted")
    troubles: list[GpucloudError] = []
    ended = end_all(context, [stored], troubles)
    owed = merged(troubles)
    if owed is not None:
        raise owed
    settle_first(context)
    return ended[0]

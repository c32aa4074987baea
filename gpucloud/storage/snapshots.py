"""Creates snapshots of volumes and of stopped boxes, and waits until they can be used."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from functools import partial

from gpucloud.bring_up.bring_up import targets
from gpucloud.bring_up.saving import save_work, write_all
from gpucloud.clouds.abilities import Images, Snapshots
from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.provider import Record
from gpucloud.errors import CloudError, ErrorClass, GpucloudError
from gpucloud.journal.facts import Facts, SnapshotFacts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Snapshot
from gpucloud.planning.snapshot_plan import SnapshotPlan
from gpucloud.purchase.volume_use import ref_of
from gpucloud.resources import Request, ResourceKind, SnapshotOrder, State
from gpucloud.runtime.context import Context
from gpucloud.ssh.keys import key_folder
from gpucloud.storage.mounting import label_of
from gpucloud.storage.storage_purchase import Calls, buy, new_ids

COMPLETE_TIMEOUT_S = 3600.0
"""How long what is made of a snapshot waits for it: a full copy of a large disk takes long."""
POLL_S = 5.0
DAY = timedelta(days=1)


def create_snapshot(
    context: Context, plan: SnapshotPlan, holder: Box | None, *, attended: bool = False
) -> Snapshot:
    """Creates a snapshot as planned, and leaves nothing behind if that fails.

    Args:
        context: clouds, journal, clock and progress of this call.
        plan: the snapshot.
        holder: the box that the volume is attached to: what it has not written yet is written before.
        attended: whether it ends with this process, which still holds it afterwards.

    Raises: as :func:`gpucloud.storage.storage_purchase.buy`; and ConnectionFailedError, if the holder does
        not answer.
    """
    source = plan.source
    if holder is not None and holder.state is not BoxState.STOPPED:
        _write_out(context, holder)
    cloud, order = context.clouds.usable(plan.place.cloud), _order(context, plan)
    volume = None if isinstance(source, Box) else source
    calls = _snapshot_calls(cloud, order) if volume else _image_calls(cloud, order, plan.billed)
    facts = Facts(
        disk_gib=plan.size_gib,
        listed=plan.listed,
        ceiling=plan.ceiling,
        attended=attended,
        snapshot=SnapshotFacts(
            of=source.name,
            of_zone=source.place.zone if source.place else None,
            mounted=volume.mounted if volume else None,
            label=label_of(volume) if volume else None,
            bootable=volume is None,
            arch=plan.arch,
            billed=plan.billed,
        ),
    )
    calls = replace(calls, told=f"{calls.told} of {source.name} in {cloud.name} {order.region}")
    try:
        return buy(context, Snapshot, cloud, order, calls, name=plan.name, place=plan.place, facts=facts)
    except CloudError as error:
        unused = volume is not None and volume.used_at is None
        if error.error_class is ErrorClass.UNSUPPORTED and unused:
            error.hint = f"no box has used it yet: gpucloud launch --volume {source.name}:/data"
        raise


def wait_complete(context: Context, snapshot: Snapshot, kind: ResourceKind = ResourceKind.SNAPSHOT) -> None:
    """Waits until a volume can be filled from a snapshot, or a box can boot from its image.

    Args:
        context: clouds, journal, clock and progress of this call.
        snapshot: the snapshot.
        kind: what of it is to be used.

    Raises:
        GpucloudError: the cloud has not completed it in time, or never will.
    """
    cloud, ref = context.clouds.usable(snapshot.cloud), ref_of(context, snapshot, kind)
    pause_s = 0.1
    with context.tasks.within(COMPLETE_TIMEOUT_S):
        while True:
            shown = context.tasks.run(partial(cloud.get, ref))
            if shown is None or shown.state is not State.PENDING:
                break
            if pause_s > context.tasks.left_s:
                raise GpucloudError(
                    f"{cloud.name} has not completed snapshot {snapshot.name!r} within an hour",
                    hint="repeat the command later",
                )
            context.tell("wait", f"for {cloud.name} to complete snapshot {snapshot.name}")
            context.tasks.pause(pause_s)
            pause_s = min(2 * pause_s, POLL_S)
    if shown is None or shown.state is not State.RUNNING:
        raise GpucloudError(
            f"{cloud.name} could not complete snapshot {snapshot.name!r}, which holds nothing",
            hint="repeat the command later"  # which made it, and has deleted it
            if snapshot.attended
            else f"delete it: gpucloud snapshot delete {snapshot.name}",
        )


def _snapshot_calls(cloud: Cloud, order: SnapshotOrder) -> Calls:
    def prepare(record: Record) -> Request:
        what = "prepare the snapshot"
        return cloud.ask(Snapshots, what, lambda snapshots: snapshots.prepare_snapshot(order, record))

    return Calls(
        prepare=prepare,
        made=(ResourceKind.SNAPSHOT,),
        told="a snapshot",
    )


def _image_calls(cloud: Cloud, order: SnapshotOrder, billed: ResourceKind) -> Calls:
    def prepare(record: Record) -> Request:
        return cloud.ask(Images, "prepare the image", lambda images: images.prepare_image(order, record))

    return Calls(
        prepare=prepare,
        made={ResourceKind.IMAGE, billed},
        told="an image",
        prepare_s=COMPLETE_TIMEOUT_S,  # a cloud may make it of a complete snapshot alone
        create_s=COMPLETE_TIMEOUT_S,  # or need the disk until it is complete
    )


def _write_out(context: Context, holder: Box) -> None:
    """Saves the work of a box, and writes it to its disks.

    Raises:
        ConnectionFailedError: the box does not answer.
    """
    assert context.state is not None  # noqa: S101  (the keys are there)
    [node] = targets(holder, key_folder(context.state, holder.id), context.proxy_command)
    save_work(context, holder, node)
    write_all(context, holder, node)


def _order(context: Context, plan: SnapshotPlan) -> SnapshotOrder:
    ids, source = new_ids(context, Snapshot, plan.name, plan.place, plan.keep), plan.source
    return SnapshotOrder(
        key=ids.key,
        name=ids.name,
        account=plan.place.account,
        region=plan.place.region,
        of=source.machine(0) if isinstance(source, Box) else ref_of(context, source, ResourceKind.DISK),
        size_gib=plan.size_gib,
        keep_days=math.ceil(plan.keep / DAY) + 1,
        tags=ids.tags,
    )

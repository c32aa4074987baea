"""Creates volumes: encrypted disks that outlive boxes. They end by the same code as boxes."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from gpucloud.boxes.creation import create, prepare
from gpucloud.boxes.launch import abandon, check_name, note_left
from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import CloudError, GpucloudError
from gpucloud.journal.events import Hashed, Intended, StateChanged
from gpucloud.journal.facts import Facts, Volume, Wanted
from gpucloud.journal.lifecycle import BoxState, Kind, new_id
from gpucloud.journal.records import Box
from gpucloud.planning.volume_plan import VolumePlan
from gpucloud.resources import (
    Resource,
    ResourceKind,
    Search,
    Tags,
    VolumeOrder,
    cloud_name,
    expires_text,
    request_hash,
    token_for,
)
from gpucloud.runtime.context import Context


def create_volume(context: Context, plan: VolumePlan) -> Box:
    """Creates a volume, and leaves nothing behind if that fails.

    Raises:
        UsageError: the name is taken; nothing was spent.
        CloudError: the cloud refused; nothing is left.
        OwedError: something may still be billed.
        InterruptedBySignal: ended by a signal; nothing is left.
    """
    check_name(context, plan.name)
    order = _order(context, plan)
    cloud = context.clouds.usable(plan.place.cloud)
    volume = context.journal.plan_box(
        id=order.tags.box,
        name=plan.name,
        owner=context.owner,
        run_id=None,
        op=order.tags.op,
        expires_at=order.tags.ends_at,
        facts=Facts(
            wanted=Wanted(spec={}, disk_gib=plan.size_gib),
            listed=plan.listed,
            volume=Volume(keep_s=plan.keep.total_seconds()),
        ),
        lease=context.lease(),
        kind=Kind.VOLUME,
    )
    context.tasks.clean_up = volume.removal
    try:
        with about(box=volume.id):
            _buy(context, volume, cloud, order, plan)
    except BaseException as error:
        if isinstance(error, CloudError):
            with suppress(GpucloudError):  # a journal that cannot be written is handled below
                note_left(context, volume, cloud.name, order.region)
        abandon(context, volume, error)
        raise
    context.journal.release(volume)
    return context.journal.box(volume.id)


def _order(context: Context, plan: VolumePlan) -> VolumeOrder:
    now, place = context.clock().replace(microsecond=0), plan.place
    id_ = new_id("v-", now, context.randomness(10))
    op = new_id("op-", now, context.randomness(10))
    zone = place.zone or ""
    return VolumeOrder(
        key=token_for(op=op, account=place.account, region=place.region, zone=zone, attempt=1),
        name=cloud_name(plan.name, id_),
        account=place.account,
        region=place.region,
        zone=zone,
        size_gib=plan.size_gib,
        tags=Tags(
            owner=context.owner,
            box=id_,
            op=op,
            run="",
            expires=expires_text(now + plan.keep),
            volume=plan.name,
            retain=True,
        ),
    )


def _buy(context: Context, volume: Box, cloud: Cloud, order: VolumeOrder, plan: VolumePlan) -> None:
    """Writes the intent, prepares, creates, and journals the disk."""
    intent = f"{volume.op}.1"
    intended = Intended(
        intent=intent,
        op=volume.op,
        cloud=cloud.name,
        account=order.account,
        region=order.region,
        zone=order.zone,
        token=order.key,
        name=order.name,
        expires=order.tags.expires,
        facts=Facts(place=plan.place),
    )
    context.journal.write(volume, intended)
    context.tell("create", f"{order.size_gib} GiB in {cloud.name} {order.zone or order.region}")
    request = prepare(context, volume, cloud, order, partial(cloud.prepare_volume, order))
    context.journal.write(volume, Hashed(intent=intent, request_hash=request_hash(request)))
    create(
        context,
        volume,
        cloud,
        order,
        intent=intent,
        call=lambda before: (cloud.create_volume(request, before=before)[0],),
        look=lambda: _look(cloud, order),
    )
    context.journal.write(volume, StateChanged(state=BoxState.READY))


def _look(cloud: Cloud, order: VolumeOrder) -> list[Resource]:
    """The disk of a create call without a clear answer."""
    found = cloud.find(Search(box=order.tags.box, regions=(order.region,)))
    return [resource for resource in found.resources if resource.ref.kind is ResourceKind.DISK]

"""Creates volumes: encrypted disks that outlive boxes, blank or filled from a snapshot."""

from __future__ import annotations

from functools import partial

from gpucloud.clouds.abilities import Volumes
from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.provider import Record
from gpucloud.journal.facts import Facts, Snapshot, Volume, Wanted
from gpucloud.journal.kinds import Kind
from gpucloud.journal.records import Box
from gpucloud.planning.volume_plan import VolumePlan
from gpucloud.purchase.volume_use import ref_of
from gpucloud.resources import Request, ResourceKind, VolumeOrder
from gpucloud.runtime.context import Context
from gpucloud.storage.storage_purchase import Calls, buy, new_ids


def create_volume(context: Context, plan: VolumePlan, *, attended: bool = False) -> Box:
    """Creates a volume, and leaves nothing behind if that fails.

    One that is ``attended`` ends with this process, which still holds it afterwards, or with its box.

    Raises: as :func:`gpucloud.storage.storage_purchase.buy`.
    """
    cloud = context.clouds.usable(plan.place.cloud)
    order = _order(context, plan)
    source = plan.snapshot.snapshot if plan.snapshot and plan.snapshot.snapshot else Snapshot()
    calls = Calls(
        prepare=partial(_prepare, cloud, order),
        made=(ResourceKind.DISK,),
        told=f"{order.size_gib} GiB in {cloud.name} {order.zone or order.region}",
    )
    return buy(
        context,
        cloud,
        order,
        calls,
        name=plan.name,
        kind=Kind.VOLUME,
        place=plan.place,
        facts=Facts(
            wanted=Wanted(spec={}, disk_gib=plan.size_gib),
            listed=plan.listed,
            ceiling=plan.ceiling,
            attended=attended,
            volume=Volume(keep_s=plan.keep.total_seconds(), mounted=source.mounted, label=source.label),
        ),
    )


def _order(context: Context, plan: VolumePlan) -> VolumeOrder:
    ids, place = new_ids(context, Kind.VOLUME, plan.name, plan.place, plan.keep), plan.place
    return VolumeOrder(
        key=ids.key,
        name=ids.name,
        account=place.account,
        region=place.region,
        zone=place.zone or "",
        size_gib=plan.size_gib,
        tags=ids.tags,
        snapshot=ref_of(context, plan.snapshot, ResourceKind.SNAPSHOT) if plan.snapshot else None,
    )


def _prepare(cloud: Cloud, order: VolumeOrder, record: Record) -> Request:
    return cloud.ask(Volumes, "prepare the volume", lambda volumes: volumes.prepare_volume(order, record))

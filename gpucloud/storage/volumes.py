"""Creates volumes: encrypted disks that outlive boxes, blank or filled from a snapshot."""

from __future__ import annotations

from functools import partial

from gpucloud.clouds.abilities import Volumes
from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.provider import Record
from gpucloud.journal.facts import Facts, VolumeFacts
from gpucloud.journal.records import Volume
from gpucloud.planning.volume_plan import VolumePlan
from gpucloud.purchase.volume_use import ref_of
from gpucloud.resources import Request, ResourceKind, VolumeOrder
from gpucloud.runtime.context import Context
from gpucloud.storage.storage_purchase import Calls, buy, new_ids


def create_volume(context: Context, plan: VolumePlan, *, attended: bool = False) -> Volume:
    """Creates a volume, and leaves nothing behind if that fails.

    One that is ``attended`` ends with this process, which still holds it afterwards, or with its box.

    Raises: as :func:`gpucloud.storage.storage_purchase.buy`.
    """
    cloud = context.clouds.usable(plan.place.cloud)
    order = _order(context, plan)
    source = plan.snapshot
    calls = Calls(
        prepare=partial(_prepare, cloud, order),
        made=(ResourceKind.DISK,),
        told=f"{order.size_gib} GiB in {cloud.name} {order.zone or order.region}",
    )
    return buy(
        context,
        Volume,
        cloud,
        order,
        calls,
        name=plan.name,
        place=plan.place,
        facts=Facts(
            disk_gib=plan.size_gib,
            listed=plan.listed,
            ceiling=plan.ceiling,
            attended=attended,
            volume=VolumeFacts(
                keep_s=plan.keep.total_seconds(),
                mounted=source.mounted if source else None,
                label=source.label if source else None,
            ),
        ),
    )


def _order(context: Context, plan: VolumePlan) -> VolumeOrder:
    ids, place = new_ids(context, Volume, plan.name, plan.place, plan.keep), plan.place
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

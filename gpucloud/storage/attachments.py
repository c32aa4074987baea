"""Attaches volumes to boxes: one writer each, by the volume's lease until the journal names the box.

The journal names a box as the holder of a volume before the call that attaches it. A holder that has ended
holds nothing: :func:`free_unused` notes that, and the volume is kept from the end of the box on.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial

from gpucloud.clouds.abilities import KnownTimers, Volumes
from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.ending.deadline import move_timers
from gpucloud.ending.discovery import DiscoveryResult
from gpucloud.errors import CloudError, UsageError
from gpucloud.journal.events import Extended, Seen
from gpucloud.journal.facts import Facts, VolumeFacts
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, HANDED_OVER, OVER, BoxState
from gpucloud.journal.records import Box, Volume
from gpucloud.planning.volume_choice import UsableVolume, usable_volumes
from gpucloud.purchase.volume_use import chosen_at, ref_of
from gpucloud.resources import Ref, Resource, ResourceKind, State, short_id
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import CALL_TIMEOUT_S, TimedOutError
from gpucloud.spec.model import Spec

ATTACH_TIMEOUT_S = 120.0
FREE_S = 2.0

Attached = tuple[UsableVolume, Sequence[str]]
"""A volume that is attached, and the paths at which its machine may show the device."""


@contextmanager
def holding(context: Context, spec: Spec) -> Generator[tuple[UsableVolume, ...]]:
    """Holds every volume that a box may use, so that nobody else attaches one meanwhile.

    Raises:
        UsageError: one cannot be used, is gone from its cloud, or another process works on it.
        CloudError: its cloud does not answer.
    """
    taken: list[Volume] = []
    found: list[UsableVolume] = []
    try:
        for group in usable_volumes(context.journal, context.owner, spec, context.clock()):
            for each in group:
                volume = context.take(each.volume)
                if volume is None:
                    raise UsageError(
                        f"another process works on volume {each.volume.name!r}",
                        hint="wait for it, then repeat",
                    )
                taken.append(volume)
                found.append(replace(each, volume=volume))
        # As they are now that they are held: one may have been attached in between.
        groups = usable_volumes(context.journal, context.owner, spec, context.clock())
        usable = {each.volume.id for group in groups for each in group}
        held = tuple(each for each in found if each.volume.id in usable)
        _as_clouds_show(context, [each.volume for each in held])
        yield held
    finally:
        for volume in taken:
            context.journal.release(volume)


def refuse_detached(context: Context, box: Box) -> None:
    """Refuses to start a box without its volumes: what is written to their paths would go to its root disk.

    Raises:
        UsageError: somebody detached or deleted one.
        CloudError: its cloud does not answer.
    """
    held = [each for each in context.journal.holdings(Volume, owner=box.owner) if each.holder == box.id]
    for volume, disk in _as_clouds_show(context, held):
        if not _has(disk, box):
            where = f"attached to {short_id(disk.attached_to)}" if disk.attached_to else "not attached"
            again = f"attach {short_id(disk.ref.id)} to {short_id(box.machine(0).id)} again in the console"
            other = f"gpucloud down {box.name}; gpucloud launch --volume {volume.name}:PATH …"
            raise UsageError(
                f"volume {volume.name!r} of {box.name!r} is {where}: somebody changed that in {volume.cloud}",
                hint=f"{again}, or launch another box with it: {other}",
            )


def differences(context: Context, discovery: DiscoveryResult) -> list[str]:
    """What somebody did to the owner's volumes in a console, as a search of all of the owner's shows it."""
    volumes = context.journal.holdings(Volume, owner=context.owner, over=False)
    settled = [
        each
        for each in volumes
        if each.state is BoxState.READY and context.clock() - each.created_at > CONSISTENCY_WINDOW
    ]
    holders = {box.id: box for box in context.journal.known(Box, {each.holder for each in settled})}
    shown = {each.ref: each for each in discovery.resources}
    found: list[str] = []
    for volume in settled:
        disk, holder = ref_of(context, volume, ResourceKind.DISK), holders.get(volume.holder)
        if not discovery.has_read(disk.cloud, disk.region):
            continue
        if disk not in shown:
            found.append(f"Volume {volume.name} is gone: {short_id(disk.id)} was deleted in {disk.cloud}")
        elif holder is not None and holder.state in HANDED_OVER and not _has(shown[disk], holder):
            found.append(f"Volume {volume.name} is not attached to {holder.name}, which has its path")
    return found


def _has(disk: Resource, holder: Box) -> bool:
    return disk.attached_to.casefold() == holder.machine(0).id.casefold()


def _as_clouds_show(context: Context, volumes: Sequence[Volume]) -> list[tuple[Volume, Resource]]:
    """Volumes, each with its disk as its cloud shows it now; all are asked at once.

    Raises:
        UsageError: one is gone.
        CloudError: a cloud does not answer.
    """
    disks = [ref_of(context, volume, ResourceKind.DISK) for volume in volumes]
    calls = [context.tasks.start(partial(context.clouds.usable(disk.cloud).get, disk)) for disk in disks]
    found: list[tuple[Volume, Resource]] = []
    for volume, disk, call in zip(volumes, disks, calls, strict=True):
        shown: Resource | None = context.tasks.wait(call, CALL_TIMEOUT_S)
        if shown is None or shown.state is State.GONE:
            raise UsageError(
                f"volume {volume.name!r} is gone from {disk.cloud} {disk.region}: {short_id(disk.id)} was"
                " deleted there",
                hint=f"its data is lost; take it out of the journal: gpucloud volume delete {volume.name}",
            )
        found.append((volume, shown))
    return found


def attach_all(context: Context, box: Box, volumes: Sequence[UsableVolume]) -> list[Attached]:
    """Attaches the volumes of a box to its machine.

    Raises:
        CloudError: the cloud refused.
    """
    if not volumes or box.place is None:
        return []
    cloud, place = context.clouds.usable(box.cloud), box.place
    found: list[Attached] = []
    chosen = chosen_at(volumes, place.cloud, place.region, place.zone or "")
    with about(box=box.id):
        for number, each in enumerate(chosen):
            disk = ref_of(context, each.volume, ResourceKind.DISK)
            context.tell("volume", f"attaching {each.volume.name} for {each.path}")
            call = partial(_attach, cloud, disk, box.machine(0), number)
            found.append((each, context.tasks.run(call, ATTACH_TIMEOUT_S)))
            _move_tag(context, cloud, context.journal.now_of(each.volume), disk)
    _let_go_of_others(context, volumes, {each.volume.id for each in chosen})
    return found


def free_unused(context: Context) -> bool:
    """Notes which volumes no living box holds any more: each is kept from the end of its box on.

    Returns:
        Whether there were any.
    """
    volumes = context.journal.holdings(Volume, owner=context.owner)
    held = [each for each in volumes if each.is_in_use and each.state is BoxState.READY]
    holders = {box.id: box for box in context.journal.known(Box, {each.holder for each in held})}
    found = False
    for volume in held:
        holder = holders.get(volume.holder)
        if holder is None or holder.state in OVER:
            ended_at = holder.ended_at if holder else None
            _free(context, volume, ended_at or context.clock())
            found = True
    return found


def _free(context: Context, volume: Volume, used_at: datetime) -> None:
    """Journals that a volume is not in use since a moment; its tag follows, or the next use moves it."""
    taken = context.take(volume)
    if taken is None:
        return
    try:
        end = used_at.replace(microsecond=0) + taken.keep
        free = VolumeFacts(holder="", used_at=used_at)
        context.journal.write(taken, Extended(expires_at=end))
        context.journal.write(taken, Seen(facts=Facts(volume=free)))
        with context.tasks.within(FREE_S):  # other clouds are not held up by one that does not answer
            _move_tag(
                context,
                context.clouds.usable(taken.cloud),
                context.journal.held(taken),
                ref_of(context, taken, ResourceKind.DISK),
            )
    except (CloudError, TimedOutError) as error:
        context.warn("volume", f"The deadline of volume {volume.name} is not in its tags: {error}")
    finally:
        context.journal.release(taken)


def _let_go_of_others(context: Context, volumes: Sequence[UsableVolume], used: set[str]) -> None:
    """Gives back the volumes of other places, at which the launch has tried before."""
    for each in volumes:
        volume = context.journal.now_of(each.volume)
        if volume.id not in used and volume.is_in_use:
            context.journal.write(each.volume, Seen(facts=Facts(volume=VolumeFacts(holder=""))))


def _attach(cloud: Cloud, disk: Ref, machine: Ref, number: int) -> Sequence[str]:
    what = f"attach disk {disk.id}"
    return cloud.ask(Volumes, what, lambda volumes: volumes.attach(disk, machine, number))


def _move_tag(context: Context, cloud: Cloud, volume: Volume, disk: Ref) -> None:
    no_timers = KnownTimers((), lambda _: None)
    context.tasks.run(partial(move_timers, cloud, [disk], volume.expires_at, no_timers), ATTACH_TIMEOUT_S)

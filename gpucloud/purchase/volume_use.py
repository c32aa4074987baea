"""Which volumes an attempt uses: the journal names its box as their holder before anything is bought."""

from __future__ import annotations

from collections.abc import Sequence

from gpucloud.journal.events import Extended, Seen
from gpucloud.journal.facts import Facts, VolumeFacts
from gpucloud.journal.records import Box, Snapshot, Volume
from gpucloud.planning.volume_choice import UsableVolume
from gpucloud.resources import Ref, ResourceKind
from gpucloud.runtime.context import Context


def chosen_at(volumes: Sequence[UsableVolume], cloud: str, region: str, zone: str) -> list[UsableVolume]:
    """The volumes for a machine in a place: for each path, the first that is there."""
    by_path: dict[str, UsableVolume] = {}
    for each in volumes:
        if each.is_in(cloud, region, zone):
            by_path.setdefault(each.path, each)
    return list(by_path.values())


def ref_of(context: Context, stored: Volume | Snapshot, kind: ResourceKind) -> Ref:
    """What a volume or a snapshot that is there is in its cloud."""
    return next(row.ref for row in context.journal.resources(stored.id) if row.ref.kind is kind)


def note_use(context: Context, volume: Volume, box: Box) -> None:
    """Journals that a box holds a volume from now on. Nothing is asked of a cloud."""
    now = context.clock()
    used = VolumeFacts(holder=box.id, used_at=now)
    context.journal.write(volume, Extended(expires_at=(box.expires_at or now) + volume.keep))
    context.journal.write(volume, Seen(facts=Facts(volume=used)))

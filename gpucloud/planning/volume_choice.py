"""The volumes that a spec asks for: which of them can be used now, and where a box that uses them must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gpucloud.errors import UsageError
from gpucloud.journal.lifecycle import OVER, BoxState
from gpucloud.journal.records import Box, Volume
from gpucloud.journal.store import Journal
from gpucloud.spec.model import Spec
from gpucloud.spec.mounts import Mount
from gpucloud_pricing.demand import VolumePlace


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableVolume:
    """A volume that can be attached now, and the path at which a box wants it."""

    volume: Volume
    path: str

    def is_in(self, cloud: str, region: str, zone: str) -> bool:
        """Whether a machine in this place can use it."""
        place = self.volume.place
        return place is not None and (place.cloud, place.region, place.zone or "") == (cloud, region, zone)


def usable_volumes(
    journal: Journal, owner: str, spec: Spec, now: datetime
) -> tuple[tuple[UsableVolume, ...], ...]:
    """The volumes of a spec that can be used now: for each path, one or several to choose from.

    Raises:
        UsageError: none of those named for a path can be used; says why.
    """
    return tuple(_usable(journal, owner, mount, now) for mount in spec.mounts)


def _usable(journal: Journal, owner: str, mount: Mount, now: datetime) -> tuple[UsableVolume, ...]:
    reasons: list[str] = []
    found: list[UsableVolume] = []
    for name in mount.names:
        volumes = [each for each in journal.named(owner, name) if isinstance(each, Volume)]
        living = [each for each in volumes if each.state not in OVER]
        reason = (
            _refusal(journal, living[0], now) if living else "does not exist" if not volumes else "is deleted"
        )
        if reason is None:
            found.append(UsableVolume(volume=living[0], path=mount.path))
        else:
            reasons.append(f"volume {name!r} {reason}")
    if not found:
        raise UsageError(f"--volume: {'; '.join(reasons)}", hint="see your volumes: gpucloud volume list")
    return tuple(found)


def _refusal(journal: Journal, volume: Volume, now: datetime) -> str | None:
    """Why a volume cannot be used now, as the rest of a sentence."""
    holder = holder_of(journal, volume)
    if holder is not None:
        return f"is attached to box {holder.name!r}"
    if volume.state is not BoxState.READY:
        return f"is {volume.state}"
    if volume.expires_at is not None and volume.expires_at < now:
        return "is past its deadline"
    return None


def holder_of(journal: Journal, volume: Volume) -> Box | None:
    """The living box that a volume is attached to."""
    found = journal.known(Box, [volume.holder]) if volume.holder else []
    return next((box for box in found if box.state not in OVER), None)


def places_of(groups: Sequence[Sequence[UsableVolume]]) -> tuple[tuple[VolumePlace, ...], ...]:
    """The places of volumes, for the market: a box needs one of each group in its place."""
    return tuple(
        tuple(
            VolumePlace(
                name=each.volume.name,
                cloud=each.volume.place.cloud,
                region=each.volume.place.region,
                zone=each.volume.place.zone,
            )
            for each in group
            if each.volume.place is not None
        )
        for group in groups
    )

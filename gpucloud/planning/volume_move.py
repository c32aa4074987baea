"""The volumes that a box takes along to another place: how each gets there, and what it is called there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count, groupby

from gpucloud.errors import UsageError
from gpucloud.journal.records import Box, Holding, Snapshot, Volume
from gpucloud.journal.store import Journal
from gpucloud.planning.plan import Candidate
from gpucloud.planning.snapshot_plan import SnapshotPlan, plan_snapshot
from gpucloud.planning.volume_plan import VolumePlan, volume_beside, volume_sizes_gib
from gpucloud.runtime.context import Context
from gpucloud.spec.file import load_spec
from gpucloud_pricing import Market

KEEP_COPY = timedelta(days=1)
"""The deadline of a copy that a move makes and deletes: only a journal that is lost lets it live so long."""
NAME_LENGTH = 40
COPY = "-copy"
_NUMBERED = re.compile(r"(.*)-([1-9][0-9]{0,3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMove:
    """A volume that a box takes along.

    Attributes:
        volume: the volume, which stays.
        path: where the box mounts it.
        name: the name of the new one.
        copy: the snapshot through which its data gets to other zones of its region.
    """

    volume: Volume
    path: str
    name: str
    copy: SnapshotPlan

    def is_near(self, cloud: str, region: str) -> bool:
        """Whether a snapshot of it can be restored there; to all other places its files are copied."""
        return (self.copy.place.cloud, self.copy.place.region) == (cloud, region)

    def beside(
        self, context: Context, market: Market, machine: Candidate, snapshot: Snapshot | None
    ) -> VolumePlan:
        """The new volume in the place of a machine: of the same size, and kept as long.

        Args:
            context: clouds, journal, clock and progress of this call.
            market: the prices of disks.
            machine: what is to use it.
            snapshot: what it is filled from; ``None`` for a blank volume.

        Raises:
            UsageError: its cloud does not sell that size.
            CloudError: its cloud cannot be used.
        """
        least, _ = volume_sizes_gib(context.clouds.usable(machine.cloud))
        return volume_beside(
            context,
            market,
            machine,
            name=self.name,
            size_gib=max(self.copy.size_gib, least),
            keep=self.volume.keep,
            snapshot=snapshot,
        )


@dataclass(slots=True)
class FreeNames:
    """The names of an owner that are not taken."""

    taken: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, journal: Journal, owner: str) -> FreeNames:
        """Those of a journal."""
        return cls({each.name for each in journal.holdings(Holding, owner=owner)})

    def first(self, name: str) -> str:
        """This name if it is free, or the next free one after it. It is taken then."""
        if name in self.taken:
            return self.after(name)
        self.taken.add(name)
        return name

    def after(self, name: str) -> str:
        """The next free name after this one: ``x-2`` after ``x``, ``x-3`` after ``x-2``. It is taken then."""
        numbered = _NUMBERED.fullmatch(name)
        stem, first = (numbered[1], int(numbered[2]) + 1) if numbered else (name, 2)
        names = (f"{stem[: NAME_LENGTH - len(str(n)) - 1]}-{n}" for n in count(first))
        found = next(each for each in names if each not in self.taken)
        self.taken.add(found)
        return found


def volume_moves(journal: Journal, market: Market, box: Box, names: FreeNames) -> tuple[VolumeMove, ...]:
    """The volumes that a box has mounted, in the order of its spec.

    Raises:
        UsageError: one of them cannot be copied; says why.
    """
    held = [each for each in journal.holdings(Volume, owner=box.owner) if each.holder == box.id]
    found: list[VolumeMove] = []
    for mount in load_spec(None, dict(box.wanted.spec)).mounts:
        mine = [each for each in held if each.name in mount.names]
        if not mine:
            raise UsageError(
                f"{box.name!r} cannot be moved: the journal does not know its volume at {mount.path}",
                hint="see your volumes: gpucloud volume list",
            )
        name = names.after(mine[0].name)
        copied = names.first(f"{mine[0].name[: NAME_LENGTH - len(COPY)]}{COPY}")
        copy = plan_snapshot(market, mine[0], name=copied, keep=KEEP_COPY)
        found.append(VolumeMove(volume=mine[0], path=mount.path, name=name, copy=copy))
    return tuple(found)


def stops(attempts: Iterable[Candidate]) -> Iterator[Sequence[Candidate]]:
    """The attempts of a plan, in their order, by place: volumes are made in a place before its machine."""
    for _, each in groupby(attempts, key=lambda attempt: (attempt.cloud, attempt.region, attempt.zone)):
        yield tuple(each)

"""The results of the API's calls, other than boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # each command loads the parts that it uses
    from gpucloud.api.box import Box
    from gpucloud.api.snapshot import Snapshot
    from gpucloud.api.volume import Volume
    from gpucloud.ending.discovery import DiscoveryResult
    from gpucloud.ending.sweep import Find
    from gpucloud.errors import GpucloudError
    from gpucloud.journal.runs import Failure
    from gpucloud.planning.lifetime import CostLimit
    from gpucloud.planning.plan import Plan
    from gpucloud.resources import Ref, Resource, Search, UnreadableRegion
    from gpucloud.runs.tend import Tended
    from gpucloud.ssh.client import Target
    from gpucloud.ssh.hosts import Host
    from gpucloud_pricing.values import Money


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """The completeness of a search through the clouds.

    Attributes:
        unread: regions about which nothing may be concluded; ``*`` for all of a cloud that did not answer.
        left_out: clouds that are not set up here, with the reason.
        answered: how many clouds answered.
        unjudged: resources with the owner's tag and tags that gpucloud never wrote; they are left as they
            are.
        of_others: what is billed of a run that was searched for, and has another owner's tag; it is left.
    """

    unread: tuple[UnreadableRegion, ...] = ()
    left_out: Mapping[str, str]
    answered: int
    unjudged: tuple[Resource, ...] = ()
    of_others: tuple[Resource, ...] = ()

    @classmethod
    def of(cls, discovery: DiscoveryResult, mine: Search) -> Searched:
        """The completeness of a discovery, and the owner's resources with tags that gpucloud never wrote."""
        from gpucloud.ending.discovery import unjudged

        return cls(
            unread=tuple(discovery.unread),
            left_out=discovery.left_out,
            answered=len(discovery.clocks),
            unjudged=tuple(unjudged(discovery, mine)),
            of_others=tuple(
                each for each in discovery.resources if each.ref.kind.billable and not mine.admits(each.tags)
            ),
        )

    @property
    def nowhere(self) -> bool:
        """Whether every cloud was left out."""
        return self.answered == 0 and not self.unread


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Boxes updated from clouds and guards.

    ``untracked`` are resources of the owner, or of all owners, that belong to no living box of the owner.
    """

    boxes: tuple[Box, ...]
    untracked: tuple[Resource, ...]
    searched: Searched


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """The boxes of a launch.

    Attributes:
        boxes: those that are ready.
        failure: why the others are not; ``None`` if all are ready.
    """

    boxes: tuple[Box, ...]
    failure: GpucloudError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The purchase to confirm: the first attempt of the plan that succeeds."""

    plan: Plan
    limit: CostLimit

    @property
    def ends_at(self) -> datetime | None:
        """When the box ends; ``None`` for never."""
        return self.limit.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The deleted boxes, and those that still live. ``searched`` is set if a run was searched for."""

    boxes: tuple[Box, ...]
    living: tuple[Box, ...]
    searched: Searched | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run that ended.

    Attributes:
        exit_code: of its command.
        failure: why that ended, where it did not by itself: its ``timeout_s`` was over.
        box: its last box.
        not_fetched: the files that could not be fetched.
        cost_so_far: what its boxes have cost, by currency.
    """

    exit_code: int
    failure: Failure | None
    box: Box
    not_fetched: tuple[str, ...]
    cost_so_far: tuple[Money, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What was added to the journal. ``troubles`` has the boxes whose timer could not be set."""

    boxes: tuple[Box, ...]
    volumes: tuple[Volume, ...]
    snapshots: tuple[Snapshot, ...]
    troubles: Sequence[GpucloudError]
    searched: Searched
    living: tuple[Box, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The result of a sweep.

    Attributes:
        finds: the resources that were found, wanted or not.
        ended: those that are deleted now.
        left: those that should be deleted, are billed, and still exist.
        tried: the number of resources that should be deleted.
        troubles: why some still exist.
        searched: the completeness of the search.
        living: the owner's living boxes.
    """

    finds: tuple[Find, ...]
    ended: frozenset[Ref]
    left: tuple[Find, ...]
    tried: int
    troubles: Sequence[GpucloudError]
    searched: Searched
    living: tuple[Box, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A box and who was let in, or no longer.

    Attributes:
        box: as it is now.
        fingerprint: of the key, as ``ssh-keygen -l`` shows it.
        changed: false if all was so before.
        nodes: how each node is reached that has the key now, or has it no longer.
        host_keys: the public host key of each of them.
        allow_from: the addresses that the box accepts.
        in_team: whether the journal is that of a team, in which others see the box.
    """

    box: Box
    fingerprint: str
    changed: bool
    nodes: tuple[Target, ...]
    host_keys: tuple[str, ...]
    allow_from: tuple[str, ...]
    in_team: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHosts:
    """The boxes as hosts for other ssh clients.

    Attributes:
        file: the file that each call keeps up to date.
        hosts: the nodes that can be reached.
        text: the content of the file, in the format of ``ssh_config(5)``.
    """

    file: Path
    hosts: tuple[Host, ...]
    text: str


class BoxDid(StrEnum):
    """What was done about a box that is to be replaced once its hardware is faulty."""

    LEFT = "left"  # nothing was to be done, or may be done
    REPLACED = "replaced"
    ENDED = "ended"  # it had been replaced before


@dataclass(frozen=True, slots=True, kw_only=True)
class TendedBox:
    """What was done about such a box, and why, in words; ``replaced_by`` is the name of the other one."""

    id: str
    name: str
    did: BoxDid
    message: str
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tending:
    """One look after everything.

    Attributes:
        runs: what was done for each run that was not over.
        boxes: what was done about each box of a launch with ``on_unhealthy: replace``.
        troubles: what could not be done; the next look goes on with it.
    """

    runs: tuple[Tended, ...]
    boxes: tuple[TendedBox, ...]
    troubles: tuple[GpucloudError, ...]

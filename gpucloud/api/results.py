"""What the calls of the API give, besides boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # each command loads the parts that it uses
    from gpucloud.api.box import Box
    from gpucloud.errors import GpucloudError
    from gpucloud.inventory.sweep import Find
    from gpucloud.planning.lifetime import CostLimit
    from gpucloud.planning.plan import Plan
    from gpucloud.resources import Ref, Resource, UnreadableRegion


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """How far a search through the clouds went.

    Attributes:
        unread: regions of which nothing may be concluded; ``*`` for all of a cloud that did not answer.
        left_out: clouds that are not set up here, with the reason.
        unjudged: what carries the owner's tag and tags that gpucloud never wrote: nothing is done to it.
    """

    unread: tuple[UnreadableRegion, ...] = ()
    left_out: Mapping[str, str]
    unjudged: tuple[Resource, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether every region was read, and everything in it was understood."""
        return not self.unread and not self.unjudged


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Boxes as clouds and guards say they are now.

    ``strangers`` are the owner's resources that belong to no living box of the journal.
    """

    boxes: tuple[Box, ...]
    strangers: tuple[Resource, ...]
    searched: Searched


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a launch is about to buy, for who confirms it: the first attempt of the plan that starts."""

    plan: Plan
    limit: CostLimit

    @property
    def ends_at(self) -> datetime | None:
        """When the box ends; ``None`` for never."""
        return self.limit.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What was taken down, and what lives on. ``searched`` is there where a run was looked for everywhere."""

    boxes: tuple[Box, ...]
    living: tuple[Box, ...]
    searched: Searched | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run that ended: the command's exit code, its box, and what could not be brought back."""

    exit_code: int
    box: Box
    not_fetched: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What was taken into the journal. ``troubles`` are boxes whose end could not be set."""

    boxes: tuple[Box, ...]
    troubles: Sequence[GpucloudError]
    searched: Searched
    living: tuple[Box, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep found and ended.

    Attributes:
        finds: what was found, wanted or not.
        ended: what is gone now.
        left: what was to be ended, is billed, and is not gone.
        tried: how many of the finds were to be ended.
        troubles: why some are not.
        searched: how far the search went.
        living: the owner's boxes that live on.
    """

    finds: tuple[Find, ...]
    ended: frozenset[Ref]
    left: tuple[Find, ...]
    tried: int
    troubles: Sequence[GpucloudError]
    searched: Searched
    living: tuple[Box, ...]

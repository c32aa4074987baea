"""The policy as the journal keeps it: what may be launched by those who share the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from gpucloud.journal.kinds import POLICY_ID

EVERYBODY = "*"
"""In a limit by owner: all who are not named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is allowed; an empty field, or ``None``, is no rule.

    Attributes:
        clouds: names, globs, ``!x`` to leave out.
        regions: as ``clouds``, with geo groups.
        instance_types: as ``clouds``.
        gpus: models, as ``clouds``.
        purchase: ways of paying.
        max_price: in USD per hour and node, compute only.
        boxes: how many boxes of an owner may live, by owner; those that are stopped count.
        per_hour: what the holdings of an owner may cost in USD per hour together, by owner.
        tags: names of tags that a box must have.
        ttl_s: how far off the end of a box may be, in seconds.
        checkpoint_to: where checkpoints may be kept: the beginnings of URLs.
    """

    clouds: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    purchase: tuple[str, ...] = ()
    max_price: Decimal | None = None
    boxes: Mapping[str, int] = field(default_factory=dict[str, int])
    per_hour: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    tags: tuple[str, ...] = ()
    ttl_s: int | None = None
    checkpoint_to: tuple[str, ...] = ()

    @property
    def ttl(self) -> timedelta | None:
        """How far off the end of a box may be."""
        return None if self.ttl_s is None else timedelta(seconds=self.ttl_s)

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the rules that there are, as in a file."""
        names = ((name.removesuffix("_s"), getattr(self, name)) for name in self.__slots__)
        return tuple(name for name, value in names if value not in (None, (), {}))


NO_RULES = Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy in force, the owner id of who applied it, and when; ``number`` is that of its last event."""

    id: str = POLICY_ID
    rules: Rules
    by: str
    at: datetime
    number: int = 0

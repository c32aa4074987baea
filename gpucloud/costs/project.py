"""Projects: several specs with the data between them, and the cheapest places for all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cached_property

from gpucloud.costs.workload import Workload
from gpucloud.errors import UsageError
from gpucloud.spec.fields import nearest
from gpucloud.spec.model import Spec

INTERNET = "internet"
"""The target of data that leaves the project."""

MOST_PARTS = 8
"""The most parts: each doubles the sets of parts that are considered (:mod:`gpucloud.costs.assignment`)."""

MOST_GIB = 1_000_000_000
"""The largest transfer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One kind of work of a project, with boxes of its own.

    Attributes:
        name: its name in the project.
        spec: its boxes.
        workload: its hours and what else is billed; data to the internet is a transfer of the project.
        monthly: whether the hours are those of each month, of a profile.
        lasts: for how long a profile recurs; commitments up to this term are considered.
    """

    name: str
    spec: Spec
    workload: Workload
    monthly: bool = False
    lasts: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Data from one part to another, or to :data:`INTERNET`, in the period of the project, in GiB."""

    origin: str
    target: str
    gib: Decimal


@dataclass(frozen=True, kw_only=True)
class Project:
    """Parts, and the data that moves between them.

    Costs are those of a month if a part has a profile, otherwise those of all the hours.

    Raises:
        UsageError: there are no parts or too many, or a transfer is not between two of them.
    """

    parts: Sequence[Part]
    transfers: Sequence[Transfer] = ()

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if not 1 <= len(names) <= MOST_PARTS:
            raise UsageError(f"a project has 1 to {MOST_PARTS} parts, this one has {len(names)}")
        if len({*names}) < len(names) or INTERNET in names:
            raise UsageError(f"the names of parts must differ from each other and from {INTERNET}")
        for transfer in self.transfers:
            if (problem := problem_of(transfer, names)) is not None:
                raise UsageError(problem)

    @cached_property
    def monthly(self) -> bool:
        """Whether the costs are those of a month."""
        return any(part.monthly for part in self.parts)

    def number_of(self, name: str) -> int:
        """The position of a part."""
        return next(number for number, part in enumerate(self.parts) if part.name == name)


def problem_of(transfer: Transfer, names: Iterable[str]) -> str | None:
    """Why a transfer is not possible between parts of these names; ``None`` if it is."""
    names = list(names)
    for name, allowed in ((transfer.origin, names), (transfer.target, [*names, INTERNET])):
        if name not in allowed:
            return f"there is no part {name!r}; allowed: {', '.join(allowed)}{nearest(name, allowed)}"
    if transfer.origin == transfer.target:
        return f"{transfer.origin} cannot send data to itself"
    if not 0 < transfer.gib <= MOST_GIB:
        return f"size: {transfer.gib} GiB is not allowed; allowed: above 0, at most {MOST_GIB}"
    return None

"""The colours of the output, by what they mean. Whether a stream gets any is decided in ``output``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a text in colour is. The values are parameters of ECMA-48's SGR sequence."""

    HEADING = "1"
    CHEAPEST = "1;32"
    SPOT = "36"
    STALE = "33"
    FAILED = "31"
    OVERDUE = "35"
    ERROR = "1;31"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text of a table with a role."""

    text: str
    role: Role | None = None

    def __str__(self) -> str:
        """The text alone."""
        return self.text


def paint(text: str, role: Role | None) -> str:
    """A text in the colour of its role; without a role, as it is."""
    return text if role is None or not text else f"\x1b[{role}m{text}\x1b[0m"

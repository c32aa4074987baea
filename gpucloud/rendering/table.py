"""A table as a value: its cells, and which columns give way where there is little room."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpucloud.rendering.texts import clean


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


EMPTY = Cell("-")
"""The cell of a value that is not known."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings.

    Attributes:
        columns: the values of each column by its heading; ``None`` is shown as ``-``.
        right: the headings of columns that are aligned to the right (numbers).
        optional: the headings of columns that are left out first where there is no room for all.
        left_out: how many rows more there are.
    """

    columns: Mapping[str, Sequence[object]]
    right: Collection[str] = ()
    optional: Sequence[str] = ()
    left_out: int = 0

    @classmethod
    def of_rows(
        cls,
        headings: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        right: Collection[str] = (),
        optional: Sequence[str] = (),
    ) -> Table:
        """A table of rows with a value for each heading."""
        columns = list(zip(*rows, strict=True)) or [()] * len(headings)
        return cls(dict(zip(headings, columns, strict=True)), right=right, optional=optional)

    def cells(self) -> dict[str, list[Cell]]:
        """The cells of each column."""
        return {heading: [_cell(value) for value in values] for heading, values in self.columns.items()}


def has_value(cells: Sequence[Cell]) -> bool:
    """Whether a column tells anything: a column of dashes is left out, except from a table without rows."""
    return not cells or any(cell != EMPTY for cell in cells)


def _cell(value: object) -> Cell:
    """A value as a cell; foreign text cannot steer the terminal."""
    if value is None:
        return EMPTY
    role = value.role if isinstance(value, Cell) else None
    return Cell(clean(str(value)).replace("\n", " ").replace("\t", " "), role)

"""A table on a terminal or in a pipe: which columns are shown, their widths, the order of the rows.

A table in a pipe has one line per row and every column. On a terminal it fits the width: types are shortened
in the middle, prose wraps between words, and columns that still have no room are left out and named.
No word and no identifier is broken.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest

from gpucloud.errors import UsageError
from gpucloud.rendering.table import Cell, Role

PROSE = {
    "STATE": 14,
    "PAID AS": 12,
    **dict.fromkeys(("FLAGS", "WHY", "WHAT", "WRONG", "BRINGS", "INSTALLS", "OUTCOME"), 24),
}
"""The headings of columns whose cells are prose or lists, and their least widths: they wrap between words."""
SHORTENED = frozenset({"TYPE", "FOR EXAMPLE", "IN", "IMAGE"})
"""The headings of columns whose cells are shortened in the middle: instance types, images."""
SHORTEST = 18
"""How many characters of a shortened cell stay at least."""
GAP = 2
"""How many spaces are between two columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    cells: Sequence[Cell]
    right: bool = False

    @property
    def natural(self) -> int:
        """The width without wrapping and shortening, in cells of the terminal."""
        return max(cells_of(self.name), *(cells_of(cell.text) for cell in self.cells), 0)

    @property
    def least(self) -> int:
        """The width below which the column is of no use."""
        texts = [cell.text for cell in self.cells]
        if self.name in SHORTENED:
            return max(cells_of(self.name), _distinct_width(texts))
        if self.name in PROSE:
            words = [cells_of(word) for text in texts for word in text.split()]
            return min(self.natural, max(cells_of(self.name), PROSE[self.name], *words))
        return self.natural

    def lines(self, cell: Cell, width: int) -> list[str]:
        """A cell in a width: shortened or wrapped."""
        if cells_of(cell.text) <= width:
            return [cell.text]
        if self.name in SHORTENED:
            return [shortened(cell.text, width)]
        return textwrap.wrap(cell.text, width, break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True, slots=True)
class Fitted:
    """The columns that have room, their widths, and the headings of those that have none."""

    columns: Sequence[Column]
    widths: Sequence[int]
    hidden: Sequence[str] = ()


def fit(columns: Sequence[Column], width: int | None, optional: Sequence[str] = ()) -> Fitted:
    """Lays columns out in a width.

    Args:
        columns: the columns; the first is always shown.
        width: the width of the terminal in cells; ``None`` for all columns with as much as they need.
        optional: the headings of columns that are left out first, in this order. After them, columns are left
            out from the end.
    """
    if width is None:
        return Fitted(columns, [column.natural for column in columns])
    least = {column.name: column.least for column in columns}
    order = [name for name in optional if name in least]
    order += [column.name for column in reversed(columns[1:]) if column.name not in order]
    hidden: list[str] = []
    while _sum(least.values()) > width and order:
        hidden.append(order.pop(0))
        del least[hidden[-1]]
    kept = [column for column in columns if column.name in least]
    spare = max(width - _sum(least.values()), 0)
    widths: list[int] = []
    for column in kept:
        more = min(column.natural - least[column.name], spare)
        spare -= more
        widths.append(least[column.name] + more)
    return Fitted(kept, widths, [column.name for column in columns if column.name in hidden])


def lines_of(fitted: Fitted, *, framed: bool, styled: bool) -> Iterator[str]:
    """The lines of a table.

    Args:
        fitted: the columns and their widths.
        framed: whether a line under the headings separates them from the rows.
        styled: whether headings and cells get their colours.
    """
    pairs = list(zip(fitted.columns, fitted.widths, strict=True))
    yield _line(
        [
            _padded(Cell(column.name, Role.HEADING), column.name, width, column.right, styled)
            for column, width in pairs
        ]
    )
    if framed:
        yield "─" * (_sum(fitted.widths))
    rows = len(fitted.columns[0].cells) if fitted.columns else 0
    for row in range(rows):
        cells = [(column, column.cells[row], width) for column, width in pairs]
        for parts in zip_longest(*(column.lines(cell, width) for column, cell, width in cells), fillvalue=""):
            yield _line(
                [
                    _padded(cell, part, width, column.right, styled)
                    for (column, cell, width), part in zip(cells, parts, strict=True)
                ]
            )


def chosen(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """The columns that a user named, in the user's order.

    Raises:
        UsageError: there is no such column.
    """
    by_name = {_plain(column.name): column for column in columns}
    return [by_name[name_of("--columns", each, by_name)] for each in names]


def name_of(flag: str, given: str, known: Collection[str]) -> str:
    """The name that a user means: case, ``-`` and ``_`` are forgiven.

    Raises:
        UsageError: there is none.
    """
    plain = _plain(given)
    if plain not in known:
        raise UsageError(f"{flag}: there is no column {given!r}; there are: {', '.join(known)}")
    return plain


def by_column(columns: Sequence[Column], by: str) -> list[Column]:
    """The columns with their rows sorted by one of them; ``-NAME`` sorts downwards. What is unknown is last.

    Raises:
        UsageError: there is no such column.
    """
    names = {_plain(column.name): column for column in columns}
    keys = names[name_of("--sort-by", by.removeprefix("-"), names)].cells
    order = sorted_rows([cell.text for cell in keys], down=by.startswith("-"))
    return [
        Column(column.name, [column.cells[row] for row in order], right=column.right) for column in columns
    ]


def sorted_rows(texts: Sequence[str], *, down: bool) -> list[int]:
    """The numbers of the rows in the order of these texts."""
    known = [row for row, text in enumerate(texts) if text not in _UNKNOWN]
    known.sort(key=lambda row: sort_key(texts[row]), reverse=down)
    return [*known, *(row for row, text in enumerate(texts) if text in _UNKNOWN)]


_UNKNOWN = ("", "-", "?", "unknown")
_AMOUNT = re.compile(
    r"(?:[≥≤] )?(?P<currency>\$|[A-Z]{3} )?(?P<number>[+-]?[0-9][0-9,]*(?:\.[0-9]+)?)(?: ?%| h/mo)?"
)
_DURATION = re.compile(r"(?=.)(-?)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SECONDS = (86_400, 3_600, 60, 1)

SortKey = tuple[int, str, Decimal, tuple[tuple[int, int, str], ...]]


def sort_key(text: str) -> SortKey:
    """The place of a cell in its column: amounts by currency and value, durations, then text.

    Digits inside a text count as numbers: ``us-east-2`` is before ``us-east-10``.
    """
    if amount := _AMOUNT.fullmatch(text):
        return 0, amount["currency"] or "", Decimal(amount["number"].replace(",", "")), ()
    if duration := _DURATION.fullmatch(text):
        sign, *counts = duration.groups()
        seconds = sum(int(count or 0) * unit for count, unit in zip(counts, _SECONDS, strict=True))
        return 0, "", Decimal(-seconds if sign else seconds), ()
    parts = re.findall(r"[0-9]+|[^0-9]+", text.casefold())
    return 1, "", Decimal(0), tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts)


def shortened(text: str, width: int) -> str:
    """A text whose last word is shortened in the middle: its end tells more than its beginning.

    ``4 × Standard_NC24ads_A100_v4`` is ``4 × Stan…4ads_A100_v4`` in 21 characters.
    """
    if len(text) <= width:
        return text
    before = text[: text.rfind(" ") + 1]
    room = max(width - len(before), 3)
    head = max(room // 4, 1)
    return f"{before}{text[len(before) : len(before) + head]}…{text[len(text) - (room - head - 1) :]}"


def cells_of(text: str) -> int:
    """How wide a text is in a font whose characters are one or two cells wide."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _distinct_width(texts: Sequence[str]) -> int:
    """The least width from :data:`SHORTEST` on in which shortened texts still differ."""
    longest = max(map(len, texts), default=0)
    different = len(set(texts))
    widths = range(min(SHORTEST, longest), longest)
    return next((w for w in widths if len({shortened(text, w) for text in texts}) == different), longest)


def _sum(widths: Collection[int]) -> int:
    """The width of a table with columns of these widths."""
    return sum(widths) + GAP * max(len(widths) - 1, 0)


def _padded(cell: Cell, text: str, width: int, right: bool, styled: bool) -> str:
    space = " " * (width - cells_of(text))
    shown = paint(text, cell.role) if styled else text
    return space + shown if right else shown + space


def paint(text: str, role: Role | None) -> str:
    """A text in the colour of its role; without a role, as it is."""
    return text if role is None or not text else f"\x1b[{role}m{text}\x1b[0m"


def _line(cells: Sequence[str]) -> str:
    return (" " * GAP).join(cells).rstrip()


def _plain(name: str) -> str:
    return name.strip().casefold().replace("_", "-").replace(" ", "-")

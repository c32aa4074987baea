"""The table that every benchmark fills: a figure is held against a baseline measured in the same run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure and its budget.

    Args:
        what: what was measured, in the words of the budget table.
        baseline: what it is compared with, in ``unit``.
        measured: the figure, in ``unit``.
        budget_ratio: ``measured`` may be at most this many times ``baseline``.
        unit: of both figures: ``s``, ``MB``, ``calls``.
    """

    what: str
    baseline: float
    measured: float
    budget_ratio: float
    unit: str = "s"

    @property
    def ratio(self) -> float:
        """How many times the baseline the figure is; infinite where the baseline is nothing."""
        return self.measured / self.baseline if self.baseline else float("inf")

    @property
    def ok(self) -> bool:
        """Whether the figure is within its budget."""
        return self.within(0.0)

    def within(self, slack: float) -> bool:
        """Whether the figure is within its budget; seconds may take this part of it more."""
        return self.ratio <= self.budget_ratio * (1 + slack if self.unit == "s" else 1)


HEAD = ("what", "baseline", "measured", "ratio", "budget", "ok")


def render(rows: Iterable[Row]) -> str:
    """The rows as aligned text, one line each, with a head."""
    lines = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in {0, len(HEAD) - 1} else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.what,
        f"{row.baseline:.4g} {row.unit}",
        f"{row.measured:.4g} {row.unit}",
        f"{row.ratio:.2f}",
        f"{row.budget_ratio:g}",
        "yes" if row.ok else "NO",
    )

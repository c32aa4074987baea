"""Results that are tables: on a terminal, and through ``_repr_html_`` in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from gpucloud.rendering.table import Table


class Tabular(ABC):
    """A result that is shown as a table."""

    __slots__ = ()

    @abstractmethod
    def table(self) -> Table:
        """The table that the command line prints of it."""

    def _repr_html_(self) -> str:
        """The table, for a notebook."""
        return _html_of(self.table())


class TableRow(Tabular):
    """A result that is a row of the table of its kind."""

    __slots__ = ()

    @classmethod
    @abstractmethod
    def table_of(cls, rows: Sequence[Any]) -> Table:
        """The table that the command line prints of several."""

    def table(self) -> Table:
        """The table that the command line prints of it alone."""
        return self.table_of([self])


R = TypeVar("R", bound=TableRow)


class Listing(list[R]):
    """A list of results, which a notebook shows as one table."""

    def table(self) -> Table:
        """The table that the command line prints of it."""
        return self[0].table_of(self) if self else Table({})

    def _repr_html_(self) -> str | None:
        """The table, for a notebook; ``None``, which is the text of an empty list, without any row."""
        return _html_of(self.table()) if self else None


def _html_of(table: Table) -> str:
    from gpucloud.rendering.html import html_of  # no command needs it, and each loads this module

    return html_of(table)

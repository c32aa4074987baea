"""Copies of some boxes and runs in memory, in the tables of SQLite: there events take effect."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpucloud.journal.postgresql.schema import COLUMNS, NUMBERED, PARTS
from gpucloud.journal.sqlite.memory import empty_tables
from gpucloud.journal.sqlite.reading import Query, Row
from gpucloud.journal.sqlite.writing import Writer

Rows = Mapping[str, list[dict[str, Any]]]
"""The rows of one box or run, by table."""

EVENT = ("id", "at", "box", "number", "type", "version", "data")
_COUNTED = ("resources", "usage")
"""The tables whose rows are counted in each box; in memory they are counted over all."""


def queries_for(ids: Collection[str]) -> list[Query]:
    """What to ask of a server for the rows of some boxes and runs: an answer per table."""
    values = {"ids": sorted(ids)}
    return [
        (
            f"SELECT {', '.join(COLUMNS[table])} FROM {table}"  # noqa: S608
            f" WHERE {_key(table)} = ANY (:ids){_order(table)}",
            values,
        )
        for table in COLUMNS
    ]


def rows_by_id(ids: Collection[str], answers: Sequence[Sequence[Row]]) -> dict[str, Rows]:
    """The answers to :func:`queries_for`, by box or run; one that is not there has no rows."""
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {each: {name: [] for name in COLUMNS} for each in ids}
    for table, answer in zip(COLUMNS, answers, strict=True):
        for row in answer:
            rows[row[_key(table)]][table].append(_values(row))
    return {**rows}


def nothing_of(id: str) -> Rows:  # noqa: A002  (the field's own name)
    """The rows of a box or run that is not there."""
    return rows_by_id([id], [()] * len(COLUMNS))[id]


class Copies:
    """What one change knows of boxes and runs, and what it has made of them."""

    def __init__(self) -> None:
        self._connection = empty_tables()
        self.before: dict[str, Rows] = {}
        self.writer = Writer(self._connection)
        """Reads the copies, and has events take effect on them."""

    def put(self, id: str, rows: Rows) -> None:  # noqa: A002
        """Takes a copy of one box or run: of nothing, if it is not there yet."""
        self.before[id] = rows
        for table, of_it in rows.items():
            columns = [name for name in COLUMNS[table] if name != "n"]
            self._connection.executemany(
                f"INSERT INTO {table} ({', '.join(columns)})"  # noqa: S608
                f" VALUES ({', '.join(':' + each for each in columns)})",
                of_it,
            )

    def positions(self) -> dict[str, tuple[int, int]]:
        """The epoch and number under which each copy was taken."""
        return {id_: position_of(rows) for id_, rows in self.before.items()}

    def events(self) -> list[dict[str, Any]]:
        """The events that were appended, in their order."""
        query = f"SELECT {', '.join(EVENT)} FROM events ORDER BY seq"  # noqa: S608
        rows = self._connection.execute(query)
        return list(map(_values, rows))

    def after(self) -> dict[str, Rows]:
        """All rows as they are now, by box or run."""
        counted = "row_number() OVER (PARTITION BY box ORDER BY n) AS n"
        answers = [
            self._connection.execute(
                f"SELECT {', '.join(counted if name == 'n' else name for name in columns)}"  # noqa: S608
                f" FROM {table}{_order(table)}"
            ).fetchall()
            for table, columns in COLUMNS.items()
        ]
        return rows_by_id(self.before, answers)

    def changed(self, after: Mapping[str, Rows]) -> dict[str, Any]:
        """The rows to send: of boxes and runs, and of each box all rows of a table in which one differs."""
        held: dict[str, Any] = {
            table: [
                row
                for each, rows in after.items()
                for row in rows[table]
                if [row] != self.before[each][table]
            ]
            for table in NUMBERED
        }
        parts: dict[str, Any] = {
            table: {id_: rows[table] for id_, rows in after.items() if rows[table] != self.before[id_][table]}
            for table in PARTS
        }
        return held | parts

    def replay(self, events: Sequence[Row]) -> None:
        """Fills the tables from events alone."""
        self._connection.executemany(
            f"INSERT INTO events ({', '.join(EVENT)}) VALUES ({', '.join(':' + each for each in EVENT)})",  # noqa: S608
            [_values(row) for row in events],
        )
        self.writer.rebuild()
        self._connection.execute("DELETE FROM events")

    def close(self) -> None:
        """Drops everything."""
        self._connection.close()


def position_of(rows: Rows) -> tuple[int, int]:
    """The epoch of a box or run and the number of its last event; zeros for one that is not there."""
    held = [row for table in NUMBERED for row in rows[table]]
    return (held[0]["epoch"], held[0]["number"]) if held else (0, 0)


def _values(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys()}  # noqa: SIM118  (SQLite's rows are no mappings)


def _key(table: str) -> str:
    return "id" if table in NUMBERED else "box"


def _order(table: str) -> str:
    if table == "nodes":
        return " ORDER BY box, number"
    return " ORDER BY box, n" if table in _COUNTED else " ORDER BY id"

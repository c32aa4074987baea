"""What much that is owed costs a changing command, against the same command with nothing owed."""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.launch import launch_argv, sandbox, timed
from benchmarks.startup import GPUCLOUD
from benchmarks.table import Row
from gpucloud.journal.sqlite.schema import PROJECTIONS

OWED = 1000
RUNS = 3
BUDGET_S = 2.0
"""What settling may take in all, whatever is owed."""
START = 1.15
"""Reading the owed boxes, and telling of those for which there was no time, may take so much more."""
LEFT = "left-behind"


def owe(journal: Path) -> None:
    """Copies a box whose end was begun until so many are owed; each has its own machines, which are gone."""
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.row_factory = sqlite3.Row
        connection.execute("UPDATE boxes SET state = 'deleting' WHERE name = ?", (LEFT,))
        [box] = connection.execute("SELECT id FROM boxes WHERE name = ?", (LEFT,)).fetchone()
        left = connection.execute("SELECT id FROM resources WHERE box = ? AND state != 'gone'", (box,))
        own = [id_ for (id_,) in left if id_.startswith(("i-", "vol-", "eni-"))]
        own += [id_ for (id_,) in connection.execute("SELECT id FROM intents WHERE box = ?", (box,))]
        for table in PROJECTIONS:
            names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            of = "id" if table == "boxes" else "box"
            if of not in names:  # of runs and budgets
                continue
            query = f"SELECT * FROM {table} WHERE {of} = ?"  # noqa: S608
            for row in connection.execute(query, (box,)).fetchall():
                columns = [name for name in names if name != "n"]  # numbered by SQLite
                copies = [_renamed(row, columns, box, own, number) for number in range(1, OWED)]
                places = ", ".join(f":{column}" for column in columns)
                insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608
                connection.executemany(insert, copies)


def _renamed(
    row: sqlite3.Row, columns: Sequence[str], box: str, own: Sequence[str], number: int
) -> dict[str, Any]:
    """A row of the first box as one of another."""
    changes = {
        LEFT: f"{LEFT}-{number}",
        box: f"{box}-{number}",
        **{id_: f"{id_[:-4]}{number:04x}" for id_ in own},
    }
    values: dict[str, Any] = {column: row[column] for column in columns}
    for name in [name for name, value in values.items() if isinstance(value, str)]:
        for old, new in changes.items():
            values[name] = values[name].replace(old, new)
    return values


def main() -> list[Row]:
    """``extend`` of another box, which settles first."""
    with sandbox() as (_, environment):
        timed(launch_argv("aws", "kept"), environment)
        timed(launch_argv("aws", LEFT), environment)
        nothing_owed_s = _extend_s(environment, first_hours=24)
        owe(Path(environment["GPUCLOUD_HOME"], "state-sandbox/journal.db"))
        more_s = _extend_s(environment, first_hours=48) - nothing_owed_s
    what = f"extend with {OWED:,} boxes owed: seconds more than with none ({nothing_owed_s:.2f} s)"
    return [Row(what, BUDGET_S, more_s, START)]


def _extend_s(environment: Mapping[str, str], *, first_hours: int) -> float:
    """Seconds that a command takes which moves a box's end, in the middle of several turns."""
    lines = [
        (GPUCLOUD, "extend", "kept", "--ttl", f"{hours}h") for hours in range(first_hours, first_hours + RUNS)
    ]
    return statistics.median(timed(line, environment)[0] for line in lines)

"""What much that is owed costs a changing command, against the same command with nothing owed."""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from benchmarks.launch import launch_argv, sandbox, timed
from benchmarks.startup import GPUCLOUD
from benchmarks.table import Row

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
        connection.execute("UPDATE boxes SET state = 'deleting' WHERE name = ?", (LEFT,))
        [(box,)] = connection.execute("SELECT id FROM boxes WHERE name = ?", (LEFT,))
        things = connection.execute("SELECT id FROM things WHERE box = ? AND state != 'gone'", (box,))
        own = [id_ for (id_,) in things if id_.startswith(("i-", "vol-", "eni-"))]
        own += [id_ for (id_,) in connection.execute("SELECT id FROM intents WHERE box = ?", (box,))]
        for table, key in (("boxes", "id"), ("intents", "box"), ("things", "box")):
            rows = connection.execute(f"SELECT * FROM {table} WHERE {key} = ?", (box,))  # noqa: S608
            columns = [column[0] for column in rows.description]
            copied = [
                [_renamed(value, box, own, number) for column, value in zip(columns, row, strict=True)]
                for row in rows.fetchall()
                for number in range(1, OWED)
            ]
            kept = [at for at, column in enumerate(columns) if column != "n"]  # things are numbered by SQLite
            names = ", ".join(columns[at] for at in kept)
            marks = ", ".join("?" * len(kept))
            connection.executemany(
                f"INSERT INTO {table} ({names}) VALUES ({marks})",  # noqa: S608
                [[values[at] for at in kept] for values in copied],
            )


def _renamed(value: object, box: str, own: list[str], number: int) -> object:
    """A value of the first box as one of another."""
    if not isinstance(value, str):
        return value
    for old, new in ((LEFT, f"{LEFT}-{number}"), (box, f"{box}-{number}")):
        value = value.replace(old, new)
    for id_ in own:
        value = value.replace(id_, f"{id_[:-4]}{number:04x}")
    return value


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

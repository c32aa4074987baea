"""What much that is owed costs a changing command, against the same command with nothing owed."""

from __future__ import annotations

import json
import sqlite3
import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

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
        connection.row_factory = sqlite3.Row
        [left] = connection.execute("SELECT * FROM states WHERE name = ?", (LEFT,)).fetchall()
        document: dict[str, Any] = json.loads(left["document"]) | {"state": "deleting"}
        own = [each["ref"]["id"] for each in document["resources"] if each["state"] != "gone"]
        own = [id_ for id_ in own if id_.startswith(("i-", "vol-", "eni-"))]
        own += [each["id"] for each in document["intents"]]
        row = {**dict(left), "document": json.dumps(document)}
        connection.execute("UPDATE states SET document = :document WHERE id = :id", row)
        places = ", ".join(f":{column}" for column in row)
        insert = f"INSERT INTO states ({', '.join(row)}) VALUES ({places})"  # noqa: S608
        copies = [_renamed(row, left["id"], own, number) for number in range(1, OWED)]
        connection.executemany(insert, copies)


def _renamed(row: Mapping[str, Any], box: str, own: Sequence[str], number: int) -> dict[str, Any]:
    """A row of the first box as one of another."""
    changes = {
        LEFT: f"{LEFT}-{number}",
        box: f"{box}-{number}",
        **{id_: f"{id_[:-4]}{number:04x}" for id_ in own},
    }
    values = dict(row)
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

"""What much that is owed costs a changing command, against the same command with nothing owed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks.launch import launch_argv, sandbox, timed
from benchmarks.startup import GPUCLOUD
from benchmarks.table import Row
from gpucloud.journal.schema import boxes, intents, resources

OWED = 1000
RUNS = 3
BUDGET_S = 2.0
"""What settling may take in all, whatever is owed."""
START = 1.15
"""Reading the owed boxes, and telling of those for which there was no time, may take so much more."""
LEFT = "left-behind"


def owe(journal: Path) -> None:
    """Copies a box whose end was begun until so many are owed; each has its own machines, which are gone."""
    engine = sa.create_engine(f"sqlite:///{journal}")
    with engine.begin() as connection:
        connection.execute(sa.update(boxes).where(boxes.c.name == LEFT).values(state="deleting"))
        box = str(connection.execute(sa.select(boxes.c.id).where(boxes.c.name == LEFT)).scalar_one())
        left = resources.c.box == box, resources.c.state != "gone"
        own = [str(id_) for id_ in connection.execute(sa.select(resources.c.id).where(*left)).scalars()]
        own = [id_ for id_ in own if id_.startswith(("i-", "vol-", "eni-"))]
        calls = sa.select(intents.c.id).where(intents.c.box == box)
        own += [str(id_) for id_ in connection.execute(calls).scalars()]
        for table, of in ((boxes, boxes.c.id), (intents, intents.c.box), (resources, resources.c.box)):
            columns = [
                column for column in table.columns if column is not resources.c.n
            ]  # numbered by SQLite
            rows = connection.execute(sa.select(*columns).where(of == box)).mappings().all()
            for row in rows:
                copies = [_renamed(row, box, own, number) for number in range(1, OWED)]
                connection.execute(sa.insert(table), copies)
    engine.dispose()


def _renamed(row: Mapping[Any, Any], box: str, own: Sequence[str], number: int) -> dict[str, Any]:
    """A row of the first box as one of another."""
    changes = {
        LEFT: f"{LEFT}-{number}",
        box: f"{box}-{number}",
        **{id_: f"{id_[:-4]}{number:04x}" for id_ in own},
    }
    values = dict(row)
    for name in [name for name, value in row.items() if isinstance(value, str)]:
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

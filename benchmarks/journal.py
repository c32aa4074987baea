"""A journal with a million events against an empty one, and a server that is far away, in files and tables.

A launch and its end are played once; their rows are copied as often as makes a million events.
"""

from __future__ import annotations

import os
import re
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

from benchmarks.launch import launch_argv, sandbox, timed
from benchmarks.startup import GPUCLOUD, Run, best, run
from benchmarks.table import Row
from gpucloud.config import JOURNAL
from gpucloud.journal.rows import COLUMNS
from tests.journals import URL, a_server, administer, psql, url_of
from tests.wire import Wire

EVENTS = 1_000_000
RUNS = 5
LIST_RATIO, LAUNCH_RATIO = 1.3, 1.1
ROUND_TRIP_S = 0.025
MORE_S = 1.0
"""How much longer a launch may take with a server so far away."""
PAIRS = 3
BOXES = 1000
LIST_TRIPS = 3
LIST = (GPUCLOUD, "list")
COPIED = {"events": ("id", "at", "box", "number", "type", "version", "data"), "states": COLUMNS}
"""The columns of the rows that are copied."""
OWN = frozenset({("events", "id"), ("events", "box"), ("states", "id"), ("states", "name")})
"""The columns that differ in each copy; a document differs by its id."""
IN_FILE = "json_set(document, '$.id', states.id || '-' || {})"
ON_SERVER = "jsonb_set(document::jsonb, '{{id}}', to_jsonb(states.id || '-' || {}))"
"""The document of a copy."""
SETTLED = "UPDATE states SET present = 0, unresolved = 0"
"""As a later command leaves them, which looks once more: what is not there yet is looked up by each."""
BIG, EMPTY = "big", "empty"

Place = Mapping[str, str]
"""The environment of somebody with a journal of their own, on clouds that all have."""


def main() -> list[Row]:
    """A million events in a file and on a server; then a server that is far away."""
    with sandbox() as (endpoint, environment), tempfile.TemporaryDirectory() as folder:

        def place(name: str, **more: str) -> Place:
            home = Path(folder, name)
            home.mkdir(exist_ok=True)
            shared = {"GPUCLOUD_SANDBOX_HOME": str(endpoint.folder), "GPUCLOUD_HOME": str(home)}
            return {**environment, **shared, **more}

        files = {name: place(name) for name in (EMPTY, BIG)}
        rows = _compared("a file", files, lambda: _fill_file(Path(folder, BIG, "state-sandbox", JOURNAL)))
        with a_server() as server, patch.dict(os.environ, {URL: server.url}):
            urls = {name: url_of(Path(folder, name), kind="sandbox") for name in (EMPTY, BIG)}
            tables = {name: place(name, GPUCLOUD_JOURNAL=url) for name, url in urls.items()}
            rows += _compared("PostgreSQL", tables, lambda: _fill_tables(urls[BIG]))
            rows += _far_away(files[EMPTY], tables[EMPTY])
        return rows


# --- a million events


def _compared(what: str, places: Mapping[str, Place], fill: Callable[[], None]) -> list[Row]:
    """``list`` and ``launch`` with both journals, in turn."""
    _live(places[BIG])
    fill()
    _live(places[EMPTY])  # it has its tables, and has been warmed up
    rows: list[Row] = []
    for command, argv, ratio, after in (
        ("list", LIST, LIST_RATIO, None),
        ("launch", launch_argv("aws"), LAUNCH_RATIO, _end),
    ):
        seconds = _in_turn(argv, places, after)
        told = f"{command}, {EVENTS:,} events in {what} against hardly any"
        rows.append(Row(told, seconds[EMPTY].seconds, seconds[BIG].seconds, ratio))
    return rows


def _live(place: Place) -> None:
    """A launch and its end."""
    timed(launch_argv("aws", "x"), place)
    _end(place)


def _end(place: Place) -> None:
    timed((GPUCLOUD, "down", "--all", "--yes"), place)


def _in_turn(
    argv: tuple[str, ...], places: Mapping[str, Place], after: Callable[[Place], None] | None
) -> dict[str, Run]:
    runs: dict[str, list[Run]] = {name: [] for name in places}
    for _ in range(RUNS):
        for name, place in places.items():
            runs[name].append(run(argv, place))
            if after is not None:
                after(place)
    return {name: best(each) for name, each in runs.items()}


def _fill_file(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        [(events,)] = connection.execute("SELECT count(*) FROM events").fetchall()
        connection.execute(SETTLED)
        numbers = "WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {})"
        for table in COPIED:
            copies = _copy(table, IN_FILE, "series")
            connection.execute(f"{numbers.format(EVENTS // events)} {copies}")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(events,)] = connection.execute("SELECT count(*) FROM events").fetchall()
    assert events >= EVENTS, events


def _fill_tables(url: str) -> None:
    [(events,)] = psql(url, "SELECT count(*) FROM events")
    psql(url, SETTLED)
    for table in COPIED:
        psql(url, _copy(table, ON_SERVER, f"generate_series(1, {EVENTS // events}) AS series(n)"))
    administer(url, "VACUUM ANALYZE")
    [(events,)] = psql(url, "SELECT count(*) FROM events")
    assert events >= EVENTS, events


def _copy(table: str, document: str, numbers: str) -> str:
    """The statement that copies every row of a table for each number."""
    columns = COPIED[table]
    values = [
        document.format("series.n")
        if each == "document"
        else f"{table}.{each} || '-' || series.n"
        if (table, each) in OWN
        else f"{table}.{each}"
        for each in columns
    ]
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {table}, {numbers}"  # noqa: S608


# --- a server that is far away


def _far_away(file: Place, tables: Place) -> list[Row]:
    """A launch on both, in turn; and how often a command waits for the server."""
    with _by_wire(tables) as (wire, far):
        more: list[float] = []
        for _ in range(PAIRS):
            seconds: list[float] = []
            for place in (file, far):
                seconds.append(timed(launch_argv("aws"), place)[0])
                _end(place)
            more.append(seconds[1] - seconds[0])
        told = f"launch, seconds more with {ROUND_TRIP_S * 1000:.0f} ms to PostgreSQL than with a file"
        rows = [Row(told, MORE_S, statistics.median(more), 1)]
        _many(tables["GPUCLOUD_JOURNAL"])
        before = wire.exchanges
        administer(far["GPUCLOUD_JOURNAL"])
        connecting, wire.exchanges = wire.exchanges - before, 0
        timed(LIST, far)
        told = f"round trips of list, {BOXES:,} boxes, beside {connecting} to connect"
        rows.append(Row(told, LIST_TRIPS, wire.exchanges - connecting, 1, "calls"))
    return rows


@contextmanager
def _by_wire(place: Place) -> Generator[tuple[Wire, Place]]:
    url = place["GPUCLOUD_JOURNAL"]
    port = re.search(r":(\d+)/", url)
    assert port
    with Wire(int(port[1]), round_trip_s=ROUND_TRIP_S) as wire:
        yield wire, {**place, "GPUCLOUD_JOURNAL": url.replace(port[0], f":{wire.port}/")}


def _many(url: str) -> None:
    """Boxes that live."""
    psql(url, "DELETE FROM states WHERE id NOT IN (SELECT id FROM states WHERE kind = 'box' LIMIT 1)")
    ready = """jsonb_set(document::jsonb, '{state}', '"ready"')"""
    psql(url, f"UPDATE states SET living = 1, document = {ready}")  # noqa: S608
    psql(url, _copy("states", ON_SERVER, f"generate_series(1, {BOXES - 1}) AS series(n)"))


if __name__ == "__main__":
    sys.exit(print(*main(), sep="\n"))

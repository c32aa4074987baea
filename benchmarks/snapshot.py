"""Forms in which the price snapshot could ship, and how long each takes to be readable.

The form in use is JSON with prices grouped by type. It is compared with reading the CSV files, with marshal
(twice as fast, but tied to a Python version) and with SQLite (opening it and one look-up: the fastest, but a
search without a model reads everything). JSON is text that a review can read, and costs about a millisecond
more than the fastest. Not part of the budget: ``python -m benchmarks.snapshot``.
"""

from __future__ import annotations

import csv
import json
import marshal
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from gpucloud_pricing.snapshot import SNAPSHOT


def best_of(function: Callable[[], object], times: int = 20) -> float:
    """Milliseconds of the fastest of several calls."""
    seconds: list[float] = []
    for _ in range(times):
        begin = perf_counter()
        function()
        seconds.append(perf_counter() - begin)
    return min(seconds) * 1000


def read_csv() -> None:
    """Reads what a search needs, as text."""
    for name in ("offers", "instance_types", "zone_offerings", "regions", "instance_notes", "fx_reference"):
        with (SNAPSHOT.parent / "data" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            list(csv.reader(file))


def unmarshal(file: Path) -> object:
    """Reads what this process has written."""
    return marshal.loads(file.read_bytes())  # noqa: S302


def show() -> None:
    """Prints milliseconds and size of each form."""
    text = SNAPSHOT.read_bytes()
    document = json.loads(text)
    with tempfile.TemporaryDirectory() as folder:
        marshalled, database = Path(folder, "m"), Path(folder, "db")
        marshalled.write_bytes(marshal.dumps(document))
        with sqlite3.connect(database) as connection:
            connection.execute("create table types (name text primary key, model text, row text)")
            rows = [(t["name"], t["hardware"][0], json.dumps(t)) for t in document["types"]]
            connection.executemany("insert into types values (?, ?, ?)", rows)
            connection.execute("create index models on types (model)")
        connection.close()

        def look_up() -> None:
            opened = sqlite3.connect(database)
            found = opened.execute("select row from types where model = 'A100'").fetchall()
            assert [json.loads(row) for (row,) in found]
            opened.close()

        forms: dict[str, tuple[Callable[[], object], int]] = {
            "csv": (read_csv, sum(f.stat().st_size for f in (SNAPSHOT.parent / "data").glob("*.csv"))),
            "json (in use)": (lambda: json.loads(SNAPSHOT.read_bytes()), len(text)),
            "marshal": (lambda: unmarshal(marshalled), marshalled.stat().st_size),
            "sqlite, one look-up": (look_up, database.stat().st_size),
        }
        for name, (read, size) in forms.items():
            print(f"{name:20} {best_of(read):6.2f} ms {size // 1024:5} KiB")


if __name__ == "__main__":
    show()

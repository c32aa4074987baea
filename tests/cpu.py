"""What tests cost: the CPU seconds of each, of its process and of all that it started.

``pytest -p tests.cpu --cpu FILE`` writes a table with a row for each test. ``python -m tests.cpu FILE KEPT``
makes of it the table by files that is kept (``benchmarks/tests.csv``), and compares: ``make costs``.
What left its parents (a daemon of a box) is not counted, nor is the collection, 12 s of each worker.
"""

from __future__ import annotations

import csv
import os
import sys
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from tests.processes import descendants, states

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PROPERTY = "cpu_s"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the table goes."""
    parser.addoption(
        "--cpu", metavar="FILE", type=Path, help="write the CPU seconds of each test to this file"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Measures only where that is asked for: it reads the table of all processes after each test."""
    if config.getoption("--cpu"):
        config.pluginmanager.register(_Meter(config), "cpu-meter")


class _Meter:
    """Measures in the processes that run tests, and writes in the one that they report to."""

    def __init__(self, config: pytest.Config) -> None:
        self._file: Path = config.getoption("--cpu")
        self._writes = not hasattr(config, "workerinput")
        self._before_s = _tree_s()
        self._rows: list[tuple[str, str, str]] = []

    def pytest_collection_finish(self) -> None:
        self._before_s = _tree_s()  # what was collected belongs to no test

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        if call.when == "teardown":
            now_s = _tree_s()
            item.user_properties.append((PROPERTY, f"{max(now_s - self._before_s, 0):.2f}"))
            self._before_s = now_s
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            file, _, test = report.nodeid.partition("::")
            cost = dict(report.user_properties)[PROPERTY]
            self._rows.append((file, test, str(cost)))

    def pytest_sessionfinish(self) -> None:
        if self._writes:
            with self._file.open("w", newline="", encoding="utf-8") as out:
                csv.writer(out, lineterminator="\n").writerows(
                    [("file", "test", "cpu_s"), *sorted(self._rows)]
                )


def _tree_s() -> float:
    """CPU seconds of this process, of all below it that live, and of those that they have waited for."""
    known, me = states(), os.getpid()
    tree = {me, *descendants(me, known)}
    return sum(int(ticks) for number in tree & known.keys() for ticks in known[number][11:15]) * TICK_S


def main(measured: Path, kept: Path) -> None:
    """Keeps a new table, a row for each file of tests, and prints what each room costs now and before.

    A file that was not run keeps its row: ``make check`` plans with it.
    """
    files = defaultdict[str, list[float]](list)
    with measured.open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table):
            files[row["file"]].append(float(row["cpu_s"]))
    with kept.open(encoding="utf-8", newline="") as table:
        rows = {
            row["file"]: tuple(row.values()) for row in csv.DictReader(table) if Path(row["file"]).exists()
        }
    before = rooms(costs(kept))
    rows |= {file: (file, str(len(each)), f"{sum(each):.1f}") for file, each in files.items()}
    with kept.open("w", encoding="utf-8", newline="") as table:
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(("file", "tests", "cpu_s"))
        writer.writerows(rows[file] for file in sorted(rows))
    now = rooms(costs(kept))
    for room in sorted(now.keys() | before.keys(), key=lambda each: -now.get(each, 0.0)):
        print(f"{room:12} {before.get(room, 0.0):7.1f} {now.get(room, 0.0):7.1f}")
    print(f"{'all':12} {sum(before.values()):7.1f} {sum(now.values()):7.1f}  CPU seconds, before and now")


def costs(kept: Path) -> dict[str, float]:
    """CPU seconds of each file of tests, of a table that was kept."""
    with kept.open(encoding="utf-8", newline="") as table:
        return {row["file"]: float(row["cpu_s"]) for row in csv.DictReader(table)}


def rooms(files: Mapping[str, float]) -> dict[str, float]:
    """The same for each folder of them."""
    found = defaultdict[str, float](float)
    for file, seconds in files.items():
        found[Path(file).parts[1] if len(Path(file).parts) > 2 else "tests"] += seconds
    return found


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

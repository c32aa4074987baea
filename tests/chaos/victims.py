"""What dies in the chaos tests: the program's own ``main``, in a forked process, with what befalls it.

Machines of the chaos lab have no inside, so a box counts as ready once they run; everything else is the
program as it is.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import resource
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import gpucloud.bringup
import gpucloud.cli.app
import gpucloud.cli.market
from gpucloud.cli.market import open_market
from gpucloud.lifecycle import BoxState
from gpucloud.store import Box
from gpucloud.world import World
from gpucloud_pricing import Demand
from gpucloud_pricing.gpus import parse_wishes

MARKET = open_market()
ENTRY_POINTS: Any = functools.cache(importlib.metadata.entry_points)
LOADED: Any = functools.cache(gpucloud.cli.app.load)
"""Read once, by the process that forks: these are the same for all."""


def warm_up() -> None:
    """Does beforehand what costs each command time, and is the same each time."""
    for command in ("launch", "down", "sweep", "recover"):
        LOADED(command)
    for entry in ENTRY_POINTS(group="gpucloud.providers"):
        entry.load()
    for cloud in ("aws", "azure", "alibaba"):
        MARKET.search(Demand(gpus=parse_wishes("T4"), clouds=(cloud,)), datetime.now(UTC).date())


warm_up()


def main() -> None:
    """Runs a command; the first argument is JSON: what befalls it besides its clouds."""
    plight: dict[str, Any] = json.loads(sys.argv.pop(1))
    gpucloud.bringup.bring_up = ready_at_once
    gpucloud.cli.market.open_market = lambda: MARKET
    gpucloud.cli.app.load = LOADED
    importlib.metadata.entry_points = ENTRY_POINTS
    _hurry()
    for name, value in plight.items():
        globals()[f"with_{name}"](value)
    gpucloud.cli.app.main()


def ready_at_once(world: World, box: Box, keys: Path, proxy_command: str | None) -> Box:
    """In place of waiting for ssh, the boot and the GPUs."""
    world.journal.write(box, "state", {"state": str(BoxState.READY), "facts": {}})
    return world.journal.box(box.id)


def _hurry() -> None:
    """Waiting between tries costs no time, but counts: the clock of the budgets jumps over it."""
    import gpucloud.cloud

    skipped = 0.0

    def sleep(seconds: float) -> None:
        nonlocal skipped
        skipped += seconds

    defaults = gpucloud.cloud.Cloud.__init__.__kwdefaults__ or {}
    defaults["sleep"] = sleep
    defaults["monotonic"] = lambda: time.monotonic() + skipped


def with_cloud(name: str) -> None:
    """Has only this cloud: the others would only take time."""
    from gpucloud.cloud import Clouds

    original: Any = Clouds.__init__

    def begin(self: Clouds, factories: Any, *rest: Any) -> None:
        original(self, {each: factory for each, factory in factories.items() if each == name}, *rest)

    Clouds.__init__ = begin  # type: ignore[method-assign, assignment]


def with_later(seconds: float) -> None:
    """Lives so much later."""
    import gpucloud.cli.engine

    gpucloud.cli.engine.now = lambda: datetime.now(UTC) + timedelta(seconds=seconds)


def with_disk(kib: int) -> None:
    """Has a disk on which no file can grow beyond this size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (kib * 1024, kib * 1024))


def with_files(most: int) -> None:
    """May open only so many files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def with_commit(at: list[Any]) -> None:
    """Dies just before, or just after, its n-th commit to the journal; ``never`` only counts."""
    import sqlalchemy as sa

    moment, number = at
    count = 0
    changes: dict[int, int] = {}
    original: Any = sa.engine.default.DefaultDialect.do_commit

    def commit(self: Any, connection: Any) -> None:
        nonlocal count
        total = connection.driver_connection.total_changes
        writes = total > changes.get(id(connection), 0)
        changes[id(connection)] = total
        count += writes
        if moment == "never":
            Path.home().joinpath("commits").write_text(str(count), encoding="ascii")
        if writes and count == number and moment == "before":
            os.kill(os.getpid(), 9)
        original(self, connection)
        if writes and count == number and moment == "after":
            os.kill(os.getpid(), 9)

    sa.engine.default.DefaultDialect.do_commit = commit  # type: ignore[method-assign]

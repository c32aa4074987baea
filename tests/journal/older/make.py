"""Made the journals beside it: run with the code of an older version, from the root of its checkout.

``version_1`` is of commit 1d6b83a, ``version_2`` of f02a418, ``version_3`` of ad44329, each by

    PYTHONPATH=.:providers:pricing:templates python make.py OUT

The real engine launches and ends boxes on a cloud in memory, whose resources are saved beside the journal as
JSON. What is launched: ``used`` (ready, two nodes), ``left`` (its launch died after the create call),
``owed`` (its end was asked for, and the cloud answers no more), ``lost`` (a create call without an answer),
``ended`` (deleted), ``failed`` (no stock), ``replaced`` (its first machine was not fit for use).
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing, suppress
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))

FLAT = not Path("gpucloud/journal").exists()
"""Whether this is the code of version 1 or 2: its modules had other names."""
FIRST = FLAT and not Path("gpucloud/leases.py").exists()
"""Whether this is the code of version 1: it had other calls, too."""
_launch: Any = import_module("gpucloud.launch" if FLAT else "gpucloud.purchase.failover")
_teardown: Any = import_module("gpucloud.teardown" if FLAT else "gpucloud.ending.teardown")
_bench: Any = import_module("tests.core.engine" if FLAT else "tests.bench")

from gpucloud.errors import ErrorClass, GpucloudError  # noqa: E402  (found by the path above)
from tests.builders import Clock  # noqa: E402  (found by the path above)
from tests.memory import TOKEN_ATOMIC, ConnectionLost, MemoryProvider  # noqa: E402  (found by the path above)

LISTED = {
    "disk_gb_month": {"amount": "0.08", "currency": "USD", "as_of": "2026-01-01", "source": "a list"},
    "public_ip_hour": {"amount": "0.005", "currency": "USD", "as_of": None, "source": "a list"},
}


class Past:
    """The engine of the checkout, on a cloud in memory."""

    def __init__(self, out: Path) -> None:
        self.clock = Clock()
        cloud = MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=self.clock)
        self.bench: Any = _bench.Bench(out, self.clock, [cloud])
        self.cloud: Any = self.bench.providers[0].cloud

    def terms(self, name: str, **changes: Any) -> Any:
        """What is asked for. Version 1 of the journal did not hold the list prices of disks and addresses."""
        listed: dict[str, Any] = {} if FIRST else {"listed": lambda _cloud, _region: LISTED}
        return self.bench.terms(box=f"b-{name}", name=name, **listed, **changes)

    def start(self, name: str, **changes: Any) -> tuple[Any, Any]:
        """Launches a box in a process of its own."""
        context = self.bench.world() if FLAT else self.bench.context()
        terms = self.terms(name, spec={"gpu": "T4", "idle": None}, **changes)
        box = _launch.launch(context, terms, self.bench.offers())
        self.clock.sleep(600)
        return context, box

    def ready(self, context: Any, box: Any) -> Any:
        """Writes down that a box has booted, and lets it go."""
        facts = {"gpus_seen": {"Tesla T4": 1}, "driver": "580.1", "boot_seconds": {"driver": 40.5}}
        (context.journal.note if FIRST else context.journal.write)(
            box.id if FIRST else box, "state", {"state": "ready", "facts": facts}
        )
        context.journal.release(box)
        return context.journal.box(box.id)

    def take(self, context: Any, box: Any) -> Any:
        """Takes a box's lease."""
        if not FIRST:
            return context.take(box)
        return context.journal.take(box.id, context.lease(), may_take=context.may_take)

    def replace(self, name: str) -> None:
        """Launches a box whose first machine is not fit for use."""
        context, box = self.start(name)
        replaced = _launch.replace_machines(
            context, box, self.terms(name), self.bench.offers(), "a GPU is missing"
        )
        self.ready(context, replaced)

    def end(self, name: str) -> None:
        """Launches a box, and deletes it an hour later."""
        context, box = self.start(name)
        taken = self.take(context, self.ready(context, box))
        self.clock.sleep(3600)
        _teardown.take_down(context, taken, budget_s=600)

    def owe(self, name: str) -> None:
        """Launches a box, and asks for its end of a cloud that answers no more."""
        context, box = self.start(name)
        owed = self.take(context, self.ready(context, box))
        fault = self.cloud.fail("delete", ConnectionLost(), times=99)
        with suppress(GpucloudError):
            _teardown.take_down(context, owed, budget_s=5)
        context.journal.release(owed)
        self.cloud.faults.remove(fault)

    def fail(self, name: str) -> None:
        """Asks for a box of which there is no stock."""
        self.cloud.fail("create", self.cloud.say(ErrorClass.CAPACITY), times=3)
        with suppress(GpucloudError):
            self.start(name)

    def lose(self, name: str) -> None:
        """Asks for a box of a cloud that never answers again."""
        self.cloud.fail("create", ConnectionLost(), times=99)
        self.cloud.fail("find", ConnectionLost(), times=999)
        with suppress(GpucloudError):
            self.start(name)

    def save_cloud(self, file: Path) -> None:
        """Writes what the cloud holds."""
        items = [asdict(item) for item in self.cloud.items.values()]
        saved = {"at": self.clock().isoformat(), "count": self.cloud._count, "items": items}
        file.write_text(json.dumps(saved, default=str, sort_keys=True) + "\n")


def main(out: Path) -> None:
    """Writes journal.db and cloud.json into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    past = Past(out)
    past.ready(*past.start("used", nodes=2, run_id="r-1"))
    past.end("ended")
    past.fail("failed")
    past.replace("replaced")
    past.owe("owed")
    past.start("left")
    past.lose("lost")
    _leave_no_writer(out / "journal.db")
    past.save_cloud(out / "cloud.json")


def _leave_no_writer(journal: Path) -> None:
    """The process that made this is no more, wherever the journal is read."""
    with closing(sqlite3.connect(journal, isolation_level=None)) as connection:
        boots = (_boot(), "boot-of-old")
        connection.execute("UPDATE boxes SET lease = replace(lease, ?, ?)", boots)
        connection.execute("UPDATE events SET data = replace(data, ?, ?)", boots)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Journals that older versions made, and the clouds that belong to them; see ``make.py``."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from gpucloud.resources import Ref, ResourceKind, State
from tests.bench import Bench
from tests.builders import Clock
from tests.memory import TOKEN_ATOMIC, MemoryProvider
from tests.memory.cloud import Item

HERE = Path(__file__).parent
VERSIONS = (1, 2, 3)
TIMES = ("created_at", "since", "ends_at")


def a_journal(version: int, folder: Path) -> Path:
    """A copy of a journal of this version."""
    return Path(shutil.copy(HERE / f"version_{version}.db", folder / "journal.db"))


def a_bench(version: int, folder: Path) -> Bench:
    """A bench on such a journal, with its cloud as it was then: all processes of that time are no more."""
    a_journal(version, folder)
    saved = json.loads((HERE / f"version_{version}.json").read_text())
    clock = Clock(datetime.fromisoformat(saved["at"]))
    provider = MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=clock)
    cloud = provider.cloud
    cloud._count = saved["count"]
    for item in saved["items"]:
        ref = Ref(**{**item["ref"], "kind": ResourceKind(item["ref"]["kind"])})
        times = {name: item[name] and datetime.fromisoformat(item[name]) for name in TIMES}
        parts = {"ref": ref, "state": State(item["state"]), "needs": tuple(item["needs"])}
        made = cloud.items[ref.region, ref.id] = Item(**{**item, **times, **parts})
        if ref.kind.billable and made.state is not State.GONE:
            cloud.bill(made, Decimal(1))
    return Bench(folder, clock, [provider])

"""What lies in the folder: every thing as one row of a JSON file, changed under a lock."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ground:
    """The folder of one account."""

    folder: Path

    def change(self, change: Callable[[dict[str, Row]], T]) -> T:
        """Reads, changes and writes the rows under a lock; a change that raises changes nothing."""
        file = self.folder / "things.json"
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            rows: dict[str, Row] = json.loads(file.read_text()) if file.exists() else {}
            result = change(rows)
            draft = file.with_suffix(".new")
            draft.write_text(json.dumps(rows, indent=1))
            draft.rename(file)
            return result

    def sold_out(self) -> list[str]:
        """The regions without stock, as a test wrote them down."""
        file = self.folder / "sold_out"
        return file.read_text().split() if file.exists() else []

    def pass_time(
        self,
        boots: Callable[[str, Row], bool] = lambda _id, _row: True,
        ends: Callable[[str], None] = lambda _id: None,
    ) -> None:
        """One step of what happens by itself: machines come up once ``boots`` says so, and stop."""

        def step(rows: dict[str, Row]) -> None:
            for each, row in list(rows.items()):
                if row["state"] == "pending" and boots(each, row):
                    row["state"] = "running"
                elif row["state"] == "stopping":
                    ends(each)
                    row["state"] = "gone"
                    del rows[f"{each}-disk"]

        self.change(step)

"""Tells when the box of a run ends: at the start, when its deadline was moved, and before it comes."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpucloud.errors import GpucloudError
from gpucloud.journal.records import Box
from gpucloud.resources import rfc3339
from gpucloud.runtime.context import Context

WARNED_BEFORE = timedelta(minutes=15)
LOOK_S = 30.0


@dataclass(slots=True)
class Deadline:
    """The end of a box, as it was told last.

    Attributes:
        name: the name of the box.
        told: the end that was told; ``None`` before, and for no end.
        warned: whether its user was warned that it is near.
    """

    name: str
    told: datetime | None = None
    warned: bool = False

    def news(self, expires_at: datetime | None, now: datetime) -> str | None:
        """What is to be said now; ``None`` for nothing.

        Args:
            expires_at: when the box ends; ``None`` for never.
            now: the time.
        """
        if expires_at is None:
            moved, self.told = self.told is not None, None
            return f"{self.name} has no end any more" if moved else None
        left = expires_at - now
        is_near = timedelta() < left <= WARNED_BEFORE
        if expires_at == self.told and (self.warned or not is_near):
            return None
        self.told, self.warned = expires_at, is_near
        minutes = max(round(left.total_seconds() / 60), 0)
        within = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
        return (
            f"{self.name} ends at {rfc3339(expires_at)}, in {within}, with what runs on it."
            f" To move that: gpucloud extend {self.name} --ttl TIME"
        )


@dataclass(slots=True)
class Told:
    """Says what is new of the end of a box."""

    context: Context
    box: Box
    closed: threading.Event = field(default_factory=threading.Event)
    _deadline: Deadline = field(init=False)

    def __post_init__(self) -> None:
        self._deadline = Deadline(self.box.name)

    def look(self) -> None:
        """Says it now."""
        words = self._deadline.news(self.context.journal.box(self.box.id).expires_at, self.context.clock())
        if words is not None:
            self.context.notice("run", words)

    def keep(self) -> None:
        """Says it again and again, until it is closed."""
        while not self.closed.wait(LOOK_S):
            with suppress(GpucloudError):  # the journal may answer again
                self.look()

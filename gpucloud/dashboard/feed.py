"""What the page shows now: read again when the journal was written to, and once a minute."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import timedelta

from gpucloud.dashboard.page import encoded
from gpucloud.dashboard.reading import NOT_ASKED, Asked, Reader
from gpucloud.errors import GpucloudError

POLL_S = 1.0
"""How often to look whether something was written: that is one query by a key."""
AGAIN_S = 60.0
"""How often to read everything though nothing was written: costs grow, deadlines pass."""
PATIENCE_S = 10.0
"""For how long what was read is current, though the journal was not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the page shows at one moment.

    Attributes:
        number: counts them.
        cursor: that of the journal's last event.
        text: the document.
    """

    number: int
    cursor: int
    text: str


class Feed:
    """Reads for all open pages. While none is open, nothing is read and no cloud is asked.

    Args:
        reader: reads, and asks.

    Attributes:
        watchers: how many pages are open.
        trouble: why the journal cannot be read; ``None`` if it can.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._asked: Asked = NOT_ASKED
        self._shown: Asked = NOT_ASKED
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._moment: Moment | None = None
        self._read_at = self._checked_at = 0.0
        self.watchers = 0
        self.trouble: str | None = None

    def start(self) -> None:
        """Begins to look; the threads end with :meth:`end`, or with the process."""
        threading.Thread(target=self._follow, daemon=True).start()
        if self._reader.live_every is not None:
            threading.Thread(target=self._ask, args=(self._reader.live_every,), daemon=True).start()

    def end(self) -> None:
        """Looks no more."""
        self._ended.set()

    @property
    def is_current(self) -> bool:
        """Whether what :attr:`latest` has is known to be what the journal has."""
        return self.trouble is None and time.monotonic() - self._checked_at < PATIENCE_S

    @property
    def latest(self) -> Moment | None:
        """The newest that was read."""
        return self._moment

    def read(self) -> Moment:
        """What the page shows now; read only if something was written, or a minute has passed.

        Raises:
            GpucloudError: the journal cannot be read.
        """
        with self._lock:
            cursor, asked = self._reader.cursor(), self._asked
            known = self._moment
            old = time.monotonic() - self._read_at > AGAIN_S
            if known is None or cursor != known.cursor or asked is not self._shown or old:
                self._read_at = time.monotonic()
                document = self._reader.read(asked)
                number = known.number + 1 if known else 1
                known = Moment(number=number, cursor=document["cursor"], text=encoded(document))
                self._moment, self._shown = known, asked
            self._checked_at, self.trouble = time.monotonic(), None
            return known

    def _follow(self) -> None:
        while not self._ended.wait(POLL_S):
            if self.watchers:
                try:
                    self.read()
                except GpucloudError as error:
                    self.trouble = error.message

    def _ask(self, every: timedelta) -> None:
        """Asks the clouds at once, and again and again while a page is open."""
        pause_s = 0.0
        while not self._ended.wait(pause_s):
            pause_s = POLL_S
            if self.watchers or self._asked is NOT_ASKED:
                try:
                    self._asked = self._reader.ask()
                except GpucloudError as error:
                    self._asked = Asked(at=self._asked.at, left_out={}, warnings=(error.message,))
                pause_s = every.total_seconds()

"""What the page shows now: read again when the journal was written to, and once a minute."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import timedelta

from gpucloud.dashboard.page import encoded
from gpucloud.dashboard.reading import NOT_ASKED, CloudsAnswer, PageReader
from gpucloud.errors import GpucloudError

POLL_S = 1.0
"""How often to look whether something was written: that is one query by a key."""
AGAIN_S = 60.0
"""How long to wait before everything is read again though nothing was written: costs grow, deadlines pass."""
IDLE_SHARE, BUSY_SHARE = 1 / 300, 1 / 5
"""The most of a core that reading takes, however many boxes there are: while nothing is written, and else."""
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

    def __init__(self, reader: PageReader) -> None:
        self._reader = reader
        self._asked: CloudsAnswer = NOT_ASKED
        self._shown: CloudsAnswer = NOT_ASKED
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._moment: Moment | None = None
        self._read_at = self._checked_at = self._took_s = 0.0
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

    def read(self, *, sparing: bool = False) -> Moment:
        """What the page shows now; read only if something was written, or a minute has passed.

        Args:
            sparing: whether to read no more often than the shares of a core allow.

        Raises:
            GpucloudError: the journal cannot be read.
        """
        with self._lock:
            cursor, asked, known = self._reader.cursor(), self._asked, self._moment
            news = known is None or cursor != known.cursor or asked is not self._shown
            pause_s = self._took_s / (BUSY_SHARE if news else IDLE_SHARE) if sparing else 0.0
            due = time.monotonic() - self._read_at > max(pause_s, 0.0 if news else AGAIN_S)
            if known is None or due:
                known = self._read(asked)
            self._checked_at, self.trouble = time.monotonic(), None
            return known

    def _read(self, asked: CloudsAnswer) -> Moment:
        began_s, number = time.thread_time(), self._moment.number + 1 if self._moment else 1
        document = self._reader.read(asked)
        self._moment = Moment(number=number, cursor=document["cursor"], text=encoded(document))
        self._shown, self._read_at = asked, time.monotonic()
        self._took_s = time.thread_time() - began_s
        return self._moment

    def _follow(self) -> None:
        while not self._ended.wait(POLL_S):
            if self.watchers:
                try:
                    self.read(sparing=True)
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
                    self._asked = CloudsAnswer(at=self._asked.at, left_out={}, warnings=(error.message,))
                pause_s = every.total_seconds()

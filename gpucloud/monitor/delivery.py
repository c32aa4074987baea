"""Sends notices: to each channel once, with a few tries, in seconds. What is not sent is told, not raised."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpucloud.monitor.channels import Channel, NotSentError
from gpucloud.monitor.notices import Notice
from gpucloud.redaction import redact
from gpucloud_pricing.sqlite_file import connect, migrate, transaction, use_wal

FILE = "notices.db"
TRIES = 3
PAUSES_S = (0.5, 2.0)
CLAIM_S = 60.0
"""How long a process that has begun to send keeps others from sending the same."""
REMEMBERED_S = 90 * 86400.0
BUSY_S = 2.0

_VERSION_1 = """
CREATE TABLE sent (key TEXT NOT NULL, channel TEXT NOT NULL, at REAL NOT NULL, done INTEGER NOT NULL,
    PRIMARY KEY (key, channel)) STRICT, WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """Which channel got which notice: a file beside the journal, which several processes share."""

    path: Path

    def begin(self, notice: Notice, channel: Channel) -> bool:
        """Whether this process is to send it now: nobody has, and nobody began to within a minute.

        A process that dies before :meth:`end` leaves it to a later one: it may then arrive twice.
        """
        now = time.time()
        with self._open() as file, transaction(file):
            file.execute("DELETE FROM sent WHERE at < ?", (now - REMEMBERED_S,))
            found = file.execute(
                "SELECT at, done FROM sent WHERE key = ? AND channel = ?", (notice.key, channel.name)
            ).fetchone()
            if found is not None and (found[1] or now - found[0] < CLAIM_S):
                return False
            file.execute("INSERT OR REPLACE INTO sent VALUES (?, ?, ?, 0)", (notice.key, channel.name, now))
            return True

    def end(self, notice: Notice, channel: Channel, *, sent: bool) -> None:
        """Says how that ended: what was not sent may be tried again."""
        of_it = (notice.key, channel.name)
        with self._open() as file, transaction(file):
            if sent:
                file.execute("UPDATE sent SET done = 1 WHERE key = ? AND channel = ?", of_it)
            else:
                file.execute("DELETE FROM sent WHERE key = ? AND channel = ?", of_it)

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        self.path.touch(mode=0o600)
        file = connect(self.path, busy_s=BUSY_S)
        try:
            use_wal(file, BUSY_S)
            migrate(file, [_VERSION_1])
            yield file
        finally:
            file.close()


def send(channel: Channel, notice: Notice, pause: Callable[[float], object] = time.sleep) -> None:
    """Sends one notice, with up to three tries.

    Raises:
        NotSentError: the channel did not take it. The message has no address.
    """
    for wait_s in (*PAUSES_S, None):
        try:
            channel.way.send(notice)
        except NotSentError as error:
            if error.lasts or wait_s is None:
                raise NotSentError(f"channel {channel.name!r}: {error.message}", lasts=True) from None
            pause(wait_s)
        else:
            return


def try_each(channels: Sequence[Channel], notice: Notice, *, within_s: float) -> dict[str, str]:
    """Sends one notice to every channel, each in a thread of its own.

    Args:
        channels: the channels.
        notice: the notice.
        within_s: how long to wait.

    Returns:
        The channels that did not take it, by name, and why.
    """
    failures: dict[str, str] = {}

    def attempt(channel: Channel) -> None:
        try:
            send(channel, notice)
        except NotSentError as error:
            failures[channel.name] = error.message
        except Exception as error:  # a library's
            failures[channel.name] = f"channel {channel.name!r}: {type(error).__name__}"

    threads = [threading.Thread(target=attempt, args=(channel,), daemon=True) for channel in channels]
    failures |= {channel.name: _silent(channel, within_s) for channel in _joined(channels, threads, within_s)}
    return {name: redact(text) for name, text in failures.items()}


def _joined(
    channels: Sequence[Channel], threads: Sequence[threading.Thread], within_s: float
) -> list[Channel]:
    """Runs a thread for each channel; the channels whose threads have not ended in time."""
    for thread in threads:
        thread.start()
    end = time.monotonic() + within_s
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0.0))
    return [channel for channel, thread in zip(channels, threads, strict=True) if thread.is_alive()]


def _silent(channel: Channel, within_s: float) -> str:
    return f"channel {channel.name!r} has not answered within {within_s:.0f} s"


def deliver(
    channels: Sequence[Channel],
    sent: Sent,
    notices: Collection[Notice],
    *,
    within_s: float,
    complain: Callable[[str], None],
) -> None:
    """Sends notices to the channels that want them, each channel in a thread of its own.

    Args:
        channels: the channels.
        sent: what they got already.
        notices: the notices, in order.
        within_s: how long to wait; what is under way then goes on while this process lives.
        complain: is called with what was not sent.
    """
    if not notices:
        return
    failures: list[str] = []
    threads = [
        threading.Thread(target=_send_all, args=(channel, sent, notices, failures.append), daemon=True)
        for channel in channels
    ]
    failures += [_silent(channel, within_s) for channel in _joined(channels, threads, within_s)]
    for text in failures:
        complain(redact(text))


def _send_all(
    channel: Channel, sent: Sent, notices: Collection[Notice], complain: Callable[[str], None]
) -> None:
    """Sends to one channel what it wants and has not got; fails with nothing."""
    for notice in filter(channel.wants, notices):
        try:
            if not sent.begin(notice, channel):
                continue
            try:
                send(channel, notice)
            except NotSentError as error:
                sent.end(notice, channel, sent=False)
                complain(f"{error.message}; not sent: {notice.text}")
            else:
                sent.end(notice, channel, sent=True)
        except Exception as error:  # a library's, a full disk: no reason for a command to fail
            complain(f"channel {channel.name!r}: {type(error).__name__}; not sent: {notice.text}")

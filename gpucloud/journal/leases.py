"""Leases of this process: its identity, whether other holders are alive, and the renewal."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from _thread import start_new_thread
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime

from gpucloud.journal.errors import JournalError
from gpucloud.journal.lifecycle import BEAT_EVERY_S, Claim, Lease, claim_on
from gpucloud.journal.store import Journal
from gpucloud.processes import boot_id, namespace, started

_calls: set[str] = set()
"""The calls of this process that are under way: none touches a box that another one holds."""


@contextmanager
def calling() -> Generator[str]:
    """A call of the library: yields the id that its leases carry while the body runs."""
    call = secrets.token_hex(8)
    _calls.add(call)
    try:
        yield call
    finally:
        _calls.discard(call)


def this_process(now: datetime, call: str = "") -> Lease:
    """The lease of a call of this process, renewed at ``now``."""
    pid = os.getpid()
    return Lease(
        host=socket.gethostname(),
        boot=boot_id(),
        namespace=namespace(),
        pid=pid,
        started=started(pid) or 0,
        beat=now,
        call=call,
    )


def claim(lease: Lease | None, now: datetime, call: str = "") -> Claim:
    """The meaning of a lease in the journal for a call of this process; ``now`` is by the journal's clock."""
    since = started(lease.pid) if lease else None
    alive = [] if lease is None or since is None else [(lease.pid, since)]
    return claim_on(lease, here=this_process(now, call), alive=alive, calls=_calls)


@contextmanager
def renewing(journal: Journal) -> Generator[None]:
    """While the body runs, renews every lease that this process holds, in a thread of its own."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(BEAT_EVERY_S):
            with suppress(JournalError):  # a full disk, another writer: the next renewal may pass
                journal.renew()

    # Without memory for a thread the leases are not renewed: the work under way must be finished all the
    # same.
    with suppress(RuntimeError):  # Thread.start() would wait for ever for a thread that dies at once
        start_new_thread(renew, ())
    try:
        yield
    finally:
        over.set()

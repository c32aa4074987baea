"""The signals by which a user ends a command."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None]) -> Generator[None]:
    """Handles the signals that end a command while the body runs. Only the main thread can.

    One that whoever started this process has had ignored stays so: after ``nohup``, a closed window ends
    nothing.
    """
    heard = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    old = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, before in old.items():
            signal.signal(number, before)

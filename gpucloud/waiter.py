"""Where the main thread waits, so that a signal is answered at once while calls run in threads."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, TypeVar

from gpucloud.errors import InterruptedBySignal

T = TypeVar("T")

LISTEN_S = 0.5
"""The kernel may give a signal to any thread (signal(7)), and that alone does not wake the main one."""


class TimedOutError(Exception):
    """A call did not end by its deadline; it may still be running."""


@dataclass(slots=True)
class Call:
    """A call that runs in a thread of its own."""

    result: Any = None
    error: BaseException | None = None
    done: bool = False

    def value(self) -> Any:
        """What it gave, or raises what it raised."""
        if self.error is not None:
            raise self.error
        return self.result


class Waiter:
    """Where the main thread waits. Calls run in daemon threads; a signal ends the wait, not the call.

    The first SIGINT, SIGTERM or SIGHUP makes the present or next wait raise :class:`InterruptedBySignal`;
    inside :meth:`finishing` waits go on. A second signal ends the process at once, after printing
    ``clean_up``, the command that cleans up.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, nap: Callable[[float], None] | None = None) -> None:
        self._nap = nap
        self.signum: int | None = None
        self.clean_up = "gpucloud list"
        self._deaf = 0
        self._asking = False
        self._inbox: SimpleQueue[Call | None] = SimpleQueue()
        self._thread = threading.get_ident()

    @contextmanager
    def listening(self) -> Generator[Waiter]:
        """Handles the signals while the body runs. Only the main thread can."""
        old = {number: signal.signal(number, self._on_signal) for number in self.SIGNALS}
        try:
            yield self
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    @contextmanager
    def finishing(self) -> Generator[None]:
        """While the body runs, the first signal does not end waits: what was begun is finished."""
        self._deaf += 1
        try:
            yield
        finally:
            self._deaf -= 1

    @contextmanager
    def asking(self) -> Generator[None]:
        """While the body waits for the user's answer, a signal ends it at once: nothing is under way."""
        self._asking = True
        try:
            yield
        finally:
            self._asking = False

    def start(self, call: Callable[[], Any]) -> Call:
        """Starts a call in a daemon thread."""
        running = Call()
        context = copy_context()

        def run() -> None:
            if (tracer := threading.gettrace()) is not None:  # a debugger, or who measures coverage
                sys.settrace(tracer)
            try:
                running.result = context.run(call)
            except BaseException as error:
                running.error = error
            running.done = True
            self._inbox.put(running)

        try:  # Thread.start() would wait for ever for a thread that runs out of memory before its first line
            start_new_thread(run, ())
        except RuntimeError:  # no memory for one more: a signal has to wait, but what was begun is finished
            run()
        return running

    def wait(self, running: Call, timeout_s: float) -> Any:
        """Waits for a started call and gives what it gave.

        Raises:
            TimedOutError: it did not end in time; it goes on in its thread.
            InterruptedBySignal: a signal came first; the call goes on in its thread.
        """
        if (
            threading.get_ident() != self._thread
        ):  # who waits here too would take the news that the other waits for
            raise RuntimeError("only one thread may wait here")
        deadline = time.monotonic() + timeout_s
        while not running.done:
            self.check()
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimedOutError(f"no answer within {timeout_s:.0f} s")
            try:
                self._inbox.get(timeout=min(left_s, LISTEN_S))
            except Empty:
                continue
        return running.value()

    def run(self, call: Callable[[], T], timeout_s: float = 300.0) -> T:
        """Starts a call and waits for it."""
        self.check()
        result: T = self.wait(self.start(call), timeout_s)
        return result

    def pause(self, seconds: float) -> None:
        """Sleeps, but a signal ends it. A test's own ``nap`` takes the place of sleeping."""
        if self._nap is not None:
            self.check()
            self._nap(seconds)
            return
        try:
            self.wait(Call(), seconds)
        except TimedOutError:
            return

    def check(self) -> None:
        """Raises :class:`InterruptedBySignal` if a signal came and nothing must be finished first."""
        if self.signum is not None and not self._deaf:
            raise InterruptedBySignal(f"ended by {signal.Signals(self.signum).name}", signum=self.signum)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.signum is not None:
            # Not through sys.stderr: the signal may have come in the middle of a write to it.
            os.write(2, f"\nended at once; clean up with: {self.clean_up}\n".encode())
            os._exit(128 + signum)
        self.signum = signum
        self._inbox.put(None)
        if self._asking:
            self.check()

"""Calls in threads, and how the calling thread waits: signals are handled at once, and every wait ends.

The rule for the end of every wait is here, and only here: the budget of :meth:`Tasks.within`, and a minute
after the first signal.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, TypeVar

from gpucloud.errors import GpucloudError, InterruptedBySignal
from gpucloud.processes import handling_signals

T = TypeVar("T")

CALL_TIMEOUT_S = 90.0
"""How long a call may take by default, with all its retries."""
AFTER_SIGNAL_S = 60.0
"""How long a command continues after the first signal, to end what is billed."""
LISTEN_S = 0.5
"""The kernel may deliver a signal to any thread (signal(7)), and that alone does not wake the main one."""


class TimedOutError(GpucloudError):
    """A call did not end by its deadline; it may still be running."""


@dataclass(slots=True)
class Call:
    """A call that runs in a thread of its own."""

    result: Any = None
    error: BaseException | None = None
    done: bool = False

    def value(self) -> Any:
        """The result of the call. Raises its exception."""
        if self.error is not None:
            raise self.error
        return self.result


class Tasks:
    """Runs calls in daemon threads and waits for them. A signal ends the wait, not the call.

    The first SIGINT, SIGTERM or SIGHUP makes the present or next wait raise :class:`InterruptedBySignal`;
    inside :meth:`finishing` waits continue, for a minute at most. Ctrl-C (SIGINT) after that ends the process
    at once, after printing ``clean_up``, the command that cleans up. ``heard`` is called when a signal is
    deferred.

    Args:
        nap: replaces sleeping; tests move their clock with it.
        monotonic: the clock of the budgets, in seconds.
    """

    def __init__(
        self, nap: Callable[[float], None] | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._nap = nap
        self._monotonic = monotonic
        self._end: float = math.inf
        self._signal_at: float | None = None
        self.signum: int | None = None
        self.clean_up = "gpucloud list"
        self.heard: Callable[[str], None] = lambda _: None
        self._answered = False
        self.at_terminal = False
        self._noting = False
        self._another = False
        self._signals_deferred = 0
        self._asking = False
        self._inbox: SimpleQueue[Call | None] = SimpleQueue()
        self._thread = threading.get_ident()

    @contextmanager
    def listening(self) -> Generator[Tasks]:
        """Handles the signals while the body runs. Only the main thread can."""
        with handling_signals(self._on_signal):
            yield self

    @contextmanager
    def finishing(self) -> Generator[None]:
        """While the body runs, the first signal does not end waits: work that was started is finished."""
        self._signals_deferred += 1
        try:
            yield
        finally:
            self._signals_deferred -= 1

    @contextmanager
    def within(self, budget_s: float) -> Generator[None]:
        """While the body runs, all waits together take no longer than this; an earlier end stays."""
        outer = self._end
        self._end = min(outer, self._monotonic() + budget_s)
        try:
            yield
        finally:
            self._end = outer

    @property
    def left_s(self) -> float:
        """The seconds left for the work under way; infinite without a budget and without a signal."""
        end = self._end if self._signal_at is None else min(self._end, self._signal_at + AFTER_SIGNAL_S)
        return max(end - self._monotonic(), 0.0)

    def for_another_thread(self) -> Tasks:
        """An instance for the thread that calls this. It receives no signals, so it needs a budget."""
        return Tasks(self._nap, self._monotonic)

    @contextmanager
    def noting_another(self) -> Generator[Callable[[float], bool]]:
        """While the body runs, one more Ctrl-C does not end the process, but is noted; only at a terminal.

        Yields:
            Waits so many seconds at most, and returns whether it came; elsewhere it returns at once.
        """
        self._noting = self.at_terminal

        def another(timeout_s: float) -> bool:
            end = time.monotonic() + (timeout_s if self._noting else 0.0)
            while not self._another and (left_s := end - time.monotonic()) > 0:
                with suppress(Empty):
                    self._inbox.get(timeout=min(left_s, LISTEN_S))
            return self._another

        try:
            yield another
        finally:
            self._noting = False

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
            if (tracer := threading.gettrace()) is not None:  # a debugger, or a coverage tool
                sys.settrace(tracer)
            try:
                running.result = context.run(call)
            except BaseException as error:
                running.error = error
            running.done = True
            self._inbox.put(running)

        try:  # Thread.start() would wait for ever for a thread that runs out of memory before its first line
            start_new_thread(run, ())
        except RuntimeError:  # no memory for a thread: a signal is deferred, but the call is made
            run()
        return running

    def wait(self, running: Call, timeout_s: float) -> Any:
        """Waits for a started call and returns its result.

        Raises:
            TimedOutError: it did not end in time, or within the budget; it continues in its thread.
            InterruptedBySignal: a signal came first; the call continues in its thread.
        """
        began = time.monotonic()
        if not self.until_done([running], timeout_s):
            waited_s = time.monotonic() - began
            within = f"{waited_s:.0f} s" if waited_s >= 1 else "the remaining time"
            raise TimedOutError(f"no answer within {within}")
        return running.value()

    def until_done(self, calls: Collection[Call], timeout_s: float, *, but: int = 0) -> bool:
        """Waits until these calls have ended, or the time is over.

        Args:
            calls: what to wait for.
            timeout_s: how long to wait at the most.
            but: the number of calls that may still be running.

        Returns:
            Whether they have ended.

        Raises:
            InterruptedBySignal: a signal came first; the calls continue in their threads.
        """
        if (
            threading.get_ident() != self._thread
        ):  # a second waiting thread would consume the wake-up of the first
            raise RuntimeError("only one thread may wait here")
        deadline = time.monotonic() + min(timeout_s, self.left_s)
        while sum(not call.done for call in calls) > but:
            self.check()
            left_s = min(deadline - time.monotonic(), self.left_s)
            if left_s <= 0:
                return False
            with suppress(Empty):
                self._inbox.get(timeout=min(left_s, LISTEN_S))
        return True

    def run(self, call: Callable[[], T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        """Starts a call and waits for it; without time left, it is not started.

        Raises:
            TimedOutError: it did not end in time; it continues in its thread.
            InterruptedBySignal: a signal came first; the call continues in its thread.
        """
        self.check()
        if not self.left_s:
            raise TimedOutError("no time is left")
        result: T = self.wait(self.start(call), timeout_s)
        return result

    def run_all(self, calls: Iterable[Callable[[], Any]], timeout_s: float = CALL_TIMEOUT_S) -> list[Call]:
        """Starts calls at the same time; returns them, in order, when all have ended or the time is over.

        Raises:
            TimedOutError: no time is left; none was started.
            InterruptedBySignal: a signal came first; the calls continue in their threads.
        """
        self.check()
        if not self.left_s:
            raise TimedOutError("no time is left")
        running = [self.start(call) for call in calls]
        self.until_done(running, timeout_s)
        return running

    def pause(self, seconds: float) -> None:
        """Sleeps, until a signal or the end of the budget at the latest."""
        if self._nap is not None:
            self.check()
            self._nap(min(seconds, self.left_s))
            return
        try:
            self.wait(Call(), seconds)
        except TimedOutError:
            return

    def check(self) -> None:
        """Raises :class:`InterruptedBySignal` if a signal came and no work must be finished first.

        If work must be finished first, ``heard`` is called, once.
        """
        if self.signum is None:
            return
        name = signal.Signals(self.signum).name
        if not self._signals_deferred:
            raise InterruptedBySignal(f"stopped by {name}", signum=self.signum)
        if not self._answered and not self._noting:
            self._answered = True
            self.heard(
                f"{name}: finishing within {AFTER_SIGNAL_S:.0f} s; Ctrl-C once more stops gpucloud at once"
            )

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.signum is not None:
            # A closed window is told twice, by the shell and by the kernel; a CI service sends SIGTERM a few
            # seconds after its SIGINT: neither is impatience.
            if signum != signal.SIGINT:
                return
            if self._noting:
                self._another = True
                self._inbox.put(None)
                return
            with suppress(OSError):  # not through sys.stderr: the signal may have come amid a write to it
                os.write(2, f"\nstopped at once; clean up with: {self.clean_up}\n".encode())
            os._exit(128 + signum)
        self.signum = signum
        self._signal_at = self._monotonic()
        self._inbox.put(None)
        if self._asking:
            self.check()

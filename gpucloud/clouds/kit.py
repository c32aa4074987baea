"""What providers have in common: for authors of providers, so that none writes it again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import Generic, TypeVar, cast

T = TypeVar("T")
U = TypeVar("U")

THREADS = 8


def in_threads(call: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """The calls' results, in order; several at a time."""
    listed = list(items)
    if len(listed) < 2:
        return [call(item) for item in listed]
    from multiprocessing.pool import ThreadPool  # its threads are daemons: they never hold up an exit

    # Each in a copy of this context: who is told of calls knows from it what they are for.
    here = [copy_context() for _ in listed]

    def called(number: int) -> U:
        return here[number].run(call, listed[number])

    with ThreadPool(min(THREADS, len(listed))) as pool:
        return pool.map(called, range(len(listed)), chunksize=1)


def together(*calls: Callable[[], U]) -> list[U]:
    """The results of different calls that are made at the same time, in order."""

    def called(call: Callable[[], U]) -> U:
        return call()

    return in_threads(called, calls)


class Ahead(Generic[T]):
    """Something that is done while other things are: begun now, waited for when it is needed."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._value: T | None = None
        self._error: Exception | None = None
        # In a copy of this context, as above.
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    def result(self) -> T:
        """What the call gave. Raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    def _run(self) -> None:
        try:
            self._value = self._call()
        except Exception as error:
            self._error = error

"""What providers have in common: for authors of providers, so that none writes it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import TypeVar

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

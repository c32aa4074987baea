"""Several calls at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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

    with ThreadPool(min(THREADS, len(listed))) as pool:
        return pool.map(call, listed, chunksize=1)


def together(*calls: Callable[[], U]) -> list[U]:
    """The results of different calls that are made at the same time, in order."""

    def call(each: Callable[[], U]) -> U:
        return each()

    return in_threads(call, calls)

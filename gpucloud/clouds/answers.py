"""Bounds the answers of SDKs that read them whole, with the package requests."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

MOST_BYTES = 8 << 20
"""Of one answer, unpacked. Read, it takes several times as much memory."""


def bound_answers(session: Any, too_long: type[Exception]) -> None:
    """Bounds what a ``requests.Session`` reads whole; what is streamed is its reader's matter.

    May be repeated.

    Args:
        session: with all of its adapters mounted.
        too_long: raised for an answer of more than :data:`MOST_BYTES`.
    """
    for adapter in session.adapters.values():
        if not isinstance(adapter.send, partial):
            adapter.send = partial(_sent, adapter.send, too_long)


def _sent(
    send: Callable[..., Any], too_long: type[Exception], request: Any, *, stream: bool = False, **options: Any
) -> Any:
    answer = send(request, stream=stream, **options)
    if not stream:
        answer.raw.stream = partial(_read, answer.raw, answer.raw.stream, too_long)
    return answer


def _read(
    raw: Any, read: Callable[..., Generator[bytes]], too_long: type[Exception], *args: Any, **options: Any
) -> Generator[bytes]:
    length = 0
    for chunk in read(*args, **options):
        length += len(chunk)
        if length > MOST_BYTES:
            raw.close()
            raise too_long(f"the answer has more than {MOST_BYTES:,} bytes")
        yield chunk

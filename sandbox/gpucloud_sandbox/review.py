"""Whose requests the emulators' reviewers examine.

A reviewer refuses what gpucloud must never send although the cloud would do it: open ports, disks without
encryption, purchases. Other tools may send such requests.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

if TYPE_CHECKING:
    from werkzeug.wrappers import Request

P = ParamSpec("P")

_OWN_AGENT = "gpucloud/"
_OWN_TAGS = (b"gpucloud:", b"gpucloud%3a")


class Review(StrEnum):
    """Which requests are examined: all, those that gpucloud sent or that carry its tags, or none."""

    ALL = "all"
    OWN = "own"
    OFF = "off"


_EXAMINED: ContextVar[bool] = ContextVar("examined", default=True)
"""Whether the request that this thread answers is examined."""


def is_own(request: Request) -> bool:
    """Whether gpucloud sent a request, by its user agent, or somebody sent one with gpucloud's tags."""
    if _OWN_AGENT in request.headers.get("User-Agent", ""):
        return True
    sent = request.get_data(cache=True).lower() + request.query_string.lower()
    return any(tag in sent for tag in _OWN_TAGS)


@contextmanager
def examining(review: Review, request: Request) -> Generator[None]:
    """Decides for the time of an answer whether reviewers examine the request."""
    examined = review is Review.ALL or (review is Review.OWN and is_own(request))
    token = _EXAMINED.set(examined)
    try:
        yield
    finally:
        _EXAMINED.reset(token)


@contextmanager
def unexamined() -> Generator[None]:
    """Does something that is not the request's of now: reviewers examine nothing meanwhile."""
    token = _EXAMINED.set(False)
    try:
        yield
    finally:
        _EXAMINED.reset(token)


def reviewer(check: Callable[P, None]) -> Callable[P, None]:
    """A check that refuses by raising, made to do nothing for requests that are not examined."""

    @wraps(check)
    def examined(*args: P.args, **kwargs: P.kwargs) -> None:
        if _EXAMINED.get():
            check(*args, **kwargs)

    return examined

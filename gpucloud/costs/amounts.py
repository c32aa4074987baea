"""Reads the times and sizes of an estimate: plain numbers, or with units as everywhere else."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal, InvalidOperation

from gpucloud.errors import UsageError
from gpucloud.spec.fields import end, gib


def hours(flag: str, text: str) -> Decimal:
    """Hours: ``72``, ``0.5``, ``3d``, ``1d12h``.

    Raises:
        UsageError: it is neither a number nor a duration.
    """
    number = _number(text)
    return Decimal(int(time(flag, text).total_seconds())) / 3600 if number is None else number


def minutes(flag: str, text: str) -> timedelta:
    """A time, from 0: ``5`` and ``5m`` are five minutes.

    Raises:
        UsageError: it is neither a number of minutes nor a duration.
    """
    number = _number(text)
    if number is None:
        return time(flag, text)
    if not 0 <= number <= 100_000:
        raise UsageError(f"{flag}: {text!r} is not allowed; allowed: 0, 5m, 1h")
    return timedelta(minutes=float(number))


def time(flag: str, text: str) -> timedelta:
    """A duration: ``30m``, ``1h30m``.

    Raises:
        UsageError: it is none.
    """
    try:
        found = end(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
    if isinstance(found, str):
        raise UsageError(f"{flag}: {text!r} is not allowed; allowed: 1s or more")
    return found


def size(flag: str, text: str) -> Decimal:
    """A size in GiB, from 0: ``500``, ``500GB``, ``1TB``.

    Raises:
        UsageError: it is none.
    """
    if _number(text) == 0:
        return Decimal(0)
    try:
        return gib(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def number(flag: str, text: str) -> Decimal:
    """A number.

    Raises:
        UsageError: it is none.
    """
    found = _number(text)
    if found is None:
        raise UsageError(f"{flag}: {text!r} is not a number; allowed: such as 8 or 0.5")
    return found


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None

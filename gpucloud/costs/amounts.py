"""Reads the times and sizes of an estimate: plain numbers, or with units as everywhere else."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal, InvalidOperation

from gpucloud.errors import UsageError
from gpucloud.spec.fields import end, gib

_MOST_DIGITS = 100  # a number beyond is an amount of nothing, and overflows where it is multiplied
_THOUSANDS = {"k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_PREFIXES = {"": 1, "T": 10**12, "P": 10**15, "E": 10**18, "Z": 10**21, "Y": 10**24}


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


def count(flag: str, text: str) -> Decimal:
    """A count: ``300000``, ``1e12``, ``25k``, ``300M``, ``2B``, ``1.5T``.

    Raises:
        UsageError: it is none.
    """
    digits, factor = (text[:-1], _THOUSANDS[text[-1]]) if text[-1:] in _THOUSANDS else (text, 1)
    found = _number(digits)
    if found is None:
        raise UsageError(
            f"{flag}: {text!r} is not a count; allowed: such as 300000, 1e12, 25k, 300M, 2B, 1.5T"
        )
    return found * factor


def flop(flag: str, text: str) -> Decimal:
    """Floating-point operations: ``1e21 flop``, ``500 EFLOP``.

    Raises:
        UsageError: they cannot be read, or their unit is missing.
    """
    match = re.fullmatch(r"(\S+?)\s*([TPEZY]?)flop", text.strip(), re.IGNORECASE)
    found = None if match is None else _number(match[1])
    if match is None or found is None:
        raise UsageError(f"{flag}: {text!r} is no amount of work; allowed: such as '1e21 flop', '500 EFLOP'")
    return found * _PREFIXES[match[2].upper()]


def _number(text: str) -> Decimal | None:
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    return found if found.is_finite() and abs(found.adjusted()) < _MOST_DIGITS else None

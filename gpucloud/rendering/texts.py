"""Texts of tables and sentences: durations, numbers of things, foreign text without terminal escapes."""

from __future__ import annotations

import re
from datetime import timedelta

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC and other strings: titles, links, clipboard
    r"|\x1b[@-Z\\-_]?"  # two-character escapes
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # other controls; tab and newline stay
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069]",  # bidirectional control characters
    re.DOTALL,
)


def clean(text: str) -> str:
    """Removes terminal escapes, control characters and direction marks from foreign text."""
    return _ESCAPES.sub("", text)


def duration_text(duration: timedelta) -> str:
    """A duration as text: its two largest units (``1d4h``, ``2h30m``, ``45s``)."""
    seconds = abs(int(duration.total_seconds()))
    units = (
        ("d", seconds // 86400),
        ("h", seconds // 3600 % 24),
        ("m", seconds // 60 % 60),
        ("s", seconds % 60),
    )
    first = next((index for index, (_, count) in enumerate(units) if count), 3)
    text = "".join(f"{count}{unit}" for unit, count in units[first : first + 2] if count)
    return ("-" if duration < timedelta() else "") + (text or "0s")


def counted(number: int, thing: str) -> str:
    """A number of things: ``1 row``, ``2 rows``, ``0 queries``, ``4 days``, ``3 boxes``."""
    if number == 1:
        return f"1 {thing}"
    if thing.endswith("y") and not thing.endswith(("ay", "ey", "oy")):
        return f"{number} {thing[:-1]}ies"
    return f"{number} {thing}es" if thing.endswith("x") else f"{number} {thing}s"

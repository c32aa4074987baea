"""Finds the names that somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile


def closest(text: str, names: Iterable[str], *, most: int = 1, least: float = 0.6) -> list[str]:
    """The names most like a text, the likest first.

    Names within one slip (a character left out, added or replaced, or two exchanged) come first: of these,
    the one that begins like the text for longest, as people rarely mistake the first characters of a word.

    Args:
        text: the text.
        names: the names, in the same case as the text.
        most: how many are given at most.
        least: the least similarity, from 0 to 1 (:func:`difflib.get_close_matches`).
    """
    from difflib import get_close_matches  # few commands need it

    known = list(names)
    close = get_close_matches(text, known, n=len(known) or 1, cutoff=least)
    return sorted(close, key=lambda name: _slip_rank(text, name))[:most]


def _slip_rank(text: str, name: str) -> tuple[bool, int]:
    """Orders names: those within one slip first, the later it is the better."""
    begin = _alike_for(text, name)
    left, right = text[begin:], name[begin:]
    end = _alike_for(left[::-1], right[::-1])
    left, right = left[: len(left) - end], right[: len(right) - end]
    slip = max(len(left), len(right)) <= 1 or (len(left) == 2 and left == right[::-1])
    return not slip, -begin if slip else 0


def _alike_for(left: str, right: str) -> int:
    """How many characters two texts have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))

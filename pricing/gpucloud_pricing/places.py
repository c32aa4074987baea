"""Patterns for clouds, regions and zones: names, globs, geo groups, ``!x`` to exclude."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from gpucloud_pricing.values import Region

_WILDCARDS = frozenset("*?[")


class BadPlaceError(ValueError):
    """A pattern that matches no cloud, region or zone.

    Attributes:
        field: ``clouds``, ``regions`` or ``zones``.
        value: the pattern.
        nearest: the nearest name, if one is near.
    """

    def __init__(self, field: str, value: str, names: frozenset[str]) -> None:
        from difflib import get_close_matches

        close = get_close_matches(value.removeprefix("!"), sorted(names), n=1, cutoff=0.6)
        hint = f"; did you mean {close[0]}?" if close else ""
        super().__init__(f"unknown {field.removesuffix('s')} {value!r}{hint}")
        self.field = field
        self.value = value
        self.nearest = close[0] if close else None


def knows(names: frozenset[str], pattern: str) -> bool:
    """Whether a pattern, with or without ``!``, matches any name."""
    return _any_match(pattern.removeprefix("!"), names)


def admits(patterns: tuple[str, ...], names: frozenset[str]) -> bool:
    """Whether a place with these names is admitted.

    No ``!x`` may match, and one of the other patterns must match, if there are any.
    """
    positive = False
    hit = False
    for pattern in patterns:
        if pattern.startswith("!"):
            if _any_match(pattern[1:], names):
                return False
        else:
            positive = True
            hit = hit or _any_match(pattern, names)
    return hit or not positive


def names_specially(patterns: tuple[str, ...], name: str, head: str) -> bool:
    """Whether a pattern explicitly requests a place that is left out by default.

    A glob does if the text before its first wildcard begins with ``head``: ``us-gov-*`` requests GovCloud,
    ``us-*`` does not. Geo groups never do.
    """
    return any(
        pattern == name or (_head(pattern).startswith(head) and fnmatchcase(name, pattern))
        for pattern in patterns
    )


def region_names(region: Region) -> frozenset[str]:
    """The names of a region for patterns: its name and its geo groups."""
    return region.geos | {region.name}


def opt_in_head(zone: str, region: Region) -> str | None:
    """The prefix of a zone that an account must opt in to; ``None`` for an ordinary zone."""
    head = re.match(region.opt_in_zones, zone) if region.opt_in_zones else None
    return head and head.group()


def _any_match(pattern: str, names: frozenset[str]) -> bool:
    if pattern in names:
        return True
    return not _WILDCARDS.isdisjoint(pattern) and any(fnmatchcase(name, pattern) for name in names)


def _head(pattern: str) -> str:
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0]

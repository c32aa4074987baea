"""The members of requests that an emulator supports, as data. It refuses all other members.

An emulator's package has a file ``supported.toml``: a table per service, in it a list of members per call.

=================================  ==============================================================
``Placement.AvailabilityZone``     this member; elements of a list have no number
``Placement.Tenancy=default``      this member with this value alone (case does not count)
``Tags.*``                         everything below: the names are the caller's own
``Data.<launch>``                  below this one, each member of the list ``launch`` of the table ``shared``
=================================  ==============================================================
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class SupportedMembers:
    """The supported members of one call."""

    paths: frozenset[str]
    valued: Mapping[str, frozenset[str]]
    opened: tuple[str, ...]

    @classmethod
    def of(cls, members: list[str]) -> SupportedMembers:
        """Reads the list of a call."""
        valued: dict[str, frozenset[str]] = {}
        for path, given, value in (member.partition("=") for member in members):
            if given:
                valued[path] = valued.get(path, frozenset()) | {value.lower()}
        return cls(
            paths=frozenset(each for each in members if "=" not in each and not each.endswith(".*")),
            valued=valued,
            opened=tuple(each.removesuffix("*") for each in members if each.endswith(".*")),
        )

    def supports(self, path: str, value: Any) -> bool:
        """Whether a member with a value is supported. Empty lists and structures count as their parts."""
        if path in self.paths or f"{path}.".startswith(self.opened):
            return True
        if _text(value) in self.valued.get(path, ()):
            return True
        if value in (None, [], {}):
            return any(each.startswith(f"{path}.") for each in (*self.paths, *self.valued, *self.opened))
        return False

    def refused(self, members: Mapping[str, Any]) -> str | None:
        """The first member of a request that is not supported; with its value where others are."""
        for path, value in leaves(members):
            if not self.supports(path, value):
                return f"{path}={_text(value)}" if path in self.valued else path
        return None


@cache
def read(package: str) -> Mapping[tuple[str, str], SupportedMembers]:
    """The table of an emulator, by (service, call).

    Args:
        package: the emulator's package.
    """
    tables = tomllib.loads(files(package).joinpath("supported.toml").read_text(encoding="utf-8"))
    shared = tables.pop("shared", {})
    return {
        (service, call): SupportedMembers.of(
            [each for member in members for each in _spelled(member, shared)]
        )
        for service, calls in tables.items()
        for call, members in calls.items()
    }


def _spelled(member: str, shared: Mapping[str, list[str]]) -> list[str]:
    before, given, name = member.partition("<")
    return [f"{before}{each}" for each in shared[name.removesuffix(">")]] if given else [member]


def leaves(tree: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The members of a request without parts: path and value. Empty lists and structures are such members."""
    for name, value in tree.items():
        yield from _leaves(value, f"{before}{name}")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    match value:
        case dict() if value:
            yield from leaves(cast("dict[str, Any]", value), f"{path}.")
        case list() if value:
            for each in cast("Sequence[Any]", value):
                yield from _leaves(each, path)
        case _:
            yield path, value


def _text(value: Any) -> str:
    return str(value).lower()

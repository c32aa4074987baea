"""The attempts of a launch that failed, for people: by region and code, and what to do about the codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpucloud.errors import RULES, Next
from gpucloud.rendering.texts import counted

Attempt = Mapping[str, Any]

SHOWN = 8
"""So many regions and codes are shown with their types and messages; of the others, their number."""


def attempt_lines(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Two lines for each region and code: what was tried how often, and what the cloud said last.

    After the first :data:`SHOWN`, one line for each cloud and code, with the regions.
    """
    groups = _grouped(attempts, "region")
    for (cloud, code, region), alike in groups[:SHOWN]:
        yield f"{cloud} {region}: {code}, {counted(len(alike), 'attempt')}: {'; '.join(_types(alike))}"
        request = alike[-1]["request_id"]
        yield f"  {alike[-1]['message']}" + (f" (request id {request})" if request else "")
    for (cloud, code), alike in _grouped([each for _, group in groups[SHOWN:] for each in group]):
        regions = dict.fromkeys(each["region"] for each in alike)
        where = f"{counted(len(regions), 'more region')}: {', '.join(regions)}"
        yield f"{cloud}: {code}, {counted(len(alike), 'attempt')} in {where}"


def _grouped(attempts: Sequence[Attempt], *fields: str) -> list[tuple[tuple[str, ...], list[Attempt]]]:
    """The attempts by cloud, code, or class where it has none, and these fields, in order."""
    groups: dict[tuple[str, ...], list[Attempt]] = {}
    for attempt in attempts:
        key = (attempt["cloud"], attempt["code"] or attempt["class"], *(attempt[name] for name in fields))
        groups.setdefault(key, []).append(attempt)
    return list(groups.items())


def hint_lines(attempts: Sequence[Attempt], last: tuple[str | None, str | None]) -> Iterator[str]:
    """What to do about the codes that only the user can do something about, each once.

    Not of the ``last`` one, a cloud and its code: the failure itself has its hint.
    """
    classes = {str(name) for name, rule in RULES.items() if rule.next in {Next.LEAVE_CLOUD, Next.OTHER_QUOTA}}
    refused = [each for each in attempts if each["class"] in classes and each["code"]]
    hints = {(each["cloud"], each["code"]): each["hint"] for each in refused}
    for (cloud, code), hint in hints.items():
        if hint and (cloud, code) != last:
            yield f"{cloud} {code}: {hint}"


def _types(attempts: Sequence[Attempt]) -> Iterator[str]:
    """The types with the ways of paying and the zones in which they were tried."""
    zones: dict[tuple[str, str], list[str]] = {}
    for attempt in attempts:
        tried = zones.setdefault((attempt["instance_type"], attempt["purchase"]), [])
        if attempt["zone"]:
            tried.append(attempt["zone"])
    for (instance_type, purchase), tried in zones.items():
        where = f" in {', '.join(dict.fromkeys(tried))}" if tried else ""
        yield f"{instance_type} {purchase.replace('_', '-')}{where}"

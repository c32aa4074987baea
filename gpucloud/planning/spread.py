"""Several boxes of one spec at different places: which offers to try for each. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpucloud.planning.plan import Candidate
from gpucloud.spec.fields import SPREADS

Place = tuple[str, ...]
"""A cloud; with its region; or with its region and zone."""


def place_of(candidate: Candidate, spread: str) -> Place:
    """The place of an offer, as far as a spread distinguishes places."""
    return (candidate.cloud, candidate.region, candidate.zone)[: SPREADS[spread]]


def interleaved(ranked: Iterable[Candidate], spread: str) -> list[Candidate]:
    """Offers in rounds: the best of each place, then the second best of each. A round keeps the order."""
    seen: Counter[Place] = Counter()
    rounds: list[tuple[int, Candidate]] = []
    for candidate in ranked:
        place = place_of(candidate, spread)
        rounds.append((seen[place], candidate))
        seen[place] += 1
    return [candidate for _, candidate in sorted(rounds, key=lambda row: row[0])]


def most_at_a_place(attempts: Sequence[Candidate], count: int, spread: str) -> int:
    """The most boxes that a place gets: as many as an even distribution over all places needs."""
    places = {place_of(candidate, spread) for candidate in attempts}
    return -(-count // len(places))


def attempts_of_next(
    attempts: Sequence[Candidate], bought: Sequence[Candidate], count: int, spread: str | None
) -> list[Candidate]:
    """What to try for the next of several boxes, in order: places with fewer boxes first.

    Args:
        attempts: those of the plan, in order.
        bought: the offer of each box so far.
        count: the number of boxes in all.
        spread: what their places differ in; ``None`` for nothing.

    Returns:
        No offer of a place that has its boxes already.
    """
    if spread is None:
        return list(attempts)
    taken = Counter(place_of(candidate, spread) for candidate in bought)
    most = most_at_a_place(attempts, count, spread)
    free = [candidate for candidate in attempts if taken[place_of(candidate, spread)] < most]
    return sorted(free, key=lambda candidate: taken[place_of(candidate, spread)])


def spread_text(spec: Mapping[str, Any], attempts: Sequence[Candidate]) -> str | None:
    """How a plan places several boxes, as a sentence; ``None`` for one box.

    Args:
        spec: the spec of the plan, as plain JSON.
        attempts: those of the plan.
    """
    count, spread = spec.get("count", 1), spec.get("spread")
    if count == 1:
        return None
    if spread is None:
        return f"{count} boxes, each at the first attempt that succeeds."
    most, places = most_at_a_place(attempts, count, spread), {place_of(each, spread) for each in attempts}
    number = f"{len(places)} {spread}{'s' if len(places) > 1 else ''}"
    return f"{count} boxes over {number}, at most {most} in each."

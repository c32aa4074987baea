"""Assigns the parts of a project to regions of clouds at the lowest cost. Pure, and exact.

Data that leaves a cloud is priced by its origin and by all that leaves the same cloud, as steps and free
amounts are per account. So the cheapest places of some parts on one cloud, given that all others are
elsewhere, depend on nothing else. They are computed for each set of parts and each cloud, by variable
elimination over the transfers between places (Dechter, "Bucket elimination", Artificial Intelligence 113,
1999). Then the best partition of the parts among the clouds is found over all sets, from the first cloud on.

With P parts, C clouds and R places of a cloud that may be part of an optimum, the sets take C x 2^P
eliminations, each of at most P x R^(w+1) steps (w is the width of the graph of transfers: 1 for a chain or a
tree, 2 for a ring), and the partitions C x 3^P steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, reduce
from itertools import groupby, product
from math import prod
from typing import NamedTuple


class PartPlace(NamedTuple):
    """Where a part can be.

    Attributes:
        cloud: the cloud.
        region: the region.
        zone: the zone; empty if it is not known.
    """

    cloud: str
    region: str
    zone: str = ""


MOST_STEPS = 300_000
"""The most combinations of places that are computed for one part: some seconds."""


class TooDenseError(ValueError):
    """Too many parts exchange data with each other to find the cheapest places exactly."""


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """The order of what is chosen: complete costs first, then those at recent prices, then the lowest.

    Attributes:
        unknown: how many prices are unknown.
        stale: how many prices are stale.
        usd: the known part of the cost.
    """

    unknown: int = 0
    stale: int = 0
    usd: Decimal = Decimal(0)

    def __add__(self, other: Rank) -> Rank:
        return Rank(self.unknown + other.unknown, self.stale + other.stale, self.usd + other.usd)


NOTHING = Rank()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Data that a part sends to another one, by their numbers; ``target`` is ``None`` for the internet."""

    origin: int
    target: int | None
    gib: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Parts with the places that they can be in, and the data between them.

    Attributes:
        parts: the rank of each part in each place that it can be in.
        flows: what they send.
        between: the rank of data from one place to another of the same cloud, or within one.
        leaving: the rank of data from a place to another cloud or the internet, and how much leaves the
            same cloud in all. It must be a share of the whole, so that it grows with its quantity alone.
    """

    parts: Sequence[Mapping[PartPlace, Rank]]
    flows: Sequence[Flow]
    between: Callable[[PartPlace, PartPlace, Decimal], Rank]
    leaving: Callable[[PartPlace, Decimal, Decimal], Rank]

    @property
    def clouds(self) -> list[str]:
        """The clouds of the places."""
        return sorted({place.cloud for part in self.parts for place in part})


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Places of some parts by number, and the rank of all that they cost."""

    rank: Rank = NOTHING
    places: Mapping[int, PartPlace] = field(default_factory=dict[int, PartPlace])

    def with_others(self, other: Assignment) -> Assignment:
        """Both together: parts on different clouds."""
        return Assignment(rank=self.rank + other.rank, places={**self.places, **other.places})


def without_needless_zones(parts: Sequence[Mapping[PartPlace, Rank]]) -> list[dict[PartPlace, Rank]]:
    """The same parts, without each zone that another zone of its region can stand in for.

    All that is in the one zone can move to the other: no part and no transfer has a higher rank then, if
    transfers within a zone rank lowest, and others depend on regions alone. So no cheapest assignment is
    lost, and mostly one zone of each region is left. Unknown zones stay.
    """
    kept: set[PartPlace] = set()
    places = sorted({place for ranks in parts for place in ranks if place.zone})
    for _, zones in groupby(places, key=lambda place: place[:2]):
        best: list[PartPlace] = []
        for zone in zones:
            if not any(_stands_in(other, zone, parts) for other in best):
                best = [other for other in best if not _stands_in(zone, other, parts)] + [zone]
        kept.update(best)
    return [{place: ranks[place] for place in ranks if not place.zone or place in kept} for ranks in parts]


def _stands_in(zone: PartPlace, other: PartPlace, parts: Sequence[Mapping[PartPlace, Rank]]) -> bool:
    """Whether each part that can be in the other zone can be in this one, at no higher rank."""
    return all(zone in ranks and ranks[zone] <= ranks[other] for ranks in parts if other in ranks)


def on_one_cloud(problem: Problem) -> dict[str, Assignment]:
    """The cheapest assignment of all parts to each cloud that can have them all.

    Raises:
        TooDenseError: see :func:`cheapest`.
    """
    everything = (1 << len(problem.parts)) - 1
    found = {cloud: _on_cloud(problem, cloud, everything, None) for cloud in problem.clouds}
    return {cloud: assignment for cloud, assignment in found.items() if assignment is not None}


def cheapest(problem: Problem) -> Assignment | None:
    """The cheapest assignment; of equal ones, one on a single cloud. ``None`` if a part has no place.

    Raises:
        TooDenseError: it would take more than :data:`MOST_STEPS` for one part.
    """
    best: dict[int, Assignment] = {0: Assignment()}
    everything = (1 << len(problem.parts)) - 1
    single = on_one_cloud(problem).values()
    known = min((assignment.rank for assignment in single), default=None)
    for cloud in problem.clouds:
        here = {each: _on_cloud(problem, cloud, each, known) for each in range(1, everything + 1)}
        longer = dict(best)
        for parts in range(1, everything + 1):
            for some in _subsets(parts):
                mine, others = here[some], best.get(parts ^ some)
                if mine is None or others is None:
                    continue
                both = mine.with_others(others)
                if parts not in longer or both.rank < longer[parts].rank:
                    longer[parts] = both
        best = longer
    found = [*single, *([best[everything]] if everything in best else [])]
    return min(found, key=lambda assignment: assignment.rank, default=None)


def _subsets(parts: int) -> Iterator[int]:
    """The sets of parts within a set, as bits; without the empty one."""
    some = parts
    while some:
        yield some
        some = (some - 1) & parts


def _on_cloud(problem: Problem, cloud: str, members: int, known: Rank | None) -> Assignment | None:
    """The cheapest places of a cloud for some parts, all others being elsewhere.

    Args:
        problem: the problem.
        cloud: the cloud.
        members: the parts, as bits.
        known: the rank of an assignment of all parts, if one is known.

    Returns:
        ``None`` if a part cannot be there, or not in an assignment that is at least as good as the known one.
    """
    numbers = [part for part in range(len(problem.parts)) if members >> part & 1]
    out: dict[int, Decimal] = dict.fromkeys(numbers, Decimal(0))
    inside: list[Flow] = []
    for flow in problem.flows:
        if flow.origin in out and flow.target in out:
            inside.append(flow)
        elif flow.origin in out:
            out[flow.origin] += flow.gib
    total = sum(out.values(), Decimal(0))
    alone: dict[int, dict[PartPlace, Rank]] = {}
    for part in numbers:
        alone[part] = {
            place: rank + (problem.leaving(place, out[part], total) if out[part] else NOTHING)
            for place, rank in problem.parts[part].items()
            if place.cloud == cloud
        }
        if not alone[part]:
            return None
    others = [ranks for part, ranks in enumerate(problem.parts) if part not in alone]
    if not all(others):
        return None
    elimination = _Elimination(alone, inside, problem.between)
    elimination.leave_out(known, _sum(min(ranks.values()) for ranks in others))
    return elimination.run() if all(elimination.places.values()) else None


@dataclass(frozen=True, slots=True)
class _Factor:
    """The rank of each combination of places of some parts."""

    parts: tuple[int, ...]
    rank: Callable[[tuple[PartPlace, ...]], Rank]


class _Elimination:
    """Finds the places of lowest rank: removes one part after the other, the least connected one first.

    The removed part leaves a table: its best place, and the rank with it, for each combination of places of
    the parts that it exchanges data with.
    """

    def __init__(
        self,
        alone: Mapping[int, Mapping[PartPlace, Rank]],
        flows: Sequence[Flow],
        between: Callable[[PartPlace, PartPlace, Decimal], Rank],
    ) -> None:
        self.alone = alone
        self.flows = [(flow.origin, flow.target, flow.gib) for flow in flows if flow.target is not None]
        self.between = cache(between)
        self.places = {part: sorted(ranks) for part, ranks in alone.items()}
        self.factors = [
            *(self._single(part) for part in alone),
            *(self._pair(origin, target, gib) for origin, target, gib in self.flows),
        ]

    def _single(self, part: int) -> _Factor:
        """The rank of a part by its place."""
        return _Factor((part,), lambda key: self.alone[part][key[0]])

    def _pair(self, origin: int, target: int, gib: Decimal) -> _Factor:
        """The rank of a transfer by the places of its ends."""
        return _Factor((origin, target), lambda key: self.between(key[0], key[1], gib))

    def leave_out(self, known: Rank | None, elsewhere: Rank) -> None:
        """Leaves out the places that are in no assignment as good as a known one.

        Such a place costs more than the known assignment with every other part at its cheapest, and no
        transfers at all.

        Args:
            known: the rank of a known assignment of all parts.
            elsewhere: the least rank of the parts that are not here.
        """
        own = {part: min(places, key=self.alone[part].__getitem__) for part, places in self.places.items()}
        together = set[PartPlace].intersection(*map(set, self.places.values()))
        tried = [own, *(dict.fromkeys(own, place) for place in together)]
        limit = min(self._rank_of(places) + elsewhere for places in tried)
        limit = limit if known is None else min(limit, known)
        for part, places in self.places.items():
            least = elsewhere + _sum(self.alone[other][own[other]] for other in own if other != part)
            self.places[part] = [place for place in places if not limit < self.alone[part][place] + least]

    def run(self) -> Assignment:
        """The assignment of lowest rank.

        Raises:
            TooDenseError: it would take too many steps.
        """
        left, choices = (
            set(self.places),
            list[tuple[int, tuple[int, ...], dict[tuple[PartPlace, ...], PartPlace]]](),
        )
        rank = NOTHING
        while left:
            part = min(sorted(left), key=lambda each: len(self._neighbours(each)))
            left.remove(part)
            others = self._neighbours(part)
            if prod(len(self.places[each]) for each in (part, *others)) > MOST_STEPS:
                raise TooDenseError("too many parts exchange data with each other")
            mine = [factor for factor in self.factors if part in factor.parts]
            self.factors = [factor for factor in self.factors if part not in factor.parts]
            table, choice = self._table(part, others, mine)
            choices.append((part, others, choice))
            if others:
                self.factors.append(_Factor(others, table.__getitem__))
            else:
                rank += table[()]
        places: dict[int, PartPlace] = {}
        for part, others, choice in reversed(choices):
            places[part] = choice[tuple(places[each] for each in others)]
        return Assignment(rank=rank, places=places)

    def _neighbours(self, part: int) -> tuple[int, ...]:
        """The other parts of the factors of a part."""
        together = {each for factor in self.factors if part in factor.parts for each in factor.parts}
        return tuple(sorted(together - {part}))

    def _table(
        self, part: int, others: tuple[int, ...], factors: Sequence[_Factor]
    ) -> tuple[dict[tuple[PartPlace, ...], Rank], dict[tuple[PartPlace, ...], PartPlace]]:
        """The best place of a part, and its rank, for each combination of places of others."""
        ranks: dict[tuple[PartPlace, ...], Rank] = {}
        choice: dict[tuple[PartPlace, ...], PartPlace] = {}
        for key in product(*(self.places[each] for each in others)):
            given = dict(zip(others, key, strict=True))
            for place in self.places[part]:
                given[part] = place
                rank = _sum(factor.rank(tuple(given[each] for each in factor.parts)) for factor in factors)
                if key not in ranks or rank < ranks[key]:
                    ranks[key], choice[key] = rank, place
        return ranks, choice

    def _rank_of(self, places: Mapping[int, PartPlace]) -> Rank:
        alone = [self.alone[part][place] for part, place in places.items()]
        sent = [self.between(places[origin], places[target], gib) for origin, target, gib in self.flows]
        return _sum([*alone, *sent])


def _sum(ranks: Iterable[Rank]) -> Rank:
    return reduce(Rank.__add__, ranks, NOTHING)

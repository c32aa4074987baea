"""Assigning parts to places: never dearer than any other assignment, and the cheapest of all."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucloud.costs.assignment import (
    Flow,
    PartPlace,
    Problem,
    Rank,
    TooDenseError,
    cheapest,
    on_one_cloud,
    without_needless_zones,
)

PLACES = [PartPlace("a", "1"), PartPlace("a", "2"), PartPlace("b", "1"), PartPlace("b", "2")]
FREE = Decimal(15)

ranks = st.builds(Rank, st.integers(0, 1), st.integers(0, 1), st.integers(0, 40).map(Decimal))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Up to four parts on two clouds of two regions; 15 GiB leave a cloud free, as if of one account."""
    count = draw(st.integers(1, 4))
    parts = [draw(st.dictionaries(st.sampled_from(PLACES), ranks, min_size=1)) for _ in range(count)]
    ends = [(a, b) for a in range(count) for b in (None, *range(count)) if a != b]
    flows = [
        Flow(origin=origin, target=target, gib=Decimal(draw(st.integers(1, 30))))
        for origin, target in draw(st.lists(st.sampled_from(ends), max_size=5, unique=True))
    ]
    rates = {pair: draw(st.integers(0, 3)) for pair in itertools.product(PLACES, PLACES)}

    def between(origin: PartPlace, target: PartPlace, gib: Decimal) -> Rank:
        rate = rates[origin, target]
        return Rank(unknown=1) if rate == 3 else Rank(usd=gib * rate)

    def leaving(origin: PartPlace, gib: Decimal, together: Decimal) -> Rank:
        return Rank(usd=max(together - FREE, Decimal(0)) * rates[origin, origin] * gib / together)

    return Problem(parts=parts, flows=flows, between=between, leaving=leaving)


def rank_of(problem: Problem, places: Sequence[PartPlace]) -> tuple[int, int, Decimal]:
    """What an assignment costs, added up flow by flow: rounded, as shares of thirds are."""
    out: dict[str, Decimal] = defaultdict(Decimal)
    leaves = [f for f in problem.flows if f.target is None or places[f.target][0] != places[f.origin][0]]
    for flow in leaves:
        out[places[flow.origin][0]] += flow.gib
    costs = [problem.parts[number][place] for number, place in enumerate(places)]
    for flow in problem.flows:
        origin = places[flow.origin]
        if flow in leaves or flow.target is None:
            costs.append(problem.leaving(origin, flow.gib, out[origin[0]]))
        else:
            costs.append(problem.between(origin, places[flow.target], flow.gib))
    return rounded(sum(costs, Rank()))


def rounded(rank: Rank) -> tuple[int, int, Decimal]:
    return rank.unknown, rank.stale, round(rank.usd, 6)


@settings(max_examples=80)
@given(problem=problems())
def test_the_cheapest_is_the_best_of_all_assignments(problem: Problem) -> None:
    """Every assignment is tried; so none on a single cloud is better either."""
    found = cheapest(problem)
    assert found is not None
    assert rounded(found.rank) == min(rank_of(problem, each) for each in itertools.product(*problem.parts))
    assert rank_of(problem, [found.places[part] for part in range(len(problem.parts))]) == rounded(found.rank)


@settings(max_examples=40)
@given(problem=problems())
def test_on_one_cloud_the_best_of_its_assignments_is_found(problem: Problem) -> None:
    found = on_one_cloud(problem)
    for cloud in ("a", "b"):
        here = [[place for place in part if place[0] == cloud] for part in problem.parts]
        tried = [rank_of(problem, each) for each in itertools.product(*here)]
        assert ([rounded(found[cloud].rank)] if cloud in found else []) == ([min(tried)] if tried else [])


ZONES = [PartPlace("a", region, zone) for region in ("1", "2") for zone in ("", "x", "y", "z")]


@st.composite
def problems_with_zones(draw: st.DrawFn) -> Problem:
    """Three parts in the zones of two regions; data is free within a zone that is known."""
    parts = [draw(st.dictionaries(st.sampled_from(ZONES), ranks, min_size=1)) for _ in range(3)]
    flows = [
        Flow(origin=origin, target=target, gib=Decimal(draw(st.integers(1, 30))))
        for origin, target in ((0, 1), (1, 2))
    ]
    rate = draw(st.integers(0, 3))

    def between(origin: PartPlace, target: PartPlace, gib: Decimal) -> Rank:
        if origin.region != target.region:
            return Rank(usd=gib * 4)
        return Rank() if origin.zone and origin == target else Rank(usd=gib * rate)

    return Problem(parts=parts, flows=flows, between=between, leaving=lambda *_: Rank())


@settings(max_examples=80)
@given(problem=problems_with_zones())
def test_no_cheapest_assignment_is_lost_with_the_zones_that_are_left_out(problem: Problem) -> None:
    fewer = replace(problem, parts=without_needless_zones(problem.parts))
    least = min(rank_of(problem, each) for each in itertools.product(*problem.parts))
    assert min(rank_of(fewer, each) for each in itertools.product(*fewer.parts)) == least


def test_of_zones_that_are_alike_one_is_left_and_of_others_those_that_are_best_for_something() -> None:
    x, y, z, unknown = ZONES[1], ZONES[2], ZONES[3], ZONES[0]
    low, high = Rank(usd=Decimal(1)), Rank(usd=Decimal(2))
    alike = [{x: low, y: low, unknown: low}, {x: low, y: low, z: low}]
    assert without_needless_zones(alike) == [{x: low, unknown: low}, {x: low}]
    differing = [{x: low, y: high, z: high}, {x: high, y: low, z: high}]
    assert without_needless_zones(differing) == [{x: low, y: high}, {x: high, y: low}]


def test_a_part_without_a_place_has_no_assignment() -> None:
    """An empty part: the others cannot be assigned either."""
    nothing = Problem(
        parts=[{PartPlace("a", "1"): Rank()}, {}],
        flows=(),
        between=lambda *_: Rank(),
        leaving=lambda *_: Rank(),
    )
    assert cheapest(nothing) is None
    assert on_one_cloud(nothing) == {}


def test_what_would_take_too_long_is_refused() -> None:
    """Six parts that all exchange data, in 20 regions of equal price: 20^6 combinations."""
    regions = {PartPlace("a", str(number)): Rank() for number in range(20)}
    flows = [Flow(origin=a, target=b, gib=Decimal(1)) for a, b in itertools.combinations(range(6), 2)]
    problem = Problem(
        parts=[regions] * 6,
        flows=flows,
        between=lambda *_: Rank(usd=Decimal(1)),
        leaving=lambda *_: Rank(),
    )
    with pytest.raises(TooDenseError):
        cheapest(problem)

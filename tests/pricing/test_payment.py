"""Ways of paying: the cheapest for any number of hours, against trying every hour."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucloud_pricing.payment import (
    BadProfileError,
    LoadLayer,
    Way,
    cheapest_by_hours,
    cheapest_mix,
    hours_per_month,
    way_of,
    ways_for,
)
from gpucloud_pricing.terms import TERM_UNITS
from tests.builders import an_offer


def way(purchase: str, usd: str) -> Way:
    found = way_of(an_offer(usd, purchase=purchase))
    assert found is not None
    return found


ON_DEMAND, YEAR, THREE = way("on_demand", "1"), way("reserved_1y", "0.6"), way("reserved_3y", "0.4")


def told(*ways: Way) -> list[tuple[float, float, str]]:
    return [(float(s.start), float(s.end), s.way.offer.purchase) for s in cheapest_by_hours(ways)]


def test_a_commitment_pays_from_its_share_of_the_month_on() -> None:
    """0.6 of 730 hours are 438, 0.4 of them 292."""
    assert told(ON_DEMAND, YEAR) == [(0, 438, "on_demand"), (438, 730, "reserved_1y")]
    assert told(ON_DEMAND, YEAR, THREE) == [(0, 292, "on_demand"), (292, 730, "reserved_3y")]


def test_a_commitment_that_never_pays_does_not_appear() -> None:
    """Nor spot that is dearer than on demand: it is dearer in every hour."""
    dear = way("reserved_1y", "1.2")
    assert told(ON_DEMAND, dear) == [(0, 730, "on_demand")]
    assert told(ON_DEMAND, way("spot", "1.5")) == [(0, 730, "on_demand")]


def test_a_price_that_is_not_known_is_no_way() -> None:
    assert way_of(an_offer(None, purchase="spot")) is None
    assert cheapest_by_hours([]) == []


def test_what_runs_all_the_time_is_committed_and_the_rest_paid_by_the_hour() -> None:
    """Four machines for 730 hours at 0.4, twelve for 100 hours at 1."""
    layers = [LoadLayer(machines=4, hours=Decimal(730)), LoadLayer(machines=12, hours=Decimal(100))]
    shares = cheapest_mix([ON_DEMAND, YEAR, THREE], layers)
    assert [(s.way.offer.purchase, s.cost) for s in shares] == [
        ("reserved_3y", Decimal("1168.0")),
        ("on_demand", Decimal(1200)),
    ]


@pytest.mark.parametrize(
    ("profile", "hours"),
    [
        ("24h/day", "730"),
        ("8h/day,5d/week", "173.8095"),  # 40 / 168 * 730
        ("8h/day, 5d/week", "173.8095"),
        ("40h/week", "173.8095"),
        ("100h/month", "100"),
        ("0h/day", "0"),
    ],
)
def test_profiles_are_hours_of_a_month(profile: str, hours: str) -> None:
    assert round(hours_per_month(profile), 4) == Decimal(hours)


@pytest.mark.parametrize("profile", ["25h/day", "8h/day,8d/week", "40h/week,5d/week", "8h", "always", ""])
def test_profiles_that_cannot_be_are_refused(profile: str) -> None:
    with pytest.raises(BadProfileError, match="allowed: 8h/day"):
        hours_per_month(profile)


PRICES = st.decimals("0.01", "9.99", places=2).map(str)
WAYS = st.lists(
    st.builds(way, st.sampled_from(["on_demand", "spot", "reserved_1y", "savings_3y"]), PRICES),
    min_size=1,
    max_size=6,
)


@given(WAYS, st.integers(0, 730))
def test_nothing_is_cheaper_than_what_is_said_to_be_cheapest(ways: list[Way], hours: int) -> None:
    stretches = cheapest_by_hours(ways)
    assert not stretches[0].start
    assert stretches[-1].end == 730
    assert all(stretch.start < stretch.end for stretch in stretches)
    for before, after in itertools.pairwise(stretches):
        assert before.end == after.start
    said: Any = next(s for s in stretches if s.start <= hours <= s.end)
    best = min(each.cost(Decimal(hours)) for each in ways)
    assert abs(said.way.cost(Decimal(hours)) - best) < Decimal("1e-9")


def test_a_mix_owes_whole_terms_for_the_time_of_the_need() -> None:
    """Three months at 1 an hour are 2190; a year at 0.6 is 5256, and 0.3 of three years still more."""
    months = 3 * TERM_UNITS["m"]
    offers = [
        an_offer("1"),
        *(an_offer(usd, purchase=p) for usd, p in (("0.6", "reserved_1y"), ("0.3", "reserved_3y"))),
    ]
    ways = [each for offer in offers for each in ways_for(offer, months, Decimal(1))]
    (share,) = cheapest_mix(ways, [LoadLayer(machines=2, hours=Decimal(730))])
    assert (share.way.offer.purchase, int(share.cost)) == ("on_demand", 2 * 730)
    lasting = cheapest_mix([way("on_demand", "1"), way("reserved_1y", "0.6")], [share.layer])
    assert lasting[0].way.offer.purchase == "reserved_1y"


@given(
    st.lists(
        st.tuples(st.sampled_from(["on_demand", "reserved_1y", "savings_3y"]), PRICES), min_size=1, max_size=4
    ),
    st.integers(1, 60),
    st.integers(0, 730),
)
def test_a_mix_for_a_need_that_ends_is_the_cheapest_that_can_be_bought(
    sold: list[tuple[str, str]], months: int, hours: int
) -> None:
    """Against every number of terms, with the months after them on demand at 2 an hour."""
    need = months * Decimal(730)
    offers = [an_offer(usd, purchase=purchase) for purchase, usd in sold]
    ways = [each for offer in offers for each in ways_for(offer, need, Decimal(2))]
    (share,) = cheapest_mix(ways, [LoadLayer(machines=1, hours=Decimal(hours))])
    tried: list[Decimal] = []
    for purchase, usd in sold:
        length = {"on_demand": 0, "reserved_1y": 12, "savings_3y": 36}[purchase]
        if not length:
            tried.append(Decimal(usd) * hours * months)
            continue
        tried += [
            n * length * 730 * Decimal(usd) + max(0, months - n * length) * hours * Decimal(2)
            for n in range(1, months // length + 2)
        ]
    assert abs(share.cost * months - min(tried)) < Decimal("1e-6")

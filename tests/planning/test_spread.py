"""Several boxes at different places: what is tried for each, and that no place gets more than its share."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gpucloud.planning.plan import Candidate
from gpucloud.planning.spread import attempts_of_next, interleaved, place_of, spread_text
from tests.planning.test_plan import a_candidate

RANKED = [
    a_candidate(place)
    for place in ("aws/r1/z1", "aws/r1/z2", "aws/r2/z1", "azure/e/", "aws/r1/z3", "azure/w/", "alibaba/c/a")
]


def places(candidates: list[Candidate]) -> list[str]:
    return [f"{each.cloud}/{each.region}/{each.zone}" for each in candidates]


def test_the_best_of_each_place_comes_before_the_second_of_any() -> None:
    assert places(interleaved(RANKED, "region"))[:5] == [
        *("aws/r1/z1", "aws/r2/z1", "azure/e/", "azure/w/", "alibaba/c/a"),
    ]
    assert places(interleaved(RANKED, "cloud")) == [
        *("aws/r1/z1", "azure/e/", "alibaba/c/a", "aws/r1/z2", "azure/w/", "aws/r2/z1", "aws/r1/z3"),
    ]
    assert interleaved(RANKED, "zone") == RANKED


def test_without_a_spread_every_box_has_the_whole_plan() -> None:
    assert attempts_of_next(RANKED, RANKED[:1], 3, None) == RANKED


def test_a_place_with_its_share_is_not_tried_again() -> None:
    first = attempts_of_next(RANKED, [], 4, "cloud")
    assert first == RANKED
    third = attempts_of_next(RANKED, [RANKED[0], RANKED[1]], 4, "cloud")
    assert {each.cloud for each in third} == {"azure", "alibaba"}
    assert places(attempts_of_next(RANKED, [RANKED[0]], 6, "cloud"))[0] == "azure/e/"


SOME_PLACES = st.lists(
    st.builds(
        lambda cloud, region, zone: a_candidate(f"{cloud}/{region}/{zone}"),
        st.sampled_from(["aws", "azure", "alibaba"]),
        st.sampled_from(["r1", "r2", "r3"]),
        st.sampled_from(["", "z1", "z2"]),
    ),
    min_size=1,
    max_size=20,
)


@given(SOME_PLACES, st.integers(2, 30), st.sampled_from(["zone", "region", "cloud"]), st.data())
def test_every_box_has_a_place_and_no_place_more_than_an_even_share(
    attempts: list[Candidate], count: int, spread: str, data: st.DataObject
) -> None:
    """Whichever of its attempts succeeds for each box."""
    bought: list[Candidate] = []
    for _ in range(count):
        bought.append(data.draw(st.sampled_from(attempts_of_next(attempts, bought, count, spread))))
    taken = Counter(place_of(each, spread) for each in bought)
    total = len({place_of(each, spread) for each in attempts})
    assert max(taken.values()) <= -(-count // total)


def test_the_plan_says_how_boxes_are_distributed() -> None:
    assert spread_text({"count": 3, "spread": "cloud"}, RANKED) == "3 boxes over 3 clouds, at most 1 in each."
    assert (
        spread_text({"count": 5, "spread": "zone"}, RANKED[:1]) == "5 boxes over 1 zone, at most 5 in each."
    )
    assert spread_text({"count": 2}, RANKED) == "2 boxes, each at the first attempt that succeeds."
    assert spread_text({}, RANKED) is None

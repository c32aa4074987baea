"""Which name somebody meant who mistyped it."""

from __future__ import annotations

import pytest

from gpucloud_pricing import Market
from gpucloud_pricing.suggestions import closest

REGIONS = sorted({region for _, region in Market.load().regions})
WORDS = ["ttl", "title", "hours", "house", "checkpoint", "failed-attempts"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("us-est-1", "us-east-1"),  # also one slip from us-west-1, at an earlier character
        ("us-wst-1", "us-west-1"),
        ("us-esat-1", "us-east-1"),
        ("us-easst-1", "us-east-1"),
        ("eu-wset-3", "eu-west-3"),
        ("estus2", "eastus2"),
        ("westeurpoe", "westeurope"),
        ("cn-bejing", "cn-beijing"),
        ("ap-notheast-1", "ap-northeast-1"),
    ],
)
def test_one_slip_leads_to_the_region_that_was_meant(typed: str, meant: str) -> None:
    assert closest(typed, REGIONS) == [meant]


@pytest.mark.parametrize(
    ("typed", "meant"), [("horus", ["hours"]), ("check-points", ["checkpoint"]), ("zzz", [])]
)
def test_other_names_follow_by_their_similarity(typed: str, meant: list[str]) -> None:
    assert closest(typed, WORDS) == meant


def test_as_many_are_given_as_are_asked_for() -> None:
    assert closest("us-est-1", REGIONS, most=3)[:2] == ["us-east-1", "us-west-1"]
    assert len(closest("us-est-1", REGIONS, most=3)) == 3
    assert closest("us-est-1", [], most=3) == []

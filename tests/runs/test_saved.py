"""What is said of the newest whole checkpoint of a box."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpucloud.journal.facts import BoughtOffer, Place, SavedSet
from gpucloud.runs.saved import too_large
from gpucloud_pricing.purchases import Purchase
from tests.builders import a_box

SAVED = SavedSet(
    number=3,
    at=datetime(2026, 1, 5, tzinfo=UTC),
    newest="step-7.pt",
    files=2,
    size_bytes=10_000_000_000,
    bytes_per_s=50_000_000.0,
    notices={"aws": 120, "azure": 30},
)


@pytest.mark.parametrize(
    ("cloud", "purchase", "said"),
    [
        ("aws", Purchase.SPOT, True),
        ("aws", Purchase.ON_DEMAND, False),
        ("elsewhere", Purchase.SPOT, False),
    ],
)
def test_a_checkpoint_that_does_not_fit_into_the_notice_of_a_spot_box_is_told(
    cloud: str, purchase: Purchase, said: bool
) -> None:
    place = Place(cloud=cloud, account="a", region="r", zone="z")
    box = a_box(place=place, offer=BoughtOffer(instance_type="t", purchase=purchase))
    words = too_large(SAVED, box)
    assert (words is not None) == said
    if words is not None:
        assert "takes 200 s at the measured rate, and aws takes a spot box back 120 s" in words
    for fits in (replace(SAVED, size_bytes=6_000_000_000), replace(SAVED, bytes_per_s=None)):
        assert too_large(fits, box) is None

"""How often AWS takes spot instances back, as its advisor's file has it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from gpucloud.errors import ErrorClass
from gpucloud_aws.errors import MalformedAnswerError, classify
from gpucloud_aws.spot_advisor import VARIABLE, band_of, inquiry
from tests.profiles import own_profile

LABELS = {0: "<5%", 1: "5-10%", 4: ">20%", 7: "about half", 8: "30-20%"}
TODAY = date(2026, 11, 21)


@pytest.mark.parametrize(
    ("row", "expected"),
    [({"r": 0, "s": 70}, (0, 5)), ({"r": 1, "s": 0}, (5, 10)), ({"r": 4, "s": 9}, (20, 100))],
)
def test_a_row_is_a_band(row: dict[str, Any], expected: tuple[int, int]) -> None:
    band = band_of(row, LABELS, TODAY)
    assert band is not None
    assert ((band.low, band.high), band.savings_percent) == (expected, row["s"])


@pytest.mark.parametrize(
    "row",
    [
        {"r": 9, "s": 7},
        {"r": 7, "s": 7},
        {"r": 8, "s": 7},
        {"r": 0},
        {"s": 7},
        {"r": 0, "s": 101},
        None,
        [1],
        "r",
    ],
)
def test_what_makes_no_sense_is_no_band(row: Any) -> None:
    assert band_of(row, LABELS, TODAY) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/spot-advisor-data.json",
        "http://127.0.0.1:9/nobody-listens-here",
        "ftp://example.org/x",
    ],
)
def test_a_file_that_cannot_be_had_is_a_failure_of_that_inquiry(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain HTTP is not even asked; and it is the cloud's failure, not ours."""
    monkeypatch.setenv(VARIABLE, url)
    asked = inquiry(own_profile(), ["g4dn.xlarge"], ["us-east-1"], datetime(2026, 11, 21, tzinfo=UTC))
    with pytest.raises(MalformedAnswerError) as raised:
        asked.ask()
    verdict = classify(raised.value)
    assert verdict is not None
    assert verdict.error_class is ErrorClass.SERVER
    assert asked.covers.regions == ["us-east-1"]

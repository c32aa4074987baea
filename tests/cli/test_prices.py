"""``gpucloud prices show``, as a user runs it."""

from __future__ import annotations

import json

import pytest

from gpucloud.__main__ import main
from gpucloud_pricing import Market


def test_every_price_of_the_snapshot_is_counted_with_its_date_and_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["prices", "show", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert document["schema"] == "gpucloud.prices/v1"
    market = Market.load()
    assert document["prices"] == len(list(market.prices()))
    assert document["prices"] == sum(group["prices"] for group in document["groups"])
    assert {group["source"] for group in document["groups"]} <= {s["id"] for s in document["sources"]}
    assert all(group["oldest"] and group["age_days"] >= 0 for group in document["groups"])
    assert document["rates"][0]["rate"] == float(market.rates[0].rate)


def test_the_table_names_clouds_dates_and_sources(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["prices", "show"])
    out = capsys.readouterr().out
    assert "2026-01-21" in out
    assert "tsaol-aws-gpu: tsaol/aws-gpu" in out

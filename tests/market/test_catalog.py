"""One client's market: loaded once, at the prices of the last refresh, whoever made it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud.errors import UsageError
from gpucloud.market.catalog import PRICES, Catalog
from gpucloud_pricing import Demand, Price
from gpucloud_pricing.history import Coverage, PriceHistory

TYPE = ("aws", "g4dn.xlarge")


def kept(folder: Path, amount: str, hour: int = 12) -> None:
    """Writes a price into the history, as another process would."""
    price = replace(next(iter(Catalog(None).shipped.prices_of(*TYPE))), amount=Decimal(amount), source="told")
    with closing(PriceHistory.open(folder / PRICES)) as history:
        coverage = Coverage(cloud="aws", source="told", regions=[price.region], instance_types=[TYPE[1]])
        history.record("asked", coverage, [price], datetime(2026, 11, 22, hour, tzinfo=UTC))


def told(catalog: Catalog) -> list[Decimal]:
    """The amounts that were asked for from here, in the market."""
    prices: list[Price] = [price for price in catalog.market.prices_of(*TYPE) if price.source == "told"]
    return [price.amount for price in prices]


def test_the_market_is_loaded_once(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    assert catalog.market is catalog.market
    kept(tmp_path, "1.5")
    assert catalog.market is catalog.market
    assert catalog.shipped is catalog.shipped


def test_a_refresh_by_another_process_is_seen(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    assert told(catalog) == []
    kept(tmp_path, "1.5")
    assert told(catalog) == [Decimal("1.5")]
    kept(tmp_path, "1.75", hour=13)
    assert told(catalog) == [Decimal("1.75")]
    (tmp_path / PRICES).unlink()
    assert told(catalog) == []


def test_a_market_that_was_given_out_keeps_reading_its_own_file(tmp_path: Path) -> None:
    kept(tmp_path, "1.5")
    catalog = Catalog(tmp_path)
    market = catalog.market
    (tmp_path / PRICES).unlink()
    kept(tmp_path, "9")
    assert told(catalog) == [Decimal(9)]
    assert Decimal("1.5") in {price.amount for price in market.prices_of(*TYPE)}


def test_the_shipped_market_knows_no_price_that_was_asked_for(tmp_path: Path) -> None:
    kept(tmp_path, "1.5")
    assert "told" not in {price.source for price in Catalog(tmp_path).shipped.prices_of(*TYPE)}


def test_a_damaged_history_is_said_once_and_the_shipped_prices_are_used(tmp_path: Path) -> None:
    (tmp_path / PRICES).write_bytes(b"no database" * 100)
    said: list[str] = []
    catalog = Catalog(tmp_path, said.append)
    assert catalog.market.types == catalog.shipped.types
    assert catalog.market is catalog.market
    assert len(said) == 1
    assert "gpucloud prices refresh" in said[0]
    assert catalog.commitments() == []
    assert "commitments are not counted" in said[1]
    with pytest.raises(UsageError, match=PRICES), catalog.history():
        pass


def test_a_place_that_does_not_exist_is_refused_with_its_flag(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--region"):
        Catalog(tmp_path).market_for(Demand(regions=("no-such-region",)))

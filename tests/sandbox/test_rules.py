"""The rules that the emulators share: faults, stock, prices, addresses, the ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud_sandbox.addresses import AddressPool, NoAddressError
from gpucloud_sandbox.database import Database, Shelf
from gpucloud_sandbox.ledger import Entry, Ledger, read_billing
from gpucloud_sandbox.market import Market, PriceMove, Stock, in_usd

NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "sandbox.db")
    yield made
    made.close()


def entry(id_: str) -> Entry:
    return Entry(kind="instance", id=id_, cloud="aws", region="us-east-1", price=Decimal("0.526"))


def test_the_newest_rule_about_stock_counts(database: Database) -> None:
    market = Market(database)
    place = ("aws", "us-east-1", "use1-az1", "g4dn.xlarge", "spot")
    assert market.limit(*place) is None
    market.set_stock(Stock(count=0))
    market.set_stock(Stock(count=5, zone="use1-*"))
    assert market.limit(*place) == 5
    assert market.limit("aws", "us-west-2", "usw2-az1", "g4dn.xlarge", "spot") == 0
    assert Market(database).limit(*place) == 5
    market.reset()
    assert Market(database).limit(*place) is None


def test_prices_move_from_the_catalogs(database: Database) -> None:
    market = Market(database)
    place = ("aws", "us-east-1", "", "g4dn.xlarge", "on_demand")
    known = market.price(*place)
    assert known is not None
    market.move_price(PriceMove(factor="2", purchase="on_demand"), NOW)
    moved = market.price(*place)
    assert moved is not None
    assert moved.amount == known.amount * 2
    assert market.price("aws", "us-east-1", "", "no.such", "on_demand") is None


def test_yuan_are_summed_in_dollars() -> None:
    assert in_usd(Decimal("67.046"), "CNY") == Decimal("10")


def test_the_ledger_bills_what_was_born_and_has_not_died(database: Database, tmp_path: Path) -> None:
    ledger = Ledger(database)
    ledger.begin_billing(entry("a"), NOW)
    ledger.begin_billing(entry("b"), NOW)
    ledger.end_billing("aws", "a", NOW, "deleted")
    ledger.end_billing("aws", "never", NOW, "deleted")
    assert [each.id for each in ledger.billing()] == ["b"]
    assert [each.id for each in Ledger(database).billing()] == ["b"]
    assert [each.id for each in read_billing(tmp_path / "sandbox.db")] == ["b"]
    assert [(each["event"], each["id"]) for each in ledger.history()] == [
        ("born", "a"),
        ("born", "b"),
        ("died", "a"),
    ]


def test_what_was_not_finished_is_as_if_it_had_never_begun(database: Database) -> None:
    ledger, shelf, addresses = Ledger(database), Shelf(database, "aws"), AddressPool(database)

    def fail_halfway() -> None:
        with database.transaction():
            change()
            raise RuntimeError

    def change() -> None:
        shelf.put("us-east-1", "instance", "i-1", {"InstanceId": "i-1"})
        ledger.begin_billing(entry("i-1"), NOW)
        addresses.take("i-1", but="198.51.100.7")

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert dict(shelf.all("us-east-1", "instance")) == {}
    assert ledger.billing() == ()
    assert addresses.holder("203.0.113.1") is None


def test_what_is_in_memory_is_what_is_on_disk(database: Database, tmp_path: Path) -> None:
    shelf = Shelf(database, "aws")
    shelf.put("us-east-1", "instance", "i-1", {"n": 1})
    shelf.put("us-east-1", "instance", "i-2", {"n": 2})
    shelf.put("us-east-1", "instance", "i-1", {"n": 3})
    shelf.drop("us-east-1", "instance", "i-2")
    assert dict(Shelf(database, "aws").all("us-east-1", "instance")) == {"i-1": {"n": 3}}
    assert dict(Shelf(database, "azure").all("us-east-1", "instance")) == {}
    with sqlite3.connect(tmp_path / "sandbox.db") as connection:
        assert connection.execute("SELECT COUNT(*) FROM things").fetchone() == (1,)
    connection.close()


def test_addresses_go_round_and_never_meet_the_caller(database: Database) -> None:
    addresses = AddressPool(database)
    first = addresses.take("a", but="198.51.100.7")
    addresses.free(first)
    assert addresses.take("b", but="198.51.100.7") != first
    taken: set[str] = set()

    def take_all() -> None:
        while True:
            taken.add(addresses.take("c", but="198.51.100.7"))

    with pytest.raises(NoAddressError):
        take_all()
    assert "198.51.100.7" not in taken
    assert first in taken
    assert len(taken) == 3 * 254 - 2

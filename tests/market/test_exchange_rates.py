"""The exchange rate in the European Central Bank's file: believed, or left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from gpucloud.clouds.cloud import Clouds
from gpucloud.clouds.profile import Profile
from gpucloud.journal.store import Journal
from gpucloud.market.exchange_rates import MOST_BYTES, VARIABLE, read_rate, refresh_rates
from gpucloud.runtime.context import Context
from gpucloud.runtime.events import Event, Warned
from gpucloud.runtime.tasks import Tasks
from gpucloud_pricing import Market, Rate
from gpucloud_pricing.history import PriceHistory

TODAY = date(2026, 11, 21)
KNOWN = Rate(base="USD", quote="CNY", rate=Decimal("6.7046"), as_of=date(2026, 10, 2), source="x")
FILE = (
    "<gesmes:Envelope><Cube><Cube time='2026-11-20'>"
    "<Cube currency='USD' rate='1.1225'/><Cube currency='CNY' rate=\"7.5259\"/>"
    "</Cube></Cube></gesmes:Envelope>"
)


def test_the_rate_is_the_quotient_of_both_prices_of_a_euro() -> None:
    """By hand: 7.5259 / 1.1225 = 6.70459."""
    rate = read_rate(FILE, TODAY, KNOWN)
    assert (rate.base, rate.quote, rate.rate) == ("USD", "CNY", Decimal("6.7046"))
    assert rate.as_of == date(2026, 11, 20)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>Sorry</html>",
        FILE.replace("USD", "AUD"),
        FILE.replace("1.1225", "0"),
        FILE.replace("1.1225", "-1.1225"),
        FILE.replace("1.1225", "112.25"),
        FILE.replace("2026-11-20", "2026-11-22"),
        FILE.replace("2026-11-20", "2026-13-20"),
    ],
)
def test_a_damaged_file_has_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match=r"answer|known|month"):
        read_rate(text, TODAY, KNOWN)


class Bank:
    """A server on this machine that answers one text, and counts."""

    def __init__(self) -> None:
        self.text, self.asked = FILE, 0
        bank = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                bank.asked += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(bank.text.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Says nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/eurofxref-daily.xml"


@pytest.fixture
def bank() -> Iterator[Bank]:
    made = Bank()
    Thread(target=made.server.serve_forever, daemon=True).start()
    yield made
    made.server.shutdown()
    made.server.server_close()


def asked(folder: Path, url: str) -> tuple[Rate | None, list[Rate], list[Event]]:
    """What comes of a question: its rate, what the history has, and what is told."""
    events: list[Event] = []
    context = Context(
        owner="u-tester",
        journal=Journal.open(folder / "journal.db", lambda: datetime.now(UTC)),
        clouds=Clouds({}),
        tasks=Tasks(),
        emit=events.append,
    )
    with closing(PriceHistory.open(folder / "prices.db")) as history:
        rate = refresh_rates(context, Market.load(), history, Profile({VARIABLE: url}))
        return rate, history.rates(), events


def test_a_newer_rate_is_kept_and_used(tmp_path: Path, bank: Bank) -> None:
    rate, kept, events = asked(tmp_path, bank.url)
    assert rate is not None
    assert (kept, events) == ([rate], [])
    shipped = Market.load()
    market = shipped.refreshed(lambda _: (), lambda _: {}, rates=kept)
    assert market.rate("CNY") == rate
    dearer = Rate(base="USD", quote="CNY", rate=Decimal(7), as_of=date(2027, 1, 1), source=rate.source)
    newest = market.refreshed(lambda _: (), lambda _: {}, rates=[dearer])
    assert newest.usd(Decimal(7), "CNY") == 1
    assert newest.refreshed(lambda _: (), lambda _: {}, rates=[rate]).rate("CNY") == dearer, "older"


def test_a_failure_is_told_and_changes_nothing(tmp_path: Path, bank: Bank) -> None:
    """Nobody answers, too much is answered, and plain HTTP elsewhere, which is not even asked."""
    bank.text = FILE + " " * MOST_BYTES
    for url in ("http://127.0.0.1:9/", bank.url, "http://example.org/eurofxref-daily.xml"):
        rate, kept, [event] = asked(tmp_path, url)
        assert (rate, kept) == (None, [])
        assert isinstance(event, Warned)
        assert url in event.text
        assert f"{VARIABLE}=off" in str(event)


def test_no_call_is_made_where_it_is_turned_off(tmp_path: Path, bank: Bank) -> None:
    assert asked(tmp_path, "off") == (None, [], [])
    assert bank.asked == 0

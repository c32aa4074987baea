"""The market of one client: the shipped data, the data of other packages, and later prices of the clouds."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.config import make_private
from gpucloud.errors import UsageError
from gpucloud.spec.file import flag_of
from gpucloud_pricing import BadPlaceError, Commitment, Demand, Market

if TYPE_CHECKING:
    from gpucloud_pricing.history import PriceHistory

MARKETS = "gpucloud.markets"
METADATA = (".dist-info", ".egg-info")
PRICES = "prices.db"
"""The file of the price history, in the state folder."""


def shipped_market() -> Market:
    """The shipped market with the markets of other packages (entry-point group ``gpucloud.markets``).

    An entry is a callable without arguments that returns a :class:`Market`.
    """
    market = Market.load()
    if not _may_be_announced(MARKETS):
        return market
    from importlib.metadata import entry_points

    for entry in entry_points(group=MARKETS):
        market = market.joined(entry.load()())
    return market


def _may_be_announced(group: str) -> bool:
    """Whether an installed package may announce an entry of a group.

    A look at the files costs a fifth of ``importlib.metadata``, of which a command that only searches needs
    nothing else. Where packages are not plain folders, that is asked.
    """
    heading = f"[{group}]".encode()
    for place in filter(None, sys.path):
        try:
            packages = [each.path for each in os.scandir(place) if each.name.endswith(METADATA)]
        except FileNotFoundError:
            continue
        except OSError:  # a zip file
            return True
        for package in packages:
            with suppress(FileNotFoundError, NotADirectoryError):
                if heading in Path(package, "entry_points.txt").read_bytes():
                    return True
    return False


def refreshed_by(market: Market, history: PriceHistory) -> Market:
    """A market with what refreshes have stored."""
    return market.refreshed(history.current, history.interruptions, history.tariffs(), history.rates())


def check_places(market: Market, demand: Demand) -> None:
    """Checks that the places and types of a demand exist.

    Raises:
        UsageError: a cloud, region, zone or instance type does not.
    """
    try:
        market.check(demand)
    except BadPlaceError as error:
        raise UsageError(f"{flag_of(error.field)}: {error}", hint=error.existing) from None


class Catalog:
    """One client's market: loaded at its first use, and again only after a refresh of prices.

    Safe to use from several threads.
    """

    def __init__(self, folder: Path | None, tell: Callable[[str], object] = lambda _: None) -> None:
        """Loads nothing.

        Args:
            folder: the folder of the price history; ``None`` for the shipped prices alone.
            tell: called with a message if the history cannot be used.
        """
        self.folder = folder
        self.tell = tell
        self._lock = threading.Lock()
        self._shipped: Market | None = None
        self._market: Market | None = None
        self._market_version: object = None
        self._history: PriceHistory | None = None

    @property
    def shipped(self) -> Market:
        """The market with the shipped prices only."""
        with self._lock:
            return self._load_shipped()

    @property
    def market(self) -> Market:
        """The market at the prices of the last refresh, if there was one."""
        with self._lock:
            version = self._version()
            if self._market is None or version != self._market_version:
                self._market, self._market_version = self._refreshed(), self._version()
            return self._market

    def market_for(self, demand: Demand) -> Market:
        """The market for a demand.

        Raises:
            UsageError: a cloud, region or zone of the demand does not exist.
        """
        market = self.market
        check_places(market, demand)
        return market

    def commitments(self) -> list[Commitment]:
        """The accounts' commitments, as last reported by the clouds."""
        file = self.history_file
        if file is None:
            return []
        from gpucloud_pricing.history import HistoryError, PriceHistory

        try:
            with closing(PriceHistory.open(file)) as history:
                return history.commitments()
        except HistoryError as error:
            self.tell(f"Your accounts' commitments are not counted: {error}")
            return []

    @contextmanager
    def history(self) -> Generator[PriceHistory]:
        """The price history, created if missing.

        Raises:
            UsageError: it cannot be used: damaged, or on a full disk.
        """
        from gpucloud_pricing.history import HistoryError, PriceHistory

        if self.folder is None:
            raise UsageError("there is no state folder, so prices cannot be stored")
        file = make_private(self.folder) / PRICES
        try:
            with closing(PriceHistory.open(file)) as history:
                yield history
        except HistoryError as error:
            hint = f"free some space if the disk is full; or delete the file and refresh again: rm {file}"
            raise UsageError(f"{file}: {error}", hint=hint) from error

    @property
    def history_file(self) -> Path | None:
        """The file of the price history; ``None`` before the first refresh."""
        file = None if self.folder is None else self.folder / PRICES
        return file if file is not None and file.exists() else None

    def _load_shipped(self) -> Market:
        if self._shipped is None:
            self._shipped = shipped_market()
        return self._shipped

    def _refreshed(self) -> Market:
        market, file = self._load_shipped(), self.history_file
        self._history = None
        if file is None:
            return market
        from gpucloud_pricing.history import HistoryError, PriceHistory

        try:
            self._history = PriceHistory.open(file)
            return refreshed_by(market, self._history)
        except HistoryError as error:
            self.tell(f"Older prices are used: {error}. To refresh: rm {file}; gpucloud prices refresh")
            return market

    def _version(self) -> object:
        """A value that changes with each change of the price history, by any process."""
        file = self.history_file
        return None if file is None else (file.stat().st_ino, self._history and self._history.version())

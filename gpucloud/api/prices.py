"""Prices for programs: known prices, refreshes, and their history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.errors import NoOfferError, UsageError
from gpucloud.resources import rfc3339
from gpucloud_pricing import format_count

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.journal.records import Box
    from gpucloud.market.history import PriceChanges, PriceTrends
    from gpucloud.market.overview import PriceOverview
    from gpucloud.market.refresh import Refreshed
    from gpucloud.market.watch import Look
    from gpucloud.spec.model import Spec

MOST_TRENDS = 20
"""How many prices :meth:`Prices.history` returns by default."""
MOST_GPUS, MOST_PRICES = 6, 3
"""How many GPUs' prices are shown where those in use are, and how many of each."""


def gpus_of(boxes: Iterable[Box]) -> list[str]:
    """The GPUs of boxes in the grammar of ``--gpu``."""
    gpus = [box.offer.gpu for box in boxes if box.offer and box.offer.gpu]
    return list(dict.fromkeys(f"{gpu.model}:{format_count(gpu.count)}" for gpu in gpus))


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of one client: ``client.prices``."""

    _session: Session

    def overview(self) -> PriceOverview:
        """How many prices are known, how old they are and their sources. Makes no call."""
        from gpucloud.market.overview import overview

        catalog, set_aside = self._session.catalog, Counter[str]()
        if catalog.history_file is not None:
            with catalog.history() as history:
                set_aside.update(row.reason for rows in history.set_aside().values() for row in rows)
        return overview(catalog.market, self._session.now().date(), set_aside)

    def refresh(self, spec: Spec, *, anew: bool = False) -> Mapping[str, Refreshed]:
        """Asks the clouds for their prices and tariffs; they are used from then on.

        A refresh that was interrupted is resumed. Progress is reported as :class:`gpucloud.PricesAnswered`.
        The exchange rate of USD and CNY is asked for too; if that fails, it is a warning.

        Args:
            spec: the GPUs, clouds and regions to ask for; an empty spec for all.
            anew: repeat queries that were answered before an interruption.

        Returns:
            The results, by cloud; prices that a cloud did not return stay as old as they were.

        Raises:
            NoOfferError: no cloud with a price API has such a GPU.
            UsageError: a place of the spec does not exist.
        """
        from gpucloud.market.exchange_rates import refresh_rates
        from gpucloud.market.refresh import refresh, wanted_of
        from gpucloud.planning.object_store import refuse_near

        refuse_near(spec, "prices")
        catalog = self._session.catalog
        with self._session.operation() as context, catalog.history() as history:
            wanted = wanted_of(catalog.shipped, spec, context.clouds.names(), tariffs=True)
            refresh_rates(context, catalog.shipped, history, self._session.outward_profile())
            return refresh(context, catalog.shipped, history, wanted, anew=anew)

    def watch(
        self, spec: Spec, *, below: Decimal, every: timedelta = timedelta(minutes=15)
    ) -> Iterator[Look]:
        """Asks the clouds repeatedly for the cheapest offer, until the caller stops iterating.

        Args:
            spec: the spec.
            below: the limit, in USD per hour and node.
            every: the pause between two refreshes, at least a minute.

        Raises:
            NoOfferError: no cloud with a price API has such a GPU.
            UsageError: the limit or the pause is not valid.
        """
        from gpucloud.api.notices import Notices
        from gpucloud.market.search import offer_text
        from gpucloud.market.watch import refuse_hasty, watch
        from gpucloud.planning.object_store import refuse_near

        refuse_near(spec, "prices")
        refuse_hasty(below, every)
        catalog = self._session.catalog

        def looks() -> Iterator[Look]:
            with self._session.operation() as context, catalog.history() as history:
                for look in watch(context, catalog.shipped, history, spec, below=below, every=every):
                    if look.fell and look.offer is not None:
                        Notices(self._session).tell_price(look, offer_text(look.offer))
                    if look.anomalies:
                        Notices(self._session).tell_unusual(look)
                    yield look

        return looks()

    def history(self, spec: Spec, *, since: datetime | None = None, limit: int = MOST_TRENDS) -> PriceTrends:
        """The history of the prices that are cheapest now, as stored by refreshes. Makes no call.

        Args:
            spec: the offers.
            since: the start; the whole history by default.
            limit: the maximum number of prices.

        Raises:
            NoOfferError: the history has no such price yet.
        """
        from gpucloud.market.history import price_trends
        from gpucloud.planning.object_store import refuse_near

        refuse_near(spec, "prices")
        catalog = self._session.catalog
        with catalog.history() as history:
            return price_trends(catalog.shipped, history, spec.demand(), since=since, limit=limit)

    def of_gpus(
        self, gpus: Iterable[str], *, each: int, since: datetime | None = None
    ) -> tuple[dict[str, PriceTrends], str | None]:
        """The cheapest prices of some GPUs that refreshes have stored. Makes no call.

        Args:
            gpus: in the grammar of ``--gpu``; the first :data:`MOST_GPUS` count.
            each: the maximum number of prices of one GPU.
            since: the start of their history; the whole by default.

        Returns:
            The prices by GPU, without those of which none is stored; and why they cannot be read, if so.
        """
        from gpucloud.spec.file import load_spec

        if self._session.catalog.history_file is None:
            return {}, None
        found: dict[str, PriceTrends] = {}
        for gpu in list(dict.fromkeys(gpus))[:MOST_GPUS]:
            spec = load_spec(None, {"gpu": gpu, "purchase": "spot,on-demand"})
            try:
                found[gpu] = self.history(spec, since=since, limit=each)
            except NoOfferError:
                continue
            except UsageError as error:  # the other figures are worth more than these
                return found, error.message
        return found, None

    def changes(self, spec: Spec, *, before: datetime, after: datetime | None = None) -> PriceChanges:
        """The prices that differ between two moments. Makes no call.

        Args:
            spec: the offers; an empty spec for all.
            before: the earlier moment.
            after: the later moment; now by default.

        Raises:
            UsageError: the earlier moment is not before the later one.
        """
        from gpucloud.market.history import price_changes
        from gpucloud.planning.object_store import refuse_near

        refuse_near(spec, "prices")
        later = after or self._session.now()
        if before >= later:
            raise UsageError(f"{rfc3339(before)} is not before {rfc3339(after) if after else 'now'}")
        catalog = self._session.catalog
        with catalog.history() as history:
            return price_changes(catalog.shipped, history, spec, before=before, after=later)

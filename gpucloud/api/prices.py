"""Prices as programs see them: what is known, asking for them, how they went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.errors import UsageError
from gpucloud.resources import rfc3339

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.market.history import PriceChanges, PriceCourses
    from gpucloud.market.overview import PriceOverview
    from gpucloud.market.refresh import Refreshed
    from gpucloud.market.watch import Look
    from gpucloud.spec.model import Spec

COURSES = 20
"""How many prices :meth:`Prices.history` tells of unless more are asked for."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of one client: ``client.prices``."""

    _session: Session

    def overview(self) -> PriceOverview:
        """How many prices are known, how old they are and where they come from. Asks no cloud."""
        from gpucloud.market.overview import overview

        catalog, set_aside = self._session.catalog, Counter[str]()
        if catalog.history_file is not None:
            with catalog.history() as history:
                set_aside.update(row.reason for rows in history.set_aside().values() for row in rows)
        return overview(catalog.market, self._session.now().date(), set_aside)

    def refresh(self, spec: Spec, *, anew: bool = False) -> Mapping[str, Refreshed]:
        """Asks the clouds for their prices; they count from then on.

        A refresh that was cut off goes on where it stopped. Progress comes as
        :class:`gpucloud.PricesAnswered`.

        Args:
            spec: the GPUs, clouds and regions to ask for; an empty one asks for all.
            anew: asks all, also what was answered before a refresh was cut off.

        Returns:
            What came of it, by cloud; what a cloud did not answer stays as old as it was.

        Raises:
            NoOfferError: no cloud that can be asked has such a GPU.
            UsageError: a place that the spec names does not exist.
        """
        from gpucloud.market.refresh import refresh, wanted_of

        catalog = self._session.catalog
        with self._session.operation() as context, catalog.history() as history:
            wanted = wanted_of(catalog.shipped, spec, context.clouds.names())
            return refresh(context, catalog.shipped, history, wanted, anew=anew)

    def watch(
        self, spec: Spec, *, below: Decimal, every: timedelta = timedelta(minutes=15)
    ) -> Iterator[Look]:
        """Asks the clouds again and again for the cheapest offer, until nobody asks for a further look.

        Args:
            spec: what is wanted.
            below: the limit, in USD per hour and node.
            every: how long to wait between two looks; a minute at least.

        Raises:
            NoOfferError: no cloud that can be asked has such a GPU.
            UsageError: the limit or the pause makes no sense.
        """
        from gpucloud.market.watch import refuse_hasty, watch

        refuse_hasty(below, every)
        catalog = self._session.catalog

        def looks() -> Iterator[Look]:
            with self._session.operation() as context, catalog.history() as history:
                yield from watch(context, catalog.shipped, history, spec, below=below, every=every)

        return looks()

    def history(self, spec: Spec, *, since: datetime | None = None, limit: int = COURSES) -> PriceCourses:
        """How the prices that are cheapest now went, from what refreshes have kept. Asks no cloud.

        Args:
            spec: of what.
            since: from when on; without it, all that was kept.
            limit: at most this many prices.

        Raises:
            NoOfferError: no price of this kind has been asked for yet.
        """
        from gpucloud.market.history import price_courses

        catalog = self._session.catalog
        with catalog.history() as history:
            return price_courses(catalog.shipped, history, spec.demand(), since=since, limit=limit)

    def changes(self, spec: Spec, *, before: datetime, after: datetime | None = None) -> PriceChanges:
        """Which prices differ between two moments. Asks no cloud.

        Args:
            spec: of what; an empty one for all.
            before: the earlier moment.
            after: the later one; without it, now.

        Raises:
            UsageError: the earlier moment is not before the later one.
        """
        from gpucloud.market.history import price_changes

        later = after or self._session.now()
        if before >= later:
            raise UsageError(f"{rfc3339(before)} is not before {rfc3339(after) if after else 'now'}")
        catalog = self._session.catalog
        with catalog.history() as history:
            return price_changes(catalog.shipped, history, spec, before=before, after=later)

"""What was paid: ``client.costs``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.costs.anomalies import UnusualDay
    from gpucloud.costs.focus import Row
    from gpucloud.costs.spend import Spend
    from gpucloud.journal.records import Holding


class Costs:
    """The cost of boxes, at the prices of their launch."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def spend(
        self, *, since: datetime | None = None, run_id: str | None = None, all_owners: bool = False
    ) -> Spend:
        """The cost of boxes, with those that have ended, at the prices of their launch.

        Args:
            since: leaves out earlier costs.
            run_id: only the boxes of this run.
            all_owners: also the boxes of other owners in this journal.
        """
        from gpucloud.costs.spend import spend_of

        boxes = self._boxes_of(run_id, all_owners=all_owners)
        spent = spend_of(boxes, since, self._session.now(), self._session.billing_of)
        if run_id is not None or not boxes:
            return spent
        return replace(spent, unusual_days=self._session.unusual_days(all_owners=all_owners))

    def unusual_days(self, *, all_owners: bool = False) -> list[UnusualDay]:
        """Those of the last 7 days that have cost more than is usual, newest first; in UTC.

        A day does so that costs 20 USD more than the median of the 30 days before it, and more than three
        standard deviations, estimated by the median absolute deviation.

        Args:
            all_owners: of all owners in this journal.
        """
        return self._session.unusual_days(all_owners=all_owners)

    def focus(
        self,
        *,
        since: datetime | None = None,
        run_id: str | None = None,
        all_owners: bool = False,
        granularity: str = "day",
    ) -> Iterator[Row]:
        """The charges of boxes as rows of FOCUS 1.2: one per resource and charge period.

        Args:
            since: leaves out earlier costs.
            run_id: only the boxes of this run.
            all_owners: also the boxes of other owners in this journal.
            granularity: the longest charge period: ``hour``, ``day`` or ``month``, in UTC.

        Returns:
            The text of each column by its name, ``None`` for null; the columns of every row are the same.

        Raises:
            ValueError: the granularity is none of these.
        """
        from gpucloud.costs.billed_resources import BilledResources
        from gpucloud.costs.focus import resource_charges, rows
        from gpucloud.costs.periods import Granularity

        boxes = self._boxes_of(run_id, all_owners=all_owners)
        regions = self._session.catalog.shipped.regions

        def region_name(cloud: str, region: str) -> str:
            known = regions.get((cloud, region))
            return (known and known.display_name) or region

        found = resource_charges(
            boxes,
            BilledResources(self._session.journal.resources_of([box.id for box in boxes])),
            since=since,
            now=self._session.now(),
            granularity=Granularity(granularity),
            billing_of=self._session.billing_of,
            region_name=region_name,
        )
        return rows(found)

    def _boxes_of(self, run_id: str | None, *, all_owners: bool) -> Sequence[Holding]:
        """The boxes of a run, or all with the volumes, also ended ones; those of other owners on request."""
        from gpucloud.journal.records import Holding

        journal, owner = self._session.journal, None if all_owners else self._session.owner
        if run_id is None:
            return journal.holdings(Holding, owner=owner, over=True)
        return [box for box in journal.boxes(owner=owner, over=True) if box.run_id == run_id]

"""What the clouds hold: ``client.resources``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpucloud.api.results import Looked, Recovered, Searched, Swept
    from gpucloud.api.session import Session
    from gpucloud.ending.sweep import Find


class Resources:
    """What the clouds hold with the owner's tags: updated, recovered, swept."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def look(self, *, all_owners: bool = False) -> Looked:
        """Updates the living boxes from clouds and guards, and searches every region for unknown resources.

        Args:
            all_owners: also search for the resources of other owners.
        """
        from gpucloud.api.box import read_boxes
        from gpucloud.api.results import Looked, Searched
        from gpucloud.boxes.look import look as look_at
        from gpucloud.ending.discovery import begin, untracked
        from gpucloud.resources import Search

        with self._session.operation() as context:
            asked = begin(context, Search() if all_owners else context.search())
            discovery = look_at(context, context.journal.boxes(owner=context.owner), asked)
            unknown = untracked(context, discovery)
            searched = Searched.of(discovery, context.search())
        return Looked(boxes=tuple(read_boxes(self._session)), untracked=tuple(unknown), searched=searched)

    def recover(self) -> Recovered:
        """Restores boxes, volumes and snapshots that are missing from the journal, found by their tags."""
        from gpucloud.api.box import Box, read_boxes
        from gpucloud.api.results import Recovered, Searched
        from gpucloud.api.snapshots import Snapshots
        from gpucloud.api.volumes import Volumes
        from gpucloud.ending.discovery import begin, finish
        from gpucloud.ending.reconcile import refresh_all
        from gpucloud.ending.recover import adopt_found
        from gpucloud.journal import records
        from gpucloud.runs.first_step import settle_first

        with self._session.operation() as context:
            context.tell("recover", "looking in every region of every cloud")
            discovery = finish(context, begin(context, mine := context.search()))
            adopted, troubles = adopt_found(context, discovery, self._session.catalog.market)
            for trouble in troubles:
                context.warn("recover", f"{trouble.message}" + (f"; {trouble.hint}" if trouble.hint else ""))
            for trouble in refresh_all(context, adopted):
                context.warn("recover", f"No answer: {trouble.message}")
            settle_first(context)
            found = context.journal.known(records.Holding, [each.id for each in adopted])
        now, volumes, snapshots = self._session.now(), Volumes(self._session), Snapshots(self._session)
        return Recovered(
            boxes=tuple(
                Box.read(each, self._session, now) for each in found if isinstance(each, records.Box)
            ),
            volumes=tuple(volumes.read(each) for each in found if isinstance(each, records.Volume)),
            snapshots=tuple(snapshots.read(each) for each in found if isinstance(each, records.Snapshot)),
            troubles=troubles,
            searched=Searched.of(discovery, mine),
            living=tuple(read_boxes(self._session)),
        )

    def sweep(
        self,
        *,
        older_than: timedelta | None = None,
        owner: str | None = None,
        dry_run: bool = False,
        confirm: Callable[[Sequence[Find], Searched], bool] | None = None,
    ) -> Swept:
        """Finds unwanted resources with gpucloud's tags in all regions of all clouds, and deletes them.

        Args:
            older_than: the minimum age of a resource unknown to the journal; 15 minutes by default.
            owner: deletes this owner's resources, instead of the client's.
            dry_run: deletes nothing.
            confirm: is called with the resources before any is deleted; by default, nothing is confirmed.

        Raises:
            UsageError: ``confirm`` returned ``False``.
        """
        from gpucloud.api.sweeping import sweep as sweep_all

        with self._session.ending() as context:
            context.tasks.clean_up = "gpucloud sweep --yes"
            return sweep_all(
                self._session,
                context,
                owner or self._session.owner,
                older_than,
                dry_run=dry_run,
                confirm=confirm,
            )

"""Snapshots: ``client.snapshots``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from gpucloud.journal import records
from gpucloud.rendering.tabular import Listing

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.api.snapshot import Snapshot
    from gpucloud.api.volume import Volume
    from gpucloud.planning.snapshot_plan import SnapshotPlan
    from gpucloud.planning.volume_plan import VolumePlan


class Snapshots:
    """Copies of volumes, and of the root disks of stopped boxes."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
        self,
        name: str,
        *,
        of: str,
        keep: timedelta | None = None,
        confirm: Callable[[SnapshotPlan], bool] | None = None,
    ) -> Snapshot:
        """Copies a volume as it is now, or the root disk of a stopped box, in its region.

        A box that uses the volume runs its checkpoint command and writes what it has not written yet before.
        Boxes can boot from the copy of a root disk: it is an ``image`` of a spec. The call returns when the
        cloud no longer needs the disk: the copy may take a while.

        Args:
            name: its name, unique among the living boxes, volumes and snapshots.
            of: the name or id of the volume, or of the stopped box.
            keep: how long it is kept; by default, 30 days.
            confirm: is called before anything is bought; by default, nothing is confirmed.

        Raises:
            UsageError: a value is not possible, or ``confirm`` returned ``False``.
            ConnectionFailedError: the box that uses the volume does not answer.
            CloudError: the cloud refused; nothing is left.
            CleanupIncompleteError: something may still be billed.
        """
        from gpucloud.api.storing import snapshot
        from gpucloud.planning.volume_plan import KEEP

        source, kept = self._session.find_holding(of, records.Holding), KEEP if keep is None else keep
        market = self._session.catalog.market
        with self._session.operation() as context:
            made = snapshot(context, market, source, name=name, keep=kept, confirm=confirm)
        return self.read(made)

    def list(self, *, over: bool = False) -> Listing[Snapshot]:
        """The owner's snapshots in the journal, oldest first; ``over`` adds deleted and failed ones."""
        found = self._session.journal.holdings(records.Snapshot, owner=self._session.owner, over=over)
        return Listing(self.read(snapshot) for snapshot in found)

    def get(self, name: str) -> Snapshot:
        """The living snapshot with this name or id; otherwise the newest one that has ended.

        Raises:
            UsageError: there is none.
        """
        return self.read(self._session.find_holding(name, records.Snapshot))

    def restore(
        self,
        name: str,
        *,
        volume: str,
        near: str | None = None,
        zone: str | None = None,
        size_gib: int | None = None,
        keep: timedelta | None = None,
        confirm: Callable[[VolumePlan], bool] | None = None,
    ) -> Volume:
        """Creates a volume that is filled from a snapshot, in any zone of its region.

        Args:
            name: the name or id of the snapshot.
            volume: the name of the new volume.
            near: a GPU that is to be near, as in a spec; by default, any.
            zone: the zone; by default, that of the volume that the snapshot was made of.
            size_gib: its size; by default, that of the volume that the snapshot was made of.
            keep: how long it is kept after its last use; by default, 30 days.
            confirm: is called before anything is bought; by default, nothing is confirmed.

        Raises:
            UsageError: a value is not possible, or ``confirm`` returned ``False``.
            NoOfferError: nothing matches.
            CloudError: the cloud refused; nothing is left.
            CleanupIncompleteError: something may still be billed.
        """
        from gpucloud.api.storing import restore
        from gpucloud.api.volumes import Volumes
        from gpucloud.planning.snapshot_plan import size_of, spec_near
        from gpucloud.planning.volume_plan import KEEP

        source = self._session.find_holding(name, records.Snapshot)
        spec = spec_near(self._session.catalog.market, source, name=volume, gpu=near, zone=zone)
        market = self._session.catalog.market_for(spec.demand())
        with self._session.operation() as context:
            made = restore(
                context,
                market,
                spec,
                source,
                name=volume,
                size_gib=size_of(source, size_gib),
                keep=KEEP if keep is None else keep,
                confirm=confirm,
            )
        return Volumes(self._session).read(made)

    def delete(self, name: str, *, confirm: Callable[[Snapshot], bool] | None = None) -> Snapshot:
        """Deletes a snapshot; returns when its cloud confirms that nothing billable is left.

        Volumes that were filled from it, and boxes that booted from it, keep their data.

        Args:
            name: its name or id.
            confirm: is called before anything is deleted; by default, nothing is confirmed.

        Raises:
            CleanupIncompleteError: it may still be billed; the next call that changes anything continues.
            UsageError: there is none, or ``confirm`` returned ``False``.
        """
        from gpucloud.api.storing import end

        found = self._session.find_holding(name, records.Snapshot)
        with self._session.operation() as context:
            ended = end(context, found, lambda: confirm is None or confirm(self.read(found)))
        return self.read(ended)

    def read(self, snapshot: records.Snapshot) -> Snapshot:
        """A snapshot from the journal's record, as it is now."""
        from gpucloud.api.snapshot import Snapshot

        return Snapshot.read(snapshot, self._session.billing_of, self._session.now())

"""Volumes: ``client.volumes``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from gpucloud.errors import UsageError
from gpucloud.journal import records
from gpucloud.rendering.tabular import Listing

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.api.volume import Volume
    from gpucloud.planning.volume_plan import VolumePlan


class Volumes:
    """Encrypted disks that outlive boxes."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
        self,
        name: str,
        *,
        size_gib: int,
        near: str | None = None,
        cloud: str | None = None,
        region: str | None = None,
        zone: str | None = None,
        residency: Sequence[str] = (),
        keep: timedelta | None = None,
        confirm: Callable[[VolumePlan], bool] | None = None,
    ) -> Volume:
        """Creates an encrypted disk that outlives boxes, in the place of the cheapest machine that fits.

        Args:
            name: its name, unique among the living boxes and volumes.
            size_gib: its size.
            near: a GPU, as in a spec; by default, any.
            cloud: the cloud; by default, any.
            region: the region; by default, any.
            zone: the zone; by default, any.
            residency: regions or groups outside of which it may not be, as in a spec; by default, anywhere.
            keep: how long it is kept after its last use; by default, 30 days.
            confirm: is called before anything is bought; by default, nothing is confirmed.

        Raises:
            UsageError: a value is not possible, no place is given, or ``confirm`` returned ``False``.
            NoOfferError: nothing matches.
            CloudError: the cloud refused; nothing is left.
            CleanupIncompleteError: something may still be billed.
        """
        from gpucloud.api.storing import create
        from gpucloud.planning.volume_plan import KEEP
        from gpucloud.spec.file import load_spec

        if not (near or region or zone):
            raise UsageError("a volume needs a place", hint="add --near GPU, --region NAME or --zone NAME")
        places = {"clouds": [cloud], "regions": [region], "zones": [zone]}
        given = {field: values for field, values in places.items() if values[0]}
        spec = load_spec(None, {"name": name, "gpu": near, "residency": residency, **given})
        market = self._session.catalog.market_for(spec.demand())
        with self._session.operation() as context:
            made = create(
                context,
                market,
                spec,
                name=name,
                size_gib=size_gib,
                keep=KEEP if keep is None else keep,
                confirm=confirm,
            )
        return self.read(made)

    def list(self, *, over: bool = False) -> Listing[Volume]:
        """The owner's volumes in the journal, oldest first; ``over`` adds deleted and failed ones."""
        found = self._session.journal.holdings(records.Volume, owner=self._session.owner, over=over)
        return Listing(self.read(volume) for volume in found)

    def get(self, name: str) -> Volume:
        """The living volume with this name or id; otherwise the newest one that has ended.

        Raises:
            UsageError: there is none.
        """
        return self.read(self._session.find_holding(name, records.Volume))

    def delete(self, name: str, *, confirm: Callable[[Volume], bool] | None = None) -> Volume:
        """Deletes a volume with its data; returns when its cloud confirms that nothing billable is left.

        Args:
            name: its name or id.
            confirm: is called before anything is deleted; by default, nothing is confirmed.

        Raises:
            CleanupIncompleteError: it may still be billed; the next call that changes anything continues.
            UsageError: there is none, or ``confirm`` returned ``False``.
        """
        from gpucloud.api.storing import delete

        found = self._session.find_holding(name, records.Volume)
        with self._session.operation() as context:
            ended = delete(context, found, lambda: confirm is None or confirm(self.read(found)))
        return self.read(ended)

    def read(self, volume: records.Volume) -> Volume:
        """A volume from the journal's record, as it is now."""
        from gpucloud.api.volume import Volume
        from gpucloud.planning.volume_choice import holder_of

        holder = holder_of(self._session.journal, volume)
        return Volume.read(volume, holder, self._session.billing_of, self._session.now())

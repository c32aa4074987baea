"""A spec's image of the user's own: where its box must be, and with which architecture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from gpucloud.errors import UsageError
from gpucloud.journal.lifecycle import OVER, BoxState
from gpucloud.journal.records import Snapshot
from gpucloud.journal.store import Journal
from gpucloud.planning.boot_images import DEFAULT_IMAGE
from gpucloud.resources import ResourceKind
from gpucloud.spec.model import Spec
from gpucloud_pricing.demand import Demand, ImagePlace
from gpucloud_templates.software import is_own

SEE = "see your snapshots: gpucloud snapshot list"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnImage:
    """A snapshot of a box that can be booted now; ``id`` is the cloud's own id of its image."""

    snapshot: Snapshot
    id: str

    def narrowed(self, demand: Demand) -> Demand:
        """A demand for machines that can boot it."""
        place = self.snapshot.place
        assert place is not None  # noqa: S101  (it is there)
        image = ImagePlace(name=self.snapshot.name, cloud=place.cloud, region=place.region)
        return replace(demand, image=image, arch=self.snapshot.arch or demand.arch)


def own_image(journal: Journal, owner: str, spec: Spec, now: datetime) -> OwnImage | None:
    """The snapshot that ``image`` of a spec names; ``None`` if it names a recipe, or an id of a cloud.

    Raises:
        UsageError: no box can boot from it, or its disk is larger than that of the spec.
    """
    if spec.image is None or not is_own(spec.image):
        return None
    found = [each for each in journal.named(owner, spec.image) if isinstance(each, Snapshot)]
    snapshot = next((each for each in found if each.state not in OVER), None)
    if snapshot is None:
        return None
    images = [row.ref for row in journal.resources(snapshot.id) if row.ref.kind is ResourceKind.IMAGE]
    reason = _refusal(snapshot, now)
    if reason is not None or not images:
        raise UsageError(f"--image: snapshot {spec.image!r} {reason or 'is of a volume'}", hint=SEE)
    least = snapshot.disk_gib or 0
    if spec.disk < least:
        raise UsageError(
            f"--disk: {spec.disk} GiB is smaller than the image {spec.image!r}, which has {least} GiB",
            hint=f"--disk {least}",
        )
    return OwnImage(snapshot=snapshot, id=images[0].id)


def image_id(spec: Spec, own: OwnImage | None) -> str:
    """The image of a spec as its cloud is told: a recipe, or an id."""
    return own.id if own else spec.image or DEFAULT_IMAGE


def _refusal(snapshot: Snapshot, now: datetime) -> str | None:
    """Why a snapshot cannot be booted now, as the rest of a sentence."""
    if snapshot.state is not BoxState.READY:
        return f"is {snapshot.state}"
    if snapshot.expires_at is not None and snapshot.expires_at < now:
        return "is past its deadline"
    return None

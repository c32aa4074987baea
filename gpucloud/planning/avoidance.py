"""The places that a plan leaves out as long as others match. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpucloud.planning.plan import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Avoided:
    """Places in which a box was lost a short time ago.

    Attributes:
        places: (cloud, region, zone, instance type) each; the zone is empty where the cloud has none.
        regions: (cloud, region) each.
    """

    places: frozenset[tuple[str, str, str, str]] = frozenset()
    regions: frozenset[tuple[str, str]] = frozenset()

    def without(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates elsewhere; in the same regions if there is none; all if that leaves none either."""
        other_places = [each for each in candidates if not self._is_place(each)]
        other_regions = [each for each in other_places if (each.cloud, each.region) not in self.regions]
        return other_regions or other_places or list(candidates)

    def _is_place(self, candidate: Candidate) -> bool:
        """Whether a candidate may be in one of the places; one without a zone may be in any of its region."""
        here = (candidate.cloud, candidate.region, candidate.instance_type)
        return any(
            here == (cloud, region, kind) and candidate.zone in {"", zone}
            for cloud, region, zone, kind in self.places
        )


NOTHING_AVOIDED = Avoided()

"""The cost of a project: its parts and transfers in the cheapest places, and on each cloud alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from gpucloud.costs.assignment import PartPlace, Rank
from gpucloud.costs.comparison import Comparison
from gpucloud.costs.project import Part, Project, Transfer
from gpucloud_pricing import Market
from gpucloud_pricing.estimate import Estimate
from gpucloud_pricing.figures import Figure, transfer_figure
from gpucloud_pricing.payment import way_of
from gpucloud_pricing.purchases import Billed
from gpucloud_pricing.rules import STALE, caution
from gpucloud_pricing.tariffs import TariffCost
from gpucloud_pricing.terms import sum_known
from gpucloud_pricing.values import number, usd_document

if TYPE_CHECKING:
    from gpucloud.costs.documents import PartDocument, PlacementDocument, ProjectDocument, TransferDocument


@dataclass(frozen=True, kw_only=True)
class PartPlacement:
    """A way to have a part in one place.

    Attributes:
        part: the part.
        comparison: the costs of the part in all ways.
        estimate: this way.
    """

    part: Part
    comparison: Comparison
    estimate: Estimate

    @property
    def place(self) -> PartPlace:
        """Where it is."""
        offer = self.estimate.offer
        return PartPlace(offer.cloud, offer.region, offer.zone or "")

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """The unknown parts of the cost, by name."""
        missing = [name for name, amount in self.estimate.parts.items() if amount is None]
        return (*missing, *(["interruptions"] if self.estimate.expected_total is None else []))

    @cached_property
    def usd(self) -> Decimal:
        """The expected cost without unknown parts; of a commitment for a profile, its share of a month."""
        estimate = self.estimate
        way = way_of(estimate.offer)
        in_terms = estimate.offer.paid_as.billed is Billed.IN_TERMS
        if self.part.monthly and in_terms and way is not None:
            beside = sum_known(amount for name, amount in estimate.parts.items() if name != "compute")
            return way.per_month * self.comparison.usage.nodes + beside
        return estimate.cost or Decimal(0)

    @property
    def rank(self) -> Rank:
        """The order of choice."""
        return Rank(len(self.unknown), int(caution(self.estimate.offer.flags) > 0), self.usd)

    @property
    def passes_over(self) -> bool:
        """Whether something else is expected to cost less that can be launched, at a stale price."""
        return any(
            estimate.offer.flags == (STALE,) and (estimate.expected_total or self.usd) < self.usd
            for estimate in self.comparison.launchable
            if STALE not in self.estimate.offer.flags
        )

    def figures(self) -> list[Figure]:
        """How its figures are computed."""
        return self.comparison.figures(self.estimate)

    def document(self) -> PartDocument:
        """A part of ``gpucloud.project/v1``."""
        return {
            "name": self.part.name,
            "hours": number(self.comparison.usage.hours),
            "cost": usd_document(round(self.usd, 4)),
            **self.estimate.document(),
        }


def shares_zone(origin: PartPlace, target: PartPlace) -> bool:
    """Whether two places are one zone, which is known: data between them is free over private addresses.

    Sources: AWS, "EC2 on-demand pricing", data transfer within the same Availability Zone; Alibaba Cloud,
    "Network billing methods" (no fee on intranet traffic). Which zone of Azure has a type is not known here.
    """
    return bool(origin.zone) and origin == target


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTransfer:
    """A transfer between places, and its cost.

    Attributes:
        transfer: the transfer.
        origin: where the data comes from.
        target: where it goes; ``None`` for the internet.
        tariff: the cost of all data that is priced together; ``None`` if unknown, and within a zone.
        together: how much that is, in GiB: all that leaves the cloud, or this transfer alone.
        usd: the share of this transfer; ``None`` if unknown.
    """

    transfer: Transfer
    origin: PartPlace
    target: PartPlace | None
    tariff: TariffCost | None
    together: Decimal
    usd: Decimal | None

    @property
    def path(self) -> Literal["internet", "between regions", "region", "zone"]:
        """What the data crosses."""
        if self.target is None or self.target.cloud != self.origin.cloud:
            return "internet"
        if self.target.region != self.origin.region:
            return "between regions"
        return "zone" if shares_zone(self.origin, self.target) else "region"

    def figure(self, market: Market) -> Figure:
        """How its cost is computed."""
        name = f"{self.transfer.origin} to {self.transfer.target}"
        if self.path == "zone":
            free = f"free within {self.origin.zone}, over private addresses"
            return Figure(part=name, amount=self.usd, formula=free, rows=())
        return transfer_figure(market, name, self.tariff, self.usd, (self.transfer.gib, self.together))

    def document(self) -> TransferDocument:
        """A transfer of ``gpucloud.project/v1``."""
        return {
            "from": self.transfer.origin,
            "to": self.transfer.target,
            "gib": number(self.transfer.gib),
            "path": self.path,
            "cost": None if self.usd is None else usd_document(round(self.usd, 4)),
        }


@dataclass(frozen=True, kw_only=True)
class Placement:
    """All parts and transfers of a project in certain places."""

    parts: Sequence[PartPlacement]
    transfers: Sequence[PlacedTransfer]
    rank: Rank

    @property
    def clouds(self) -> list[str]:
        """The clouds in use."""
        return list(dict.fromkeys(candidate.place.cloud for candidate in self.parts))

    @property
    def total(self) -> Decimal:
        """The cost in USD; a lower bound if something is unknown."""
        return self.rank.usd

    @property
    def unknown(self) -> list[tuple[str, str]]:
        """What is unknown: a part and the name of its figure, or the ends of a transfer."""
        of_parts = [(each.part.name, name) for each in self.parts for name in each.unknown]
        of_transfers = [
            (each.transfer.origin, f"data to {each.transfer.target}")
            for each in self.transfers
            if each.usd is None
        ]
        return of_parts + of_transfers

    def document(self) -> PlacementDocument:
        """A placement of ``gpucloud.project/v1``."""
        return {
            "clouds": self.clouds,
            "total": usd_document(round(self.total, 4)),
            "complete": not self.unknown,
            "unknown": [{"part": part, "what": what} for part, what in self.unknown],
            "parts": [candidate.document() for candidate in self.parts],
            "transfers": [transfer.document() for transfer in self.transfers],
        }


@dataclass(frozen=True, kw_only=True)
class ProjectCost:
    """The cheapest places of a project.

    Attributes:
        project: the project.
        market: the source of tariffs.
        cheapest: the cheapest places over all clouds.
        by_cloud: the cheapest places on each cloud that has offers for all parts.
    """

    project: Project
    market: Market
    cheapest: Placement
    by_cloud: Mapping[str, Placement]

    @property
    def one_cloud(self) -> Placement | None:
        """The cheapest places on one cloud."""
        return min(self.by_cloud.values(), key=lambda placement: placement.rank, default=None)

    @property
    def saving(self) -> Decimal | None:
        """What the cheapest places save against those on one cloud, in USD; ``None`` if that is unknown."""
        return (
            None
            if self.one_cloud is None or self.why_no_saving
            else self.one_cloud.total - self.cheapest.total
        )

    @property
    def why_no_saving(self) -> str | None:
        """Why the saving is unknown; ``None`` if it is known."""
        other, best = self.one_cloud, self.cheapest
        if other is None:
            return "no cloud has offers for all parts"
        if sorted(other.unknown) != sorted(best.unknown):
            return "different prices are unknown"
        return "one of them has older prices" if other.rank.stale != best.rank.stale else None

    @property
    def passed_over(self) -> list[str]:
        """The parts for which there is a lower, but stale price."""
        return [each.part.name for each in self.cheapest.parts if each.passes_over]

    def document(self, *, explain: bool = False) -> ProjectDocument:
        """The fields of ``gpucloud.project/v1``; ``explain`` adds how each figure is computed.

        ``period`` is ``month`` or ``all``: whether the costs are those of a month, or of all hours.
        ``cheapest`` and ``one_cloud`` are placements: ``clouds``, ``total``, ``complete``, ``unknown``,
        ``parts`` (an option of ``gpucloud.cost/v1`` each, with ``name``, ``hours`` and ``cost``, what it
        adds to the total) and ``transfers``, whose ``path`` is ``internet`` (also to another cloud),
        ``between regions``, ``region`` (between its zones, or they are not known), or ``zone``.
        """
        saving, other = self.saving, self.one_cloud
        document: ProjectDocument = {
            "period": "month" if self.project.monthly else "all",
            "cheapest": self.cheapest.document(),
            "one_cloud": other.document() if other else None,
            "clouds": [
                {"cloud": cloud, "total": usd_document(round(each.total, 4)), "complete": not each.unknown}
                for cloud, each in self.by_cloud.items()
            ],
            "saving": None if saving is None else usd_document(round(saving, 4)),
        }
        if saving is not None and other is not None and other.total:
            document["saving_percent"] = float(round(saving / other.total * 100, 1))
        if self.why_no_saving is not None:
            document["unknown"] = {"saving": self.why_no_saving}
        if explain:
            document["figures"] = [
                {"of": name, **figure.document()} for name, figures in self.figures() for figure in figures
            ]
        return document

    def figures(self) -> list[tuple[str, list[Figure]]]:
        """How the figures of the cheapest places are computed, by part, and for all transfers."""
        return [
            *((each.part.name, each.figures()) for each in self.cheapest.parts),
            ("transfers", [each.figure(self.market) for each in self.cheapest.transfers]),
        ]

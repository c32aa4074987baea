"""The cost of a project: its parts and transfers in the cheapest places, and on each cloud alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from gpucloud.costs.assignment import (
    Assignment,
    Flow,
    Place,
    Problem,
    Rank,
    TooDenseError,
    cheapest,
    on_one_cloud,
)
from gpucloud.costs.comparison import Comparison
from gpucloud.costs.project import INTERNET, Part, Project, Transfer
from gpucloud.errors import GpucloudError, NoOfferError, UsageError
from gpucloud.spec.model import Spec
from gpucloud_pricing import Market
from gpucloud_pricing.demand import CAPACITY_BLOCK, OWNED, TERM_HOURS
from gpucloud_pricing.estimate import Estimate
from gpucloud_pricing.figures import Figure, transfer_figure
from gpucloud_pricing.parts import sum_known
from gpucloud_pricing.payment import way_of
from gpucloud_pricing.rules import STALE, caution
from gpucloud_pricing.tariffs import TariffCost, egress_cost, transfer_cost
from gpucloud_pricing.values import number, usd_document

if TYPE_CHECKING:
    from gpucloud.costs.documents import PartDocument, PlacementDocument, ProjectDocument, TransferDocument

EVERY_PLACE = 1_000_000
"""More places than there are: a comparison of so many leaves none out."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A way to have a part in one region.

    Attributes:
        part: the part.
        comparison: the costs of the part in all ways.
        estimate: this way.
    """

    part: Part
    comparison: Comparison
    estimate: Estimate

    @property
    def place(self) -> Place:
        """The cloud and the region."""
        return self.estimate.offer.cloud, self.estimate.offer.region

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
        if self.part.monthly and estimate.offer.purchase in TERM_HOURS and way is not None:
            beside = sum_known(amount for name, amount in estimate.parts.items() if name != "compute")
            return way.per_month * self.comparison.usage.nodes + beside
        return (
            estimate.expected_total if estimate.expected_total is not None else estimate.total
        ) or Decimal(0)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTransfer:
    """A transfer between places, and its cost.

    Attributes:
        transfer: the transfer.
        origin: where the data comes from.
        target: where it goes; ``None`` for the internet.
        tariff: the cost of all data that is priced together; ``None`` if unknown.
        together: how much that is, in GiB: all that leaves the cloud, or this transfer alone.
        usd: the share of this transfer; ``None`` if unknown.
    """

    transfer: Transfer
    origin: Place
    target: Place | None
    tariff: TariffCost | None
    together: Decimal
    usd: Decimal | None

    @property
    def path(self) -> Literal["internet", "between regions", "region"]:
        """What the data crosses."""
        if self.target is None or self.target[0] != self.origin[0]:
            return "internet"
        return "region" if self.target == self.origin else "between regions"

    def figure(self, market: Market) -> Figure:
        """How its cost is computed."""
        name = f"{self.transfer.origin} to {self.transfer.target}"
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

    parts: Sequence[Candidate]
    transfers: Sequence[PlacedTransfer]
    rank: Rank

    @property
    def clouds(self) -> list[str]:
        """The clouds in use."""
        return list(dict.fromkeys(candidate.place[0] for candidate in self.parts))

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
        ``between regions`` or ``region``.
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


def cost_of_project(
    project: Project, estimate: Callable[[Spec, Part], Comparison], *, all_terms: bool = False
) -> ProjectCost:
    """Finds the cheapest places of a project.

    Args:
        project: the project.
        estimate: compares all places of a part.
        all_terms: also consider commitments for longer than the parts last, and for parts without a profile.

    Raises:
        NoOfferError: nothing matches a part, or what matches cannot be started or has no price.
        UsageError: too many parts exchange data with each other to find the cheapest places exactly.
    """
    choices = [
        _candidates(part, _compared(part, estimate, all_terms=all_terms), all_terms) for part in project.parts
    ]
    market = next(iter(choices[0].values())).comparison.market
    problem = _problem(project, choices, market)
    try:
        best, single = cheapest(problem), on_one_cloud(problem)
    except TooDenseError as error:
        raise UsageError(
            f"the cheapest places cannot be found exactly: {error}",
            hint="leave out the smallest transfers, or name regions",
        ) from None
    if best is None:
        raise NoOfferError("no assignment")
    return ProjectCost(
        project=project,
        market=market,
        cheapest=_placement(project, choices, market, best),
        by_cloud={cloud: _placement(project, choices, market, each) for cloud, each in single.items()},
    )


def _compared(part: Part, estimate: Callable[[Spec, Part], Comparison], *, all_terms: bool) -> Comparison:
    """The costs of a part in every place, on demand and on spot unless its spec names ways of paying."""
    spec = part.spec
    if "purchase" not in spec.given:
        committed = all_terms or part.lasts is not None
        spec = spec.replaced(purchase=["on-demand", "spot", *(["reserved"] if committed else [])])
    try:
        return estimate(spec, part)
    except GpucloudError as error:
        error.message = f"{part.name}: {error.message}"
        raise


def _candidates(part: Part, comparison: Comparison, all_terms: bool) -> dict[Place, Candidate]:
    """The best way in each region: what transfers cost depends on nothing else.

    Raises:
        NoOfferError: there is none.
    """
    best: dict[Place, Candidate] = {}
    for estimate in comparison.estimates:
        candidate = Candidate(part=part, comparison=comparison, estimate=estimate)
        if not _may_be_chosen(part, estimate, all_terms):
            continue
        known = best.get(candidate.place)
        if known is None or candidate.rank < known.rank:
            best[candidate.place] = candidate
    if not best:
        raise NoOfferError(
            f"{part.name}: nothing that can start now has a known cost", hint="see it with `gpucloud offers`"
        )
    return best


def _may_be_chosen(part: Part, estimate: Estimate, all_terms: bool) -> bool:
    """Whether an offer can be launched, or is a commitment for no longer than the part lasts.

    Capacity that is paid for already is none: it could serve one part only.
    """
    offer = estimate.offer
    if estimate.total is None or {*offer.flags} - {STALE} or offer.purchase == OWNED:
        return False
    if not offer.to_buy:
        return True
    if offer.purchase == CAPACITY_BLOCK:
        return all_terms and not part.monthly
    if all_terms:
        return True
    hours = Decimal(0) if part.lasts is None else Decimal(part.lasts.total_seconds()) / 3600
    return TERM_HOURS[offer.purchase] <= hours


def _problem(project: Project, choices: Sequence[Mapping[Place, Candidate]], market: Market) -> Problem:
    def between(origin: Place, target: Place, gib: Decimal) -> Rank:
        return _rank(_usd(market, _tariff(market, origin, target, gib)))

    def leaving(origin: Place, gib: Decimal, together: Decimal) -> Rank:
        usd = _usd(market, egress_cost(market.tariffs, origin, together))
        return _rank(None if usd is None else usd * gib / together)

    flows = [
        Flow(
            origin=project.number_of(transfer.origin),
            target=None if transfer.target == INTERNET else project.number_of(transfer.target),
            gib=transfer.gib,
        )
        for transfer in project.transfers
    ]
    parts = [{place: each.rank for place, each in choice.items()} for choice in choices]
    return Problem(parts=parts, flows=flows, between=between, leaving=leaving)


def _rank(usd: Decimal | None) -> Rank:
    return Rank(unknown=1) if usd is None else Rank(usd=usd)


def _placement(
    project: Project,
    choices: Sequence[Mapping[Place, Candidate]],
    market: Market,
    assignment: Assignment,
) -> Placement:
    """The parts and transfers of a project as assigned."""
    parts = [choice[assignment.places[index]] for index, choice in enumerate(choices)]
    ends = [
        (
            transfer,
            parts[project.number_of(transfer.origin)].place,
            None if transfer.target == INTERNET else parts[project.number_of(transfer.target)].place,
        )
        for transfer in project.transfers
    ]
    leaving: dict[str, Decimal] = {}
    for transfer, origin, target in ends:
        if target is None or target[0] != origin[0]:
            leaving[origin[0]] = leaving.get(origin[0], Decimal(0)) + transfer.gib
    placed: list[PlacedTransfer] = []
    for transfer, origin, target in ends:
        out = target is None or target[0] != origin[0]
        together = leaving[origin[0]] if out else transfer.gib
        tariff = (
            egress_cost(market.tariffs, origin, together)
            if target is None or out
            else _tariff(market, origin, target, together)
        )
        usd = _usd(market, tariff)
        placed.append(
            PlacedTransfer(
                transfer=transfer,
                origin=origin,
                target=target,
                tariff=tariff,
                together=together,
                usd=None if usd is None or not together else usd * transfer.gib / together,
            )
        )
    return Placement(parts=parts, transfers=placed, rank=assignment.rank)


def _tariff(market: Market, origin: Place, target: Place, gib: Decimal) -> TariffCost | None:
    """The price of data between regions of a cloud, or within one."""
    return transfer_cost(market.tariffs, market.regions[origin], market.regions[target], gib)


def _usd(market: Market, tariff: TariffCost | None) -> Decimal | None:
    return None if tariff is None else market.usd(tariff.amount, tariff.currency)

"""Finds the cheapest places of a project: the parts and the data between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import assert_never

from gpucloud.costs.assignment import (
    NOTHING,
    Assignment,
    Flow,
    PartPlace,
    Problem,
    Rank,
    TooDenseError,
    cheapest,
    on_one_cloud,
    without_needless_zones,
)
from gpucloud.costs.comparison import Comparison
from gpucloud.costs.project import INTERNET, Part, Project, Transfer
from gpucloud.costs.project_cost import PartPlacement, PlacedTransfer, Placement, ProjectCost, shares_zone
from gpucloud.errors import GpucloudError, NoOfferError, UsageError
from gpucloud.spec.model import Spec
from gpucloud_pricing import Market
from gpucloud_pricing.estimate import Estimate
from gpucloud_pricing.purchases import LAUNCHABLE, Billed, Purchase
from gpucloud_pricing.rules import STALE
from gpucloud_pricing.tariffs import TariffCost, egress_cost, transfer_cost

EVERY_PLACE = 1_000_000
"""More places than there are: a comparison of so many leaves none out."""
Choice = dict[PartPlace, PartPlacement]
"""The best way to have a part in each place."""


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
        spec = spec.replaced(purchase=[*LAUNCHABLE, *([Purchase.RESERVED] if committed else [])])
    try:
        return estimate(spec, part)
    except GpucloudError as error:
        error.message = f"{part.name}: {error.message}"
        raise


def _candidates(part: Part, comparison: Comparison, all_terms: bool) -> Choice:
    """The best way in each place: what transfers cost depends on nothing else.

    Raises:
        NoOfferError: there is none.
    """
    best: Choice = {}
    for estimate in comparison.estimates:
        candidate = PartPlacement(part=part, comparison=comparison, estimate=estimate)
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
    if estimate.total is None or {*offer.flags} - {STALE}:
        return False
    match offer.paid_as.billed:
        case Billed.HOURLY:
            return True
        case Billed.ALREADY:
            return False
        case Billed.IN_BLOCKS:
            return all_terms and not part.monthly
        case Billed.IN_TERMS:
            hours = Decimal(0) if part.lasts is None else Decimal(part.lasts.total_seconds()) / 3600
            return all_terms or offer.paid_as.term_hours <= hours
        case _:
            assert_never(offer.paid_as.billed)


def _problem(project: Project, choices: Sequence[Choice], market: Market) -> Problem:
    def between(origin: PartPlace, target: PartPlace, gib: Decimal) -> Rank:
        return (
            NOTHING
            if shares_zone(origin, target)
            else _rank(_usd(market, _tariff(market, origin, target, gib)))
        )

    def leaving(origin: PartPlace, gib: Decimal, together: Decimal) -> Rank:
        usd = _usd(market, _tariff(market, origin, None, together))
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
    return Problem(parts=without_needless_zones(parts), flows=flows, between=between, leaving=leaving)


def _rank(usd: Decimal | None) -> Rank:
    return Rank(unknown=1) if usd is None else Rank(usd=usd)


def _placement(
    project: Project,
    choices: Sequence[Choice],
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
    leaving: dict[str, Decimal] = defaultdict(Decimal)
    for transfer, origin, target in ends:
        if _leaves(origin, target):
            leaving[origin.cloud] += transfer.gib
    transfers = [
        _placed(
            market,
            transfer,
            origin,
            target,
            leaving[origin.cloud] if _leaves(origin, target) else transfer.gib,
        )
        for transfer, origin, target in ends
    ]
    return Placement(parts=parts, transfers=transfers, rank=assignment.rank)


def _leaves(origin: PartPlace, target: PartPlace | None) -> bool:
    """Whether data leaves its cloud."""
    return target is None or target.cloud != origin.cloud


def _placed(
    market: Market, transfer: Transfer, origin: PartPlace, target: PartPlace | None, together: Decimal
) -> PlacedTransfer:
    """A transfer between places; ``together`` is how much data is priced with it."""
    tariff: TariffCost | None = None
    usd: Decimal | None = Decimal(0)
    if target is None or not shares_zone(origin, target):
        tariff = _tariff(market, origin, target, together)
        whole = _usd(market, tariff)
        usd = None if whole is None else whole * transfer.gib / together
    return PlacedTransfer(
        transfer=transfer, origin=origin, target=target, tariff=tariff, together=together, usd=usd
    )


def _tariff(market: Market, origin: PartPlace, target: PartPlace | None, gib: Decimal) -> TariffCost | None:
    """The price of data to another place, or to the internet; not of data within a zone, which is free."""
    if target is None or _leaves(origin, target):
        return egress_cost(market.tariffs, origin[:2], gib)
    return transfer_cost(market.tariffs, market.regions[origin[:2]], market.regions[target[:2]], gib)


def _usd(market: Market, tariff: TariffCost | None) -> Decimal | None:
    return None if tariff is None else market.usd(tariff.amount, tariff.currency)

"""The JSON documents about costs: compared, of a project, and past."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from gpucloud_pricing.documents import (
    Day,
    EstimateDocument,
    FigureDocument,
    MoneyDocument,
    Number,
    RateDocument,
    Time,
    Unknown,
    UsageDocument,
)


class TokensDocument(TypedDict):
    """Work in tokens.

    Attributes:
        per_epoch: tokens of an epoch.
        per_second: tokens that all nodes together process in a second.
    """

    per_epoch: Number
    per_second: Number
    epochs: Number


class ComparedUsageDocument(UsageDocument):
    """The usage that is compared.

    Attributes:
        hours_assumed: whether the user named no hours.
        cost_of_capital: the interest rate per year as a fraction; ``null`` if it is not counted.
        tokens: ``null`` if the work is not given in tokens.
        unmeasured: GPUs on which the hours of a computation are unknown, and why.
    """

    hours_assumed: bool
    cost_of_capital: float | None
    tokens: TokensDocument | None
    unmeasured: dict[str, str]


class UnitCostDocument(TypedDict):
    """The cost of a unit of work.

    Attributes:
        measure: the unit.
        usd_per_hour: ``null`` if the figure of the GPU is unknown.
        source: where the figure comes from.
        doubt: why it may be wrong.
    """

    measure: str
    usd_per_hour: MoneyDocument | None
    source: str | None
    doubt: str | None


class RunningDocument(TypedDict):
    """The cost of a running box, without boot and data to the internet."""

    hour: MoneyDocument | None
    day: MoneyDocument | None
    month: MoneyDocument | None


class OptionDocument(EstimateDocument):
    """One way of paying.

    Attributes:
        expected_per_node: only for several nodes.
        after_credit: what is left to pay after the user's credit; only with a credit.
        present_value: only with a cost of capital.
        unit_cost: only with a unit of work.
        per_epoch: only for work in tokens; ``null`` if unknown.
        per_million_tokens: the same.
        running: only if the user named no hours.
        figures: how each figure is computed; with ``--explain``.
    """

    expected_per_node: NotRequired[MoneyDocument]
    after_credit: NotRequired[MoneyDocument | None]
    present_value: NotRequired[MoneyDocument | None]
    unit_cost: NotRequired[UnitCostDocument]
    per_epoch: NotRequired[MoneyDocument | None]
    per_million_tokens: NotRequired[MoneyDocument | None]
    running: NotRequired[RunningDocument]
    figures: NotRequired[list[FigureDocument]]


class VerdictDocument(TypedDict):
    """What to start now, and what would cost less.

    Attributes:
        now: the cheapest that can start now.
        cost: its cost: expected for the hours asked, otherwise per hour.
        spot: the cheapest spot, if it is expected to cost less.
        saving: how much less.
        commitment: the shortest commitment that pays.
    """

    now: EstimateDocument
    cost: MoneyDocument
    spot: EstimateDocument | None
    saving: MoneyDocument | None
    commitment: EstimateDocument | None


class WayDocument(TypedDict):
    """A way of paying, with its further terms."""

    purchase: str
    terms: str | None


class StretchDocument(WayDocument):
    """A range of hours per month in which a way of paying is the cheapest."""

    from_hours: Number
    to_hours: Number


class PlaceDocument(TypedDict):
    """A type in a region."""

    cloud: str
    region: str
    instance_type: str


class StretchesDocument(PlaceDocument):
    """The cheapest way of paying by hours per month."""

    stretches: list[StretchDocument]


class ShareDocument(WayDocument):
    """The machines of a mix that are paid for in one way.

    Attributes:
        month: their cost per month.
    """

    machines: int
    hours_per_month: Number
    month: MoneyDocument


class MixDocument(PlaceDocument):
    """The cheapest mix of ways of paying for a profile.

    Attributes:
        month: the cost per month.
        for_hours: the hours asked; ``null`` without any.
    """

    month: MoneyDocument
    for_hours: Number | None
    shares: list[ShareDocument]


class AgainstDocument(TypedDict):
    """The difference to another spec; ``null`` if it would not be one of equal parts.

    Attributes:
        without: the parts that are in neither.
        unknown: why there is no difference.
    """

    before: MoneyDocument | None
    after: MoneyDocument | None
    difference: MoneyDocument | None
    without: list[str]
    unknown: NotRequired[Unknown]
    best_before: EstimateDocument | None
    best_after: EstimateDocument | None


class CostDocument(TypedDict):
    """Every way of paying for a usage, the cheapest first.

    Attributes:
        verdict: ``null`` if nothing that can be launched has a known cost.
        cheapest_by_hours: the cheapest way of paying by hours per month.
        mixes: only for a profile of machines.
        against: only with ``--against``.
    """

    usage: ComparedUsageDocument
    verdict: VerdictDocument | None
    options: list[OptionDocument]
    cheapest_by_hours: list[StretchesDocument]
    mixes: list[MixDocument]
    against: AgainstDocument | None
    rates: list[RateDocument]


class PartDocument(EstimateDocument):
    """A part of a project on its cheapest offer.

    Attributes:
        cost: what it adds to the total.
    """

    name: str
    cost: MoneyDocument


_Ends = TypedDict("_Ends", {"from": str, "to": str})  # keywords of Python cannot be fields of a class


class TransferDocument(_Ends):
    """A transfer of data.

    Attributes:
        gib: how much.
        path: ``internet`` also to another cloud, ``region`` between zones, or where they are not known.
    """

    gib: Number
    path: Literal["internet", "between regions", "region", "zone"]
    cost: MoneyDocument | None


class MissingDocument(TypedDict):
    """A figure that is unknown, and the part that it is of."""

    part: str
    what: str


class PlacementDocument(TypedDict):
    """All parts and transfers of a project in certain places."""

    clouds: list[str]
    total: MoneyDocument
    complete: bool
    unknown: list[MissingDocument]
    parts: list[PartDocument]
    transfers: list[TransferDocument]


class CloudTotalDocument(TypedDict):
    """The cost of a project on one cloud."""

    cloud: str
    total: MoneyDocument
    complete: bool


class FigureOfDocument(FigureDocument):
    """How a figure is computed, and the part that it is of."""

    of: str


class ProjectDocument(TypedDict):
    """The cheapest places of a project.

    Attributes:
        period: whether the costs are those of a month, or of all hours.
        cheapest: over all clouds.
        one_cloud: on one cloud; ``null`` if none has offers for all parts.
        clouds: the total of each cloud that has offers for all parts.
        saving: what ``cheapest`` saves against ``one_cloud``.
        figures: how each figure is computed; with ``--explain``.
    """

    period: Literal["month", "all"]
    cheapest: PlacementDocument
    one_cloud: PlacementDocument | None
    clouds: list[CloudTotalDocument]
    saving: MoneyDocument | None
    saving_percent: NotRequired[Number]
    unknown: NotRequired[Unknown]
    figures: NotRequired[list[FigureOfDocument]]


_Period = TypedDict("_Period", {"from": Time, "to": Time})


class BudgetTagDocument(TypedDict):
    """A tag that boxes of a budget have."""

    name: str
    value: str


class BudgetMatchDocument(TypedDict):
    """What a budget is for; an empty list means all. Of one tag, any of its values."""

    owners: list[str]
    clouds: list[str]
    gpus: list[str]
    tags: list[BudgetTagDocument]


class ForecastDocument(TypedDict):
    """The cost of a whole period: spent, committed, and new boxes as on the last days.

    Attributes:
        amount: with new boxes as on the mean of the last 14 days, without today, in UTC.
        low: as on the 10th percentile of these days.
        high: as on the 90th percentile.
        days: of how many days the journal knows.
        flat: whether no new boxes are expected, as it knows fewer than 7.
    """

    amount: MoneyDocument
    low: MoneyDocument
    high: MoneyDocument
    days: int
    flat: bool


class UnusualDayDocument(TypedDict):
    """A day of the last 7, in UTC, that has cost more than is usual; today counts so far.

    Attributes:
        median: that of the 30 days before it.
        most: the highest cost that would have been usual.
    """

    day: Day
    amount: MoneyDocument
    median: MoneyDocument
    most: MoneyDocument


class BudgetDocument(TypedDict):
    """A budget with what it counts.

    Attributes:
        per: ``run``, ``day``, ``month`` (in UTC) or ``total``.
        warn: percentages of the amount at which a launch warns.
        action: ``warn``, ``refuse`` or ``down``: what happens to what would exceed it, or does.
        by: the owner ID of who set it.
        run: for a budget of each run, the run that has used most of it; ``null`` otherwise.
        spent: what was spent in the period.
        committed: what living boxes will cost until their end, or that of the period.
        left: what may still be launched; negative if the budget is exceeded.
        forecast: of the whole period; ``null`` for a budget of each run, or in total.
        unknown: what is not in the figures, and why.
    """

    name: str
    amount: MoneyDocument
    per: str
    match: BudgetMatchDocument
    warn: list[int]
    action: str
    by: str
    at: Time
    run: str | None
    spent: MoneyDocument
    committed: MoneyDocument
    left: MoneyDocument
    forecast: ForecastDocument | None
    unknown: list[str]


class ChargeDocument(_Period):
    """The cost of one part of a box within one month, in UTC.

    Attributes:
        part: ``compute``, ``disk``, ``address`` or ``snapshot``.
        quantity: all nodes together.
        unit: ``Hours`` or ``GiB-Months``.
        unit_price: ``null`` if unknown.
        amount: ``null`` if unknown.
        at_least: the part of ``amount`` that is certain.
        unknown: why the amount is unknown.
        as_of: the date of the price.
        source: an id of the market's sources.
    """

    part: str
    quantity: Number
    unit: str
    unit_price: MoneyDocument | None
    amount: MoneyDocument | None
    at_least: MoneyDocument | None
    unknown: str | None
    as_of: str | None
    source: str | None


class BoxSpendDocument(TypedDict):
    """What one box or volume has cost: its charges, oldest first.

    Attributes:
        kind: ``box``, ``volume`` or ``snapshot``.
    """

    name: str
    kind: str
    id: str
    run_id: str | None
    state: str
    cloud: str | None
    region: str | None
    instance_type: str | None
    purchase: str | None
    charges: list[ChargeDocument]


class UnknownCostDocument(TypedDict):
    """A reason for which costs are unknown, and the boxes concerned."""

    reason: str
    boxes: list[str]


class GroupDocument(TypedDict):
    """Charges that have the same values for the keys of ``--by``.

    Attributes:
        values: by key.
        boxes: the number of boxes with a charge.
        totals: the known amounts, by currency.
    """

    values: dict[str, str | None]
    boxes: int
    totals: list[MoneyDocument]
    unknown: list[UnknownCostDocument]


class RunStoreDocument(TypedDict):
    """What the store of a run holds.

    Attributes:
        url: the folder of the run.
        attempts: how many attempts have something there.
        sets: how many sets of checkpoints there are, of all attempts.
        objects: how many objects they, the logs and the results are.
        size_bytes: the size of these.
        others: how many objects are there that gpucloud has not written, and leaves alone.
        per_month: what gpucloud's objects cost per month, without requests; ``null`` if that is not known.
    """

    url: str
    attempts: int
    sets: int
    objects: int
    size_bytes: int
    others: int
    per_month: MoneyDocument | None


class SpendDocument(TypedDict):
    """What boxes have cost, with those that are gone.

    Attributes:
        totals: the known amounts, by currency.
        unusual_days: days on which all of these owners' boxes have cost more than is usual.
        by: the keys of ``groups``; both with ``--by``.
        stores: what the stores of runs hold and cost per month; with ``--stores``.
    """

    since: Time | None
    boxes: list[BoxSpendDocument]
    totals: list[MoneyDocument]
    unusual_days: list[UnusualDayDocument]
    by: NotRequired[list[str]]
    groups: NotRequired[list[GroupDocument]]
    stores: NotRequired[list[RunStoreDocument]]

"""The JSON documents about the market: offers, equivalents, prices and commitments."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from gpucloud_pricing.documents import (
    ChangeDocument,
    Day,
    MoneyDocument,
    Number,
    OfferDocument,
    RateDocument,
    SubjectDocument,
    TariffChangeDocument,
    Time,
)


class ReasonDocument(TypedDict):
    """Why an offer is refused.

    Attributes:
        rule: the name of the rule.
        text: the reason, for people.
    """

    rule: str
    text: str


class RefusalDocument(TypedDict):
    """A refused offer with its reasons."""

    offer: OfferDocument
    reasons: list[ReasonDocument]


class RelaxationDocument(TypedDict):
    """What one demand less would bring.

    Attributes:
        rule: the name of the rule.
        offers: how many more offers would match.
        best: the best of them.
    """

    rule: str
    offers: int
    best: OfferDocument


class ForbiddenDocument(TypedDict):
    """How many offers a rule of the policy forbids.

    Attributes:
        rule: as it stands in the policy's file.
    """

    rule: str
    offers: int


class OffersDocument(TypedDict):
    """The offers that match, the best first.

    Attributes:
        as_of: the date of the newest price.
        rates: the exchange rates behind prices in USD.
        policy: how many of these offers each rule of the policy forbids; they are flagged ``forbidden``.
        turned_down: refused offers; this and the following with ``--why``.
        turned_down_by: the number of offers that each rule refuses.
        other_counts: the counts that a GPU comes in, by its name.
        relax: what one demand less would bring.
    """

    as_of: Day | None
    offers: list[OfferDocument]
    rates: list[RateDocument]
    policy: list[ForbiddenDocument]
    turned_down: NotRequired[list[RefusalDocument]]
    turned_down_by: NotRequired[dict[str, int]]
    other_counts: NotRequired[dict[str, list[Number]]]
    relax: NotRequired[list[RelaxationDocument]]


class SetDocument(TypedDict):
    """Machines of one type that have an amount together.

    Attributes:
        gpus: GPUs in all nodes.
        nodes: how many machines.
        per_hour_usd: the price of all nodes.
    """

    gpus: Number
    nodes: int
    per_hour_usd: MoneyDocument
    offer: OfferDocument


class EquivalentDocument(SetDocument):
    """Machines with at least the demanded amount.

    Attributes:
        figure_source: where the figure of the GPU comes from.
        figure_doubt: why it may be wrong.
    """

    figure_source: str | None
    figure_doubt: str | None


class EquivalentsDocument(TypedDict):
    """Other GPUs with at least the same memory or speed, the cheapest first.

    Attributes:
        by: the measure.
        amount: the demanded amount.
        unit: its unit.
        without_figure: the GPUs that were not compared.
        unknown: why, by GPU.
    """

    by: str
    amount: Number
    unit: str
    equivalents: list[EquivalentDocument]
    without_figure: list[str]
    unknown: dict[str, str]
    rates: list[RateDocument]


class RangeDocument(TypedDict):
    """A figure between two bounds, which are the same if it is known exactly."""

    low: Number
    high: Number


class MeasureDocument(TypedDict):
    """Two sizes by one measure.

    Attributes:
        by: the measure.
        amounts: of the first and the second size; ``null`` if unknown.
        ratio: the second over the first.
        unknown: why an amount is unknown, by size.
        doubts: why an amount may be wrong, by size.
    """

    by: str
    unit: str
    amounts: list[RangeDocument | None]
    ratio: RangeDocument | None
    unknown: dict[str, str]
    doubts: dict[str, str]


class SizeDocument(TypedDict):
    """One of two sizes.

    Attributes:
        size: the GPU and its count.
        cards: the makers' names of what it may be.
        offers: the cheapest machines at each cloud.
    """

    size: str
    cards: list[str]
    offers: list[SetDocument]


class SizesDocument(TypedDict):
    """Two sizes side by side.

    Attributes:
        price_ratio: the cheapest price of the second over that of the first.
    """

    sizes: list[SizeDocument]
    measures: list[MeasureDocument]
    price_ratio: Number | None
    rates: list[RateDocument]


class PriceGroupDocument(TypedDict):
    """The known prices of one cloud and way of paying, from one source.

    Attributes:
        purchase: the way of paying.
        prices: how many.
        regions: in how many regions.
        types: of how many types.
        age_days: the age of the newest.
    """

    cloud: str
    purchase: str
    prices: int
    regions: int
    types: int
    currencies: list[str]
    oldest: Day
    newest: Day
    age_days: int
    source: str


class TariffGroupDocument(TypedDict):
    """The known tariffs of one cloud and kind, from one source.

    Attributes:
        tariffs: how many, each step counted.
        regions: in how many regions; 0 for tariffs that are the same everywhere.
    """

    cloud: str
    kind: str
    tariffs: int
    regions: int
    oldest: Day | None
    newest: Day | None
    source: str


class SourceDocument(TypedDict):
    """The source of figures.

    Attributes:
        live: whether they were refreshed here, not shipped.
        url: a page with the same figures, if the source is none; else empty.
    """

    id: str
    repository: str
    path: str
    commit: str
    date: str
    licence: str
    note: str
    live: bool
    url: str


class PricesDocument(TypedDict):
    """The known prices: how many, how old, and their sources."""

    as_of: Day
    prices: int
    groups: list[PriceGroupDocument]
    tariffs: list[TariffGroupDocument]
    sources: list[SourceDocument]
    rates: list[RateDocument]


class SpanDocument(TypedDict):
    """The time in which a price stayed the same.

    Attributes:
        since: when it was first seen.
        seen: when it was last seen.
        ended: when it was found to be another.
    """

    amount: MoneyDocument
    since: Time
    seen: Time
    ended: Time | None


class SeriesDocument(SubjectDocument):
    """A price over time, oldest first."""

    spans: list[SpanDocument]


class PriceHistoryDocument(TypedDict):
    """The prices since a moment, the cheapest now first.

    Attributes:
        known: the number of prices in force, of which ``series`` has the cheapest.
    """

    since: Time
    known: int
    series: list[SeriesDocument]


_Moments = TypedDict("_Moments", {"from": Time, "to": Time})  # keywords of Python cannot be fields of a class


class PriceDiffDocument(_Moments):
    """The prices that differ between two moments, the largest changes first."""

    changes: list[ChangeDocument]


class PriceAnomalyDocument(SubjectDocument):
    """A price that is not as it should be.

    Attributes:
        what: ``dearer`` (than is usual in 30 days), ``above-on-demand``, ``list-changed`` or ``implausible``
            (outside of what a GPU of this model can cost).
        instead_of: the median, the price on demand, or the earlier price; ``null`` where none is compared.
        since: when it was first seen.
    """

    what: str
    amount: MoneyDocument
    instead_of: MoneyDocument | None
    since: Time


class PriceWatchDocument(TypedDict):
    """The prices of the clouds at one moment; one line of several.

    Attributes:
        below: whether the cheapest offer costs less than the limit.
        offer: the cheapest; ``null`` if there is none.
        failures: the number of inquiries that were not answered.
        anomalies: prices that are not as they should be, and were not named in an earlier line.
    """

    at: Time
    below: bool
    offer: OfferDocument | None
    failures: int
    anomalies: list[PriceAnomalyDocument]


_Class = TypedDict("_Class", {"class": str})


class InquiryFailureDocument(_Class):
    """A question that a cloud did not answer.

    Attributes:
        inquiry: what was asked.
        class: what the failure means, for every cloud alike.
        message: what the cloud said.
        code: the cloud's own code.
    """

    inquiry: str
    message: str
    code: str | None
    request_id: str | None


class SetAsideDocument(TypedDict):
    """A row of an answer that is no valid price, and why."""

    reason: str
    row: str


class RefreshedDocument(TypedDict):
    """The result of a refresh of one cloud.

    Attributes:
        inquiries: how many were to be asked.
        answered: how many of them have been answered, now or before.
        resumed: how many of them were answered before the refresh was interrupted.
        prices: the number of prices in the answers.
        new: how many of them were not known before.
        moved: the prices that changed.
        gone: how many known prices are no longer offered.
        tariffs: the number of lists of tariffs in the answers.
        set_aside: the rows that are not valid.
        left_out: why this cloud was not asked; ``null`` if it was.
    """

    inquiries: int
    answered: int
    resumed: int
    prices: int
    new: int
    moved: list[ChangeDocument]
    gone: int
    tariffs: int
    moved_tariffs: list[TariffChangeDocument]
    set_aside: list[SetAsideDocument]
    failures: list[InquiryFailureDocument]
    left_out: str | None


class RefreshedCloudDocument(RefreshedDocument):
    """The result of a refresh of one cloud, with its name."""

    cloud: str


class PricesRefreshDocument(TypedDict):
    """The results of a refresh, by cloud."""

    clouds: list[RefreshedCloudDocument]


class SavingsPlanDocument(TypedDict):
    """A commitment to spend an amount per hour.

    Attributes:
        purchase: the way of paying that its prices are of.
        family: the family of types that it is for; ``null`` for all.
    """

    per_hour: MoneyDocument
    purchase: str
    terms: str
    family: str | None


class CommitmentDocument(TypedDict):
    """A commitment of an account.

    Attributes:
        count: how many instances; ``null`` for a savings plan.
        savings_plan: only for a savings plan.
        until: its last day.
        as_of: the day of the answer.
    """

    cloud: str
    kind: str
    id: str
    region: str | None
    zone: str | None
    instance_type: str | None
    count: int | None
    savings_plan: SavingsPlanDocument | None
    until: Day | None
    as_of: Day
    source: str


class CommitmentAnswersDocument(TypedDict):
    """The answers of one cloud.

    Attributes:
        account: ``null`` if it could not be asked for.
        doubts: what else than "there is none" empty answers may mean.
        left_out: why this cloud was not asked; ``null`` if it was.
    """

    cloud: str
    account: str | None
    inquiries: int
    answered: int
    failures: list[InquiryFailureDocument]
    doubts: list[str]
    left_out: str | None


class CommitmentsDocument(TypedDict):
    """The commitments of accounts that are in force, and the clouds' present answers."""

    commitments: list[CommitmentDocument]
    clouds: list[CommitmentAnswersDocument]

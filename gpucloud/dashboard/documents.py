"""The one document that the page shows. It is between this package and its page, and may change at any time.

Texts are keys of ``static/words.json``, which the page shows in the reader's language; names, ids and what a
cloud or a box said stay as they are.
"""

from __future__ import annotations

from typing import TypedDict

from gpucloud.costs.documents import BudgetDocument, UnusualDayDocument
from gpucloud.market.documents import PriceAnomalyDocument
from gpucloud_pricing.documents import Day, MoneyDocument, Number, Time


class EntryDocument(TypedDict):
    """One line of a timeline.

    Attributes:
        what: the key of its text.
        values: what is put into that text.
        price: per hour and node, where one was decided on.
    """

    at: Time
    what: str
    values: dict[str, str]
    price: MoneyDocument | None


class BoxRowDocument(TypedDict):
    """One box.

    Attributes:
        signs: keys of what is remarkable besides its state.
        gpu: in the grammar of ``--gpu``: ``T4:1``; ``null`` if unknown.
        nodes: how many machines it has.
        place: its cloud, and its zone or region.
        per_hour: the known spending now, by currency.
        at_least: whether a part of that is unknown.
        at_most: whether ``so_far`` is an upper limit.
        gpu_percent: the mean use of its GPUs at ``reported_at``; ``null`` if unknown.
        idle_s: for how long it was idle then.
        faults: what is wrong with it, in the words of its guard or of its set-up.
        ended_at: when it was found deleted.
    """

    id: str
    name: str
    owner: str
    run_id: str | None
    state: str
    signs: list[str]
    gpu: str | None
    nodes: int
    instance_type: str | None
    cloud: str | None
    place: str | None
    purchase: str | None
    per_hour: list[MoneyDocument]
    at_least: bool
    so_far: MoneyDocument | None
    at_most: bool
    created_at: Time
    expires_at: Time | None
    seen_at: Time | None
    ended_at: Time | None
    gpu_percent: Number | None
    idle_s: Number | None
    reported_at: Time | None
    faults: list[str]


class TroubleDocument(TypedDict):
    """Something that costs and should not.

    Attributes:
        what: its kind: ``box``, ``volume``, ``snapshot``, or that of a cloud's resource.
        why: the key of the reason.
        since: since when.
        per_hour: what it costs now, by currency.
        command: what ends it; ``null`` for what belongs to another owner.
    """

    what: str
    name: str
    owner: str
    why: str
    since: Time | None
    per_hour: list[MoneyDocument]
    command: str | None


class MonthDocument(TypedDict):
    """This month, in UTC.

    Attributes:
        spent: from its start until now, by currency.
        forecast: that, what is committed until its end (each holding until its own end), and new boxes as
            on the mean of the last 14 days.
        low: the same, with new boxes as on the 10th percentile of these days.
        high: the same, as on the 90th percentile.
        flat: whether no new boxes are expected, as the journal knows fewer than 7 days.
        unknown: the names of those with a cost that is not known, and in none of these.
    """

    start: Day
    spent: list[MoneyDocument]
    forecast: list[MoneyDocument]
    low: list[MoneyDocument]
    high: list[MoneyDocument]
    flat: bool
    unknown: list[str]


class ShareDocument(TypedDict):
    """The spending of this month on one cloud, GPU or owner; ``name`` is ``null`` for what has none."""

    name: str | None
    amounts: list[MoneyDocument]


class DayDocument(TypedDict):
    """The spending of one day, in UTC."""

    day: Day
    amounts: list[MoneyDocument]


class SpendingDocument(TypedDict):
    """Past spending: ``days`` are the last 30, without gaps; the others are of this month."""

    days: list[DayDocument]
    cloud: list[ShareDocument]
    gpu: list[ShareDocument]
    owner: list[ShareDocument]


class IdleItemDocument(TypedDict):
    """What is paid for and not used.

    Attributes:
        what: ``box``, ``stopped`` or ``volume``.
        gpu_percent: the use of a box's GPUs.
        per_hour: the part of its price that nobody uses.
    """

    id: str
    what: str
    name: str
    gpu_percent: Number | None
    idle_s: Number | None
    per_hour: list[MoneyDocument]


class IdleDocument(TypedDict):
    """Money for what is not used, per hour now.

    Attributes:
        unknown: the boxes whose use is not known: their guards have not reported lately.
    """

    per_hour: list[MoneyDocument]
    items: list[IdleItemDocument]
    unknown: list[str]


class AttemptDocument(TypedDict):
    """One box of a run; ``loss`` is ``null`` for one that was not lost."""

    at: Time
    box: str | None
    place: str | None
    instance_type: str | None
    loss: str | None
    lost_at: Time | None
    message: str | None
    cost: list[MoneyDocument]


class RunRowDocument(TypedDict):
    """One run.

    Attributes:
        abandoned: whether its process has ended, and it will not go on.
        checkpoint: the newest one that was known to be whole.
    """

    run_id: str
    state: str
    abandoned: bool
    command: str
    cluster: str | None
    restarts: int
    most_restarts: int
    box: str | None
    checkpoint: str | None
    checkpoint_bytes: int | None
    cost: list[MoneyDocument]
    created_at: Time
    restart_at: Time | None
    expires_at: Time | None
    ended_at: Time | None
    exit_code: int | None
    failure: str | None
    attempts: list[AttemptDocument]


class PriceRowDocument(TypedDict):
    """The history of one price of a GPU in use.

    Attributes:
        price: per hour and node, as last answered.
        lowest: within the time shown.
        seen_at: when its cloud last gave it.
        points: at evenly spaced moments; ``null`` where it was not known.
    """

    gpu: str
    place: str
    instance_type: str
    purchase: str
    price: MoneyDocument
    lowest: MoneyDocument
    highest: MoneyDocument
    seen_at: Time
    points: list[float | None]


class UnreadDocument(TypedDict):
    """A region, or all of a cloud (``*``), that could not be read."""

    cloud: str
    region: str
    error: str


class SourceDocument(TypedDict):
    """Where the figures come from.

    Attributes:
        live_every_s: how often the clouds are asked; ``null`` if they are not: the journal alone is read.
        looked_at: when they were last asked.
        unread: what did not answer then.
        left_out: clouds that are not set up here, with the reason.
        warnings: what else was said then.
    """

    live_every_s: Number | None
    looked_at: Time | None
    unread: list[UnreadDocument]
    left_out: dict[str, str]
    warnings: list[str]


class PageDocument(TypedDict):
    """All that the page shows.

    Attributes:
        cursor: that of the journal's last event.
        burn: the spending per hour now, by currency.
        burn_unknown: the holdings of which a part of the price is unknown.
        budgets: those of the journal.
        unusual_days: days on which all boxes have cost more than is usual.
        price_anomalies: of the prices that are shown.
        ended: boxes that ended lately, newest first.
        timelines: the timelines of the boxes by id, of a still page; empty where the page asks for them.
    """

    as_of: Time
    cursor: int
    sandbox: bool
    source: SourceDocument
    burn: list[MoneyDocument]
    burn_unknown: list[str]
    month: MonthDocument
    budgets: list[BudgetDocument]
    unusual_days: list[UnusualDayDocument]
    price_anomalies: list[PriceAnomalyDocument]
    troubles: list[TroubleDocument]
    boxes: list[BoxRowDocument]
    ended: list[BoxRowDocument]
    spending: SpendingDocument
    idle: IdleDocument
    runs: list[RunRowDocument]
    prices: list[PriceRowDocument]
    timelines: dict[str, list[EntryDocument]]

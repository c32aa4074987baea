"""What the journal knows, as metrics: boxes, what they cost, what is owed. Values in, samples out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from gpucloud.costs.budgets import Standing
from gpucloud.costs.spend import BillingOf, cost_so_far, per_hour
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Holding
from gpucloud.monitor.exposition import Sample, sample
from gpucloud.monitor.families import (
    BOOT,
    BUDGET_SPENT,
    COMMITTED,
    COST,
    CREATED,
    EVENT,
    EXPIRES,
    FORECAST,
    INFO,
    LIMIT,
    OWED,
    PRICE,
    READ,
    SPENT,
    STATE,
    WATCHED,
)
from gpucloud_pricing.values import Money, Price, number


def money_samples(
    holdings: Collection[Holding],
    owed: Mapping[str, int],
    spent: Mapping[str, Iterable[Money]],
    budgets: Iterable[Standing],
    watched: Mapping[str, Iterable[Price]],
    *,
    last_event: datetime | None,
    now: datetime,
    billing_of: BillingOf,
) -> Iterator[Sample]:
    """The metrics of one owner.

    Args:
        holdings: boxes, volumes and snapshots that live.
        owed: how much may still be billed of those that should be gone, by their ids.
        spent: what was spent since the start of the month, by cloud.
        budgets: the budgets of the journal.
        watched: prices as last refreshed, by GPU.
        last_event: when the journal was last written; ``None`` for an empty one.
        now: the time.
        billing_of: how a cloud bills.
    """
    for holding in holdings:
        whose = {"box": holding.name, "cloud": holding.cloud, "kind": str(holding.kind)}
        for money in per_hour(holding, billing_of).known:
            yield sample(PRICE, float(money.amount), **whose, currency=money.currency)
        yield sample(OWED, owed.get(holding.id, 0), **whose)
        if isinstance(holding, Box):
            yield from _of_box(holding, now, billing_of)
    for cloud, amounts in spent.items():
        for money in amounts:
            yield sample(SPENT, float(money.amount), cloud=cloud, currency=money.currency)
    for standing in budgets:
        yield from _of_budget(standing)
    for gpu, prices in watched.items():
        for price in prices:
            yield sample(
                WATCHED,
                float(price.amount),
                cloud=price.cloud,
                place=price.zone or price.region,
                instance_type=price.instance_type,
                gpu=gpu,
                purchase=price.purchase,
                currency=price.currency,
            )
    if last_event is not None:
        yield sample(EVENT, _seconds(last_event))
    yield sample(READ, _seconds(now))


def _of_budget(standing: Standing) -> Iterator[Sample]:
    terms = standing.budget.terms
    labels = {"budget": standing.budget.name, "per": str(terms.per), "currency": terms.currency}
    yield sample(LIMIT, float(terms.amount), **labels)
    yield sample(BUDGET_SPENT, float(standing.spent), **labels)
    yield sample(COMMITTED, float(standing.committed), **labels)
    if found := standing.forecast:
        for estimate, amount in (("mean", found.amount), ("low", found.low), ("high", found.high)):
            yield sample(FORECAST, float(amount), **labels, estimate=estimate)


def _of_box(box: Box, now: datetime, billing_of: BillingOf) -> Iterator[Sample]:
    name, cloud = box.name, box.cloud
    place, offer = box.place, box.offer
    gpu = offer.gpu if offer else None
    yield sample(
        INFO,
        1,
        box=name,
        cloud=cloud,
        id=box.id,
        region=place.region if place else None,
        zone=place.zone if place else None,
        instance_type=offer.instance_type if offer else None,
        gpu=gpu.model if gpu else None,
        gpus=str(number(gpu.count * max(len(box.nodes), 1))) if gpu else None,
        purchase=str(offer.purchase) if offer else None,
        owner=box.owner,
        run=box.run_id,
    )
    for state in BoxState:
        yield sample(STATE, state is box.shown_state, box=name, cloud=cloud, state=str(state))
    cost = cost_so_far(box, now, billing_of)
    if cost is not None:
        amount = cost.amount
        yield sample(COST, float(amount.amount), box=name, cloud=cloud, currency=amount.currency)
    yield sample(CREATED, _seconds(box.created_at), box=name, cloud=cloud)
    if box.expires_at is not None:
        yield sample(EXPIRES, _seconds(box.expires_at), box=name, cloud=cloud)
    if box.measured is not None:
        for step, seconds in box.measured.boot_seconds.items():
            yield sample(BOOT, seconds, box=name, cloud=cloud, step=step)


def _seconds(at: datetime) -> float:
    return round(at.timestamp(), 3)

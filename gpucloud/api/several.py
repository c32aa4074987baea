"""Launches several boxes of one spec: bought one after another, and brought up at the same time."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from gpucloud.api.launching import Buyer, names_of
from gpucloud.boxes.launch import Bought, Deal, buy, make_ready
from gpucloud.ending.down import end_all, merged
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.records import Box
from gpucloud.planning.plan import Candidate, Key, Plan
from gpucloud.planning.spread import attempts_of_next
from gpucloud.planning.volume_choice import UsableVolume
from gpucloud.purchase.waiting import Wait
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Call
from gpucloud.spec.model import Spec
from gpucloud.storage.attachments import holding


def require_single(wanted: Spec | Plan, instead: str) -> None:
    """Refuses more than one box.

    Args:
        wanted: the spec, or the plan of one.
        instead: what launches several.

    Raises:
        UsageError: it asks for several.
    """
    count = wanted.spec.get("count", 1) if isinstance(wanted, Plan) else wanted.count
    if count != 1:
        raise UsageError(f"this launches one box, and the spec asks for {count}", hint=f"use {instead}")


def launch_all(buyer: Buyer, wait: timedelta | None) -> tuple[list[Box], GpucloudError | None]:
    """Buys as many boxes as the spec counts and brings them up; what ends this call ends all.

    Args:
        buyer: what launches.
        wait: for how long it tries again until the first is there; ``None``: not at all.

    Returns:
        The boxes that are ready, and why others are not.

    Raises:
        GpucloudError: none is ready; nothing is left, unless the error says so.
    """
    agreed: Plan | None = None

    def once() -> tuple[list[Box], GpucloudError | None]:
        nonlocal agreed
        deal, echo = buyer.agree() if agreed is None else buyer.agree_again(agreed)
        agreed = agreed or deal.plan
        with holding(buyer.context, buyer.wanted.spec) as volumes:
            return _launch_all(buyer, deal, echo, volumes)

    buyer.settle_first()
    return Wait(buyer.context, wait).for_capacity(once)


def _launch_all(
    buyer: Buyer, deal: Deal, echo: Call | None, volumes: Sequence[UsableVolume]
) -> tuple[list[Box], GpucloudError | None]:
    context = buyer.context
    bought, failure = _buy_all(buyer, deal, echo, volumes)
    failures = [] if failure is None else [failure]
    ready: list[Box] = []
    for number, each in enumerate(bought, start=1):
        with _ended_if_this_fails(context, [*ready, *(other.box for other in bought[number:])]):
            try:
                box = make_ready(each)
                buyer.start(box)
            except GpucloudError as error:
                if context.tasks.signum is not None:
                    raise
                failures.append(error)
                continue
            context.journal.release(box)
            ready.append(box)
    if not ready:
        raise failures[0]
    worst = max(failures, key=lambda each: bool(each.left), default=None)
    for other in failures:
        if other is not worst:
            context.warn("launch", other.message)
    return ready, worst


def _buy_all(
    buyer: Buyer, deal: Deal, echo: Call | None, volumes: Sequence[UsableVolume]
) -> tuple[list[Bought], GpucloudError | None]:
    """Buys the boxes, each at a place that the spread allows; the first that cannot be bought is the last.

    Raises:
        GpucloudError: the first one cannot be bought, or a signal came.
    """
    context, market, wanted, spec = buyer.context, buyer.catalog.market, buyer.wanted, buyer.wanted.spec
    bought: list[Bought] = []
    offers: list[Candidate] = []
    refused: set[Key] = set()
    for number, each in enumerate(_specs(spec), start=1):
        if spec.count > 1:
            context.tell("plan", f"box {number} of {spec.count}")
        allowed = attempts_of_next(deal.plan.attempts, offers, spec.count, spec.spread)
        attempts = sorted(allowed, key=lambda attempt: attempt.key in refused)
        plan = replace(deal.plan, attempts=tuple(attempts), spec=each.document())
        with _ended_if_this_fails(context, [other.box for other in bought]):
            try:
                terms = replace(wanted, spec=each)
                one = buy(context, market, replace(deal, plan=plan), terms, echo, volumes=volumes)
            except GpucloudError as error:
                if not bought or context.tasks.signum is not None:
                    raise
                return bought, error
        bought.append(one)
        offers.append(_offer_of(one.box, attempts))
        refused.update(attempt.key for attempt in attempts[: attempts.index(offers[-1])])
    return bought, None


def _specs(spec: Spec) -> list[Spec]:
    """The spec of each box."""
    if spec.count == 1:
        return [spec]
    names: Sequence[str | None] = names_of(spec) or [None] * spec.count
    return [spec.replaced(name=name, count=1, spread=None) for name in names]


def _offer_of(box: Box, attempts: Sequence[Candidate]) -> Candidate:
    """The attempt that became a box."""
    place, offer = box.place, box.offer
    assert place is not None and offer is not None  # noqa: S101, PT018  (it was bought)
    bought = (place.cloud, place.region, offer.instance_type, offer.purchase)
    return next(
        each
        for each in attempts
        if (each.cloud, each.region, each.instance_type, each.purchase) == bought
        and each.zone in {"", place.zone}
    )


@contextmanager
def _ended_if_this_fails(context: Context, others: Sequence[Box]) -> Generator[None]:
    """Ends the other boxes of a launch whose body raises; the body itself ends the box that it works on.

    Raises:
        GpucloudError: one of them may still be billed.
    """
    try:
        yield
    except BaseException as error:
        troubles: list[GpucloudError] = []
        if others:
            end_all(context, [context.journal.box(box.id) for box in others], troubles)
        if (trouble := merged(troubles)) is not None:
            raise trouble from error
        raise

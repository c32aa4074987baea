"""Launches several boxes of one spec: bought one after another, and brought up at the same time."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from gpucloud.api.launching import Buyer, names_of
from gpucloud.boxes.launch import make_ready, purchase_of
from gpucloud.ending.down import end_all, merged
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.records import Box
from gpucloud.planning.plan import Candidate, Key, Plan
from gpucloud.planning.spread import attempts_of_next
from gpucloud.purchase.failover import launch
from gpucloud.purchase.order import BoxPurchase, LaunchOrder
from gpucloud.runtime.context import Context
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


def launch_all(buyer: Buyer, order: LaunchOrder) -> tuple[list[Box], GpucloudError | None]:
    """Buys as many boxes as the spec counts and brings them up; what ends this call ends all.

    Each is bought at a place that the spread allows; the first that cannot be bought is the last.

    Args:
        buyer: what launches.
        order: what was agreed to, for all of them.

    Returns:
        The boxes that are ready, and why others are not.

    Raises:
        GpucloudError: none is ready; nothing is left, unless the error says so.
    """
    context, asked = buyer.context, order.request.spec
    failures: list[GpucloudError] = []
    bought: list[tuple[Box, BoxPurchase]] = []
    with holding(context, asked) as volumes:
        for number, spec in enumerate(_specs(asked), start=1):
            if asked.count > 1:
                context.tell("plan", f"box {number} of {asked.count}")
            one = order.of(spec, _attempts_of_next(order.plan, asked, bought))
            with _ended_if_this_fails(context, [box for box, _ in bought]):
                try:
                    with purchase_of(context, one, volumes) as purchase:
                        started = launch(context.about(purchase.name), purchase)
                except GpucloudError as error:
                    if not bought or context.tasks.signum is not None:
                        raise
                    failures.append(error)
                    break
            bought.append((started, purchase))
        return _bring_up(buyer, bought, failures)


def _bring_up(
    buyer: Buyer, bought: Sequence[tuple[Box, BoxPurchase]], failures: list[GpucloudError]
) -> tuple[list[Box], GpucloudError | None]:
    """Brings up the boxes of a launch, and starts their command; as :func:`launch_all`."""
    context = buyer.context
    ready: list[Box] = []
    for number, (each, purchase) in enumerate(bought, start=1):
        with _ended_if_this_fails(context, [*ready, *(other for other, _ in bought[number:])]):
            try:
                box = make_ready(context, each, purchase)
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


def _attempts_of_next(
    plan: Plan, spec: Spec, bought: Sequence[tuple[Box, BoxPurchase]]
) -> tuple[Candidate, ...]:
    """What to try for the next box: where the spread allows it, and last what was refused for one before."""
    offers: list[Candidate] = []
    refused: set[Key] = set()
    for box, purchase in bought:
        tried = purchase.order.plan.attempts
        offers.append(_offer_of(box, tried))
        refused.update(attempt.key for attempt in tried[: tried.index(offers[-1])])
    allowed = attempts_of_next(plan.attempts, offers, spec.count, spec.spread)
    return tuple(sorted(allowed, key=lambda attempt: attempt.key in refused))


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

"""Stops and starts a box by its name: its compute is no longer billed, or it is usable again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from gpucloud.boxes import starting
from gpucloud.boxes.look import holding
from gpucloud.bring_up.bring_up import targets
from gpucloud.bring_up.ingress import reach
from gpucloud.ending import stopping
from gpucloud.ending.deadline import check_movable, move_cloud_end
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.events import Extended, Seen
from gpucloud.journal.facts import Facts, Price
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.planning.access import begin_reading, reading_of, refuse_wrong
from gpucloud.planning.lifetime import LAUNCH_TTL
from gpucloud.planning.plan import Candidate
from gpucloud.purchase.ceiling import Agreement, confirmed
from gpucloud.purchase.policy_check import StartCheck, end_of_keep
from gpucloud.purchase.power_on import offer_today
from gpucloud.runtime.context import Context
from gpucloud.spec.fields import end as lifetime_of
from gpucloud.ssh.client import disconnect
from gpucloud.ssh.keys import key_folder
from gpucloud.storage.attachments import refuse_detached
from gpucloud_pricing import Market

LOST = ("processes and what is in memory", "the public address may change")
"""What no cloud keeps of a machine that is stopped as gpucloud stops it: none hibernates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStop:
    """A stop before it is begun: what is lost, and until when the stopped box is kept."""

    box: Box
    lost: tuple[str, ...]
    keep_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A start before it is begun: today's price per hour, and the new deadline; ``None`` for none.

    ``ceiling_usd`` is the most that its compute may cost per hour; ``None`` where it is paid for already.
    """

    box: Box
    price: Price | None
    end: datetime | None
    ceiling_usd: Decimal | None = None


_Proposal = TypeVar("_Proposal", PlannedStop, Start)


def stop(
    context: Context,
    box: Box,
    market: Market,
    keep: timedelta | None,
    confirm: Callable[[PlannedStop], bool] | None,
) -> Box:
    """Stops a box; one that is stopped already is kept for that time from now.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box.
        market: knows which types have disks of the host.
        keep: how long the stopped box is kept; ``None`` for 7 days, or what the policy allows.
        confirm: is asked before anything is changed; by default, nothing is confirmed.

    Raises:
        UsageError: it cannot be stopped, another process holds it, or ``confirm`` returned ``False``.
        PolicyError: it would be kept for longer than the policy allows.
        BudgetError: what it keeps would exceed a budget until its end.
        ConnectionFailedError: it cannot be reached.
        CloudError: the cloud refused; it runs on.
        CleanupIncompleteError: it is not known to be stopped, or its compute is billed on.
    """
    context = context.about(box.name)
    stopping.refuse_unstoppable(box)
    with holding(context, box) as seen:
        stopping.refuse_unstoppable(seen)
        ssd_gib = _local_ssd_gib(market, seen)
        stopping.refuse_where_billed_on(context, seen, local_disks=ssd_gib > 0)
        keep_until = end_of_keep(context, seen, keep)
        if seen.state is BoxState.STOPPED and not any(node.billed for node in seen.nodes):
            return _keep(context, seen, keep_until)
        lost = (*LOST, *([f"{ssd_gib.normalize():f} GiB on the disks of the host"] if ssd_gib else []))
        _ask(context, seen, confirm, PlannedStop(box=seen, lost=lost, keep_until=keep_until))
        context.tasks.clean_up = f"gpucloud stop {seen.name} --yes"
        [node] = targets(seen, _keys(context, seen), context.proxy_command)
        if seen.state is BoxState.READY:
            check_movable(context, seen)
            reach(context, seen, node)
            stopped = stopping.stop(context, seen, node, keep_until)
        else:
            with suppress(GpucloudError):  # it may be off by now; then its guard keeps the end that it has
                stopping.tell_guard(context, node, keep_until)
                disconnect(node)
            stopped = stopping.stop_again(context, seen, keep_until)
        stopping.refuse_billed_on(stopped)
        return stopped


def start(
    context: Context,
    box: Box,
    market: Market,
    *,
    lives: timedelta | None,
    max_price_usd: Decimal | None,
    confirm: Callable[[Start], bool] | None,
) -> Box:
    """Starts a stopped box at today's price, and waits until its GPUs answer over ssh.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box.
        market: for exchange rates.
        lives: the time from now to its deadline; ``None`` for no deadline.
        max_price_usd: the limit per hour; by default the one that was agreed at its launch or last start.
        confirm: is asked before anything is bought; by default, nothing is confirmed.

    Raises:
        UsageError: it is not stopped, another process holds it, or ``confirm`` returned ``False``.
        PriceError: it costs more than the limit, or than a budget allows.
        PolicyError: the policy forbids it.
        CloudError: there is no capacity, or the cloud refused; it stays stopped.
        CleanupIncompleteError: it is not ready, and not known to be stopped again.
    """
    context = context.about(box.name)
    starting.refuse_unstartable(box, context.clock())
    with holding(context, box) as seen:
        starting.refuse_unstartable(seen, context.clock())
        refuse_wrong(context, reading_of(context, begin_reading(context, context.clouds.usable(seen.cloud))))
        refuse_detached(context, seen)
        offer = offer_today(context, market, seen, max_price_usd=max_price_usd)
        end = None if lives is None else context.clock().replace(microsecond=0) + lives
        terms = _terms(context, market, seen, offer, end=end)
        terms.forbids(
            replace(seen, ceiling=terms.ceiling), context.journal.rules(), context.journal.billed_since
        )
        price = starting.price_to_pay(offer)
        _ask(
            context,
            seen,
            confirm,
            Start(box=seen, price=price, end=end, ceiling_usd=terms.ceiling.machine_usd),
        )
        agreement = Agreement(usd=market.usd, agreed_at=context.clock() if confirm else None)
        terms = _terms(context, market, seen, confirmed(context, agreement, offer), end=end)
        return starting.start(context, seen, terms, _keys(context, seen))


def _terms(
    context: Context, market: Market, box: Box, offer: Candidate, *, end: datetime | None
) -> starting.StartTerms:
    """The terms of a start at the price of an offer."""
    price = starting.price_to_pay(offer)
    most = None if price is None else offer.ceiling_usd
    return starting.StartTerms(
        offer=offer,
        prices=Agreement(usd=market.usd),
        end=end,
        ceiling=starting.ceiling_of(box, price, market.usd, market.billing_of, machine_usd=most),
        forbids=StartCheck(market, context.clock, None if price is None else offer.price_usd, end),
    )


def lifetime_at_start(box: Box) -> timedelta | None:
    """The time to live of a box that is started again: that of its launch.

    Raises:
        UsageError: that followed from a budget, a part of which is spent.
    """
    if box.wanted.spec.get("budget") is not None:
        raise UsageError(
            f"{box.name!r} was launched with a budget, which does not tell how long it may run now",
            hint=f"say how long: gpucloud start {box.name} --ttl 4h",
        )
    lives = lifetime_of(box.wanted.spec.get("ttl") or LAUNCH_TTL)
    return None if isinstance(lives, str) else lives


def _keep(context: Context, box: Box, keep_until: datetime) -> Box:
    """Moves the deadline of a stopped box; the journal never has a later one than the cloud."""
    if box.expires_at is not None and keep_until < box.expires_at:
        context.journal.write(box, Extended(expires_at=keep_until))
    move_cloud_end(context, box, keep_until)
    context.journal.write(box, Seen(facts=Facts(keep_until=keep_until)))
    context.journal.write(box, Extended(expires_at=keep_until))
    return context.journal.held(box)


def _ask(
    context: Context, box: Box, confirm: Callable[[_Proposal], bool] | None, proposal: _Proposal
) -> None:
    if confirm is None:
        return
    with context.tasks.asking():
        agreed = confirm(proposal)
    if not agreed:
        raise UsageError(f"{box.name!r} was not changed")


def _local_ssd_gib(market: Market, box: Box) -> Decimal:
    kind = market.types.get((box.cloud, box.offer.instance_type if box.offer else ""))
    return (kind.local_ssd_gib if kind else None) or Decimal(0)


def _keys(context: Context, box: Box) -> Path:
    assert context.state is not None  # noqa: S101  (the keys are there)
    return key_folder(context.state, box.id)

"""Starts a stopped box again: a purchase, of the same machine or of none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

from gpucloud.bring_up.bring_up import bring_back, hand_over, targets
from gpucloud.bring_up.datasets import bring
from gpucloud.bring_up.ingress import admit_us
from gpucloud.clouds.abilities import Power
from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.costs.resource_prices import ADDRESS
from gpucloud.costs.spend import BillingOf, per_hour
from gpucloud.ending.deadline import extend, move_cloud_end
from gpucloud.ending.stopping import REST_TIMEOUT_S, keep_end, rest, timer_deletes, unfinished
from gpucloud.errors import CloudError, ErrorClass, GpucloudError, PriceError, UsageError
from gpucloud.journal.events import Seen, StateChanged
from gpucloud.journal.facts import NO_FACTS, Ceiling, Facts, Price, node_of
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.journal.store import Forbids
from gpucloud.planning.data_sets import located
from gpucloud.planning.plan import margin_of
from gpucloud.planning.planner import quotes_of
from gpucloud.policy.budget_check import check_of
from gpucloud.purchase.ceiling import QUOTE_TIMEOUT_S
from gpucloud.resources import Machine, Quote, Ref, State, short_id
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import CALL_TIMEOUT_S
from gpucloud.spec.file import load_spec
from gpucloud.ssh.client import Target

START_TIMEOUT_S = 600.0

ToUsd = Callable[[Decimal, str], Decimal | None]
"""An amount of a currency in USD; ``None`` for a currency without a rate."""


def refuse_unstartable(box: Box, now: datetime) -> None:
    """Refuses a box that is not stopped.

    Raises:
        UsageError: says why.
    """
    if box.state is not BoxState.STOPPED:
        raise UsageError(
            f"{box.name!r} cannot be started: its state is {box.shown_state}, not stopped",
            hint=f"see its state: gpucloud show {box.name} --live",
        )
    if box.expires_at is not None and box.expires_at <= now:
        raise UsageError(
            f"{box.name!r} cannot be started: the time for which it was kept is over",
            hint="the next command that changes a box deletes it",
        )


def price_today(context: Context, box: Box) -> Price | None:
    """What the machine of a box costs per hour now; ``None`` for held capacity, which is paid for already.

    Where a cloud quotes no spot price the previous one stands: the machine carries its own highest price.

    Raises:
        CloudError: the cloud did not answer.
        PriceError: it quoted no price.
    """
    assert box.offer is not None  # noqa: S101  (it has a machine)
    assert box.place is not None  # noqa: S101
    offer, place = box.offer, box.place
    if offer.purchase.kind.paid_already:
        return None
    cloud = context.clouds.usable(box.cloud)
    asked = partial(quotes_of, cloud, place.region, [offer.instance_type], offer.purchase)
    found = quoted(context.tasks.run(asked, QUOTE_TIMEOUT_S), offer.instance_type, place.zone)
    if found is None and offer.purchase.kind.price_moves:
        return box.price
    if found is None:
        raise PriceError(
            f"{box.cloud} quotes no price for {offer.instance_type} in {place.region}: nothing was started",
            hint="try again later",
        )
    return Price(
        amount=found.price_per_hour, currency=found.currency, as_of=found.as_of.date(), source=found.source
    )


def quoted(quotes: Iterable[Quote], instance_type: str, zone: str | None) -> Quote | None:
    """The quote for a machine of a zone: that of the zone, or of the region; the highest of several."""
    fitting = [
        quote
        for quote in quotes
        if quote.instance_type == instance_type and (quote.zone is None or not zone or quote.zone == zone)
    ]
    return max(fitting, key=lambda quote: (quote.zone == zone, quote.price_per_hour), default=None)


def refuse_dearer(box: Box, now: Price, *, max_price_usd: Decimal | None, usd: ToUsd) -> None:
    """Holds today's price against the limit: the user's, or the price that the box had and a margin.

    Args:
        box: the stopped box.
        now: today's price.
        max_price_usd: the limit per hour.
        usd: converts amounts.

    Raises:
        PriceError: it is above the limit, or cannot be compared with it.
    """
    limit = max_price_usd
    if limit is None and box.price is not None and box.offer is not None:
        before = usd(box.price.amount, box.price.currency)
        limit = None if before is None else before * margin_of(box.offer.purchase)
    price = usd(now.amount, now.currency)
    if price is None or limit is None or price > limit:
        most = "no limit is known" if limit is None else f"the limit is {limit.normalize():f} USD"
        raise PriceError(
            f"{box.name!r} costs {now.amount} {now.currency} per hour now, and {most}; nothing was started",
            hint=f"set a limit: gpucloud start {box.name} --max-price USD",
        )


def ceiling_of(box: Box, price: Price | None, usd: ToUsd, billing_of: BillingOf) -> Ceiling:
    """What a stopped box will cost per hour once it runs, by today's price; budgets count it meanwhile."""
    kept = per_hour(box, billing_of)
    new_address = () if kept.address is not None and kept.address.amount else (box.listed.get(ADDRESS),)
    parts = {
        "its compute": (price,) if price else (),
        "what it keeps": kept.known,
        "its address": new_address,
    }
    found = {
        name: [each and usd(each.amount, each.currency) for each in costs] for name, costs in parts.items()
    }
    return Ceiling(
        usd_per_hour=sum((each for costs in found.values() for each in costs if each), Decimal(0)),
        without=tuple(name for name, costs in found.items() if None in costs),
    )


def start(
    context: Context,
    box: Box,
    price: Price | None,
    end: datetime | None,
    keys: Path,
    *,
    ceiling: Ceiling,
    forbids: Forbids,
) -> Box:
    """Starts the machine of a box and waits until its GPUs answer; a failure leaves it stopped.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: a stopped box that this process holds.
        price: what it costs from now on; ``None`` where it is paid for already.
        end: its new deadline; ``None`` for none.
        keys: the folder of its keys.
        ceiling: what it will cost per hour; budgets and the policy count it until it is ready.
        forbids: sees it as it is written down, beside what others start and launch at this moment.

    Raises:
        BudgetError: it would exceed a budget; the box stays stopped.
        PolicyError: the policy forbids it; the box stays stopped.
        CloudError: there is no capacity, or the cloud refused; the box is stopped as before.
        GpucloudError: it did not become ready, and is stopped again, unless the error says so.
        InterruptedBySignal: a signal came; it is stopped again.
    """
    begun = Facts(keep_until=keep_end(context, box), ceiling=ceiling)
    limits = check_of(context, "nothing was started")
    context.journal.write(
        box,
        StateChanged(state=BoxState.STARTING, facts=begun),
        limits=limits.until(end) if limits else None,
        forbids=forbids,
    )
    for text in limits.warnings if limits else ():
        context.warn("start", text)
    context.tasks.clean_up = f"gpucloud stop {box.name} --yes"
    try:
        _power_on(context, box, price, end)
        started = context.journal.held(box)
        admit_us(context, started)
        nodes = targets(started, keys, context.proxy_command)
        bring_back(context, started, nodes)
        extend(context, started, nodes, end)
        _bring_scratch(context, started, nodes)
        return hand_over(context, context.journal.held(box), keys, NO_FACTS)
    except BaseException as error:
        _stop_again(context, box, error)
        raise


def _bring_scratch(context: Context, box: Box, nodes: Sequence[Target]) -> None:
    """Copies the data sets again whose copies were on local disks: these are blank after a stop."""
    spec = load_spec(None, dict(box.wanted.spec))
    if any(each.scratch for each in spec.data_sets):
        bring(context, nodes, [each for each in located(context, spec) if each.wanted.scratch])


def _start(cloud: Cloud, machine: Ref) -> None:
    cloud.ask(Power, "start the instance", lambda power: power.start(machine))


def _power_on(context: Context, box: Box, price: Price | None, end: datetime | None) -> None:
    """Starts the machine, and journals its addresses and what it costs once it runs.

    A timer that only ends a bill is set before; one that would delete the stopped machine is moved when its
    guard has answered, which until then ends it.
    """
    cloud, ref = context.clouds.usable(box.cloud), box.machine(0)
    if not timer_deletes(cloud):
        move_cloud_end(context, box, end)
    context.tell("start", f"starting {short_id(ref.id)}")
    with about(box=box.id):
        context.tasks.run(partial(_start, cloud, ref), START_TIMEOUT_S)
    pause_s, known = 0.1, box.nodes
    with context.tasks.within(START_TIMEOUT_S):
        while True:
            machine = context.tasks.run(partial(cloud.get, ref), CALL_TIMEOUT_S)
            if isinstance(machine, Machine) and machine.billed:
                nodes = (node_of(machine),)
                if nodes != known:
                    context.journal.write(box, Seen(facts=Facts(nodes=nodes, price=price)))
                known = nodes
                if machine.state is State.RUNNING and machine.public_ip:
                    return
            if not context.tasks.left_s:
                raise GpucloudError(f"the machine of {box.name!r} does not run after its start")
            context.tasks.pause(pause_s)
            pause_s = min(pause_s * 1.5, 5.0)


def _stop_again(context: Context, box: Box, cause: BaseException) -> None:
    """Stops what a start that failed has begun.

    Raises:
        OwedError: it may run and be billed.
    """
    context.tell("stop", f"stopping {box.name!r} again")
    with context.tasks.finishing():
        stopped = rest(context, context.journal.held(box), REST_TIMEOUT_S)
    if stopped is None:
        raise unfinished(box, str(cause)) from cause
    if isinstance(cause, CloudError) and cause.error_class in {ErrorClass.CAPACITY, ErrorClass.UNSUPPORTED}:
        cause.message = f"{box.name!r} stays stopped: {cause.message}"
        cause.hint = f"try again later, or delete it: gpucloud down {box.name}"
    elif isinstance(cause, GpucloudError):
        cause.message = f"{cause.message}; {box.name!r} is {stopped.state} again"
        cause.hint = f"start it again, or delete it: gpucloud down {box.name}"

"""Starts a stopped box: buys the compute of the same machine again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

from gpucloud.bring_up.bring_up import bring_back, hand_over, targets
from gpucloud.bring_up.datasets import bring
from gpucloud.bring_up.ingress import admit_us
from gpucloud.clouds.cloud import Cloud
from gpucloud.costs.resource_prices import ADDRESS
from gpucloud.costs.spend import BillingOf, per_hour
from gpucloud.ending.deadline import extend, move_cloud_end
from gpucloud.ending.stopping import REST_TIMEOUT_S, keep_end, rest, tell_guard, timer_deletes, unfinished
from gpucloud.errors import CloudError, ErrorClass, GpucloudError, PriceError, UsageError
from gpucloud.journal.events import Seen, StateChanged
from gpucloud.journal.facts import NO_FACTS, Ceiling, Facts, Price, node_of
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.journal.store import Forbids
from gpucloud.planning.data_sets import located
from gpucloud.planning.plan import Candidate
from gpucloud.policy.budget_check import check_of
from gpucloud.purchase.ceiling import Agreement, in_force, price_of
from gpucloud.purchase.power_on import START_TIMEOUT_S, power_on
from gpucloud.resources import Machine, State
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import CALL_TIMEOUT_S
from gpucloud.spec.file import load_spec
from gpucloud.ssh.client import Target, disconnect, is_connected

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


def ceiling_of(
    box: Box, price: Price | None, usd: ToUsd, billing_of: BillingOf, machine_usd: Decimal | None = None
) -> Ceiling:
    """What a stopped box will cost per hour once it runs, by today's price; budgets count it meanwhile.

    ``machine_usd`` is the most that its compute may cost.
    """
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
        machine_usd=machine_usd,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTerms:
    """The terms of a start.

    Attributes:
        offer: its machine at the price that was confirmed last, with its ceiling.
        prices: the agreement about prices.
        end: its new deadline; ``None`` for none.
        ceiling: what it will cost per hour; budgets and the policy count it until it is ready.
        forbids: sees it as it is written down, beside what others start and launch at this moment.
    """

    offer: Candidate
    prices: Agreement
    end: datetime | None
    ceiling: Ceiling
    forbids: Forbids[Box]


def start(context: Context, box: Box, terms: StartTerms, keys: Path) -> Box:
    """Starts the machine of a box and waits until its GPUs answer; a failure leaves it stopped.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: a stopped box that this process holds.
        terms: the price, the end, and what limits them.
        keys: the folder of its keys.

    Raises:
        BudgetError: it would exceed a budget; the box stays stopped.
        PolicyError: the policy forbids it; the box stays stopped.
        PriceError: it costs more than was agreed once it runs; it is stopped again.
        CloudError: there is no capacity, or the cloud refused; the box is stopped as before.
        GpucloudError: it did not become ready, and is stopped again, unless the error says so.
        InterruptedBySignal: a signal came; it is stopped again.
    """
    begun = Facts(keep_until=keep_end(context, box), ceiling=terms.ceiling)
    limits = check_of(context, "nothing was started")
    context.journal.write(
        box,
        StateChanged(state=BoxState.STARTING, facts=begun),
        limits=limits.until(terms.end) if limits else None,
        forbids=terms.forbids,
    )
    for text in limits.warnings if limits else ():
        context.warn("start", text)
    context.tasks.clean_up = f"gpucloud stop {box.name} --yes"
    try:
        _power_on(context, box, terms)
        started = context.journal.held(box)
        admit_us(context, started)
        nodes = targets(started, keys, context.proxy_command)
        bring_back(context, started, nodes)
        extend(context, started, nodes, terms.end)
        _bring_scratch(context, started, nodes)
        return hand_over(context, context.journal.held(box), keys, NO_FACTS)
    except BaseException as error:
        _stop_again(context, box, keys, error)
        raise


def _bring_scratch(context: Context, box: Box, nodes: Sequence[Target]) -> None:
    """Copies the data sets again whose copies were on local disks: these are blank after a stop."""
    spec = load_spec(None, dict(box.wanted.spec))
    if any(each.scratch for each in spec.data_sets):
        bring(context, nodes, [each for each in located(context, spec) if each.wanted.scratch])


def _power_on(context: Context, box: Box, terms: StartTerms) -> None:
    """Starts the machine, and journals its addresses and what it costs once it runs.

    A timer that only ends a bill is set before; one that would delete the stopped machine is moved as soon as
    it runs: its guard, which has the end of the stopped box, may never be told.

    Raises:
        PriceError: it costs more than was agreed.
    """
    cloud, offer = context.clouds.usable(box.cloud), terms.offer
    if not timer_deletes(cloud):
        move_cloud_end(context, box, terms.end)
    asked = power_on(context, box, cloud, terms.prices, offer)
    _wait_until_running(context, box, cloud, offer)
    if timer_deletes(cloud):
        move_cloud_end(context, box, terms.end)
    now = price_to_pay(in_force(context, asked, offer, "the start is taken back"))
    if now != price_to_pay(offer):
        context.journal.write(box, Seen(facts=Facts(price=now)))


def price_to_pay(offer: Candidate) -> Price | None:
    """What the compute of an offer costs from now on; ``None`` where it is paid for already."""
    return None if offer.purchase.kind.paid_already else price_of(offer)


def _wait_until_running(context: Context, box: Box, cloud: Cloud, offer: Candidate) -> None:
    """Waits until the machine runs and has an address, and journals both with what it costs.

    Raises:
        PriceError: it is of another type than the offer.
    """
    ref, pause_s, known, price = box.machine(0), 0.1, box.nodes, price_to_pay(offer)
    with context.tasks.within(START_TIMEOUT_S):
        while True:
            machine = context.tasks.run(partial(cloud.get, ref), CALL_TIMEOUT_S)
            if isinstance(machine, Machine) and machine.billed:
                nodes = (node_of(machine),)
                if nodes != known:
                    context.journal.write(box, Seen(facts=Facts(nodes=nodes, price=price)))
                known = nodes
                if machine.instance_type.casefold() != offer.instance_type.casefold():
                    raise PriceError(
                        f"{box.name!r} was started as a {machine.instance_type}, not a {offer.instance_type}",
                        hint="somebody has changed its type meanwhile",
                    )
                if machine.state is State.RUNNING and machine.public_ip:
                    return
            if not context.tasks.left_s:
                raise GpucloudError(f"the machine of {box.name!r} does not run after its start")
            context.tasks.pause(pause_s)
            pause_s = min(pause_s * 1.5, 5.0)


def _stop_again(context: Context, box: Box, keys: Path, cause: BaseException) -> None:
    """Stops what a start that failed has begun; a guard that can be reached has the stopped box's end again.

    Raises:
        CleanupIncompleteError: it may run and be billed.
    """
    context.tell("stop", f"stopping {box.name!r} again")
    with context.tasks.finishing():
        held = context.journal.held(box)
        for node in filter(is_connected, targets(held, keys, context.proxy_command)):
            with suppress(GpucloudError):  # the bill comes first
                tell_guard(context, node, keep_end(context, held))
            disconnect(node)
        stopped = rest(context, held, REST_TIMEOUT_S)
    if stopped is None:
        raise unfinished(box, str(cause)) from cause
    if isinstance(cause, CloudError) and cause.error_class in {ErrorClass.CAPACITY, ErrorClass.UNSUPPORTED}:
        cause.message = f"{box.name!r} stays stopped: {cause.message}"
        cause.hint = f"try again later, or delete it: gpucloud down {box.name}"
    elif isinstance(cause, GpucloudError):
        cause.message = f"{cause.message}; {box.name!r} is {stopped.state} again"
        cause.hint = f"start it again, or delete it: gpucloud down {box.name}"

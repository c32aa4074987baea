"""Buys the compute of a stopped box again: by the rule of every purchase, the same machine or none."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial

from gpucloud.clouds.abilities import Power
from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import PriceError, UsageError
from gpucloud.journal.records import Box
from gpucloud.planning.lifetime import agreed_usd
from gpucloud.planning.plan import Candidate
from gpucloud.purchase.ceiling import Agreement, ask_price, begin_check
from gpucloud.resources import Ref, short_id
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Call
from gpucloud_pricing import Market

START_TIMEOUT_S = 600.0


def offer_today(context: Context, market: Market, box: Box, *, max_price_usd: Decimal | None) -> Candidate:
    """The machine of a stopped box as an offer, at the price of now.

    Where a cloud quotes no spot price the previous one stands: the machine carries its own highest price.

    Args:
        context: clouds, journal, clock and progress of this call.
        market: knows the types, and converts prices.
        box: the box.
        max_price_usd: the limit per hour; ``None`` for the one that was agreed before.

    Raises:
        CloudError: the cloud did not answer.
        PriceError: it quoted no price, or one above the limit.
        UsageError: the market does not know the type.
    """
    limit = max_price_usd if max_price_usd is not None else agreed_usd(box, market)
    known = _offer(market, box, limit)
    if known.purchase.kind.paid_already:
        return known
    now = ask_price(context, Agreement(usd=market.usd), known)
    if now is None and known.purchase.kind.price_moves:
        now = known
    if now is None:
        raise PriceError(
            f"{box.cloud} quotes no price for {known.instance_type} in {known.region}: nothing was started",
            hint="try again later",
        )
    if limit is None or now.price_usd > limit:
        most = "no limit is known" if limit is None else f"the limit is {limit.normalize():f} USD"
        raise PriceError(
            f"{box.name!r} costs {now.price} {now.currency} per hour now, and {most}; nothing was started",
            hint=f"set a limit: gpucloud start {box.name} --max-price USD",
        )
    most_allowed = context.journal.rules().max_price
    return now if most_allowed is None else replace(now, ceiling_usd=min(limit, most_allowed))


def power_on(context: Context, box: Box, cloud: Cloud, prices: Agreement, offer: Candidate) -> Call | None:
    """Makes the billable call, and starts to look at what is billed then.

    Returns:
        The check of the price in force, for :func:`gpucloud.purchase.ceiling.in_force`.

    Raises:
        CloudError: there is no capacity, or the cloud refused.
    """
    machine = box.machine(0)
    context.tell("start", f"starting {short_id(machine.id)}")
    with about(box=box.id):
        context.tasks.run(partial(_start, cloud, machine), START_TIMEOUT_S)
    return begin_check(context, prices, offer)


def _start(cloud: Cloud, machine: Ref) -> None:
    cloud.ask(Power, "start the instance", lambda power: power.start(machine))


def _offer(market: Market, box: Box, limit: Decimal | None) -> Candidate:
    """The machine of a box as an offer at the price that it had."""
    assert box.offer is not None  # noqa: S101  (it has a machine)
    assert box.place is not None  # noqa: S101
    offer, place = box.offer, box.place
    kind = market.types.get((place.cloud, offer.instance_type))
    if kind is None:
        raise UsageError(
            f"{box.name!r} cannot be started: no GPU is known of the type {offer.instance_type}",
            hint=f"update the prices: gpucloud prices refresh; or delete it: gpucloud down {box.name}",
        )
    amount, currency = (box.price.amount, box.price.currency) if box.price else (Decimal(0), "USD")
    usd = market.usd(amount, currency) or Decimal(0)
    return Candidate(
        cloud=place.cloud,
        region=place.region,
        zone=place.zone or "",
        instance_type=offer.instance_type,
        purchase=offer.purchase,
        gpu_model=kind.gpu_model,
        gpu_count=kind.gpu_count,
        gpu_memory_gib=kind.gpu_memory_gib,
        vcpus=kind.vcpus,
        memory_gib=kind.memory_gib,
        interconnect=kind.interconnect,
        rdma=kind.rdma,
        arch=kind.arch,
        price=amount,
        currency=currency,
        price_usd=usd,
        ceiling_usd=usd if limit is None else limit,
        as_of=(box.price and box.price.as_of) or box.created_at.date(),
        source=(box.price and box.price.source) or "",
        reservation=offer.reservation,
    )

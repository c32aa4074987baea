"""Checks prices against the agreed ceiling: before the billable call, and once more after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from gpucloud.errors import CloudError, ErrorClass, PriceError, Scope
from gpucloud.journal.facts import Price
from gpucloud.planning.plan import Candidate, repriced
from gpucloud.planning.planner import quotes_of
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Call, TimedOutError

QUOTE_AGE = timedelta(seconds=60)
"""How old a price may be to buy at it without asking the cloud again."""
QUOTE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The agreement about prices, in addition to the ceiling of each offer.

    ``usd`` converts an amount of a currency to USD, or returns ``None`` for a currency without a rate.
    ``agreed_at`` is when a person confirmed: an older quote is asked for again; ``None`` if nobody was asked.
    ``unconfirmed`` allows a price that the cloud does not confirm.
    """

    usd: Callable[[Decimal, str], Decimal | None]
    agreed_at: datetime | None = None
    unconfirmed: bool = False


def confirmed(context: Context, agreement: Agreement, candidate: Candidate) -> Candidate:
    """The candidate at a price that is valid now: asked again if its quote is old or precedes the agreement.

    A price that the cloud never quoted (the market's data, which the plan allows if it is fresh or accepted)
    is used if the cloud still quotes none. One that it quoted and does not quote again may have changed: spot
    continues, because the create call carries its maximum price; any other purchase is refused.

    Raises:
        CloudError: of class ``price``: it costs more than its ceiling now, or its price is unknown.
    """
    if candidate.purchase.kind.paid_already or not _is_old(context, agreement, candidate):
        return candidate
    said, now = "it returned no price", None
    try:
        now = ask_price(context, agreement, candidate)
    except (CloudError, TimedOutError) as error:
        said = str(error)
    if now is None:
        if not candidate.quoted or candidate.purchase.kind.price_moves or agreement.unconfirmed:
            return candidate
        raise _refusal(
            candidate,
            f"{candidate.place}: {candidate.cloud} quoted {candidate.price} {candidate.currency} per hour"
            f" and did not confirm it: {said}",
            hint="try again, or accept this price: --accept-snapshot-price",
        )
    if now.price_usd > candidate.ceiling_usd:
        raise _refusal(candidate, _above(candidate, now), hint="plan again, or set a limit: --max-price")
    return now


def _is_old(context: Context, agreement: Agreement, candidate: Candidate) -> bool:
    at = candidate.quoted_at
    if at is None or context.clock() - at > QUOTE_AGE:
        return True
    return agreement.agreed_at is not None and at < agreement.agreed_at


def _refusal(candidate: Candidate, message: str, *, hint: str) -> CloudError:
    zonal = candidate.purchase.kind.price_moves and candidate.zone
    return CloudError(
        message,
        error_class=ErrorClass.PRICE,
        cloud=candidate.cloud,
        scope=Scope.ATTEMPT if zonal else Scope.TYPE_IN_REGION,
        hint=hint,
        sent=False,
    )


def begin_check(context: Context, agreement: Agreement, bought: Candidate) -> Call | None:
    """Starts to ask for the price of the machine just bought: the same type, zone and way of paying.

    Returns:
        The call for :func:`in_force`; ``None`` for held capacity, which is paid for already.
    """
    if bought.purchase.kind.paid_already:
        return None
    return context.tasks.start(partial(_ask, context, agreement, bought))


def in_force(
    context: Context, asked: Call | None, bought: Candidate, outcome: str = "the box is deleted"
) -> Candidate:
    """The candidate at the price in force; unchanged if the cloud does not quote one.

    ``outcome`` is what becomes of a machine that costs more.

    Raises:
        PriceError: it costs more than its ceiling.
    """
    now: Candidate | None = None
    if asked is not None:
        try:
            now = context.tasks.wait(asked, QUOTE_TIMEOUT_S)
        except (CloudError, TimedOutError) as error:
            context.tell("create", f"the price was not confirmed: {error}")
    if now is None:
        return bought
    if now.price_usd > bought.ceiling_usd:
        refusal = PriceError(
            f"{_above(bought, now)}; {outcome}", hint="plan again, or set a limit: --max-price"
        )
        refusal.cloud = bought.cloud
        raise refusal
    return now


def ask_price(context: Context, agreement: Agreement, candidate: Candidate) -> Candidate | None:
    """The candidate at the price of now, with its ceiling as it is; ``None`` if the cloud quotes none.

    Raises:
        CloudError: the cloud did not answer.
    """
    call = context.tasks.start(partial(_ask, context, agreement, candidate))
    answer: Candidate | None = context.tasks.wait(call, QUOTE_TIMEOUT_S)
    return answer


def _ask(context: Context, agreement: Agreement, candidate: Candidate) -> Candidate | None:
    asked_at = context.clock()
    cloud = context.clouds[candidate.cloud]
    quotes = quotes_of(cloud, candidate.region, [candidate.instance_type], candidate.purchase)
    stamped = [replace(quote, as_of=asked_at) for quote in quotes]
    return repriced(candidate, stamped, usd=agreement.usd)


def _above(agreed: Candidate, now: Candidate) -> str:
    """A price compared with its ceiling, for people."""
    return (
        f"{agreed.place} costs {now.price} {now.currency} per hour ({now.price_usd:f} USD), and"
        f" agreed were {agreed.price} {agreed.currency} and at most {agreed.ceiling_usd:f} USD"
    )


def price_of(candidate: Candidate) -> Price:
    """The price of a box, as its record stores it."""
    return Price(
        amount=candidate.price,
        currency=candidate.currency,
        as_of=candidate.as_of,
        source=candidate.source,
    )

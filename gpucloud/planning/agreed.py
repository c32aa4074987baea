"""What the user of a box has agreed to pay. Pure functions."""

from __future__ import annotations

from decimal import Decimal

from gpucloud.journal.records import Box
from gpucloud.planning.plan import margin_of
from gpucloud_pricing import Market


def agreed_usd(box: Box, market: Market) -> Decimal | None:
    """The most per hour and node that the user of a box has agreed to; ``None`` if unknown.

    That is the limit of its last start or launch; of a box that was found by its tags, its price and
    a margin.
    """
    if box.ceiling is not None and box.ceiling.machine_usd is not None:
        return box.ceiling.machine_usd
    made = [each.ceiling_usd for each in box.intents if each.status == "made" and each.ceiling_usd]
    if made:
        return made[-1]
    if box.price is None or box.offer is None:
        return None
    before = market.usd(box.price.amount, box.price.currency)
    return None if before is None else before * margin_of(box.offer.purchase)

"""The ways of paying: one row for each, with what decides how it is priced, billed and launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import assert_never

HOURS_PER_MONTH = Decimal(730)
HOURS_PER_YEAR = Decimal(8760)

CAPACITY_BLOCK = "capacity_block"
OWNED = "owned"
"""A commitment that is paid for already; known only from the user's own conditions."""


class Purchase(StrEnum):
    """The ways of paying that a box can be launched with."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    RESERVED = "reserved"  # into capacity that is already held

    @property
    def kind(self) -> PurchaseKind:
        """Its row."""
        return KINDS[self]


class Billed(Enum):
    """How the compute of a machine is billed."""

    HOURLY = "hourly"
    """While it exists."""
    IN_TERMS = "in terms"
    """Whole terms of a commitment, used or not."""
    IN_BLOCKS = "in blocks"
    """A capacity block of some days, in advance; the price per hour is that of a block of one day."""
    ALREADY = "already"
    """It is paid for; a price is what is due in addition, or for information."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseKind:
    """A way of paying. No field has a default: whoever adds a row decides each.

    Attributes:
        word: its name in prices, offers and JSON.
        billed: how the compute is billed.
        term_hours: the term of a commitment that is billed in terms, otherwise 0.
        prepaid: whether a quote's ``upfront`` is the whole price of the month, the year or the day of a
            block: the price per hour is derived from that and rounded. Sources: ECS API Reference,
            DescribePrice, "PriceUnit"; EC2 API Reference, CapacityBlockOffering, "upfrontFee".
        disk_included: whether the disk is subscribed together with the machine.
        interruptible: whether the cloud may take the machine back.
        price_moves: whether the price may change at any hour, not only with a new price list: an order
            carries the most that is paid.
        launchable: whether a box is launched with it: each :class:`Purchase`.
        listed_as: the word of the prices that the market has for it: its own, or that of the on-demand price
            of a machine in held capacity.
    """

    word: str
    billed: Billed
    term_hours: Decimal
    prepaid: bool
    disk_included: bool
    interruptible: bool
    price_moves: bool
    launchable: bool
    listed_as: str

    @property
    def paid_already(self) -> bool:
        """Whether the compute is paid for before the launch."""
        return self.billed is Billed.ALREADY

    @property
    def to_buy(self) -> bool:
        """Whether it is a commitment that must be bought first."""
        match self.billed:
            case Billed.IN_TERMS | Billed.IN_BLOCKS:
                return True
            case Billed.HOURLY | Billed.ALREADY:
                return False
            case _:
                assert_never(self.billed)


def _commitment(
    word: str, billed: Billed, term_hours: Decimal, *, prepaid: bool, disk_included: bool
) -> PurchaseKind:
    """A way of paying that must be bought first: nobody takes its machines back, and its price is listed."""
    return PurchaseKind(
        word=word,
        billed=billed,
        term_hours=term_hours,
        prepaid=prepaid,
        disk_included=disk_included,
        interruptible=False,
        price_moves=False,
        launchable=False,
        listed_as=word,
    )


_ROWS = (
    PurchaseKind(
        word=Purchase.ON_DEMAND.value,
        billed=Billed.HOURLY,
        term_hours=Decimal(0),
        prepaid=False,
        disk_included=False,
        interruptible=False,
        price_moves=False,
        launchable=True,
        listed_as=Purchase.ON_DEMAND.value,
    ),
    PurchaseKind(
        word=Purchase.SPOT.value,
        billed=Billed.HOURLY,
        term_hours=Decimal(0),
        prepaid=False,
        disk_included=False,
        interruptible=True,
        price_moves=True,
        launchable=True,
        listed_as=Purchase.SPOT.value,
    ),
    PurchaseKind(
        word=Purchase.RESERVED.value,
        billed=Billed.ALREADY,
        term_hours=Decimal(0),
        prepaid=False,
        disk_included=False,
        interruptible=False,
        price_moves=False,
        launchable=True,
        listed_as=Purchase.ON_DEMAND.value,
    ),
    _commitment("reserved_1y", Billed.IN_TERMS, HOURS_PER_YEAR, prepaid=False, disk_included=False),
    _commitment("reserved_3y", Billed.IN_TERMS, 3 * HOURS_PER_YEAR, prepaid=False, disk_included=False),
    _commitment("savings_1y", Billed.IN_TERMS, HOURS_PER_YEAR, prepaid=False, disk_included=False),
    _commitment("savings_3y", Billed.IN_TERMS, 3 * HOURS_PER_YEAR, prepaid=False, disk_included=False),
    _commitment("subscription_1m", Billed.IN_TERMS, HOURS_PER_MONTH, prepaid=True, disk_included=True),
    _commitment("subscription_1y", Billed.IN_TERMS, HOURS_PER_YEAR, prepaid=True, disk_included=True),
    _commitment(CAPACITY_BLOCK, Billed.IN_BLOCKS, Decimal(0), prepaid=True, disk_included=False),
    PurchaseKind(
        word=OWNED,
        billed=Billed.ALREADY,
        term_hours=Decimal(0),
        prepaid=False,
        disk_included=False,
        interruptible=False,
        price_moves=False,
        launchable=False,
        listed_as=OWNED,
    ),
)

KINDS: Mapping[str, PurchaseKind] = MappingProxyType({row.word: row for row in _ROWS})
"""Every way of paying by its word."""

PURCHASES = tuple(row.word for row in _ROWS if row.listed_as == row.word)
"""The ways of paying that the market has prices of, in the order of choice."""

SOLD = tuple(word for word in PURCHASES if not KINDS[word].paid_already)
"""Those of them that a cloud's price list may have: no other word is taken into the price data."""

COMMITMENTS = frozenset(row.word for row in _ROWS if row.to_buy)
"""Those of them that must be bought first: never launchable."""

LAUNCHABLE = tuple(each for each in Purchase if each in PURCHASES)
"""Those of them that a box can be launched with."""

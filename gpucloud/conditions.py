"""Somebody's own conditions: negotiated discounts, credits, and commitments that are paid for already.

They stand in a YAML file, and change what ``cost`` computes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpucloud.errors import UsageError
from gpucloud_pricing import Market, Price
from gpucloud_pricing.demand import OWNED, PURCHASES
from gpucloud_pricing.estimate import Usage
from gpucloud_pricing.values import Source

SOURCE = "own-conditions"
MAX_BYTES = 1 << 20


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Part(_Strict):
    cloud: str


class Discount(_Part):
    """So many percent off the list price of what fits. Names of types and regions may be globs."""

    percent: Annotated[Decimal, Field(gt=0, le=100)]
    types: str = "*"
    regions: str = "*"
    purchase: str | None = None

    def fits(self, price: Price) -> bool:
        """Whether it is for this price."""
        return (
            price.cloud == self.cloud
            and self.purchase in {None, price.purchase.replace("_", "-")}
            and fnmatchcase(price.instance_type, self.types)
            and fnmatchcase(price.region, self.regions)
        )


class Credit(_Part):
    """Money that a cloud owes, until the end of a day."""

    amount: Annotated[Decimal, Field(gt=0)]
    currency: str = "USD"
    until: date | None = None


class Commitment(_Part):
    """Machines that are paid for already, used or not, until the end of a day."""

    region: str
    type: str
    count: Annotated[int, Field(ge=1)] = 1
    until: date


class Conditions(_Strict):
    """What the file holds."""

    discounts: tuple[Discount, ...] = ()
    credits: tuple[Credit, ...] = ()
    commitments: tuple[Commitment, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnConditions:
    """All of somebody's conditions, and where they stand."""

    file: Path
    told: Conditions

    @classmethod
    def load(cls, file: Path) -> OwnConditions:
        """Reads the file.

        Raises:
            UsageError: it cannot be read, or says what makes no sense.
        """
        try:
            with file.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise UsageError(f"{file}: larger than {MAX_BYTES >> 20} MiB")
            return cls(file, Conditions.model_validate(yaml.safe_load(data) or {}))
        except OSError as error:
            raise UsageError(f"cannot read the conditions {str(file)!r}: {error.strerror}") from error
        except yaml.YAMLError as error:
            raise UsageError(f"{file}: not YAML: {error}") from None
        except ValidationError as error:
            problems = [f"{file}: {_where(each['loc'])}: {each['msg']}" for each in error.errors()]
            raise UsageError("; ".join(problems)) from None

    def apply(self, market: Market, usage: Usage, today: date) -> Market:
        """The market as it is for somebody with these conditions.

        Args:
            market: list prices.
            usage: a commitment counts only if it has machines enough, and lasts as long as they are needed.
            today: from when.

        Raises:
            UsageError: a condition is about nothing that there is: a slip would show wrong totals.
        """
        self._check(market)
        last = today + timedelta(hours=float(usage.billed_hours))

        def discounted(price: Price) -> Price:
            percents = [each.percent for each in self.told.discounts if each.fits(price)]
            return replace(price, discount=max(percents) / 100) if percents else price

        own = [
            _owned(commitment, today)
            for commitment in self.told.commitments
            if commitment.count >= usage.nodes and commitment.until >= last
        ]
        source = Source(
            id=SOURCE,
            repository="your own file",
            path=str(self.file),
            commit="",
            date=today.isoformat(),
            licence="yours",
            note="discounts, credits and commitments",
        )
        return market.on_own_terms(discounted, own, source)

    def credits_usd(self, market: Market, today: date) -> dict[str, Decimal]:
        """What each cloud owes, in USD."""
        owed: dict[str, Decimal] = {}
        for credit in self.told.credits:
            if credit.until is None or credit.until >= today:
                usd = market.usd(credit.amount, credit.currency) or Decimal(0)
                owed[credit.cloud] = owed.get(credit.cloud, Decimal(0)) + usd
        return owed

    def _check(self, market: Market) -> None:
        clouds = sorted({cloud for cloud, _ in market.types})
        for part in (*self.told.discounts, *self.told.credits, *self.told.commitments):
            if part.cloud not in clouds:
                raise self._wrong(f"there is no cloud {part.cloud!r}; allowed: {', '.join(clouds)}")
        ways = [way.replace("_", "-") for way in PURCHASES if way != OWNED]
        for discount in self.told.discounts:
            if discount.purchase not in {None, *ways}:
                raise self._wrong(f"{discount.purchase!r} is no way of paying; allowed: {', '.join(ways)}")
            if not any(c == discount.cloud and fnmatchcase(n, discount.types) for c, n in market.types):
                raise self._wrong(f"{discount.cloud} has no type {discount.types!r}")
        for own in self.told.commitments:
            if (own.cloud, own.type) not in market.types or (own.cloud, own.region) not in market.regions:
                raise self._wrong(f"there is no {own.type} in {own.cloud} {own.region}")
        for credit in self.told.credits:
            if market.usd(credit.amount, credit.currency) is None:
                raise self._wrong(f"no reference rate is known from {credit.currency} to USD")

    def _wrong(self, why: str) -> UsageError:
        return UsageError(f"{self.file}: {why}")


def _owned(commitment: Commitment, today: date) -> Price:
    """A commitment as a price: what is paid for already costs nothing more."""
    return Price(
        cloud=commitment.cloud,
        region=commitment.region,
        zone=None,
        instance_type=commitment.type,
        purchase=OWNED,
        amount=Decimal(0),
        currency="USD",
        as_of=today,
        source=SOURCE,
        terms=f"{commitment.count} until {commitment.until}",
    )


def _where(parts: Iterable[Any]) -> str:
    """A place in the file: ``discounts[0].percent``."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text or "the whole"

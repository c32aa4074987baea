"""A user's own conditions: negotiated discounts, credits, and commitments that are paid for already.

They are in a YAML file; commitments also come from the clouds. They change the results of ``cost``, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpucloud.errors import UsageError, first_of
from gpucloud.market.yaml_lines import YamlDocument
from gpucloud_pricing import Commitment, InstanceType, Market, Money, Offer, Price
from gpucloud_pricing.commitments import SAVINGS_PLAN, lasting, owned_prices, rate_of, reaches, text_of
from gpucloud_pricing.purchases import SOLD
from gpucloud_pricing.terms import Usage
from gpucloud_pricing.values import SavingsPlan, Source, UnsuitableError

SOURCE = "own-conditions"
MAX_BYTES = 1 << 20


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Part(_Strict):
    cloud: str


class Discount(_Part):
    """A percentage off the list price of matching offers. Names of types and regions may be globs."""

    percent: Annotated[Decimal, Field(gt=0, le=100)]
    types: str = "*"
    regions: str = "*"
    purchase: str | None = None

    def fits(self, price: Price) -> bool:
        """Whether it applies to this price."""
        return (
            price.cloud == self.cloud
            and self.purchase in {None, price.purchase.replace("_", "-")}
            and fnmatchcase(price.instance_type, self.types)
            and fnmatchcase(price.region, self.regions)
        )


class Credit(_Part):
    """A credit at a cloud, valid until the end of a day."""

    amount: Annotated[Decimal, Field(gt=0)]
    currency: str = "USD"
    until: date | None = None


class OwnMachines(_Part):
    """Machines that are paid for already, used or not; valid until the end of a day."""

    region: str
    type: str
    count: Annotated[int, Field(ge=1)] = 1
    until: date

    def commitment(self, today: date) -> Commitment:
        """The same as a value of the market."""
        return Commitment(
            cloud=self.cloud,
            kind="machine",
            id="",
            region=self.region,
            instance_type=self.type,
            count=self.count,
            until=self.until,
            as_of=today,
            source=SOURCE,
        )


class OwnPlan(_Part):
    """A savings plan: a fixed amount per hour, used or not; valid until the end of a day.

    An instance plan is for one family of types in one region, a compute plan for the whole cloud. ``term``
    and ``upfront`` select the market's rates at which it is used up.
    """

    plan: Literal["compute", "instance"]
    per_hour: Annotated[Decimal, Field(gt=0)]
    currency: str = "USD"
    family: str | None = None
    region: str | None = None
    term: Literal["1y", "3y"] = "1y"
    upfront: Literal["none", "partial", "all"] = "none"
    until: date

    def commitment(self, today: date) -> Commitment:
        """The same as a value of the market."""
        paid = "no" if self.upfront == "none" else self.upfront  # a bare ``no`` is false in YAML
        plan = SavingsPlan(
            per_hour=Money(amount=self.per_hour, currency=self.currency),
            purchase=f"savings_{self.term}",
            terms=f"{self.plan} plan, {paid} upfront",
            family=self.family,
        )
        return Commitment(
            cloud=self.cloud,
            kind=SAVINGS_PLAN,
            id="",
            region=self.region,
            plan=plan,
            until=self.until,
            as_of=today,
            source=SOURCE,
        )


class Conditions(_Strict):
    """The content of the file."""

    discounts: tuple[Discount, ...] = ()
    credits: tuple[Credit, ...] = ()
    commitments: tuple[OwnMachines, ...] = ()
    savings_plans: tuple[OwnPlan, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnConditions:
    """All conditions of a user, and their origin.

    Attributes:
        file: the user's file; ``None`` without one.
        written: the content of the file.
        held: the commitments that clouds reported.
        document: the file with its lines; ``None`` without one.
    """

    file: Path | None = None
    written: Conditions = field(default_factory=Conditions)
    held: Sequence[Commitment] = ()
    document: YamlDocument | None = None

    @classmethod
    def load(cls, file: Path, held: Sequence[Commitment] = ()) -> OwnConditions:
        """Reads the file.

        Raises:
            UsageError: it cannot be read, or is not valid.
        """
        try:
            with file.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise UsageError(f"{file}: larger than {MAX_BYTES >> 20} MiB")
        except OSError as error:
            raise UsageError(f"cannot read the discounts file {str(file)!r}: {error.strerror}") from error
        document = YamlDocument.parse(data, str(file))
        try:
            return cls(file, Conditions.model_validate(document.data or {}), held, document)
        except ValidationError as error:
            problems = [
                document.error(each["loc"], f"{_where(each['loc'])}: {each['msg']}").message
                for each in error.errors()
            ]
            raise UsageError(first_of(problems)) from None

    def apply(self, market: Market, usage: Usage, today: date) -> Market:
        """The market under these conditions.

        Args:
            market: list prices.
            usage: a commitment counts only if it has enough machines, and lasts as long as they are needed.
                A savings plan counts for the part that it covers.
            today: the start of the usage.

        Raises:
            UsageError: a condition applies to nothing in the market: a typo would lead to wrong totals.
        """
        self._check(market)
        owned = [
            each
            for each in self._commitments(today)
            if each.region is None or (each.cloud, each.region) in market.regions  # others may be newer
        ]

        def discounted(price: Price) -> Price:
            percents = [each.percent for each in self.written.discounts if each.fits(price)]
            return replace(price, discount=max(percents) / 100) if percents else price

        def own(kind: InstanceType, listed: Sequence[Price]) -> Iterable[Price]:
            return owned_prices(_needed(owned, kind, usage, today), kind, listed, nodes=usage.nodes)

        written = Source(
            id=SOURCE,
            repository="",
            path=str(self.file),
            commit="",
            date=today.isoformat(),
            licence="yours",
            note="discounts, credits and commitments",
        )
        return market.on_own_terms(discounted, own, (written,))

    def uncounted(self, market: Market, offers: Iterable[Offer], usage: Usage, today: date) -> list[str]:
        """The savings plans that apply to an offer, but at an unknown rate; for people."""
        places = {(offer.region, offer.instance_type): offer.kind for offer in offers}
        commitments = self._commitments(today)
        return sorted(
            f"the {text_of(each)} for {name} in {region}"
            for (region, name), kind in places.items()
            for each in _needed(commitments, kind, usage, today)
            if each.plan is not None
            and reaches(each, kind)
            and each.region in {None, region}
            and rate_of(each.plan, market.prices_of(each.cloud, name), region) is None
        )

    def _commitments(self, today: date) -> list[Commitment]:
        """All commitments."""
        machines = [each.commitment(today) for each in self.written.commitments]
        plans = [each.commitment(today) for each in self.written.savings_plans]
        return [*machines, *plans, *self.held]

    def credits_usd(self, market: Market, today: date) -> dict[str, Decimal]:
        """The credit at each cloud, in USD."""
        owed: dict[str, Decimal] = {}
        for credit in self.written.credits:
            if credit.until is None or credit.until >= today:
                usd = market.usd(credit.amount, credit.currency) or Decimal(0)
                owed[credit.cloud] = owed.get(credit.cloud, Decimal(0)) + usd
        return owed

    def _check(self, market: Market) -> None:
        clouds = sorted({cloud for cloud, _ in market.types})
        written = self.written
        for name in ("discounts", "credits", "commitments", "savings_plans"):
            parts: Sequence[_Part] = getattr(written, name)
            for at, part in enumerate(parts):
                if part.cloud not in clouds:
                    why = f"there is no cloud {part.cloud!r}; allowed: {', '.join(clouds)}"
                    raise self._wrong((name, at, "cloud"), why)
        for at, discount in enumerate(written.discounts):
            self._check_discount(at, discount, market)
        for at, own in enumerate(written.commitments):
            if (own.cloud, own.type) not in market.types or (own.cloud, own.region) not in market.regions:
                raise self._wrong(("commitments", at), f"there is no {own.type} in {own.cloud} {own.region}")
        for at, plan in enumerate(written.savings_plans):
            self._check_plan(at, plan, market)
        for at, credit in enumerate(written.credits):
            if market.usd(credit.amount, credit.currency) is None:
                why = f"no exchange rate from {credit.currency} to USD is known"
                raise self._wrong(("credits", at, "currency"), why)

    def _check_discount(self, at: int, discount: Discount, market: Market) -> None:
        ways = [way.replace("_", "-") for way in SOLD]
        if discount.purchase not in {None, *ways}:
            why = f"{discount.purchase!r} is not a way of paying; allowed: {', '.join(ways)}"
            raise self._wrong(("discounts", at, "purchase"), why)
        if not any(c == discount.cloud and fnmatchcase(n, discount.types) for c, n in market.types):
            why = f"{discount.cloud} has no type {discount.types!r}"
            raise self._wrong(("discounts", at, "types"), why)

    def _check_plan(self, at: int, plan: OwnPlan, market: Market) -> None:
        place = ("savings_plans", at)
        if plan.plan == "compute":
            if plan.family or plan.region:
                why = "a compute plan covers all families and regions: omit family and region"
                raise self._wrong(place, why)
            return
        if plan.family is None or plan.region is None:
            raise self._wrong(place, "an instance plan needs a family and a region")
        if (plan.cloud, plan.region) not in market.regions:
            raise self._wrong((*place, "region"), f"there is no {plan.cloud} {plan.region}")
        if not any(c == plan.cloud and n.startswith(f"{plan.family}.") for c, n in market.types):
            raise self._wrong((*place, "family"), f"{plan.cloud} has no family {plan.family!r}")

    def _wrong(self, path: tuple[str | int, ...], why: str) -> UsageError:
        return UsageError(why) if self.document is None else self.document.error(path, why)


def _where(parts: Iterable[Any]) -> str:
    """A place in the file: ``discounts[0].percent``."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text or "the whole file"


def _needed(
    commitments: Sequence[Commitment], kind: InstanceType, usage: Usage, today: date
) -> list[Commitment]:
    """The commitments that last as long as machines of a type are needed; none if that is not known."""
    try:
        hours = usage.on(kind).billed_hours
    except UnsuitableError:
        return []
    return lasting(commitments, today + timedelta(hours=float(hours)))

"""What budgets count, and whether a plan exceeds one. Pure functions.

Counted are, of all that a budget matches and in its period: what was spent, what living boxes will cost until
their end at their present price, and the plan at the most that it may cost. What has no known price, no rate
of exchange or no end is named, and never counted as nothing in silence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.costs.forecast import Forecast, forecast, new_by_day
from gpucloud.costs.spend import charges, first_of_month, first_of_next_month, per_hour
from gpucloud.errors import BudgetError
from gpucloud.journal.budgets import Budget, BudgetAction, Match, Per, Terms
from gpucloud.journal.facts import hours_between
from gpucloud.journal.lifecycle import BEGINNING, LAUNCHING, OVER, BoxState
from gpucloud.journal.records import Box, Holding
from gpucloud.resources import rfc3339
from gpucloud_pricing import Market, format_money
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.costs.documents import BudgetDocument
    from gpucloud_pricing.documents import MoneyDocument


LEAST_BILLED = timedelta(minutes=1)
"""The least time that clouds bill of a machine (AWS: EC2 User Guide, "Billing and purchasing options")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A budget with what it counts, in its currency.

    Attributes:
        budget: the budget.
        spent: what was spent in the period.
        committed: what living boxes will cost until their end, or that of the period.
        plan: the most that a plan costs until then; zero without one.
        plan_per_hour: the most that it costs per hour.
        run: for a budget of each run, the one that this is of: its id, or the name of a box without a run.
        unknown: what is not in the figures, and why.
        endless: whether a plan has no end, and the period has none either: no amount is enough.
        forecast: the cost of the whole period; ``None`` if it has no end, or nobody asked.
    """

    budget: Budget
    spent: Decimal
    committed: Decimal
    plan: Decimal = Decimal(0)
    plan_per_hour: Decimal = Decimal(0)
    run: str | None = None
    unknown: tuple[str, ...] = ()
    endless: bool = False
    forecast: Forecast | None = None

    @property
    def used(self) -> Decimal:
        """All that is counted."""
        return self.spent + self.committed + self.plan

    @property
    def left(self) -> Decimal:
        """What may still be planned; negative if the budget is exceeded."""
        return self.budget.terms.amount - self.used

    @property
    def is_over(self) -> bool:
        """Whether the budget is exceeded."""
        return self.endless or self.left < 0

    @property
    def is_used_up(self) -> bool:
        """Whether all of it was spent."""
        return self.spent >= self.budget.terms.amount

    @property
    def reached(self) -> int | None:
        """The highest percentage at which the budget warns, of those that are reached."""
        terms = self.budget.terms
        return max((each for each in terms.warn if self.used * 100 >= terms.amount * each), default=None)

    def document(self) -> BudgetDocument:
        """For JSON."""
        budget, terms = self.budget, self.budget.terms
        return {
            "name": budget.name,
            "amount": self._money(terms.amount),
            "per": str(terms.per),
            "match": {
                "owners": list(terms.match.owners),
                "clouds": list(terms.match.clouds),
                "gpus": list(terms.match.gpus),
                "tags": [{"name": name, "value": value} for name, value in terms.match.tags],
            },
            "warn": list(terms.warn),
            "action": str(terms.action),
            "by": budget.by,
            "at": rfc3339(budget.at),
            "run": self.run,
            "spent": self._money(self.spent),
            "committed": self._money(self.committed),
            "left": self._money(self.left),
            "forecast": self.forecast.document(self.budget.terms.currency) if self.forecast else None,
            "unknown": list(self.unknown),
        }

    def _money(self, amount: Decimal) -> MoneyDocument:
        return Money(amount=round(amount, 4), currency=self.budget.terms.currency).document()


def period(per: Per, now: datetime) -> tuple[datetime | None, datetime | None]:
    """The period of a budget at a moment, in UTC; ``None`` where it has no start or no end."""
    match per:
        case Per.DAY:
            start = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            return start, start + timedelta(days=1)
        case Per.MONTH:
            return first_of_month(now), first_of_next_month(now)
        case _:
            return None, None


def since_of(budgets: Iterable[Budget], now: datetime) -> datetime | None:
    """From when on budgets count; ``None`` for everything that ever was."""
    starts = [period(budget.terms.per, now)[0] for budget in budgets]
    known = [start for start in starts if start is not None]
    return min(known) if known and len(known) == len(starts) else None


def standings(
    budgets: Iterable[Budget],
    holdings: Sequence[Holding],
    now: datetime,
    market: Market,
    plan: Holding | None = None,
) -> list[Standing]:
    """The standing of each budget; with a plan, only of those that it is counted in.

    Args:
        budgets: all of them.
        holdings: those of all owners since :func:`since_of`; the one in whose place the plan is launched will
            cost no more from then on.
        now: the moment.
        market: for exchange rates, and how clouds bill.
        plan: a box that is planned and has a ceiling; it may be among ``holdings``.
    """
    found: list[Standing] = []
    for budget in budgets:
        if plan is not None and not matches(budget.terms.match, plan):
            continue
        counted = [holding for holding in holdings if matches(budget.terms.match, holding)]
        found.append(_standing(budget, counted, now, market, plan))
    return found


def standings_ahead(
    budgets: Iterable[Budget],
    holdings: Sequence[Holding],
    begun: datetime | None,
    now: datetime,
    market: Market,
) -> list[Standing]:
    """The standing of each budget, with its forecast; arguments as :func:`with_forecast`."""
    found = standings(budgets, holdings, now, market)
    return [with_forecast(each, holdings, begun, now, market) for each in found]


def with_forecast(
    standing: Standing, holdings: Iterable[Holding], begun: datetime | None, now: datetime, market: Market
) -> Standing:
    """A standing without a plan, with the forecast of its period.

    Args:
        standing: the standing.
        holdings: the holdings of all owners since :func:`gpucloud.costs.forecast.start_of_history`.
        begun: when the journal was; ``None`` for an empty one.
        now: the moment.
        market: for exchange rates, and how clouds bill.
    """
    terms = standing.budget.terms
    end = period(terms.per, now)[1]
    if end is None:
        return standing
    ever, until = _Sums(replace(terms, per=Per.TOTAL), now, market), _Sums(terms, now, market)
    by_day = new_by_day(
        (box for box in holdings if matches(terms.match, box)),
        lambda box: ever.spent(box) + until.committed(box),
        begun,
        now,
    )
    known = standing.spent + standing.committed
    return replace(standing, forecast=forecast(known, by_day, end - now))


def refuse_over(found: Iterable[Standing], outcome: str = "nothing was bought") -> None:
    """Refuses a plan that exceeds a budget.

    Raises:
        BudgetError: it does, and the budget does not only warn; ``outcome`` says what was not done.
    """
    for each in found:
        if each.is_over and each.budget.terms.action is not BudgetAction.WARN:
            raise BudgetError(f"{_over_text(each)}; {outcome}", hint=_hint(each))


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierEnd:
    """The end that a budget gives to a plan, and the budget's name."""

    at: datetime
    budget: str


def earlier_end(found: Iterable[Standing], now: datetime, least: timedelta) -> EarlierEnd | None:
    """When the first of the budgets that end boxes is used up by a plan; ``None`` if none is before its end.

    That is a minute before the plan has cost what is left: the least that clouds bill of a machine.

    Args:
        found: the standing of the budgets that the plan is counted in.
        now: the moment.
        least: the shortest life of a box.

    Raises:
        BudgetError: there is no room for the shortest life.
    """
    ends: list[EarlierEnd] = []
    for each in found:
        if each.budget.terms.action is not BudgetAction.DOWN or not each.is_over or not each.plan_per_hour:
            continue
        room = each.left + each.plan
        lives = timedelta(hours=float(room / each.plan_per_hour)) - LEAST_BILLED
        if lives < least:
            raise BudgetError(f"{_over_text(each)}; nothing was bought", hint=_hint(each))
        ends.append(EarlierEnd(at=(now + lives).replace(microsecond=0), budget=each.budget.name))
    return min(ends, key=lambda end: end.at, default=None)


def to_end(
    budgets: Iterable[Budget], holdings: Sequence[Holding], now: datetime, market: Market
) -> dict[str, str]:
    """The living boxes that a budget ends, as all of it was spent: its name by the ids of the boxes.

    Stopped boxes, volumes and snapshots stay: they hold data, and have an end of their own.
    """
    found: dict[str, str] = {}
    for budget in budgets:
        if budget.terms.action is not BudgetAction.DOWN:
            continue
        counted = [box for box in holdings if matches(budget.terms.match, box)]
        for each in _each(budget, counted, now, market):
            if each.standing.is_used_up:
                running = [
                    box
                    for box in each.boxes
                    if isinstance(box, Box) and box.state is BoxState.READY and box.nodes
                ]
                found |= {box.id: budget.name for box in running}
    return found


def warnings(found: Iterable[Standing]) -> list[str]:
    """What to tell of the budgets that a plan is counted in: what is reached, exceeded, or not counted."""
    texts: list[str] = []
    for each in found:
        name = each.budget.name
        if each.is_over:
            texts.append(_over_text(each))
        elif each.reached is not None:
            texts.append(used_text(each))
        texts += [f"budget {name!r} counts the known prices alone: {text}" for text in each.unknown]
    return texts


def used_text(standing: Standing) -> str:
    """How much of a budget is used, for people."""
    share = standing.used * 100 / standing.budget.terms.amount
    return f"budget {standing.budget.name!r} is used to {share:.0f} %: {_sum_text(standing)}"


def matches(match: Match, holding: Holding) -> bool:
    """Whether a budget counts a box. While a box is launched, it is wherever it may be bought."""
    may_be = holding.ceiling if holding.state in LAUNCHING else None
    clouds = may_be.clouds if may_be else (holding.cloud,)
    offer, tags = (holding.offer, holding.wanted.tags) if isinstance(holding, Box) else (None, {})
    model = offer.gpu.model if offer and offer.gpu else ""
    gpus = may_be.gpus if may_be else (model,)
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for name, value in match.tags:
        wanted[name].add(value)
    return (
        (not match.owners or holding.owner in match.owners)
        and (not match.clouds or not set(clouds).isdisjoint(match.clouds))
        and (not match.gpus or not _folded(gpus).isdisjoint(_folded(match.gpus)))
        and all(tags.get(name) in values for name, values in wanted.items())
    )


# --- inside


def _standing(
    budget: Budget, boxes: Sequence[Holding], now: datetime, market: Market, plan: Holding | None
) -> Standing:
    if plan is None:
        found = [each.standing for each in _each(budget, boxes, now, market)]
        return max(found, key=lambda one: one.used, default=_counted(budget, (), now, market, None))
    if budget.terms.per is Per.RUN:
        boxes = [box for box in boxes if _run(box) == _run(plan)]
    return _counted(budget, boxes, now, market, plan)


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a budget counts as one: all of its boxes, or those of one run."""

    boxes: Sequence[Holding]
    standing: Standing


def _each(budget: Budget, holdings: Sequence[Holding], now: datetime, market: Market) -> list[_Counted]:
    """The standing of a budget; one for each run if it is of each run."""
    parts: dict[tuple[str, str] | None, list[Holding]] = {}
    for holding in holdings:
        parts.setdefault(_run(holding) if budget.terms.per is Per.RUN else None, []).append(holding)
    return [_Counted(each, _counted(budget, each, now, market, None)) for each in parts.values()]


def _run(holding: Holding) -> tuple[str, str]:
    return holding.owner, _run_id(holding) or holding.id


def _run_id(holding: Holding) -> str | None:
    return holding.run_id if isinstance(holding, Box) else None


def _counted(
    budget: Budget, holdings: Sequence[Holding], now: datetime, market: Market, plan: Holding | None
) -> Standing:
    """The standing of a budget that counts all of these boxes."""
    sums = _Sums(budget.terms, now, market)
    others = [box for box in holdings if plan is None or box.id != plan.id]
    spent = sum(map(sums.spent, [*others, *([plan] if plan else [])]), Decimal(0))
    replaced = plan.replaces if isinstance(plan, Box) else None
    going_on = [box for box in others if box.id != replaced]
    committed = sum(map(sums.committed, going_on), Decimal(0))
    first = plan or next(iter(holdings), None)
    return Standing(
        budget=budget,
        spent=spent,
        committed=committed,
        plan=sums.committed(plan) if plan else Decimal(0),
        plan_per_hour=sums.rate(plan) if plan else Decimal(0),
        run=(_run_id(first) or first.name) if first and budget.terms.per is Per.RUN else None,
        unknown=tuple(dict.fromkeys(sums.unknown)),
        endless=plan is not None and sums.until(plan) is None,
    )


class _Sums:
    """Adds up in the currency of a budget, and keeps what it cannot add."""

    def __init__(self, terms: Terms, now: datetime, market: Market) -> None:
        self._currency, self._now, self._market = terms.currency, now, market
        self._start, self._end = period(terms.per, now)
        self.unknown: list[str] = []

    def spent(self, holding: Holding) -> Decimal:
        """What a box has cost in the period."""
        total = Decimal(0)
        for charge in charges(holding, self._start, self._now, self._market.billing_of):
            if charge.amount is None:
                self.unknown.append(f"{holding.name}: {charge.unknown}")
            else:
                total += self._converted(holding, charge.amount, charge.currency)
        return total

    def committed(self, holding: Holding) -> Decimal:
        """What a living box will cost from now on, in the period."""
        if holding.state in OVER:
            return Decimal(0)
        until = self.until(holding)
        if until is None:
            self.unknown.append(f"{holding.name}: it has no end")
            return Decimal(0)
        return hours_between(self._now, until) * self.rate(holding)

    def until(self, holding: Holding) -> datetime | None:
        """The end of a box, or of the period; ``None`` if neither has one."""
        kept = holding.keep_until if isinstance(holding, Box) and holding.state is BoxState.STOPPED else None
        end = kept or holding.expires_at
        return min(filter(None, (end, self._end)), default=None)

    def rate(self, holding: Holding) -> Decimal:
        """Per hour: what is billed now; of a box that is launched or started, the most that it may cost."""
        if holding.state in BEGINNING and holding.ceiling is not None:
            self.unknown += [
                f"{holding.name}: no price is known for {each}" for each in holding.ceiling.without
            ]
            return self._converted(holding, holding.ceiling.usd_per_hour, "USD")
        rate = per_hour(holding, self._market.billing_of)
        parts = {"compute": rate.compute, "disk": rate.disk, "address": rate.address}
        parts["snapshot"] = rate.snapshot
        self.unknown += [
            f"{holding.name}: no price is known for its {part}"
            for part, cost in parts.items()
            if cost is None
        ]
        known = [self._converted(holding, each.amount, each.currency) for each in rate.known]
        return sum(known, Decimal(0))

    def _converted(self, holding: Holding, amount: Decimal, currency: str) -> Decimal:
        converted = self._market.converted(amount, currency, self._currency)
        if converted is None and amount:
            self.unknown.append(f"{holding.name}: no rate is known from {currency} to {self._currency}")
        return converted or Decimal(0)


def _folded(names: Iterable[str]) -> set[str]:
    return {name.casefold() for name in names}


def _over_text(standing: Standing) -> str:
    name = standing.budget.name
    if standing.endless:
        return f"budget {name!r} has no period that ends, and this plan has no end: no amount is enough"
    return f"budget {name!r} would be exceeded: {_sum_text(standing)}"


def _sum_text(standing: Standing) -> str:
    """The three figures, and the amount."""
    terms = standing.budget.terms
    spent, committed, plan, amount = (
        format_money(each, terms.currency)
        for each in (standing.spent, standing.committed, standing.plan, terms.amount)
    )
    planned = f", at most {plan} for this plan" if standing.plan_per_hour else ""
    return f"{spent} spent, {committed} committed{planned}; {amount} {per_text(terms.per)}"


def per_text(per: Per) -> str:
    """The period of a budget, for people."""
    return "in total" if per is Per.TOTAL else f"per {per}"


def _hint(standing: Standing) -> str:
    less = "give it an end: --ttl" if standing.endless else "use a shorter --ttl or a cheaper offer"
    return f"{less}; what is counted: gpucloud budget show {standing.budget.name}"

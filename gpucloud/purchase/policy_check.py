"""Holds what is bought, and what is to last longer, against the journal's policy and budgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from gpucloud.ending.stopping import KEEP
from gpucloud.errors import BudgetError
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.policy import Rules
from gpucloud.journal.records import Box, Holding
from gpucloud.journal.store import BilledSince
from gpucloud.planning.plan import Candidate
from gpucloud.policy.budget_check import check_of
from gpucloud.policy.rules import (
    Rented,
    against_machine,
    against_payment,
    forbidden,
    refuse_end,
    refuse_more,
    refuse_request,
)
from gpucloud.runtime.context import Context
from gpucloud_pricing import Market


class PolicyCheck:
    """Refuses a box that the policy forbids; see :data:`gpucloud.journal.store.Forbids`.

    The policy may have been applied since the plan was made, so all of its rules are looked at.

    Args:
        market: for groups of regions, exchange rates, and how clouds bill.
        clock: gives the time in UTC.
        attempts: the offers that may be bought.
    """

    def __init__(self, market: Market, clock: Callable[[], datetime], attempts: Sequence[Candidate]) -> None:
        self._market, self._clock, self._attempts = market, clock, attempts

    def __call__(self, plan: Box, rules: Rules, billed_since: BilledSince) -> None:
        """Counts as of this moment.

        Raises:
            PolicyError: a rule forbids the box.
        """
        for attempt in self._attempts:
            payment = against_payment(rules, str(attempt.purchase), attempt.ceiling_usd)
            rule = against_machine(rules, self._market, attempt) or payment
            if rule is not None:
                raise forbidden(rules, rule, attempt.place)
        refuse_request(
            rules,
            lives=plan.expires_at - plan.created_at if plan.expires_at else None,
            tags=plan.wanted.tags,
            checkpoint_to=plan.wanted.spec.get("checkpoint_to"),
        )
        if rules.boxes or rules.per_hour:
            others = [box for box in billed_since(self._clock()) if box.id not in {plan.id, plan.replaces}]
            refuse_more(rules, plan, others, self._market, is_new_box=True)


class StartCheck:
    """Refuses to start a stopped box that could not be launched now; as :class:`PolicyCheck`.

    Args:
        market: as of :class:`PolicyCheck`.
        clock: gives the time in UTC.
        price_usd: the price of its compute per hour from now on; ``None`` if nothing is paid for it.
        end: its new deadline; ``None`` for none.
    """

    def __init__(
        self, market: Market, clock: Callable[[], datetime], price_usd: Decimal | None, end: datetime | None
    ) -> None:
        self._market, self._clock, self._price_usd, self._end = market, clock, price_usd, end

    def __call__(self, box: Box, rules: Rules, billed_since: BilledSince) -> None:
        """Counts as of this moment; the ceiling of the box is what it will cost.

        Raises:
            PolicyError: a rule forbids it.
        """
        assert box.offer is not None  # noqa: S101  (it has a machine)
        assert box.place is not None  # noqa: S101
        offer, now = box.offer, self._clock()
        gpu = offer.gpu.model if offer.gpu else ""
        machine = Rented(box.place.cloud, box.place.region, offer.instance_type, gpu)
        payment = against_payment(rules, offer.purchase, self._price_usd)
        rule = against_machine(rules, self._market, machine) or payment
        if rule is not None:
            raise forbidden(rules, rule, f"to start {box.name!r} ({offer.instance_type}, {box.place.region})")
        refuse_request(
            rules,
            lives=None if self._end is None else self._end - now,
            tags=box.wanted.tags,
            checkpoint_to=box.wanted.spec.get("checkpoint_to"),
        )
        MoreCheck(lambda: self._market, self._clock)(box, rules, billed_since)


class MoreCheck:
    """Refuses what would make an owner's holdings cost more per hour than the policy allows.

    Args:
        market: gives exchange rates, and how clouds bill; it is called if there is such a rule.
        clock: gives the time in UTC.
    """

    def __init__(self, market: Callable[[], Market], clock: Callable[[], datetime]) -> None:
        self._market, self._clock = market, clock

    def __call__(self, plan: Holding, rules: Rules, billed_since: BilledSince) -> None:
        """Counts as of this moment; the ceiling of the holding is what it adds.

        Raises:
            PolicyError: the rule forbids it.
        """
        if rules.per_hour:
            others = [each for each in billed_since(self._clock()) if each.id != plan.id]
            refuse_more(rules, plan, others, self._market(), is_new_box=False)


def refuse_later_end(context: Context, box: Box, end: datetime | None) -> None:
    """Refuses to move the end of a box beyond what the policy allows; an earlier end than now is no matter.

    Raises:
        PolicyError: the new end is later, and too far off.
    """
    if end is None or (box.expires_at is not None and end > box.expires_at):
        lives = None if end is None else end - context.clock().replace(microsecond=0)  # as ends are
        refuse_end(context.journal.rules(), lives, "the deadline was not changed")


def end_of_keep(context: Context, box: Box, keep: timedelta | None) -> datetime:
    """Until when a box that is stopped now is kept.

    Nobody is kept from stopping: without a time from the user it is as long as the policy allows, and a
    budget that does not reach so far is a warning.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box, running or stopped.
        keep: the user's time; ``None`` for 7 days.

    Raises:
        PolicyError: the policy forbids to keep a box for so long.
        BudgetError: what is billed of it until then would exceed a budget.
    """
    rules, now = context.journal.rules(), context.clock().replace(microsecond=0)
    if keep is not None:
        refuse_end(rules, keep, "nothing was stopped", "--keep")
    end = now + (keep or (KEEP if rules.ttl is None else min(KEEP, rules.ttl)))
    limits = check_of(context, "nothing was stopped" if keep else "it is stopped all the same")
    if limits is not None:
        try:
            limits.look(context.journal, _stopped(box, end, now))
        except BudgetError as error:
            error.hint = f"use a shorter time: gpucloud stop {box.name} --keep 12h"
            if keep is not None:
                raise
            context.warn("stop", error.message, error.hint)
    return end


def _stopped(box: Box, end: datetime, now: datetime) -> Box:
    """A box as it will be once it is stopped: only its compute is billed no longer."""
    usage = (
        replace(each, end=now) if each.part == "compute" and each.end is None else each for each in box.usage
    )
    return replace(box, state=BoxState.STOPPED, expires_at=end, keep_until=end, usage=tuple(usage))

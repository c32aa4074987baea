"""The steps of every call that buys, from a spec to one box or several: settle, plan, confirm, provision."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gpucloud.api.results import Proposal
from gpucloud.boxes.launch import begin_echo, make_ready, provision, purchase_of
from gpucloud.bring_up.bring_up import targets
from gpucloud.ending.discovery import (
    DiscoveryResult,
    PendingQuery,
    WaitPolicy,
    begin,
    finish,
    refuse_taken_name,
)
from gpucloud.ending.down import end_all, merged
from gpucloud.errors import BudgetError, GpucloudError, PolicyError, UsageError
from gpucloud.journal.budgets import Budget
from gpucloud.journal.facts import Facts
from gpucloud.journal.facts import Wanted as JournalWanted
from gpucloud.journal.records import Box, a_plan
from gpucloud.market.catalog import Catalog, check_places
from gpucloud.planning.launch_plan import plan_launch
from gpucloud.planning.lifetime import ceiling_of, cost_limit, lifetime, refuse_short
from gpucloud.planning.plan import CHEAPEST, Candidate, Key, Plan
from gpucloud.planning.saved_plan import renewed
from gpucloud.planning.spread import attempts_of_next
from gpucloud.planning.waiting import within
from gpucloud.policy.budget_check import BudgetCheck, end_of_budgets
from gpucloud.purchase.failover import abandon, check_name, first_that_starts, planned
from gpucloud.purchase.order import BoxPurchase, BoxRequest, LaunchOrder
from gpucloud.purchase.policy_check import PolicyCheck
from gpucloud.resources import rfc3339
from gpucloud.runs.first_step import settle_first
from gpucloud.runs.job import start_once
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Call
from gpucloud.spec.model import Spec
from gpucloud.ssh.client import forget
from gpucloud.ssh.job import script_of
from gpucloud.ssh.keys import key_folder
from gpucloud.storage.attachments import holding
from gpucloud_pricing import Market
from gpucloud_pricing.places import admits

NAME_S = 2.0
"""How much longer than for the plan a launch waits until the clouds report whether its name is taken."""

Confirm = Callable[[Proposal], bool]
"""Confirms or refuses a purchase."""


def names_of(spec: Spec) -> list[str]:
    """The names of the boxes that a spec names: its own, or one with a number for each of several."""
    if spec.name is None:
        return []
    return [spec.name] if spec.count == 1 else [f"{spec.name}-{n}" for n in range(1, spec.count + 1)]


@dataclass(frozen=True, slots=True)
class NameSearch:
    """A search of clouds for machines with the names of new boxes: the journal may have been lost."""

    _context: Context
    _names: Sequence[str]
    _asked: Mapping[str, PendingQuery]

    @classmethod
    def begin(cls, context: Context, names: Sequence[str], clouds: Iterable[str]) -> NameSearch:
        """Starts to search these clouds; nothing is searched without names."""
        search = replace(context.search(), machines_only=True)
        return cls(context, names, begin(context, search, dict.fromkeys(clouds if names else ())))

    def result(self) -> DiscoveryResult:
        """What was found, for :func:`refuse_taken_name`; a cloud without an answer is named in a warning."""
        discovery = finish(self._context, self._asked, WaitPolicy(first_s=NAME_S, whole_s=NAME_S, news_s=0.0))
        for cloud in sorted({region.cloud for region in discovery.unread}):
            named = " or ".join(map(repr, self._names))
            self._context.warn(
                "plan",
                f"{cloud} did not answer, so a box {named} there could not be ruled out; "
                "launching all the same.",
            )
        return discovery


@dataclass(frozen=True, slots=True)
class Buyer:
    """The launch of one box, or of several: its inputs and its steps.

    ``saved`` is a plan that must still be valid; ``confirm`` is called before anything is bought.
    """

    context: Context
    catalog: Catalog
    wanted: BoxRequest
    saved: Plan | None = None
    confirm: Confirm | None = None

    def settle_first(self) -> None:
        """Finishes what earlier commands left; refuses names that boxes have after that."""
        settle_first(self.context)
        for name in names_of(self.wanted.spec):
            check_name(self.context, name)

    def buy(self) -> Box:
        """Plans at today's prices, confirms, buys the first attempt that starts and brings it up.

        Returns:
            The box, which this process still holds.

        Raises:
            PriceError: the saved plan is no longer valid.
            UsageError: the purchase was not confirmed, or the name is taken; nothing was bought.
            GpucloudError: nothing started; nothing is left, unless the error says so.
        """
        return provision(self.context, self.agree())

    def agree(self, before: LaunchOrder | None = None) -> LaunchOrder:
        """Plans at today's prices and confirms the purchase; starts to ask for this machine's address.

        Args:
            before: what was agreed to before, of the same: nothing is confirmed once more, and nothing costs
                more than was agreed then.

        Raises:
            GpucloudError: as :meth:`buy`; nothing was bought.
        """
        order = self._offered()
        if before is not None:
            return replace(order, plan=within(before.plan, order.plan))
        return order if self.confirm is None else self._agreed(order, self.confirm)

    def _offered(self) -> LaunchOrder:
        names = names_of(self.wanted.spec)
        echo = begin_echo(self.context, self.wanted.spec)
        search = self.search_for(names)
        order = self._order(self.catalog.market, echo)
        discovery = search.result()
        for name in names:
            refuse_taken_name(self.context, name, discovery)
        return order

    def search_for(self, names: Sequence[str]) -> NameSearch:
        """Starts to search the clouds that may be used for machines with these names."""
        return NameSearch.begin(self.context, names, self._clouds())

    def start(self, box: Box) -> None:
        """Starts the spec's command; if that fails, the box is taken down."""
        context, command = self.context, self.wanted.spec.run
        if not command:
            return
        assert context.state is not None  # noqa: S101  (who buys has a state folder)
        keys = key_folder(context.state, box.id)
        first = targets(box, keys, context.proxy_command)[0]
        context.tell("job", command.splitlines()[0])
        try:
            start_once(context, box, [first], [script_of(command, self.wanted.environment)])
        except BaseException as error:
            abandon(context, box, error)
            forget(keys, box.id, nodes=len(box.nodes))
            raise

    def _order(self, market: Market, echo: Call | None) -> LaunchOrder:
        """Today's plan, to be bought at once. A saved plan must be equal to it; its figures are not used."""
        spec = self.wanted.spec
        check_places(market, spec.demand())
        plan = plan_launch(
            self.context,
            market,
            spec,
            accept_snapshot_price=self.wanted.accept_snapshot_price,
            to_buy=True,
            avoided=self.wanted.avoided,
            carried=self.wanted.carried,
        )
        if self.saved is not None:
            plan = renewed(self.saved, plan)
        budgets = self.context.journal.budgets()
        plan = self._with_room(plan, budgets)
        box = self._planned(plan)
        found = end_of_budgets(self.context, market, box, budgets)
        order = LaunchOrder(request=self.wanted, plan=plan, market=market, echo=echo, end=box.expires_at)
        if found is None:
            return order
        told = f"Budget {found.budget!r} is used up at {rfc3339(found.at)}: the box ends then"
        self.context.notice("plan", told)
        return replace(order, end=found.at)

    def _with_room(self, plan: Plan, budgets: Sequence[Budget]) -> Plan:
        """The plan; without what follows its cheapest attempts where a budget or the policy has no room.

        With it, all of them would be refused, or the box would end earlier.
        """
        if len(plan.attempts) <= CHEAPEST:
            return plan
        context, market = self.context, self.catalog.market
        first = replace(plan, attempts=plan.attempts[:CHEAPEST])
        box = self._planned(plan)
        try:
            if budgets:
                BudgetCheck(lambda: market, context.clock)(box, budgets, context.journal.billed_since)
            check = PolicyCheck(market, context.clock, plan.attempts)
            check(box, context.journal.rules(), context.journal.billed_since)
            ends = [end_of_budgets(context, market, each, budgets) for each in (box, self._planned(first))]
        except (BudgetError, PolicyError):
            return first
        return plan if ends[0] == ends[1] else first

    def _planned(self, plan: Plan) -> Box:
        """A box of a plan, which is not in the journal; it ends as its spec says.

        Raises:
            UsageError: there is a budget, but a price that it must cover is not known.
        """
        market, wanted = self.catalog.market, self.wanted
        lives = lifetime(plan, wanted.spec, market)
        ends = [wanted.ends_by, plan.created_at + lives if lives else None]
        return a_plan(
            name=wanted.spec.name or "this box",
            owner=self.context.owner,
            run_id=wanted.run_id,
            expires_at=min((each for each in ends if each is not None), default=None),
            facts=Facts(
                wanted=JournalWanted(spec=dict(plan.spec)),
                ceiling=ceiling_of(plan, wanted.spec, market),
                replaces=wanted.instead_of.id if wanted.instead_of else None,
            ),
            at=plan.created_at,
        )

    def _agreed(self, order: LaunchOrder, confirm: Confirm) -> LaunchOrder:
        """Shows the purchase and asks for confirmation.

        Raises:
            UsageError: it was refused, or confirmed too late for the deadline.
        """
        limit = cost_limit(order.plan, self.wanted.spec, order.market)
        if order.end is not None:  # a budget may end it before its ttl
            limit = replace(limit, lives=order.end - order.plan.created_at, until=order.end)
        with self.context.tasks.asking():
            agreed = confirm(Proposal(plan=order.plan, limit=limit))
        if not agreed:
            raise UsageError("nothing was launched")
        answered = self.context.clock()
        if order.end is not None:
            refuse_short(order.end - answered, "--ttl")
        return replace(order, agreed_at=answered)

    def _clouds(self) -> list[str]:
        """The installed clouds that the spec allows."""
        allowed = self.wanted.spec.clouds
        return [name for name in self.context.clouds.names() if admits(allowed, frozenset({name}))]


def require_single(wanted: Spec | Plan, instead: str) -> None:
    """Refuses more than one box.

    Args:
        wanted: the spec, or the plan of one.
        instead: what launches several.

    Raises:
        UsageError: it asks for several.
    """
    count = wanted.spec.get("count", 1) if isinstance(wanted, Plan) else wanted.count
    if count != 1:
        raise UsageError(f"this launches one box, and the spec asks for {count}", hint=f"use {instead}")


def launch_all(buyer: Buyer, order: LaunchOrder) -> tuple[list[Box], GpucloudError | None]:
    """Buys as many boxes as the spec counts and brings them up; what ends this call ends all.

    Each is bought at a place that the spread allows; the first that cannot be bought is the last.

    Args:
        buyer: what launches.
        order: what was agreed to, for all of them.

    Returns:
        The boxes that are ready, and why others are not.

    Raises:
        GpucloudError: none is ready; nothing is left, unless the error says so.
    """
    context, asked = buyer.context, order.request.spec
    failures: list[GpucloudError] = []
    bought: list[tuple[Box, BoxPurchase]] = []
    with holding(context, asked) as volumes:
        for number, spec in enumerate(_specs(asked), start=1):
            if asked.count > 1:
                context.tell("plan", f"box {number} of {asked.count}")
            one = order.of(spec, _attempts_of_next(order.plan, asked, bought))
            with _ended_if_this_fails(context, [box for box, _ in bought]):
                try:
                    with purchase_of(context, one, volumes) as purchase:
                        named = context.about(purchase.name)
                        with planned(named, purchase) as (box, tried):
                            started = first_that_starts(named, box, purchase, tried)
                except GpucloudError as error:
                    if not bought or context.tasks.signum is not None:
                        raise
                    failures.append(error)
                    break
            bought.append((started, purchase))
        return _bring_up(buyer, bought, failures)


def _bring_up(
    buyer: Buyer, bought: Sequence[tuple[Box, BoxPurchase]], failures: list[GpucloudError]
) -> tuple[list[Box], GpucloudError | None]:
    """Brings up the boxes of a launch, and starts their command; as :func:`launch_all`."""
    context = buyer.context
    ready: list[Box] = []
    for number, (each, purchase) in enumerate(bought, start=1):
        with _ended_if_this_fails(context, [*ready, *(other for other, _ in bought[number:])]):
            try:
                box = make_ready(context, each, purchase)
                buyer.start(box)
            except GpucloudError as error:
                if context.tasks.signum is not None:
                    raise
                failures.append(error)
                continue
            context.journal.release(box)
            ready.append(box)
    if not ready:
        raise failures[0]
    worst = max(failures, key=lambda each: bool(each.left), default=None)
    for other in failures:
        if other is not worst:
            context.warn("launch", other.message)
    return ready, worst


def _attempts_of_next(
    plan: Plan, spec: Spec, bought: Sequence[tuple[Box, BoxPurchase]]
) -> tuple[Candidate, ...]:
    """What to try for the next box: where the spread allows it, and last what was refused for one before."""
    offers: list[Candidate] = []
    refused: set[Key] = set()
    for box, purchase in bought:
        tried = purchase.order.plan.attempts
        offers.append(_offer_of(box, tried))
        refused.update(attempt.key for attempt in tried[: tried.index(offers[-1])])
    allowed = attempts_of_next(plan.attempts, offers, spec.count, spec.spread)
    return tuple(sorted(allowed, key=lambda attempt: attempt.key in refused))


def _specs(spec: Spec) -> list[Spec]:
    """The spec of each box."""
    if spec.count == 1:
        return [spec]
    names: Sequence[str | None] = names_of(spec) or [None] * spec.count
    return [spec.replaced(name=name, count=1, spread=None) for name in names]


def _offer_of(box: Box, attempts: Sequence[Candidate]) -> Candidate:
    """The attempt that became a box."""
    place, offer = box.place, box.offer
    assert place is not None and offer is not None  # noqa: S101, PT018  (it was bought)
    bought = (place.cloud, place.region, offer.instance_type, offer.purchase)
    return next(
        each
        for each in attempts
        if (each.cloud, each.region, each.instance_type, each.purchase) == bought
        and each.zone in {"", place.zone}
    )


@contextmanager
def _ended_if_this_fails(context: Context, others: Sequence[Box]) -> Generator[None]:
    """Ends the other boxes of a launch whose body raises; the body itself ends the box that it works on.

    Raises:
        GpucloudError: one of them may still be billed.
    """
    try:
        yield
    except BaseException as error:
        troubles: list[GpucloudError] = []
        if others:
            end_all(context, [context.journal.box(box.id) for box in others], troubles)
        if (trouble := merged(troubles)) is not None:
            raise trouble from error
        raise

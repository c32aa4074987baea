"""Launches one box: tries the plan's attempts until one starts, and leaves nothing behind when none does."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from gpucloud.clouds.audit import about
from gpucloud.ending.teardown import TAKE_DOWN_S, end_machine, end_machines, take_down
from gpucloud.ending.unrecorded import end_unrecorded
from gpucloud.errors import (
    COVERED,
    RULES,
    BoxLostError,
    CleanupIncompleteError,
    CloudError,
    ErrorClass,
    GpucloudError,
    Next,
    NoOfferError,
    OutcomeUnknownError,
    Scope,
    UsageError,
)
from gpucloud.journal.errors import ForbiddenError, JournalError, StaleWriterError
from gpucloud.journal.events import Made, Seen, named
from gpucloud.journal.facts import Facts, Wanted
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState, new_id
from gpucloud.journal.records import Box, Holding
from gpucloud.planning.lifetime import ceiling_of
from gpucloud.planning.plan import MAX_ATTEMPT_SECONDS, Candidate
from gpucloud.planning.quota import advise
from gpucloud.policy.budget_check import BudgetCheck
from gpucloud.purchase.attempt import begin, until_running
from gpucloud.purchase.ceiling import confirmed
from gpucloud.purchase.creation import create
from gpucloud.purchase.order import BoxPurchase
from gpucloud.purchase.policy_check import PolicyCheck
from gpucloud.purchase.replacement import NodeReplacement
from gpucloud.resources import ResourceKind, Search, SearchResult, State, rfc3339
from gpucloud.runtime.context import Context
from gpucloud.runtime.events import AttemptRefused
from gpucloud.runtime.tasks import TimedOutError


@dataclass(slots=True)
class Tried:
    """The attempts so far, and the candidates that their refusals rule out.

    ``until`` is when no further attempt is begun. ``learned`` is what no later round of a wait changes: what
    a place does not have at all.
    """

    until: datetime
    attempts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    errors: list[CloudError] = field(default_factory=list[CloudError])
    lost: BoxLostError | None = None
    over_quota: Candidate | None = None
    learned: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    _blocked: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])

    def failed(self, candidate: Candidate, error: CloudError) -> None:
        """Records a refusal."""
        self.errors.append(error)
        self.attempts.append(
            {
                **candidate.where(),
                "class": str(error.error_class),
                "code": error.code,
                "message": error.message,
                "hint": error.hint,
                "request_id": error.request_id,
            }
        )
        if error.error_class == ErrorClass.QUOTA:
            self.over_quota = candidate
        error.scope = self._reach(candidate, error)
        ruled_out = self.learned if error.error_class == ErrorClass.UNSUPPORTED else self._blocked
        ruled_out.add(_part(candidate, error.scope))

    def _reach(self, candidate: Candidate, error: CloudError) -> Scope:
        """How far a refusal reaches: a code that no table knows is the account's in its second region."""
        if not error.listed and any(
            (each["cloud"], each["code"]) == (candidate.cloud, error.code)
            and each["region"] != candidate.region
            for each in self.attempts
        ):
            return Scope.ACCOUNT
        return error.scope or Scope.ATTEMPT

    def ended_itself(self, candidate: Candidate, error: BoxLostError) -> None:
        """Records a machine that powered itself off while it booted: one may be an accident.

        Raises:
            BoxLostError: it is the second. Every other machine would power itself off as well.
        """
        self.attempts.append(
            {
                **candidate.where(),
                "class": error.error_class,
                "code": None,
                "message": error.message,
                "hint": error.hint,
                "request_id": None,
            }
        )
        if self.lost is not None:
            error.message = (
                f"two machines powered themselves off while they booted; the last: {error.message}"
            )
            error.hint = (
                "a third would do the same: check this machine's clock (gpucloud check), --ttl and --image"
            )
            raise error
        self.lost = error

    def skip(self, candidate: Candidate) -> bool:
        """Whether an earlier refusal covers this one."""
        return any(_part(candidate, scope) in self._blocked | self.learned for scope in Scope)

    def verdict(self) -> GpucloudError:
        """The error of a launch that has no attempt left, with the exit code that fits all refusals."""
        if not self.errors:
            if self.lost is not None:
                return self.lost
            return NoOfferError("no offer could be tried", hint="see the offers: gpucloud offers --why")
        for error_class in (
            ErrorClass.CAPACITY,
            ErrorClass.UNSUPPORTED,
            ErrorClass.QUOTA,
            ErrorClass.PRICE,
            ErrorClass.AUTH,
            ErrorClass.BILLING,
        ):
            of_class = [error for error in self.errors if error.error_class == error_class]
            if of_class:
                return self._summary(of_class[-1])
        return self._summary(self.errors[-1])

    def _summary(self, last: CloudError) -> GpucloudError:
        count = len(self.attempts)
        last.message = f"none of {count} attempt{'s' if count != 1 else ''} started; the last: {last.message}"
        last.attempts = self.attempts
        return last


def _part(candidate: Candidate, scope: Scope) -> tuple[str, ...]:
    """What a refusal of this scope covers around a candidate."""
    return (scope, *(str(getattr(candidate, name)) for name in COVERED[scope]))


def launch(context: Context, purchase: BoxPurchase) -> Box:
    """Provisions one box and returns it in state ``bootstrapping``, its lease still held.

    Args:
        context: clouds, journal, clock and progress of this call.
        purchase: what to buy; the offers of its plan are tried in their order.

    Raises:
        GpucloudError: as :func:`planned` and :func:`first_that_starts`; nothing is left, unless it says so.
    """
    with planned(context, purchase) as (box, tried):
        return first_that_starts(context, box, purchase, tried)


@contextmanager
def planned(context: Context, purchase: BoxPurchase) -> Generator[tuple[Box, Tried]]:
    """Writes a box into the journal, whose machines the body buys; what a failure leaves is deleted.

    Raises:
        BudgetError: it would exceed a budget; nothing was spent.
        PolicyError: the policy forbids it; nothing was spent.
        UsageError: the name is taken; nothing was spent.
        StaleWriterError: nothing started, and another process has taken the box over to end it.
        CleanupIncompleteError: something may still be billed.
    """
    order, request = purchase.order, purchase.order.request
    limits = BudgetCheck(lambda: order.market, context.clock)
    box = context.journal.plan(
        Box,
        id=purchase.box,
        name=purchase.name,
        owner=context.owner,
        run_id=request.run_id,
        op=new_id("op-", context.clock(), context.randomness(10)),
        expires_at=order.end,
        facts=Facts(
            wanted=Wanted(spec=dict(order.plan.spec), image=purchase.image),
            disk_gib=request.spec.disk,
            attended=request.attended,
            replaces=request.instead_of.id if request.instead_of else None,
            ceiling=ceiling_of(order.plan, request.spec, order.market),
        ),
        lease=context.lease(),
        alone=request.attended and request.instead_of is None,
        run=request.run,
        instead_of=request.instead_of,
        limits=limits,
        forbids=PolicyCheck(order.market, context.clock, order.plan.attempts),
    )
    for text in limits.warnings:
        context.warn("plan", text)
    context.tasks.clean_up = request.clean_up or f"gpucloud down {purchase.name} --yes"
    tried = Tried(learned=request.learned, until=order.until or last_attempt(context))
    try:
        yield box, tried
    except BaseException as error:
        abandon(context, box, error, tried.attempts)
        if isinstance(error, CloudError) and context.journal.latest(box).epoch != box.epoch:
            raise StaleWriterError(box.name) from error  # who waits for capacity must not buy what was ended
        raise


def replace_machines(context: Context, box: Box, purchase: BoxPurchase, why: str) -> Box:
    """Ends the unfit machines of a box and buys others; otherwise like :func:`launch`.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: a box in state ``bootstrapping`` that this process holds.
        purchase: that of its launch, with keys that no machine has used; the same offer may well give
            another machine.
        why: the fault of the machines, for the box's record.
    """
    context.tell("down", f"{why}; deleting the machines and trying once more")
    end_machines(context, box, budget_s=TAKE_DOWN_S)
    context.journal.write(box, Seen(facts=Facts(replaced=why)))
    tried = Tried(until=last_attempt(context))
    return first_that_starts(context, box, _apart(context, purchase), tried)


def replace_node(
    context: Context, box: Box, purchase: BoxPurchase, opening: NodeReplacement, why: str
) -> Box | None:
    """Ends the unfit machine of one node, and buys another one of the same offer in its place.

    Its rank, and what the box's nodes have in common, stay; at no time are there two machines for one node.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: a box in state ``bootstrapping`` that this process holds.
        purchase: that of its launch, with a host key that no machine has used.
        opening: the node.
        why: the fault of the machine, for the box's record.

    Returns:
        The box; ``None`` where none could be bought: what that has left is in the journal, to be ended with
        the other machines.

    Raises:
        CloudError: the outcome of the create call is unknown.
        CleanupIncompleteError: the end of the machine could not be confirmed.
        GpucloudError: the new machine costs more than agreed, or ended itself.
    """
    rank, candidate = opening.vacancy.rank, opening.candidate
    context.tell("down", f"{why}; deleting node {rank} and buying another one in its place")
    try:
        end_machine(context, box, rank, budget_s=TAKE_DOWN_S)
        context.journal.write(box, Seen(facts=Facts(replaced=why)))
        offer = confirmed(context, purchase.prices, candidate)
        alone = replace(_apart(context, purchase), vacancy=opening.vacancy)
        box = context.journal.held(box)
        with about(box=box.id):
            attempt = begin(context, box, alone, offer)
            made = create(context, box, attempt)
            return until_running(context, box, attempt, made, purchase.prices)
    except CloudError as error:
        if isinstance(error, OutcomeUnknownError):
            raise
        note_left(context, box, candidate.cloud, candidate.region)
        context.emit(_refused("create", candidate, error, error.message, "replacing all nodes"))
        return None


def _apart(context: Context, purchase: BoxPurchase) -> BoxPurchase:
    """The purchase with a new operation id, which tells new machines from old ones that clouds still show."""
    return replace(purchase, op=new_id("op-", context.clock(), context.randomness(10)))


def abandon(
    context: Context,
    holding: Holding,
    cause: BaseException | None,
    attempts: list[dict[str, Any]] | None = None,
    *,
    ends_as: BoxState = BoxState.FAILED,
) -> None:
    """Deletes what was created before a failure; leaves a box that was taken over to its new holder.

    Without a ``cause`` nothing has failed: it has served its purpose.

    Raises:
        CleanupIncompleteError: the deletion cannot be confirmed.
    """
    if isinstance(cause, GpucloudError) and attempts:
        cause.attempts = attempts
    context.tell("down", f"deleting the resources of {holding.name!r}")
    with context.tasks.finishing():
        try:
            try:
                take_down(context, holding, budget_s=TAKE_DOWN_S, ends_as=ends_as)
            except StaleWriterError as stale:
                context.tell("down", stale.message)
            except (ForbiddenError, JournalError) as broken:  # it is ours, also once we may not write
                context.tell("down", f"{broken.message}; deleting the box anyway")
                end_unrecorded(context, holding, budget_s=TAKE_DOWN_S)
        except CleanupIncompleteError as owed:
            owed.attempts = attempts or []
            owed.message = owed.message if cause is None else f"{cause}; {owed.message}"
            raise owed from cause
        finally:
            context.journal.release(holding)


def last_attempt(context: Context) -> datetime:
    """When a launch that begins now begins no further attempt."""
    return context.clock() + timedelta(seconds=MAX_ATTEMPT_SECONDS)


def first_that_starts(context: Context, box: Box, purchase: BoxPurchase, tried: Tried) -> Box:
    """The box, in state ``bootstrapping``, with machines of the first offer that starts.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box, which is in the journal; this process holds it.
        purchase: what to buy.
        tried: what was tried before; this adds to it.

    Raises:
        CloudError: nothing started; ``attempts`` lists the attempts.
        CleanupIncompleteError: something may still be billed.
        InterruptedBySignal: a signal came.
    """
    for candidate in purchase.order.plan.attempts:
        if tried.skip(candidate):
            continue
        if tried.attempts and context.clock() > tried.until:
            break
        try:
            offer = confirmed(context, purchase.prices, candidate)
        except CloudError as error:
            tried.failed(candidate, error)
            context.emit(_refused("quote", candidate, error, error.message, _then(error)))
            continue
        try:
            with about(box=box.id):
                attempt = begin(context, box, purchase, offer)
                made = create(context, box, attempt)
                return until_running(context, box, attempt, made, purchase.prices)
        except CloudError as error:
            if isinstance(error, OutcomeUnknownError):
                raise
            tried.failed(candidate, error)
            _clear(context, box, candidate)
            said = error.code if error.listed else error.message
            context.emit(_refused("create", candidate, error, f"{candidate.place}: {said}", _then(error)))
            if _is_final(error):
                raise
        except BoxLostError as error:
            tried.ended_itself(candidate, error)
            _clear(context, box, candidate)
            context.tell("create", f"{error.message}; trying the next offer")
    raise _verdict(context, purchase, tried)


def _is_final(error: CloudError) -> bool:
    """Whether no other offer is tried: another one would be refused, too.

    Of a code that no table knows this is not certain.
    """
    following = RULES[ErrorClass(error.error_class)].next
    return following is Next.AGAIN or (following is Next.STOP and error.listed)


def _then(error: CloudError) -> str:
    """What follows after a refusal, for people."""
    match error.scope:
        case Scope.ACCOUNT if not error.listed:
            return f"refused in two regions: leaving out {error.cloud}"
        case Scope.ACCOUNT:
            return f"leaving out {error.cloud}"
        case Scope.EVERYWHERE:
            return "every other offer would be refused, too"
        case _:
            return "trying the next offer"


def _verdict(context: Context, purchase: BoxPurchase, tried: Tried) -> GpucloudError:
    """The error of all attempts; one of a type's quota says how to ask for more of just that."""
    failure = tried.verdict()
    if not isinstance(failure, CloudError) or failure.error_class != ErrorClass.QUOTA:
        return failure
    if failure.scope is Scope.TYPE_IN_REGION and tried.over_quota:
        advise(context, failure, tried.over_quota, purchase.spec.nodes)
    return failure


def _refused(step: str, candidate: Candidate, error: CloudError, text: str, then: str) -> AttemptRefused:
    return AttemptRefused(
        step,
        f"{text}; {then}",
        cloud=candidate.cloud,
        region=candidate.region,
        zone=candidate.zone,
        instance_type=candidate.instance_type,
        error_class=str(error.error_class),
        code=error.code,
    )


def _clear(context: Context, box: Box, candidate: Candidate) -> None:
    """Ensures that a refused attempt left nothing billable behind, before the next one.

    Raises:
        CleanupIncompleteError: something is left and cannot be deleted.
    """
    if note_left(context, box, candidate.cloud, candidate.region):
        end_machines(context, box, budget_s=TAKE_DOWN_S)


def note_left(context: Context, holding: Holding, cloud_name: str, region: str) -> bool:
    """Journals what a refused creation has made all the same; False if the cloud cannot be read.

    What is not found now is looked for again when the box is taken down.
    """
    try:
        cloud = context.clouds.usable(cloud_name)
        search = Search(box=holding.id, regions=(region,))
        found: SearchResult = context.tasks.run(lambda: cloud.find(search))
    except (CloudError, TimedOutError):
        return False
    for resource in found.resources:
        if resource.state is not State.GONE and resource.ref.kind is not ResourceKind.GROUP:
            context.journal.write(holding, Made(resource=named(resource.ref)))
    return True


def check_name(context: Context, name: str) -> None:
    """Refuses a name that a living box has, before any cloud is called.

    Raises:
        UsageError: the name is taken.
    """
    for box in context.journal.holdings(Holding, owner=context.owner):
        if box.name != name:
            continue
        hint = f"choose another name, or delete it: {box.removal}"
        unknown = [i for i in context.journal.intents(box.id, unresolved=True) if i.status == "open"]
        if box.state is BoxState.DELETING and unknown:
            until = max(intent.at for intent in unknown) + CONSISTENCY_WINDOW
            hint = f"its interrupted launch may still appear until {rfc3339(until)}: choose another --name"
        raise UsageError(f"a {box.kind} named {name!r} exists already ({box.state})", hint=hint)

"""The two steps of every purchase: what is prepared for it, and the billable call with its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

from gpucloud.clouds.abilities import Images, Snapshots, Volumes
from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.provider import Record
from gpucloud.ending.deadline import note_timers
from gpucloud.ending.pending import incomplete_error, pending_refs
from gpucloud.ending.resolution import adopt
from gpucloud.errors import CloudError, ErrorClass, InterruptedBySignal, OutcomeUnknownError
from gpucloud.journal.errors import StaleWriterError
from gpucloud.journal.events import Made, Making, Resolved, named
from gpucloud.journal.records import Box, Holding
from gpucloud.resources import (
    Order,
    Ref,
    Request,
    Resource,
    ResourceKind,
    SnapshotOrder,
    VolumeOrder,
    short_id,
)
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Call, TimedOutError
from gpucloud_pricing.values import Money

PREPARE_TIMEOUT_S = 120.0
CREATE_TIMEOUT_S = 180.0
IN_FLIGHT_S = 20.0
"""How long a call under way may take after a signal: most of the one minute is kept for the deletion."""

AnyOrder = Order | VolumeOrder | SnapshotOrder


def prepare(
    context: Context,
    holding: Holding,
    cloud: Cloud,
    order: AnyOrder,
    call: Callable[[Record], Request],
    *,
    timeout_s: float = PREPARE_TIMEOUT_S,
) -> Request:
    """Makes what an order needs besides itself, and journals each resource before and after its call."""
    recorder = _Recorder(context, holding, order, cloud.name)
    preparing = context.tasks.start(partial(call, recorder))
    try:
        request: Request = context.tasks.wait(preparing, timeout_s)
    except InterruptedBySignal:
        with context.tasks.finishing(), suppress(CloudError, TimedOutError):
            context.tasks.wait(preparing, IN_FLIGHT_S)
        raise
    except TimedOutError as error:
        late = f"what {order.name} needs in {order.region} was not ready in time ({error})"
        raise cloud.late(late) from error
    return request


@dataclass(frozen=True, slots=True)
class _Recorder:
    """Journals each resource that ``prepare`` creates, before and after the call."""

    context: Context
    box: Holding
    order: AnyOrder
    cloud: str

    def making(self, kind: ResourceKind, name: str, /) -> None:
        """Journals a resource that is about to be created."""
        ref = Ref(cloud=self.cloud, account=self.order.account, region=self.order.region, kind=kind, id="")
        self.context.journal.write(self.box, Making(resource=named(ref, name)))

    def made(self, ref: Ref, /) -> None:
        """Journals the id of a resource that was created."""
        self.context.journal.write(self.box, Made(resource=named(ref, self.order.name)))

    def armed(self, timers: Sequence[str], /) -> None:
        """Journals timers that were set, by this or an earlier try of the attempt."""
        assert isinstance(self.box, Box)  # noqa: S101  (nothing else has timers)
        known = self.context.journal.now_of(self.box).timers
        note_timers(self.context, self.box, (*known, *timers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of a purchase, whose intent is in the journal: the billable call, and what is known of it.

    Attributes:
        cloud: the cloud.
        order: what is bought, as the cloud is told.
        request: what ``prepare`` returned.
        intent: the id of the intent.
        look: looks whether a call without a clear answer created everything after all.
        timeout_s: how long the call may take.
        rank: the node for which a machine is bought; ``None`` for all nodes.
        price: the price per hour and node, for the audit log.
    """

    cloud: Cloud
    order: AnyOrder
    request: Request
    intent: str
    look: Callable[[], Sequence[Resource]]
    timeout_s: float = CREATE_TIMEOUT_S
    rank: int | None = None
    price: Money | None = None


def create(context: Context, holding: Holding, attempt: Attempt) -> Sequence[Resource]:
    """Makes the billable call and journals its outcome, also when it is interrupted.

    Args:
        context: clouds, journal, clock and progress of this call.
        holding: the holding that is bought; this process holds it.
        attempt: the call.
    """
    # A process that was paused may resume long after another one has taken its box.
    still_held = partial(context.journal.check, holding)
    facts = {} if attempt.price is None else {"price": attempt.price.document()}
    with about(**facts):
        creating = context.tasks.start(partial(_call_of(attempt), still_held))
    try:
        answered = context.tasks.until_done([creating], attempt.timeout_s)
    except InterruptedBySignal:
        _finish(context, holding, attempt, creating)
        raise
    if not answered:
        raise OutcomeUnknownError(
            f"{attempt.cloud.name}: the create call was not answered in time",
            error_class=ErrorClass.SERVER,
            cloud=attempt.cloud.name,
        )
    try:
        made: Sequence[Resource] = creating.value()
    except OutcomeUnknownError as error:
        made = _look(context, attempt.look, error)
        if not made:
            if error.error_class is ErrorClass.BAD_PARAM:
                # The cloud rejected the request itself and lists nothing: check once more later.
                _resolve(context, holding, attempt.intent, "watched")
                if not error.listed and not error.earlier_unknown:
                    raise error.refusal() from error
            raise
    except CloudError as error:
        _resolve_refused(context, holding, attempt.intent, error)
        raise
    _adopt(context, holding, attempt, made)
    return list(made)


def _call_of(attempt: Attempt) -> Callable[[Callable[[], None]], Sequence[Resource]]:
    """The billable call of an order; what it is given is called before each try.

    No other module makes one, but for the start of a machine (:mod:`gpucloud.purchase.power_on`).
    """
    cloud, request = attempt.cloud, attempt.request
    match attempt.order:
        case Order():
            return partial(cloud.bill, "create the instance", partial(cloud.provider.create, request))
        case VolumeOrder():
            what = "create the volume"
            return lambda before: (
                cloud.bill_by(Volumes, what, lambda of: of.create_volume(request), before),
            )
        case SnapshotOrder() if attempt.order.is_image:
            what = "create the image"
            return lambda before: cloud.bill_by(Images, what, lambda of: of.create_image(request), before)
        case SnapshotOrder():
            what = "create the snapshot"
            return lambda before: (
                cloud.bill_by(Snapshots, what, lambda of: of.create_snapshot(request), before),
            )


def _finish(context: Context, holding: Holding, attempt: Attempt, creating: Call) -> None:
    """Journals the outcome of a call that a signal interrupted: it must be known to be deleted."""
    with context.tasks.finishing():
        try:
            made: Sequence[Resource] = context.tasks.wait(creating, IN_FLIGHT_S)
            _adopt(context, holding, attempt, made)
        except (OutcomeUnknownError, TimedOutError):
            pass  # the intent stays open, and is resolved when the box is taken down
        except CloudError as error:
            _resolve_refused(context, holding, attempt.intent, error)


def _adopt(context: Context, holding: Holding, attempt: Attempt, made: Sequence[Resource]) -> None:
    """Journals what the create call made; deletes it if the box was taken over meanwhile.

    Raises:
        StaleWriterError: the box was taken over, and the deletion was requested.
        CleanupIncompleteError: the box was taken over, and the deletion could not be requested.
    """
    try:
        adopt(context, holding, attempt.intent, made, name=attempt.order.name, rank=attempt.rank)
    except StaleWriterError as stale:
        ids = ", ".join(short_id(each.ref.id) for each in made)
        context.tell("down", f"{stale.message}; deleting {ids}")
        with context.tasks.finishing():
            try:
                for each in made:
                    context.tasks.run(partial(attempt.cloud.delete, each.ref), CREATE_TIMEOUT_S)
            except (CloudError, TimedOutError) as error:
                said = error if isinstance(error, CloudError) else None
                raise incomplete_error(
                    holding, pending_refs(holding, [each.ref for each in made]), said
                ) from stale
        raise


def _resolve_refused(context: Context, holding: Holding, intent: str, error: CloudError) -> None:
    """A refusal proves that its own call created nothing, not that an earlier unanswered call did."""
    _resolve(context, holding, intent, "watched" if error.earlier_unknown else "closed")


def _resolve(context: Context, holding: Holding, intent: str, status: Literal["closed", "watched"]) -> None:
    context.journal.write(holding, Resolved(intent=intent, status=status))


def _look(context: Context, look: Callable[[], Sequence[Resource]], cause: CloudError) -> Sequence[Resource]:
    """Checks whether a create call without a clear answer created something after all."""
    context.tell("create", f"no clear answer ({cause.code}); checking whether it exists")
    try:
        found: Sequence[Resource] = context.tasks.run(look)
    except CloudError:
        return []
    return found

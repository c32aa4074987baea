"""A run as one call: settle, buy, run the command, delete the box."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from gpucloud.api.box import Box as PublicBox
from gpucloud.api.fetching import bring_home, priced
from gpucloud.api.launching import Buyer, require_single
from gpucloud.api.results import Ran
from gpucloud.api.run import Run as PublicRun
from gpucloud.boxes.launch import environment_of, refuse_impossible
from gpucloud.bring_up.sending import look
from gpucloud.costs.spend import cost_so_far
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.errors import JournalError
from gpucloud.journal.events import RunDetached
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import new_id
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import Work, has_begun
from gpucloud.planning.data_source import GIB
from gpucloud.planning.egress import CheckpointTransfer
from gpucloud.planning.object_store import refuse_outside
from gpucloud.planning.waiting import may_pass
from gpucloud.purchase.order import BoxRequest
from gpucloud.purchase.waiting import NothingNowError
from gpucloud.resources import rfc3339
from gpucloud.runs.checkpoints import CheckpointSettings, settle
from gpucloud.runs.code import bring_here, deliver, forget_code, freeze_code
from gpucloud.runs.command import refuse_absent
from gpucloud.runs.detached import begin_job, what_ends
from gpucloud.runs.orphaned import save_orphaned
from gpucloud.runs.record import loss_of, write_end, write_loss
from gpucloud.runs.results import NotFetchedError, of_nodes
from gpucloud.runs.rules import NoRestart, avoided, end_of_wait, hours_ahead, is_waiting, spec_left
from gpucloud.runs.run import RUN_TTL, ForegroundRun, Orders, refuse_live, restarts_of
from gpucloud.runtime.context import Context
from gpucloud.spec.model import Spec
from gpucloud.ssh.files import make_target
from gpucloud.ssh.keys import find_program

if TYPE_CHECKING:
    from gpucloud.api.session import Session


def refuse_unrunnable(
    command: Sequence[str] | str, fetch: Sequence[tuple[str, str]], *, nodes: int | None = None
) -> None:
    """Refuses a run that cannot work, before anything is asked or bought.

    Args:
        command: what it is to do.
        fetch: what is copied back: (path on the box, path here).
        nodes: from how many nodes that is; ``None`` from the first alone.

    Raises:
        UsageError: there is no command, a program that copies its files is not installed, or there is no
            place for them.
    """
    if not command:
        raise UsageError("specify a command, after --", hint="gpucloud run --gpu T4 -- nvidia-smi")
    if not isinstance(command, str) and len(command) == 1 and any(map(str.isspace, command[0])):
        raise UsageError(
            f"{command[0]!r} would be the name of a program, with its spaces",
            hint=f"for a shell: gpucloud run … -- sh -c {shlex.quote(command[0])}",
        )
    if fetch:
        find_program("rsync")
    for _, here in of_nodes(fetch, nodes):
        make_target(here)


def wanted_of_run(
    spec: Spec,
    variables: Mapping[str, str],
    run_id: str,
    *,
    accept_snapshot_price: bool,
    keep_on_failure: bool = False,
    frozen: bool = False,
) -> BoxRequest:
    """The box of a run: it belongs to this process, and has a deadline all the same.

    Args:
        spec: the spec of the user.
        variables: values of the variables that the spec names.
        run_id: the id of the run, which the box has as a tag.
        accept_snapshot_price: whether the shipped price may be used if a cloud returns none today.
        keep_on_failure: whether the box is kept if its set-up fails.
        frozen: whether its files are frozen, and need not be here any more.

    Raises:
        UsageError: the spec cannot work, or names a variable that is not set.
    """
    require_single(spec, "launch --count")
    spec = spec if spec.ttl is not None else spec.replaced(ttl=RUN_TTL)
    environment = environment_of(spec, variables)
    refuse_impossible(spec.replaced(sync=()) if frozen else spec)
    return BoxRequest(
        spec=spec,
        environment=environment,
        run_id=run_id,
        attended=True,
        accept_snapshot_price=accept_snapshot_price,
        keep_on_failure=keep_on_failure,
    )


@dataclass(frozen=True, slots=True)
class Attempts:
    """Buys the boxes of a run: the first as it is wanted, the others with what is left of time and budget."""

    session: Session
    context: Context
    wanted: BoxRequest

    def buy(self, run: Run, kept: CheckpointSettings | None) -> Box:
        """A box for the next attempt of a run, which this process holds, as the run.

        Args:
            run: the run.
            kept: where its checkpoints go, if it has any.

        Raises:
            CodeNotHereError: another machine has the code of the run.
            PriceError: the budget of the run is spent; or as :meth:`Buyer.buy`.
            GpucloudError: as :meth:`Buyer.buy`.
        """
        archive = bring_here(self.context, run, kept)
        now = self.context.clock()
        spec = self.wanted.spec
        begun = has_begun(run.attempts)
        if not begun:  # its time counts from its first box
            run = replace(run, expires_at=_end_of(spec, now))
        if run.attempts:
            spec = spec_left(spec, run.expires_at, self._spent_usd(run, now), now)
        carried = _carried(run, kept, spec, now)
        wanted = replace(
            self.wanted,
            spec=spec,
            run=run,
            avoided=avoided(run.attempts, now),
            carried=carried,
            deliver=None if archive is None else partial(deliver, self.context, run, archive),
            ends_by=run.expires_at if begun else None,
        )
        try:
            box = Buyer(self.context, self.session.catalog, wanted).buy()
        except GpucloudError as error:
            if run.work.wait_s is None or not may_pass(error, waiting=is_waiting(run.attempts)):
                raise
            raise NothingNowError(error) from error
        if carried is not None and box.place is not None:
            text = carried.text(self.session.catalog.market, (box.place.cloud, box.place.region))
            if text is not None:
                self.context.tell("restart", text)
                with suppress(JournalError):  # the box is bought: what follows ends it if need be
                    self.context.journal.observe(box, Facts(traffic=text))
        return box

    def _spent_usd(self, run: Run, now: datetime) -> Decimal:
        """What the boxes of a run have cost so far. With a budget, every part of them has a known price."""
        boxes = self.context.journal.known(Box, {each.box for each in run.attempts if each.box is not None})
        costs = [cost_so_far(box, now, self.session.billing_of) for box in boxes]
        usd = self.session.catalog.market.usd
        known = [usd(cost.amount.amount, cost.amount.currency) for cost in costs if cost is not None]
        return sum(filter(None, known), Decimal(0))


def _carried(
    run: Run, kept: CheckpointSettings | None, spec: Spec, now: datetime
) -> CheckpointTransfer | None:
    """The newest checkpoint of a run, which its next box reads; ``None`` without one."""
    if kept is None or not run.attempts or run.attempts[-1].checkpoint is None:
        return None
    size = run.attempts[-1].checkpoint_bytes
    return CheckpointTransfer(
        url=kept.url,
        place=(kept.cloud, kept.place.region),
        gib=None if size is None else Decimal(size) / GIB,
        hours=hours_ahead(run.attempts, run.expires_at, now),
        nodes=spec.nodes,
    )


def begin(context: Context, wanted: BoxRequest, work: Work) -> Run:
    """Writes a new run down, which this process holds.

    Raises:
        RunLivesError: a run of this owner that is not over has its id.
    """
    assert wanted.run_id is not None  # noqa: S101  (a run has one)
    now = context.clock()
    return context.journal.begin_run(
        id=new_id("run-", now, context.randomness(10)),
        run_id=wanted.run_id,
        owner=context.owner,
        expires_at=_end_of(wanted.spec, now),
        work=work,
        lease=context.lease(),
        claim=context.claim,
    )


def _end_of(spec: Spec, now: datetime) -> datetime | None:
    """The deadline of a run whose first box is bought now."""
    lives = spec.ends_after(RUN_TTL)
    return None if lives is None else now + lives


def work_of(
    spec: Spec,
    command: Sequence[str] | str,
    *,
    restarts: int | None,
    retry_on: Collection[str],
    wait: timedelta | None,
    timeout_s: float | None,
    fetch: Sequence[tuple[str, str]],
    accept_snapshot_price: bool,
    first_node_only: bool,
    keep_on_failure: bool = False,
    fetch_from_all: bool = False,
    keep_results_s: float | None = None,
) -> Work:
    """What a run is to do, as its record has it. Arguments as :meth:`gpucloud.Client.run`."""
    limit, reasons = restarts_of(restarts, retry_on)
    return Work(
        spec=spec.document(),
        command=command if isinstance(command, str) else tuple(command),
        restarts=limit,
        reasons=reasons,
        wait_s=None if wait is None else wait.total_seconds(),
        timeout_s=timeout_s,
        fetch=tuple(fetch),
        accept_snapshot_price=accept_snapshot_price,
        first_node_only=first_node_only,
        keep_on_failure=keep_on_failure,
        fetch_from_all=fetch_from_all,
        keep_results_s=keep_results_s,
    )


def run(
    session: Session, context: Context, wanted: BoxRequest, orders: Orders, work: Work, *, alone: bool
) -> Ran:
    """See :meth:`gpucloud.Client.run`."""
    assert wanted.run_id is not None  # noqa: S101  (a run has one)
    kept = _settled(session, context, wanted)
    work = _with_code(context, wanted.spec, work, kept)
    record = _first_step(session, context, wanted, work, alone=alone)
    attendant = ForegroundRun(
        context, record, replace(orders, checkpoints=kept), Attempts(session, context, wanted).buy
    )
    try:
        how = attendant.run()
    except NotFetchedError as error:
        raise priced(error, session) from error.__cause__
    finally:
        forget_code(context, record)
    assert attendant.box is not None  # noqa: S101  (its command has ended)
    now = context.clock()
    return Ran(
        exit_code=how.code,
        failure=how.failure,
        box=PublicBox.read(context.journal.box(attendant.box.id), session, now),
        not_fetched=tuple(attendant.not_fetched),
        cost_so_far=PublicRun.read(context.journal.run(record.id), session, now).cost_so_far,
    )


def start_run(
    session: Session, context: Context, wanted: BoxRequest, work: Work, *, alone: bool
) -> PublicRun:
    """See :meth:`Runs.start`."""
    if wanted.spec.on_unhealthy == "replace" and not work.restarts:
        raise UsageError("on_unhealthy: replace needs restarts", hint="add --restarts 3")
    assert wanted.run_id is not None  # noqa: S101  (a run has one)
    kept = _settled(session, context, wanted)
    work = _with_code(context, wanted.spec, work, kept)
    record = _first_step(session, context, wanted, work, alone=alone)
    try:
        box = Attempts(session, context, wanted).buy(record, kept)
        begin_job(context, context.journal.held_run(record), box, kept)
        context.notice("run", what_ends(context, context.journal.box(box.id), kept))
    except BaseException as error:
        if not _waits(context, record, error):
            write_end(context, record, error)
            forget_code(context, record)
            raise
    context.journal.release(record)
    return PublicRun.read(context.journal.run(record.id), session, context.clock())


def _with_code(context: Context, spec: Spec, work: Work, kept: CheckpointSettings | None) -> Work:
    """The work of a run, with the files that its boxes get frozen.

    Raises:
        UsageError: they cannot be, or the command would not find a script of its own.
    """
    chosen = look(context, spec)
    refuse_absent(work.command, spec, chosen)
    return replace(work, code=freeze_code(context, chosen, kept))


def _waits(context: Context, record: Run, error: BaseException) -> bool:
    """Whether a run whose first box was lost, or not had, waits for another one; it is written down then."""
    loss = loss_of(error) if isinstance(error, GpucloudError) else None
    if loss is None:
        return False
    run = context.journal.held_run(record)
    if isinstance(write_loss(context, run, loss, str(error)), NoRestart):
        return False
    if not run.detached:
        context.journal.write(record, RunDetached())
    until = end_of_wait(run.work, context.journal.held_run(record).attempts)
    told = f", until {rfc3339(until)}" if until else ""
    context.notice("run", f"{error}; the run waits for another box{told}")
    return True


def _settled(session: Session, context: Context, wanted: BoxRequest) -> CheckpointSettings | None:
    """The bucket of a run, which is where the spec allows it; ``None`` without one.

    Raises:
        UsageError: it cannot be used.
        CloudError: as :func:`settle`.
    """
    assert wanted.run_id is not None  # noqa: S101  (a run has one)
    kept = settle(context, wanted.spec, wanted.run_id)
    if kept is not None and wanted.spec.residency:
        place = (kept.cloud, kept.place.region)
        refuse_outside(session.catalog.market, wanted.spec.residency, place, "checkpoint_to")
    return kept


def _first_step(session: Session, context: Context, wanted: BoxRequest, work: Work, *, alone: bool) -> Run:
    """Finishes what earlier commands left, and writes the new run down, which this process holds.

    Raises:
        UsageError: its name or its id is in use.
    """
    assert wanted.run_id is not None  # noqa: S101  (a run has one)
    context.tasks.clean_up = f"gpucloud down --run-id {wanted.run_id} --yes"
    save_orphaned(context, wanted.run_id)
    for error in bring_home(session, context, wanted.run_id).values():
        raise error
    Buyer(context, session.catalog, wanted).settle_first()
    if alone:
        refuse_live(context, wanted.run_id)
    context.notice("run", f"Run {wanted.run_id}; from anywhere: {context.tasks.clean_up}")
    return begin(context, wanted, work)

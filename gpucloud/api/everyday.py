"""The everyday verbs: plan, launch, run, list, get, down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.api.given import refuse_other
from gpucloud.errors import GpucloudError, UsageError

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.api.launching import Confirm
    from gpucloud.api.results import Ended, Launched, Ran
    from gpucloud.api.session import Session
    from gpucloud.journal.records import Box as JournalBox
    from gpucloud.planning.plan import Plan
    from gpucloud.rendering.tabular import Listing
    from gpucloud.runs.job import Write
    from gpucloud.spec.model import Spec


class Everyday:
    """The verbs that need no namespace: on the client itself."""

    _session: Session

    def plan(self, spec: Spec, *, accept_snapshot_price: bool = False) -> Plan:
        """The plan of :meth:`launch`: attempts in order, with prices. Asks the clouds; buys nothing.

        Args:
            spec: the spec.
            accept_snapshot_price: uses the shipped price if a cloud returns none today.

        Raises:
            NoOfferError: nothing matches.
            PriceError: what matches costs more than the limit.
            UsageError: the spec contradicts itself, or cannot work.
            CloudError: no cloud can be used.
        """
        from gpucloud.market.catalog import check_places
        from gpucloud.planning.launch_plan import plan_launch
        from gpucloud.spec.model import Spec

        refuse_other("plan", spec, Spec)
        market = self._session.catalog.market
        check_places(market, spec.demand())
        with self._session.operation() as context:
            return plan_launch(context, market, spec, accept_snapshot_price=accept_snapshot_price)

    def launch(
        self,
        wanted: Spec | Plan,
        *,
        name: str | None = None,
        run_id: str | None = None,
        environment: Mapping[str, str] | None = None,
        accept_snapshot_price: bool = False,
        keep_on_failure: bool = False,
        wait: timedelta | None = None,
        confirm: Confirm | None = None,
    ) -> Box:
        """Buys the first attempt that starts, and waits until its GPUs answer over ssh.

        Args:
            wanted: a spec, or a plan that is still valid: the same offers at the same prices.
            name: the name of the box, instead of the spec's.
            run_id: the id of the run of the box, by which :meth:`down` finds it from any machine.
            environment: values of the variables that the spec names; by default, those of the profile.
            accept_snapshot_price: uses the shipped price if a cloud returns none today.
            keep_on_failure: keeps the box until its deadline if its set-up fails; :meth:`Box.setup`
                repeats that.
            wait: tries again for this long while there is no capacity, at the prices agreed to at most.
            confirm: is called before anything is bought; by default, nothing is confirmed.

        Raises:
            SetupFailedError: the set-up failed, and the box is kept.
            CloudError: nothing started, and nothing is left; ``attempts`` lists the attempts.
            CleanupIncompleteError: something may still be billed; the next changing call deletes it.
            NoOfferError, PriceError, UsageError: as :meth:`plan`; or ``confirm`` returned ``False``.
        """
        from gpucloud.api.launching import require_single
        from gpucloud.planning.plan import Plan
        from gpucloud.spec.model import Spec

        refuse_other("launch", wanted, Spec, Plan)
        require_single(wanted, "launch_all")
        launched = self.launch_all(
            wanted,
            name=name,
            run_id=run_id,
            environment=environment,
            accept_snapshot_price=accept_snapshot_price,
            keep_on_failure=keep_on_failure,
            wait=wait,
            confirm=confirm,
        )
        return launched.boxes[0]

    def launch_all(
        self,
        wanted: Spec | Plan,
        *,
        name: str | None = None,
        run_id: str | None = None,
        environment: Mapping[str, str] | None = None,
        accept_snapshot_price: bool = False,
        keep_on_failure: bool = False,
        wait: timedelta | None = None,
        confirm: Confirm | None = None,
    ) -> Launched:
        """Buys as many boxes of one run as the spec counts, at the places that its ``spread`` asks for.

        The boxes that were bought stay if others cannot be; an exception, also ``KeyboardInterrupt``, ends
        all. The arguments are those of :meth:`launch`; several boxes have the name with a number, and a new
        run id by default.

        Raises:
            GpucloudError: as :meth:`launch`; no box is ready.
        """
        from gpucloud.api.box import Box
        from gpucloud.api.launching import Buyer
        from gpucloud.api.launching import launch_all as launch_several
        from gpucloud.api.results import Launched
        from gpucloud.boxes.launch import environment_of, refuse_impossible
        from gpucloud.bring_up.sending import look
        from gpucloud.planning.plan import Plan
        from gpucloud.purchase.order import BoxRequest
        from gpucloud.purchase.waiting import Wait
        from gpucloud.runs.checkpoints import refuse_launch
        from gpucloud.runs.detached import from_anywhere
        from gpucloud.runs.replacement import REPLACE, WHO_REPLACES, refuse_unreplaceable
        from gpucloud.spec.file import load_spec
        from gpucloud.spec.model import Spec

        refuse_other("launch_all", wanted, Spec, Plan)
        saved = wanted if isinstance(wanted, Plan) else None
        spec = load_spec(None, dict(wanted.spec)) if isinstance(wanted, Plan) else wanted
        spec = spec.replaced(name=name) if name else spec
        refuse_impossible(spec)
        refuse_launch(spec)
        refuse_unreplaceable(spec)
        if spec.on_unhealthy == REPLACE:  # whoever tends it is in another folder
            spec, _ = from_anywhere(spec, (), str(Path.cwd()))
        if spec.count > 1:
            run_id = run_id or self._session.new_run_id()
        values = environment_of(spec, self._session.profile.variables if environment is None else environment)
        request = BoxRequest(
            spec=spec,
            environment=values,
            run_id=run_id,
            accept_snapshot_price=accept_snapshot_price,
            keep_on_failure=keep_on_failure,
            clean_up=f"gpucloud down --run-id {run_id} --yes" if spec.count > 1 else None,
        )
        with self._session.operation() as context:
            if spec.on_unhealthy == REPLACE:
                context.notice("launch", WHO_REPLACES)
            look(context, spec)
            buyer = Buyer(context, self._session.catalog, request, saved, confirm)
            buyer.settle_first()
            rounds, agreed = Wait(context, wait), None
            while True:
                try:
                    order = buyer.agree(agreed)
                    agreed = agreed or order
                    boxes, failure = launch_several(buyer, order)
                    break
                except GpucloudError as error:
                    rounds.pause_after(error)
            now = self._session.now()
            ready = tuple(Box.read(context.journal.latest(box), self._session, now) for box in boxes)
        return Launched(boxes=ready, failure=failure)

    def run(
        self,
        spec: Spec,
        command: Sequence[str] | str,
        *,
        environment: Mapping[str, str] | None = None,
        run_id: str | None = None,
        alone: bool = False,
        timeout_s: float | None = None,
        restarts: int | None = None,
        retry_on: Collection[str] = (),
        wait: timedelta | None = None,
        fetch: Sequence[tuple[str, str]] = (),
        fetch_from_all: bool = False,
        keep_results_s: float | None = None,
        keep_on_failure: bool = False,
        out: Write | None = None,
        err: Write | None = None,
        accept_snapshot_price: bool = False,
        first_node_only: bool = False,
    ) -> Ran:
        """Launches a box for one command; then deletes it, unless files of it could not be copied.

        On a box of several nodes the command runs on all of them at the same time. Each is told its rank
        (``NODE_RANK``, ``MASTER_ADDR`` …), each line of output begins with its node (``[0]``), and when one
        fails, its exit code is that of the run, and the others are ended. Files are fetched from the first.

        Args:
            spec: the spec of the box; its ttl is 6 hours by default.
            command: the arguments of a program, or a shell command.
            environment: values of the variables that the spec names; by default, those of the profile.
            run_id: the id of the run, which the box has as a tag; by default, a new one.
            alone: refuses a run id that a living box has, in the journal or in a cloud.
            timeout_s: the command is stopped after this, with the exit code 124.
            restarts: how often it is started again, on another box, after an interruption, lost hardware or
                for lack of capacity, or if its command asks for that by the exit code 75.
            retry_on: only after an ``interruption`` or for lack of ``capacity``; at most 3 times, without
                ``restarts``.
            wait: while there is no capacity for its first box, or for the next one after a loss, it tries
                again for this long, which takes no restart; its ttl counts from its first box.
            fetch: the files to copy back at the end: (path on the box, local path).
            fetch_from_all: from every node, into a folder that is named by its number; else from the first.
            keep_results_s: how long a box stays whose files cannot be copied; by default until its deadline,
                24 hours without one, and 30 minutes where a command that succeeded has not written them.
            keep_on_failure: keeps the box until its deadline if the command or the set-up fails.
            out: receives the command's standard output as it arrives.
            err: receives its standard error.
            accept_snapshot_price: uses the shipped price if a cloud returns none today.
            first_node_only: the command runs on the first node alone, which may start it on the others.

        Raises:
            BoxLostError: the box, or one of its nodes, ended before its command did.
            FruitlessError: the boxes of several attempts were lost, without a checkpoint.
            NotFetchedError: the command ended, and its files could not be copied back; the box is kept.
            CleanupIncompleteError: something may still be billed.
            SetupFailedError: the set-up failed, and the box is kept.
            GpucloudError: as :meth:`launch`.
        """
        from gpucloud.api.running import refuse_unrunnable, wanted_of_run, work_of
        from gpucloud.api.running import run as run_on_its_own_box
        from gpucloud.runs.detached import here
        from gpucloud.runs.job import Job, discard
        from gpucloud.runs.rules import refuse_replacing
        from gpucloud.runs.run import Orders
        from gpucloud.spec.model import Spec

        refuse_other("run", spec, Spec)
        refuse_unrunnable(command, fetch, nodes=spec.nodes if fetch_from_all else None)
        refuse_replacing(spec)
        variables = self._session.profile.variables if environment is None else environment
        run_id = run_id or self._session.new_run_id()
        wanted = wanted_of_run(
            spec,
            variables,
            run_id,
            accept_snapshot_price=accept_snapshot_price,
            keep_on_failure=keep_on_failure,
        )
        job = Job(
            command=command,
            environment=wanted.environment,
            out=out or discard,
            err=err or discard,
            timeout_s=timeout_s,
            has_results=bool(fetch),
        )
        work = work_of(
            wanted.spec,
            command,
            restarts=restarts,
            retry_on=retry_on,
            wait=wait,
            timeout_s=timeout_s,
            fetch=here(fetch, str(Path.cwd())),
            accept_snapshot_price=accept_snapshot_price,
            first_node_only=first_node_only,
            keep_on_failure=keep_on_failure,
            fetch_from_all=fetch_from_all,
            keep_results_s=keep_results_s,
        )
        orders = Orders(job=job)
        with self._session.operation() as context:
            return run_on_its_own_box(self._session, context, wanted, orders, work, alone=alone)

    def list(self, *, over: bool = False, run_id: str | None = None) -> Listing[Box]:
        """The owner's boxes as the journal has them, oldest first; ``over`` adds deleted and failed ones."""
        from gpucloud.api.box import read_boxes

        return read_boxes(self._session, over=over, run_id=run_id)

    def get(self, name: str, *, live: bool = False) -> Box:
        """The living box with this name or id; otherwise the newest one that has ended.

        Args:
            name: the name or id of the box.
            live: asks its cloud and its guard first.

        Raises:
            UsageError: there is none.
        """
        from gpucloud.api.box import read_box

        return read_box(self._session, name, live=live)

    def down(
        self,
        names: Sequence[str] = (),
        *,
        run_id: str | None = None,
        every: bool = False,
        with_results: bool = False,
        confirm: Callable[[Sequence[Box]], bool] | None = None,
    ) -> Ended:
        """Deletes boxes; returns when the clouds confirm that nothing billable is left of them.

        Args:
            names: names or ids of boxes.
            run_id: the boxes of this run, which are also searched for in every cloud. Files that its command
                has left are fetched first; a box whose files cannot be copied stays.
            every: all of the owner's boxes.
            with_results: also boxes of the run that are kept for their files.
            confirm: is called before anything is deleted; by default, nothing is confirmed.

        Raises:
            NotFetchedError: a box of the run is kept for its files.
            CleanupIncompleteError: something may still be billed; the next changing call continues.
            UsageError: no boxes are specified; there is no such box; or ``confirm`` returned ``False``.
        """
        from gpucloud.api.box import Box, read_boxes
        from gpucloud.api.ending import down
        from gpucloud.api.results import Ended, Searched

        if sum((bool(names), run_id is not None, every)) != 1:
            raise UsageError("specify boxes: names, or --run-id, or --all", hint="see them: gpucloud list")
        session = self._session

        def read(boxes: Sequence[JournalBox]) -> tuple[Box, ...]:
            return tuple(Box.read(box, session, session.now()) for box in boxes)

        with session.ending() as context:
            ended, discovery = down(
                session,
                context,
                names,
                run_id,
                confirm and (lambda boxes: confirm(read(boxes))),
                with_results=with_results,
            )
            searched = None if discovery is None else Searched.of(discovery, context.search())
            if searched is not None and session.owner_is_chosen:  # what others have is no matter of theirs
                searched = replace(searched, of_others=())
            return Ended(boxes=read(ended), living=tuple(read_boxes(session)), searched=searched)

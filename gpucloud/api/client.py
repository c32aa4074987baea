"""gpucloud for programs: one owner's boxes, on the clouds of one profile, in one journal.

A client installs no signal handler and changes nothing of the process around it. Several clients may be used
at once, and one from several threads: each call works in the thread that makes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from gpucloud.api.session import Session
from gpucloud.clouds.profile import Profile
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.kinds import Kind
from gpucloud.runtime.events import Sink, ignore

if TYPE_CHECKING:
    from gpucloud.api.box import Box, Completed
    from gpucloud.api.budgets import Budgets
    from gpucloud.api.fleet import Fleet
    from gpucloud.api.journals import Journals
    from gpucloud.api.kubernetes import Kubernetes
    from gpucloud.api.launching import Confirm
    from gpucloud.api.metrics import Metrics
    from gpucloud.api.moving import Move
    from gpucloud.api.notices import Notices
    from gpucloud.api.policy import Policies
    from gpucloud.api.prices import Prices
    from gpucloud.api.results import (
        Ended,
        Launched,
        Looked,
        Ran,
        Recovered,
        Searched,
        Shared,
        SshHosts,
        Swept,
        Tending,
    )
    from gpucloud.api.runs import Run
    from gpucloud.api.slurm import Slurm
    from gpucloud.api.snapshot import Snapshot
    from gpucloud.api.stored import RunStore
    from gpucloud.api.volume import Volume
    from gpucloud.boxes.power import Start, Stop
    from gpucloud.bring_up.archived_logs import Kept
    from gpucloud.checkup import Checked
    from gpucloud.clouds.audit import AuditRecord, Entry
    from gpucloud.clusters.members import Members
    from gpucloud.costs.anomalies import UnusualDay
    from gpucloud.costs.comparison import Comparison
    from gpucloud.costs.focus import Row
    from gpucloud.costs.project import Part, Project
    from gpucloud.costs.project_cost import ProjectCost
    from gpucloud.costs.spend import Spend
    from gpucloud.costs.workload import Workload
    from gpucloud.elastic.cluster import Cluster
    from gpucloud.elastic.kubernetes.join import Joining
    from gpucloud.elastic.kubernetes.manifests import ManifestPart
    from gpucloud.ending.sweep import Find
    from gpucloud.journal.records import Box as JournalBox
    from gpucloud.journal.store import Journal
    from gpucloud.market.catalog import Catalog
    from gpucloud.market.commitments import Commitments
    from gpucloud.market.equivalents import Equivalents, SizeComparison
    from gpucloud.market.search import Offers
    from gpucloud.planning.boot_choices import BootChoice
    from gpucloud.planning.lifetime import CostLimit
    from gpucloud.planning.own_image import OwnImage
    from gpucloud.planning.plan import Plan
    from gpucloud.planning.snapshot_plan import SnapshotPlan
    from gpucloud.planning.volume_plan import VolumePlan
    from gpucloud.resources import CloudPolicy
    from gpucloud.runs.job import Write
    from gpucloud.runtime.tasks import Tasks
    from gpucloud.spec.model import Spec
    from gpucloud.ssh.client import Target
    from gpucloud.ssh.hosts import Host
    from gpucloud.ssh.job import JobState
    from gpucloud_pricing.billing import Billing
    from gpucloud_pricing.estimate import Place
    from gpucloud_pricing.values import Experience


class Client:
    """Finds offers; launches, uses and deletes boxes.

    Args:
        profile: the accounts and settings, as the variables that the vendors' tools and gpucloud read; by
            default, those of the process.
        journal: the file of the journal; keys and the history of prices are stored beside it. By default,
            the user's journal, which the command line uses as well.
        owner: the owner id of the boxes; by default, the user's own.
        on_event: is called with each event (:mod:`gpucloud.runtime.events`), in the thread where it occurs.

    Raises:
        UsageError: there is no folder for the journal, or the owner's id is damaged.
    """

    def __init__(
        self,
        *,
        profile: Profile | None = None,
        journal: Path | None = None,
        owner: str | None = None,
        on_event: Sink = ignore,
    ) -> None:
        profile = Profile(os.environ) if profile is None else profile
        self._session = Session(profile, journal, owner, on_event)

    @classmethod
    def sandbox(
        cls,
        *,
        profile: Profile | None = None,
        journal: Path | None = None,
        owner: str | None = None,
        on_event: Sink = ignore,
    ) -> Client:
        """A client of this user's sandbox, which is started if it does not run, and keeps running afterwards.

        The arguments are those of :class:`Client`.
        """
        client = cls(profile=profile, journal=journal, owner=owner, on_event=on_event)
        client._session.sandboxed = True
        return client

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the journal. Boxes and the sandbox keep running."""
        self._session.close()

    def work_with(self, tasks: Tasks) -> None:
        """Makes calls wait in these tasks, which the command line interrupts by signals.

        Afterwards, only the thread that made the tasks may call.
        """
        self._session.tasks = tasks

    @property
    def on_event(self) -> Sink:
        """Is called with each event of a call."""
        return self._session.on_event

    @on_event.setter
    def on_event(self, sink: Sink) -> None:
        self._session.on_event = sink

    @property
    def command(self) -> str:
        """The command that ``gpucloud audit`` shows for the calls of this client."""
        return self._session.command

    @command.setter
    def command(self, command: str) -> None:
        self._session.command = command

    @property
    def owner(self) -> str:
        """The owner id, which is in the tags of every resource."""
        return self._session.owner

    @property
    def state(self) -> Path:
        """The folder of the journal, the keys and the history of prices; made if it is missing."""
        return self._session.state

    @property
    def journal(self) -> Journal:
        """The journal: that of the team, or a file, which is made if there is none."""
        return self._session.journal

    @property
    def journals(self) -> Journals:
        """Calls about the journal itself: its tables on PostgreSQL, copies, verification."""
        from gpucloud.api.journals import Journals

        return Journals(self._session)

    @property
    def budgets(self) -> Budgets:
        """Budgets of the journal: what may be spent, and what is left of it."""
        from gpucloud.api.budgets import Budgets

        return Budgets(self._session)

    @property
    def policy(self) -> Policies:
        """The policy of the journal: what may be launched."""
        from gpucloud.api.policy import Policies

        return Policies(self._session)

    # --- before buying

    @property
    def catalog(self) -> Catalog:
        """The market at the prices of the last refresh, and the accounts' commitments."""
        return self._session.catalog

    def billing_of(self, cloud: str) -> Billing:
        """How a cloud bills: its minimum time, and its sizes of disks."""
        return self._session.billing_of(cloud)

    @property
    def prices(self) -> Prices:
        """Known prices, refreshes, and the history of prices."""
        from gpucloud.api.prices import Prices

        return Prices(self._session)

    @property
    def notices(self) -> Notices:
        """Notices to people, by the channels of the configuration."""
        from gpucloud.api.notices import Notices

        return Notices(self._session)

    @property
    def metrics(self) -> Metrics:
        """Metrics for Prometheus: of the journal, and of boxes over ssh."""
        from gpucloud.api.metrics import Metrics

        return Metrics(self._session)

    def offers(
        self,
        spec: Spec,
        *,
        sort: str = "price",
        limit: int | None = None,
        why: bool = False,
        max_age: timedelta | None = None,
        include_hidden: bool = False,
    ) -> Offers:
        """Searches the market: every offer that matches, cheapest first; those that the policy forbids too.

        Asks no cloud, except where the bucket of the spec is (``near``).

        Args:
            spec: the spec.
            sort: the sort order: ``price``, ``gpu-price``, ``fp16-price`` …, as ``gpucloud offers --sort``.
            limit: the maximum number of offers.
            why: adds the refused offers with the reasons; no match is then no error.
            max_age: leaves out older prices.
            include_hidden: adds types that are retired or not sold publicly.

        Raises:
            NoOfferError: nothing matches.
            PriceError: what matches costs more than the limit.
            UsageError: a cloud, region, zone or bucket of the spec, or the sort order, does not exist.
        """
        from gpucloud.market.search import order_named, search

        order = order_named(sort)
        demand = spec.demand(max_age=max_age, include_hidden=include_hidden)
        market = self.catalog.market_for(demand)
        if spec.volumes:
            from gpucloud.planning.volume_choice import places_of, usable_volumes

            volumes = usable_volumes(self.journal, self.owner, spec, self._session.now())
            demand = replace(demand, volumes=places_of(volumes))
        if spec.near is not None:
            from gpucloud.planning.object_store import place_near

            with self._session.operation() as context:
                demand = replace(demand, near=place_near(context, market, spec))
        own = self._own_image(spec) if spec.image else None
        if own is not None:
            demand = own.narrowed(demand)
        found = search(market, demand, self._session.now().date(), sort=order, limit=limit, why=why)
        return self.policy.marked(found, market) if self._session.may_have_policy else found

    def estimate(
        self,
        spec: Spec,
        workload: Workload | None = None,
        *,
        places: int = 1,
        by_zone: bool = False,
        sort: str = "total",
        conditions: Path | None = None,
        max_age: timedelta | None = None,
        include_hidden: bool = False,
        max_term: Decimal | None = None,
        cost_of_capital: Decimal | None = None,
    ) -> Comparison:
        """Estimates the cost of a spec for every way of paying, side by side.

        Asks no cloud, except where the bucket of the spec is (``near``).

        Rates of spot interruptions are those of the journal's boxes, where it has enough of them.

        Args:
            spec: the spec; all ways of paying are compared unless it names some.
            workload: the hours of work and what else is billed; by default, costs per hour, day and month.
            places: the number of places to compare per way of paying.
            by_zone: compares each zone of a place; by default, the cheapest one.
            sort: the sort order: ``total``, or by the cost of work: ``gpu-price``, ``fp16-price`` ….
            conditions: the file with the user's discounts, credits and commitments; by default,
                ``conditions.yaml`` of the configuration folder, if it exists.
            max_age: leaves out older prices.
            include_hidden: adds types that are retired or not sold publicly.
            max_term: leaves out commitments for longer than these hours.
            cost_of_capital: in a year, as a share (0.08); sorts by the value of all payments at the start.

        Returns:
            The comparison; its ``over_budget`` is an error if the spec's budget is too small, else ``None``.

        Raises:
            NoOfferError: nothing matches, or no price is known.
            PriceError: what matches costs more than the limit.
            UsageError: a place, a type or a plan of the spec, workload or conditions does not exist.
        """
        from gpucloud.costs.comparison import CONDITIONS, compare_ways, measure_named, own_conditions
        from gpucloud.costs.workload import Workload

        measure = measure_named(sort)
        spec = self._narrowed(spec)
        file = conditions or self._session.paths.config / CONDITIONS
        return compare_ways(
            self.catalog,
            spec,
            workload or Workload(),
            self._session.now().date(),
            own=own_conditions(self.catalog, file, named=conditions is not None),
            experience=self._experience,
            places=places,
            by_zone=by_zone,
            measure=measure,
            max_age=max_age,
            include_hidden=include_hidden,
            max_term=max_term,
            cost_of_capital=cost_of_capital,
        )

    def _narrowed(self, spec: Spec) -> Spec:
        """A spec with the place of the bucket that it wants its boxes near; its cloud is asked for that."""
        if spec.near is None:
            return spec
        from gpucloud.planning.object_store import narrowed

        with self._session.operation() as context:
            return narrowed(context, self.catalog.market, spec)

    def _experience(self) -> Mapping[Place, Experience]:
        """The owner's own history on spot; none of a journal that cannot be read, which is told."""
        from gpucloud.costs.experience import experiences
        from gpucloud.journal.errors import JournalError

        session = self._session
        try:
            runs = session.journal.spot_runs(owner=self.owner) if session.may_have_spot else ()
        except (JournalError, UsageError) as error:
            self.catalog.tell(f"Your own history on spot is not counted: {error}")
            return {}
        return experiences(runs, session.now())

    def estimate_project(
        self, project: Project, *, conditions: Path | None = None, all_terms: bool = False
    ) -> ProjectCost:
        """Finds the cheapest places of a project's parts, with the data between them. Asks no cloud.

        Args:
            project: the parts and the transfers.
            conditions: see :meth:`estimate`; credits, and capacity that is paid for already, do not count.
            all_terms: also considers commitments for longer than the parts last.

        Raises:
            NoOfferError: nothing matches a part, or what matches cannot be started or has no price.
            PriceError: what matches a part costs more than its limit.
            UsageError: a place of a part does not exist; or too many parts exchange data with each other.
        """
        from gpucloud.costs.project_places import EVERY_PLACE, cost_of_project

        def compare(spec: Spec, part: Part) -> Comparison:
            workload = part.workload
            return self.estimate(spec, workload, places=EVERY_PLACE, by_zone=True, conditions=conditions)

        return cost_of_project(project, compare, all_terms=all_terms)

    def equivalents(self, spec: Spec, *, by: str = "memory") -> Equivalents:
        """Sets of other GPUs with the same memory or speed at least, in the fewest machines, with prices.

        Args:
            spec: a spec with one GPU model and a count.
            by: the measure: ``memory``, its ``bandwidth``, or TFLOPS: ``fp64``, ``fp32``, ``tf32``, ``fp16``,
                ``bf16``, ``fp8``.

        Raises:
            UsageError: the spec has not one GPU model and a count, or its memory or speed is not known.
        """
        from gpucloud.market.equivalents import equivalents

        return equivalents(self.catalog, self._narrowed(spec).demand(), by, self._session.now().date())

    def compare_sizes(self, spec: Spec) -> SizeComparison:
        """Two sizes by each measure, with their ratios and the cheapest machines that have them.

        Args:
            spec: a spec with two GPUs, each with a count: ``gpu="A100-80GB:8,H100:4"``.

        Raises:
            UsageError: the spec has not two GPUs, each with a count.
        """
        from gpucloud.market.equivalents import compare_sizes

        return compare_sizes(self.catalog, self._narrowed(spec).demand(), self._session.now().date())

    def images(self, spec: Spec) -> list[BootChoice]:
        """The images that the offers of a spec boot, and the software of the first boot.

        Asks no cloud, except where the bucket of the spec is (``near``).

        Raises:
            NoOfferError: nothing matches.
            UsageError: the spec names no GPU, or a place that does not exist.
        """
        from gpucloud.market.search import search
        from gpucloud.planning.boot_choices import boot_choices
        from gpucloud.planning.own_image import image_id
        from gpucloud.planning.planner import candidates_of

        spec.require_gpu()
        spec = self._narrowed(spec)
        own = self._own_image(spec)
        demand = own.narrowed(spec.demand()) if own else spec.demand()
        found = search(self.catalog.market_for(demand), demand, self._session.now().date())
        image = image_id(spec, own)
        return boot_choices(self._session.installed(), candidates_of(found.offers), image)

    def commitments(self, clouds: Sequence[str] = ()) -> Commitments:
        """Reads the commitments of the accounts and stores them; :meth:`estimate` uses them from then on.

        Args:
            clouds: the clouds to ask; ``!x`` leaves one out. By default, all.

        Raises:
            UsageError: there is no such cloud.
        """
        from gpucloud.market.commitments import Commitments, ask_commitments, clouds_to_ask

        with self._session.operation() as context, self.catalog.history() as history:
            wanted = clouds_to_ask(context.clouds.names(), tuple(clouds))
            answers = ask_commitments(context, history, wanted)
            known = [each for each in history.commitments() if each.cloud in wanted]
        return Commitments(commitments=known, by_cloud=answers)

    def check(self, spec: Spec) -> Checked:
        """Checks the conditions for a launch: credentials, permissions, quotas, the clock, this machine.

        Raises:
            UsageError: a place that the spec names does not exist, or it names a bucket (``near``).
        """
        from gpucloud.checkup import check
        from gpucloud.planning.object_store import refuse_near

        refuse_near(spec, "check")
        session = self._session
        problem = session.journal_problem()
        return check(session.checking(), self.catalog.market, spec, self.state, problem)

    def cloud_policy(self, cloud: str, role: str = "admin") -> CloudPolicy:
        """The least-privilege policy for gpucloud in a cloud, in the cloud's own format.

        Args:
            cloud: its name.
            role: ``admin`` for all of gpucloud, ``operator`` for what carries the owner id of this client, or
                ``viewer`` for reading.

        Raises:
            UsageError: there is no such cloud, or it has no policy.
            ValueError: there is no such role.
        """
        from gpucloud.checkup import policy
        from gpucloud.resources import CloudRole

        wanted = CloudRole(role)
        owner = self.owner if wanted is CloudRole.OPERATOR else ""
        return policy(self._session.installed(), cloud, wanted, owner)

    def cloud_guardrail(self, cloud: str) -> CloudPolicy:
        """A policy in a cloud's own format that denies everybody what the rules of :attr:`policy` forbid.

        Raises:
            UsageError: there is no such cloud, or there is no rule that it could hold.
        """
        from gpucloud.checkup import guardrail

        session = self._session
        return guardrail(session.installed(), cloud, session.journal.rules(), session.catalog.market)

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

        market = self.catalog.market
        check_places(market, spec.demand())
        with self._session.operation() as context:
            return plan_launch(context, market, spec, accept_snapshot_price=accept_snapshot_price)

    def cost_limit(self, plan: Plan) -> CostLimit:
        """The upper limit of a plan's cost per hour, and the end of the box.

        Raises:
            UsageError: there is a budget, but a price that it must cover is unknown.
        """
        from gpucloud.planning.lifetime import cost_limit
        from gpucloud.spec.file import load_spec

        return cost_limit(plan, load_spec(None, dict(plan.spec)), self.catalog.market)

    # --- buying

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
            keep_on_failure: keeps the box until its deadline if its set-up fails; :meth:`setup` repeats that.
            wait: tries again for this long while there is no capacity, at the prices agreed to at most.
            confirm: is called before anything is bought; by default, nothing is confirmed.

        Raises:
            SetupFailedError: the set-up failed, and the box is kept.
            CloudError: nothing started, and nothing is left; ``attempts`` lists the attempts.
            OwedError: something may still be billed; the next call that changes anything deletes it.
            NoOfferError, PriceError, UsageError: as :meth:`plan`; or ``confirm`` returned ``False``.
        """
        from gpucloud.api.several import refuse_several

        refuse_several(wanted, "launch_all")
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
        from gpucloud.api.launching import Buyer
        from gpucloud.api.results import Launched
        from gpucloud.api.several import launch_all
        from gpucloud.boxes.launch import Wanted, environment_of, refuse_impossible
        from gpucloud.bring_up.sending import look
        from gpucloud.planning.plan import Plan
        from gpucloud.runs.checkpoints import refuse_launch
        from gpucloud.runs.detached import from_anywhere
        from gpucloud.runs.replacement import REPLACE, WHO_REPLACES, refuse_unreplaceable
        from gpucloud.spec.file import load_spec

        saved = wanted if isinstance(wanted, Plan) else None
        spec = load_spec(None, dict(wanted.spec)) if isinstance(wanted, Plan) else wanted
        spec = spec.replaced(name=name) if name else spec
        refuse_impossible(spec)
        refuse_launch(spec)
        refuse_unreplaceable(spec)
        if spec.on_sick == REPLACE:  # whoever tends it is in another folder
            spec, _ = from_anywhere(spec, (), str(Path.cwd()))
        if spec.count > 1:
            run_id = run_id or self.new_run_id()
        values = environment_of(spec, self._session.profile.variables if environment is None else environment)
        terms = Wanted(
            spec=spec,
            environment=values,
            run_id=run_id,
            accept_snapshot_price=accept_snapshot_price,
            keep_on_failure=keep_on_failure,
            clean_up=f"gpucloud down --run-id {run_id} --yes" if spec.count > 1 else None,
        )
        with self._session.operation() as context:
            if spec.on_sick == REPLACE:
                context.notice("launch", WHO_REPLACES)
            look(context, spec)
            boxes, failure = launch_all(Buyer(context, self.catalog, terms, saved, confirm), wait)
            ready = tuple(self._read(context.journal.latest(box)) for box in boxes)
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
            OwedError: something may still be billed.
            SetupFailedError: the set-up failed, and the box is kept.
            GpucloudError: as :meth:`launch`.
        """
        from gpucloud.api.running import refuse_unrunnable, wanted_of_run, work_of
        from gpucloud.api.running import run as run_on_its_own_box
        from gpucloud.runs.detached import here
        from gpucloud.runs.job import Job, discard
        from gpucloud.runs.rules import refuse_replacing
        from gpucloud.runs.run import Orders

        refuse_unrunnable(command, fetch, nodes=spec.nodes if fetch_from_all else None)
        refuse_replacing(spec)
        variables = self._session.profile.variables if environment is None else environment
        run_id = run_id or self.new_run_id()
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
            return run_on_its_own_box(self, context, wanted, orders, work, alone=alone)

    def start_run(
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
        accept_snapshot_price: bool = False,
        first_node_only: bool = False,
    ) -> Run:
        """Launches a box for one command, and returns once the command runs.

        :meth:`tend` does the rest: it copies the files back and deletes the box when the command has ended,
        and restarts it after a loss. Without it nothing more is bought, and the box lives until its deadline.

        Args and errors are as of :meth:`run`.
        """
        from gpucloud.api.running import refuse_unrunnable, start_run, wanted_of_run, work_of
        from gpucloud.runs.detached import from_anywhere

        refuse_unrunnable(command, fetch, nodes=spec.nodes if fetch_from_all else None)
        variables = self._session.profile.variables if environment is None else environment
        there, brought = from_anywhere(spec, fetch, str(Path.cwd()))
        wanted = wanted_of_run(
            there, variables, run_id or self.new_run_id(), accept_snapshot_price=accept_snapshot_price
        )
        work = work_of(
            wanted.spec,
            command,
            restarts=restarts,
            retry_on=retry_on,
            wait=wait,
            timeout_s=timeout_s,
            fetch=brought,
            accept_snapshot_price=accept_snapshot_price,
            first_node_only=first_node_only,
            fetch_from_all=fetch_from_all,
            keep_results_s=keep_results_s,
        )
        with self._session.operation() as context:
            return start_run(self, context, wanted, work, alone=alone)

    def tend(self, *, environment: Mapping[str, str] | None = None) -> Tending:
        """Looks once after all boxes and runs of the owner; does nothing where nothing is to be done.

        Settles what is owed, notices interruptions, restarts detached runs that were lost and may be
        restarted, brings back the files of those whose command has ended, and ends their boxes, and what is
        overdue. Replaces boxes with ``on_sick: replace`` whose guards report faulty hardware. Any number of
        processes may do so at the same time.

        Args:
            environment: values of the variables that the specs of runs name; by default, those of the
                profile.
        """
        from gpucloud.api.tending import tend

        variables = self._session.profile.variables if environment is None else environment
        with self._session.operation() as context:
            return tend(self, context, variables)

    def install_tend(self) -> str:
        """Writes and enables a timer of the user's system that tends every two minutes; returns which it is.

        Raises:
            UsageError: it would lack what is only in this process's variables: secrets of clouds, or values
                that living runs need; or this system has no such timer.
            TimerError: the system did not take it.
        """
        from gpucloud.api.tend_timer import install

        session = self._session
        sandbox = {"GPUCLOUD_SANDBOX": "1"} if session.sandboxed else {}
        variables = {**session.profile.variables, **sandbox}
        return install(self, session.paths, variables, session.clouds(None).names())

    def uninstall_tend(self) -> bool:
        """Takes the timer of :meth:`install_tend` back; returns whether there was one.

        Raises:
            TimerError: the system did not let it go.
        """
        from gpucloud.api.tend_timer import uninstall

        return uninstall(self._session.paths.config)

    @property
    def tend_is_installed(self) -> bool:
        """Whether :meth:`install_tend` has installed a timer for the journal of this configuration."""
        from gpucloud.api.tend_timer import script_of

        return script_of(self._session.paths.config).exists()

    def keep_tending(
        self, *, every: timedelta, environment: Mapping[str, str] | None = None
    ) -> Iterator[Tending]:
        """Does :meth:`tend` again and again, with a pause after each look.

        A look that fails as a whole (the journal is locked) has that as its trouble; the next one goes on.

        Raises:
            GpucloudError: the first look failed as a whole.
        """
        from gpucloud.api.results import Tending
        from gpucloud.api.tending import tend
        from gpucloud.runtime.isolation import isolated

        variables = self._session.profile.variables if environment is None else environment
        with self._session.operation() as context:
            done = tend(self, context, variables)
        while True:
            yield done
            with self._session.operation() as context:
                context.tasks.pause(every.total_seconds())
                troubles: list[GpucloudError] = []
                with isolated(troubles, "this look"):
                    done = tend(self, context, variables)
                if troubles:
                    done = Tending(runs=(), boxes=(), troubles=tuple(troubles))

    def new_run_id(self) -> str:
        """A new, unique run id."""
        from gpucloud.journal.lifecycle import new_id

        return new_id("r-", self._session.now(), os.urandom(10))

    # --- runs

    def runs(self, *, over: bool = False, since: datetime | None = None) -> list[Run]:
        """The owner's runs as the journal has them, oldest first.

        Args:
            over: adds those that are over.
            since: of these, only those that ended since then.
        """
        from gpucloud.api.runs import Run

        now = self._session.now()
        found = self.journal.runs(owner=self.owner, over=over, since=since)
        return [Run.read(run, self, now) for run in found]

    def follow_run(
        self,
        run_id: str,
        out: Callable[[int, str], None],
        *,
        tell: Callable[[str], None] | None = None,
        node: int = 0,
    ) -> int:
        """Follows the output of a run over interruptions and restarts, until it ends.

        Nothing is bought or restarted by this: the process of the run does that, or :meth:`tend`.

        Args:
            run_id: its id.
            out: takes each line, with the number of its attempt, from 1.
            tell: takes what is waited for, in words.
            node: the node whose output it is.

        Returns:
            The exit code of its command.

        Raises:
            UsageError: there is no such run, or nobody goes on with it.
            GpucloudError: it ended without an exit code.
        """
        from gpucloud.api.run_logs import Following

        return Following(self, run_id, node, out, tell or (lambda _: None)).until_it_ends()

    def get_run(self, run_id: str) -> Run:
        """The run with this id; of several, the newest.

        Raises:
            UsageError: there is none.
        """
        from gpucloud.api.runs import Run, find_run

        return Run.read(find_run(self, run_id), self, self._session.now())

    def cancel_run(self, run_id: str, *, confirm: Callable[[Run], bool] | None = None) -> Run:
        """Ends a run and its box, also one that another process works on; one that is over stays as it is.

        Args:
            run_id: its id.
            confirm: is called before anything is ended; by default, nothing is confirmed.

        Raises:
            OwedError: something may still be billed; the next call that changes anything continues.
            UsageError: there is no such run, or ``confirm`` returned ``False``.
        """
        from gpucloud.api.ending import cancel_run

        with self._session.operation() as context:
            return cancel_run(self, context, run_id, confirm)

    def fetch_run(self, run_id: str, *, files: Sequence[tuple[str, str]] = ()) -> Run:
        """Copies the files of a run that could not be copied when its command had ended, and ends its box.

        With ``checkpoint_to`` out of the store, where the box is gone or does not answer; also later.

        Args:
            run_id: its id.
            files: (path on the box, local path); by default, those that the run was to copy.

        Raises:
            NotFetchedError: some could not be copied; the box stays until its deadline.
            UsageError: no files of such a run are waiting or stored, or another process works on it.
            OwedError: something may still be billed; the next call that changes anything continues.
        """
        from gpucloud.api.fetching import fetch_run
        from gpucloud.runs.detached import here

        with self._session.operation() as context:
            return fetch_run(self, context, run_id, here(files, str(Path.cwd())))

    def fetch_results(self, run_id: str, url: str, *, files: Sequence[tuple[str, str]] = ()) -> str:
        """Copies the results of a run that this journal does not know out of its store; returns their place.

        Args:
            run_id: its id.
            url: the address of the store, as the run had it in ``checkpoint_to``.
            files: (path on the box, local path); by default, what it was to bring home, into this folder.

        Raises:
            NotThereError: the store does not have such a file.
            NotCopiedError: one could not be copied.
            UsageError: there are no results of such a run, or no place for them.
        """
        from gpucloud.api.fetching import fetch_results
        from gpucloud.runs.detached import here

        with self._session.operation() as context:
            return fetch_results(context, run_id, url, here(files, str(Path.cwd())))

    def store_of_run(self, run_id: str) -> RunStore | None:
        """What the store of a run holds and costs; ``None`` if it has none.

        Raises:
            UsageError: there is no such run, or its bucket cannot be used any more.
            CloudError: the store did not answer.
        """
        from gpucloud.api.stored import store_of_run

        with self._session.operation() as context:
            return store_of_run(self, context, run_id)

    def stores(self, *, run_id: str | None = None) -> list[RunStore]:
        """What the stores of the owner's runs hold and cost, those that hold something; or of one run.

        Raises:
            UsageError: a bucket cannot be used any more.
            CloudError: a store did not answer.
        """
        from gpucloud.api.stored import stores

        with self._session.operation() as context:
            return stores(self, context, run_id)

    def delete_store_of_run(
        self, run_id: str, *, confirm: Callable[[RunStore], bool] | None = None
    ) -> RunStore:
        """Deletes the checkpoints, logs and results of a run that is over from its store.

        What gpucloud has not written there stays.

        Args:
            run_id: its id.
            confirm: is called before anything is deleted; by default, nothing is confirmed.

        Raises:
            UsageError: there is no such run, it is not over, has no store, or ``confirm`` returned ``False``.
            CloudError: the store refused, or did not answer; what is left goes the next time.
        """
        from gpucloud.api.stored import delete_store_of_run

        with self._session.operation() as context:
            return delete_store_of_run(self, context, run_id, confirm)

    # --- nodes of an engine

    def fleet(self, cluster: Cluster | Path) -> Fleet:
        """The boxes of a cluster, for an engine that has a queue of its own.

        Args:
            cluster: the cluster, or the file that it is in (``cluster.yaml``).

        Raises:
            UsageError: the file cannot be read, or is not valid; with file and line.
        """
        from gpucloud.api.fleet import Fleet
        from gpucloud.elastic.cluster_file import load_cluster

        return Fleet(load_cluster(cluster) if isinstance(cluster, Path) else cluster, self, self._session)

    def slurm(self, file: Path) -> Slurm:
        """The nodes of a cluster for Slurm, on the machine of slurmctld.

        Args:
            file: the cluster's file (``cluster.yaml``).
        """
        from gpucloud.api.slurm import Slurm

        return Slurm(file, self, self._session)

    def kubernetes(self, cluster: Cluster | Path, joining: Joining, token: str) -> Kubernetes:
        """The boxes of a cluster as groups of nodes for Kubernetes' cluster-autoscaler.

        Args:
            cluster: the cluster, or the file that it is in (``cluster.yaml``).
            joining: how its boxes become nodes.
            token: the secret that lets them join.

        Raises:
            UsageError: the file cannot be read, or is not valid; with file and line.
        """
        from gpucloud.api.kubernetes import Kubernetes

        return Kubernetes(self, self._session, self.fleet(cluster), joining, token)

    def kubernetes_manifests(
        self,
        cluster: Path,
        *,
        image: str,
        joining: Joining,
        parts: Collection[ManifestPart] | None = None,
        deployment: str | None = None,
        prometheus: str | None = None,
    ) -> str:
        """What a Kubernetes cluster needs to use the boxes of a cluster, as YAML. Asks no cloud.

        Args:
            cluster: the file of the cluster (``cluster.yaml``).
            image: an image with gpucloud, pinned to a tag or digest.
            joining: how its boxes become nodes.
            parts: what is wanted of it; all by default.
            deployment: a Deployment to scale by the use of its GPUs.
            prometheus: the address of Prometheus, for that.

        Raises:
            UsageError: the file cannot be read or is not valid, or an argument is not.
            NoOfferError: nothing matches a class.
            PriceError: what matches a class costs more than its limit.
        """
        from gpucloud.api.kubernetes import shape_of_class
        from gpucloud.elastic.cluster_file import load_cluster
        from gpucloud.elastic.kubernetes.manifests import PROMETHEUS, Filling, ManifestPart, manifests

        found = load_cluster(cluster)
        filling = Filling(
            cluster=found,
            text=cluster.read_text(encoding="utf-8"),
            shapes={name: shape_of_class(self, each.spec) for name, each in found.classes.items()},
            image=image,
            joining=joining,
            deployment=deployment,
            prometheus=prometheus or PROMETHEUS,
        )
        return manifests(filling, parts or frozenset(ManifestPart))

    # --- boxes

    def boxes(self, *, over: bool = False, run_id: str | None = None) -> list[Box]:
        """The owner's boxes as the journal has them, oldest first; ``over`` adds deleted and failed ones."""
        found = self.journal.boxes(owner=self.owner, over=over)
        return [self._read(box) for box in found if run_id is None or box.run_id == run_id]

    def look(self, *, all_owners: bool = False) -> Looked:
        """Updates the living boxes from clouds and guards, and searches every region for unknown resources.

        Args:
            all_owners: also search for the resources of other owners.
        """
        from gpucloud.api.results import Looked, Searched
        from gpucloud.boxes.look import look
        from gpucloud.ending.discovery import begin, strangers
        from gpucloud.resources import Search

        with self._session.operation() as context:
            asked = begin(context, Search() if all_owners else context.search())
            survey = look(context, context.journal.boxes(owner=context.owner), asked)
            unknown = strangers(context, survey)
            searched = Searched.of(survey, context.search())
        return Looked(boxes=tuple(self.boxes()), strangers=tuple(unknown), searched=searched)

    def get(self, name: str, *, live: bool = False) -> Box:
        """The living box with this name or id; otherwise the newest one that has ended.

        Args:
            name: the name or id of the box.
            live: asks its cloud and its guard first.

        Raises:
            UsageError: there is none.
        """
        if not live:
            return self._read(self._find(name))
        from gpucloud.boxes.look import look

        with self._session.operation() as context:
            look(context, [self._find(name)], {})
        return self._read(self._find(name))

    def extend(
        self,
        name: str,
        ttl: timedelta | None,
        *,
        add: bool = False,
        confirm: Callable[[datetime | None, datetime], bool] | None = None,
    ) -> Box:
        """Moves the deadline of a box; see :meth:`gpucloud.Box.extend`.

        ``confirm`` is called with the old and the new deadline before it becomes earlier; by default, nothing
        is confirmed.
        """
        from gpucloud.boxes.deadline import extend
        from gpucloud.planning.lifetime import refuse_short
        from gpucloud.runs.first_step import settle_first

        if not add:  # a deadline that only becomes later cannot be too early
            refuse_short(ttl, "--ttl")
        with self._session.operation() as context:
            settle_first(context)
            return self._read(extend(context, self._find(name), ttl, add=add, confirm=confirm))

    def share(self, name: str, key: str, *, allow_from: Sequence[str] = (), remove: bool = False) -> Shared:
        """Lets a colleague in on a box with their own key; repeated, it changes nothing.

        Args:
            name: the name or id of the box.
            key: the content of the colleague's public key file: one line.
            allow_from: addresses that the box accepts from now on, besides the present ones.
            remove: takes the key and these addresses away, instead. Connections that are open stay open.

        Raises:
            UsageError: it is not one public key; an address is none; or the box cannot be reached from here.
            ConnectionFailedError: a node cannot be reached; repeat the call.
            CloudError: the addresses could not be changed.
        """
        from gpucloud.api.results import Shared
        from gpucloud.boxes.share import share
        from gpucloud.spec.fields import cidrs
        from gpucloud.ssh.keys import read_shared_key

        try:
            guests = cidrs(tuple(allow_from))
        except ValueError as error:
            raise UsageError(f"--allow-from: {error}") from error
        shared_key = read_shared_key(key)
        with self._session.operation() as context:
            done = share(context, self._find(name), shared_key, guests=guests, remove=remove)
        return Shared(
            box=self._read(done.box),
            fingerprint=shared_key.fingerprint,
            changed=done.changed,
            nodes=tuple(done.nodes),
            host_keys=tuple(done.box.host_keys[node.node] for node in done.nodes),
            allow_from=done.box.allow_from,
            in_team=self._session.team_journal is not None,
        )

    def stop(
        self, name: str, *, keep: timedelta | None = None, confirm: Callable[[Stop], bool] | None = None
    ) -> Box:
        """Stops a box: only its disk, and the address that it keeps, are billed until it is started.

        Args:
            name: its name or id.
            keep: after how long the stopped box is deleted; by default, 7 days. For one that is stopped
                already, the time counts from now.
            confirm: is called with what is lost before anything is changed; by default, nothing is confirmed.

        Raises:
            UsageError: it cannot be stopped; or ``confirm`` returned ``False``.
            ConnectionFailedError: it cannot be reached.
            CloudError: the cloud refused; it runs on.
            OwedError: it is not known to be stopped, or its compute is billed on.
        """
        from gpucloud.boxes.power import stop
        from gpucloud.ending.stopping import KEEP, LEAST_KEEP
        from gpucloud.runs.first_step import settle_first

        keep = KEEP if keep is None else keep
        if keep < LEAST_KEEP:
            raise UsageError("--keep: a stopped box is kept for at least 1h", hint="use a larger --keep")
        with self._session.operation() as context:
            settle_first(context)
            return self._read(stop(context, self._find(name), self.catalog.market, keep, confirm))

    def start(
        self,
        name: str,
        *,
        ttl: timedelta | Literal["none"] | None = None,
        max_price: Decimal | None = None,
        confirm: Callable[[Start], bool] | None = None,
    ) -> Box:
        """Starts a stopped box at today's price, and waits until its GPUs answer over ssh.

        Args:
            name: its name or id.
            ttl: the time to live from now; by default, that of its launch.
            max_price: the limit in USD per hour; by default, that of its launch, or its previous price and
                the margin of a launch.
            confirm: is called with the price before anything is bought; by default, nothing is confirmed.

        Raises:
            UsageError: it is not stopped; or ``confirm`` returned ``False``.
            PriceError: it costs more than the limit; it stays stopped.
            CloudError: there is no capacity, or the cloud refused; it stays stopped.
            OwedError: it is not ready, and not known to be stopped again.
        """
        from gpucloud.boxes.power import lifetime_at_start, start
        from gpucloud.planning.lifetime import refuse_short
        from gpucloud.runs.first_step import settle_first

        lives = None if ttl is None or ttl == "none" else ttl
        refuse_short(lives, "--ttl")
        with self._session.operation() as context:
            settle_first(context)
            box = self._find(name)
            started = start(
                context,
                box,
                self.catalog.market,
                lives=lifetime_at_start(box) if ttl is None else lives,
                max_price_usd=max_price,
                confirm=confirm,
            )
            return self._read(started)

    def move(
        self,
        name: str,
        to: str,
        *,
        paths: Sequence[str] = (),
        max_price: Decimal | None = None,
        confirm: Callable[[Move], bool] | None = None,
    ) -> Box:
        """Launches a box like this one in another place, and copies files to it; the old one stays as it is.

        The new box has the spec of the old one, what is left of its time and its budget, and its variables.
        The command of ``run`` is not started again. Volumes come along as new ones, at the same paths; the
        old ones stay.

        Args:
            name: name or id of the old box.
            to: a cloud, a region or a zone.
            paths: files and folders below the home folder; by default, all of it.
            max_price: the limit in USD per hour; by default, that of the old box.
            confirm: is called before anything is bought; by default, nothing is confirmed.

        Returns:
            The new box. The old one is deleted by :meth:`down`.

        Raises:
            UsageError: it cannot be moved there, or ``confirm`` returned ``False``.
            NotCopiedError, ConnectionFailedError: the files could not be copied; the new box is deleted.
            NoOfferError, PriceError, CloudError, OwedError: as :meth:`launch`.
        """
        from gpucloud.api.moving import WHOLE, Mover

        with self._session.operation() as context:
            mover = Mover(context=context, catalog=self.catalog, billing_of=self.billing_of)
            there = mover.move(
                self._find(name), to, paths=tuple(paths) or WHOLE, max_price=max_price, confirm=confirm
            )
            return self._read(there)

    def setup(self, name: str) -> Box:
        """Repeats the set-up of a box, and makes it ready.

        Raises:
            SetupFailedError: it failed again; the box stays until its deadline.
            UsageError: the set-up of this box cannot be repeated.
            ConnectionFailedError: the box cannot be reached.
            BoxLostError: the box ended meanwhile.
        """
        from gpucloud.boxes.set_up import repeat_setup
        from gpucloud.runs.first_step import settle_first

        with self._session.operation() as context:
            settle_first(context)
            return self._read(repeat_setup(context, self._find(name)))

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
            OwedError: something may still be billed; the next call that changes anything continues.
            UsageError: no boxes are specified; there is no such box; or ``confirm`` returned ``False``.
        """
        from gpucloud.api.ending import down

        if sum((bool(names), run_id is not None, every)) != 1:
            raise UsageError("specify boxes: names, or --run-id, or --all", hint="see them: gpucloud list")
        with self._session.operation() as context:
            return down(self, context, names, run_id, confirm, with_results=with_results)

    # --- volumes

    def create_volume(
        self,
        name: str,
        *,
        size_gib: int,
        near: str | None = None,
        cloud: str | None = None,
        region: str | None = None,
        zone: str | None = None,
        residency: Sequence[str] = (),
        keep: timedelta | None = None,
        confirm: Callable[[VolumePlan], bool] | None = None,
    ) -> Volume:
        """Creates an encrypted disk that outlives boxes, in the place of the cheapest machine that fits.

        Args:
            name: its name, unique among the living boxes and volumes.
            size_gib: its size.
            near: a GPU, as in a spec; by default, any.
            cloud: the cloud; by default, any.
            region: the region; by default, any.
            zone: the zone; by default, any.
            residency: regions or groups outside of which it may not be, as in a spec; by default, anywhere.
            keep: how long it is kept after its last use; by default, 30 days.
            confirm: is called before anything is bought; by default, nothing is confirmed.

        Raises:
            UsageError: a value is not possible, no place is given, or ``confirm`` returned ``False``.
            NoOfferError: nothing matches.
            CloudError: the cloud refused; nothing is left.
            OwedError: something may still be billed.
        """
        from gpucloud.api.volumes import create
        from gpucloud.planning.volume_plan import KEEP
        from gpucloud.spec.file import load_spec

        if not (near or region or zone):
            raise UsageError("a volume needs a place", hint="add --near GPU, --region NAME or --zone NAME")
        places = {"clouds": [cloud], "regions": [region], "zones": [zone]}
        given = {field: values for field, values in places.items() if values[0]}
        spec = load_spec(None, {"name": name, "gpu": near, "residency": residency, **given})
        market = self.catalog.market_for(spec.demand())
        with self._session.operation() as context:
            made = create(
                context,
                market,
                spec,
                name=name,
                size_gib=size_gib,
                keep=KEEP if keep is None else keep,
                confirm=confirm,
            )
        return self._read_volume(made)

    def volumes(self, *, over: bool = False) -> list[Volume]:
        """The owner's volumes in the journal, oldest first; ``over`` adds deleted and failed ones."""
        found = self.journal.boxes(owner=self.owner, over=over, kind=Kind.VOLUME)
        return [self._read_volume(volume) for volume in found]

    def volume(self, name: str) -> Volume:
        """The living volume with this name or id; otherwise the newest one that has ended.

        Raises:
            UsageError: there is none.
        """
        return self._read_volume(self._find(name, Kind.VOLUME))

    def delete_volume(self, name: str, *, confirm: Callable[[Volume], bool] | None = None) -> Volume:
        """Deletes a volume with its data; returns when its cloud confirms that nothing billable is left.

        Args:
            name: its name or id.
            confirm: is called before anything is deleted; by default, nothing is confirmed.

        Raises:
            OwedError: it may still be billed; the next call that changes anything continues.
            UsageError: there is none, or ``confirm`` returned ``False``.
        """
        from gpucloud.api.volumes import delete

        found = self._find(name, Kind.VOLUME)
        with self._session.operation() as context:
            ended = delete(context, found, lambda: confirm is None or confirm(self._read_volume(found)))
        return self._read_volume(ended)

    # --- snapshots

    def create_snapshot(
        self,
        name: str,
        *,
        of: str,
        keep: timedelta | None = None,
        confirm: Callable[[SnapshotPlan], bool] | None = None,
    ) -> Snapshot:
        """Copies a volume as it is now, or the root disk of a stopped box, in its region.

        A box that uses the volume runs its checkpoint command and writes what it has not written yet before.
        Boxes can boot from the copy of a root disk: it is an ``image`` of a spec. The call returns when the
        cloud no longer needs the disk: the copy may take a while.

        Args:
            name: its name, unique among the living boxes, volumes and snapshots.
            of: the name or id of the volume, or of the stopped box.
            keep: how long it is kept; by default, 30 days.
            confirm: is called before anything is bought; by default, nothing is confirmed.

        Raises:
            UsageError: a value is not possible, or ``confirm`` returned ``False``.
            ConnectionFailedError: the box that uses the volume does not answer.
            CloudError: the cloud refused; nothing is left.
            OwedError: something may still be billed.
        """
        from gpucloud.api.volumes import snapshot
        from gpucloud.planning.volume_plan import KEEP

        source, kept = self._find(of, None), KEEP if keep is None else keep
        market = self.catalog.market
        with self._session.operation() as context:
            made = snapshot(context, market, source, name=name, keep=kept, confirm=confirm)
        return self._read_snapshot(made)

    def snapshots(self, *, over: bool = False) -> list[Snapshot]:
        """The owner's snapshots in the journal, oldest first; ``over`` adds deleted and failed ones."""
        found = self.journal.boxes(owner=self.owner, over=over, kind=Kind.SNAPSHOT)
        return [self._read_snapshot(snapshot) for snapshot in found]

    def snapshot(self, name: str) -> Snapshot:
        """The living snapshot with this name or id; otherwise the newest one that has ended.

        Raises:
            UsageError: there is none.
        """
        return self._read_snapshot(self._find(name, Kind.SNAPSHOT))

    def restore_snapshot(
        self,
        name: str,
        *,
        volume: str,
        near: str | None = None,
        zone: str | None = None,
        size_gib: int | None = None,
        keep: timedelta | None = None,
        confirm: Callable[[VolumePlan], bool] | None = None,
    ) -> Volume:
        """Creates a volume that is filled from a snapshot, in any zone of its region.

        Args:
            name: the name or id of the snapshot.
            volume: the name of the new volume.
            near: a GPU that is to be near, as in a spec; by default, any.
            zone: the zone; by default, that of the volume that the snapshot was made of.
            size_gib: its size; by default, that of the volume that the snapshot was made of.
            keep: how long it is kept after its last use; by default, 30 days.
            confirm: is called before anything is bought; by default, nothing is confirmed.

        Raises:
            UsageError: a value is not possible, or ``confirm`` returned ``False``.
            NoOfferError: nothing matches.
            CloudError: the cloud refused; nothing is left.
            OwedError: something may still be billed.
        """
        from gpucloud.api.volumes import restore
        from gpucloud.planning.snapshot_plan import size_of, spec_near
        from gpucloud.planning.volume_plan import KEEP

        source = self._find(name, Kind.SNAPSHOT)
        spec = spec_near(self.catalog.market, source, name=volume, gpu=near, zone=zone)
        market = self.catalog.market_for(spec.demand())
        with self._session.operation() as context:
            made = restore(
                context,
                market,
                spec,
                source,
                name=volume,
                size_gib=size_of(source, size_gib),
                keep=KEEP if keep is None else keep,
                confirm=confirm,
            )
        return self._read_volume(made)

    def delete_snapshot(self, name: str, *, confirm: Callable[[Snapshot], bool] | None = None) -> Snapshot:
        """Deletes a snapshot; returns when its cloud confirms that nothing billable is left.

        Volumes that were filled from it, and boxes that booted from it, keep their data.

        Args:
            name: its name or id.
            confirm: is called before anything is deleted; by default, nothing is confirmed.

        Raises:
            OwedError: it may still be billed; the next call that changes anything continues.
            UsageError: there is none, or ``confirm`` returned ``False``.
        """
        from gpucloud.api.volumes import end

        found = self._find(name, Kind.SNAPSHOT)
        with self._session.operation() as context:
            ended = end(context, found, lambda: confirm is None or confirm(self._read_snapshot(found)))
        return self._read_snapshot(ended)

    # --- a box's nodes

    def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        node: int = 0,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
    ) -> Completed:
        """Runs a program on a node; see :meth:`gpucloud.Box.exec`."""
        from gpucloud.api.box import Completed
        from gpucloud.ssh.client import run
        from gpucloud.ssh.environment import loading

        target = self.connect(name, node=node)
        words = loading(command) if target.has_environment else command
        done = run(target, words, stdin=stdin, timeout_s=timeout_s)
        return Completed(
            exit_code=done.code,
            stdout=done.out.decode(errors="replace"),
            stderr=done.err.decode(errors="replace"),
        )

    def exec_all(
        self,
        name: str,
        command: Sequence[str],
        show: Callable[[int, str, bool], None],
        *,
        tell: Callable[[str], object] = lambda _: None,
    ) -> list[int]:
        """Runs a program on every node at the same time; see :meth:`gpucloud.Box.exec_all`."""
        from gpucloud.ssh.nodes import run_on_all

        nodes = range(len(self._find(name).nodes))
        return run_on_all([self.connect(name, node=node) for node in nodes], command, show, tell)

    def start_job(self, name: str, command: Sequence[str], *, nodes: Sequence[int] | None = None) -> str:
        """Starts a program on nodes and leaves it running; see :meth:`gpucloud.Box.start_job`."""
        from gpucloud.ssh.environment import loading
        from gpucloud.ssh.job import new_id, script_of, start

        chosen = range(len(self._find(name).nodes)) if nodes is None else nodes
        targets = [self.connect(name, node=node) for node in chosen]
        job = new_id()
        for target in targets:
            words = loading(command) if target.has_environment else command
            start(target, script_of(words, {}), job)
        return job

    def jobs(self, name: str, *, node: int = 0) -> list[JobState]:
        """The jobs of a node; see :meth:`gpucloud.Box.jobs`."""
        from gpucloud.ssh.job import jobs

        return jobs(self.connect(name, node=node))

    def run_job(
        self,
        name: str,
        command: Sequence[str] | str,
        *,
        environment: Mapping[str, str],
        out: Write | None = None,
        err: Write | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Runs a job on the first node of a box and follows it; see :meth:`gpucloud.Box.run`."""
        from gpucloud.runs.job import Job, discard, follow_job

        target = self.connect(name)
        with self._session.operation() as context:
            job = Job(
                command=command,
                environment=environment,
                out=out or discard,
                err=err or discard,
                timeout_s=timeout_s,
            )
            return follow_job(context, self._find(name), [target], job).code

    def sync(self, name: str, source: str, destination: str, *, up: bool, node: int = 0) -> None:
        """Copies files to a node (``up``) or from it; see :meth:`gpucloud.Box.upload`."""
        from gpucloud.bring_up.sending import upload
        from gpucloud.sources.selection import Source, select
        from gpucloud.ssh.files import rsync_down

        if not up:
            rsync_down(self.connect(name, node=node), source, destination)
            return None
        chosen = select(Source(source, source, destination or "."))
        return upload(self.connect(name, node=node), chosen)

    def connect(self, name: str, *, node: int = 0) -> Target:
        """Opens the shared ssh connection to a node; the clouds are asked only if it does not answer.

        Raises:
            UsageError: there is no such box, or it has ended, or has no address yet.
            ConnectionFailedError: it cannot be reached.
        """
        from gpucloud.boxes.connection import target_of
        from gpucloud.bring_up.ingress import reach
        from gpucloud.ssh.client import ConnectionFailedError, Failure, connect

        box = self._find(name)
        target = target_of(box, node, self.state, self._session.proxy_command)
        try:
            connect(target)
        except ConnectionFailedError as error:
            if error.failure is not Failure.UNREACHABLE:
                raise
            with self._session.operation() as context:
                reach(context, box, target)
        return target

    def hosts(self, name: str) -> Members:
        """The nodes of a box for other programs; see :meth:`gpucloud.Box.hosts`."""
        from gpucloud.clusters.members import members_of

        return members_of(self._find(name), self.state, self._session.proxy_command)

    def hosts_text(self, name: str, form: str = "hostfile") -> str:
        """The nodes of a box in the format of another program; see :meth:`gpucloud.Box.hosts_text`."""
        from gpucloud.clusters.formats import FORMATS

        if form not in FORMATS:
            raise UsageError(f"unknown format {form!r}", hint=f"allowed: {', '.join(FORMATS)}")
        return FORMATS[form](self.hosts(name))

    def ssh_hosts(self) -> SshHosts:
        """Writes the file of hosts for other ssh clients; from then on each call keeps it up to date.

        Raises:
            UsageError: the file cannot be written.
        """
        from gpucloud.api.results import SshHosts
        from gpucloud.boxes.hosts import all_hosts
        from gpucloud.config import HOSTS
        from gpucloud.ssh.hosts import hosts_text, keep

        def read() -> list[Host]:
            return all_hosts(self.journal, self.owner, self.state, self._session.proxy_command)

        file = self.state / HOSTS
        try:
            keep(file, read)
        except OSError as error:
            raise UsageError(
                f"cannot write {file}: {error.strerror or error}",
                hint="free some space, or set GPUCLOUD_HOME to a folder that you can write to",
            ) from error
        hosts = tuple(read())
        return SshHosts(file=file, hosts=hosts, text=hosts_text(hosts))

    def logs(self, name: str, source: str = "boot", *, node: int = 0, job: str = "run") -> str:
        """A log of a node; see :meth:`gpucloud.Box.logs`."""
        from gpucloud.ssh.client import run
        from gpucloud.ssh.logs import LOGS_TIMEOUT_S, MOST_LOG_BYTES, log_command

        if source == "console":
            return self.console(name, node=node)
        kept = self.kept_log(name, source, node=node, job=job)
        if kept is not None:
            return kept.text
        target, command = self.connect(name, node=node), log_command(source, job=job)
        done = run(target, command, timeout_s=LOGS_TIMEOUT_S, most_bytes=MOST_LOG_BYTES, only_end=True)
        return done.out.decode(errors="replace")

    def uploaded_log(self, name: str, source: str) -> str | None:
        """The URL of a log in the bucket of the checkpoints, where a box uploads it at its end, if it can."""
        from gpucloud.runs.checkpoints import logs_of

        return logs_of(self._find(name), source)

    def kept_log(self, name: str, source: str, *, node: int = 0, job: str = "run") -> Kept | None:
        """A log of a box that has ended, as this machine or its bucket kept it; ``None`` for a living box.

        Raises:
            UsageError: the box has ended, and no such log of it was kept.
        """
        from gpucloud.bring_up.archived_logs import kept_log
        from gpucloud.ssh.job import RUN

        box = self._find(name)
        if box.ended_at is None:
            return None
        kept = kept_log(self.state, box.id, source, node=node) if job == RUN else None
        if kept is None and job == RUN and not node:
            kept = self._stored_log(box, source)
        if kept is None:
            there = self.uploaded_log(name, source) if job == RUN and not node else None
            raise UsageError(
                f"box {box.name!r} has ended ({box.state}), and no {source} log of it was kept here",
                hint=f"if it could, it has uploaded it: {there}"
                if there
                else "a log is kept when a setup fails, and by `run` and `down`, if the box answers then",
            )
        return kept

    def _stored_log(self, box: JournalBox, source: str) -> Kept | None:
        """The log that a box has uploaded to the bucket of its checkpoints; ``None`` if there is none."""
        from gpucloud.bring_up.archived_logs import Kept
        from gpucloud.runs.checkpoints import logs_of, read_log

        if logs_of(box, source) is None:
            return None
        with self._session.operation() as context:
            text = read_log(context, box, source)
        return None if text is None else Kept(text=text, at=box.ended_at or self._session.now())

    def console(self, name: str, *, node: int = 0) -> str:
        """The console log of a node, from its cloud; empty if the cloud keeps none.

        Raises:
            CloudError: the cloud did not answer, or refused.
        """
        box = self._find(name)
        with self._session.operation() as context:
            cloud = context.clouds.usable(box.cloud)
            return context.tasks.run(lambda: cloud.console(box.machine(node)))

    # --- what the clouds hold

    def recover(self) -> Recovered:
        """Restores boxes, volumes and snapshots that are missing from the journal, found by their tags."""
        from gpucloud.api.results import Recovered, Searched
        from gpucloud.ending.discovery import begin, finish
        from gpucloud.ending.reconcile import refresh_all
        from gpucloud.ending.recover import adopt_found
        from gpucloud.runs.first_step import settle_first

        with self._session.operation() as context:
            context.tell("recover", "looking in every region of every cloud")
            survey = finish(context, begin(context, mine := context.search()))
            adopted, troubles = adopt_found(context, survey, self.catalog.market)
            for trouble in troubles:
                context.warn("recover", f"{trouble.message}" + (f"; {trouble.hint}" if trouble.hint else ""))
            for trouble in refresh_all(context, adopted):
                context.warn("recover", f"No answer: {trouble.message}")
            settle_first(context)
            found = context.journal.known([box.id for box in adopted])
        return Recovered(
            boxes=tuple(self._read(each) for each in found if each.kind is Kind.BOX),
            volumes=tuple(self._read_volume(each) for each in found if each.kind is Kind.VOLUME),
            snapshots=tuple(self._read_snapshot(each) for each in found if each.kind is Kind.SNAPSHOT),
            troubles=troubles,
            searched=Searched.of(survey, mine),
            living=tuple(self.boxes()),
        )

    def sweep(
        self,
        *,
        older_than: timedelta | None = None,
        owner: str | None = None,
        dry_run: bool = False,
        confirm: Callable[[Sequence[Find], Searched], bool] | None = None,
    ) -> Swept:
        """Finds unwanted resources with gpucloud's tags in all regions of all clouds, and deletes them.

        Args:
            older_than: the minimum age of a resource unknown to the journal; 15 minutes by default.
            owner: deletes this owner's resources, instead of the client's.
            dry_run: deletes nothing.
            confirm: is called with the resources before any is deleted; by default, nothing is confirmed.

        Raises:
            UsageError: ``confirm`` returned ``False``.
        """
        from gpucloud.api.sweeping import sweep

        with self._session.operation() as context:
            context.tasks.clean_up = "gpucloud sweep --yes"
            return sweep(self, context, owner or self.owner, older_than, dry_run=dry_run, confirm=confirm)

    # --- what was done

    def spend(
        self, *, since: datetime | None = None, run_id: str | None = None, all_owners: bool = False
    ) -> Spend:
        """The cost of boxes, with those that have ended, at the prices of their launch.

        Args:
            since: leaves out earlier costs.
            run_id: only the boxes of this run.
            all_owners: also the boxes of other owners in this journal.
        """
        from gpucloud.costs.spend import spend_of

        boxes = self._boxes_of(run_id, all_owners=all_owners)
        spent = spend_of(boxes, since, self._session.now(), self.billing_of)
        if run_id is not None or not boxes:
            return spent
        return replace(spent, unusual_days=self._session.unusual_days(all_owners=all_owners))

    def unusual_days(self, *, all_owners: bool = False) -> list[UnusualDay]:
        """Those of the last 7 days that have cost more than is usual, newest first; in UTC.

        A day does so that costs 20 USD more than the median of the 30 days before it, and more than three
        standard deviations, estimated by the median absolute deviation.

        Args:
            all_owners: of all owners in this journal.
        """
        return self._session.unusual_days(all_owners=all_owners)

    def focus(
        self,
        *,
        since: datetime | None = None,
        run_id: str | None = None,
        all_owners: bool = False,
        granularity: str = "day",
    ) -> Iterator[Row]:
        """The charges of boxes as rows of FOCUS 1.2: one per resource and charge period.

        Args:
            since: leaves out earlier costs.
            run_id: only the boxes of this run.
            all_owners: also the boxes of other owners in this journal.
            granularity: the longest charge period: ``hour``, ``day`` or ``month``, in UTC.

        Returns:
            The text of each column by its name, ``None`` for null; the columns of every row are the same.

        Raises:
            ValueError: the granularity is none of these.
        """
        from gpucloud.costs.billed_resources import BilledResources
        from gpucloud.costs.focus import resource_charges, rows
        from gpucloud.costs.periods import Granularity

        boxes = self._boxes_of(run_id, all_owners=all_owners)
        regions = self.catalog.shipped.regions

        def region_name(cloud: str, region: str) -> str:
            known = regions.get((cloud, region))
            return (known and known.display_name) or region

        found = resource_charges(
            boxes,
            BilledResources(self.journal.resources_of([box.id for box in boxes])),
            since=since,
            now=self._session.now(),
            granularity=Granularity(granularity),
            billing_of=self.billing_of,
            region_name=region_name,
        )
        return rows(found)

    def audit(
        self, *, box: str | None = None, since: datetime | None = None, most: int | None = None
    ) -> AuditRecord:
        """The newest calls that changed something in a cloud, or tried to.

        Args:
            box: only calls for the box with this name or id. The record outlives the journal, so an id that
                the journal does not know is looked up as well.
            since: leaves out older calls.
            most: the maximum number of calls; by default, all.

        Raises:
            UsageError: there is no box with this name.
        """
        from gpucloud.clouds.audit import calls_on_record

        return calls_on_record(self.state, box=box and self._id_of(box), since=since, most=most)

    def follow_audit(self, *, box: str | None = None) -> Iterator[Entry]:
        """The calls from now on, of this and of other processes, until the caller stops iterating.

        Args:
            box: only calls for the box with this name or id.

        Returns:
            Each call as it is about to be sent, and again with its outcome; both have the same ``call``.

        Raises:
            UsageError: there is no box with this name.
        """
        from gpucloud.clouds.audit import FOLLOW_S, follow
        from gpucloud.runtime.tasks import Tasks

        tasks, id_ = self._session.tasks or Tasks(), box and self._id_of(box)
        return follow(self.state, lambda: tasks.pause(FOLLOW_S), lambda call: id_ in {None, call.get("box")})

    def _id_of(self, box: str) -> str:
        """The id of the box with this name; an id stays, as its box may not be in the journal any more."""
        from gpucloud.journal.lifecycle import id_time

        return box if id_time(box) is not None else self._find(box, None).id

    def _boxes_of(self, run_id: str | None, *, all_owners: bool) -> list[JournalBox]:
        """The boxes of a run, or all with the volumes, also ended ones; those of other owners on request."""
        boxes = self.journal.boxes(owner=None if all_owners else self.owner, over=True, kind=None)
        return [box for box in boxes if run_id is None or box.run_id == run_id]

    def _find(self, name: str, kind: Kind | None = Kind.BOX) -> JournalBox:
        from gpucloud.boxes.connection import find_box

        return find_box(self.journal, self.owner, name, kind)

    def _read_volume(self, volume: JournalBox) -> Volume:
        from gpucloud.api.volume import Volume
        from gpucloud.planning.volume_choice import holder_of

        holder = holder_of(self.journal, volume)
        return Volume.read(volume, holder, self.billing_of, self._session.now())

    def _own_image(self, spec: Spec) -> OwnImage | None:
        from gpucloud.planning.own_image import own_image
        from gpucloud_templates.software import is_own

        if spec.image is None or not is_own(spec.image):
            return None  # a recipe needs no journal
        return own_image(self.journal, self.owner, spec, self._session.now())

    def _read_snapshot(self, snapshot: JournalBox) -> Snapshot:
        from gpucloud.api.snapshot import Snapshot

        return Snapshot.read(snapshot, self.billing_of, self._session.now())

    def _read(self, box: JournalBox) -> Box:
        from gpucloud.api.box import Box

        return Box.read(box, self, self._session.now())

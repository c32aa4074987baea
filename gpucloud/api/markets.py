"""What is on offer, and what it would cost: ``client.market``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.costs.comparison import Comparison
    from gpucloud.costs.project import Part, Project
    from gpucloud.costs.project_cost import ProjectCost
    from gpucloud.costs.workload import Workload
    from gpucloud.market.commitments import Commitments
    from gpucloud.market.equivalents import Equivalents, SizeComparison
    from gpucloud.market.search import Offers
    from gpucloud.planning.boot_images import BootChoice
    from gpucloud.planning.lifetime import CostLimit
    from gpucloud.planning.own_image import OwnImage
    from gpucloud.planning.plan import Plan
    from gpucloud.spec.model import Spec
    from gpucloud_pricing.estimate import Place
    from gpucloud_pricing.values import Experience


class Markets:
    """Offers, estimates and comparisons, at the prices of the last refresh."""

    def __init__(self, session: Session) -> None:
        self._session = session

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
        market = self._session.catalog.market_for(demand)
        if spec.volumes:
            from gpucloud.planning.volume_choice import places_of, usable_volumes

            volumes = usable_volumes(self._session.journal, self._session.owner, spec, self._session.now())
            demand = replace(demand, volumes=places_of(volumes))
        if spec.near is not None:
            from gpucloud.planning.object_store import place_near

            with self._session.operation() as context:
                demand = replace(demand, near=place_near(context, market, spec))
        own = self._own_image(spec) if spec.image else None
        if own is not None:
            demand = own.narrowed(demand)
        found = search(market, demand, self._session.now().date(), sort=order, limit=limit, why=why)
        if not self._session.may_have_policy:
            return found
        from gpucloud.api.policy import Policies

        return Policies(self._session).marked(found, market)

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
            self._session.catalog,
            spec,
            workload or Workload(),
            self._session.now().date(),
            own=own_conditions(self._session.catalog, file, named=conditions is not None),
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
            return narrowed(context, self._session.catalog.market, spec)

    def _experience(self) -> Mapping[Place, Experience]:
        """The owner's own history on spot; none of a journal that cannot be read, which is told."""
        from gpucloud.costs.experience import experiences
        from gpucloud.journal.errors import JournalError

        session = self._session
        try:
            runs = session.journal.spot_runs(owner=self._session.owner) if session.may_have_spot else ()
        except (JournalError, UsageError) as error:
            self._session.catalog.tell(f"Your own history on spot is not counted: {error}")
            return {}
        return experiences(runs, session.now())

    def project(
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

        return equivalents(
            self._session.catalog, self._narrowed(spec).demand(), by, self._session.now().date()
        )

    def compare_sizes(self, spec: Spec) -> SizeComparison:
        """Two sizes by each measure, with their ratios and the cheapest machines that have them.

        Args:
            spec: a spec with two GPUs, each with a count: ``gpu="A100-80GB:8,H100:4"``.

        Raises:
            UsageError: the spec has not two GPUs, each with a count.
        """
        from gpucloud.market.equivalents import compare_sizes

        return compare_sizes(self._session.catalog, self._narrowed(spec).demand(), self._session.now().date())

    def images(self, spec: Spec) -> list[BootChoice]:
        """The images that the offers of a spec boot, and the software of the first boot.

        Asks no cloud, except where the bucket of the spec is (``near``).

        Raises:
            NoOfferError: nothing matches.
            UsageError: the spec names no GPU, or a place that does not exist.
        """
        from gpucloud.market.search import search
        from gpucloud.planning.boot_images import boot_choices
        from gpucloud.planning.own_image import image_id
        from gpucloud.planning.planner import candidates_of

        spec.require_gpu()
        spec = self._narrowed(spec)
        own = self._own_image(spec)
        demand = own.narrowed(spec.demand()) if own else spec.demand()
        found = search(self._session.catalog.market_for(demand), demand, self._session.now().date())
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

        with self._session.operation() as context, self._session.catalog.history() as history:
            wanted = clouds_to_ask(context.clouds.names(), tuple(clouds))
            answers = ask_commitments(context, history, wanted)
            known = [each for each in history.commitments() if each.cloud in wanted]
        return Commitments(commitments=known, by_cloud=answers)

    def cost_limit(self, plan: Plan) -> CostLimit:
        """The upper limit of a plan's cost per hour, and the end of the box.

        Raises:
            UsageError: there is a budget, but a price that it must cover is unknown.
        """
        from gpucloud.planning.lifetime import cost_limit
        from gpucloud.spec.file import load_spec

        return cost_limit(plan, load_spec(None, dict(plan.spec)), self._session.catalog.market)

    def _own_image(self, spec: Spec) -> OwnImage | None:
        from gpucloud.planning.own_image import own_image
        from gpucloud_templates.software import is_own

        if spec.image is None or not is_own(spec.image):
            return None  # a recipe needs no journal
        return own_image(self._session.journal, self._session.owner, spec, self._session.now())

"""Moves a box: launches one in another place with the files of the old one, which the caller may then delete.

``move`` carries it where its user says, ``tend`` away from faulty hardware.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from gpucloud.api.launching import Buyer
from gpucloud.api.results import Proposal
from gpucloud.boxes.launch import environment_of, refuse_impossible
from gpucloud.boxes.look import holding
from gpucloud.boxes.relocation import VolumeRelocation
from gpucloud.bring_up.bring_up import targets
from gpucloud.bring_up.ingress import reach
from gpucloud.bring_up.saving import save_work
from gpucloud.costs.resource_prices import transfer_price
from gpucloud.costs.spend import BillingOf, cost_so_far
from gpucloud.ending.deadline import check_movable
from gpucloud.errors import UsageError
from gpucloud.journal.facts import Place
from gpucloud.journal.lifecycle import LEAST_LIFE
from gpucloud.journal.records import Box
from gpucloud.market.catalog import Catalog
from gpucloud.planning.avoidance import Avoided
from gpucloud.planning.volume_move import FreeNames, VolumeMove, volume_moves
from gpucloud.planning.volume_plan import VolumePlan
from gpucloud.purchase.order import BoxRequest
from gpucloud.runs.first_step import settle_first
from gpucloud.runtime.context import Context
from gpucloud.spec.file import load_spec
from gpucloud.spec.model import Spec
from gpucloud.ssh.between import SIZE_TIMEOUT_S, copy_between, size_of
from gpucloud.ssh.client import Target, run
from gpucloud.ssh.environment import ENVIRONMENT, variables_in
from gpucloud.ssh.keys import find_program, key_folder
from gpucloud_pricing import Market, format_count
from gpucloud_pricing.places import BadPlaceError
from gpucloud_pricing.values import Money

PLACES = ("clouds", "regions", "zones")
GIB = Decimal(1 << 30)
WHOLE = (".",)
"""The paths that are copied by default: all of the home folder, or of a volume."""
COPY_TIMEOUT_S = math.inf
"""How long the copy of files may take: a signal ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TravellingVolume:
    """A volume that comes along, at the first attempt of the plan.

    Attributes:
        move: the volume, and its new name.
        plan: the new volume.
        gib: the size of the files that are copied; ``None`` if it is filled from a snapshot instead.
    """

    move: VolumeMove
    plan: VolumePlan
    gib: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move to confirm: both boxes are billed until the old one is deleted.

    Attributes:
        box: the box that is moved.
        name: the name of the new box.
        purchase: the new box.
        gib: how much is copied from box to box.
        transfer: what the data costs on its way to the first attempt of the plan; ``None`` if unknown.
        volumes: those that come along.
    """

    box: Box
    name: str
    purchase: Proposal
    gib: Decimal
    transfer: Money | None
    volumes: tuple[TravellingVolume, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """Carries boxes: what it works with, and its steps.

    Attributes:
        context: clouds, journal, clock and progress of this call.
        catalog: the market.
        billing_of: how a cloud bills.
    """

    context: Context
    catalog: Catalog
    billing_of: BillingOf

    def move(
        self,
        box: Box,
        to: str,
        *,
        paths: Sequence[str] = WHOLE,
        max_price: Decimal | None = None,
        confirm: Callable[[Move], bool] | None = None,
    ) -> Box:
        """Launches a box like this one in another place, and copies files; the old one stays.

        Args:
            box: the box.
            to: the cloud, region or zone.
            paths: files and folders below the home folder.
            max_price: the limit in USD per hour, instead of that of the box.
            confirm: is asked before anything is bought; by default, nothing is confirmed.

        Raises:
            UsageError: it cannot be moved there, or was not confirmed; nothing was bought.
            NotCopiedError: a file could not be copied; the new box is deleted.
            GpucloudError: nothing started, or the copy failed; nothing new is left, unless the error says so.
        """
        find_program("rsync")
        refuse_same_place(box, to)
        settle_first(self.context)
        with holding(self.context, box) as old:
            check_movable(self.context, old)
            spec = self._left(old)
            spec = spec_elsewhere(spec.replaced(gpu=spec.gpu or gpu_of(old)), to, self.catalog.market)
            spec = spec.replaced(max_price=max_price or spec.max_price)
            return self._carry(old, BoxRequest(spec=spec, environment={}, attended=True), paths, confirm)

    def replace(self, old: Box, avoided: Avoided) -> Box:
        """Launches a box like this one elsewhere, where its spec allows it, and copies all files; it stays.

        Args:
            old: the box, which this process holds.
            avoided: where it is not to be, as long as its spec allows other places.

        Raises:
            GpucloudError: as :meth:`move`.
        """
        find_program("rsync")
        check_movable(self.context, old)
        wanted = BoxRequest(
            spec=self._left(old),
            environment={},
            run_id=old.run_id,
            instead_of=old,
            avoided=avoided,
            attended=True,
        )
        return self._carry(old, wanted, WHOLE, None)

    def _carry(
        self,
        old: Box,
        wanted: BoxRequest,
        paths: Sequence[str],
        confirm: Callable[[Move], bool] | None,
    ) -> Box:
        """Launches what is wanted, under a free name, with variables, files and volumes of the old box."""
        [source] = self._targets(old)
        reach(self.context, old, source)
        market = self.catalog.market
        names = FreeNames.of(self.context.journal, self.context.owner)
        spec = wanted.spec.replaced(name=names.after(old.name), volumes=())
        refuse_impossible(spec.replaced(sync=()))  # its files come from the old box
        moves = volume_moves(self.context.journal, market, old, names)
        gib = self._gib(source, paths)
        ask = None
        if confirm is not None:
            ask = partial(self._confirmed, confirm, old=old, source=source, spec=spec, gib=gib, moves=moves)
        wanted = replace(wanted, spec=spec, environment=self._environment(spec, source))
        order = Buyer(self.context, self.catalog, wanted, confirm=ask).agree()
        return VolumeRelocation(
            context=self.context,
            order=order,
            old=old,
            moves=moves,
            fill=partial(self._fill, old, source, paths, moves),
        ).carry()

    def _fill(
        self, old: Box, source: Target, paths: Sequence[str], moves: Sequence[VolumeMove], new: Box
    ) -> None:
        """Copies the files to the new box: those of its home folder, and of volumes that were made blank."""
        context, place = self.context, new.place
        assert place is not None  # noqa: S101  (it has a machine)
        [destination] = self._targets(new)
        save_work(context, old, source)
        context.tell("copy", f"copying files of {old.name} to {new.name}")
        context.tasks.run(partial(copy_between, source, destination, paths), COPY_TIMEOUT_S)
        for move in moves:
            if not move.is_near(place.cloud, place.region):
                context.tell("copy", f"copying files of {move.volume.name} to {move.name}")
                copy = partial(copy_between, source, destination, WHOLE, volume=move.path)
                context.tasks.run(copy, COPY_TIMEOUT_S)

    def _gib(self, source: Target, paths: Sequence[str], volume: str | None = None) -> Decimal:
        size = partial(size_of, source, paths, volume=volume)
        return Decimal(self.context.tasks.run(size, SIZE_TIMEOUT_S)) / GIB

    def _confirmed(
        self,
        confirm: Callable[[Move], bool],
        purchase: Proposal,
        *,
        old: Box,
        source: Target,
        spec: Spec,
        gib: Decimal,
        moves: Sequence[VolumeMove],
    ) -> bool:
        first, place = purchase.plan.attempts[0], old.place
        assert place is not None  # noqa: S101  (it has a machine)
        assert spec.name is not None  # noqa: S101  (the new box has a name of its own)
        market = self.catalog.market
        volumes: list[TravellingVolume] = []
        for move in moves:
            copied = None
            if not move.is_near(first.cloud, first.region):
                copied = self._gib(source, WHOLE, move.path)
                gib += copied
            plan = move.beside(self.context, market, first, None)
            volumes.append(TravellingVolume(move=move, plan=plan, gib=copied))
        target = Place(cloud=first.cloud, account=place.account, region=first.region, zone=first.zone or None)
        return confirm(
            Move(
                box=old,
                name=spec.name,
                purchase=purchase,
                gib=gib,
                transfer=transfer_of(market, place, target, gib),
                volumes=tuple(volumes),
            )
        )

    def _environment(self, spec: Spec, source: Target) -> Mapping[str, str]:
        """The variables of the launch, from the old box: nothing else has their values."""
        if not spec.env:
            return {}
        text = self.context.tasks.run(partial(run, source, ["cat", ENVIRONMENT])).out
        return environment_of(spec, variables_in(text.decode(errors="replace")))

    def _left(self, old: Box) -> Spec:
        """The spec of the box, for what is left of its time and its budget.

        Raises:
            UsageError: too little is left of its time, its budget is spent, or what it has cost is unknown.
        """
        spec, now = load_spec(None, dict(old.wanted.spec)), self.context.clock()
        if old.expires_at is not None and old.expires_at - now < LEAST_LIFE:
            raise UsageError(
                f"{old.name!r} ends before another box has booted",
                hint=f"give it more time: gpucloud extend {old.name} --ttl 1h",
            )
        spec = spec.replaced(run=None, ttl="none" if old.expires_at is None else old.expires_at - now)
        if spec.budget is None:
            return spec
        cost = cost_so_far(old, now, self.billing_of)
        spent = self.catalog.market.usd(cost.amount.amount, cost.amount.currency) if cost else None
        left = None if spent is None else spec.after_spending(spent)
        if left is None:
            raise UsageError(
                f"what is left of the budget of {old.name!r} is unknown"
                if spent is None
                else f"the budget of {old.name!r} is spent",
                hint=f"copy its files: gpucloud sync {old.name}: .",
            )
        return left

    def _targets(self, box: Box) -> list[Target]:
        assert self.context.state is not None  # noqa: S101  (the keys are there)
        return targets(box, key_folder(self.context.state, box.id), self.context.proxy_command)


def gpu_of(box: Box) -> str | None:
    """The GPUs of a box whose spec names an instance type alone, which another place does not have."""
    gpu = box.offer.gpu if box.offer else None
    return f"{gpu.model}:{format_count(gpu.count)}" if gpu else None


def refuse_same_place(box: Box, to: str) -> None:
    """Refuses a box with several nodes, one that cannot be launched again, and one that is there already.

    Raises:
        UsageError: says why.
    """
    place = box.place
    reason = None
    if place is None:
        reason = f"its state is {box.shown_state}"
    elif len(box.nodes) != 1:
        reason = "only a box with one node can be moved"
    elif box.recovered:
        reason = "it was recovered by its tags, which do not hold its spec"
    elif to in {place.cloud, place.region, place.zone}:
        reason = f"it is in {to} already"
    if reason is not None:
        raise UsageError(
            f"{box.name!r} cannot be moved: {reason}", hint=f"see its place: gpucloud show {box.name}"
        )


def spec_elsewhere(spec: Spec, to: str, market: Market) -> Spec:
    """A spec for one cloud, region or zone, instead of its own places.

    Raises:
        UsageError: there is no such place.
    """
    everywhere = spec.replaced(clouds=(), regions=(), zones=(), near=None, instance_types=())
    near: list[str] = []
    for name in PLACES:
        placed = everywhere.replaced(**{name: (to,)})
        try:
            market.check(placed.demand())
        except BadPlaceError as error:
            near += [error.nearest] if error.nearest else []
        else:
            return placed
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"--to: there is no cloud, region or zone {to!r}{hint}", hint="see: gpucloud offers")


def transfer_of(market: Market, origin: Place, target: Place, gib: Decimal) -> Money | None:
    """What it costs to send data from one place to another, in USD; ``None`` if unknown."""
    if origin == target and origin.zone:
        return Money(amount=Decimal(0), currency="USD")
    return transfer_price(market, (origin.cloud, origin.region), (target.cloud, target.region), gib)

"""Provisions a box: buys the first attempt that starts and brings it up; a failure leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_network
from pathlib import Path

from gpucloud.boxes.failed_box import keep_failed, may_keep
from gpucloud.boxes.hosts import keep_hosts
from gpucloud.bring_up.archived_logs import keep_logs
from gpucloud.bring_up.bring_up import UnfitError, bring_up, hand_over, targets
from gpucloud.bring_up.datasets import bring
from gpucloud.bring_up.setup import copy_files, set_up, store_environment
from gpucloud.costs.resource_prices import listed_prices
from gpucloud.errors import GpucloudError, InterruptedBySignal, SetupFailedError, UsageError
from gpucloud.journal.facts import Facts, FirstBoot
from gpucloud.journal.lifecycle import generated_name, new_id
from gpucloud.journal.records import Box, Run
from gpucloud.planning.avoidance import NOTHING_AVOIDED, Avoided
from gpucloud.planning.boot_images import boots
from gpucloud.planning.egress import CheckpointTransfer
from gpucloud.planning.lifetime import ceiling_of
from gpucloud.planning.own_image import image_id, own_image
from gpucloud.planning.plan import Candidate, Key, Plan
from gpucloud.planning.user_data import UserData, boot_plan
from gpucloud.planning.volume_choice import UsableVolume
from gpucloud.policy.budget_check import BudgetCheck
from gpucloud.purchase.attempt import BootData, LaunchTerms
from gpucloud.purchase.ceiling import Agreement
from gpucloud.purchase.failover import abandon, launch, replace_machines, replace_node
from gpucloud.purchase.policy_check import PolicyCheck
from gpucloud.purchase.replacement import opening_of
from gpucloud.resources import ResourceKind
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import CALL_TIMEOUT_S, Call
from gpucloud.sources.selection import read_source, refuse_missing
from gpucloud.spec.model import Spec
from gpucloud.ssh.client import Target, disconnect, forget, is_connected, socket_folder
from gpucloud.ssh.keys import BoxKeys, create_keys, find_program, key_folder, renew_host_key
from gpucloud.storage.attachments import attach_all, holding
from gpucloud.storage.mounting import mount_all
from gpucloud_pricing import Market
from gpucloud_pricing.gpus import parse_requirements
from gpucloud_templates.software import later


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """A plan to buy, the end of its box (``None`` for never), and when a person agreed to both.

    ``agreed_at`` is ``None`` if nobody was asked; ``until`` is when no further attempt is begun, ``None`` for
    the limit of one launch.
    """

    plan: Plan
    end: datetime | None
    agreed_at: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxRequest:
    """The properties of a box that do not depend on the offer.

    Attributes:
        spec: the spec of the user.
        environment: the variables of ``env`` in the spec, with their values.
        run_id: the run of the box.
        attended: whether it ends with this process.
        accept_snapshot_price: whether it may be bought at a price that the cloud does not confirm.
        keep_on_failure: whether it is kept until its deadline if its set-up fails.
        run: the run that it is an attempt of, which this process holds.
        instead_of: the box that it is to replace, which this process holds.
        avoided: places to leave out as long as others match.
        learned: what its launches have learned of places that do not have it; they add to it.
        ends_by: when it ends at the latest, whatever its spec says; ``None`` for no such time.
        carried: the checkpoint that it is to restore; its traffic counts in the order of the offers.
        clean_up: the command that ends it after a second signal, if not ``down`` of its name.
        deliver: puts files on the nodes of the box, before its data and its set-up, instead of those that
            ``sync`` of the spec names here.
    """

    spec: Spec
    environment: Mapping[str, str]
    run_id: str | None = None
    run: Run | None = None
    instead_of: Box | None = None
    avoided: Avoided = NOTHING_AVOIDED
    learned: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    ends_by: datetime | None = None
    carried: CheckpointTransfer | None = None
    attended: bool = False
    accept_snapshot_price: bool = False
    keep_on_failure: bool = False
    clean_up: str | None = None
    deliver: Callable[[Box, Sequence[Target]], None] | None = None


def environment_of(spec: Spec, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of ``env`` in a spec; one without a value takes the caller's value.

    Raises:
        UsageError: the caller has no such variable.
    """
    missing = [key for key, value in spec.env.items() if value is None and key not in environment]
    if missing:
        raise UsageError(
            f"--env {missing[0]}: this variable is not set here", hint=f"--env {missing[0]}=VALUE"
        )
    return {key: environment[key] if value is None else value for key, value in spec.env.items()}


def refuse_impossible(spec: Spec) -> None:
    """Refuses a spec that cannot be fulfilled, before any cloud is called.

    Raises:
        UsageError: it cannot; the message says why.
    """
    if spec.accept_test and spec.gpu and any(requirement.mig for requirement in parse_requirements(spec.gpu)):
        raise UsageError("--accept-test cannot test MIG slices, only whole GPUs", hint="omit --accept-test")
    for item in spec.sync:
        refuse_missing(read_source(item))
    for program in ("ssh", "ssh-keygen", *(["rsync"] if spec.sync else [])):
        find_program(program)
    socket_folder()


def begin_echo(context: Context, spec: Spec) -> Call | None:
    """Starts to ask for this machine's public address; ``None`` if the spec has ``allow_from``.

    Args:
        context: clouds, journal, clock and progress of this call.
        spec: the spec of the user.
    """
    return None if spec.allow_from else context.tasks.start(context.clouds.caller_address)


def provision(context: Context, market: Market, deal: Deal, wanted: BoxRequest, echo: Call | None) -> Box:
    """Buys the first attempt that starts and brings it up; a failure leaves nothing behind.

    Args:
        context: clouds, journal, clock and progress of this call.
        market: for list prices and exchange rates.
        deal: the plan, and the end of the box.
        wanted: the properties that do not depend on the offer.
        echo: the result of :func:`begin_echo`.

    Returns:
        The box, which this process still holds.

    Raises:
        SetupFailedError: its set-up failed, and it is kept.
        GpucloudError: nothing started, or it did not become ready; nothing is left, unless the error says so.
    """
    with holding(context, wanted.spec) as volumes:
        with purchase_of(context, market, deal, wanted, echo, volumes=volumes) as (purchase, terms):
            box = launch(purchase.context, terms, deal.plan.attempts)
        return make_ready(box, purchase)


@contextmanager
def purchase_of(
    context: Context,
    market: Market,
    deal: Deal,
    wanted: BoxRequest,
    echo: Call | None,
    *,
    volumes: Sequence[UsableVolume],
) -> Generator[tuple[BoxPurchase, LaunchTerms]]:
    """A purchase and its terms, with keys of its own, which go if the body fails.

    The arguments are those of :func:`provision`. ``volumes`` are those that the box uses; this process holds
    them.

    Raises:
        GpucloudError: what is wanted cannot be bought; nothing was bought.
    """
    spec, attempts = wanted.spec, deal.plan.attempts
    own = own_image(context.journal, context.owner, spec, context.clock())
    if own is not None:
        from gpucloud.storage.snapshots import wait_complete

        wait_complete(context, own.snapshot, ResourceKind.IMAGE)
    box_id = new_id("b-", context.clock(), context.randomness(10))
    name = spec.name or generated_name(attempts[0].gpu_model, context.randomness(4))
    context = context.about(name)
    assert context.state is not None  # noqa: S101  (who buys has a state folder)
    purchase = BoxPurchase(
        context=context,
        market=market,
        deal=deal,
        wanted=wanted,
        box_id=box_id,
        name=name,
        keys=key_folder(context.state, box_id),
        image=image_id(spec, own),
        allow_from=_allowed(context, spec, echo),
        volumes=volumes,
    )
    try:
        yield purchase, purchase.terms(purchase.new_keys())
    except BaseException:
        forget(purchase.keys, box_id, nodes=spec.nodes)
        raise


def make_ready(box: Box, purchase: BoxPurchase) -> Box:
    """Brings up a box whose machines run, and which this process holds; a failure leaves nothing behind.

    Returns:
        The box, which this process still holds.

    Raises:
        SetupFailedError: its set-up failed, and it is kept.
        GpucloudError: it did not become ready; nothing is left, unless the error says so.
    """
    context = purchase.context
    try:
        return _finish(context, box, purchase)
    except BaseException as error:
        kept = _kept(context, box, purchase, error)
        if kept is not None:
            raise kept from error
        forget(purchase.keys, box.id, nodes=purchase.wanted.spec.nodes)
        raise


def _finish(context: Context, box: Box, purchase: BoxPurchase) -> Box:
    """Brings up the machines of a box, or once others in their place, and sets the box up."""
    keys, wanted = purchase.keys, purchase.wanted
    try:
        attached = attach_all(context, box, purchase.volumes)
        measured = bring_up(context, box, keys)
    except UnfitError as error:  # replaced once: a second unfit machine is no accident
        box = _replaced(context, box, purchase, error)
        attached = attach_all(context, box, purchase.volumes)
        measured = bring_up(context, box, keys)
    keep_hosts(context)
    nodes = targets(box, keys, context.proxy_command)
    mount_all(context, nodes[0], attached)
    store_environment(context, nodes, wanted.environment)
    if wanted.deliver is None:
        copy_files(context, nodes, wanted.spec)
    else:
        wanted.deliver(box, nodes)
    bring(context, nodes, purchase.deal.plan.data)
    set_up(context, box, nodes, wanted.spec.setup)
    return hand_over(context, box, keys, Facts(measured=measured))


def _replaced(context: Context, box: Box, purchase: BoxPurchase, unfit: UnfitError) -> Box:
    """Replaces the machine of the one node that is unfit, or all machines; by ones with new host keys."""
    keys, attempts, why = purchase.keys, purchase.deal.plan.attempts, unfit.message
    opening = opening_of(box, unfit.nodes, context.journal.intents(box.id), attempts)
    if opening is not None:
        rank = opening.vacancy.rank
        disconnect(next(node for node in targets(box, keys, context.proxy_command) if node.node == rank))
        terms = purchase.terms(renew_host_key(keys, box.id, rank), [opening.candidate])
        joined = replace_node(context, box, terms, opening, why)
        if joined is not None:
            return joined
    forget(keys, box.id, nodes=purchase.wanted.spec.nodes)
    return replace_machines(context, box, purchase.terms(purchase.new_keys()), attempts, why)


def _kept(context: Context, box: Box, purchase: BoxPurchase, cause: BaseException) -> SetupFailedError | None:
    """Keeps the logs of a box that failed, and the box itself if that is asked for; or takes it down.

    Raises:
        CleanupIncompleteError: the deletion cannot be confirmed.
    """
    try:
        box = context.journal.held(box)  # its machines may have been replaced
        if may_keep(cause):
            nodes = targets(box, purchase.keys, context.proxy_command)
            keep_logs(context, [node for node in nodes if is_connected(node)])
        if purchase.wanted.keep_on_failure:
            kept = keep_failed(context, box, purchase.keys, purchase.wanted.environment, cause)
            if kept is not None:
                return kept
    except GpucloudError as error:  # a signal, or a journal that cannot be written: the box is not kept
        cause = error
    abandon(context, box, cause)
    if isinstance(cause, InterruptedBySignal):
        raise cause
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxPurchase:
    """A box before anything is bought."""

    context: Context
    market: Market
    deal: Deal
    wanted: BoxRequest
    box_id: str
    name: str
    keys: Path
    image: str
    allow_from: Sequence[str]
    volumes: Sequence[UsableVolume]

    def new_keys(self) -> BoxKeys:
        """The keys of all its nodes, which no machine has used."""
        return create_keys(self.keys, self.box_id, nodes=self.wanted.spec.nodes)

    def terms(self, keys: BoxKeys, attempts: Sequence[Candidate] | None = None) -> LaunchTerms:
        """The terms of attempts, those of the plan by default, with keys for their machines."""
        spec, attempts = self.wanted.spec, attempts or self.deal.plan.attempts
        currencies = {(attempt.cloud, attempt.region): attempt.currency for attempt in attempts}
        return LaunchTerms(
            box=self.box_id,
            name=self.name,
            run_id=self.wanted.run_id,
            run=self.wanted.run,
            instead_of=self.wanted.instead_of,
            nodes=spec.nodes,
            disk_gib=spec.disk,
            image=self.image,
            boots=self._boots(keys, attempts),
            listed={
                place: listed_prices(self.market, *place, spec.disk, currency)
                for place, currency in currencies.items()
            },
            allow_from=self.allow_from,
            prices=Agreement(
                usd=self.market.usd,
                agreed_at=self.deal.agreed_at,
                unconfirmed=self.wanted.accept_snapshot_price,
            ),
            rates={rate.quote: rate.rate for rate in self.market.rates if rate.base == "USD"},
            ceiling=ceiling_of(self.deal.plan, spec, self.market),
            limits=BudgetCheck(lambda: self.market, self.context.clock),
            forbids=PolicyCheck(self.market, self.context.clock, attempts),
            ports=spec.ports,
            tags=spec.tags,
            expires_at=self.deal.end,
            until=self.deal.until,
            learned=self.wanted.learned,
            ttl_role=spec.ttl_role,
            box_identity=spec.box_identity,
            attended=self.wanted.attended,
            clean_up=self.wanted.clean_up,
            spec=dict(self.deal.plan.spec),
            volumes=self.volumes,
        )

    def _boots(self, keys: BoxKeys, attempts: Sequence[Candidate]) -> dict[Key, BootData]:
        """The boot of each attempt, rendered before anything is bought.

        Raises:
            UsageError: the user-data is too large for a cloud, or the image cannot work there.
        """
        spec, now = self.wanted.spec, self.context.clock()
        user_data = UserData()
        found: dict[Key, BootData] = {}
        for attempt in attempts:
            cloud = self.context.clouds[attempt.cloud]
            image, software = boots(cloud, attempt, self.image)
            plan = boot_plan(
                cloud,
                attempt,
                software,
                spec,
                box=self.box_id,
                name=self.name,
                keys=keys,
                end=self.deal.end,
                now=now,
            )
            written = FirstBoot(
                image=image.name,
                steps=tuple(plan.software.steps),
                least_driver=later(image.driver, plan.software.least_driver),
                mig=plan.software.mig,
            )
            found[attempt.key] = BootData(user_data=user_data.of(plan), written=written)
        return found


def _allowed(context: Context, spec: Spec, echo: Call | None) -> Sequence[str]:
    """The networks that may connect: those of the spec, or this machine's public address; never every one."""
    if spec.allow_from:
        return spec.allow_from
    hint = "specify it: --allow-from ADDRESS/32"
    try:
        address = None if echo is None else context.tasks.wait(echo, CALL_TIMEOUT_S)
    except GpucloudError as error:
        raise UsageError(f"cannot find out this machine's address: {error.message}", hint=hint) from error
    if address is None:
        raise UsageError("no installed cloud can report this machine's address", hint=hint)
    return (str(ip_network(address)),)

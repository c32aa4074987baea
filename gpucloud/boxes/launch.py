"""Provisions a box: buys the first attempt that starts and brings it up; a failure leaves nothing behind."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

from gpucloud.boxes.failed_box import keep_failed, may_keep
from gpucloud.boxes.hosts import keep_hosts
from gpucloud.bring_up.archived_logs import keep_logs
from gpucloud.bring_up.bring_up import UnfitError, bring_up, hand_over, targets
from gpucloud.bring_up.datasets import bring
from gpucloud.bring_up.setup import copy_files, set_up, store_environment
from gpucloud.errors import GpucloudError, InterruptedBySignal, SetupFailedError, UsageError
from gpucloud.journal.facts import Facts, FirstBoot
from gpucloud.journal.lifecycle import generated_name, new_id
from gpucloud.journal.records import Box
from gpucloud.planning.boot_images import boots
from gpucloud.planning.own_image import image_id, own_image
from gpucloud.planning.plan import Candidate, Key
from gpucloud.planning.user_data import UserData, boot_plan
from gpucloud.planning.volume_choice import UsableVolume
from gpucloud.purchase.failover import abandon, launch, replace_machines, replace_node
from gpucloud.purchase.order import BootData, BoxPurchase, LaunchOrder
from gpucloud.purchase.replacement import opening_of
from gpucloud.resources import ResourceKind
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import CALL_TIMEOUT_S, Call
from gpucloud.sources.selection import read_source, refuse_missing
from gpucloud.spec.model import Spec
from gpucloud.ssh.client import disconnect, forget, is_connected, socket_folder
from gpucloud.ssh.keys import BoxKeys, create_keys, find_program, key_folder, renew_host_key
from gpucloud.storage.attachments import attach_all, holding
from gpucloud.storage.mounting import mount_all
from gpucloud_pricing.gpus import parse_requirements
from gpucloud_templates.software import later


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


def provision(context: Context, order: LaunchOrder) -> Box:
    """Buys the first attempt that starts and brings it up; a failure leaves nothing behind.

    Args:
        context: clouds, journal, clock and progress of this call.
        order: what was agreed.

    Returns:
        The box, which this process still holds.

    Raises:
        SetupFailedError: its set-up failed, and it is kept.
        GpucloudError: nothing started, or it did not become ready; nothing is left, unless the error says so.
    """
    with holding(context, order.request.spec) as volumes:
        with purchase_of(context, order, volumes) as purchase:
            box = launch(context.about(purchase.name), purchase)
        return make_ready(context, box, purchase)


@contextmanager
def purchase_of(
    context: Context, order: LaunchOrder, volumes: Sequence[UsableVolume]
) -> Generator[BoxPurchase]:
    """The purchase of one box, with keys of its own, which go if the body fails.

    Args:
        context: clouds, journal, clock and progress of this call.
        order: what was agreed.
        volumes: those that the box uses; this process holds them.

    Raises:
        GpucloudError: what is wanted cannot be bought; nothing was bought.
    """
    spec, attempts = order.request.spec, order.plan.attempts
    own = own_image(context.journal, context.owner, spec, context.clock())
    if own is not None:
        from gpucloud.storage.snapshots import wait_complete

        wait_complete(context, own.snapshot, ResourceKind.IMAGE)
    box = new_id("b-", context.clock(), context.randomness(10))
    name = spec.name or generated_name(attempts[0].gpu_model, context.randomness(4))
    context = context.about(name)
    purchase = BoxPurchase(
        order=order,
        box=box,
        name=name,
        image=image_id(spec, own),
        allow_from=_allowed(context, spec, order.echo),
        volumes=volumes,
    )
    try:
        yield _with_new_keys(context, purchase)
    except BaseException:
        forget(_keys(context, box), box, nodes=spec.nodes)
        raise


def make_ready(context: Context, box: Box, purchase: BoxPurchase) -> Box:
    """Brings up a box whose machines run, and which this process holds; a failure leaves nothing behind.

    Returns:
        The box, which this process still holds.

    Raises:
        SetupFailedError: its set-up failed, and it is kept.
        GpucloudError: it did not become ready; nothing is left, unless the error says so.
    """
    context = context.about(box.name)
    try:
        return _finish(context, box, purchase)
    except BaseException as error:
        kept = _kept(context, box, purchase, error)
        if kept is not None:
            raise kept from error
        forget(_keys(context, box.id), box.id, nodes=purchase.spec.nodes)
        raise


def _finish(context: Context, box: Box, purchase: BoxPurchase) -> Box:
    """Brings up the machines of a box, or once others in their place, and sets the box up."""
    keys, request = _keys(context, box.id), purchase.order.request
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
    store_environment(context, nodes, request.environment)
    if request.deliver is None:
        copy_files(context, nodes, request.spec)
    else:
        request.deliver(box, nodes)
    bring(context, nodes, purchase.order.plan.data)
    set_up(context, box, nodes, request.spec.setup)
    return hand_over(context, box, keys, Facts(measured=measured))


def _replaced(context: Context, box: Box, purchase: BoxPurchase, unfit: UnfitError) -> Box:
    """Replaces the machine of the one node that is unfit, or all machines; by ones with new host keys."""
    keys, attempts, why = _keys(context, box.id), purchase.order.plan.attempts, unfit.message
    opening = opening_of(box, unfit.nodes, context.journal.intents(box.id), attempts)
    if opening is not None:
        rank = opening.vacancy.rank
        disconnect(next(node for node in targets(box, keys, context.proxy_command) if node.node == rank))
        renewed = _booted(context, purchase, renew_host_key(keys, box.id, rank), [opening.candidate])
        joined = replace_node(context, box, renewed, opening, why)
        if joined is not None:
            return joined
    forget(keys, box.id, nodes=purchase.spec.nodes)
    return replace_machines(context, box, _with_new_keys(context, purchase), why)


def _kept(context: Context, box: Box, purchase: BoxPurchase, cause: BaseException) -> SetupFailedError | None:
    """Keeps the logs of a box that failed, and the box itself if that is asked for; or takes it down.

    Raises:
        CleanupIncompleteError: the deletion cannot be confirmed.
    """
    keys, request = _keys(context, box.id), purchase.order.request
    try:
        box = context.journal.held(box)  # its machines may have been replaced
        if may_keep(cause):
            nodes = targets(box, keys, context.proxy_command)
            keep_logs(context, [node for node in nodes if is_connected(node)])
        if request.keep_on_failure:
            kept = keep_failed(context, box, keys, request.environment, cause)
            if kept is not None:
                return kept
    except GpucloudError as error:  # a signal, or a journal that cannot be written: the box is not kept
        cause = error
    abandon(context, box, cause)
    if isinstance(cause, InterruptedBySignal):
        raise cause
    return None


def _keys(context: Context, box: str) -> Path:
    """The folder of the keys of a box."""
    assert context.state is not None  # noqa: S101  (who buys has a state folder)
    return key_folder(context.state, box)


def _with_new_keys(context: Context, purchase: BoxPurchase) -> BoxPurchase:
    """The purchase with boots for all nodes, by keys that no machine has used."""
    keys = create_keys(_keys(context, purchase.box), purchase.box, nodes=purchase.spec.nodes)
    return _booted(context, purchase, keys, purchase.order.plan.attempts)


def _booted(
    context: Context, purchase: BoxPurchase, keys: BoxKeys, attempts: Sequence[Candidate]
) -> BoxPurchase:
    """The purchase with the boot of each attempt, rendered before anything is bought.

    Raises:
        UsageError: the user-data is too large for a cloud, or the image cannot work there.
    """
    now, user_data = context.clock(), UserData()
    found: dict[Key, BootData] = {}
    for attempt in attempts:
        cloud = context.clouds[attempt.cloud]
        image, software = boots(cloud, attempt, purchase.image)
        plan = boot_plan(
            cloud,
            attempt,
            software,
            purchase.spec,
            box=purchase.box,
            name=purchase.name,
            keys=keys,
            end=purchase.order.end,
            now=now,
        )
        written = FirstBoot(
            image=image.name,
            steps=tuple(plan.software.steps),
            least_driver=later(image.driver, plan.software.least_driver),
            mig=plan.software.mig,
        )
        found[attempt.key] = BootData(user_data=user_data.of(plan), written=written)
    return replace(purchase, boots=found)


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

"""From running machines to a usable box: ssh answers, the boot is done, its GPUs are those rented."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucloud.errors import BoxLostError, GpucloudError
from gpucloud.journal import facts
from gpucloud.journal.events import StateChanged, ready_note
from gpucloud.journal.facts import Facts, Measured
from gpucloud.journal.lifecycle import OVER, BoxState
from gpucloud.journal.plain import Data
from gpucloud.journal.records import Box
from gpucloud.journal.timeouts import BOOT_TIMEOUT_S, SSH_TIMEOUT_S, STEP_TIMEOUT_S
from gpucloud.planning.user_data import USER, whole_gpus
from gpucloud.resources import Machine, State
from gpucloud.runtime.context import Context
from gpucloud.runtime.events import BootStep
from gpucloud.runtime.tasks import CALL_TIMEOUT_S, TimedOutError
from gpucloud.ssh.boot import (
    BootState,
    DriverGpu,
    MigDevice,
    NoGpuError,
    gpu_list,
    is_model,
    mig_slices,
    rotate_host_key,
    wait_until_ready,
)
from gpucloud.ssh.client import ConnectionFailedError, Target, disconnect, run, wait_until_reachable
from gpucloud.ssh.environment import FABRIC
from gpucloud.ssh.keys import host_alias, keep_ready, pin_shared, pinned
from gpucloud.ssh.node_logins import Neighbour, NoLoginError, introduce, make_key

if TYPE_CHECKING:
    from gpucloud.bring_up.acceptance import Measurements as GpuTest

LOOK_EVERY_S = 20.0
"""How often to ask the cloud whether a machine that does not answer still exists."""
PEERS_FILE = "/var/lib/gpucloud/peers.json"
TRY_AGAIN = "the box was deleted; try again, or choose another offer: --zone, --cloud"
LIMITS_FILE = "/etc/security/limits.d/gpucloud.conf"


class NotReadyError(GpucloudError):
    """A box that runs but differs from what was bought, or never answered."""


class UnfitError(NotReadyError):
    """A box whose hardware differs from what was bought; another machine of the same type may be right.

    ``nodes`` are those that were found unfit by themselves; none where it is not known which of them is.
    """

    error_class = "hardware"

    def __init__(self, message: str, *, hint: str | None = None, nodes: Sequence[int] = ()) -> None:
        super().__init__(message, hint=hint)
        self.nodes = tuple(nodes)


def targets(box: Box, keys: Path, proxy_command: str | None) -> list[Target]:
    """How to reach each node of a box that has addresses.

    Of a box that was launched elsewhere, the host keys in the journal are pinned, once it was shared.
    """
    for number, key in enumerate(box.host_keys):
        if key and box.state not in OVER:
            pin_shared(keys, host_alias(box.id, number), key)
    return [
        Target(
            box_id=box.id,
            host=node.public_ip,
            user=USER,
            keys=keys,
            node=number,
            proxy_command=proxy_command,
            has_environment=bool(box.wanted.spec.get("env") or _fabric_of(box) or box.recovered),
        )
        for number, node in enumerate(box.nodes)
        if node.public_ip
    ]


def _fabric_of(box: Box) -> str | None:
    """The RDMA network that joins its nodes."""
    return box.offer.fabric if box.offer else None


def bring_up(context: Context, box: Box, keys: Path) -> Measured:
    """Waits until the first boot of every node is done, and measures the box.

    Raises:
        NotReadyError: a node did not answer, its boot failed, or its driver is too old.
        UnfitError: its GPUs are not those that were rented, or failed the acceptance test.
        BoxLostError: a machine ended during the wait.
        InterruptedBySignal: a signal came.
    """
    nodes = targets(box, keys, context.proxy_command)
    try:
        context.tell("ssh", f"waiting for {', '.join(target.host for target in nodes)}")
        _all(
            context, box, [partial(wait_until_reachable, target, timeout_s=SSH_TIMEOUT_S) for target in nodes]
        )
        _all(context, box, [partial(rotate_host_key, target, steps=box.boot.steps) for target in nodes])
        context.tell("setup", "waiting for the setup to finish")
        ready = partial(wait_until_ready, timeout_s=BOOT_TIMEOUT_S, steps=box.boot.steps)
        tells = [partial(_tell_step, context), *[_say_nothing] * (len(nodes) - 1)]
        booted: list[BootState] = _all(
            context,
            box,
            [partial(ready, target, tell=tell) for target, tell in zip(nodes, tells, strict=True)],
        )
        context.tell("gpus", "querying the GPUs")
        answers: list[list[DriverGpu]] = _all(context, box, [partial(gpu_list, target) for target in nodes])
        if len(nodes) > 1:
            _all(context, box, [partial(_tell_rank, box, target) for target in nodes])
            _let_meet(context, box, nodes)
        if (fabric := _fabric_of(box)) is not None:
            _all(context, box, [partial(_join, fabric, target) for target in nodes])
        _check_gpus(box, nodes, answers)
        cut = _cut(context, box, nodes, box.boot.mig) if box.boot.mig else ()
        tested = _accepted(context, box, nodes) if box.wanted.tests_gpus else ()
        if tested and len(nodes) > 1:
            _tested_together(context, box, nodes)
    except NoGpuError as error:
        raise UnfitError(f"box {box.name!r} has no GPU: {error.message}", hint=TRY_AGAIN) from error
    except ConnectionFailedError as error:
        check_machines(context, box)
        raise NotReadyError(
            f"box {box.name!r} did not become ready: {error.message}", hint=error.hint
        ) from error
    except TimedOutError as error:
        raise NotReadyError(f"box {box.name!r} did not become ready: {error}") from error
    names = Counter(gpu.name for gpus in answers for gpu in gpus)
    context.tell("gpus", ", ".join(f"{count} x {name}" for name, count in names.items()))
    return Measured(
        gpus=dict(names),
        driver=answers[0][0].driver,
        boot_seconds=dict(booted[0].seconds),
        gpu_tests=tested,
        slices=cut,
    )


def bring_back(context: Context, box: Box, nodes: Sequence[Target]) -> None:
    """Waits until a box that was stopped answers again, with the GPUs that were rented.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box, whose machines run.
        nodes: how to reach them.

    Raises:
        NotReadyError: a node did not answer, or its GPUs or its driver are not those that were rented.
        BoxLostError: a machine ended during the wait.
        InterruptedBySignal: a signal came.
    """
    try:
        context.tell("ssh", f"waiting for {', '.join(target.host for target in nodes)}")
        _all(
            context, box, [partial(wait_until_reachable, target, timeout_s=SSH_TIMEOUT_S) for target in nodes]
        )
        check_gpus(context, box, nodes)
    except (ConnectionFailedError, TimedOutError) as error:
        raise NotReadyError(f"box {box.name!r} did not become ready: {error}") from error
    if box.boot.mig:
        _cut(context, box, nodes, box.boot.mig)


def check_gpus(context: Context, box: Box, nodes: Sequence[Target]) -> None:
    """Compares the GPUs of nodes that answer with those that were rented.

    Raises:
        UnfitError: they differ.
        NotReadyError: a driver is too old.
        ConnectionFailedError: a node does not answer.
        BoxLostError: a machine ended during the wait.
    """
    context.tell("gpus", "querying the GPUs")
    answers: list[list[DriverGpu]] = _all(context, box, [partial(gpu_list, target) for target in nodes])
    _check_gpus(box, nodes, answers)


def hand_over(context: Context, box: Box, keys: Path, news: Facts) -> Box:
    """Journals that a box is in the hands of its owner from now on, and notes it next to its keys.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box, which this process holds.
        keys: the folder of its keys.
        news: what was found out about it.
    """
    context.journal.write(box, StateChanged(state=BoxState.READY, facts=news))
    handed = context.journal.held(box)
    keep_ready(keys, ready_note(handed.known))
    return handed


def _accepted(context: Context, box: Box, nodes: Sequence[Target]) -> tuple[Data, ...]:
    """The measurements of the GPU test on each node.

    Raises:
        UnfitError: a measurement is below its floor, or the test did not finish.
    """
    from gpucloud.bring_up.acceptance import measure, shortcomings, summary

    context.tell("gpus", "testing memory, arithmetic and connections")
    assert box.offer is not None  # noqa: S101  (it has machines)
    rented, interconnect = _rented(box), box.offer.interconnect or ""

    def test(target: Target) -> GpuTest | GpucloudError:
        try:
            return measure(target)
        except GpucloudError as error:  # a GPU that hangs makes the test hang
            return error

    def wrong_with(told: GpuTest | GpucloudError) -> str:
        if isinstance(told, GpucloudError):
            return f"did not finish the GPU test: {told}"
        wrong = shortcomings(
            told,
            count=whole_gpus(rented.count),
            share=min(float(rented.count), 1.0),
            interconnect=interconnect,
        )
        return f"failed the GPU test: {'; '.join(wrong)}" if wrong else ""

    try:
        results: list[GpuTest | GpucloudError] = _all(context, box, [partial(test, node) for node in nodes])
    except TimedOutError as error:
        raise UnfitError(f"the GPU test of {box.name!r} did not finish: {error}") from error
    _refuse_unfit(nodes, map(wrong_with, results))
    measured = [each for each in results if not isinstance(each, GpucloudError)]
    for each in measured:
        context.tell("gpus", summary(each))
    return tuple(each.model_dump(mode="json", by_alias=True) for each in measured)


def _refuse_unfit(nodes: Sequence[Target], wrong: Iterable[str]) -> None:
    """Refuses nodes with which something is wrong, in words; nothing is where they are empty.

    Raises:
        UnfitError: it names all of them.
    """
    unfit = {node: words for node, words in zip(nodes, wrong, strict=True) if words}
    if unfit:
        said = "; ".join(f"{node.alias} {words}" for node, words in unfit.items())
        raise UnfitError(said, hint=TRY_AGAIN, nodes=[node.node for node in unfit])


def _rented(box: Box) -> facts.Gpu:
    """The GPUs that a box was bought for."""
    assert box.offer is not None  # noqa: S101  (it has machines)
    assert box.offer.gpu is not None  # noqa: S101  (only types of the market are bought)
    return box.offer.gpu


def _check_gpus(box: Box, nodes: Sequence[Target], answers: Sequence[Sequence[DriverGpu]]) -> None:
    """Compares the GPUs that the driver of each node shows, and the driver, with those that were rented.

    Raises:
        UnfitError: count or model differ.
        NotReadyError: a driver is too old.
    """
    rented = _rented(box)
    count = whole_gpus(rented.count)

    def wrong_with(gpus: Sequence[DriverGpu]) -> str:
        right = [gpu for gpu in gpus if is_model(gpu.name, rented.model)]
        if len(right) == count == len(gpus):
            return ""
        seen = ", ".join(gpu.name for gpu in gpus) or "none"
        return f"should have {count} x {rented.model}; its driver shows: {seen}"

    _refuse_unfit(nodes, map(wrong_with, answers))
    for node, gpus in zip(nodes, answers, strict=True):
        _check_driver(node.alias, gpus, box.boot.least_driver)


def _cut(context: Context, box: Box, nodes: Sequence[Target], wanted: str) -> tuple[facts.Slice, ...]:
    """The MIG slices of each node.

    Raises:
        UnfitError: they differ from the spec.
    """
    profile, _, counts = wanted.partition("=")
    count = sum(map(int, counts.split(",")))
    found: list[list[MigDevice]] = _all(context, box, [partial(mig_slices, target) for target in nodes])

    def wrong_with(shown: Sequence[MigDevice]) -> str:
        seen = [one.profile for one in shown]
        if seen == [profile] * count:
            return ""
        return f"should have {count} slices {profile}; its driver shows: {', '.join(seen) or 'none'}"

    _refuse_unfit(nodes, map(wrong_with, found))
    context.tell("gpus", f"{count} slices {profile}" + (" on each node" if len(nodes) > 1 else ""))
    return tuple(
        facts.Slice(node=target.node, gpu=one.gpu, profile=one.profile, uuid=one.uuid)
        for target, each in zip(nodes, found, strict=True)
        for one in each
    )


def _check_driver(where: str, gpus: Sequence[DriverGpu], least: str | None) -> None:
    """Compares the driver's version with the least one of the image and the recipe.

    Raises:
        NotReadyError: it is older.
    """
    for gpu in gpus if least else ():
        if _version(gpu.driver) < _version(str(least)):
            raise NotReadyError(
                f"{where} has driver {gpu.driver}; the image needs {least}",
                hint="the box was deleted; choose another --image: gpucloud images",
            )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def _let_meet(context: Context, box: Box, nodes: Sequence[Target]) -> None:
    """Lets the nodes log in to each other; a box that cannot do that is told, and is as useful otherwise."""
    addresses = [box.nodes[target.node].private_ip for target in nodes]
    try:
        keys: list[str] = _all(context, box, [partial(make_key, target) for target in nodes])
        neighbours = [
            Neighbour(node=target.node, address=address, host_keys=pinned(target.keys, target.alias), key=key)
            for target, address, key in zip(nodes, addresses, keys, strict=True)
            if address is not None
        ]
        _all(context, box, [partial(introduce, target, neighbours) for target in nodes])
    except NoLoginError as error:
        context.warn("ssh", f"warning: the nodes cannot log in to each other by ssh: {error.message}")


def _tell_rank(box: Box, target: Target) -> None:
    """Writes a node's rank and its peers' private addresses to the node."""
    peers = [node.private_ip for node in box.nodes]
    text = json.dumps({"rank": target.node, "nodes": len(peers), "peers": peers})
    done = run(target, ["sudo", "-n", "tee", PEERS_FILE], stdin=text.encode())
    if done.code:
        raise NotReadyError(f"{target.alias}: cannot write {PEERS_FILE}: {done.err.decode(errors='replace')}")


def _join(fabric: str, target: Target) -> None:
    """Writes what programs need for the network to a node: variables, and the right to pin memory.

    The limit holds for connections that are opened after it was written.
    """
    from gpucloud_templates import fabrics

    joined = fabrics.fabric(fabric).text()
    for words, text in (
        (["sh", "-c", f"umask 077; mkdir -p .gpucloud && cat >{FABRIC}"], joined),
        (["sudo", "-n", "tee", LIMITS_FILE], fabrics.LIMITS),
    ):
        done = run(target, words, stdin=text.encode())
        if done.code:
            said = done.err.decode(errors="replace")
            raise NotReadyError(f"{target.alias}: the settings for {fabric} could not be written: {said}")
    disconnect(target)


def _tested_together(context: Context, box: Box, nodes: Sequence[Target]) -> None:
    """Holds an all-reduce over all nodes against what was asked for.

    Raises:
        UnfitError: it failed, or did not use the RDMA network that was asked for.
        NotReadyError: such a network was asked for, and the image has nothing to test it with.
    """
    from gpucloud.bring_up.rdma_check import all_reduce, port_of, shortcomings, summary

    fabric, first = _fabric_of(box), str(box.nodes[0].private_ip)
    context.tell("fabric", f"adding up over {len(nodes)} nodes")
    port = port_of(box.id)
    try:
        calls = [partial(all_reduce, target, len(nodes), first, port) for target in nodes]
        results = _all(context, box, calls)
    except BoxLostError:
        raise
    except (GpucloudError, TimedOutError) as error:
        raise UnfitError(f"the all-reduce over the nodes of {box.name!r} did not finish: {error}") from error
    missing = next((each.error for each in results if each.missing), None)
    if missing is not None:
        if fabric is not None:
            raise NotReadyError(
                f"{fabric} between the nodes of {box.name!r} cannot be tested: {missing}",
                hint="the box was deleted; choose an image with NCCL (--image pytorch) or omit --accept-test",
            )
        context.tell("fabric", f"not tested: {missing}")
        return
    wrong = shortcomings(results, fabric)
    if wrong:
        raise UnfitError(
            f"the nodes of {box.name!r} failed the all-reduce: {'; '.join(wrong)}", hint=TRY_AGAIN
        )
    context.tell("fabric", summary(results, fabric))


def _tell_step(context: Context, text: str) -> None:
    context.emit(BootStep("setup", text))


def _say_nothing(_: str) -> None:
    pass


def _all(context: Context, box: Box, calls: Sequence[partial[Any]]) -> list[Any]:
    """Runs one call per node at the same time; the first failure in their order is raised.

    Raises:
        BoxLostError: a machine has ended meanwhile, and will never answer.
    """
    running = [context.tasks.start(call) for call in calls]
    end = context.clock() + timedelta(seconds=STEP_TIMEOUT_S)
    results: list[Any] = []
    for call in running:
        while True:
            try:
                results.append(context.tasks.wait(call, LOOK_EVERY_S))
                break
            except TimedOutError:
                if call.done or context.clock() >= end:
                    raise
                check_machines(context, box)
    return results


def check_machines(context: Context, box: Box) -> None:
    """Checks that the machines of a box that boots, or is set up, still run; one that cannot be read does.

    Raises:
        BoxLostError: one has ended.
    """
    for node in range(len(box.nodes)):
        ref = box.machine(node)
        try:
            cloud = context.clouds[ref.cloud]
            machine = context.tasks.run(partial(cloud.get, ref), CALL_TIMEOUT_S)
        except (GpucloudError, TimedOutError):  # the next check asks again
            continue
        taken_back = box.is_spot
        ended = machine is None and cloud.traits.forgets_ended
        if isinstance(machine, Machine):
            # A machine that ran and is stopped now powered itself off: nobody stops a box that boots.
            ended, taken_back = machine.state in {State.STOPPED, State.GONE}, machine.preempted
        if ended:
            why = "was interrupted by its cloud" if taken_back else "ended by itself"
            raise BoxLostError(f"box {box.name!r} {why} while it booted", taken_back=taken_back)

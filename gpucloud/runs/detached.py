"""A run that goes on without the process that began it: its command is a job on the nodes of its box.

Nothing on the box or in a cloud restarts it: only whoever tends it does (:mod:`gpucloud.runs.tend`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from gpucloud.boxes.connection import target_of
from gpucloud.clouds.abilities import Boot
from gpucloud.journal.events import RunDetached, Seen
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import Work
from gpucloud.purchase.failover import abandon
from gpucloud.resources import rfc3339
from gpucloud.runs import checkpoints
from gpucloud.runs.job import start_on_all
from gpucloud.runs.rules import job_environment
from gpucloud.runtime.context import Context
from gpucloud.spec.model import Spec
from gpucloud.ssh.client import Target, forget
from gpucloud.ssh.environment import LOAD
from gpucloud.ssh.job import script_of
from gpucloud.ssh.keys import key_folder

BEGUN = Facts(attended=False)
Fetch = tuple[tuple[str, str], ...]


def first_node(context: Context, box: Box) -> Target:
    """How to reach the node that has the files and checkpoints of a run.

    Raises:
        UsageError: it cannot be reached: it is gone, or has no address.
    """
    return _node(context, box, 0)


def working_nodes(context: Context, box: Box, work: Work) -> list[Target]:
    """How to reach the nodes on which the command of a run is.

    Raises:
        UsageError: one cannot be reached: it is gone, or has no address.
    """
    count = 1 if work.first_node_only else len(box.nodes)
    return [_node(context, box, number) for number in range(count)]


def _node(context: Context, box: Box, number: int) -> Target:
    assert context.state is not None  # noqa: S101  (who works on runs has a state folder)
    return target_of(box, number, context.state, context.proxy_command)


def ends_itself(context: Context, box: Box) -> bool:
    """Whether the box of a detached run with a store can end its own bill, once all that it leaves is stored.

    The record of that is of the first node: of several, nobody knows there how the others ended.
    """
    assert box.place is not None  # noqa: S101  (it was bought)
    identity = box.wanted.spec.get("box_identity")
    if len(box.nodes) != 1:
        return False
    cloud = context.clouds[box.place.cloud]
    boot = cloud.ability(Boot) if identity else None
    return cloud.traits.power_off_ends or (boot is not None and boot.self_delete is not None)


def what_ends(context: Context, box: Box, kept: checkpoints.CheckpointSettings | None) -> str:
    """For people: what ends the box of a detached run, and until when it is billed."""
    until = f"until {rfc3339(box.expires_at)}" if box.expires_at else "without end"
    if kept is None:
        return (
            "gpucloud tend restarts the run after an interruption, fetches its files, and deletes the box"
            f" when the command has ended. Without it, {box.name} is billed {until}."
        )
    stores = f"When the command has ended, {box.name} stores its logs and results in {kept.url}"
    if ends_itself(context, box):
        return (
            f"{stores} and ends itself, if its rights there last: for an hour, longer with gpucloud tend."
            f" Otherwise it is billed {until}. gpucloud tend restarts the run after an interruption."
        )
    return (
        f"{stores}. It cannot end its own bill: gpucloud tend deletes it, and restarts the run after an"
        f" interruption. Without gpucloud tend, it is billed {until}."
    )


def begin_job(context: Context, run: Run, box: Box, kept: checkpoints.CheckpointSettings | None) -> None:
    """Starts the command of a run on its box, and leaves both to whoever tends the run.

    Until its command has begun, the box is the remains of a launch, which the next command deletes.

    Args:
        context: clouds, journal, clock and progress of this call.
        run: the run, which this process holds.
        box: the box of its attempt, which this process holds; a failure deletes it.
        kept: where its checkpoints go, if it has any.

    Raises:
        CheckpointFailedError: a checkpoint could not be restored.
        GpucloudError: the box or a cloud did not answer.
    """
    context = context.about(box.name)
    try:
        node, facts = first_node(context, box), BEGUN
        told = job_environment(run.run_id, run.work, run.attempts)
        if kept is not None:
            restored = checkpoints.begin(
                context,
                box,
                node,
                kept,
                attempt=len(run.attempts),
                results=[source for source, _ in run.work.fetch],
                ends_itself=ends_itself(context, box),
            )
            told, facts = {**told, **restored.environment}, replace(BEGUN, checkpoints=restored.number)
        context.tell("job", "starting the command")
        script = LOAD.encode() + b"\n" + script_of(run.work.command, told)
        nodes = working_nodes(context, box, run.work)
        timeout_s, has_results = run.work.timeout_s, bool(run.work.fetch)
        start_on_all(context, box, nodes, script, timeout_s=timeout_s, has_results=has_results)
        context.journal.held_run(run)
        context.journal.write(box, Seen(facts=facts))
        if not run.detached:
            context.journal.write(run, RunDetached())
    except BaseException as error:
        assert context.state is not None  # noqa: S101  (who buys has a state folder)
        abandon(context, box, error, ends_as=BoxState.DELETED)
        forget(key_folder(context.state, box.id), box.id, nodes=len(box.nodes))
        raise
    context.journal.release(box)


def from_anywhere(spec: Spec, fetch: Sequence[tuple[str, str]], folder: str) -> tuple[Spec, Fetch]:
    """A spec, and files to copy back, whose local paths any process of this machine finds.

    Args:
        spec: the spec of the user.
        fetch: what to copy back: (path on the box, path here).
        folder: the folder in which local paths are.
    """
    sync = [_join(folder, item) for item in spec.sync]
    return (
        spec.replaced(sync=sync) if sync else spec,
        here(fetch, folder),
    )


def here(fetch: Sequence[tuple[str, str]], folder: str) -> Fetch:
    """Files to copy back, whose local paths any process of this machine finds."""
    return tuple((source, _join(folder, local)) for source, local in fetch)


def _join(folder: str, path: str) -> str:
    return os.path.join(folder, path)  # noqa: PTH118  (a trailing slash means something to rsync)

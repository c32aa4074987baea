"""Makes the nodes of a box known to a Ray head, over the pinned ssh connection: nothing is in user-data."""

from __future__ import annotations

import json
from functools import partial

from gpucloud.bring_up.bring_up import targets
from gpucloud.bring_up.ingress import reach
from gpucloud.elastic.ray.nodes import RESOURCES, node_id
from gpucloud.elastic.ray.starting import PATH, STARTED, Head, start_command, start_script, version_in
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.records import Box
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import Target, run
from gpucloud.ssh.environment import LOAD
from gpucloud.ssh.job import FOLDER, jobs, start, stop
from gpucloud.ssh.keys import key_folder

START_S = 120
"""How long Ray may take to start on a node."""
STARTS = 3
"""How often to start it: Ray gives up after 30 s where a head is busy, with many nodes that join at once."""

_WAIT = f"""
cd {FOLDER}/"$1"
for i in $(seq {START_S * 5}); do
  ! grep -qs '{STARTED}' out || exit 0
  [ ! -e exit ] || break
  sleep 0.2
done
tail -q -n 3 err out; exit 1
"""


def join(head: Head, context: Context, box: Box, slots: tuple[str, ...]) -> None:
    """Starts Ray on the nodes of a box, one for each slot; a node that runs it for this head already is left.

    Raises:
        GpucloudError: a node has no Ray, or one of another version, or Ray does not start there.
    """
    assert context.state is not None  # noqa: S101  (who has boxes has a state folder)
    wish = context.journal.runs_named(context.owner, slots[0])[-1]
    assert wish.work.slots is not None  # noqa: S101  (it is a wish)
    resources: dict[str, float] = json.loads(wish.work.slots.labels.get(RESOURCES, "{}"))
    command = start_command(head, resources, tuple(box.ports))
    nodes = targets(box, key_folder(context.state, box.id), context.proxy_command)
    for target, name in zip(nodes, slots, strict=True):
        context.tell("ray", f"starting Ray on {name}")
        reach(context, box, target)
        script = start_script(head, command, node_id(name, wish.id), wish.work.slots.node_class)
        context.tasks.run(partial(_start, head, target, script), STARTS * (START_S + 60.0))


def _start(head: Head, target: Target, script: str) -> None:
    """Starts Ray on a node, and waits until it runs.

    Raises:
        GpucloudError: as :func:`join`.
    """
    running = [job.id for job in jobs(target) if job.running and job.id.startswith("ray")]
    if head.job in running:
        return
    _check_version(head, target)
    for job in running:  # of a head that is gone
        stop(target, job)
    said = ""
    for _ in range(STARTS):
        start(target, f"{LOAD}\n{script}".encode(), head.job)
        waited = run(target, ["bash", "-c", _WAIT, "bash", head.job], timeout_s=START_S + 30.0, only_end=True)
        if not waited.code:
            return
        said = waited.out.decode(errors="replace").strip()
    raise GpucloudError(
        f"Ray does not start on {target.alias}: {said}",
        hint=f"the node must reach the head at {head.address}, and the head the node",
    )


def _check_version(head: Head, target: Target) -> None:
    """Refuses a node whose Ray is not that of the head: they would not understand each other.

    Raises:
        UsageError: it has none, or another one.
    """
    said = run(target, ["bash", "-c", f"{LOAD}{PATH}ray --version"]).out.decode(errors="replace")
    found = version_in(said)
    if found != head.version:
        has = f"Ray {found}" if found else "no Ray"
        raise UsageError(
            f"{target.alias} has {has}; the head has Ray {head.version}",
            hint=f"install it in the class: setup: pip install --user 'ray[default]=={head.version}'",
        )

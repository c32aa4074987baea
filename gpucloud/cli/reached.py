"""A box that a command goes into: found in the journal, connected, its targets as values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucloud.cli.context import App
from gpucloud.cli.engine import connect, engine, find_box, open_journal
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpucloud.errors import GpucloudError
    from gpucloud.ssh import Target
    from gpucloud.store import Box
    from gpucloud.world import World


def reached(app: App, name: str, *, node: int = 0) -> Target:
    """The node of the box with this name, with a connection that is open.

    The clouds are only asked when the box does not answer.

    Raises:
        UsageError: there is no such box, or it is over, or has no address yet.
        ConnectionFailedError: it cannot be reached.
    """
    from gpucloud.ssh import ConnectionFailedError, Failure
    from gpucloud.ssh import connect as open_connection

    box = find_box(open_journal(app), app.owner, name)
    target = target_of(app, box, node, connect(app))
    try:
        open_connection(target)
    except ConnectionFailedError as error:
        if error.failure is not Failure.UNREACHABLE:
            raise
        from gpucloud.reach import reach

        with engine(app, lambda _, text: app.output.say(text)) as world:
            reach(world, box, target)
    return target


def target_of(app: App, box: Box, node: int, proxy_command: str | None) -> Target:
    """Where a node of a box is, as the journal has it.

    Raises:
        UsageError: it is over, has no address yet, or has fewer nodes.
    """
    from gpucloud.bringup import targets
    from gpucloud.lifecycle import OVER
    from gpucloud.ssh_keys import key_folder

    if box.state in OVER:
        raise UsageError(f"box {box.name!r} is {box.state}", hint="see those that live: gpucloud list")
    count = len(box.facts.get("nodes", ()))
    if not count:
        raise UsageError(f"box {box.name!r} has no machine yet ({box.state})", hint="gpucloud list")
    if not 0 <= node < count:
        raise UsageError(f"box {box.name!r} has {count} nodes, counted from 0; there is no {node}")
    found = targets(box, key_folder(app.paths.state, box.id), proxy_command)
    for target in found:
        if target.node == node:
            return target
    raise UsageError(f"box {box.name!r} has no public address yet ({box.state})", hint="gpucloud list --live")


def look_at_guards(app: App, world: World, boxes: Iterable[Box]) -> list[GpucloudError]:
    """Asks the guards of those of these boxes that are ready; gives what could not be asked."""
    from gpucloud.bringup import targets
    from gpucloud.guards import ask_guards
    from gpucloud.isolation import isolated
    from gpucloud.lifecycle import BoxState
    from gpucloud.ssh_keys import key_folder

    ready = [box for box in boxes if box.state is BoxState.READY]
    if not ready:
        return []
    proxy_command = connect(app)
    troubles: list[GpucloudError] = []
    nodes: list[tuple[Box, Sequence[Target]]] = []
    for box in ready:
        with isolated(troubles, f"box {box.name!r}"):
            nodes.append((box, targets(box, key_folder(app.paths.state, box.id), proxy_command)))
    return troubles + ask_guards(world, nodes)

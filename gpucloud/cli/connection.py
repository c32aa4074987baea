"""A box that a command goes into: found in the journal, connected, its targets as values."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpucloud.cli.context import App
from gpucloud.cli.engine import connect, engine, find_box, open_journal
from gpucloud.errors import UsageError
from gpucloud.resources import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpucloud.inventory.discovery import Asked, Survey
    from gpucloud.journal.store import Box
    from gpucloud.runtime.context import Context
    from gpucloud.ssh.client import Target

LOOK_S = 3.5
"""How long ``--live`` waits for a cloud or a guard that says nothing."""
SEARCH_S = 20.0
"""How long it waits for a cloud that answers, and is still searching its regions."""
NEWS_S = 1.0
"""It waits at least so long after the last answer of any cloud."""


def reached(app: App, name: str, *, node: int = 0) -> Target:
    """The node of the box with this name, with a connection that is open.

    The clouds are only asked when the box does not answer.

    Raises:
        UsageError: there is no such box, or it is over, or has no address yet.
        ConnectionFailedError: it cannot be reached.
    """
    from gpucloud.ssh.client import ConnectionFailedError, Failure
    from gpucloud.ssh.client import connect as open_connection

    box = find_box(open_journal(app), app.owner, name)
    target = target_of(app, box, node, connect(app))
    try:
        open_connection(target)
    except ConnectionFailedError as error:
        if error.failure is not Failure.UNREACHABLE:
            raise
        from gpucloud.boxes.ingress import reach

        with engine(app, lambda _, text: app.output.say(text)) as context:
            reach(context, box, target)
    return target


def target_of(app: App, box: Box, node: int, proxy_command: str | None) -> Target:
    """Where a node of a box is, as the journal has it.

    Raises:
        UsageError: it is over, has no address yet, or has fewer nodes.
    """
    from gpucloud.boxes.bring_up import targets
    from gpucloud.journal.lifecycle import OVER
    from gpucloud.ssh.keys import key_folder

    if box.state in OVER:
        raise UsageError(f"box {box.name!r} is {box.state}", hint="see those that live: gpucloud list")
    count = len(box.facts.get("nodes", ()))
    if not count:
        raise UsageError(f"box {box.name!r} has no machine yet ({box.state})", hint="gpucloud list")
    if not 0 <= node < count:
        raise UsageError(f"box {box.name!r} has {count} nodes, counted from 0; there is no {node}")
    if box.facts["nodes"][node]["state"] == State.GONE:
        raise UsageError(
            f"node {node} of {box.name!r} is gone", hint=f"see the others: gpucloud show {box.name}"
        )
    found = targets(box, key_folder(app.paths.state, box.id), proxy_command)
    for target in found:
        if target.node == node:
            return target
    raise UsageError(f"box {box.name!r} has no public address yet ({box.state})", hint="gpucloud list --live")


def look(app: App, context: Context, boxes: Sequence[Box], asked: Mapping[str, Asked]) -> Survey:
    """Asks clouds and guards how these boxes are, all at once, and writes down what they say.

    What does not answer is named, and keeps nothing else waiting.

    Args:
        app: the running program.
        world: the outside.
        boxes: whose state is asked for.
        asked: the survey that was begun besides, if any.

    Returns:
        What the survey found.
    """
    from gpucloud.boxes import guards
    from gpucloud.boxes.bring_up import targets
    from gpucloud.inventory import reconcile
    from gpucloud.inventory.discovery import Patience, finish
    from gpucloud.journal.lifecycle import BoxState
    from gpucloud.runtime.isolation import isolated
    from gpucloud.ssh.keys import key_folder

    began = time.monotonic()
    clouds, troubles = reconcile.ask_all(context, boxes)
    ready = [box for box in boxes if box.state is BoxState.READY]
    proxy_command = connect(app) if ready else None
    nodes: list[tuple[Box, Sequence[Target]]] = []
    for box in ready:
        with isolated(troubles, f"box {box.name!r}"):
            nodes.append((box, targets(box, key_folder(app.paths.state, box.id), proxy_command)))
    told = guards.ask_guards(context, nodes)
    survey = finish(context, asked, Patience(first_s=LOOK_S, whole_s=SEARCH_S, news_s=NEWS_S))
    with context.tasks.within(max(LOOK_S - (time.monotonic() - began), NEWS_S)):
        troubles += reconcile.write_answers(context, clouds)
        living = {box.id for box in ready if context.journal.box(box.id).state is BoxState.READY}
        troubles += guards.write_answers(context, [each for each in told if each[0].id in living])
    for trouble in troubles:
        app.output.say(f"Not asked: {trouble.message}")
    return survey

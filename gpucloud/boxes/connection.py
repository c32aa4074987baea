"""How to connect to a box's nodes: looked up in the journal, with a connection that is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpucloud.bring_up.bring_up import targets
from gpucloud.errors import UsageError
from gpucloud.journal.lifecycle import OVER, BoxState
from gpucloud.journal.records import Box, H, Holding, Snapshot, Volume
from gpucloud.journal.store import Journal
from gpucloud.resources import State
from gpucloud.ssh.client import Target
from gpucloud.ssh.keys import key_folder
from gpucloud_pricing.suggestions import closest

LISTED: Mapping[type[Holding], str] = {
    Box: "gpucloud list",
    Volume: "gpucloud volume list",
    Snapshot: "gpucloud snapshot list",
}
"""The commands that list the holdings of a type."""


def find_holding(journal: Journal, owner: str, name: str, of: type[H]) -> H:
    """The living holding with this name or id; otherwise the newest one that has ended.

    Args:
        journal: the journal.
        owner: whose.
        name: the name or id.
        of: the type; ``Holding`` for any.

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    named = journal.named(owner, name)
    found = [each for each in named if isinstance(each, of)]
    living = [each for each in found if each.ended_at is None]
    if found:
        return (living or found)[-1]
    if named:
        last = named[-1]
        raise UsageError(f"{name!r} is a {last.kind}, not a {of.kind}", hint=f"see it: {LISTED[type(last)]}")
    known = [each.name for each in journal.holdings(of, owner=owner)]
    sought: type[Holding] = of if of in LISTED else Box
    plural = "boxes" if sought is Box else f"{sought.kind}s"
    raise no_such(sought.kind, name, known, hint=f"see your {plural}: {LISTED[sought]}")


def no_such(kind: str, name: str, known: Sequence[str], *, hint: str) -> UsageError:
    """The error for a name that nothing has; it names the nearest of those that are known."""
    near = closest(name, known)
    nearest = f"; did you mean {near[0]}?" if near else ""
    return UsageError(f"there is no {kind} named {name!r}{nearest}", hint=hint)


def target_of(box: Box, node: int, state: Path, proxy_command: str | None) -> Target:
    """The ssh target of a node, from the journal.

    Args:
        box: the box of the node.
        node: its number, from 0.
        state: the state folder, which holds the keys.
        proxy_command: ssh's ``ProxyCommand``, if the node is not reached directly.

    Raises:
        UsageError: the box has ended, is stopped, has no address yet, or has fewer nodes.
    """
    if box.state in OVER:
        raise UsageError(
            f"box {box.name!r} has ended ({box.state})", hint="see your running boxes: gpucloud list"
        )
    if box.state is BoxState.STOPPED:
        raise UsageError(f"box {box.name!r} is stopped", hint=f"start it: gpucloud start {box.name}")
    count = len(box.nodes)
    if not count:
        raise UsageError(
            f"box {box.name!r} has no machine yet ({box.state})", hint="see its state: gpucloud list"
        )
    if not 0 <= node < count:
        known = f"its nodes are 0 to {count - 1}" if count > 1 else "its only node is 0"
        raise UsageError(f"box {box.name!r} has no node {node}: {known}")
    if box.nodes[node].state is State.GONE:
        raise UsageError(
            f"node {node} of {box.name!r} is gone", hint=f"see the other nodes: gpucloud show {box.name}"
        )
    for target in targets(box, key_folder(state, box.id), proxy_command):
        if target.node == node:
            return target
    raise UsageError(
        f"box {box.name!r} has no public address yet ({box.state})",
        hint="see its state: gpucloud list --live",
    )

"""Lets a colleague in on a box: a public key on its nodes, the host keys in the journal, an address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpucloud.boxes.connection import target_of
from gpucloud.boxes.hosts import hosts_of
from gpucloud.bring_up.ingress import reach, with_guests
from gpucloud.errors import UsageError
from gpucloud.journal.facts import Facts
from gpucloud.journal.records import Box
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import Target
from gpucloud.ssh.keys import OWN_KEY, SharedKey, key_folder, pinned
from gpucloud.ssh.sharing import authorize


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What was done, and the nodes that it was done on; ``changed`` is false if all was so before."""

    box: Box
    nodes: Sequence[Target]
    changed: bool


def share(
    context: Context, box: Box, key: SharedKey, *, guests: Sequence[str] = (), remove: bool = False
) -> Sharing:
    """Lets the holder of a key in on every node that can be reached, or takes that back.

    The journal comes first: who may not write about the box in a team's journal changes nothing on it.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box.
        key: the colleague's public key.
        guests: addresses that the box accepts from now on, besides those that it accepts already.
        remove: takes the key and these addresses away, instead.

    Raises:
        UsageError: no node can be reached from here; or the key to remove is the box's own.
        ForbiddenError: this login may not write about the box.
        ConnectionFailedError: a node cannot be reached, or did not change its file. Nothing was undone.
        CloudError: the addresses could not be changed; the keys were.
    """
    context = context.about(box.name)
    assert context.state is not None  # noqa: S101  (the keys are there)
    keys = key_folder(context.state, box.id)
    if remove and _is_own(keys / f"{OWN_KEY}.pub", key):
        raise UsageError(f"this is the key with which gpucloud itself reaches {box.name!r}")
    nodes = [host.target for host in hosts_of(box, context.state, context.proxy_command)]
    if not nodes:
        reach(context, box, target_of(box, 0, context.state, context.proxy_command))
        raise UsageError(f"box {box.name!r} still boots", hint="repeat the command once it is ready")
    context.journal.tell(box, Facts(host_keys=_host_keys(box, nodes)))
    for node in nodes:
        reach(context, box, node)
    changes = [context.tasks.run(partial(authorize, node, key, remove=remove)) for node in nodes]
    opened = with_guests(context, context.journal.box(box.id), guests, remove=remove) if guests else False
    return Sharing(box=context.journal.box(box.id), nodes=nodes, changed=opened or any(changes))


def _host_keys(box: Box, nodes: Sequence[Target]) -> tuple[str, ...]:
    """The host keys by the nodes' numbers; as they were for a node that cannot be reached."""
    found = dict(enumerate(box.host_keys))
    found |= {node.node: pinned(node.keys, node.alias)[0] for node in nodes}
    return tuple(found.get(number, "") for number in range(len(box.nodes)))


def _is_own(file: Path, key: SharedKey) -> bool:
    """Whether a key is that of a box's own file."""
    return file.exists() and file.read_text(encoding="ascii").strip().startswith(key.key)

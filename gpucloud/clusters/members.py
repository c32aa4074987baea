"""The nodes of a box as members of a cluster: how they are reached from here, and from each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucloud.boxes.connection import target_of
from gpucloud.boxes.hosts import hosts_of
from gpucloud.errors import UsageError
from gpucloud.journal.records import Box
from gpucloud.planning.user_data import whole_gpus
from gpucloud.ssh.hosts import Host
from gpucloud.ssh.keys import pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node that can be reached.

    Attributes:
        host: how ssh reaches it from this machine, and its name.
        host_keys: the keys that its ssh server may have.
        private_ip: how the other nodes reach it; ``None`` if that is not known yet.
        gpus: how many GPUs it has; ``None`` if the market does not have its type.
    """

    host: Host
    host_keys: Sequence[str]
    private_ip: str | None
    gpus: int | None

    @property
    def name(self) -> str:
        """Its name for ssh: ``NAME.gpucloud``, ``node1.NAME.gpucloud``."""
        return self.host.names[0]

    @property
    def node(self) -> int:
        """Its number in the box, from 0."""
        return self.host.target.node


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The nodes of a box that can be reached, and the numbers of the others."""

    box: str
    nodes: Sequence[Member]
    missing: Sequence[int]


def gpus_per_node(box: Box) -> int | None:
    """How many GPUs a driver shows on each node; ``None`` if the market does not have its type."""
    return whole_gpus(box.offer.gpu.count) if box.offer and box.offer.gpu else None


def members_of(box: Box, state: Path, proxy_command: str | None) -> Members:
    """The nodes of a box, by the journal and the keys of this machine alone.

    Args:
        box: the box.
        state: the state folder, which holds the keys.
        proxy_command: ssh's ``ProxyCommand``, if the nodes are not reached directly.

    Raises:
        UsageError: it has none that can be reached: it has ended, is stopped, still boots, or its keys are
            on another machine.
    """
    hosts = list(hosts_of(box, state, proxy_command))
    if not hosts:
        target_of(box, 0, state, proxy_command)
        raise UsageError(
            f"box {box.name!r} is not reachable from here: it still boots, or its keys are elsewhere",
            hint=f"see its state: gpucloud show {box.name}",
        )
    gpus = gpus_per_node(box)
    members = [
        Member(
            host=host,
            host_keys=pinned(host.target.keys, host.target.alias),
            private_ip=box.nodes[host.target.node].private_ip,
            gpus=gpus,
        )
        for host in hosts
    ]
    there = {member.node for member in members}
    missing = [number for number in range(len(box.nodes)) if number not in there]
    return Members(box=box.name, nodes=members, missing=missing)

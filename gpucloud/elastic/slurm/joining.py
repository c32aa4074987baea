"""Makes the nodes of a box nodes of Slurm, over the pinned connection, until slurmctld has them."""

from __future__ import annotations

import os
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpucloud.elastic.slurm import node as of_node
from gpucloud.elastic.slurm.commands import Controller, SlurmError, configuration_lines
from gpucloud.elastic.slurm.states import by_name
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.ssh.client import Target, run

JOIN_S = 900.0
"""How long a node may take to install and start its programs."""
REGISTER_S = 180.0
"""How long a slurmd may take to register."""
PAUSE_S = 0.5
MOST_BYTES = 65536
MUNGE_KEY = "/etc/munge/munge.key"


class NotJoinedError(GpucloudError):
    """A box is up and is no node of Slurm: its programs do not start, or slurmctld does not take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJoining:
    """What nodes need to join.

    Attributes:
        controller: slurmctld.
        gres: the text of gres.conf.
        slices: how many files a node of each class needs to count MIG slices by.
        register_s: how long a slurmd may take to register.
    """

    controller: Controller
    gres: str
    slices: Mapping[str, int]
    register_s: float = REGISTER_S

    def join(self, targets: Sequence[Target], slots: Sequence[str], node_class: str) -> None:
        """Starts slurmd on every node, and waits until they have registered.

        Args:
            targets: the nodes, by rank.
            slots: their names, in the same order.
            node_class: their class.

        Raises:
            NotJoinedError: one does not start, or registers with less than it should have.
            ConnectionFailedError: one could not be reached.
            UsageError: the munge key or slurm.conf cannot be read here.
        """
        texts, given = self._texts(), b"%s\n%s" % (b64encode(self._key()), self.gres.encode())
        count = str(self.slices.get(node_class, 0))
        with ThreadPoolExecutor(min(len(targets), os.cpu_count() or 1) * 4) as pool:
            started = [
                pool.submit(_start, target, name, [count, *texts], given)
                for target, name in zip(targets, slots, strict=True)
            ]
            for each in started:
                each.result()
        self.wait(slots)

    def _texts(self) -> list[str]:
        """The texts of the files that are the same on every node, in the order of the script."""
        file = self.controller.configuration
        cgroup = file.with_name("cgroup.conf")
        return [
            of_node.node_configuration(configuration_lines(file)),
            "\n".join([*configuration_lines(cgroup), ""]) if cgroup.exists() else "",
            of_node.PROLOG,
            of_node.NOTICE,
            of_node.MUNGE_UNIT,
        ]

    def _key(self) -> bytes:
        """The munge key of the cluster."""
        file = Path(self.controller.variables.get("GPUCLOUD_MUNGE_KEY") or MUNGE_KEY)
        try:
            return file.read_bytes()
        except OSError as error:
            raise UsageError(
                f"cannot read the munge key {file}: {error.strerror}",
                hint="SlurmUser must be able to read it: setfacl -m u:slurm:r FILE; "
                "or name a copy of its own in GPUCLOUD_MUNGE_KEY",
            ) from error

    def wait(
        self,
        slots: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Waits until slurmctld has registered nodes; where it does not answer, their lease has to do.

        Raises:
            NotJoinedError: one has not registered in time, or with less than it should have.
        """
        end = clock() + self.register_s
        while True:
            try:
                nodes = by_name(self.controller.nodes(",".join(slots)))
            except SlurmError:
                return
            small = [node for node in nodes.values() if node.is_too_small]
            if small:
                why = f"{small[0].name} registered with less than it must have: {small[0].reason}"
                raise NotJoinedError(why)
            left = [name for name in slots if name in nodes and nodes[name].is_awaited]
            if not left:
                return
            if clock() > end:
                raise NotJoinedError(
                    f"{left[0]} did not register with slurmctld within {self.register_s:.0f} s",
                    hint="can it reach SlurmctldHost? See /var/log/gpucloud/slurmd.log on the node",
                )
            pause(PAUSE_S)


def _start(target: Target, name: str, texts: Sequence[str], given: bytes) -> None:
    words = [*texts, of_node.slurmd_unit(name), of_node.notice_unit(name)]
    command = ["sudo", "-n", "sh", "-c", of_node.JOIN, "sh", *words]
    done = run(target, command, stdin=given, timeout_s=JOIN_S, most_bytes=MOST_BYTES, only_end=True)
    if done.code:
        said = done.err.decode(errors="replace").strip().splitlines()
        raise NotJoinedError(f"{name}: {said[-1] if said else f'exit code {done.code}'}")

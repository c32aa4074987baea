"""The acceptance test of a box's nodes together: an all-reduce over all of them, and the network in use.

A network that does not work is a silent fault: NCCL falls back to TCP, and everything is many times slower.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpucloud.bring_up.acceptance import PROGRAM, TIMEOUT_S, Number, Words
from gpucloud.errors import GpucloudError
from gpucloud.ssh.client import Target, run
from gpucloud.ssh.environment import loading
from gpucloud_templates.fabrics import TCP, fabric

PORTS = range(20000, 30000)


class Reduced(BaseModel):
    """The output of the program on a node (``gpucloud_templates.gputest.together``).

    ``missing`` tells that the image has no NCCL; ``network`` are the lines of its log that name networks.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    gbs: Number = 0
    wrong: Number = 0
    network: Annotated[tuple[Words, ...], Field(max_length=100)] = ()
    missing: bool = False
    error: Words | None = None


def port_of(box: str) -> int:
    """Where the first node of a box listens during the test; each box has its own."""
    return PORTS[zlib.crc32(box.encode()) % len(PORTS)]


def all_reduce(target: Target, nodes: int, address: str, port: int) -> Reduced:
    """Takes part in an all-reduce as one node. Takes seconds.

    Args:
        target: the node, which has the program of the GPU test.
        nodes: how many take part.
        address: the private address of the first one.
        port: where that one listens.

    Raises:
        ConnectionFailedError: the node could not be reached, or took too long.
        GpucloudError: the program could not be run.
    """
    argv = ["python3", PROGRAM, "together", str(target.node), str(nodes), address, str(port)]
    words = loading(argv) if target.has_environment else argv
    done = run(target, words, timeout_s=TIMEOUT_S)
    if done.code:
        said = done.err.decode(errors="replace").strip()[-300:]
        raise GpucloudError(f"{target.alias}: the all-reduce did not run: {said}")
    try:
        return Reduced.model_validate_json(done.out)
    except ValidationError as error:
        raise GpucloudError(f"{target.alias}: the all-reduce returned no readable result") from error


def shortcomings(results: Sequence[Reduced], wanted: str | None) -> Sequence[str]:
    """The faults of the nodes together, for people; empty for good ones.

    Args:
        results: of each node.
        wanted: the RDMA network that joins them; ``None`` for none.
    """
    found: list[str] = []
    for node, each in enumerate(results):
        if each.error is not None:
            found.append(f"node {node}: {each.error}")
        elif each.wrong:
            found.append(f"node {node}: {each.wrong:.0f} sums are wrong")
        elif wanted is not None and not fabric(wanted).is_named(each.network):
            found.append(f"node {node}: {_instead(each.network)} instead of {wanted}")
    return found


def _instead(network: Sequence[str]) -> str:
    tcp = [line for line in network if TCP.search(line)]
    if tcp:
        return f"NCCL fell back to TCP ({tcp[-1]})"
    return f"NCCL uses another network ({network[-1]})" if network else "NCCL names no network"


def summary(results: Sequence[Reduced], wanted: str | None) -> str:
    """The result in one line, for people, with the line of NCCL's log that names the network."""
    lines = results[0].network
    proof = [line for line in lines if wanted and fabric(wanted).is_named([line])] or lines[-1:]
    speed = min(each.gbs for each in results)
    return f"{len(results)} nodes add up at {speed:.1f} GB/s" + "".join(f": {line}" for line in proof[:1])

"""What the program of each node of a cluster is told: who it is, and where the first node listens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MASTER_PORT = 29500
"""Where the first node listens: torchrun's own default (``--master-port``).

Source: https://docs.pytorch.org/docs/stable/elastic/run.html
"""


def rank_environments(
    addresses: Sequence[str | None], gpus: int | None, box: Sequence[str | None]
) -> list[Mapping[str, str]]:
    """The variables of each node: those of PyTorch and its relatives, and the same under names of our own.

    Args:
        addresses: the private addresses of the nodes, in their order; ``None`` if unknown, which is then
            left out.
        gpus: how many GPUs each has; ``None`` if unknown.
        box: the private addresses of all nodes of the box, where a program may start others itself.
    """
    known = "\n".join(filter(None, box))
    named = {"GPUCLOUD_NODE_IPS": known} if known else {}
    return [{**_environment(rank, addresses, gpus), **named} for rank in range(len(addresses))]


def _environment(rank: int, addresses: Sequence[str | None], gpus: int | None) -> Mapping[str, str]:
    given: Mapping[str, object | None] = {
        "MASTER_ADDR": addresses[0],
        "MASTER_PORT": MASTER_PORT,
        "NNODES": len(addresses),
        "NODE_RANK": rank,
        "GPUS_PER_NODE": gpus,
    }
    several = len(addresses) > 1
    values = {
        **given,
        **(_torchrun(given) if several else {}),
        "GPUCLOUD_NODES": len(addresses),
        "GPUCLOUD_NODE_RANK": rank,
        "GPUCLOUD_GPUS_PER_NODE": gpus,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _torchrun(given: Mapping[str, object | None]) -> Mapping[str, object | None]:
    """torchrun's options as variables, so that ``torchrun train.py`` alone finds the other nodes.

    Source: ``torch/distributed/argparse_util.py``: an option ``--x-y`` is read from ``PET_X_Y``.
    """
    return {
        "PET_NNODES": given["NNODES"],
        "PET_NODE_RANK": given["NODE_RANK"],
        "PET_NPROC_PER_NODE": given["GPUS_PER_NODE"],
        "PET_MASTER_ADDR": given["MASTER_ADDR"],
        "PET_MASTER_PORT": given["MASTER_PORT"],
    }

"""What the program of each node is told."""

from __future__ import annotations

import pytest

from gpucloud.clusters.ranks import rank_environments

SEVERAL = {
    "MASTER_ADDR": "10.0.0.4",
    "MASTER_PORT": "29500",
    "NNODES": "2",
    "NODE_RANK": "1",
    "GPUS_PER_NODE": "8",
    "PET_MASTER_ADDR": "10.0.0.4",
    "PET_MASTER_PORT": "29500",
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_NPROC_PER_NODE": "8",
    "GPUCLOUD_NODES": "2",
    "GPUCLOUD_NODE_RANK": "1",
    "GPUCLOUD_NODE_IPS": "10.0.0.4\n10.0.0.5",
    "GPUCLOUD_GPUS_PER_NODE": "8",
}


def test_each_of_several_nodes_knows_its_rank_and_the_first_one() -> None:
    first, second = rank_environments(["10.0.0.4", "10.0.0.5"], 8, ["10.0.0.4", "10.0.0.5"])
    assert second == SEVERAL
    changed = {"NODE_RANK", "PET_NODE_RANK", "GPUCLOUD_NODE_RANK"}
    assert first == {name: "0" if name in changed else value for name, value in SEVERAL.items()}


@pytest.mark.parametrize("gpus", [4, None])
def test_one_node_is_told_the_same_but_torchrun_stays_as_it_is(gpus: int | None) -> None:
    """``torchrun --nproc-per-node`` would change for who never had several nodes."""
    [only] = rank_environments([None], gpus, [None])
    assert (only["NNODES"], only["NODE_RANK"], only.get("GPUS_PER_NODE")) == ("1", "0", gpus and str(gpus))
    assert not {name for name in only if name.startswith("PET_")}
    assert "MASTER_ADDR" not in only, "it is not known"


def test_a_program_on_the_first_node_alone_is_told_where_the_others_are() -> None:
    [first] = rank_environments(["10.0.0.4"], 8, ["10.0.0.4", "10.0.0.5"])
    assert (first["NNODES"], first["GPUCLOUD_NODE_IPS"]) == ("1", "10.0.0.4\n10.0.0.5")

"""The acceptance test of several nodes: what counts as a fault, and how the nodes meet."""

from __future__ import annotations

import threading

import pytest

from gpucloud.bring_up.rdma_check import Reduced, shortcomings, summary
from gpucloud_templates.fabrics import fabric
from gpucloud_templates.gputest.together import ID_BYTES, meet
from tests.ports import free_port

EFA = "ip-10-0-0-4:1:2 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics)"
IB = "NCCL INFO NET/IB : Using [0]mlx5_ib0:1/IB [RO]; OOB eth0:10.0.0.4<0>"
ERDMA = "NCCL INFO NET/IB : Using [0]erdma_0:1/RoCE [1]erdma_1:1/RoCE [RO]; OOB eth0:10.0.0.4<0>"
TCP = "NCCL INFO NET/Socket : Using [0]eth0:10.0.0.4<0>"
OTHER = "NCCL INFO NET/OFI Selected Provider is tcp (found 1 nics)"


@pytest.mark.parametrize(
    ("wanted", "line"), [("efa", EFA), ("infiniband", IB), ("erdma", ERDMA), (None, TCP)]
)
def test_a_network_that_the_log_names_is_what_was_asked_for(wanted: str | None, line: str) -> None:
    both = [Reduced(gbs=90, network=("NET/Plugin : loaded", line)), Reduced(gbs=80, network=(line,))]
    assert shortcomings(both, wanted) == []
    assert summary(both, wanted) == f"2 nodes add up at 80.0 GB/s: {line}"


@pytest.mark.parametrize(
    ("wanted", "result", "says"),
    [
        ("efa", Reduced(network=(TCP,)), f"node 1: NCCL fell back to TCP ({TCP}) instead of efa"),
        ("efa", Reduced(network=(OTHER,)), f"node 1: NCCL uses another network ({OTHER}) instead of efa"),
        ("erdma", Reduced(network=(IB,)), f"node 1: NCCL uses another network ({IB}) instead of erdma"),
        ("infiniband", Reduced(), "node 1: NCCL names no network instead of infiniband"),
        (None, Reduced(wrong=3, network=(TCP,)), "node 1: 3 sums are wrong"),
        (None, Reduced(error="ncclCommInitRank: NCCL error 2"), "node 1: ncclCommInitRank: NCCL error 2"),
    ],
)
def test_a_node_that_does_not_add_up_or_uses_another_network_is_named(
    wanted: str | None, result: Reduced, says: str
) -> None:
    good = Reduced(network=(fabric_line(wanted),))
    assert shortcomings([good, result], wanted) == [says]


def fabric_line(name: str | None) -> str:
    return {"efa": EFA, "infiniband": IB, "erdma": ERDMA, None: TCP}[name]


@pytest.mark.parametrize("name", ["efa", "infiniband", "erdma"])
def test_the_settings_of_a_network_never_name_a_protocol_of_nccl(name: str) -> None:
    text = fabric(name).text()
    assert "export NCCL_SOCKET_IFNAME=" in text
    assert "NCCL_PROTO" not in text


def test_all_nodes_get_what_the_first_one_made() -> None:
    port = free_port()
    made, got = bytes(range(ID_BYTES)), list[bytes]()

    def come(rank: int) -> None:
        got.append(meet(rank, 3, "127.0.0.1", port, lambda: b""))

    others = [threading.Thread(target=come, args=(rank,)) for rank in (1, 2)]
    for each in others:
        each.start()
    assert meet(0, 3, "127.0.0.1", port, lambda: made) == made
    for each in others:
        each.join()
    assert got == [made, made]

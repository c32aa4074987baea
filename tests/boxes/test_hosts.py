"""Which nodes are hosts of every ssh client: only those whose own host keys are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpucloud.boxes.hosts import all_hosts, hosts_of
from gpucloud.ending.teardown import take_down
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.purchase.failover import launch
from gpucloud.resources import State
from gpucloud.ssh.keys import create_keys, host_alias, key_folder, pin
from tests.bench import OWNER, Bench
from tests.builders import Clock
from tests.memory import TOKEN_ATOMIC, MemoryProvider

OWN_KEY = "ssh-ed25519 AAAAown"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    clock = Clock()
    return Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=TOKEN_ATOMIC, clock=clock)])


def launched(bench: Bench, name: str, *, nodes: int = 1, rotated: tuple[int, ...] = ()) -> Box:
    """A box whose keys are on this machine; some of its nodes have host keys of their own by now."""
    context = bench.context()
    box = launch(context, bench.purchase(box=f"b-{name}", name=name, nodes=nodes))
    context.journal.release(box)
    folder = key_folder(bench.folder, box.id)
    create_keys(folder, box.id, nodes=nodes)
    for node in rotated:
        pin(folder, host_alias(box.id, node), [OWN_KEY])
    return box


def named(bench: Bench) -> list[str]:
    """The first name of each host, as ssh's configuration would have them."""
    hosts = all_hosts(bench.context().journal, OWNER, bench.folder, None)
    return [host.names[0] for host in hosts]


def test_a_node_with_the_host_key_of_the_user_data_is_no_host_until_it_has_its_own(bench: Bench) -> None:
    """Who can read the user-data could pose as that node."""
    launched(bench, "booting")
    launched(bench, "pair", nodes=2, rotated=(1,))
    assert named(bench) == ["node1.pair.gpucloud"]
    pin(key_folder(bench.folder, "b-pair"), "b-pair", [OWN_KEY])
    assert named(bench) == ["pair.gpucloud", "node1.pair.gpucloud"]


def test_a_box_that_has_ended_is_no_host(bench: Bench) -> None:
    box = launched(bench, "ended", rotated=(0,))
    assert named(bench) == ["ended.gpucloud"]
    context = bench.context()
    taken = context.take(box)
    assert taken is not None
    take_down(context, taken, budget_s=600)
    assert named(bench) == []


def test_neither_is_a_node_that_is_gone_or_has_no_key_here_nor_a_box_whose_id_is_none(bench: Bench) -> None:
    pair = launched(bench, "pair", nodes=2, rotated=(0, 1))
    over = replace(pair, state=BoxState.FAILED)
    gone = replace(pair, nodes=(replace(pair.nodes[0], state=State.GONE), pair.nodes[1]))
    hosts = [list(hosts_of(box, bench.folder, None)) for box in (pair, over, gone, replace(pair, id="*"))]
    assert [[host.target.node for host in each] for each in hosts] == [[0, 1], [], [1], []]
    (key_folder(bench.folder, pair.id) / f"known_hosts-{host_alias(pair.id, 1)}").unlink()
    assert named(bench) == ["pair.gpucloud"]

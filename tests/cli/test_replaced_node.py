"""A launch of several nodes, one of which has a sick GPU: that one alone is replaced, among the others."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.cli.test_least_privilege import apply, policy
from tests.journals import with_tables
from tests.shell import Shell

PAIR = ("--gpu", "A100:8,A100-80GB:8", "--nodes", "2", "--rdma", "any", "--accept-test")
PLACES = {
    "aws": ("--cloud", "aws", "--region", "us-east-1"),
    "azure": ("--cloud", "azure", "--region", "eastus"),
    "alibaba": ("--cloud", "alibaba", "--region", "cn-shenzhen"),
}
SHARED = ("placement-group", "group", "network")


def bought(cli: Shell) -> list[list[str]]:
    """The machines of the box after each create call, by rank."""
    query = "SELECT data FROM events WHERE type = 'resolved' ORDER BY seq"
    with closing(sqlite3.connect(cli.home / "state-sandbox" / "journal.db")) as connection:
        found: list[dict[str, Any]] = [json.loads(data) for (data,) in connection.execute(query)]
    return [[node["instance_id"] for node in each["facts"]["nodes"]] for each in found if each["resources"]]


def shared(cli: Shell) -> dict[str, int]:
    """How many there are of what the nodes have in common, by kind."""
    query = "SELECT kind, count(*) FROM resources WHERE state = 'made' GROUP BY kind"
    with closing(sqlite3.connect(cli.home / "state-sandbox" / "journal.db")) as connection:
        found = dict(connection.execute(with_tables(query, server=False)).fetchall())
    return {kind: found[kind] for kind in SHARED if kind in found}


@pytest.mark.parametrize(("cloud", "networks"), [("aws", 0), ("azure", 1), ("alibaba", 2)])
def test_one_sick_node_is_replaced_among_the_others(cli: Shell, cloud: str, networks: int) -> None:
    """Under the policy that ``check`` prints."""
    apply(cli, cloud, policy(cli, cloud))
    cli.sandbox.gpu("slow")
    box = cli("launch", *PAIR, *PLACES[cloud], "--name", "pair", "--yes", "--json").box
    first, second = bought(cli)
    now = [node["instance_id"] for node in box["nodes"]]
    [rank] = [rank for rank, (old, new) in enumerate(zip(first, second, strict=True)) if old != new]
    assert now == second
    assert f"{box['id']}{f'.{rank}' if rank else ''} failed the GPU test" in box["replaced"]
    assert sorted(entry["id"] for entry in cli.billed()) == sorted(now)
    assert shared(cli) == {"placement-group": 1, "group": 1, **({"network": networks} if networks else {})}
    found = cli("sweep", "--older-than", "0s", "--dry-run", "--json").json["found"]
    assert found == [], "nothing of a living box is unwanted"
    told = cli("exec", "pair", "--all-nodes", "--", "cat", "/var/lib/gpucloud/peers.json")
    peers = [node["private_ip"] for node in box["nodes"]]
    assert sorted(told.out.splitlines()) == [
        f"{node}: {json.dumps({'rank': node, 'nodes': 2, 'peers': peers})}" for node in (0, 1)
    ], told.err
    hosts = cli("hosts", "pair", "--format", "json").json["nodes"]
    assert [host["private_ip"] for host in hosts] == peers
    assert cli("extend", "pair", "--ttl", "30h").code == 0
    assert cli("down", "pair", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []


def test_a_run_goes_on_over_the_new_pair(cli: Shell) -> None:
    cli.sandbox.gpu("lost")
    line = ("--gpu", "V100:8", "--nodes", "2", "--cloud", "aws")
    ran = cli("run", *line, "--", "sh", "-c", "echo $NODE_RANK $NNODES")
    assert ran.code == 0, ran.err
    assert sorted(ran.out.splitlines()) == ["[0] 0 2", "[1] 1 2"]
    assert "buying another one in its place" in ran.err
    machines = [entry for entry in cli.sandbox.ledger() if entry.get("kind") == "instance"]
    assert [entry["event"] for entry in machines] == ["born", "born", "died", "born", "died", "died"]
    assert cli.sandbox.status()["billing"] == []


def test_without_another_machine_there_all_nodes_are_bought_elsewhere(cli: Shell) -> None:
    """The place of the unfit machine is taken by somebody else at once."""
    cli.sandbox.gpu("slow")
    fault = {"cloud": "azure", "action": "PUT virtualMachines", "effect": "error"}
    cli.sandbox.fault(**fault, code="AllocationFailed", status=409, skip=2)
    line = ("launch", "--gpu", "T4", "--nodes", "2", "--cloud", "azure", "--accept-test")
    launched = cli(*line, "--name", "pair", "--yes", "--json")
    assert "buying another one in its place" in launched.err
    assert "replacing all nodes" in launched.err
    pair = {each["instance_id"] for each in launched.box["nodes"]}
    assert pair.isdisjoint(bought(cli)[0])
    assert {entry["id"] for entry in cli.billed()} == pair

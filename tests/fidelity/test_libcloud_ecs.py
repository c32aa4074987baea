"""Apache Libcloud's ECS driver reads Alibaba Cloud's XML: it sees what gpucloud launched, and ends it."""

from __future__ import annotations

from tests.fidelity.clients import CLIENTS, SCRIPTS
from tests.shell import Shell

LAUNCH = ("--gpu", "T4", "--cloud", "alibaba", "--region", "us-east-1", "--name", "x")


def test_smoke_it_sees_a_node_gives_it_a_disk_and_ends_it(cli: Shell) -> None:
    [node] = cli.launch(*LAUNCH)["nodes"]
    ran = cli.run(CLIENTS / "python", SCRIPTS / "libcloud_ecs.py", node["instance_id"])
    assert ran.code == 0, ran.err
    state, addresses, image = ran.json["node"]
    assert (state, addresses) == ("running", [node["public_ip"]])
    assert image
    assert ran.json["sizes"] > 1
    assert ran.json["images"] > 1
    assert (ran.json["attached"], ran.json["volumes"]) == (True, [[20, "data"]])
    assert True in ran.json["snapshots"]
    assert (ran.json["rebooted"], ran.json["detached"]) == (True, True)
    assert ran.json["ended"] == [True] * 4
    assert cli.sandbox.status()["billing"] == []
    assert cli("down", "x", "--yes").code == 0

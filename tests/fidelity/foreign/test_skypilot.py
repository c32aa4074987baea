"""SkyPilot's AWS provisioner starts a cluster, asks for it, and takes it down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fidelity.clients import FOREIGN
from tests.fidelity.operations import needs
from tests.shell import Shell

CLIENT = "skypilot"
PROGRAM = Path(__file__).with_name("skypilot_cluster.py")


def sky(shell: Shell, action: str) -> Any:
    """What the provisioner returns."""
    ran = shell.run(FOREIGN / "python", PROGRAM, action)
    assert ran.code == 0, ran.out + ran.err
    return json.loads(ran.out.splitlines()[-1])  # SkyPilot logs to stdout too


@needs("DescribeRouteTables", "ModifyInstanceAttribute")
def test_a_cluster_of_one_machine(foreign: Shell) -> None:
    cluster = sky(foreign, "up")
    assert cluster["created"] == [cluster["head"]]
    assert [entry["id"] for entry in foreign.billed()] == cluster["created"]
    assert sky(foreign, "query") == {cluster["head"]: "UP"}
    assert sky(foreign, "down") is None
    assert sky(foreign, "query") == {}
    assert foreign.sandbox.status()["billing"] == []

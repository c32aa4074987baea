"""dstack's AWS backend starts an instance and ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fidelity.clients import FOREIGN
from tests.fidelity.operations import needs
from tests.shell import Shell

CLIENT = "dstack"
PROGRAM = Path(__file__).with_name("dstack_instance.py")


def dstack(shell: Shell, *arguments: str) -> Any:
    """What the backend returns."""
    ran = shell.run(FOREIGN / "python", PROGRAM, *arguments)
    assert ran.code == 0, ran.out + ran.err
    return ran.json


@needs("AuthorizeSecurityGroupEgress", "DescribeRouteTables")
def test_an_instance(foreign: Shell) -> None:
    made = dstack(foreign, "up")
    assert [entry["id"] for entry in foreign.billed()] == [made["id"]]
    assert made["address"]
    dstack(foreign, "down", made["id"])
    assert foreign.sandbox.status()["billing"] == []

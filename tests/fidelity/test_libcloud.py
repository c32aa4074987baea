"""Apache Libcloud's EC2 driver makes machines and volumes by itself, by GET, and ends them."""

from __future__ import annotations

from tests.fidelity.clients import CLIENTS, SCRIPTS
from tests.shell import Shell

CLIENT = "libcloud"


def test_smoke_a_node_from_its_creation_to_its_end(foreign: Shell) -> None:
    ran = foreign.run(CLIENTS / "python", SCRIPTS / "libcloud_node.py", "node")
    assert ran.code == 0, ran.err
    assert (ran.json["state"], ran.json["destroyed"]) == ("running", True)
    assert ran.json["listed"] == [["libcloud", "g4dn.xlarge"]]
    assert ran.json["tags"] == {"Name": "libcloud", "purpose": "fidelity"}
    assert len(ran.json["addresses"]) == 1
    births = [entry["id"] for entry in foreign.sandbox.ledger() if entry["kind"] == "instance"]
    assert set(births) == {ran.json["id"]}
    assert foreign.sandbox.status()["billing"] == []


def test_a_volume_of_a_node(foreign: Shell) -> None:
    ran = foreign.run(CLIENTS / "python", SCRIPTS / "libcloud_node.py", "volume")
    assert ran.code == 0, ran.err
    assert (ran.json["attached"], ran.json["detached"], ran.json["deleted"]) == (True, True, True)
    assert ran.json["volumes"][0] == 10
    assert ran.json["snapshots"] == [True]
    assert foreign.sandbox.status()["billing"] == []

"""What the commands of runs do with what an engine wants: show it, leave it alone, cancel it by its id."""

from __future__ import annotations

from gpucloud import Client, Cluster, NodeClass, Profile, Spec
from tests.shell import Shell, cli

__all__ = ["cli"]

ONE, TWO = "lab-t4-1", "lab-t4-2"
LAB = Cluster(name="lab", classes={"t4": NodeClass(spec=Spec(gpu="T4"), max=8)})


def test_a_wish_is_listed_with_its_cluster_left_to_its_engine_and_cancelled(cli: Shell) -> None:
    with Client.sandbox(profile=Profile(cli.environ)) as client:
        fleet = client.engines.fleet(LAB)
        wanted = fleet.want([ONE, TWO], gang=True)
        assert [(slot.name, slot.gang, str(slot.state)) for slot in wanted] == [
            (ONE, (ONE, TWO), "wanted"),
            (TWO, (ONE, TWO), "wanted"),
        ]
        assert fleet.want([ONE, TWO], gang=True) == wanted, "it is written once"
        listed = cli("runs", "list")
        assert "(2 nodes of cluster lab)" in listed.out
        assert "while wanted" in listed.out
        assert "(2 nodes of cluster lab)" in cli("runs", "show", ONE).out
        run = cli("runs", "show", ONE, "--json").json["run"]
        assert (run["cluster"], run["slots"], run["state"]) == ("lab", [ONE, TWO], "running")
        [tended] = cli("tend", "--json").json["runs"]
        assert (tended["did"], tended["message"]) == ("left", "the engine of cluster lab decides")
        assert cli("runs", "cancel", ONE, "--yes").code == 0
        assert fleet.seen() == ()
        assert client.runs.list(over=True)[0].failure is not None
        assert cli.changes_asked() == [], "nothing was bought"

"""The boxes of a cluster on the sandbox: what an engine wants is there once, and ends with its wish."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent
from threading import Thread
from typing import Any

import pytest

from gpucloud import Client, Cluster, GpucloudError, NodeClass, Profile, Reconciled, Slot, Spec, UsageError
from gpucloud.journal.records import Box
from gpucloud.runtime.context import Context
from gpucloud_sandbox.client import Endpoint
from tests.api.conftest import profile_at
from tests.chaos.truth import most_at_once
from tests.waiting import until

ONE, TWO, THREE = "lab-t4-1", "lab-t4-2", "lab-t4-3"
LEASE = timedelta(hours=1)


def lab(**spec: Any) -> Cluster:
    """A cluster with nodes of one class."""
    given = {"gpu": "T4", "clouds": "aws", **spec}
    return Cluster(name="lab", classes={"t4": NodeClass(spec=Spec(**given), max=8)}, lease=LEASE)


def states(slots: Iterable[Slot] | Reconciled) -> dict[str, str]:
    """The states of slots by name; whatever could not be done fails the test."""
    if isinstance(slots, Reconciled):
        assert slots.troubles == ()
        slots = slots.slots
    return {slot.name: str(slot.state) for slot in slots}


def done(result: Reconciled) -> list[tuple[str, tuple[str, ...]]]:
    """What was decided, but for what is left as it is."""
    assert result.troubles == ()
    return [(str(each.do), each.slots) for each in result.actions if each.do != "nothing"]


def wished(*slots: str) -> dict[str, datetime]:
    """What an engine wants, since now."""
    return dict.fromkeys(slots, datetime.now(UTC))


def billed(endpoint: Endpoint, kind: str = "instance") -> list[str]:
    """What the clouds bill of a kind."""
    return [each["cloud"] for each in endpoint.client.status()["billing"] if each["kind"] == kind]


def changes(endpoint: Endpoint) -> list[str]:
    """The calls that changed something, or tried to, since the calls were cleared."""
    return [call["action"] for call in endpoint.client.calls() if call["mutating"]]


def elsewhere(profile: Profile, code: str) -> subprocess.Popen[str]:
    """Another process of the same engine."""
    lines = ("import os, time", "from datetime import UTC, datetime", "from pathlib import Path")
    text = "\n".join((*lines, "from gpucloud import Client, MachinesCreated", dedent(code)))
    environment = {**profile.variables, "SSL_CERT_FILE": os.devnull, "LAB": str(lab_file(profile))}
    argv = (sys.executable, "-c", text)
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)


def launching_for_ever(profile: Profile) -> subprocess.Popen[str]:
    """A process that has bought the box of a slot, and never brings it up."""
    launching = elsewhere(
        profile,
        """
        def wait(event):
            if isinstance(event, MachinesCreated):
                print("made", flush=True)
                time.sleep(600)
        with Client.sandbox(on_event=wait) as client:
            client.engines.fleet(Path(os.environ["LAB"])).up(["lab-t4-1"])
        """,
    )
    assert launching.stdout is not None
    assert launching.stdout.readline() == "made\n"
    return launching


def lab_file(profile: Profile) -> Path:
    """The same cluster as of :func:`lab`, as a file."""
    file = Path(profile.variables["HOME"], "cluster.yaml")
    file.write_text("cluster: lab\nclasses: {t4: {gpu: T4, clouds: aws, max: 8}}\n")
    return file


def test_slots_come_up_once_however_many_ask_and_go_when_they_are_given_back(
    profile: Profile, client: Client, endpoint: Endpoint
) -> None:
    """Two engines at once, of which each launches what the other one has not begun."""
    fleet, found = client.engines.fleet(lab()), dict[str, Reconciled]()
    with Client.sandbox(profile=profile) as second:
        other = second.engines.fleet(lab())
        threads = [
            Thread(target=lambda name=name, each=each: found.update({name: each.up([ONE, TWO])}))
            for name, each in (("first", fleet), ("second", other))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240.0)
        assert all(result.troubles == () for result in found.values())
        assert states(other.seen()) == {ONE: "ready", TWO: "ready"}
    assert len(billed(endpoint)) == most_at_once(endpoint.client.ledger()) == 2
    addresses = {slot.address for slot in fleet.seen()}
    assert addresses == {box.nodes[0].public_ip for box in client.list()}
    assert {(slot.price, slot.expires_at) for slot in fleet.seen()} == {
        (box.price, box.expires_at) for box in client.list()
    }
    assert client.nodes.exec(ONE, ["hostname"]).exit_code == 0
    endpoint.client.calls(clear=True)
    assert (done(fleet.up([ONE, TWO])), done(fleet.reconcile(wished(ONE, TWO)))) == ([], [])
    assert changes(endpoint) == []
    assert {run.did for run in client.tend.once().runs} == {"left"}, "its engine decides"
    assert done(fleet.reconcile(wished(TWO))) == [("end", (ONE,))]
    assert states(fleet.down([TWO])) == {}
    assert (fleet.seen(), client.runs.list(), endpoint.client.status()["billing"]) == ((), [], [])


def test_a_gang_is_one_box_and_what_its_cloud_took_back_is_told_before_it_is_bought_again(
    client: Client, endpoint: Endpoint
) -> None:
    fleet = client.engines.fleet(lab(purchase="spot"))
    asked = wished(TWO, ONE)
    assert states(fleet.up([TWO, ONE], gang=True)) == {ONE: "ready", TWO: "ready"}
    [box] = client.list()
    assert (box.name, box.run_id) == (TWO, TWO)
    assert [slot.address for slot in fleet.seen()] == [node.public_ip for node in reversed(box.nodes)]
    with pytest.raises(UsageError, match="a gang is launched as a whole"):
        fleet.want([ONE, THREE], gang=True)
    assert states(fleet.down([ONE])) == {ONE: "ready"}, "the other node of its box is wanted"
    endpoint.client.interrupt(box.nodes[0].instance_id, notice_s=0)
    told = fleet.reconcile(asked)
    assert (done(told), len(billed(endpoint))) == ([("lost", (TWO, ONE))], 1), "its job has ended"
    assert {each.reason for each in told.actions} == {"a node of its box: its cloud took it back"}
    assert done(fleet.reconcile(asked)) == [("lost", (TWO, ONE))], "until it is wanted again or no more"
    assert done(fleet.reconcile(wished(TWO))) == [("launch", (TWO,))]
    assert (states(fleet.seen()), len(billed(endpoint))) == ({TWO: "ready"}, 1), "the old box is gone"
    assert client.down(run_id=TWO).living == ()
    told = fleet.reconcile(asked)
    assert (sorted(done(told)), billed(endpoint)) == ([("lost", (ONE,)), ("lost", (TWO,))], [])
    assert done(fleet.reconcile({})) == []


def test_without_capacity_a_class_pauses_in_every_process(
    profile: Profile, client: Client, endpoint: Endpoint
) -> None:
    """Slurm starts a new process for each call: what failed is in the journal, and nothing spins."""
    endpoint.client.stock(count=0)
    fleet = client.engines.fleet(lab())
    result = fleet.up([ONE, TWO])
    assert states(result) == {ONE: "waiting", TWO: "waiting"}
    assert all("none of" in (slot.reason or "") for slot in result.slots)
    endpoint.client.calls(clear=True)
    again = elsewhere(
        profile,
        """
        with Client.sandbox() as client:
            fleet, now = client.engines.fleet(Path(os.environ["LAB"])), datetime.now(UTC)
            wanted = dict.fromkeys(["lab-t4-1", "lab-t4-3"], now)
            for done in (fleet.up(["lab-t4-3"]), fleet.reconcile(wanted)):
                for action in done.actions:
                    print(action.do, *action.slots, action.until and round((action.until - now).seconds / 60))
        """,
    )
    assert sorted(again.communicate()[0].splitlines()) == [
        f"end {TWO} None",
        f"wait {ONE} 10",
        f"wait {THREE} 10",
        f"wait {THREE} 10",
    ]
    assert changes(endpoint) == []
    assert states(fleet.seen()) == {ONE: "waiting", THREE: "wanted"}
    assert [run.attempts[0].loss for run in client.runs.list() if run.attempts] == ["capacity"]
    assert states(fleet.down([ONE, THREE])) == {}
    assert done(fleet.up([ONE])) == [("wait", (ONE,))], "giving back makes no capacity"


def test_a_process_that_is_killed_in_a_launch_leaves_what_the_next_one_launches_once(
    profile: Profile, client: Client, endpoint: Endpoint
) -> None:
    fleet = client.engines.fleet(lab())
    launching = launching_for_ever(profile)
    assert states(fleet.up([ONE])) == {ONE: "launching"}, "it lives: it may go on"
    launching.kill()
    launching.communicate()
    assert states(fleet.reconcile(wished(ONE))) == {ONE: "ready"}
    assert len(billed(endpoint)) == most_at_once(endpoint.client.ledger()) == 1
    [run] = client.runs.list()
    assert [each.loss for each in run.attempts] == ["launch", None]
    assert client.runs.cancel(ONE).state == "cancelled"
    assert done(fleet.reconcile(dict.fromkeys([ONE], run.created_at))) == [("lost", (ONE,))]
    assert endpoint.client.status()["billing"] == []


def test_two_clusters_of_one_name_do_not_end_each_others_nodes(client: Client, tmp_path: Path) -> None:
    """Each would take the other's nodes for nodes that nobody wants."""
    files = [tmp_path / name / "cluster.yaml" for name in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text("cluster: lab\nclasses: {t4: {gpu: T4, clouds: aws, max: 8}}\n")
    one, other = map(client.engines.fleet, files)
    assert states(one.want([ONE])) == {ONE: "wanted"}
    for refused in (lambda: other.want([TWO]), lambda: other.reconcile({}), lambda: other.down([ONE])):
        with pytest.raises(UsageError, match=f"two clusters are named 'lab': {files[1]}, and {files[0]}"):
            refused()
    assert states(one.seen()) == {ONE: "wanted"}
    assert states(one.down([ONE])) == {}
    assert states(other.want([TWO])) == {TWO: "wanted"}


def test_what_dies_in_each_launch_does_not_buy_for_ever(
    profile: Profile, client: Client, endpoint: Endpoint
) -> None:
    """A controller whose memory is short has its workers killed: each of them would buy a box and lose it."""
    fleet = client.engines.fleet(lab())
    for _ in range(2):
        launching = launching_for_ever(profile)
        launching.kill()
        launching.communicate()
    assert states(fleet.reconcile(wished(ONE))) == {ONE: "wanted"}
    assert done(fleet.reconcile(wished(ONE))) == [("wait", (ONE,))]
    assert [each.loss for run in client.runs.list() for each in run.attempts] == ["launch", "launch"]
    assert endpoint.client.status()["billing"] == []


def test_when_the_controller_is_dead_every_box_ends_with_its_lease(
    another_sandbox: Endpoint, tmp_path: Path
) -> None:
    """Azure goes on billing disk and address until the next changing call, as README says."""
    names = ("aws", "azure", "alibaba")
    classes = {name: NodeClass(spec=Spec(gpu="T4", clouds=name), max=2) for name in names}
    slots = [f"lab-{name}-1" for name in names]
    clouds = another_sandbox.client
    with Client.sandbox(profile=profile_at(tmp_path / "home", another_sandbox)) as client:
        fleet, asked = client.engines.fleet(Cluster(name="lab", classes=classes, lease=LEASE)), wished(*slots)
        assert states(fleet.up(slots)) == dict.fromkeys(sorted(slots), "ready")
        longer = client.engines.fleet(Cluster(name="lab", classes=classes, lease=3 * LEASE))
        assert sorted(done(longer.reconcile(asked))) == sorted(("renew", (name,)) for name in slots)
        assert states(fleet.renew(["lab-aws-1"])) == {"lab-aws-1": "ready"}  # for an hour again
        clouds.clock(advance_s=0.5 * LEASE.total_seconds())
        by_a_wrong_clock = fleet.reconcile({**asked, "lab-aws-2": datetime.now(UTC)})
        assert (by_a_wrong_clock.actions, len(billed(another_sandbox))) == ((), 3)
        assert " s behind that of " in str(by_a_wrong_clock.troubles[0])
        clouds.clock(advance_s=0.6 * LEASE.total_seconds())
        until(lambda: sorted(billed(another_sandbox)) == ["alibaba", "azure"])
        clouds.clock(advance_s=2 * LEASE.total_seconds())
        until(lambda: billed(another_sandbox) == [])
        assert {each["kind"] for each in clouds.status()["billing"]} == {"disk", "address"}
        told = fleet.reconcile(asked)
        assert sorted(done(told)) == sorted(("lost", (name,)) for name in slots)
        assert clouds.status()["billing"] == []


def test_a_box_that_cannot_join_its_engine_is_deleted_and_its_class_waits(
    profile: Profile, client: Client, endpoint: Endpoint
) -> None:
    """What joins is the box with the nodes of the slots, in their order; one that cannot leaves nothing."""
    joined: list[tuple[int, tuple[str, ...]]] = []

    def join(_: Context, box: Box, slots: tuple[str, ...]) -> None:
        joined.append((len(box.nodes), slots))
        if slots == (THREE,):
            raise GpucloudError("slurmd does not start")

    fleet = replace(client.engines.fleet(lab()), _join=join)
    assert states(fleet.up([ONE, TWO], gang=True)) == {ONE: "ready", TWO: "ready"}
    assert states(fleet.up([THREE])) == {THREE: "waiting"}
    assert joined == [(2, (ONE, TWO)), (1, (THREE,))]
    assert fleet.seen()[2].reason == "slurmd does not start"
    assert len(billed(endpoint)) == 2
    assert len(list(Path(profile.variables["HOME"]).glob("**/keys/b-*"))) == 1

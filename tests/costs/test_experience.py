"""An owner's own history on spot: what of the journal counts, and how."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucloud.costs.experience import experiences
from gpucloud.journal.events import Intended, Made, StateChanged
from gpucloud.journal.facts import BoughtOffer, Facts, NamedRef, Node, Place
from gpucloud.journal.lifecycle import BoxState, Lease
from gpucloud.journal.records import Box, SpotRun
from gpucloud.journal.store import Journal
from gpucloud.resources import State
from gpucloud_pricing.purchases import Purchase
from tests.builders import START, Clock, a_ref

HOUR = timedelta(hours=1)
RUN = SpotRun(
    machine="i-1",
    cloud="aws",
    region="us-east-1",
    instance_type="g4dn.xlarge",
    start=START,
    end=START + 10 * HOUR,
    taken_back=False,
)
PLACE = ("aws", "us-east-1", "g4dn.xlarge")


def test_hours_and_interruptions_are_those_of_each_type_and_region() -> None:
    other = replace(RUN, region="us-east-2", machine="i-2", taken_back=True)
    lost = replace(RUN, machine="i-3", end=START + 26 * HOUR, taken_back=True)
    found = experiences([RUN, other, lost], START + 30 * HOUR)
    assert found[PLACE].hours == 36
    assert (found[PLACE].interruptions, found["aws", "us-east-2", "g4dn.xlarge"].interruptions) == (1, 1)
    assert (found[PLACE].since, found[PLACE].until) == (START.date(), (START + 26 * HOUR).date())


def test_a_machine_that_was_started_again_is_lost_once() -> None:
    runs = [replace(RUN, taken_back=True), replace(RUN, start=RUN.end, end=RUN.end + HOUR, taken_back=True)]
    assert (found := experiences(runs, START + 30 * HOUR)[PLACE]).interruptions == 1
    assert found.hours == 11


def test_a_year_counts_and_no_more() -> None:
    year = timedelta(days=365)
    assert experiences([RUN], START + year + 4 * HOUR)[PLACE].hours == 6
    assert experiences([RUN], START + year + 10 * HOUR) == {}
    assert experiences([replace(RUN, end=START - HOUR)], START) == {}, "whatever the clocks say"


@pytest.mark.parametrize("purchase", [Purchase.SPOT, Purchase.ON_DEMAND])
def test_the_journal_tells_of_spot_machines_until_they_were_last_seen(
    tmp_path: Path, purchase: Purchase
) -> None:
    clock = Clock()
    journal = Journal.open(tmp_path / "journal.db", clock, lease_clock=clock)
    lease = Lease(host="h", boot="b", pid=1, started=1, beat=START)
    facts = Facts(
        place=Place(cloud="aws", region="us-east-1"),
        offer=BoughtOffer(instance_type="g4dn.xlarge", purchase=purchase),
    )
    box = journal.plan(
        Box, id="b-1", name="x", owner="me", run_id=None, op="op", expires_at=None, facts=facts, lease=lease
    )
    values: dict[str, Any] = {
        "op": "op",
        "cloud": "aws",
        "account": "1",
        "region": "us-east-1",
        "zone": "z",
        "token": "t",
    }
    journal.write(box, Intended(intent="op.1", name="n", facts=Facts(), **values))
    nodes = tuple(Node(instance_id=f"i-{number}", state=State.RUNNING, started_at=START) for number in (1, 2))
    for node in nodes:
        journal.write(box, Made(resource=NamedRef(ref=a_ref(id=node.instance_id), name="n")))
    clock.sleep(5 * 3600)
    journal.observe(box, Facts(nodes=nodes))
    clock.sleep(3600)
    assert journal.spot_runs(owner="you") == []
    seen = {run.machine: (run.end - run.start, run.taken_back) for run in journal.spot_runs(owner="me")}
    spot = purchase is Purchase.SPOT
    assert seen == ({"i-1": (5 * HOUR, False), "i-2": (5 * HOUR, False)} if spot else {})
    gone = replace(nodes[0], state=State.GONE, billed=False, ended_at=START + 5.5 * HOUR, taken_back=True)
    journal.observe(box, Facts(nodes=(gone, nodes[1])))
    journal.write(box, StateChanged(state=BoxState.DELETING))
    journal.write(box, StateChanged(state=BoxState.DELETED))
    seen = {run.machine: (run.end - run.start, run.taken_back) for run in journal.spot_runs(owner="me")}
    assert seen == ({"i-1": (5.5 * HOUR, True), "i-2": (6 * HOUR, False)} if spot else {})

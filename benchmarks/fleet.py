"""What a large cluster costs: to decide, to look after it, to launch many boxes against one of many nodes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from benchmarks.launch import sandbox
from benchmarks.round_trips import LATENCY_S, round_trips
from benchmarks.table import Row
from gpucloud import Client, Cluster, NodeClass, Profile, Slot, SlotState, Spec
from gpucloud.elastic.rules import reconcile
from gpucloud.journal.events import StateChanged
from gpucloud.journal.facts import Facts, Place, Price, Wanted
from gpucloud.journal.lifecycle import BoxState, new_id
from gpucloud.journal.records import Box
from gpucloud.runtime.context import Context

SLOTS = 1000
RUNS = 5
BUDGET_S = 0.1
LOOK_BUDGET_S = 1.0
TOGETHER = 16
AGAINST_A_GANG = 2.0
"""One box each, against the same number of nodes of one box: they share a plan, and nothing else."""
NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def seconds(work: Callable[[], object]) -> float:
    """The CPU seconds that some work takes, in the middle of several turns."""
    taken: list[float] = []
    for _ in range(RUNS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def decided() -> Row:
    """Half of the slots of a class are up; some of these end, some are renewed, the others are launched."""
    cluster = lab()
    names = cluster.slots("t4")
    seen = [
        Slot(
            name=name,
            gang=(name,),
            node_class="t4",
            state=SlotState.READY,
            since=NOW,
            expires_at=NOW + timedelta(minutes=number % 60),
        )
        for number, name in enumerate(names[: SLOTS // 2])
    ]
    wanted = dict.fromkeys(names[SLOTS // 10 :], NOW)
    taken_s = seconds(lambda: reconcile(cluster, wanted, seen, {}, NOW))
    return Row(f"reconcile of {SLOTS:,} slots", BUDGET_S, taken_s, 1)


def lab() -> Cluster:
    """A cluster with one large class."""
    return Cluster(name="lab", classes={"t4": NodeClass(spec=Spec(gpu="T4", clouds="aws"), max=SLOTS)})


def journalled(context: Context) -> None:
    """Writes down that every wish has a box that is up; no machine of it, which a cloud would not know."""
    journal = context.journal
    for number, wish in enumerate(journal.runs(owner=context.owner)):
        run = context.take_run(wish)
        box = journal.plan(
            Box,
            id=new_id("b-", context.clock(), context.randomness(10)),
            name=wish.run_id,
            owner=context.owner,
            run_id=wish.run_id,
            op=f"op-{number}",
            expires_at=context.clock() + timedelta(hours=1),
            facts=Facts(wanted=Wanted(spec=dict(wish.work.spec), image="ubuntu-22.04"), disk_gib=100),
            lease=context.lease(),
            run=run,
        )
        up = Facts(
            place=Place(cloud="aws", account="123456789012", region="us-east-1", zone="use1-az1"),
            price=Price(amount=Decimal("0.526"), currency="USD"),
        )
        for state, facts in (
            (BoxState.PROVISIONING, Facts()),
            (BoxState.BOOTSTRAPPING, Facts()),
            (BoxState.READY, up),
        ):
            journal.write(box, StateChanged(state=state, facts=facts))
        journal.release(box)
        if run is not None:
            journal.release(run)


def looked_after() -> Row:
    """A whole look at a cluster whose boxes are all up, by the journal: no cloud is asked.

    What comes on top is one search in each region: botocore takes 1 s to parse 1,000 machines.
    """
    with sandbox() as (_, environment), client_of(environment) as client:
        fleet = client.engines.fleet(lab())
        names = fleet.cluster.slots("t4")
        fleet.want(names)
        with client._session.operation() as context:  # pyright: ignore[reportPrivateUsage]
            journalled(context)
        wanted = dict.fromkeys(names, datetime.now(UTC))
        taken_s = seconds(lambda: fleet.reconcile(wanted))
        ready = sum(slot.state is SlotState.READY for slot in fleet.seen())
        if ready != SLOTS:
            raise RuntimeError(f"{ready} of {SLOTS} boxes are up")
    return Row(f"look after {SLOTS:,} boxes that are up", LOOK_BUDGET_S, taken_s, 1)


def launched() -> Row:
    """Many boxes of one class against a gang of as many nodes, by the answers that they wait for."""
    counts: dict[bool, int] = {}
    for gang in (True, False):
        with sandbox() as (endpoint, environment), client_of(environment) as client:
            fleet = client.engines.fleet(lab())
            endpoint.client.pace(latency_s=2 * LATENCY_S)
            result = fleet.up(fleet.cluster.slots("t4")[:TOGETHER], gang=gang)
            endpoint.client.pace(latency_s=0.0)
            if any(slot.state is not SlotState.READY for slot in result.slots):
                raise RuntimeError(f"not all are up: {result.troubles}")
            counts[gang] = round_trips(endpoint.client.received())
            fleet.down([slot.name for slot in result.slots])
    return Row(
        f"round trips of {TOGETHER} boxes against {TOGETHER} nodes of one",
        counts[True],
        counts[False],
        AGAINST_A_GANG,
        "calls",
    )


def client_of(environment: Mapping[str, str]) -> Client:
    """A client of the sandbox of an environment."""
    return Client.sandbox(profile=Profile(dict(environment)))


def main() -> list[Row]:
    """Every figure."""
    return [decided(), looked_after(), launched()]


def short() -> list[Row]:
    """What takes a moment."""
    return [decided()]

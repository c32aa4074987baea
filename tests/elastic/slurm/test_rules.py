"""What slurmctld is told, as tables with a sentence per row."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpucloud import Money, Slot, SlotState
from gpucloud.elastic.fleet import Reconciled
from gpucloud.elastic.rules import Action, Do, LaunchPause
from gpucloud.elastic.slurm.rules import Update, of_classes, of_jobs, of_lost, of_machines, reasons_of
from gpucloud.elastic.slurm.shapes import CheapestPlace
from gpucloud.elastic.slurm.states import SlurmJob, SlurmNode
from tests.builders import START

ONE, TWO = "lab-t4-1", "lab-t4-2"
PAUSE = {"t4": LaunchPause(START + timedelta(minutes=10), "no capacity anywhere")}
MARKET = CheapestPlace(usd=Decimal("0.1578"), cloud="aws", purchase="spot")


def node(states: str, name: str = ONE, **values: Any) -> SlurmNode:
    """A node in these states, which has its class as its weight and features say."""
    given: dict[str, Any] = {"weight": MARKET.weight, "features": "t4,aws,spot", **values}
    return SlurmNode(name=name, states=frozenset(states.split("+")), **given)


def slot(state: str, name: str = ONE, **values: Any) -> Slot:
    """A slot of the class t4."""
    return Slot(name=name, gang=(name,), node_class="t4", state=SlotState(state), since=START, **values)


def told(updates: list[Update]) -> list[str]:
    """Updates in one line each, without the reason."""
    return [
        " ".join((",".join(each.what), *(word for word in each.settings if not word.startswith("reason="))))
        for each in updates
    ]


ROWS = [
    ("a class with a price is left alone", "IDLE+POWERED_DOWN", "", {}, []),
    ("nodes of a class that pauses are drained", "IDLE+POWERED_DOWN", "", PAUSE, [f"{ONE} state=drain"]),
    ("once", "IDLE+DRAIN+POWERED_DOWN", "(gpucloud) paused", PAUSE, []),
    ("and resumed after the pause", "IDLE+DRAIN+POWERED_DOWN", "(gpucloud) x", {}, [f"{ONE} state=resume"]),
    ("what a person has drained stays so", "IDLE+DRAIN+POWERED_DOWN", "broken fan", {}, []),
    ("no node stays down for ever", "DOWN+POWERED_DOWN", "Not responding", {}, [f"{ONE} state=resume"]),
    ("nodes that are up are not drained", "ALLOCATED+CLOUD", "", PAUSE, []),
    ("nor those that are to be", "MIXED+POWERING_UP", "", PAUSE, []),
]


@pytest.mark.parametrize(
    ("sentence", "states", "reason", "pauses", "expected"), ROWS, ids=[r[0] for r in ROWS]
)
def test_nodes_that_are_powered_down(
    sentence: str, states: str, reason: str, pauses: Any, expected: list[str]
) -> None:
    updates = of_classes([node(states, reason=reason)], lambda _: "t4", pauses, {"t4": MARKET})
    assert told(updates) == expected, sentence


def test_weight_and_features_follow_the_price_in_one_call_for_a_class() -> None:
    nodes = [node("IDLE+POWERED_DOWN", weight=526, features="t4,azure,spot"), node("IDLE", TWO, weight=526)]
    assert told(of_classes(nodes, lambda _: "t4", {}, {"t4": MARKET})) == [
        f"{ONE} features=t4,aws,spot",
        f"{ONE},{TWO} weight=158",
    ]
    assert of_classes(nodes, lambda _: "t4", {}, {}) == [], "no price today: what was known stays"


def test_nodes_that_cannot_come_or_are_gone_are_down_first_and_powered_down_then() -> None:
    """The first queues their jobs again at once; without the second they would stay down for ever."""
    done = Reconciled(
        slots=(slot("waiting", reason="no capacity anywhere"),),
        actions=(Action(do=Do.LOST, slots=(TWO,), reason="its cloud took it back"),),
    )
    nodes = [node("MIXED+POWERING_UP"), node("ALLOCATED", TWO), node("IDLE+POWERED_DOWN", "lab-t4-3")]
    updates = of_lost(nodes, reasons_of(done))
    assert told(updates) == [
        f"{ONE} state=down",
        f"{ONE} state=power_down",
        f"{TWO} state=down",
        f"{TWO} state=power_down",
    ]
    assert updates[0].settings[1] == "reason=(gpucloud) no node could be launched: no capacity anywhere"
    assert updates[2].settings[1] == "reason=(gpucloud) it is gone: its cloud took it back"
    gone = [node("IDLE+POWERING_DOWN"), node("IDLE+POWERED_DOWN", TWO)]
    assert of_lost(gone, reasons_of(done)) == [], "Slurm does not want them any more"


def test_a_node_that_registered_too_small_is_given_back() -> None:
    updates = of_lost([node("IDLE+DRAIN+INVALID_REG", reason="Low RealMemory")], {})
    assert told(updates) == [f"{ONE} state=down", f"{ONE} state=power_down"]
    assert updates[0].settings[1] == "reason=(gpucloud) Low RealMemory"


def test_accounting_gets_cloud_type_and_price_as_far_as_the_version_can() -> None:
    price = Money(amount=Decimal("0.1578"), currency="USD")
    ready = slot(
        "ready",
        box="b-1",
        cloud="aws",
        zone="use1-az1",
        instance_type="g4dn.xlarge",
        purchase="spot",
        price=price,
    )
    note = "aws use1-az1 g4dn.xlarge spot 0.1578 USD/h"
    [old] = of_machines({ONE: node("IDLE")}, [ready], (22, 5))
    assert old.settings == (f"comment={note}", "features=t4,aws,spot")
    [new] = of_machines({ONE: node("IDLE")}, [ready], (23, 11))
    assert new.settings[2:] == ("instanceid=b-1", "instancetype=g4dn.xlarge", f"extra={note}")
    assert list(of_machines({ONE: node("IDLE", note=note)}, [ready], (23, 11))) == []
    assert list(of_machines({ONE: node("IDLE+POWERING_UP")}, [ready], (23, 11))) == []
    job = SlurmJob(id="7", state="R", nodes=ONE)
    assert list(of_jobs([(job, [ONE])], [ready])) == [Update(("7",), (f"admincomment={note}",), is_job=True)]
    assert list(of_jobs([(job, [TWO])], [ready])) == []

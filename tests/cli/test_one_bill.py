"""Every command and the sandbox's ledger agree about what a box has cost, whatever became of it."""

from __future__ import annotations

import csv
import io
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucloud import Box, Client
from gpucloud.errors import GpucloudError
from gpucloud.spec.file import load_spec
from gpucloud.spec.model import Spec
from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.market import in_usd
from tests.api.conftest import profile_at
from tests.forked import ForkServer
from tests.sandbox.azure_lab import Azure
from tests.sandbox.running import HollowBoxes
from tests.shell import Shell, newcomer
from tests.waiting import until

CENT = Decimal("0.01")
LATER_S = 48 * 3600
"""How much later somebody notices what happened."""


@dataclass(slots=True)
class World:
    """Somebody whose clock is that of the clouds, and who looks when the story says so."""

    endpoint: Endpoint
    client: Client
    shell: Shell
    ahead: timedelta

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def pass_time(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)
        self.endpoint.client.clock(advance_s=seconds)

    def wanted(self, cloud: str, **fields: Any) -> Spec:
        region = "eastus" if cloud == "azure" else "us-east-1"
        wanted = {"gpu": "T4", "clouds": [cloud], "regions": [region]}
        return load_spec(None, {"name": "x", "ttl": "4h", **wanted, **fields})

    def launch(self, cloud: str, **fields: Any) -> Box:
        return self.client.launch(self.wanted(cloud, **fields))

    def billing(self) -> list[Any]:
        return list(self.endpoint.client.status()["billing"])

    def billed(self) -> set[str]:
        return {entry["kind"] for entry in self.billing()} - {"reservation"}

    def until_ended(self) -> None:
        """Waits until the ledger bills no machine: guests and timers act in their own time."""
        until(lambda: "instance" not in self.billed())

    def machines(self) -> set[str]:
        """Every machine that a cloud ever billed for a box."""
        events = self.endpoint.client.ledger()
        return {event["id"].lower() for event in events if event["kind"] == "instance" and event["box"]}

    def in_ledger(self, kinds: Collection[str], *, usd: bool = False) -> Decimal:
        """What the clouds have billed for these kinds of resources of all boxes until now.

        In the one currency of all of them, or in ``usd``.
        """
        born: dict[tuple[str, str], Any] = {}
        sums = Decimal(0)
        for event in self.endpoint.client.ledger():
            key = (event["cloud"], event["id"])
            if event["event"] == "born":
                born[key] = event
            elif key in born:
                begun = born.pop(key)
                if begun["kind"] in kinds and begun["box"]:
                    cost = _cost(begun, datetime.fromisoformat(event["at"]))
                    sums += in_usd(cost, begun["currency"]) if usd else cost
        return sums


def _cost(event: Any, until: datetime) -> Decimal:
    hours = (until - datetime.fromisoformat(event["at"])) / timedelta(hours=1)
    return Decimal(event["price"]) * Decimal(hours)


@pytest.fixture
def world(endpoint: Endpoint, tmp_path: Path, forks: ForkServer) -> Iterator[World]:
    """A newcomer whose clock is that of the clouds, which the test moves."""
    with (
        newcomer(endpoint, tmp_path, forks) as shell,
        Client.sandbox(profile=profile_at(tmp_path, endpoint)) as client,
    ):
        ahead = timedelta(seconds=endpoint.client.status()["clock_ahead_s"])
        made = World(endpoint, client, shell, ahead)
        client._session.now = made.now  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]
        yield made


def in_a_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[GpucloudError]]:
    """Work that has begun, and the error that it will have ended with."""
    failures: list[GpucloudError] = []

    def run() -> None:
        try:
            work()
        except GpucloudError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, failures


def told(world: World) -> dict[str, Decimal]:
    """What each command says that the box, which has ended, has cost."""
    box = world.client.get("x")
    [listed] = world.shell.boxes("--all")
    spent = world.shell("spend", "--json").json
    rows = list(csv.DictReader(io.StringIO(world.shell("spend", "--focus").out)))
    machines = {row["ResourceId"].lower() for row in rows if row["ServiceCategory"] == "Compute"}
    assert machines == world.machines(), "each machine is billed, also one of a failed attempt"
    shown = world.shell("show", "x", "--json").box
    return {
        "library": box.cost_so_far.amount if box.cost_so_far else Decimal(0),
        "list": Decimal(listed["cost_so_far"]["amount"]),
        "show": Decimal(shown["cost_so_far"]["amount"]),
        "spend": sum((Decimal(total["amount"]) for total in spent["totals"]), Decimal(0)),
        "focus": sum((Decimal(row["BilledCost"]) for row in rows), Decimal(0)),
    }


def priced_kinds(world: World) -> set[str]:
    """The ledger's kinds of what gpucloud knows a price of; it says which prices it does not know."""
    kinds = {"compute": "instance", "disk": "disk", "address": "address"}
    charges = world.shell("spend", "--json").json["boxes"][0]["charges"]
    return {kinds[each["part"]] for each in charges if each["amount"] is not None}


def down_after_hours(world: World, box: Box) -> None:
    world.pass_time(3 * 3600)
    box.down()


def ended_by_its_ttl_and_seen_late(world: World, box: Box) -> None:
    world.pass_time(4 * 3600 + 30)
    world.until_ended()
    world.pass_time(LATER_S)
    world.client.resources.look()


def ended_by_its_ttl_and_deleted_unseen(world: World, box: Box) -> None:
    world.pass_time(4 * 3600 + 30)
    world.until_ended()
    world.pass_time(LATER_S)
    world.client.down(["x"])


def idle_and_seen_late(world: World, box: Box) -> None:
    """Late, but while AWS still shows what has ended: for an hour."""
    while "instance" in world.billed():
        world.pass_time(60)
        time.sleep(0.3)
    world.pass_time(45 * 60)


def taken_back_and_seen_late(world: World, box: Box) -> None:
    world.pass_time(2 * 3600)
    world.endpoint.client.interrupt(box.nodes[0].instance_id, notice_s=30)
    world.pass_time(31)
    world.until_ended()
    world.pass_time(1800)


def idle_and_seen_days_later(world: World, box: Box) -> None:
    """AWS has forgotten the machine: nothing tells when it ended."""
    idle_and_seen_late(world, box)
    world.pass_time(LATER_S)


def one_node_taken_back(world: World, box: Box) -> None:
    world.pass_time(2 * 3600)
    world.endpoint.client.interrupt(box.nodes[0].instance_id, notice_s=30)
    world.pass_time(31)
    world.billed()
    world.pass_time(1800)
    world.client.resources.look()
    world.pass_time(3600)
    box.down()


def ended_by_its_user_and_seen_late(world: World, box: Box) -> None:
    """Deleted or deallocated in the cloud's console, and nobody told gpucloud."""
    world.pass_time(2 * 3600)
    machine = box.nodes[0].instance_id
    if box.cloud == "aws":
        world.shell.ec2(str(box.region)).terminate_instances(InstanceIds=[machine])
    else:
        group = machine.split("/")[4]
        azure = Azure(world.endpoint, HollowBoxes())
        azure.compute.virtual_machines.begin_deallocate(group, machine.rpartition("/")[2]).result()
    world.until_ended()
    world.pass_time(30 * 60)


def stopped_and_started(world: World, box: Box) -> None:
    """Stopped for longer than it was allowed to run: neither the time nor its compute is counted."""
    world.pass_time(3600)
    stopped = box.stop()
    assert "instance" not in world.billed()
    assert stopped.per_hour.compute is not None
    assert not stopped.per_hour.compute.amount
    world.pass_time(24 * 3600)
    world.client.resources.look()
    box.start(ttl=timedelta(hours=4))
    world.pass_time(2 * 3600)
    assert box.exec(["true"]).exit_code == 0
    box.down()


def stopped_and_forgotten(world: World, box: Box) -> None:
    """Its keep passes, and somebody looks late: what its cloud has not deleted is deleted by a sweep."""
    world.pass_time(3600)
    box.stop(keep=timedelta(days=2))
    world.pass_time(2 * 86400 + 60)
    world.billed()  # the clouds act on their own timers
    world.pass_time(LATER_S)
    world.client.resources.look()
    world.client.resources.sweep()
    assert world.billed() == set()


SPOT = {"purchase": ["spot"]}
HELD = {"purchase": ["reserved"]}
STORIES: dict[str, tuple[str, dict[str, Any], Callable[[World, Box], None]]] = {
    "aws disk": ("aws", {"disk": 2000, "nodes": 2}, down_after_hours),
    "azure disk": ("azure", {"disk": 300, "nodes": 2}, down_after_hours),
    "alibaba disk": ("alibaba", {"disk": 300}, down_after_hours),
    "aws spot": ("aws", {**SPOT, "nodes": 2}, down_after_hours),
    "aws ttl": ("aws", {}, ended_by_its_ttl_and_seen_late),
    "azure ttl": ("azure", {}, ended_by_its_ttl_and_seen_late),
    "alibaba ttl": ("alibaba", {}, ended_by_its_ttl_and_seen_late),
    "aws ttl unseen": ("aws", {}, ended_by_its_ttl_and_deleted_unseen),
    "azure ttl unseen": ("azure", {}, ended_by_its_ttl_and_deleted_unseen),
    "aws idle": ("aws", {"idle": "5m", "ttl": "8h"}, idle_and_seen_late),
    "aws evicted": ("aws", {**SPOT, "ttl": "8h"}, taken_back_and_seen_late),
    "alibaba evicted": ("alibaba", {**SPOT, "ttl": "8h"}, taken_back_and_seen_late),
    "aws ended by its user": ("aws", {}, ended_by_its_user_and_seen_late),
    "azure ended by its user": ("azure", {}, ended_by_its_user_and_seen_late),
    "aws one of two evicted": ("aws", {**SPOT, "nodes": 2, "ttl": "8h"}, one_node_taken_back),
    "azure evicted": ("azure", {**SPOT, "ttl": "8h"}, taken_back_and_seen_late),
    "aws idle days ago": ("aws", {"idle": "5m", "ttl": "8h"}, idle_and_seen_days_later),
    "aws stopped": ("aws", {}, stopped_and_started),
    "azure stopped": ("azure", {}, stopped_and_started),
    "alibaba stopped": ("alibaba", {}, stopped_and_started),
    "alibaba spot stopped": ("alibaba", SPOT, stopped_and_started),
    "aws stopped too long": ("aws", {}, stopped_and_forgotten),
    "azure stopped too long": ("azure", {}, stopped_and_forgotten),
    "alibaba stopped too long": ("alibaba", {}, stopped_and_forgotten),
    "aws held": ("aws", HELD, down_after_hours),
}
UNTOLD = {"azure evicted", "aws idle days ago"}
"""The stories whose end no cloud tells when somebody looks at last: the bill is a range."""


RELEASED = {"alibaba ttl"}
"""The stories that its cloud ends: Alibaba Cloud does so at the first whole minute after the deadline."""


@pytest.mark.parametrize("story", STORIES)
def test_what_has_ended_has_cost_what_its_cloud_billed(world: World, story: str) -> None:
    cloud, fields, happens = STORIES[story]
    if fields is HELD:
        hold(world)
    box = world.launch(cloud, **fields)
    happens(world, box)
    world.client.resources.look()
    living = world.client.list()
    if not world.billed():
        assert all(each.per_hour.total is not None and not each.per_hour.total.amount for each in living)
        assert not living or "Your boxes cost nothing now." in world.shell("list").err
    world.client.down(["x"])
    assert box.price is not None
    late = box.price.amount / 60 if story in RELEASED else Decimal(0)
    agree(world, near=CENT + late, untold=story in UNTOLD)


def agree(world: World, *, near: Decimal = CENT, untold: bool = False) -> None:
    """All commands and the ledger agree about a box that has ended."""
    assert world.billed() == set()
    found, billed, least = (
        told(world),
        world.in_ledger(priced_kinds(world)),
        world.client.get("x").cost_at_least,
    )
    assert billed > CENT
    assert all(abs(amount - found["spend"]) < CENT / 20 for amount in found.values()), found
    assert least is not None
    assert least.amount - near < billed < found["spend"] + near, (least, found, billed)
    for command in (("list", "--all"), ("spend",), ("show", "x")):
        ran = world.shell(*command)
        assert ("≤" in ran.out, "≤: until the latest time" in ran.err) == (untold, untold), ran
    assert untold or abs(found["library"] - least.amount) < CENT / 100


def hold(world: World) -> None:
    place = {"region": "us-east-1", "zone": "use1-az1", "instance_type": "g4dn.xlarge"}
    world.endpoint.client.cloud("aws", "reserve", **place, count=1)


def test_a_set_up_that_fails_has_cost_what_its_cloud_billed(world: World) -> None:
    launch, failures = in_a_thread(lambda: world.launch("aws", setup="false"))
    until(lambda: "instance" in world.billed())
    world.pass_time(45 * 60)
    launch.join()
    assert len(failures) == 1
    agree(world)


def test_a_run_has_cost_what_its_cloud_billed(world: World) -> None:
    """A job of two minutes, by the clock of the cloud; the command is a user's, whose clock is another."""
    command = ("run", "--name", "x", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-1")
    done = world.shell.home / "done"
    run = world.shell.start(
        *command, "--", "sh", "-c", f"echo begun; until test -e {done}; do sleep 0.1; done"
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "begun\n"
    world.pass_time(120)
    done.touch()
    ran = world.shell.finish(run)
    assert ran.code == 0, ran.err
    agree(world)
    assert told(world)["spend"] > Decimal(2) / 60 * world.client.get("x").price.amount  # type: ignore[union-attr]


def test_machines_that_azure_never_starts_have_cost_what_it_billed(world: World) -> None:
    """They fail in two regions, one by one, and another cloud has them: Azure bills their addresses alone."""
    for region in ("eastus", "eastus2"):
        world.endpoint.client.stock(cloud="azure", region=region, count=0)
    places = {"clouds": ["azure", "aws"], "regions": ["eastus", "eastus2", "eu-west-1"]}
    box = world.launch("azure", **places, nodes=2)
    assert (box.cloud, box.region) == ("aws", "eu-west-1")
    down_after_hours(world, box)
    births = [event for event in world.endpoint.client.ledger() if event["event"] == "born"]
    assert {(event["cloud"], event["kind"]) for event in births} == {
        ("azure", "address"),
        *(("aws", kind) for kind in ("instance", "disk", "address")),
    }
    agree(world)


def test_a_machine_that_vanishes_has_cost_what_its_cloud_billed(world: World) -> None:
    first = world.client.plan(world.wanted("alibaba")).attempts[0]
    world.endpoint.client.cloud("alibaba", "vanish", instance_types=[first.instance_type])
    box = world.launch("alibaba")
    assert box.instance_type != first.instance_type
    down_after_hours(world, box)
    assert box.price is not None
    agree(world)


ORDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "aws nodes and disks": ("aws", {"nodes": 3, "disk": 2000}),
    "aws spot": ("aws", {**SPOT, "nodes": 2}),
    "aws held": ("aws", HELD),
    "azure": ("azure", {"disk": 300}),
    "alibaba": ("alibaba", {"nodes": 2}),
}


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_billed_per_hour_is_the_same_for_everybody_and_below_the_limit(
    world: World, order: str
) -> None:
    cloud, fields = ORDERS[order]
    if fields is HELD:
        hold(world)
    spec = world.wanted(cloud, **fields)
    limit = world.client.market.cost_limit(world.client.plan(spec))
    box = world.client.launch(spec)
    [rate] = box.per_hour.known
    kinds = priced_kinds(world)
    prices = [Decimal(e["price"]["amount"]) for e in world.billing() if e["kind"] in kinds]
    assert abs(rate.amount - sum(prices)) < CENT / 100, world.billing()
    assert in_usd(rate.amount, rate.currency) <= limit.usd_per_hour
    [listed] = world.shell.boxes()
    shown = world.shell("show", "x", "--json").box
    assert listed["per_hour"] == shown["per_hour"] == box.document()["per_hour"]
    forget(world)
    swept = world.shell("sweep", "--dry-run", "--older-than", "0s", "--json").json
    swept_usd = Decimal(swept["price_per_hour"]["amount"])
    missing = {each["kind"] for each in swept["found"] if "unknown" in each}
    assert missing == ({"disk"} if cloud == "azure" else set()), swept  # Azure lists a disk without its size
    if not missing:
        assert abs(swept_usd - in_usd(rate.amount, rate.currency)) < CENT / 100, swept
    assert world.shell("sweep", "--yes", "--older-than", "0s").code == 0
    assert world.billed() == set()


def forget(world: World) -> None:
    """Everything that the journal knows is lost."""
    world.client.close()
    shutil.rmtree(world.shell.home / "state-sandbox")


def test_failed_attempts_and_replaced_machines_have_cost_what_they_were_billed(world: World) -> None:
    world.endpoint.client.gpu("memory")
    box = world.launch("aws", accept_test=True)
    assert box.replaced
    world.pass_time(3600)
    box.down()
    assert len(world.machines()) == 2
    agree(world)

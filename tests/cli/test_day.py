"""A day of a box's life on each cloud: what ``spend`` says is what the cloud has billed, to the cent."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from gpucloud_sandbox.market import in_usd
from tests.cli.test_guard import CLOUDS
from tests.cli.test_one_bill import CENT, World, world

__all__ = ["world"]

ELSEWHERE = {"aws": "us-east-2", "azure": "eastus2", "alibaba": "cn-hangzhou"}
KINDS = {"compute": "instance", "disk": "disk", "address": "address"}
HOUR_S = 3600


def a_day(world: World, cloud: str) -> None:
    """Launch, volume, stop, start, extend, move, run, and the end of everything."""
    client, region = world.client, "eastus" if cloud == "azure" else "us-east-1"
    client.volumes.create("data", size_gib=100, near="T4", cloud=cloud, region=region)
    world.pass_time(HOUR_S)
    box = world.launch(cloud, volumes=["data:/data"])
    world.pass_time(2 * HOUR_S)
    box.stop()
    world.pass_time(6 * HOUR_S)
    box.start(ttl=timedelta(hours=4)).down()
    world.pass_time(HOUR_S)
    assert world.billed() == {"disk"}, "the volume is billed alone"
    box = world.launch(cloud, name="y").extend(timedelta(hours=9))
    world.pass_time(5 * HOUR_S)
    moved = client.boxes.move("y", ELSEWHERE[cloud])
    world.pass_time(HOUR_S)
    box.down()
    world.pass_time(2 * HOUR_S)
    moved.down()
    assert client.run(world.wanted(cloud, name="z"), ["true"]).exit_code == 0
    client.volumes.delete("data")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_spend_of_a_day_agrees_with_the_ledger(world: World, cloud: str) -> None:
    a_day(world, cloud)
    assert world.billed() == set()
    spent = world.shell("spend", "--json").json
    charges = [charge for box in spent["boxes"] for charge in box["charges"]]
    assert {box["kind"] for box in spent["boxes"]} == {"box", "volume"}
    unknown = {charge["part"] for charge in charges if charge["amount"] is None}
    assert unknown <= {"address"}
    known = {kind for part, kind in KINDS.items() if part not in unknown}
    # In dollars, as the machines of a day may be billed in several currencies.
    told = sum(in_usd(Decimal(each["amount"]), each["currency"]) for each in spent["totals"])
    billed = world.in_ledger(known, usd=True)
    assert abs(told - billed) < CENT, (told, billed)
    assert billed > 1

"""The type of a machine is what its cloud says: whoever changes it in the console changes what is paid."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.cli.test_guard import CLOUDS
from tests.consoles import LARGER, Console
from tests.shell import Shell
from tests.waiting import until

STARTS = {"aws": "StartInstances", "azure": "POST virtualMachines/start", "alibaba": "StartInstance"}


def the_box(cli: Shell, *more: str) -> Any:
    return cli("show", "x", "--json", *more).box


def paid(box: Any) -> Decimal:
    return Decimal(box["price"]["amount"])


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_stopped_box_of_a_larger_type_is_not_started_above_what_was_agreed(cli: Shell, cloud: str) -> None:
    box = cli.launch("--gpu", "T4", "--cloud", cloud, "--name", "x", "--ttl", "2h", "--max-price", "1.5")
    assert cli("stop", "x", "--yes").code == 0
    Console(cli, "x").resize(LARGER[cloud])
    refused = cli("start", "x", "--yes", "--json")
    assert (refused.code, refused.error["class"]) == (7, "price"), refused.err
    assert f"x is a {LARGER[cloud]} now, not a {box['instance_type']}" in " ".join(refused.err.split())
    assert STARTS[cloud] not in cli.changes_asked()
    shown = the_box(cli)
    assert (shown["state"], shown["instance_type"]) == ("stopped", LARGER[cloud])
    assert paid(shown) > 2 * paid(box)


def test_a_larger_type_is_started_where_that_is_agreed_and_counts_its_own_gpus(cli: Shell) -> None:
    box = cli.launch("--gpu", "T4", "--cloud", "azure", "--name", "x", "--ttl", "2h")
    assert cli("stop", "x", "--yes").code == 0
    Console(cli, "x").resize(LARGER["azure"])
    started = cli("start", "x", "--max-price", "20", "--yes", "--json")
    assert paid(started.box) > 4 * paid(box)
    assert started.box["gpu"]["count"] == 4


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_box_that_runs_as_a_larger_type_says_so_with_its_price_and_is_not_ended(
    cli: Shell, cloud: str
) -> None:
    box = cli.launch("--gpu", "T4", "--cloud", cloud, "--name", "x", "--ttl", "2h")
    console = Console(cli, "x")
    console.stop()
    until(lambda: not cli.billed(), "the stop")
    console.resize(LARGER[cloud])
    console.start()
    until(lambda: bool(cli.billed()), "the start")
    looked = cli("list", "--live", "--json")
    said = " ".join(looked.err.split())
    assert f"x is a {LARGER[cloud]} now, not a {box['instance_type']}" in said
    assert "gpucloud down x" in said
    [shown] = looked.json["boxes"]
    assert (shown["state"], shown["instance_type"]) == ("ready", LARGER[cloud])
    assert paid(shown) > 2 * paid(box)
    assert Decimal(shown["per_hour"]["compute"]["amount"]) == paid(shown)

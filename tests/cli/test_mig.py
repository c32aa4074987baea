"""GPUs that are cut into MIG slices at boot."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from tests.cli.test_guard import deadlines
from tests.shell import Shell
from tests.waiting import until


def launch(shell: Shell, gpu: str, cloud: str, *more: str) -> Any:
    return shell.launch("--gpu", gpu, "--cloud", cloud, "--name", "x", *more)


def listed(shell: Shell) -> list[str]:
    """The profiles that the driver on the box shows."""
    lines = shell("exec", "x", "--", "nvidia-smi", "-L").out.splitlines()
    return [line.split()[1] for line in lines if line.startswith("  MIG")]


def reboots(shell: Shell) -> int:
    """How often the only box has, by its console."""
    [console] = (shell.home / "sandbox" / "boxes").glob("*/root/../console.log")
    return console.read_text(encoding="utf-8").count("Restarting system")


@pytest.mark.parametrize(
    ("gpu", "cloud", "per_gpu"),
    [
        ("H100/1g.10gb:7", "aws", [7]),
        ("A100/1g.10gb:10", "azure", [7, 3]),
        ("A100/1g.5gb:56", "aws", [7] * 8),
    ],
)
def test_slices_are_there_when_the_box_is_ready(cli: Shell, gpu: str, cloud: str, per_gpu: list[int]) -> None:
    box = launch(cli, gpu, cloud)
    profile = gpu.partition("/")[2].partition(":")[0]
    assert list(Counter(each["gpu"] for each in box["mig"]).values()) == per_gpu
    assert listed(cli) == [profile] * sum(per_gpu)
    shown = cli("exec", "x", "--", "nvidia-smi", "-L").out
    assert all(each["uuid"] in shown for each in box["mig"])
    assert box["mig"][0]["uuid"] in cli("show", "x").out
    assert cli("list").out.splitlines()[1].split()[2] == gpu


def test_only_what_keeps_its_mode_needs_a_reboot_and_the_end_stays(cli: Shell) -> None:
    box = launch(cli, "A100/3g.40gb:2", "azure", "--ttl", "3h")
    assert reboots(cli) == 1
    until(lambda: deadlines(cli) == [box["expires_at"]])
    [guard] = cli.boxes()[0]["guards"]
    assert guard["left_s"] <= 3 * 3600


@pytest.mark.parametrize(("gpu", "cloud"), [("H100/1g.10gb:7", "aws"), ("A100/1g.10gb:7", "azure")])
def test_a_later_reboot_cuts_them_again(cli: Shell, gpu: str, cloud: str) -> None:
    launch(cli, gpu, cloud)
    before = reboots(cli)
    cli("exec", "x", "--", "sudo", "reboot")
    until(lambda: reboots(cli) == before + 1)
    until(lambda: len(listed(cli)) == 7)
    assert reboots(cli) == before + 1


def test_the_end_comes_after_a_reboot_too(own_clouds: Shell) -> None:
    launch(own_clouds, "A100/1g.10gb:7", "azure", "--ttl", "2h")
    assert reboots(own_clouds) == 1
    assert len(own_clouds.billed()) == 1
    for _ in range(3):
        own_clouds.sandbox.clock(advance_s=3000)
        time.sleep(0.5)
    until(lambda: own_clouds.billed() == [])


def test_whole_gpus_are_tested_not_slices(cli: Shell) -> None:
    refused = cli("launch", "--gpu", "H100/1g.10gb:7", "--cloud", "aws", "--yes", "--accept-test")
    assert refused.code == 2
    assert "whole GPUs" in refused.err
    assert cli.changes_asked() == []

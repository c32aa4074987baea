"""What still bills when nobody is left to take a box down: from the ledger and the clouds' clock alone."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpucloud.sandbox.client import ensure_started
from tests.shell import Shell, newcomer

LEFT_AT_THE_TTL = {"aws": set[str](), "alibaba": set[str](), "azure": {"disk", "address"}}
"""The kinds that a cloud goes on billing after the box's end. README says the same."""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Shell]:
    """A shell with clouds of its own, as their clock only goes forward."""
    endpoint = ensure_started(tmp_path / "clouds" / "sandbox", transition_s=0.0)
    home = tmp_path / "home"
    home.mkdir()
    with newcomer(endpoint, home) as shell:
        yield shell
    endpoint.client.stop(force=True)
    os.waitpid(endpoint.pid, 0)


def bills(cli: Shell) -> set[str]:
    return {entry["kind"] for entry in cli.sandbox.status()["billing"]}


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def abandoned(cli: Shell, cloud: str, ttl: str) -> None:
    """A box whose client died with everything that it knew."""
    cli.launch("--gpu", "T4", "--cloud", cloud, "--ttl", ttl)
    shutil.rmtree(cli.home / "state-sandbox")


@pytest.mark.parametrize("cloud", LEFT_AT_THE_TTL)
def test_at_the_ttl_the_box_ends_without_us(cli: Shell, cloud: str) -> None:
    abandoned(cli, cloud, "40m")
    cli.sandbox.clock(advance_s=35 * 60)
    time.sleep(0.5)  # time in which a timer that fires early would fire
    assert "instance" in bills(cli)
    cli.sandbox.clock(advance_s=6 * 60)
    until(lambda: bills(cli) == LEFT_AT_THE_TTL[cloud])


def test_a_ttl_below_what_alibaba_can_release_at_powers_off_and_pays_to_the_32nd_minute(cli: Shell) -> None:
    abandoned(cli, "alibaba", "10m")
    cli.sandbox.clock(advance_s=11 * 60)
    time.sleep(0.5)
    assert "instance" in bills(cli), "a guest that switched itself off is billed on"
    cli.sandbox.clock(advance_s=23 * 60)
    until(lambda: bills(cli) == set())


def test_what_azure_leaves_is_ended_by_the_next_changing_command(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--cloud", "azure", "--ttl", "40m", "--name", "late")
    cli.sandbox.clock(advance_s=41 * 60)
    until(lambda: bills(cli) == {"disk", "address"})
    assert cli("down", "late", "--yes").code == 0
    assert bills(cli) == set()

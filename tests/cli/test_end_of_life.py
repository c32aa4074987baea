"""What still bills when nobody is left to take a box down: from the ledger and the clouds' clock alone."""

from __future__ import annotations

import re
import shutil
import time
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud_sandbox.client import Endpoint
from tests.forked import ForkServer
from tests.shell import Shell, newcomer
from tests.waiting import until

LEFT_AT_THE_TTL = {"aws": set[str](), "alibaba": set[str](), "azure": {"disk", "address"}}
"""The kinds that a cloud goes on billing after the box's end. README says the same."""


SECOND = timedelta(seconds=1)
"""Documents have whole seconds."""


def clock_of(own_clouds: Shell, *, advance_s: float = 0) -> datetime:
    """The clouds' time, after it was moved."""
    return datetime.fromisoformat(own_clouds.sandbox.clock(advance_s=advance_s)["now"])


def bills(own_clouds: Shell) -> set[str]:
    return {entry["kind"] for entry in own_clouds.sandbox.status()["billing"]}


def abandoned(own_clouds: Shell, cloud: str, ttl: str) -> None:
    """A box whose client died with everything that it knew."""
    own_clouds.launch("--gpu", "T4", "--cloud", cloud, "--ttl", ttl)
    shutil.rmtree(own_clouds.home / "state-sandbox")


@pytest.mark.parametrize("cloud", LEFT_AT_THE_TTL)
def test_at_the_ttl_the_box_ends_without_us(own_clouds: Shell, cloud: str) -> None:
    abandoned(own_clouds, cloud, "40m")
    own_clouds.sandbox.clock(advance_s=35 * 60)
    time.sleep(0.5)  # time in which a timer that fires early would fire
    assert "instance" in bills(own_clouds)
    own_clouds.sandbox.clock(advance_s=6 * 60)
    until(lambda: bills(own_clouds) == LEFT_AT_THE_TTL[cloud])


@pytest.mark.parametrize("cloud", ["azure", "alibaba"])
def test_a_start_whose_process_dies_ends_at_its_own_end_without_us(own_clouds: Shell, cloud: str) -> None:
    """Not at that of the stopped box, which is a week later; AWS has no timer of its own without a role."""
    own_clouds.launch("--gpu", "T4", "--cloud", cloud, "--name", "x", "--ttl", "2h")
    assert own_clouds("stop", "x", "--yes").code == 0
    starting = own_clouds.start("start", "x", "--ttl", "1h", "--yes")
    assert starting.stderr is not None
    assert any("waiting for" in line for line in starting.stderr), "it did not come as far as ssh"
    starting.kill()
    own_clouds.finish(starting)
    shutil.rmtree(own_clouds.home / "state-sandbox")
    own_clouds.sandbox.clock(advance_s=70 * 60)
    until(lambda: "instance" not in bills(own_clouds))


@pytest.mark.parametrize("cloud", LEFT_AT_THE_TTL)
def test_a_look_says_that_a_box_has_ended_by_its_ttl_and_counts_what_is_billed_still(
    own_clouds: Shell, cloud: str
) -> None:
    own_clouds.launch("--gpu", "T4", "--cloud", cloud, "--ttl", "40m", "--name", "late")
    jumped = clock_of(own_clouds, advance_s=3 * 3600)
    until(lambda: bills(own_clouds) == LEFT_AT_THE_TTL[cloud])
    looked = own_clouds("list", "--live")
    assert "ended by its ttl" in looked.out
    status = own_clouds.sandbox.status()["billed_per_hour"]
    if Decimal(status["amount"]):
        told = re.search(r"Your boxes cost \$([\d.]+) per hour", looked.err)
        assert told is not None, looked.err
        assert Decimal(told[1]) == pytest.approx(Decimal(status["amount"]), rel=Decimal("0.02"))
    else:
        assert "Your boxes cost nothing now" in looked.err
    box = own_clouds("show", "late", "--live", "--json").box
    assert box["ended_by"] == "ttl"
    # A machine that ends itself does so when the clock has jumped, and its cloud says so; Alibaba Cloud
    # releases at the time that was set.
    ended = datetime.fromisoformat(box["compute_ended_at"])
    if cloud == "alibaba":
        assert box["compute_ended_at"] == box["expires_at"]
    else:
        assert jumped - SECOND <= ended <= clock_of(own_clouds)
    [spent] = own_clouds("spend", "--json").json["boxes"]
    amounts = [Decimal(each["amount"]["amount"]) for each in spent["charges"] if each["amount"]]
    assert Decimal(box["cost_so_far"]["amount"]) == pytest.approx(sum(amounts), abs=Decimal("0.001"))
    [compute] = [each for each in spent["charges"] if each["part"] == "compute"]
    begun = datetime.fromisoformat(compute["from"])
    assert begun >= datetime.fromisoformat(box["created_at"]) - SECOND
    hours = Decimal((ended - begun) / timedelta(hours=1))
    of_a_second = Decimal(box["price"]["amount"]) / 3600
    due = Decimal(box["price"]["amount"]) * hours
    assert Decimal(compute["amount"]["amount"]) == pytest.approx(due, abs=2 * of_a_second)


def test_a_ttl_below_what_alibaba_can_release_at_powers_off_and_pays_to_the_32nd_minute(
    own_clouds: Shell,
) -> None:
    abandoned(own_clouds, "alibaba", "10m")
    own_clouds.sandbox.clock(advance_s=11 * 60)
    time.sleep(0.5)
    assert "instance" in bills(own_clouds), "a guest that switched itself off is billed on"
    own_clouds.sandbox.clock(advance_s=23 * 60)
    until(lambda: bills(own_clouds) == set())


def test_what_azure_leaves_is_ended_by_the_next_changing_command(own_clouds: Shell) -> None:
    own_clouds.launch("--gpu", "T4", "--cloud", "azure", "--ttl", "40m", "--name", "late")
    own_clouds.sandbox.clock(advance_s=41 * 60)
    until(lambda: bills(own_clouds) == {"disk", "address"})
    assert own_clouds("down", "late", "--yes").code == 0
    assert bills(own_clouds) == set()


def test_the_clean_up_of_a_pipeline_says_that_another_owner_has_the_boxes_of_its_run(
    endpoint: Endpoint, cli: Shell, tmp_path: Path, forks: ForkServer
) -> None:
    """From another home there is another owner: nothing is deleted, and what is billed is no success."""
    cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "mine", "--run-id", "r-1")
    owner = cli.boxes()[0]["owner"]
    (tmp_path / "other").mkdir()
    with newcomer(endpoint, tmp_path / "other", forks, reset=False) as other:
        left = other("down", "--run-id", "r-1", "--yes", "--json")
        chosen = other("down", "--run-id", "r-1", "--yes", GPUCLOUD_OWNER="team-b")
        mine = other("down", "--run-id", "r-1", "--yes", GPUCLOUD_OWNER=owner)
    assert (left.code, left.json["boxes"]) == (8, [])
    assert {each["owner"] for each in left.json["of_others"]} == {owner}
    assert f"if that is you: GPUCLOUD_OWNER={owner}" in left.err
    assert chosen.code == 0, "two repositories may use one run id"
    assert (mine.code, cli.billed()) == (0, [])

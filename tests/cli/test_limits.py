"""What a cloud would refuse for its documented limits is refused, or passed over, when it is planned."""

from __future__ import annotations

import random
from base64 import b64encode

import pytest

from tests.shell import Shell

ADDRESSES = [f"203.0.113.{number}/32" for number in range(1, 101)]
PORTS = [str(port) for port in range(8000, 8020)]
TAGS = [word for number in range(15) for word in ("--tag", f"k{number}=v")]

LONG = f"echo {b64encode(random.Random(1).randbytes(6000)).decode()}"  # noqa: S311
"""A command that hardly compresses: user-data has no place for it."""


@pytest.mark.parametrize(
    ("cloud", "wish", "says"),
    [
        ("aws", ["--disk", "70"], "70 GiB is smaller than"),
        ("aws", ["--disk", "8", "--image", "cuda-12.8"], "which has 75 GiB"),
        ("aws", ["--allow-from", ",".join(ADDRESSES), "--port", ",".join(PORTS)], "these are 2100 rules"),
        ("aws", ["--tag", "a b=c"], "tag 'a b' cannot be used on AWS"),
        ("aws", ["--ttl-role", "nobody"], "nobody"),
        ("aws", ["--checkpoint", LONG], "the boot configuration has"),
        ("azure", ["--checkpoint", LONG], "the boot configuration has"),
        ("alibaba", ["--checkpoint", LONG], "the boot configuration has"),
        ("azure", ["--disk", "60"], "60 GiB is smaller than the image microsoft-dsvm:ubuntu-hpc:2204:latest"),
        ("azure", ["--disk", "20", "--image", "ubuntu-24.04"], "which has 30 GiB"),
        ("azure", ["--disk", "4096"], "root disks of up to 4095 GiB"),
        ("azure", ["--allow-from", ",".join(ADDRESSES), "--port", ",".join(PORTS)], "these are 2100 rules"),
        ("azure", ["--tag", "a/b=c"], "tag 'a/b' cannot be used on Azure"),
        ("azure", ["--box-identity", "nobody"], "nobody"),
        ("alibaba", ["--disk", "16"], "which has 20 GiB"),
        ("alibaba", ["--disk", "2049"], "root disks of up to 2048 GiB"),
        ("alibaba", ["--nodes", "101"], "up to 100 machines together"),
        ("azure", ["--ttl", "400h"], "at most 336 h ahead, and this one would end in 400 h"),
        ("alibaba", ["--ttl", "1095d"], "at most 1094 days ahead"),
        ("alibaba", ["--allow-from", ",".join(ADDRESSES), "--port", "80,443"], "these are 300 rules"),
        ("alibaba", ["--allow-from", "2001:db8::/32"], "IPv4 addresses only"),
        ("alibaba", [*TAGS], "takes 20 tags"),
        ("alibaba", ["--box-identity", "role"], "no role that a box could be limited to itself with"),
    ],
)
def test_what_a_cloud_would_refuse_is_refused_when_it_is_planned(
    cli: Shell, cloud: str, wish: list[str], says: str
) -> None:
    refused = cli("plan", "--gpu", "T4", "--cloud", cloud, *wish, "--json")
    assert refused.code == 2
    assert says in refused.error["message"]
    assert cli.changes_asked() == []


def test_a_cloud_that_would_refuse_is_passed_over_for_one_that_would_not(cli: Shell) -> None:
    plan = cli("plan", "--gpu", "T4", "--disk", "3000", "--ttl", "1095d", "--json").json
    assert {attempt["cloud"] for attempt in plan["attempts"]} <= {"aws", "azure"}
    told = {reason for what, reason in plan["left_out"].items() if what.startswith("alibaba ecs.gn6i")}
    assert told == {"--disk: 3000 GiB is too large; Alibaba Cloud accepts root disks of up to 2048 GiB"}


def test_an_end_that_no_timer_of_a_cloud_reaches_is_not_bought_there(cli: Shell) -> None:
    """The plan says so, and goes on with the clouds whose timers reach it."""
    plan = cli("plan", "--gpu", "T4", "--ttl", "400h")
    assert "a timer on Azure ends a machine at most 336 h ahead" in plan.out + plan.err
    refused = cli("launch", "--gpu", "T4", "--cloud", "azure", "--ttl", "400h", "--yes", "--json")
    assert (refused.code, refused.error["hint"]) == (2, "use a shorter --ttl, or another --cloud")
    assert cli.changes_asked() == []


def test_a_setup_takes_no_place_in_user_data(cli: Shell) -> None:
    plan = cli("plan", "--gpu", "T4", "--cloud", "aws", "--setup", LONG, "--json")
    assert plan.code == 0, plan.err


@pytest.mark.parametrize("cloud", ["aws", "azure", "alibaba"])
def test_the_smallest_disk_that_is_planned_is_one_that_the_cloud_takes(cli: Shell, cloud: str) -> None:
    smallest = {"aws": "75", "azure": "64", "alibaba": "20"}[cloud]
    assert (
        cli.launch("--gpu", "T4", "--cloud", cloud, "--disk", smallest, "--name", "small")["state"] == "ready"
    )
    assert cli("down", "small", "--yes").code == 0

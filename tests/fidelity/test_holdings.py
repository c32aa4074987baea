"""``aws`` agrees on what exists, at each step of the life of a box and a volume."""

from __future__ import annotations

from functools import partial

import pytest

from tests.shell import Shell

REGIONS = {"aws": "us-east-1"}
ELSEWHERE = {"aws": "us-east-2"}
VOLUME_GIB = 77
"""By this a volume is told apart from the disk of a box."""

Seen = tuple[list[str], int]
"""The states of the machines in the order of the alphabet, and how many volumes there are."""


def seen_by_aws(cli: Shell, region: str) -> Seen:
    """What ``aws`` sees in a region."""
    found = cli.aws("ec2", "describe-instances", "--region", region)["Reservations"]
    states = [each["State"]["Name"] for one in found for each in one["Instances"]]
    volumes = cli.aws("ec2", "describe-volumes", "--region", region)["Volumes"]
    living = [state for state in states if state not in {"terminated", "shutting-down"}]
    return sorted(living), sum(each["Size"] == VOLUME_GIB for each in volumes)


def did(cli: Shell, *line: str) -> None:
    """A command that succeeds."""
    ran = cli(*line)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("cloud", REGIONS)
def test_a_vendors_client_sees_each_step_of_a_box_and_its_volume(cli: Shell, cloud: str) -> None:
    here, there = REGIONS[cloud], ELSEWHERE[cloud]
    sees = partial(seen_by_aws, cli)
    where = ("--gpu", "T4", "--cloud", cloud, "--region", here)
    size = ("--size", str(VOLUME_GIB), "--near", "T4", "--cloud", cloud, "--region", here)
    did(cli, "volume", "create", "data", *size, "--yes")
    assert sees(here) == ([], 1)
    cli.launch(*where, "--name", "x", "--volume", "data:/data")
    assert sees(here) == (["running"], 1)
    did(cli, "stop", "x", "--yes")
    assert sees(here) == (["stopped"], 1)
    did(cli, "start", "x", "--yes")
    assert sees(here) == (["running"], 1)
    did(cli, "down", "x", "--yes")
    assert sees(here) == ([], 1)
    cli.launch(*where, "--name", "y")
    did(cli, "move", "y", "--to", there, "--yes")
    assert (sees(here), sees(there)) == (([], 1), (["running"], 0))
    did(cli, "down", "y-2", "--yes")
    did(cli, "volume", "delete", "data", "--yes")
    assert (sees(here), sees(there)) == (([], 0), ([], 0))


GIB_SCRIPT = "yes gpucloud | head -c 1073741824 >/data/file; sync; sha256sum </data/file"


@pytest.mark.parametrize("cloud", ["aws"])
def test_a_file_of_1_gib_on_a_volume_survives_three_boxes(cli: Shell, cloud: str) -> None:
    """In one zone: a disk of AWS is in a zone; another one needs a snapshot."""
    where = ("--gpu", "T4", "--cloud", cloud, "--region", REGIONS[cloud])
    size = ("--size", str(VOLUME_GIB), "--near", "T4", "--cloud", cloud, "--region", REGIONS[cloud])
    did(cli, "volume", "create", "data", *size, "--yes")
    sums: list[str] = []
    for name in ("first", "second", "third"):
        cli.launch(*where, "--name", name, "--volume", "data:/data")
        script = "sha256sum </data/file" if sums else GIB_SCRIPT
        summed = cli("exec", name, "--", "sh", "-c", script)
        assert summed.code == 0, summed.err
        sums.append(summed.out)
        did(cli, "down", name, "--yes")
    assert len(set(sums)) == 1, sums
    did(cli, "volume", "delete", "data", "--yes")
    assert cli.sandbox.status()["billing"] == []

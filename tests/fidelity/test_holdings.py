"""The vendors' own clients agree on what exists, at each step of the life of a box and what outlives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fidelity.clients import SCRIPTS, documents
from tests.fidelity.test_aliyun import ask
from tests.fidelity.test_az import Az, sign_in
from tests.shell import Shell

REGIONS = {"aws": "us-east-1", "azure": "eastus", "alibaba": "us-east-1"}
ELSEWHERE = {"aws": "us-east-2", "azure": "eastus2", "alibaba": "cn-hangzhou"}
VOLUME_GIB = 77

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Holdings:
    """Machines with their power, disks and snapshots, by id."""

    machines: dict[str, str]
    disks: set[str]
    snapshots: set[str]


def found(machines: dict[str, str], disks: Sequence[str], snapshots: Sequence[str]) -> Holdings:
    """Ids in one spelling: ``az`` writes the names of groups in capitals."""
    powers = {id_.lower(): power.lower() for id_, power in machines.items()}
    return Holdings(powers, {id_.lower() for id_ in disks}, {id_.lower() for id_ in snapshots})


def marked(kind: str, tags: Mapping[str, str]) -> None:
    """What is billed names its owner, what it belongs to, and its end."""
    assert {"gpucloud:owner", "gpucloud:box", "gpucloud:expires"} <= tags.keys(), kind


def seen_by_aws(cli: Shell, _: Path, region: str) -> Holdings:
    """What ``aws`` sees in a region."""
    commands = ("describe-instances", "describe-volumes", "describe-snapshots --owner-ids self")
    lines = [f"ec2 {command} --region {region}" for command in commands]
    answers = documents(cli.run("python", SCRIPTS / "aws_together.py", *lines))
    reservations, volumes, snapshots = (next(iter(answer.values())) for answer in answers)
    instances = [each for one in reservations for each in one["Instances"]]
    living = [each for each in instances if each["State"]["Name"] != "terminated"]
    for each in (*living, *volumes, *snapshots):
        marked("aws", {tag["Key"]: tag["Value"] for tag in each["Tags"]})
    return found(
        {each["InstanceId"]: each["State"]["Name"] for each in living},
        [each["VolumeId"] for each in volumes],
        [each["SnapshotId"] for each in snapshots],
    )


DISKS = "resource list --resource-type Microsoft.Compute/disks"
"""``az disk list`` asks for a group in 2.91.0."""
IMAGES = "resource list --resource-type Microsoft.Compute/galleries/images/versions"
"""What is billed for an image, as a snapshot is; elsewhere that is the snapshot that it holds."""


def seen_by_az(cli: Shell, folder: Path, region: str) -> Holdings:
    """What ``az`` sees in a region."""
    lists = Az(cli, folder / "az").together("vm list --show-details", DISKS, "snapshot list", IMAGES)
    machines, disks, *copies = ([each for each in one if each["location"] == region] for one in lists)
    snapshots = [each for one in copies for each in one]
    for each in (*machines, *disks, *snapshots):
        marked("azure", each["tags"])
    powers = {"VM running": "running", "VM deallocated": "stopped"}
    return found(
        {each["id"]: powers[each["powerState"]] for each in machines},
        [each["id"] for each in disks],
        [each["id"] for each in snapshots],
    )


def seen_by_aliyun(cli: Shell, _: Path, region: str) -> Holdings:
    """What Alibaba Cloud's older SDK sees in a region."""
    instances, disks, snapshots = (
        ask(cli, f"Describe{kind}s", RegionId=region)[f"{kind}s"][kind]
        for kind in ("Instance", "Disk", "Snapshot")
    )
    for each in (*instances, *disks, *snapshots):
        marked("alibaba", {tag["TagKey"]: tag["TagValue"] for tag in each["Tags"]["Tag"]})
    return found(
        {each["InstanceId"]: each["Status"] for each in instances},
        [each["DiskId"] for each in disks],
        [each["SnapshotId"] for each in snapshots],
    )


SEEN_BY = {"aws": seen_by_aws, "azure": seen_by_az, "alibaba": seen_by_aliyun}


def agree(cli: Shell, seen: Holdings) -> None:
    """The ledger bills what a client of the vendor sees, and the journal tells it."""
    bills = {
        kind: {each["id"].lower() for each in cli.billed(kind)} for kind in ("instance", "disk", "snapshot")
    }
    running = {id_ for id_, power in seen.machines.items() if power == "running"}
    assert bills == {"instance": running, "disk": seen.disks, "snapshot": seen.snapshots}
    told = cli("list", "--all-kinds", "--json").json
    states = {"ready": "running", "stopped": "stopped"}
    nodes = [
        (each["instance_id"].lower(), states[box["state"]]) for box in told["boxes"] for each in box["nodes"]
    ]
    assert dict(nodes) == seen.machines
    assert len(seen.disks) == len(told["volumes"]) + len(nodes), "each machine has one of its own"
    assert len(seen.snapshots) == len(told["snapshots"])


@pytest.mark.parametrize("cloud", REGIONS)
def test_a_vendors_client_sees_each_step_of_a_box_and_what_outlives_it(
    cli: Shell, tmp_path: Path, cloud: str
) -> None:
    if cloud == "azure":
        sign_in(Az(cli, tmp_path / "az"))
    here, there = REGIONS[cloud], ELSEWHERE[cloud]
    steps: list[tuple[str, list[str], int, int]] = [
        (f"volume create data --size {VOLUME_GIB} --near T4 --cloud {cloud} --region {here}", [], 1, 0),
        (f"launch --gpu T4 --cloud {cloud} --region {here} --name x --volume data:/data", ["running"], 2, 0),
        ("snapshot create monday --of data", ["running"], 2, 1),
        ("stop x", ["stopped"], 2, 1),
        ("snapshot create mine --of x", ["stopped"], 2, 2),
        ("snapshot delete mine", ["stopped"], 2, 1),
        ("start x", ["running"], 2, 1),
        ("down x", [], 1, 1),
        ("snapshot restore monday --to copy", [], 2, 1),
        ("volume delete data", [], 1, 1),
        ("snapshot delete monday", [], 1, 0),
        ("volume delete copy", [], 0, 0),
        (f"launch --gpu T4 --cloud {cloud} --region {here} --name y", ["running"], 1, 0),
    ]
    for line, powers, disks, snapshots in steps:
        ran = cli(*line.split(), "--yes")
        assert ran.code == 0, ran.err
        seen = SEEN_BY[cloud](cli, tmp_path, here)
        assert (sorted(seen.machines.values()), len(seen.disks), len(seen.snapshots)) == (
            powers,
            disks,
            snapshots,
        ), line
        agree(cli, seen)
    moved = cli("move", "y", "--to", there, "--yes")
    assert moved.code == 0, moved.err
    assert SEEN_BY[cloud](cli, tmp_path, here) == found({}, [], [])
    agree(cli, SEEN_BY[cloud](cli, tmp_path, there))
    assert cli("down", "y-2", "--yes").code == 0
    agree(cli, found({}, [], []))
    assert cli.sandbox.status()["billing"] == []


def did(cli: Shell, *line: str) -> None:
    """A command that succeeds."""
    ran = cli(*line)
    assert ran.code == 0, ran.err


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

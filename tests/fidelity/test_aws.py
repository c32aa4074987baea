"""The ``aws`` program sees what gpucloud launched, and takes it down."""

from __future__ import annotations

from tests.shell import Shell

LAUNCH = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--name", "x")
PLACE = ("--region", "us-east-1")


def test_who_we_are(cli: Shell) -> None:
    identity = cli.aws("sts", "get-caller-identity")
    check = cli("check", "--cloud", "aws", "--json").json
    assert identity["Account"] in str(check)


def test_smoke_lists_shows_and_ends_what_gpucloud_launched(cli: Shell) -> None:
    box = cli.launch(*LAUNCH)
    of_the_box = ("--filters", f"Name=tag:gpucloud:box,Values={box['id']}")
    listed = cli.aws("ec2", "describe-instances", *PLACE, *of_the_box)
    [instance] = listed["Reservations"][0]["Instances"]
    assert instance["InstanceId"] == box["nodes"][0]["instance_id"]
    assert instance["PublicIpAddress"] == box["nodes"][0]["public_ip"]
    assert instance["State"]["Name"] == "running"

    tags = cli.aws("ec2", "describe-tags", *PLACE, "--filters", "Name=key,Values=gpucloud:box")["Tags"]
    assert {tag["Value"] for tag in tags} == {box["id"]}

    cli.aws("ec2", "terminate-instances", *PLACE, "--instance-ids", instance["InstanceId"])
    assert cli.sandbox.status()["billing"] == []
    assert cli("down", "x", "--yes").code == 0
    assert cli.boxes() == []

"""Read-only data sets: copied to a box before its setup and its job, which may not write them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_checkpoints import azure_container
from tests.sandbox.azure_lab import Azure
from tests.sandbox.running import HollowBoxes, client
from tests.shell import Shell
from tests.waiting import until

BUCKET = "lab"
AWS = ("--gpu", "T4", "--cloud", "aws")
SET = f"s3://{BUCKET}/set"
DATA = ("--data", f"{SET}:/data")


@pytest.fixture
def s3(cli: Shell) -> Any:
    found = client(cli.endpoint, "s3")
    found.create_bucket(Bucket=BUCKET)
    put(found, "set/a", b"one")
    put(found, "set/sub/b", b"two")
    return found


def put(s3: Any, key: str, body: bytes) -> None:
    s3.put_object(Bucket=BUCKET, Key=key, Body=body)


def root(cli: Shell) -> Path:
    """The folder that stands for the root of the one box."""
    return cli.endpoint.folder / "boxes" / str(cli.billed()[0]["id"]) / "root"


def test_setup_and_job_find_the_data_that_they_may_only_read_and_no_rights_are_left(
    cli: Shell, s3: Any
) -> None:
    put(s3, "settings/secret", b"not lent")
    cli.launch(*AWS, *DATA, "--name", "b1", "--setup", "ls ../../var/lib/gpucloud/data/data >seen")
    here = root(cli)
    data = here / "var/lib/gpucloud/data/data"
    assert (data / "a").read_bytes() + (data / "sub/b").read_bytes() == b"onetwo"
    assert (here / "home/gpucloud/seen").read_text() == "a\nsub\n"
    for path in (data, data / "a", data / "sub", data / "sub/b"):
        assert path.stat().st_mode & 0o222 == 0, path
        assert path.stat().st_mode & 0o444 == 0o444, path
    fstab = (here / "etc/fstab").read_text()
    assert "/data none bind,ro,nofail" in fstab
    secrets = (b"ASIA", b"session_token")  # how keys of sessions begin
    for folder in (here / "home", here / "var", here / "tmp", cli.home / "state-sandbox"):
        for file in folder.rglob("*"):
            assert not file.is_file() or not any(each in file.read_bytes() for each in secrets), file


def test_a_run_that_is_restarted_has_its_data_again(cli: Shell, s3: Any) -> None:
    script = "cat /data/a; echo; [ $GPUCLOUD_RESTARTS = 1 ] || exit 75"
    ran = cli("run", *AWS, *DATA, "--restarts", "1", "--", "sh", "-c", script)
    assert (ran.code, ran.out) == (0, "one\none\n"), ran.err
    assert ran.err.count(f"copying {SET} to /data") == 2
    assert cli.billed() == []


def test_every_node_has_the_data_and_so_has_a_box_that_was_moved(cli: Shell, s3: Any) -> None:
    cli.launch(*AWS, *DATA, "--nodes", "2", "--name", "pair")
    copies = [*cli.endpoint.folder.glob("boxes/*/root/var/lib/gpucloud/data/data/sub/b")]
    assert [each.read_bytes() for each in copies] == [b"two", b"two"]
    assert cli("down", "pair", "--yes").code == 0
    cli.launch(*AWS, *DATA, "--region", "us-east-1", "--name", "b1")
    moved = cli("move", "b1", "--to", "us-west-2", "--yes", "--json")
    assert moved.code == 0, moved.err
    [machine] = [each for each in cli.billed() if each["kind"] == "instance"]
    assert machine["region"] == "us-west-2"
    assert (root(cli) / "var/lib/gpucloud/data/data/sub/b").read_bytes() == b"two"


def test_a_copy_that_takes_longer_than_its_rights_goes_on_with_new_ones(own_clouds: Shell) -> None:
    """The clouds' clock passes an hour between its first files, which the box asks for eight at a time."""
    cli = own_clouds
    s3 = client(cli.endpoint, "s3")
    s3.create_bucket(Bucket=BUCKET)
    for number in range(20):
        put(s3, f"set/{number}", b"x")
    cli.sandbox.fault(effect="delay", seconds=2.0, action="GetObject", times=None)
    process = cli.start("run", *AWS, *DATA, "--", "sh", "-c", "ls /data | wc -l")
    until(lambda: any(each["action"] == "GetObject" for each in cli.sandbox.calls()), "the first file")
    cli.sandbox.clock(advance_s=3700)
    ran = cli.finish(process)
    assert (ran.code, ran.out.strip()) == (0, "20"), ran.err
    assert "ExpiredToken" in ran.err


def test_a_detached_run_that_is_restarted_by_tend_has_its_data_again(cli: Shell, s3: Any) -> None:
    line = ("run", "--detach", *AWS, *DATA, "--spot", "--restarts", "1", "--run-id", "r1")
    assert cli(*line, "--", "sleep", "60").code == 0
    first = cli.billed()[0]["id"]
    cli.sandbox.interrupt(first, notice_s=0)
    until(lambda: "restarted" in (tended := cli("tend")).out + tended.err, "the second attempt")
    assert cli.billed()[0]["id"] != first
    assert (root(cli) / "var/lib/gpucloud/data/data/a").read_bytes() == b"one"


def test_a_container_of_azure_serves_boxes_of_other_clouds_too(cli: Shell) -> None:
    container = azure_container(Azure(cli.endpoint, HollowBoxes()))
    container.upload_blob("set/sub/a", b"blob")
    line = ("--data", "az://checkpoints/con/set:/data")
    planned = cli("plan", "--gpu", "T4", "--cloud", "aws", *line, "--json").json["data"]
    assert (planned[0]["files"], planned[0]["bytes"], planned[0]["whole"]) == (1, 4, True)
    assert planned[0]["cloud"] == "azure"
    assert planned[0]["traffic"] is not None
    ran = cli("run", "--gpu", "T4", "--cloud", "azure", *line, "--", "cat", "/data/sub/a")
    assert (ran.code, ran.out) == (0, "blob"), ran.err


def test_a_plan_says_how_large_the_data_is_and_what_its_traffic_costs(cli: Shell, s3: Any) -> None:
    here = cli("plan", *AWS, "--region", "us-east-1", *DATA)
    said = f"Data: {SET} at /data: 2 files, 0.0 GiB, from us-east-1, traffic free in its own region"
    assert said in " ".join(here.err.split())
    far = cli("plan", *AWS, "--region", "eu-west-1", *DATA, "--json")
    [data] = far.json["data"]
    assert (data["url"], data["path"], data["cache"], data["region"]) == (SET, "/data", None, "us-east-1")
    assert float(data["traffic"]["amount"]) > 0


def test_data_on_scratch_is_on_the_local_disks_and_comes_again_after_a_stop(cli: Shell, s3: Any) -> None:
    cli.launch("--gpu", "T4", "--instance-type", "g4dn.xlarge", "--cloud", "aws", "--name", "b1",
                     "--data", f"{SET}:/data/set:scratch")  # fmt: skip
    here = root(cli)
    data = here / "scratch/.gpucloud-data/data=set/a"
    assert data.read_bytes() == b"one"
    assert cli("stop", "b1", "--yes").code == 0
    assert cli("start", "b1", "--yes").code == 0
    assert data.read_bytes() == b"one"


def test_a_copy_that_is_refused_in_its_middle_is_tried_again_and_then_fails_the_setup(
    cli: Shell, s3: Any
) -> None:
    refusal = {"effect": "error", "action": "GetObject", "code": "AccessDenied", "status": 403}
    cli.sandbox.fault(**refusal, skip=1, times=1)
    ran = cli("run", *AWS, *DATA, "--", "cat", "/data/a", "/data/sub/b")
    assert (ran.code, ran.out) == (0, "onetwo"), ran.err
    assert "AccessDenied" in ran.err
    cli.sandbox.fault(**refusal, times=None)
    refused = cli("launch", "--yes", *AWS, *DATA, "--json")
    assert refused.code == 1
    assert f"{SET} could not be copied in 3 tries" in refused.error["message"]
    assert "AccessDenied" in refused.error["message"]
    assert cli.billed() == []


HOSTILE = ("set/../../up", "set/../x", "set/-rf", "set/$(touch y)", "set/a\n-rf\nb")


def test_a_hostile_key_stays_below_the_path(cli: Shell, s3: Any) -> None:
    for key in HOSTILE:
        put(s3, key, b"hostile")
    cli.launch(*AWS, *DATA)
    here = root(cli)
    below = here / "var/lib/gpucloud/data"
    found = [Path(folder, name) for folder, _, names in os.walk(here) for name in names]
    hostile = [file for file in found if file.is_file() and file.stat().st_size == 7]
    hostile = [file for file in hostile if file.read_bytes() == b"hostile"]
    assert hostile
    assert all((below / "data") in file.parents for file in hostile), hostile


REFUSED = [
    (("--data", "s3://no-such-bucket/x:/data"), "there is no bucket 'no-such-bucket'"),
    (("--data", "s3://somebody-elses-bucket/x:/data"), "belongs to another AWS account"),
    (("--data", f"s3://{BUCKET}/none:/data"), f"there is nothing below s3://{BUCKET}/none/"),
    (("--data", f"s3://{BUCKET}:/data"), "is a whole bucket"),
    (("--data", "gs://lab/x:/data"), "gs:// is not supported; allowed: az://, oss://, s3://"),
    (("--data", f"{SET}:/etc/x"), "is a path of the system"),
    (("--data", f"{SET}:/scratch"), "is a path of the system"),
    (("--data", f"{SET}:/data/../etc"), "is not a data set"),
    ((*DATA, "--data", f"{SET}:/data/more"), "two sets are at /data/more"),
    ((*DATA, "--volume", "v:/data"), "data sets are read-only"),
    (("--data-role", "arn:aws:iam::123456789012:role/x"), "data_role needs data"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_data_that_cannot_be_used_is_refused_before_anything_is_bought(
    cli: Shell, s3: Any, options: tuple[str, ...], said: str
) -> None:
    refused = cli("launch", "--yes", *AWS, *options, "--json")
    assert (refused.code, refused.error["class"]) == (2, "usage"), refused.out
    assert said in refused.error["message"]
    assert "RunInstances" not in cli.changes_asked()


def test_a_role_that_may_not_be_assumed_is_refused_before_anything_is_bought(cli: Shell, s3: Any) -> None:
    role = "arn:aws:iam::123456789012:role/none"
    refused = cli("launch", "--yes", *AWS, *DATA, "--data-role", role, "--json")
    assert (refused.code, refused.error["class"], refused.error["code"]) == (4, "auth", "AccessDenied")
    assert "RunInstances" not in cli.changes_asked()

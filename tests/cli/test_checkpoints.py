"""Checkpoints of a run in the user's bucket: the next box goes on with them, and a box may do no more."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import ContainerClient

from tests.sandbox.azure_lab import GROUP, REGION, Azure
from tests.sandbox.running import TAGS, HollowBoxes, client
from tests.shell import PROGRAMS, Shell
from tests.waiting import until

BUCKET = "lab"
KEPT = ("--checkpoint-dir", "kept", "--checkpoint-to", f"s3://{BUCKET}/team")
RUN = ("run", "--gpu", "T4", "--cloud", "aws", "--run-id", "r1", *KEPT)


@pytest.fixture
def s3(cli: Shell) -> Any:
    found = client(cli.endpoint, "s3")
    found.create_bucket(Bucket=BUCKET)
    return found


def keys(s3: Any) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET).get("Contents", ())]


def box_folder(cli: Shell) -> Path:
    """The home folder of the user of the one box that runs."""
    [machine] = cli.billed()
    return cli.endpoint.folder / "boxes" / str(machine["id"]) / "root/home/gpucloud"


def test_a_run_that_was_interrupted_goes_on_with_what_the_notice_had_saved(cli: Shell, s3: Any) -> None:
    """The first box uploads nothing but at its notice; the second one prints what it finds."""
    script = (
        'if [ -e kept/step ]; then cat "$GPUCLOUD_CHECKPOINT_DIR/step"; echo $GPUCLOUD_CHECKPOINT_URL; '
        "else echo one >kept/step; echo begun; sleep 60; fi"
    )
    hook = ("--checkpoint", "echo and what the hook has added >>kept/step")
    process = cli.start(*RUN, "--spot", "--retry-on", "interruption", *hook, "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    cli.sandbox.interrupt(cli.billed()[0]["id"], notice_s=15)
    out, err = process.communicate(timeout=120)
    assert (process.wait(), out) == (0, f"one\nand what the hook has added\ns3://{BUCKET}/team/r1\n"), err
    assert "of attempt 1: 1 files, 32 bytes" in err
    [run] = cli("runs", "list", "--all", "--json").json["runs"]
    assert [each["checkpoint"] for each in run["attempts"]] == ["1", None]
    assert cli.billed() == []
    for file in cli.home.glob("state-sandbox/**/*"):
        secrets = (b"IQoJ", b"ASIA")  # how tokens and keys of sessions begin
        assert not file.is_file() or not any(each in file.read_bytes() for each in secrets), file


def test_a_box_has_a_lease_on_its_attempt_that_is_renewed_and_may_do_no_more(
    own_clouds: Shell,
) -> None:
    cli = own_clouds
    s3 = client(cli.endpoint, "s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="team/r1/attempts/3/latest.json", Body=b"{}")
    script = "echo begun; touch kept/a; while [ ! -e go ]; do sleep 0.2; done"
    process = cli.start(*RUN, "--checkpoint-every", "1s", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    until(lambda: "team/r1/attempts/4/latest.json" in keys(s3), "the first checkpoint")
    home = box_folder(cli)
    config = home / ".gpucloud/checkpoints/rclone.conf"
    assert config.stat().st_mode & 0o777 == 0o600
    copied = shutil.copy(config, cli.home / "stolen.conf")

    def stolen(*words: str) -> int:
        command = [PROGRAMS / "rclone", "--config", copied, "--retries", "1", *words]
        return subprocess.run(command, input=b"x", capture_output=True, check=False).returncode

    mine, older = "team/r1/attempts/4/1/a", "team/r1/attempts/3/latest.json"
    assert stolen("rcat", f"store:{BUCKET}/team/r1/attempts/4/x") == 0
    assert stolen("rcat", f"store:{BUCKET}/{older}") != 0
    for key in (mine, older):
        assert stolen("deletefile", f"store:{BUCKET}/{key}") != 0
    assert s3.get_object(Bucket=BUCKET, Key=older)["Body"].read() == b"{}"
    cli.sandbox.clock(advance_s=3700)
    (home / "kept/b").write_text("after the first lease")
    until(lambda: any(key.endswith("/b") for key in keys(s3)), "a checkpoint with a new lease")
    assert stolen("rcat", f"store:{BUCKET}/team/r1/attempts/4/y") != 0, "the lease is over"
    (home / "go").touch()
    _, err = process.communicate(timeout=60)
    assert process.wait() == 0, err
    assert "ExpiredToken" in err
    listed = s3.get_object(Bucket=BUCKET, Key="team/r1/attempts/4/latest.json")["Body"].read()
    assert sorted(json.loads(listed)["files"]) == ["a", "b"]


def test_a_container_of_azure_serves_boxes_of_other_clouds_too(cli: Shell) -> None:
    """What an earlier attempt has left there is restored, and what is new is added."""
    container = azure_container(cli)
    marker = {"number": 2, "files": {"a": [3, 1_700_000_000_000_000_000, 1], "sub/b": [3, 1, 2]}}
    for name, data in {
        "1/a": b"old",
        "2/sub/b": b"new",
        "latest.json": json.dumps(marker).encode(),
    }.items():
        container.upload_blob(f"team/r1/attempts/7/{name}", data)
    line = ("run", "--gpu", "T4", "--cloud", "alibaba", "--run-id", "r1", "--checkpoint-dir", "kept")
    script = "cat kept/a kept/sub/b; echo third >kept/c"
    ran = cli(*line, "--checkpoint-to", "az://checkpoints/con/team", "--", "sh", "-c", script)
    assert (ran.code, ran.out) == (0, "oldnew"), ran.err
    added = json.loads(container.download_blob("team/r1/attempts/8/latest.json").readall())
    assert sorted(added["files"]) == ["a", "c", "sub/b"]
    assert container.download_blob("team/r1/attempts/8/1/c").readall() == b"third\n"


def azure_container(cli: Shell) -> Any:
    """A container of an account with a hierarchical namespace, for who has its key."""
    lab = Azure(cli.endpoint, HollowBoxes())
    lab.make_group()
    body = {"location": REGION, "tags": TAGS, "kind": "StorageV2", "sku": {"name": "Standard_LRS"}}
    accounts = lab.storage.storage_accounts
    made = accounts.begin_create(GROUP, "checkpoints", {**body, "properties": {"isHnsEnabled": True}})
    made.result()
    key = str(accounts.list_keys(GROUP, "checkpoints").keys_property[0].value)
    container = ContainerClient(
        f"{lab.origin}/checkpoints",
        "con",
        credential={"account_name": "checkpoints", "account_key": key},
        connection_verify=lab.authority,
    )
    container.create_container()
    return container


REFUSED = [
    (("--checkpoint-to", "s3://no-such-bucket/x"), "there is no bucket 'no-such-bucket'"),
    (("--checkpoint-to", "s3://somebody-elses-bucket"), "belongs to another AWS account"),
    (("--checkpoint-to", "gs://lab/x"), "gs:// is not supported; allowed: az://, s3://"),
    (("--checkpoint-to", "lab"), "is not an address in an object store"),
    (("--checkpoint-to", "s3://lab/../x"), "is not an address in an object store"),
    (("--checkpoint-every", "0s"), "--checkpoint-every"),
    (("--checkpoint-every", "none"), "at least 1s"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_a_bucket_that_cannot_be_used_is_refused_before_anything_is_bought(
    cli: Shell, options: tuple[str, ...], said: str
) -> None:
    refused = cli(*RUN, *options, "--json", "--", "true")
    assert (refused.code, refused.error["class"]) == (125, "usage")
    assert said in refused.error["message"]
    assert cli.changes_asked() == []


def test_a_role_that_may_not_be_assumed_is_refused_before_anything_is_bought(cli: Shell, s3: Any) -> None:
    role = "arn:aws:iam::123456789012:role/none"
    refused = cli(*RUN, "--checkpoint-role", role, "--json", "--", "true")
    assert (refused.code, refused.error["class"], refused.error["code"]) == (125, "auth", "AccessDenied")
    assert "RunInstances" not in cli.changes_asked()


def test_a_launch_has_no_checkpoints(cli: Shell) -> None:
    refused = cli("launch", "--gpu", "T4", "--yes", *KEPT)
    assert refused.code == 2
    assert "checkpoint_to needs a run" in refused.err
    assert cli.changes_asked() == []

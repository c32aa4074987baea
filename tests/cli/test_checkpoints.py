"""Checkpoints of a run in the user's bucket: the next box goes on with them, and a box may do no more."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import ContainerClient

from tests.sandbox.alibaba_lab import Alibaba
from tests.sandbox.azure_lab import GROUP, REGION, Azure
from tests.sandbox.running import TAGS, HollowBoxes, client
from tests.sandbox.test_alibaba_oss import OSS_ALL, client_of, oss, policy
from tests.shell import PROGRAMS, TIMEOUT_S, Shell
from tests.waiting import PATIENCE_S, until

BUCKET = "lab"
FAR = "eu-central-1"
KEPT = ("--checkpoint-dir", "kept", "--checkpoint-to", f"s3://{BUCKET}/team")
RUN = ("run", "--gpu", "T4", "--cloud", "aws", "--run-id", "r1", *KEPT)


@pytest.fixture
def s3(cli: Shell) -> Any:
    found = client(cli.endpoint, "s3")
    found.create_bucket(Bucket=BUCKET)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A bucket of a cloud, for its owner.

    Attributes:
        url: the folder of the checkpoints, as ``--checkpoint-to`` takes it.
        options: what else a run needs.
        folder: the same folder in rclone's words, without the remote.
        expired: what rclone quotes once the keys are over. Empty on Azure: the caller's own token, which its
            SDK renews by this machine's clock, ends there too when the clouds' clock is moved.
        put: stores an object, named from the folder on.
        get: what an object holds; ``None`` where there is none.
        authority: whose certificate its service has; empty without TLS.
    """

    url: str
    options: tuple[str, ...] = ()
    folder: str
    expired: str
    put: Callable[[str, bytes], object]
    get: Callable[[str], bytes | None]
    authority: str = ""

    @property
    def line(self) -> tuple[str, ...]:
        """The options of a run that keeps the folder ``kept`` here."""
        return ("--checkpoint-dir", "kept", *self.short_line)

    @property
    def short_line(self) -> tuple[str, ...]:
        """The options of a run that keeps the usual folder here."""
        return ("--run-id", "r1", "--checkpoint-to", self.url, *self.options)


def s3_store(cli: Shell) -> Store:
    found = client(cli.endpoint, "s3")
    found.create_bucket(Bucket=BUCKET)

    def get(name: str) -> bytes | None:
        try:
            return bytes(found.get_object(Bucket=BUCKET, Key=f"team/{name}")["Body"].read())
        except found.exceptions.NoSuchKey:
            return None

    return Store(
        url=f"s3://{BUCKET}/team",
        folder=f"{BUCKET}/team",
        expired="ExpiredToken",
        put=lambda name, data: found.put_object(Bucket=BUCKET, Key=f"team/{name}", Body=data),
        get=get,
    )


def azure_store(cli: Shell) -> Store:
    lab = Azure(cli.endpoint, HollowBoxes())
    container = azure_container(lab)

    def get(name: str) -> bytes | None:
        blob = container.get_blob_client(f"team/{name}")
        return bytes(blob.download_blob().readall()) if blob.exists() else None

    return Store(
        url="az://checkpoints/con/team",
        folder="con/team",
        expired="",
        put=lambda name, data: container.upload_blob(f"team/{name}", data),
        get=get,
        authority=str(lab.authority),
    )


def oss_store(cli: Shell) -> Store:
    """In another region than boxes are launched in, with a role that may use all buckets."""
    alibaba = Alibaba(cli.endpoint, HollowBoxes())
    found = client_of(alibaba, region=FAR)
    found.put_bucket(oss.PutBucketRequest(bucket=BUCKET))
    role = cli.sandbox.cloud("alibaba", "role", name="gpucloud-lender", document=policy(OSS_ALL))

    def put(name: str, data: bytes) -> None:
        found.put_object(oss.PutObjectRequest(bucket=BUCKET, key=f"team/{name}", body=data))

    def get(name: str) -> bytes | None:
        asked = oss.GetObjectRequest(bucket=BUCKET, key=f"team/{name}")
        try:
            return bytes(found.get_object(asked).body.content)
        except oss.exceptions.OperationError as error:
            if error.unwrap().code != "NoSuchKey":
                raise
            return None

    return Store(
        url=f"oss://{BUCKET}/team",
        options=("--checkpoint-role", str(role)),
        folder=f"{BUCKET}/team",
        expired="SecurityTokenExpired",
        put=put,
        get=get,
    )


STORES = {"s3": s3_store, "az": azure_store, "oss": oss_store}


def box_folder(cli: Shell) -> Path:
    """The home folder of the user of the one box that runs."""
    [machine] = cli.billed()
    return cli.endpoint.folder / "boxes" / str(machine["id"]) / "root/home/gpucloud"


SAVED = {"latest.json", "logs/guard.log", "logs/job.log"}
"""What a box uploads last of a checkpoint, and of what its guard has to tell."""


def names(s3: Any, folder: str) -> set[str]:
    """What is in a folder of the bucket."""
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=folder).get("Contents", ())
    return {each["Key"].removeprefix(folder) for each in found}


def test_a_run_that_was_interrupted_goes_on_with_what_the_notice_had_saved(cli: Shell, s3: Any) -> None:
    """The first box uploads nothing but at its notice; the second one prints what it finds."""
    script = (
        'if [ -e kept/step ]; then cat "$GPUCLOUD_CHECKPOINT_DIR/step"; echo $GPUCLOUD_CHECKPOINT_URL; '
        "else echo one >kept/step; echo begun; sleep 600; fi"
    )
    hook = ("--checkpoint", "echo and what the hook has added >>kept/step")
    elsewhere = ("--region", "us-west-2")
    line = (*RUN, "--spot", "--retry-on", "interruption", *elsewhere, *hook, "--", "sh", "-c", script)
    process = cli.start(*line)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    machine = cli.billed()[0]["id"]
    cli.sandbox.interrupt(machine, notice_s=600)
    until(lambda: names(s3, "team/r1/attempts/1/") >= SAVED, "what is saved at the notice")
    cli.sandbox.interrupt(machine, notice_s=0)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.wait(), out) == (0, f"one\nand what the hook has added\ns3://{BUCKET}/team/r1\n"), err
    assert "of attempt 1: 1 files, 32 bytes" in err
    said = (
        f"restart on aws us-west-2: reading the checkpoint (about 0.0 GiB) from s3://{BUCKET}/team/r1 costs "
    )
    assert said in " ".join(err.split())
    [run] = cli("runs", "list", "--all", "--json").json["runs"]
    assert [each["checkpoint"] for each in run["attempts"]] == ["1", None]
    key = "team/r1/attempts/1/logs/guard.log"
    assert b"ending: interruption" in s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    first, last = (each["box"] for each in run["attempts"])
    gone = cli("logs", first, "--guard")
    assert (gone.code, "ending: interruption" in gone.out) == (0, True), "out of the bucket"
    assert cli("runs", "logs", "r1", "--attempt", "1").out == "begun\n"
    there = cli("logs", last, "--job", "run").err
    assert f"s3://{BUCKET}/team/r1/attempts/2/logs/job.log" in there
    assert (
        s3.get_object(Bucket=BUCKET, Key="team/r1/attempts/2/logs/job.log")["Body"].read().startswith(b"one")
    )
    assert cli.billed() == []
    for file in cli.home.glob("state-sandbox/**/*"):
        secrets = (b"IQoJ", b"ASIA")  # how tokens and keys of sessions begin
        assert not file.is_file() or not any(each in file.read_bytes() for each in secrets), file


@pytest.mark.parametrize("tended", [False, True])
def test_a_killed_run_goes_on_with_what_its_box_had_done_until_then(
    cli: Shell, s3: Any, tended: bool
) -> None:
    """Nothing was uploaded while its process lived, and the keys that the box got are no longer valid."""
    script = 'cat "$GPUCLOUD_CHECKPOINT_DIR/step" || { echo one >kept/step; echo begun; sleep 600; }'
    hook = ("--checkpoint", 'echo "and $GPUCLOUD_END_REASON" >>kept/step')
    line = (*RUN, "--ttl", "5h", *hook, "--", "sh", "-c", script)
    process = cli.start(*line)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    config = box_folder(cli) / ".gpucloud/checkpoints/rclone.conf"
    config.write_text(re.sub("(?m)^(secret_access_key) *=.*", r"\1 = over", config.read_text()))
    if tended:
        cli("tend")
        assert cli.billed() == []
    again = cli(*line)
    assert (again.code, again.out) == (0, "one\nand deserted\n"), again.err
    assert cli.billed() == []


@pytest.mark.parametrize("kind", STORES)
def test_a_box_has_a_lease_on_its_attempt_that_is_renewed_and_may_do_no_more(
    own_clouds: Shell, kind: str
) -> None:
    cli, store = own_clouds, STORES[kind](own_clouds)
    older = "r1/attempts/3/latest.json"
    store.put(older, b"{}")
    script = "echo begun; touch kept/a; while [ ! -e go ]; do sleep 0.2; done"
    run = ("run", "--gpu", "T4", "--cloud", "aws", *store.line, "--checkpoint-every", "1s")
    process = cli.start(*run, "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    until(lambda: store.get("r1/attempts/4/latest.json"), "the first checkpoint")
    home = box_folder(cli)
    config = home / ".gpucloud/checkpoints/rclone.conf"
    assert config.stat().st_mode & 0o777 == 0o600
    copied = shutil.copy(config, cli.home / "stolen.conf")

    def stolen(*words: str) -> int:
        command = [PROGRAMS / "rclone", "--config", copied, "--retries", "1", *words]
        trusting = {**os.environ, "SSL_CERT_FILE": store.authority}
        return subprocess.run(command, input=b"x", env=trusting, capture_output=True, check=False).returncode

    assert stolen("rcat", f"own:{store.folder}/r1/attempts/4/x") == 0
    assert store.get("r1/attempts/4/x") == b"x"
    for remote in ("own", "store"):
        assert stolen("rcat", f"{remote}:{store.folder}/{older}") != 0
        for name in ("r1/attempts/4/1/a", older):
            assert stolen("deletefile", f"{remote}:{store.folder}/{name}") != 0
    assert store.get("r1/attempts/4/1/a") == b""
    assert store.get(older) == b"{}"
    if store.expired:
        cli.sandbox.clock(advance_s=3700)
    (home / "kept/b").write_text("after the first lease")
    until(lambda: b'"b"' in (store.get("r1/attempts/4/latest.json") or b""), "a checkpoint with a new lease")
    over = stolen("rcat", f"own:{store.folder}/r1/attempts/4/y") != 0
    assert over == bool(store.expired)
    (home / "go").touch()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.wait() == 0, err
    assert store.expired in err
    listed = store.get("r1/attempts/4/latest.json")
    assert listed is not None
    assert sorted(json.loads(listed)["files"]) == ["a", "b"]


def test_a_run_keeps_what_its_marker_says_is_whole_and_shows_it(cli: Shell, s3: Any) -> None:
    script = "mkdir kept/1 kept/2; echo 1 >kept/1/model; touch kept/1/done; echo 2 >kept/2/model"
    ran = cli(*RUN, "--checkpoint-marker", "*/done", "--", "sh", "-c", script)
    assert ran.code == 0, ran.err
    assert "with what runs on it. To move that: gpucloud extend " in ran.err
    listed = s3.get_object(Bucket=BUCKET, Key="team/r1/attempts/1/sets/1.json")["Body"].read()
    assert sorted(json.loads(listed)["files"]) == ["1/done", "1/model"]
    [attempt] = cli("runs", "show", "r1", "--json").json["run"]["attempts"]
    saved = attempt["saved"]
    assert (saved["number"], saved["files"], saved["bytes"]) == (1, 2, 2)
    assert saved["notice_seconds"] == {"alibaba": 300, "aws": 120, "azure": 30}
    shown = " ".join(cli("runs", "show", "r1").out.split())
    assert "newest whole checkpoint 1/" in shown
    assert "notices give: alibaba 300 s, aws 120 s, azure 30 s" in shown


@pytest.mark.parametrize(("kind", "cloud"), [("az", "alibaba"), ("oss", "azure")])
def test_a_bucket_serves_boxes_of_other_clouds_too(cli: Shell, kind: str, cloud: str) -> None:
    """What an earlier attempt has left there is restored, and what is new is added."""
    store = STORES[kind](cli)
    marker = {"number": 2, "files": {"a": [3, 1_700_000_000_000_000_000, 1], "sub/b": [3, 1, 2]}}
    for name, data in {
        "1/a": b"old",
        "2/sub/b": b"new",
        "latest.json": json.dumps(marker).encode(),
    }.items():
        store.put(f"r1/attempts/7/{name}", data)
    script = "cat kept/a kept/sub/b; echo third >kept/c"
    ran = cli("run", "--gpu", "T4", "--cloud", cloud, *store.line, "--", "sh", "-c", script)
    assert (ran.code, ran.out) == (0, "oldnew"), ran.err
    added = store.get("r1/attempts/8/latest.json")
    assert added is not None
    assert sorted(json.loads(added)["files"]) == ["a", "c", "sub/b"]
    assert store.get("r1/attempts/8/1/c") == b"third\n"


def test_a_slow_bucket_keeps_the_checkpoints_and_a_closed_one_the_last_whole_one(cli: Shell) -> None:
    """The folder is the usual one: ``checkpoints``."""
    store = oss_store(cli)
    cli.sandbox.fault(effect="delay", seconds=1.0, cloud="alibaba", action="PutObject", times=None)
    run = ("run", "--gpu", "T4", "--cloud", "aws", *store.short_line)
    ran = cli(*run, "--", "sh", "-c", "echo whole >checkpoints/a")
    assert ran.code == 0, ran.err
    kept = store.get("r1/attempts/1/latest.json")
    cli.sandbox.clear_faults()
    cli.sandbox.fault(
        effect="error", code="AccessDenied", status=403, cloud="alibaba", action="PutObject", times=None
    )
    script = "cat checkpoints/a; echo torn >checkpoints/a"
    ran = cli(*run, "--json", "--", "sh", "-c", script)
    assert ran.code == 125, ran.err
    assert "AccessDenied" in ran.error["message"]
    cli.sandbox.clear_faults()
    assert store.get("r1/attempts/1/latest.json") == kept
    assert store.get("r1/attempts/2/latest.json") is None
    ran = cli(*run, "--", "cat", "checkpoints/a")
    assert (ran.code, ran.out) == (0, "whole\n"), ran.err


def azure_container(lab: Azure) -> Any:
    """A container of an account with a hierarchical namespace, for who has its key."""
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
    if not container.exists():
        container.create_container()
    return container


REFUSED = [
    (("--checkpoint-to", "s3://no-such-bucket/x"), "there is no bucket 'no-such-bucket'"),
    (("--checkpoint-to", "s3://somebody-elses-bucket"), "belongs to another AWS account"),
    (("--checkpoint-to", "gs://lab/x"), "gs:// is not supported; allowed: az://, oss://, s3://"),
    (("--checkpoint-to", "oss://no-such-bucket/x"), "there is no bucket 'no-such-bucket'"),
    (("--checkpoint-to", "lab"), "is not an address in an object store"),
    (("--checkpoint-to", "s3://lab/../x"), "is not an address in an object store"),
    (("--checkpoint-every", "0s"), "--checkpoint-every"),
    (("--checkpoint-every", "none"), "at least 1s"),
    (("--checkpoint-marker", "../done"), "is no pattern of a path in the folder"),
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


def test_rights_on_a_bucket_of_oss_need_a_role_and_are_refused_before_anything_is_bought(cli: Shell) -> None:
    store = oss_store(cli)
    run = ("run", "--gpu", "T4", "--run-id", "r1", "--checkpoint-to", store.url)
    refused = cli(*run, "--json", "--", "true")
    assert (refused.code, refused.error["class"]) == (125, "usage")
    assert "--checkpoint-role acs:ram::" in refused.error["hint"]
    closed = cli.sandbox.cloud("alibaba", "role", name="closed", trusts=False)
    refused = cli(*run, "--checkpoint-role", closed, "--json", "--", "true")
    assert (refused.code, refused.error["class"], refused.error["code"]) == (125, "auth", "NoPermission")
    cli.sandbox.cloud("alibaba", "deny", actions=["oss:ListObjects"])
    refused = cli(*run, *store.options, "--json", "--", "true")
    assert (refused.error["class"], refused.error["code"]) == ("auth", "AccessDenied")
    assert cli.changes_asked() == ["PutBucket"], "that of the test itself"


def test_a_launch_has_no_checkpoints(cli: Shell) -> None:
    refused = cli("launch", "--gpu", "T4", "--yes", *KEPT)
    assert refused.code == 2
    assert "checkpoint_to needs a run" in refused.err
    assert cli.changes_asked() == []

"""Rights on a part of a bucket: what Alibaba Cloud lends, what can be done with it, and what is refused."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import Config
from botocore.exceptions import ClientError

from gpucloud.clouds.object_store import StorageGrant, StorageLease, StorePlace
from gpucloud.clouds.profile import Profile
from gpucloud.errors import ErrorClass, UsageError
from gpucloud_alibaba.provider import AlibabaProvider
from tests.providers.stored_objects import check_objects, store_of
from tests.sandbox.alibaba_fixtures import alibaba, running_alibaba
from tests.sandbox.alibaba_lab import REGION, Alibaba
from tests.sandbox.test_alibaba_oss import OSS_ALL, client_of, oss, policy
from tests.shell import PROGRAMS
from tests.waiting import PATIENCE_S

__all__ = ["alibaba", "running_alibaba"]

BUCKET = "gpucloud-checkpoints"
RUN, ATTEMPT = "lab/runs/r1", "lab/runs/r1/attempts/2"
OLD = (f"{RUN}/attempts/1/old", f"{RUN}-2/attempts/2/theirs", "lab/other")
DENIED = ("AccessDenied", 403)


@pytest.fixture
def bucket(alibaba: Alibaba) -> Any:
    """OSS for the owner of a bucket with objects of others."""
    client = client_of(alibaba)
    client.put_bucket(oss.PutBucketRequest(bucket=BUCKET))
    for key in OLD:
        client.put_object(oss.PutObjectRequest(bucket=BUCKET, key=key, body=b"old"))
    return client


def provider(alibaba: Alibaba) -> AlibabaProvider:
    return AlibabaProvider(Profile(alibaba.endpoint.environ))


def role(alibaba: Alibaba, *statements: Any, **more: Any) -> str:
    document = policy(*(statements or (OSS_ALL,)))
    return str(alibaba.sandbox.cloud("alibaba", "role", name="gpucloud-lender", document=document, **more))


def lent(alibaba: Alibaba, arn: str | None, **changes: Any) -> StorageLease:
    cloud = provider(alibaba)
    place = store_of(cloud).locate(f"{BUCKET}/lab")[0]
    grant = StorageGrant(place=place, reads=RUN, writes=ATTEMPT, name="r1", role=arn)
    return store_of(cloud).lend(replace(grant, **changes))


def with_lease(lease: StorageLease) -> Any:
    """OSS in S3's form for whoever holds the options of rclone."""
    return boto3.client(
        "s3",
        region_name=lease.writing["region"],
        endpoint_url=lease.writing["endpoint"],
        aws_access_key_id=lease.writing["access_key_id"],
        aws_secret_access_key=lease.writing["secret_access_key"],
        aws_session_token=lease.writing["session_token"],
        config=Config(
            s3={"addressing_style": "path"},
            retries={"max_attempts": 1},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


def refused(call: Callable[..., Any], **asked: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        call(Bucket=BUCKET, **asked)
    answer: Any = caught.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


def test_a_box_writes_its_own_attempt_reads_the_run_and_deletes_nothing(
    alibaba: Alibaba, bucket: Any
) -> None:
    box = with_lease(lent(alibaba, role(alibaba)))
    mine = f"{ATTEMPT}/1/model"
    box.put_object(Bucket=BUCKET, Key=mine, Body=b"mine")
    upload = box.create_multipart_upload(Bucket=BUCKET, Key=mine)["UploadId"]
    box.upload_part(Bucket=BUCKET, Key=mine, UploadId=upload, PartNumber=1, Body=b"part")
    box.abort_multipart_upload(Bucket=BUCKET, Key=mine, UploadId=upload)
    assert box.get_object(Bucket=BUCKET, Key=OLD[0])["Body"].read() == b"old"
    listed = box.list_objects_v2(Bucket=BUCKET, Prefix=f"{RUN}/")["Contents"]
    assert [each["Key"] for each in listed] == [OLD[0], mine]
    for key in (OLD[0], f"{RUN}/attempts/20/x", f"{RUN}/latest.json", "lab/other"):
        assert refused(box.put_object, Key=key, Body=b"x") == DENIED, key
        assert refused(box.create_multipart_upload, Key=key) == DENIED, key
    for key in (mine, OLD[0]):
        assert refused(box.delete_object, Key=key) == DENIED, key
    for key in OLD[1:]:
        assert refused(box.get_object, Key=key) == DENIED, key
        assert refused(box.copy_object, Key=f"{ATTEMPT}/copy", CopySource=f"{BUCKET}/{key}") == DENIED, key
    for prefix in ("", "lab/", RUN):
        assert refused(box.list_objects_v2, Prefix=prefix) == DENIED, prefix


def test_objects_are_written_listed_read_and_deleted(alibaba: Alibaba, bucket: Any) -> None:
    check_objects(provider(alibaba), BUCKET)


def test_the_rights_end_after_an_hour(alibaba: Alibaba, bucket: Any) -> None:
    box = with_lease(lent(alibaba, role(alibaba)))
    asked = {"Bucket": BUCKET, "Key": f"{ATTEMPT}/x", "Body": b"x"}
    alibaba.sandbox.clock(advance_s=3590)
    assert box.put_object(**asked)
    alibaba.sandbox.clock(advance_s=20)
    assert refused(box.put_object, Key=f"{ATTEMPT}/x", Body=b"x") == ("SecurityTokenExpired", 403)


def test_a_role_that_may_less_lends_less(alibaba: Alibaba, bucket: Any) -> None:
    reads = {"Effect": "Allow", "Action": ["oss:GetObject", "oss:ListObjects"], "Resource": "*"}
    box = with_lease(lent(alibaba, role(alibaba, reads)))
    assert refused(box.put_object, Key=f"{ATTEMPT}/x", Body=b"x") == DENIED
    assert box.get_object(Bucket=BUCKET, Key=OLD[0])["Body"].read() == b"old"


def test_a_key_that_the_user_names_is_opened_and_no_other(alibaba: Alibaba, bucket: Any) -> None:
    mine, other = (alibaba.sandbox.cloud("alibaba", "key", region=REGION) for _ in range(2))
    keys = {"Effect": "Allow", "Action": "kms:*", "Resource": "*"}
    arn = role(alibaba, OSS_ALL, keys)
    lease = lent(alibaba, arn, kms_key=mine)
    assert lease.writing["server_side_encryption"] == "aws:kms"
    box = with_lease(lease)
    asked = {"Key": f"{ATTEMPT}/x", "Body": b"x", "ServerSideEncryption": "aws:kms"}
    box.put_object(Bucket=BUCKET, SSEKMSKeyId=lease.writing["sse_kms_key_id"], **asked)
    head = bucket.head_object(oss.HeadObjectRequest(bucket=BUCKET, key=f"{ATTEMPT}/x"))
    assert (head.server_side_encryption, head.server_side_encryption_key_id) == ("KMS", mine)
    assert refused(box.put_object, SSEKMSKeyId=other, **asked) == DENIED
    without = with_lease(lent(alibaba, arn))
    assert refused(without.put_object, SSEKMSKeyId=mine, **asked) == DENIED


def test_a_bucket_of_another_region_is_used_there(alibaba: Alibaba) -> None:
    far = client_of(alibaba, region="eu-central-1")
    far.put_bucket(oss.PutBucketRequest(bucket=BUCKET))
    cloud = provider(alibaba)
    place, folder = store_of(cloud).locate(f"{BUCKET}/lab/runs")
    assert (place.region, folder) == ("eu-central-1", "lab/runs")
    grant = StorageGrant(place=place, reads=RUN, writes=ATTEMPT, name="r1", role=role(alibaba))
    with_lease(store_of(cloud).lend(grant)).put_object(Bucket=BUCKET, Key=f"{ATTEMPT}/x", Body=b"x")
    assert store_of(cloud).names(place, ATTEMPT) == ["x"]


def test_a_long_folder_is_listed_whole(alibaba: Alibaba, bucket: Any) -> None:
    for number in range(1005):
        asked = oss.PutObjectRequest(bucket=BUCKET, key=f"long/{number}/x", body=b"")
        bucket.put_object(asked)
    cloud = provider(alibaba)
    place = store_of(cloud).locate(f"{BUCKET}/long")[0]
    assert sorted(map(int, store_of(cloud).names(place, "long"))) == list(range(1005))
    assert store_of(cloud).names(place, "none") == []


def test_rclone_reaches_the_real_service_by_the_buckets_host(alibaba: Alibaba, bucket: Any) -> None:
    """OSS refuses paths that begin with the bucket (SecondLevelDomainForbidden)."""
    from gpucloud_alibaba.clients import Clients
    from gpucloud_alibaba.storage import _service

    clients = Clients(Profile({"ALIBABA_CLOUD_ACCESS_KEY_ID": "a", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "b"}))
    said = _service(clients, "eu-central-1")
    assert said == {"endpoint": "https://s3.oss-eu-central-1.aliyuncs.com", "force_path_style": "false"}


# --- what is refused


@pytest.mark.parametrize(
    ("arn", "said"),
    [
        (None, "through a role alone"),
        ("arn:aws:iam::123456789012:role/gpucloud-lender", "is not a role of Alibaba Cloud"),
        ("acs:ram::5123456789012345:role/none", "there is no role"),
    ],
)
def test_rights_without_a_role_that_is_there_are_refused(
    alibaba: Alibaba, bucket: Any, arn: str | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as told:
        lent(alibaba, arn)
    assert told.value.hint


def test_a_role_that_does_not_trust_the_caller_is_a_refused_right(alibaba: Alibaba, bucket: Any) -> None:
    arn = role(alibaba, trusts=False)
    with pytest.raises(Exception, match="authorized") as caught:
        lent(alibaba, arn)
    verdict = provider(alibaba).classify(caught.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.code) == (ErrorClass.AUTH, "NoPermission")


@pytest.mark.parametrize(
    ("name", "said"), [("no-such-bucket", "there is no bucket"), ("No_Bucket", "is not a name of a bucket")]
)
def test_a_bucket_that_is_not_the_accounts_is_refused(
    alibaba: Alibaba, bucket: Any, name: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        store_of(provider(alibaba)).locate(f"{name}/lab")
    with pytest.raises(UsageError, match="there is no bucket"):
        store_of(provider(alibaba)).locate(f"{BUCKET[:-1]}/lab")


@pytest.mark.parametrize("denied", ["oss:ListBuckets", "oss:ListObjects"])
def test_a_right_that_is_missing_is_named(alibaba: Alibaba, bucket: Any, denied: str) -> None:
    alibaba.sandbox.cloud("alibaba", "deny", actions=[denied])
    with pytest.raises(Exception, match=denied) as caught:
        store_of(provider(alibaba)).locate(f"{BUCKET}/lab")
    verdict = provider(alibaba).classify(caught.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.code) == (ErrorClass.AUTH, "AccessDenied")
    assert verdict.request_id


def test_a_bucket_behind_a_closed_address_is_refused_with_a_way_out(alibaba: Alibaba, bucket: Any) -> None:
    alibaba.sandbox.fault(
        effect="error", action="ListObjectsV2", code="PublicEndpointForbidden", status=400, message="No."
    )
    with pytest.raises(UsageError, match="no public address") as told:
        store_of(provider(alibaba)).locate(f"{BUCKET}/lab")
    assert "outside of mainland China" in (told.value.hint or "")


def test_a_path_that_no_policy_can_hold_is_refused(alibaba: Alibaba, bucket: Any) -> None:
    long = "/".join(["x" * 128] * 8)
    with pytest.raises(UsageError, match="longer than the 2048"):
        lent(alibaba, role(alibaba), reads=long, writes=f"{long}/attempts/1")


def test_an_endpoint_without_tls_gets_nothing(alibaba: Alibaba) -> None:
    settings = {
        "GPUCLOUD_ALIBABA_ENDPOINT": "http://192.0.2.1:1",
        "ALIBABA_CLOUD_ACCESS_KEY_ID": "a",
        "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "b",
    }
    cloud = AlibabaProvider(Profile(settings))
    place = StorePlace(container=BUCKET, region=REGION, account="1")
    with pytest.raises(Exception, match="TLS"):
        store_of(cloud).names(place, "lab")


def test_a_store_that_does_not_answer_has_no_known_outcome(alibaba: Alibaba, bucket: Any) -> None:
    cloud = provider(alibaba)
    place = store_of(cloud).locate(f"{BUCKET}/lab")[0]
    for effect in ("drop", "garble", "truncate"):
        alibaba.sandbox.fault(effect=effect, action="ListObjectsV2")
        with pytest.raises(Exception) as caught:  # noqa: PT011
            store_of(cloud).names(place, "lab")
        verdict = cloud.classify(caught.value)
        assert verdict is not None, (effect, repr(caught.value))
        assert verdict.error_class is ErrorClass.SERVER
        alibaba.sandbox.clear_faults()


# --- with rclone, as on a box


def rclone(
    folder: Path, lease: StorageLease, *words: str, sent: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    config = folder / "rclone.conf"
    config.write_text("\n".join(["[own]", *(f"{name} = {value}" for name, value in lease.writing.items())]))
    program = str(PROGRAMS / "rclone")
    line = [program, "--config", str(config), "--retries", "1", "--low-level-retries", "1", *words]
    return subprocess.run(line, input=sent, capture_output=True, check=False, timeout=PATIENCE_S)


def test_rclone_uploads_finds_and_fetches_in_one_piece_and_in_parts(
    alibaba: Alibaba, bucket: Any, tmp_path: Path
) -> None:
    lease = lent(alibaba, role(alibaba))
    mine = f"own:{BUCKET}/{ATTEMPT}"
    large = random.Random(7).randbytes(400_000)  # noqa: S311
    for name, data in {"small": b"small", "large": large}.items():  # a stream of 100 KiB goes up in parts
        sent = rclone(tmp_path, lease, "rcat", f"{mine}/{name}", sent=data)
        assert sent.returncode == 0, sent.stderr.decode()
        assert rclone(tmp_path, lease, "cat", f"{mine}/{name}").stdout == data
    files = tmp_path / "files"
    files.mkdir()
    (files / "a b ä").write_bytes(large)
    parts = ("--s3-upload-cutoff", "128Ki", "--s3-chunk-size", "5Mi", "--no-update-modtime")
    copied = rclone(tmp_path, lease, "copy", str(files), f"{mine}/1/", *parts)
    assert copied.returncode == 0, copied.stderr.decode()
    assert rclone(tmp_path, lease, "lsf", f"{mine}/").stdout.decode().splitlines() == ["1/", "large", "small"]
    head = bucket.head_object(oss.HeadObjectRequest(bucket=BUCKET, key=f"{ATTEMPT}/1/a b ä"))
    assert (head.object_type, head.content_length) == ("Multipart", len(large))


def test_an_upload_in_parts_that_is_cut_off_leaves_what_was_there(
    alibaba: Alibaba, bucket: Any, tmp_path: Path
) -> None:
    lease = lent(alibaba, role(alibaba))
    path = f"own:{BUCKET}/{ATTEMPT}/latest.json"
    assert rclone(tmp_path, lease, "rcat", path, sent=b"before").returncode == 0
    alibaba.sandbox.fault(effect="drop", action="CompleteMultipartUpload", times=None)
    cut = rclone(tmp_path, lease, "rcat", path, sent=b"x" * 200_000)
    alibaba.sandbox.clear_faults()
    assert cut.returncode != 0
    assert rclone(tmp_path, lease, "cat", path).stdout == b"before"


def test_rclone_says_why_it_is_refused(alibaba: Alibaba, bucket: Any, tmp_path: Path) -> None:
    lease = lent(alibaba, role(alibaba))
    there = rclone(tmp_path, lease, "rcat", f"own:{BUCKET}/{OLD[0]}", sent=b"x")
    assert there.returncode != 0
    assert b"AccessDenied" in there.stderr
    alibaba.sandbox.clock(advance_s=3700)
    late = rclone(tmp_path, lease, "rcat", f"own:{BUCKET}/{ATTEMPT}/x", sent=b"x")
    assert late.returncode != 0
    assert b"SecurityTokenExpired" in late.stderr

"""Rights on a part of a bucket: what AWS lends, what can be done with it, and which buckets are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from gpucloud.clouds.object_store import StorageGrant, StorageLease, StoreSize
from gpucloud.clouds.profile import Profile
from gpucloud.errors import UsageError
from gpucloud_aws.provider import AwsProvider
from gpucloud_sandbox.client import Endpoint
from tests.providers.stored_objects import check_objects, store_of
from tests.sandbox.running import HollowBoxes, client, hollow_sandbox
from tests.sandbox.test_aws_launch import refused
from tests.sandbox.test_aws_sessions import as_session, assume, iam, make_role, policy, trust
from tests.sandbox.test_aws_storage import BUCKET, s3

__all__ = ["iam", "s3"]
ALL_OF_S3 = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
RUN, ATTEMPT = "lab/runs/r1", "lab/runs/r1/attempts/2"


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    with hollow_sandbox(tmp_path, HollowBoxes()) as running:
        yield running


def provider(endpoint: Endpoint) -> AwsProvider:
    return AwsProvider(Profile(endpoint.environ))


def grant(aws: AwsProvider, role: str | None = None) -> StorageGrant:
    return StorageGrant(
        place=store_of(aws).locate(BUCKET)[0], reads=RUN, writes=ATTEMPT, name="r1", role=role
    )


def with_lease(lease: StorageLease) -> Any:
    """S3 for whoever holds the options of rclone."""
    return boto3.client(
        "s3",
        region_name=lease.writing["region"],
        endpoint_url=lease.writing["endpoint"],
        aws_access_key_id=lease.writing["access_key_id"],
        aws_secret_access_key=lease.writing["secret_access_key"],
        aws_session_token=lease.writing["session_token"],
    )


@pytest.mark.parametrize("by_role", [True, False], ids=["role", "federated user"])
def test_a_box_writes_its_own_attempt_reads_the_run_and_deletes_nothing(
    endpoint: Endpoint, s3: Any, iam: Any, by_role: bool
) -> None:
    for key in ("lab/other", f"{RUN}/attempts/1/old", f"{RUN}-2/attempts/2/theirs"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"old")
    role = make_role(iam, trust(), ALL_OF_S3) if by_role else None
    aws = provider(endpoint)
    box = with_lease(store_of(aws).lend(grant(aws, role)))
    mine = f"{ATTEMPT}/1/model"
    box.put_object(Bucket=BUCKET, Key=mine, Body=b"mine")
    assert box.get_object(Bucket=BUCKET, Key=f"{RUN}/attempts/1/old")["Body"].read() == b"old"
    listed = box.list_objects_v2(Bucket=BUCKET, Prefix=f"{RUN}/")["Contents"]
    assert [each["Key"] for each in listed] == [f"{RUN}/attempts/1/old", mine]
    for key in (f"{RUN}/attempts/1/old", f"{RUN}/attempts/20/x", f"{RUN}/latest.json", "lab/other"):
        assert refused(box.put_object, Bucket=BUCKET, Key=key, Body=b"x") == ("AccessDenied", 403), key
    for key in (mine, f"{RUN}/attempts/1/old"):
        assert refused(box.delete_object, Bucket=BUCKET, Key=key) == ("AccessDenied", 403), key
    for key in ("lab/other", f"{RUN}-2/attempts/2/theirs"):
        assert refused(box.get_object, Bucket=BUCKET, Key=key) == ("AccessDenied", 403), key
    for prefix in ("", "lab/", RUN):
        assert refused(box.list_objects_v2, Bucket=BUCKET, Prefix=prefix) == ("AccessDenied", 403), prefix
    assert refused(box.list_buckets) == ("AccessDenied", 403)


def test_a_box_that_only_reads_writes_nothing(endpoint: Endpoint, s3: Any, iam: Any) -> None:
    for key in ("lab/other", f"{ATTEMPT}/a", f"{ATTEMPT}/"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"old")
    aws = provider(endpoint)
    asked = replace(grant(aws, make_role(iam, trust(), ALL_OF_S3)), writes=None)
    lease = store_of(aws).lend(asked)
    assert lease.writing == lease.reading
    box = with_lease(lease)
    assert box.get_object(Bucket=BUCKET, Key=f"{ATTEMPT}/a")["Body"].read() == b"old"
    for key in (f"{ATTEMPT}/a", f"{RUN}/x", "None/x"):
        assert refused(box.put_object, Bucket=BUCKET, Key=key, Body=b"x") == ("AccessDenied", 403), key
    assert refused(box.delete_object, Bucket=BUCKET, Key=f"{ATTEMPT}/a") == ("AccessDenied", 403)
    assert refused(box.get_object, Bucket=BUCKET, Key="lab/other") == ("AccessDenied", 403)
    assert store_of(aws).measure(asked.place, RUN, 1000) == StoreSize(files=1, size_bytes=3, whole=True)


def test_a_long_list_is_measured_in_part(endpoint: Endpoint, s3: Any) -> None:
    for name in "abc":
        s3.put_object(Bucket=BUCKET, Key=f"many/{name}", Body=b"x")
    aws = provider(endpoint)
    place = store_of(aws).locate(BUCKET)[0]
    assert store_of(aws).measure(place, "many", 2) == StoreSize(files=2, size_bytes=2, whole=False)
    assert store_of(aws).measure(place, "many", 3) == StoreSize(files=3, size_bytes=3, whole=True)


def test_objects_are_written_listed_read_and_deleted(endpoint: Endpoint, s3: Any) -> None:
    check_objects(provider(endpoint), BUCKET)


def test_the_rights_end_after_an_hour(endpoint: Endpoint, s3: Any) -> None:
    aws = provider(endpoint)
    box = with_lease(store_of(aws).lend(grant(aws)))
    asked = {"Bucket": BUCKET, "Key": f"{ATTEMPT}/x", "Body": b"x"}
    endpoint.client.clock(advance_s=3590)
    assert box.put_object(**asked)
    endpoint.client.clock(advance_s=20)
    assert refused(box.put_object, **asked) == ("ExpiredToken", 400)


def test_a_key_of_ones_own_encrypts_what_is_written_and_opens_nothing_else(
    endpoint: Endpoint, s3: Any
) -> None:
    kms = client(endpoint, "kms")
    key = kms.create_key()["KeyMetadata"]
    aws = provider(endpoint)
    lease = store_of(aws).lend(replace(grant(aws), kms_key=key["KeyId"]))
    assert lease.writing["server_side_encryption"] == "aws:kms"
    asked = {"Bucket": BUCKET, "Key": f"{ATTEMPT}/x", "Body": b"x", "ServerSideEncryption": "aws:kms"}
    box = with_lease(lease)
    box.put_object(**asked, SSEKMSKeyId=lease.writing["sse_kms_key_id"])
    assert box.head_object(Bucket=BUCKET, Key=f"{ATTEMPT}/x")["SSEKMSKeyId"] == key["KeyId"]
    assert refused(box.put_object, **asked, SSEKMSKeyId="none") == ("KMS.NotFoundException", 400)
    stolen = boto3.client(
        "kms",
        region_name="us-east-1",
        endpoint_url=lease.writing["endpoint"],
        aws_access_key_id=lease.writing["access_key_id"],
        aws_secret_access_key=lease.writing["secret_access_key"],
        aws_session_token=lease.writing["session_token"],
    )
    assert refused(stolen.generate_data_key, KeyId=key["KeyId"], KeySpec="AES_256")[1] in {400, 403}
    kms.schedule_key_deletion(KeyId=key["KeyId"])


def test_a_role_that_may_less_lends_less(endpoint: Endpoint, s3: Any, iam: Any) -> None:
    reads = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}
    aws = provider(endpoint)
    box = with_lease(store_of(aws).lend(grant(aws, make_role(iam, trust(), reads))))
    asked = {"Bucket": BUCKET, "Key": f"{ATTEMPT}/x", "Body": b"x"}
    assert refused(box.put_object, **asked) == ("AccessDenied", 403)


def test_a_session_without_a_role_is_told_to_name_one(endpoint: Endpoint, s3: Any, iam: Any) -> None:
    keys = assume(client(endpoint, "sts"), make_role(iam, trust(), ALL_OF_S3))["Credentials"]
    settings = {
        "AWS_ENDPOINT_URL": endpoint.endpoints["aws"],
        "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        "AWS_SESSION_TOKEN": keys["SessionToken"],
    }
    aws = AwsProvider(Profile(settings))
    with pytest.raises(UsageError, match="cannot lend rights") as told:
        store_of(aws).lend(grant(aws))
    assert "--checkpoint-role" in (told.value.hint or "")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-such-bucket", "there is no bucket"),
        ("somebody-elses-bucket", "belongs to another AWS account"),
        ("No_Bucket", "is not a name of a bucket"),
    ],
)
def test_a_bucket_that_is_missing_or_somebody_elses_is_refused(
    endpoint: Endpoint, name: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        store_of(provider(endpoint)).locate(f"{name}/lab")


def test_a_bucket_is_found_in_its_own_region_with_its_folders(endpoint: Endpoint) -> None:
    far = client(endpoint, "s3", region="eu-west-1")
    far.create_bucket(Bucket="far-away", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    try:
        far.put_object(Bucket="far-away", Key="runs/r/attempts/10/x", Body=b"")
        aws = provider(endpoint)
        place, folder = store_of(aws).locate("far-away/lab/runs")
        assert (place.region, folder) == ("eu-west-1", "lab/runs")
        assert store_of(aws).names(place, "runs/r/attempts") == ["10"]
        assert store_of(aws).names(place, "nowhere") == []
    finally:
        far.delete_object(Bucket="far-away", Key="runs/r/attempts/10/x")
        far.delete_bucket(Bucket="far-away")


def test_a_federated_user_may_do_nothing_of_iam_and_sts(endpoint: Endpoint) -> None:
    everything = policy({"Effect": "Allow", "Action": "*", "Resource": "*"})
    told = client(endpoint, "sts").get_federation_token(Name="user", Policy=everything)
    assert as_session(endpoint, told, "sts").get_caller_identity()["Arn"].endswith(":federated-user/user")
    assert as_session(endpoint, told, "ec2").describe_regions()["Regions"]
    assert refused(as_session(endpoint, told, "iam").list_roles) == ("AccessDenied", 403)
    again = as_session(endpoint, told, "sts").get_federation_token
    assert refused(again, Name="other", Policy=everything) == ("AccessDenied", 403)
    bare = as_session(endpoint, client(endpoint, "sts").get_federation_token(Name="user"), "ec2")
    assert refused(bare.describe_regions) == ("UnauthorizedOperation", 403)

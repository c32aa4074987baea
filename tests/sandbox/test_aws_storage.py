"""S3 through boto3: conditions, uploads in parts, digests, regions, what is billed, and who may do what."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from boto3.s3.transfer import TransferConfig

from gpucloud_sandbox.client import Endpoint
from tests.sandbox.running import HollowBoxes, client, hollow_sandbox
from tests.sandbox.test_aws_launch import refused
from tests.sandbox.test_aws_sessions import as_session, assume, iam, make_role, policy, trust
from tests.waiting import PATIENCE_S

__all__ = ["iam"]
PART = b"p" * (5 << 20)
BUCKET = "checkpoints"
ARN = f"arn:aws:s3:::{BUCKET}"


@pytest.fixture
def s3(endpoint: Endpoint) -> Iterator[Any]:
    """S3 with one bucket; moto keeps its state as long as the process lives, so that it is emptied."""
    found = client(endpoint, "s3")
    found.create_bucket(Bucket=BUCKET)
    yield found
    for upload in found.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()):
        found.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    for each in found.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        found.delete_object(Bucket=BUCKET, Key=each["Key"])
    found.delete_bucket(Bucket=BUCKET)


def put(s3: Any, key: str = "k", body: bytes = b"one", **more: Any) -> str:
    etag: str = s3.put_object(Bucket=BUCKET, Key=key, Body=body, **more)["ETag"]
    return etag


def begin(s3: Any, key: str = "k") -> dict[str, str]:
    """An upload with one part of the least size."""
    id_ = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    upload = {"Bucket": BUCKET, "Key": key, "UploadId": id_}
    s3.upload_part(**upload, PartNumber=1, Body=PART)
    return upload


def complete(s3: Any, upload: dict[str, str], **more: Any) -> dict[str, Any]:
    etag = hashlib.md5(PART, usedforsecurity=False).hexdigest()
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    return {**upload, "MultipartUpload": parts, **more}


def stored(endpoint: Endpoint) -> list[tuple[str, str]]:
    """What is billed of S3: id and price per hour."""
    billing = endpoint.client.status()["billing"]
    return [(each["id"], each["price"]["amount"]) for each in billing if each["kind"] == "storage"]


def test_an_object_comes_back_as_it_was_put(s3: Any) -> None:
    key = "run 1/ä+ö//step=7\nlast"
    put(s3, key, b"weights", Metadata={"step_count": "7", "loss": "0.1"}, ContentType="text/x")
    got = s3.get_object(Bucket=BUCKET, Key=key)
    assert got["Body"].read() == b"weights"
    assert got["Metadata"] == {"step_count": "7", "loss": "0.1"}
    assert s3.head_object(Bucket=BUCKET, Key=key)["ContentType"] == "text/x"
    part = s3.get_object(Bucket=BUCKET, Key=key, Range="bytes=2-3")
    assert (part["Body"].read(), part["ContentRange"]) == (b"ig", "bytes 2-3/7")
    assert refused(s3.get_object, Bucket=BUCKET, Key=key, Range="bytes=9-") == ("InvalidRange", 416)
    assert refused(s3.get_object, Bucket=BUCKET, Key="none") == ("NoSuchKey", 404)
    assert refused(s3.get_object, Bucket="no-such-bucket", Key="k") == ("NoSuchBucket", 404)


def test_lists_have_pages_and_folders(s3: Any) -> None:
    for key in ("a/1", "a/2", "b"):
        put(s3, key)
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, MaxKeys=1)
    assert [each["Key"] for page in pages for each in page["Contents"]] == ["a/1", "a/2", "b"]
    folded = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/", MaxKeys=5000)
    assert [each["Prefix"] for each in folded["CommonPrefixes"]] == ["a/"]
    assert folded["MaxKeys"] == 1000
    assert refused(s3.delete_bucket, Bucket=BUCKET) == ("BucketNotEmpty", 409)
    gone = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "a/1"}, {"Key": "b"}]})
    assert len(gone["Deleted"]) == 2
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 1


def test_a_write_with_a_condition_happens_once(s3: Any) -> None:
    first = put(s3, IfNoneMatch="*")
    lost = {"Bucket": BUCKET, "Key": "k", "Body": b"two"}
    assert refused(s3.put_object, **lost, IfNoneMatch="*") == ("PreconditionFailed", 412)
    second = put(s3, body=b"two", IfMatch=first)
    assert refused(s3.put_object, **lost, IfMatch=first) == ("PreconditionFailed", 412)
    assert refused(s3.put_object, **{**lost, "Key": "none"}, IfMatch=first) == ("NoSuchKey", 404)
    assert refused(s3.delete_object, Bucket=BUCKET, Key="k", IfMatch=first) == ("PreconditionFailed", 412)
    assert s3.get_object(Bucket=BUCKET, Key="k", IfMatch=second)["Body"].read() == b"two"


def test_an_upload_in_parts_obeys_conditions_too(s3: Any) -> None:
    upload = begin(s3)
    etag = put(s3)
    finish = s3.complete_multipart_upload
    assert refused(finish, **complete(s3, upload, IfNoneMatch="*")) == ("PreconditionFailed", 412)
    assert refused(finish, **complete(s3, upload, IfMatch='"other"')) == ("PreconditionFailed", 412)
    s3.delete_object(Bucket=BUCKET, Key="k")
    conflict = ("ConditionalRequestConflict", 409)
    assert refused(finish, **complete(s3, upload, IfNoneMatch="*")) == conflict
    again = begin(s3)
    assert refused(finish, **complete(s3, again, IfMatch=etag)) == ("NoSuchKey", 404)
    assert finish(**complete(s3, again, IfNoneMatch="*"))["ETag"].endswith('-1"')
    s3.abort_multipart_upload(**upload)


def test_parts_are_checked_when_they_are_put_together(s3: Any) -> None:
    upload = begin(s3)
    small = s3.upload_part(**upload, PartNumber=2, Body=b"s")["ETag"]
    listed = s3.list_parts(**upload)["Parts"]
    assert [each["Size"] for each in listed] == [len(PART), 1]
    parts = [{"PartNumber": 2, "ETag": small}, {"PartNumber": 1, "ETag": listed[0]["ETag"]}]

    def finish(*order: dict[str, Any]) -> tuple[str, int]:
        return refused(s3.complete_multipart_upload, **upload, MultipartUpload={"Parts": list(order)})

    assert finish(*parts)[0] in {"InvalidPartOrder", "EntityTooSmall"}
    assert finish({"PartNumber": 3, "ETag": small}) == ("InvalidPart", 400)
    wrong = {**parts[1], "ChecksumCRC32": "AAAAAA=="}
    assert finish(wrong) == ("InvalidPart", 400)
    assert refused(s3.upload_part, **upload, PartNumber=10001, Body=b"") == ("InvalidArgument", 400)
    other = {**upload, "Key": "other"}
    assert refused(s3.upload_part, **other, PartNumber=1, Body=b"") == ("NoSuchUpload", 404)


def test_boto3s_own_transfer_works_in_parts(s3: Any) -> None:
    body = PART + b"rest"
    config = TransferConfig(multipart_threshold=len(PART), multipart_chunksize=len(PART))
    s3.upload_fileobj(io.BytesIO(body), BUCKET, "big", Config=config)
    assert s3.head_object(Bucket=BUCKET, Key="big")["ETag"].endswith('-2"')
    into = io.BytesIO()
    s3.download_fileobj(BUCKET, "big", into, Config=config)
    assert into.getvalue() == body


def test_a_damaged_body_is_refused(s3: Any) -> None:
    asked = {"Bucket": BUCKET, "Key": "k", "Body": b"one"}
    assert refused(s3.put_object, **asked, ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==") == ("BadDigest", 400)
    assert refused(s3.put_object, **asked, ChecksumCRC32="AAAAAA==") == ("BadDigest", 400)
    assert refused(s3.put_object, **asked, ContentMD5="no base64") == ("InvalidDigest", 400)
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


def test_what_is_stored_is_billed_until_it_is_deleted(s3: Any, endpoint: Endpoint) -> None:
    assert stored(endpoint) == []
    upload = begin(s3)
    ((id_, price),) = stored(endpoint)
    assert id_ == ARN
    assert float(price) == pytest.approx(0.023 * 5 / 1024 / 730, rel=1e-3)
    put(s3, "other", PART)
    assert float(stored(endpoint)[0][1]) == pytest.approx(2 * float(price), rel=1e-3)
    s3.abort_multipart_upload(**upload)
    assert stored(endpoint) == [(ARN, price)]
    s3.delete_object(Bucket=BUCKET, Key="other")
    assert stored(endpoint) == []


def test_a_bucket_has_a_region_and_sdks_find_it(s3: Any, endpoint: Endpoint) -> None:
    west = client(endpoint, "s3", region="eu-west-1", attempts=2)
    west.put_object(Bucket=BUCKET, Key="k", Body=b"one")
    assert s3.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"one"
    asked = {"Params": {"Bucket": BUCKET, "Key": "k"}}
    misled = client(endpoint, "s3", region="eu-west-1", signature="s3v4")
    answer = requests.get(misled.generate_presigned_url("get_object", **asked), timeout=PATIENCE_S)
    assert (answer.status_code, "<Region>us-east-1</Region>" in answer.text) == (400, True)
    place = {"LocationConstraint": "eu-west-1"}
    unplaced = refused(west.create_bucket, Bucket="of-the-west")
    assert unplaced == ("IllegalLocationConstraintException", 400)
    west.create_bucket(Bucket="of-the-west", CreateBucketConfiguration=place)
    assert west.get_bucket_location(Bucket="of-the-west")["LocationConstraint"] == "eu-west-1"
    twice = refused(west.create_bucket, Bucket="of-the-west", CreateBucketConfiguration=place)
    assert twice == ("BucketAlreadyOwnedByYou", 409)
    assert sorted(each["Name"] for each in s3.list_buckets()["Buckets"]) == [BUCKET, "of-the-west"]
    west.delete_bucket(Bucket="of-the-west")
    for name in ("Capital", "with_underscore", "192.168.1.1", "-dash"):
        assert refused(client(endpoint, "s3", validated=False).create_bucket, Bucket=name) == (
            "InvalidBucketName",
            400,
        )


def test_presigned_requests_are_good_for_their_time(s3: Any, endpoint: Endpoint) -> None:
    put(s3, "a b")
    newer = client(endpoint, "s3", signature="s3v4")
    asked = {"Params": {"Bucket": BUCKET, "Key": "a b"}}
    url = newer.generate_presigned_url("get_object", **asked, ExpiresIn=60)
    assert requests.get(url, timeout=PATIENCE_S).text == "one"
    assert "SignatureDoesNotMatch" in requests.get(url.replace("a%20b", "other"), timeout=PATIENCE_S).text
    late = newer.generate_presigned_url("get_object", **asked, ExpiresIn=-1)
    assert requests.get(late, timeout=PATIENCE_S).status_code == 403
    older = s3.generate_presigned_url("get_object", **asked)
    assert "Please use AWS4-HMAC-SHA256" in requests.get(older, timeout=PATIENCE_S).text


def test_a_session_reaches_its_own_prefix_and_no_other(s3: Any, endpoint: Endpoint, iam: Any) -> None:
    put(s3, "mine/1")
    put(s3, "theirs/1")
    role = make_role(iam, trust(), {"Effect": "Allow", "Action": "s3:*", "Resource": "*"})
    narrowed = policy(
        {"Effect": "Allow", "Action": ["s3:PutObject", "s3:GetObject"], "Resource": f"{ARN}/mine/*"},
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": ARN,
            "Condition": {"StringLike": {"s3:prefix": "mine/*"}},
        },
    )
    session = as_session(endpoint, assume(client(endpoint, "sts"), role, Policy=narrowed), "s3")
    session.put_object(Bucket=BUCKET, Key="mine/2", Body=b"two")
    assert session.list_objects_v2(Bucket=BUCKET, Prefix="mine/")["KeyCount"] == 2
    assert refused(session.list_objects_v2, Bucket=BUCKET, Prefix="theirs/") == ("AccessDenied", 403)
    assert refused(session.get_object, Bucket=BUCKET, Key="theirs/1") == ("AccessDenied", 403)
    assert refused(session.delete_object, Bucket=BUCKET, Key="mine/1") == ("AccessDenied", 403)
    missing = refused(session.get_object, Bucket=BUCKET, Key="mine/none")
    assert missing == ("AccessDenied", 403), "who may not list is not told what is missing"


def test_objects_are_dated_by_the_clouds_clock(s3: Any, endpoint: Endpoint) -> None:
    endpoint.client.clock(advance_s=timedelta(days=30).total_seconds())
    put(s3)
    dated = s3.head_object(Bucket=BUCKET, Key="k")["LastModified"]
    assert abs(dated - datetime.now(UTC) - timedelta(days=30)) < timedelta(hours=1)


def test_faults_come_in_s3s_own_form(s3: Any, endpoint: Endpoint) -> None:
    endpoint.client.fault(effect="throttle", action="PutObject")
    endpoint.client.fault(effect="error", action="GetObject", code="InternalError", status=500)
    assert refused(s3.put_object, Bucket=BUCKET, Key="k", Body=b"one") == ("SlowDown", 503)
    assert refused(s3.get_object, Bucket=BUCKET, Key="k") == ("InternalError", 500)
    not_known = refused(s3.put_bucket_policy, Bucket=BUCKET, Policy=json.dumps({}))
    assert not_known == ("UnsupportedOperation", 400)
    assert put(s3)


def test_what_is_lost_with_the_process_is_not_billed_on(tmp_path: Path) -> None:
    boxes = HollowBoxes()
    with hollow_sandbox(tmp_path, boxes) as endpoint:
        kept = client(endpoint, "s3")
        kept.create_bucket(Bucket="of-before")
        kept.put_object(Bucket="of-before", Key="k", Body=b"one")
        assert len(stored(endpoint)) == 1
    with hollow_sandbox(tmp_path, boxes) as endpoint:
        assert stored(endpoint) == []
        endpoint.client.reset()

"""The emulated OSS through its own SDK: buckets, objects, conditions, signatures, and what is refused."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any

import boto3
import pytest
from botocore.client import Config
from botocore.exceptions import ClientError

from gpucloud_sandbox.alibaba.oss.wire import HONOURED
from tests.sandbox.alibaba_lab import REGION, Alibaba
from tests.waiting import PATIENCE_S

# The SDK's modules are taken as they are: their types are looser than what they answer.
oss: Any = import_module("alibabacloud_oss_v2")
shapes: Any = import_module("alibabacloud_oss_v2.types")
signer: Any = import_module("alibabacloud_oss_v2.signer")

NAME = "gpucloud-test"


def client_of(alibaba: Alibaba, **changes: Any) -> Any:
    """The SDK's client, which sends every request once."""
    settings: dict[str, Any] = {
        "region": REGION,
        "endpoint": alibaba.origin,
        "credentials_provider": oss.credentials.StaticCredentialsProvider(alibaba.key, alibaba.secret),
        "use_path_style": True,
        "retry_max_attempts": 1,
        **changes,
    }
    return oss.Client(oss.config.Config(**settings))


@pytest.fixture
def client(alibaba: Alibaba) -> Any:
    """A client, and a bucket."""
    made = client_of(alibaba)
    made.put_bucket(oss.PutBucketRequest(bucket=NAME))
    return made


def put(client: Any, key: str, body: bytes = b"x", **more: Any) -> Any:
    return client.put_object(oss.PutObjectRequest(bucket=NAME, key=key, body=body, **more))


def get(client: Any, key: str, **more: Any) -> Any:
    return client.get_object(oss.GetObjectRequest(bucket=NAME, key=key, **more))


def names(client: Any, **asked: Any) -> tuple[list[str], list[str]]:
    """The objects and the common prefixes of a page."""
    page = client.list_objects_v2(oss.ListObjectsV2Request(bucket=NAME, **asked))
    return [each.key for each in page.contents or ()], [each.prefix for each in page.common_prefixes or ()]


def refused(call: Callable[[], Any]) -> tuple[str, int]:
    """The code and HTTP status with which OSS refuses."""
    with pytest.raises(oss.exceptions.OperationError) as caught:
        call()
    error: Any = caught.value.unwrap()
    assert error.request_id
    return str(error.code), int(error.status_code)


# --- objects


def test_an_object_comes_back_as_it_was_stored(client: Any) -> None:
    stored = put(client, "a/ä b", b"hello", metadata={"step": "7"}, content_type="text/plain")
    found = get(client, "a/ä b")
    assert found.body.content == b"hello"
    assert (found.metadata["step"], found.content_type, found.etag) == ("7", "text/plain", stored.etag)
    part = get(client, "a/ä b", range_header="bytes=1-2")
    assert (part.body.content, part.content_range) == (b"el", "bytes 1-2/5")
    head = client.head_object(oss.HeadObjectRequest(bucket=NAME, key="a/ä b"))
    assert (head.content_length, head.etag, head.storage_class) == (5, stored.etag, "Standard")
    client.delete_object(oss.DeleteObjectRequest(bucket=NAME, key="a/ä b"))
    assert refused(lambda: get(client, "a/ä b")) == ("NoSuchKey", 404)
    assert refused(lambda: client.head_object(oss.HeadObjectRequest(bucket=NAME, key="a/ä b"))) == (
        "NoSuchKey",
        404,
    )
    client.delete_object(oss.DeleteObjectRequest(bucket=NAME, key="a/ä b"))


def test_of_two_writers_one_wins_where_overwriting_is_forbidden(client: Any) -> None:
    put(client, "lease", b"first", forbid_overwrite=True)
    second = refused(lambda: put(client, "lease", b"second", forbid_overwrite=True))
    assert second == ("FileAlreadyExists", 409)
    assert get(client, "lease").body.content == b"first"
    put(client, "lease", b"third")
    assert get(client, "lease").body.content == b"third"


def test_conditions_are_kept(client: Any) -> None:
    tag = put(client, "k").etag
    assert refused(lambda: get(client, "k", if_match='"0"')) == ("PreconditionFailed", 412)
    assert refused(lambda: get(client, "k", if_none_match=tag))[1] == 304
    assert get(client, "k", if_match=tag, if_none_match='"0"').body.content == b"x"


def test_objects_are_listed_in_order_by_page_prefix_and_folder(client: Any) -> None:
    for key in ("b", "a/2", "a/1", "a/b/3", "c"):
        put(client, key)
    assert names(client) == (["a/1", "a/2", "a/b/3", "b", "c"], [])
    assert names(client, delimiter="/") == (["b", "c"], ["a/"])
    assert names(client, prefix="a/", delimiter="/") == (["a/1", "a/2"], ["a/b/"])
    assert names(client, start_after="a/b/3") == (["b", "c"], [])
    pages = oss.paginator.ListObjectsV2Paginator(client)
    rows = [
        [*(each.key for each in page.contents or ()), *(each.prefix for each in page.common_prefixes or ())]
        for page in pages.iter_page(oss.ListObjectsV2Request(bucket=NAME, delimiter="/", max_keys=2))
    ]
    assert [len(page) for page in rows] == [2, 1]
    assert sorted(chain.from_iterable(rows)) == ["a/", "b", "c"]


def test_what_is_stored_is_billed_by_its_size_until_it_is_deleted(alibaba: Alibaba, client: Any) -> None:
    put(client, "nothing", b"")
    assert alibaba.billed() == []
    put(client, "k", bytes(1 << 20))
    put(client, "k", bytes(2 << 20))
    [entry] = alibaba.sandbox.status()["billing"]
    assert (entry["kind"], entry["id"], entry["price"]["currency"]) == ("object", f"{NAME}/k", "CNY")
    assert float(entry["price"]["amount"]) == pytest.approx(0.12 * 2 / 1024 / 730)
    client.delete_object(oss.DeleteObjectRequest(bucket=NAME, key="k"))
    assert alibaba.billed() == []


# --- uploads in parts, copies


def begun(client: Any, key: str = "k", **more: Any) -> str:
    asked = oss.InitiateMultipartUploadRequest(bucket=NAME, key=key, **more)
    return str(client.initiate_multipart_upload(asked).upload_id)


def part_of(client: Any, upload: str, number: int, body: bytes, key: str = "k") -> Any:
    asked = oss.UploadPartRequest(bucket=NAME, key=key, upload_id=upload, part_number=number, body=body)
    return oss.UploadPart(part_number=number, etag=client.upload_part(asked).etag)


def completed(client: Any, upload: str, parts: list[Any]) -> Any:
    asked = oss.CompleteMultipartUploadRequest(
        bucket=NAME,
        key="k",
        upload_id=upload,
        complete_multipart_upload=oss.CompleteMultipartUpload(parts=parts),
    )
    return client.complete_multipart_upload(asked)


def test_an_object_comes_in_parts_and_is_there_once_all_are(alibaba: Alibaba, client: Any) -> None:
    put(client, "k", b"before")
    upload = begun(client, metadata={"step": "7"})
    parts = [part_of(client, upload, number, bytes([number]) * 200_000) for number in (1, 3)]
    listed = client.list_parts(oss.ListPartsRequest(bucket=NAME, key="k", upload_id=upload)).parts
    assert [(each.part_number, each.size) for each in listed] == [(1, 200_000), (3, 200_000)]
    assert alibaba.billed() == ["object", "part", "part"]
    assert get(client, "k").body.content == b"before"
    assert refused(lambda: completed(client, upload, parts[::-1])) == ("InvalidPartOrder", 400)
    wrong = [parts[0], oss.UploadPart(part_number=3, etag=parts[0].etag)]
    assert refused(lambda: completed(client, upload, wrong)) == ("InvalidPart", 400)
    made = completed(client, upload, parts)
    assert made.etag.endswith('-2"')
    found = get(client, "k")
    assert found.body.content == b"\x01" * 200_000 + b"\x03" * 200_000
    assert (found.metadata["step"], found.object_type) == ("7", "Multipart")
    assert alibaba.billed() == ["object"]
    assert refused(lambda: completed(client, upload, parts)) == ("NoSuchUpload", 404)


def test_an_upload_is_given_up_or_refused(alibaba: Alibaba, client: Any) -> None:
    upload = begun(client)
    small = [part_of(client, upload, number, b"x") for number in (1, 2)]
    assert refused(lambda: completed(client, upload, small)) == ("EntityTooSmall", 400)
    assert refused(lambda: part_of(client, upload, 10_001, b"x")) == ("InvalidArgument", 400)
    assert refused(lambda: part_of(client, upload, 1, b"x", key="other")) == ("NoSuchUpload", 404)
    client.abort_multipart_upload(oss.AbortMultipartUploadRequest(bucket=NAME, key="k", upload_id=upload))
    assert refused(lambda: part_of(client, upload, 1, b"x")) == ("NoSuchUpload", 404)
    assert alibaba.billed() == []


def test_an_object_is_copied_with_its_headers_or_with_new_ones(client: Any) -> None:
    put(client, "a", b"text", metadata={"step": "7"})

    def copied(key: str, **more: Any) -> Any:
        asked = oss.CopyObjectRequest(bucket=NAME, key=key, source_key="a", **more)
        return client.copy_object(asked)

    copied("b")
    copied("c", metadata={"step": "8"}, metadata_directive="REPLACE")
    assert [get(client, key).metadata["step"] for key in "bc"] == ["7", "8"]
    assert get(client, "c").body.content == b"text"
    assert refused(lambda: copied("a")) == ("InvalidRequest", 400)


# --- in S3's form


def s3_of(alibaba: Alibaba, key: str, secret: str, token: str | None = None) -> Any:
    """AWS's SDK; it calculates no checksums of its own, which OSS would refuse."""
    return boto3.client(
        "s3",
        region_name=REGION,
        endpoint_url=alibaba.origin,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=Config(
            s3={"addressing_style": "path"},
            retries={"max_attempts": 1},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


def test_awss_sdk_stores_and_finds_objects(alibaba: Alibaba, client: Any) -> None:
    s3 = s3_of(alibaba, alibaba.key, alibaba.secret)
    s3.put_object(Bucket=NAME, Key="a/ä b", Body=b"hello", Metadata={"step": "7"})
    found = s3.get_object(Bucket=NAME, Key="a/ä b")
    assert (found["Body"].read(), found["Metadata"]) == (b"hello", {"step": "7"})
    assert get(client, "a/ä b").metadata["step"] == "7"
    upload = s3.create_multipart_upload(Bucket=NAME, Key="k", Metadata={"step": "8"})["UploadId"]
    about = {"Bucket": NAME, "Key": "k", "UploadId": upload}
    tag = s3.upload_part(**about, PartNumber=1, Body=b"part")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    s3.complete_multipart_upload(**about, MultipartUpload=parts)
    page = s3.list_objects_v2(Bucket=NAME, Delimiter="/")
    assert [each["Key"] for each in page["Contents"]] == ["k"]
    assert [each["Prefix"] for each in page["CommonPrefixes"]] == ["a/"]
    s3.copy_object(Bucket=NAME, Key="c", CopySource=f"{NAME}/k")
    assert s3.head_object(Bucket=NAME, Key="c")["Metadata"] == {"step": "8"}


def test_what_oss_does_not_take_of_s3_is_refused(alibaba: Alibaba, client: Any) -> None:
    def said(call: Callable[[], Any]) -> tuple[str, int]:
        with pytest.raises(ClientError) as caught:
            call()
        answer: Any = caught.value.response
        return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]

    s3 = s3_of(alibaba, alibaba.key, alibaba.secret)
    chunked = partial(s3.put_object, Bucket=NAME, Key="k", Body=b"x", ChecksumAlgorithm="CRC32")
    assert said(chunked)[0] in {"InvalidArgument", "NotImplemented"}
    forged = s3_of(alibaba, alibaba.key, "wrong")
    assert said(partial(forged.list_objects_v2, Bucket=NAME)) == ("SignatureDoesNotMatch", 403)
    tokenless = s3_of(alibaba, alibaba.key, alibaba.secret, "a token of nobody")
    assert said(partial(tokenless.list_objects_v2, Bucket=NAME)) == ("InvalidAccessKeyId", 403)
    assert said(partial(s3.get_object, Bucket=NAME, Key="k")) == ("NoSuchKey", 404)


# --- sessions of roles

OSS_ALL = {"Effect": "Allow", "Action": "oss:*", "Resource": "*"}


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "1", "Statement": list(statements)}


def assumed(alibaba: Alibaba, role: str, narrowed: dict[str, Any] | None = None, **more: Any) -> Any:
    asked = {"RoleArn": role, "RoleSessionName": "s1", "RegionId": None, **more}
    if narrowed is not None:
        asked["Policy"] = json.dumps(narrowed)
    return alibaba.ask("AssumeRole", "sts", **asked)["Credentials"]


def as_session(alibaba: Alibaba, keys: Any, **changes: Any) -> Any:
    provider = oss.credentials.StaticCredentialsProvider(
        keys["AccessKeyId"], keys["AccessKeySecret"], keys["SecurityToken"]
    )
    return client_of(alibaba, credentials_provider=provider, **changes)


def test_a_session_may_what_its_role_and_its_own_policy_allow(alibaba: Alibaba, client: Any) -> None:
    role = alibaba.sandbox.cloud("alibaba", "role", name="lender", document=policy(OSS_ALL))
    put(client, "mine/a")
    put(client, "other/a")
    narrowed = policy(
        {
            "Effect": "Allow",
            "Action": ["oss:PutObject", "oss:GetObject"],
            "Resource": f"acs:oss:*:*:{NAME}/mine/*",
        },
        {
            "Effect": "Allow",
            "Action": "oss:ListObjects",
            "Resource": f"acs:oss:*:*:{NAME}",
            "Condition": {"StringLike": {"oss:Prefix": "mine/*"}},
        },
    )
    keys = assumed(alibaba, role, narrowed)
    for version in ("v1", "v4"):
        box = as_session(alibaba, keys, signature_version=version)
        put(box, "mine/b")
        assert names(box, prefix="mine/") == (["mine/a", "mine/b"], [])
        denied = ("AccessDenied", 403)
        assert refused(partial(names, box)) == denied
        assert refused(partial(put, box, "other/b")) == denied
        assert refused(partial(get, box, "other/a")) == denied
        drop = partial(box.delete_object, oss.DeleteObjectRequest(bucket=NAME, key="mine/a"))
        assert refused(drop) == denied
        taken = oss.CopyObjectRequest(bucket=NAME, key="mine/c", source_key="other/a")
        assert refused(partial(box.copy_object, taken)) == denied
    sdk = alibaba.client(
        access_key_id=keys["AccessKeyId"],
        access_key_secret=keys["AccessKeySecret"],
        security_token=keys["SecurityToken"],
    )
    assert alibaba.refused("DescribeRegions", client=sdk) == ("Forbidden.RAM", 403)
    bare = alibaba.sandbox.cloud("alibaba", "role", name="bare")
    assert refused(partial(put, as_session(alibaba, assumed(alibaba, bare)), "mine/b")) == denied
    alibaba.sandbox.clock(advance_s=3601)
    assert refused(partial(put, box, "mine/b")) == ("SecurityTokenExpired", 403)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"RoleArn": "acs:ram::5123456789012345:role/none"}, ("EntityNotExist.Role", 404)),
        ({"RoleArn": "acs:ram::5123456789012345:role/closed"}, ("NoPermission", 403)),
        ({"RoleArn": "arn:aws:iam::1:role/r"}, ("InvalidParameter.RoleArn", 400)),
        ({"RoleSessionName": "a b"}, ("InvalidParameter.RoleSessionName", 400)),
        ({"DurationSeconds": 60}, ("InvalidParameter.DurationSeconds", 400)),
        ({"DurationSeconds": 7200}, ("InvalidParameter.DurationSeconds", 400)),
        ({"Policy": "{"}, ("InvalidParameter.PolicyGrammar", 400)),
        ({"Policy": "x" * 2049}, ("InvalidParameter.PolicyGrammar", 400)),
    ],
)
def test_sessions_that_sts_refuses_are_refused(
    alibaba: Alibaba, changes: dict[str, Any], refusal: tuple[str, int]
) -> None:
    role = alibaba.sandbox.cloud("alibaba", "role", name="lender", document=policy(OSS_ALL))
    alibaba.sandbox.cloud("alibaba", "role", name="closed", document=policy(OSS_ALL), trusts=False)
    asked = {"RoleArn": role, "RoleSessionName": "s1", "RegionId": None, **changes}
    assert alibaba.refused("AssumeRole", "sts", **asked) == refusal


def test_a_key_that_is_not_there_encrypts_nothing(alibaba: Alibaba, client: Any) -> None:
    key = alibaba.sandbox.cloud("alibaba", "key", region=REGION)
    kms: dict[str, Any] = {"server_side_encryption": "KMS"}
    put(client, "k", **kms, server_side_encryption_key_id=key)
    assert get(client, "k").server_side_encryption_key_id == key
    stray = partial(put, client, "k", **kms, server_side_encryption_key_id="none")
    assert refused(stray) == ("InvalidArgument", 400)


# --- buckets


def test_a_bucket_goes_once_it_is_empty(client: Any) -> None:
    put(client, "k")
    drop = partial(client.delete_bucket, oss.DeleteBucketRequest(bucket=NAME))
    assert refused(drop) == ("BucketNotEmpty", 409)
    client.delete_object(oss.DeleteObjectRequest(bucket=NAME, key="k"))
    assert [each.name for each in client.list_buckets(oss.ListBucketsRequest()).buckets] == [NAME]
    drop()
    assert refused(drop) == ("NoSuchBucket", 404)


def test_a_bucket_is_ones_own_in_one_region(alibaba: Alibaba, client: Any) -> None:
    client.put_bucket(oss.PutBucketRequest(bucket=NAME))
    elsewhere = client_of(alibaba, region="eu-central-1")
    again = refused(lambda: elsewhere.put_bucket(oss.PutBucketRequest(bucket=NAME)))
    assert again == ("BucketAlreadyExists", 409)
    assert refused(lambda: put(elsewhere, "k")) == ("AccessDenied", 403)


# --- signatures and rights


def test_the_older_signature_is_known_too_and_a_wrong_one_is_refused(alibaba: Alibaba, client: Any) -> None:
    older = client_of(alibaba, signature_version="v1")
    put(older, "k", b"by v1", metadata={"a": "b"})
    assert get(client, "k").body.content == b"by v1"
    for version in ("v1", "v4"):
        wrong = oss.credentials.StaticCredentialsProvider(alibaba.key, "wrong")
        forged = client_of(alibaba, signature_version=version, credentials_provider=wrong)
        assert refused(partial(get, forged, "k")) == ("SignatureDoesNotMatch", 403)
    nobody = oss.credentials.StaticCredentialsProvider("LTAI0", alibaba.secret)
    assert refused(partial(get, client_of(alibaba, credentials_provider=nobody), "k")) == (
        "InvalidAccessKeyId",
        403,
    )


@pytest.mark.parametrize("version", ["v1", "v4"])
def test_a_signed_url_needs_no_other_credentials(alibaba: Alibaba, client: Any, version: str) -> None:
    put(client, "k", b"hello")
    signer = client_of(alibaba, signature_version=version)
    asked = oss.GetObjectRequest(bucket=NAME, key="k")
    url = signer.presign(asked, expires=timedelta(minutes=5)).url
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310
        assert answer.read() == b"hello"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url.replace("/k?", "/other?"), timeout=PATIENCE_S)  # noqa: S310
    with caught.value as error:
        assert error.code == 403
    with pytest.raises(urllib.error.HTTPError) as unsigned:
        urllib.request.urlopen(url.partition("?")[0], timeout=PATIENCE_S)  # noqa: S310
    with unsigned.value as error:
        assert b"<Code>AccessDenied</Code>" in error.read()


def test_what_ram_denies_is_denied(alibaba: Alibaba, client: Any) -> None:
    alibaba.sandbox.cloud("alibaba", "deny", actions=["oss:Put*"])
    assert refused(lambda: put(client, "k")) == ("AccessDenied", 403)
    assert names(client) == ([], [])


# --- what is refused


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"bucket": "nobodys"}, ("NoSuchBucket", 404)),
        ({"content_md5": "AAAA"}, ("InvalidDigest", 400)),
        ({"key": "\\k"}, ("InvalidObjectName", 400)),
        ({"tagging": "a=b"}, ("NotImplemented", 501)),
    ],
)
def test_objects_that_oss_refuses_are_refused(
    client: Any, changes: dict[str, str], refusal: tuple[str, int]
) -> None:
    asked = {"bucket": NAME, "key": "k", "body": b"x", **changes}
    assert refused(lambda: client.put_object(oss.PutObjectRequest(**asked))) == refusal


@pytest.mark.parametrize("name", ["Upper", "x", "-x-"])
def test_buckets_that_oss_refuses_are_refused(alibaba: Alibaba, name: str) -> None:
    # The SDK's client refuses such names itself; its signer does not.
    request = shapes.HttpRequest("PUT", f"{alibaba.origin}/{name}")
    keys = oss.credentials.Credentials(alibaba.key, alibaba.secret)
    signer.SignerV4().sign(
        shapes.SigningContext(product="oss", region=REGION, bucket=name, request=request, credentials=keys)
    )
    plain = urllib.request.Request(request.url, method="PUT", headers=dict(request.headers))  # noqa: S310
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(plain, timeout=PATIENCE_S)  # noqa: S310
    with caught.value as error:
        assert b"<Code>InvalidBucketName</Code>" in error.read()


OF_THE_BODY = {"Accept-Encoding", "Content-Length", "Content-MD5", "Content-Type", "x-oss-meta-"}
"""What the transport says, or the caller's own names: with any value it is supported."""

METHODS = {
    "Abort": "DELETE",
    "Complete": "POST",
    "Copy": "PUT",
    "Delete": "DELETE",
    "Head": "HEAD",
    "Initiate": "POST",
    "Put": "PUT",
    "Upload": "PUT",
}
PARAMETERS: dict[str, dict[str, str]] = {
    "InitiateMultipartUpload": {"uploads": ""},
    "ListObjectsV2": {"list-type": "2"},
    "AbortMultipartUpload": {"uploadId": "x"},
    "CompleteMultipartUpload": {"uploadId": "x"},
    "ListParts": {"uploadId": "x"},
    "UploadPart": {"uploadId": "x"},
}
"""What tells operations of the same method apart."""

OPERATIONS = sorted(operation for _, operation in HONOURED)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_other_member_of_the_sdks_model_is_refused_by_name(client: Any, operation: str) -> None:
    attributes = getattr(oss.models, f"{operation}Request")._attribute_map.values()
    members = {(each["position"], each["rename"]) for each in attributes if "rename" in each}
    table = HONOURED["oss", operation]
    others = {
        (position, name)
        for position, name in members
        if position in {"header", "query"}
        and not table.supports(name.lower(), "x")
        and name not in OF_THE_BODY
    }
    method = next((verb for start, verb in METHODS.items() if operation.startswith(start)), "GET")
    named = {"x-oss-copy-source": f"/{NAME}/k"} if operation == "CopyObject" else {}
    for position, name in others:
        asked = oss.OperationInput(
            op_name=operation,
            method=method,
            bucket=None if operation == "ListBuckets" else NAME,
            key=None if "Bucket" in operation or operation == "ListObjectsV2" else "k",
            headers={**named, **({name: "x"} if position == "header" else {})},
            parameters={
                **PARAMETERS.get(operation, {}),
                **({name: "x"} if position == "query" else {}),
            },
        )
        with pytest.raises(oss.exceptions.OperationError) as caught:
            client.invoke_operation(asked)
        shown = f"{name.lower()}=x" if name.lower() in table.valued else name.lower()
        assert f"does not emulate {operation}: {shown}." in str(caught.value)

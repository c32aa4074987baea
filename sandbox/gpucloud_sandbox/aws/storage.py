"""S3: moto keeps buckets and objects; here is what it does not look at, and what is billed.

moto forgets everything when the process ends, so that a restarted sandbox has no buckets, and bills none.
Codes: ``NoSuchKey`` and ``NoSuchUpload`` are shapes of botocore's model of S3. UNVERIFIED, as botocore does
not have them: AuthorizationHeaderMalformed, BadDigest, ConditionalRequestConflict, InvalidArgument,
InvalidBucketName, InvalidDigest, InvalidPart, KeyTooLongError and PreconditionFailed, and the texts of all.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.aws import billing, moto_backend, permissions
from gpucloud_sandbox.aws.authorization import Demand
from gpucloud_sandbox.aws.region import ACCOUNT, CLOUD, Region
from gpucloud_sandbox.aws.s3_wire import Body, malformed
from gpucloud_sandbox.aws.wire import AwsError, not_emulated, part
from gpucloud_sandbox.emulator import World
from gpucloud_sandbox.market import HOURS_PER_MONTH

CALLS: Mapping[str, str] = {
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "CompleteMultipartUpload": "s3:PutObject",
    "CreateBucket": "s3:CreateBucket",
    "CreateMultipartUpload": "s3:PutObject",
    "DeleteBucket": "s3:DeleteBucket",
    "DeleteObject": "s3:DeleteObject",
    "DeleteObjects": "s3:DeleteObject",
    "GetBucketLocation": "s3:GetBucketLocation",
    "GetObject": "s3:GetObject",
    "HeadBucket": "s3:ListBucket",
    "HeadObject": "s3:GetObject",
    "ListBuckets": "s3:ListAllMyBuckets",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "ListObjectsV2": "s3:ListBucket",
    "ListParts": "s3:ListMultipartUploadParts",
    "PutObject": "s3:PutObject",
    "UploadPart": "s3:PutObject",
}
"""The calls that are emulated, and the action that IAM is asked for each.

Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
"""

USD_PER_GB_MONTH = Decimal("0.023")
"""S3 Standard, the first 50 TB of a month, in us-east-1; other regions differ by some percent.

Source: https://aws.amazon.com/s3/pricing/ (July 2022: gist EverettBerry/a37438006529a55f42da6fdbc44a505c)
"""
TAKEN = frozenset({"somebody-elses-bucket"})
"""Names of buckets that another account has: names are global."""
LONGEST_KEY = 1024
MOST_PARTS = 10_000
_BUCKET = re.compile(r"(?!\d+(\.\d+){3}$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_SIZING = {"AbortMultipartUpload", "CompleteMultipartUpload", "PutObject", "UploadPart"} | {
    "DeleteBucket",
    "DeleteObject",
    "DeleteObjects",
}
_WRITING = {"CompleteMultipartUpload", "PutObject"}


def _crc32(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(4, "big")


def _sha1(body: bytes) -> bytes:
    return hashlib.sha1(body, usedforsecurity=False).digest()


def _sha256(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def _md5(body: bytes) -> bytes:
    return hashlib.md5(body, usedforsecurity=False).digest()


_DIGESTS: Mapping[str, Callable[[bytes], bytes]] = {
    "content-md5": _md5,
    "x-amz-checksum-crc32": _crc32,
    "x-amz-checksum-sha1": _sha1,
    "x-amz-checksum-sha256": _sha256,
}
_NO_DIGESTS = {f"x-amz-checksum-{name}" for name in ("algorithm", "mode", "type")}
_OF_PARTS = {"ChecksumCRC32": _crc32, "ChecksumSHA1": _sha1, "ChecksumSHA256": _sha256}


def demands(call: str, parameters: Mapping[str, Any]) -> Iterator[Demand]:
    """What IAM is asked. One object of DeleteObjects that is not allowed refuses the whole call here."""
    bucket, action = parameters.get("Bucket"), CALLS[call]
    objects = part(parameters, "Delete").get("Objects", ())
    named = [each.get("Key", "") for each in objects] or [parameters.get("Key", "")]
    keys = {"aws:ResourceAccount": ACCOUNT}
    if "Prefix" in parameters:
        keys["s3:prefix"] = parameters["Prefix"]
    for key in named:
        resource = f"arn:aws:s3:::{bucket}/{key}" if key else f"arn:aws:s3:::{bucket}"
        yield Demand(action=action, resource=resource if bucket else "*", keys=keys)


def answer(
    region: Region,
    request: Request,
    call: str,
    parameters: Mapping[str, Any],
    body: Body,
) -> Response:
    """Checks a call, lets moto answer it, and bills what it leaves behind.

    Args:
        region: the one that the signature names.
        request: what came in.
        call: which call it is.
        parameters: its members.
        body: its body, out of its chunks.

    Raises:
        AwsError: S3 would refuse it, and moto would not.
    """
    bucket, key = parameters.get("Bucket", ""), parameters.get("Key", "")
    _check_owner(call, parameters)
    if call != "CreateBucket":
        _check_region(region, bucket)
    elif not _BUCKET.fullmatch(bucket) or ".." in bucket or bucket.startswith("xn--"):
        raise AwsError("InvalidBucketName", "The specified bucket is not valid.")
    if call in {"CompleteMultipartUpload", "DeleteObjects"} and not body.content:
        raise malformed()
    _check_encryption(region, parameters)
    if len(key.encode()) > LONGEST_KEY:
        raise AwsError("KeyTooLongError", "Your key is too long")
    _check_digests({**dict(request.headers.items()), **body.trailers}, body.content)
    if "UploadId" in parameters:
        _check_upload(call, parameters)
    said = moto_backend.store(request, body.content, body.trailers, region=region.name)
    if said.status_code == 404 and call in {"GetObject", "HeadObject"}:
        _check_listing(region, bucket)
    if said.status_code < 300:
        if call in _WRITING:
            moto_backend.date_object(bucket, key, region.now)
        if call == "DeleteObject":
            moto_backend.mark_uploads(bucket, key)
        if call in _SIZING:
            _bill(region, bucket)
    return said


def forget_lost(world: World) -> None:
    """Bills no bucket any longer that went with an earlier process."""
    for entry in world.ledger.billing():
        if (entry.cloud, entry.kind) == (CLOUD, "storage"):
            world.ledger.end_billing(CLOUD, entry.id, world.clock.now(), "the sandbox was restarted")


def _check_owner(call: str, parameters: Mapping[str, Any]) -> None:
    """Refuses buckets of other accounts. Source: S3 User Guide, "Verifying bucket ownership"."""
    foreign = parameters.get("Bucket", "") in TAKEN
    if foreign and call == "CreateBucket":
        text = "The requested bucket name is not available."
        raise AwsError("BucketAlreadyExists", text, 409)
    if foreign or parameters.get("ExpectedBucketOwner", ACCOUNT) != ACCOUNT:
        raise AwsError("AccessDenied", "Access Denied", 403)


def _check_region(region: Region, bucket: str) -> None:
    """Where the bucket is in another region, says in which: SDKs then ask again there."""
    place = moto_backend.bucket_region(bucket) or region.name
    if place != region.name:
        text = f"The authorization header is malformed; the region '{region.name}' is wrong"
        raise AwsError(
            "AuthorizationHeaderMalformed", f"{text}; expecting '{place}'", details={"Region": place}
        )


def _check_listing(region: Region, bucket: str) -> None:
    """Who may not list a bucket is not told that an object is missing."""
    assert region.caller is not None  # noqa: S101  (each call has one)
    demand = Demand(action="s3:ListBucket", resource=f"arn:aws:s3:::{bucket}")
    permissions.check(region.world, region.caller, [demand])


def _check_encryption(region: Region, parameters: Mapping[str, Any]) -> None:
    """A key of KMS must exist in the bucket's region, be enabled, and be the caller's to use through S3."""
    named = parameters.get("SSEKMSKeyId")
    if named is None:
        return
    if parameters.get("ServerSideEncryption") != "aws:kms":
        text = "Server Side Encryption with KMS managed key requires HTTP header x-amz-server-side-encryption"
        raise AwsError("InvalidArgument", f"{text} : aws:kms")
    key = moto_backend.encryption_key(region.name, named)
    if key is None:
        raise AwsError("KMS.NotFoundException", f"Key '{named}' does not exist")
    assert region.caller is not None  # noqa: S101  (each call has one)
    through = {"kms:ViaService": f"s3.{region.name}.amazonaws.com"}
    demand = Demand(action="kms:GenerateDataKey", resource=key, keys=through)
    permissions.check(region.world, region.caller, [demand])


def _check_digests(headers: Mapping[str, str], body: bytes) -> None:
    """The digests that came with a body, in its headers or behind it."""
    for name, value in headers.items():
        digest = _DIGESTS.get(name.lower())
        if digest is not None and digest(body) != _decoded(value):
            algorithm = name.lower().removeprefix("x-amz-checksum-").removeprefix("content-").upper()
            text = f"The {algorithm} you specified did not match the calculated checksum."
            raise AwsError("BadDigest", text)
        if digest is None and name.lower().startswith("x-amz-checksum-") and name.lower() not in _NO_DIGESTS:
            raise not_emulated(f"the checksum {name}")


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise AwsError("InvalidDigest", "The digest you specified is not valid") from None


def _check_upload(call: str, parameters: Mapping[str, Any]) -> None:
    """A multipart upload belongs to its key; the last call of one may have a condition on that."""
    bucket, key, id_ = (parameters[name] for name in ("Bucket", "Key", "UploadId"))
    upload = moto_backend.upload(bucket, id_)
    if upload is None:
        return  # moto refuses it, or it is complete
    if upload.key_name != key:
        raise AwsError("NoSuchUpload", "The specified upload does not exist.", 404)
    number = parameters.get("PartNumber", "1")
    if call == "UploadPart" and not (number.isdecimal() and 1 <= int(number) <= MOST_PARTS):
        text = f"Part number must be an integer between 1 and {MOST_PARTS}, inclusive"
        raise AwsError("InvalidArgument", text)
    if call == "CompleteMultipartUpload":
        _check_condition(parameters, upload)
        _check_parts(part(parameters, "MultipartUpload").get("Parts", ()), upload)


def _check_condition(parameters: Mapping[str, Any], upload: moto_backend.Upload) -> None:
    """moto looks at ``If-None-Match: *`` alone.

    S3 answers 409 where an object was deleted meanwhile ("a conflicting operation occurs during the upload",
    API Reference, CompleteMultipartUpload); an upload begins with CreateMultipartUpload.
    """
    expected = parameters.get("IfMatch")
    if upload.disturbed and (expected or "IfNoneMatch" in parameters):
        text = "The conditional request cannot succeed due to a conflicting operation against this resource."
        raise AwsError("ConditionalRequestConflict", text, 409)
    if expected is None:
        return
    found = moto_backend.etag(parameters["Bucket"], parameters["Key"])
    if found is None:
        raise AwsError("NoSuchKey", "The specified key does not exist.", 404)
    if found.strip('"') != expected.strip('"'):
        text = "At least one of the pre-conditions you specified did not hold"
        raise AwsError("PreconditionFailed", text, 412)


def _check_parts(listed: Iterator[Mapping[str, str]], upload: moto_backend.Upload) -> None:
    for each in listed:
        stored = upload.parts.get(int(each.get("PartNumber", 0)))
        for name, digest in _OF_PARTS.items():
            if stored is not None and name in each and digest(stored) != _decoded(each[name]):
                text = "One or more of the specified parts could not be found, or has another checksum."
                raise AwsError("InvalidPart", text)


def _bill(region: Region, bucket: str) -> None:
    """Bills what a bucket holds: objects, and the parts of uploads that are neither complete nor aborted."""
    arn = f"arn:aws:s3:::{bucket}"
    billing.end(region, arn, "its size has changed")
    size = moto_backend.stored_bytes(bucket)
    if size:
        price = USD_PER_GB_MONTH * size / (1 << 30) / HOURS_PER_MONTH
        billing.begin(region, "storage", arn, price.quantize(Decimal("1e-12")), billed={})

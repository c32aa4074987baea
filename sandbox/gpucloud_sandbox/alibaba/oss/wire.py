"""OSS's wire format: which operation a request is and what it says, answers and refusals.

OSS answers requests in S3's form too: their headers begin with ``x-amz-``, and so do those of the answer.
Source: OSS developer reference, "Accessing OSS with the AWS SDK". UNVERIFIED: how S3's words for encryption
by KMS are read.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox import supported
from gpucloud_sandbox.alibaba.wire import AlibabaError, xml_document

SERVICE = "oss"

_OPERATIONS = {
    ("GET", False, False): "ListBuckets",
    ("PUT", True, False): "PutBucket",
    ("DELETE", True, False): "DeleteBucket",
    ("GET", True, False): "ListObjectsV2",
    ("PUT", True, True): "PutObject",
    ("GET", True, True): "GetObject",
    ("HEAD", True, True): "HeadObject",
    ("DELETE", True, True): "DeleteObject",
}
"""Operations by method, and by whether the path names a bucket and an object."""

_OF_UPLOADS = {
    ("POST", "uploads"): "InitiateMultipartUpload",
    ("PUT", "uploadId"): "UploadPart",
    ("GET", "uploadId"): "ListParts",
    ("POST", "uploadId"): "CompleteMultipartUpload",
    ("DELETE", "uploadId"): "AbortMultipartUpload",
}
"""Operations on an object by method and parameter."""

_SIGNING = frozenset(
    {
        "expires",
        "ossaccesskeyid",
        "security-token",
        "signature",
        "x-oss-additional-headers",
        "x-oss-content-sha256",
        "x-oss-credential",
        "x-oss-date",
        "x-oss-expires",
        "x-oss-security-token",
        "x-oss-signature",
        "x-oss-signature-version",
    }
)
"""Members that are the signature's; ``expires`` among the parameters, not among the headers."""

_HEADERS = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "expires",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "range",
    }
)
"""Headers besides ``x-oss-*`` that mean something to OSS."""

_META = "x-oss-meta-"
_SOURCE = "x-oss-copy-source"
_S3, _OWN = "x-amz-", "x-oss-"
_FROM_S3 = {
    "x-amz-acl": "x-oss-object-acl",
    "x-amz-server-side-encryption-aws-kms-key-id": "x-oss-server-side-encryption-key-id",
}
"""S3's headers that OSS calls otherwise than by its own prefix."""
_VALUES = {"aws:kms": "KMS"}
_OF_S3 = frozenset({"x-id"})
"""Parameters with which AWS's SDKs name a call; they mean nothing."""

HONOURED = supported.read("gpucloud_sandbox.alibaba.oss")
"""The supported members of each operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request: its operation, the bucket and object that it names, its members in lower case, its body.

    What its headers say of the body is apart: SDKs send that with every operation.
    """

    operation: str
    bucket: str
    key: str
    members: Mapping[str, Any]
    body: bytes
    content_type: str
    content_md5: str


def is_oss(request: Request) -> bool:
    """Whether a request is OSS's: the other products' all go to the path ``/``, with other signatures."""
    signed = request.headers.get("Authorization", "").startswith(("OSS", "AWS4-"))
    return signed or request.path != "/" or "x-oss-signature" in request.args


def read(request: Request) -> Asked:
    """Reads a request. The bucket is the first part of its path: hosts of buckets are not emulated."""
    bucket, _, key = request.path.removeprefix("/").partition("/")
    return Asked(
        operation=_operation(request, bool(bucket), bool(key)),
        bucket=bucket,
        key=key,
        members=_members(request),
        body=request.get_data(cache=True),
        content_type=request.headers.get("Content-Type", ""),
        content_md5=request.headers.get("Content-MD5", ""),
    )


def _operation(request: Request, bucket: bool, key: bool) -> str:
    named = next((name for name in ("uploads", "uploadId") if key and name in request.args), None)
    copied = any(_own_name(name.lower()) == _SOURCE for name, _ in request.headers)
    if named is None and copied:
        return "CopyObject"
    known = _OPERATIONS.get((request.method, bucket, key))
    if named is not None:
        known = None if copied else _OF_UPLOADS.get((request.method, named))
    return known or f"{request.method} {'object' if key else 'bucket'}"


def _own_name(name: str) -> str:
    """A header's name as OSS itself calls it."""
    own = f"{_OWN}{name.removeprefix(_S3)}" if name.startswith(_S3) else name
    return _FROM_S3.get(name, own)


def is_s3(request: Request) -> bool:
    """Whether a request is in S3's form."""
    return request.headers.get("Authorization", "").startswith("AWS4-")


def in_dialect(response: Response, request: Request) -> Response:
    """An answer in the form of its request."""
    if is_s3(request):
        own = [(name, value) for name, value in response.headers if name.lower().startswith(_OWN)]
        for name, value in own:
            del response.headers[name]
            response.headers[f"{_S3}{name.lower().removeprefix(_OWN)}"] = value
    return response


def _members(request: Request) -> dict[str, Any]:
    ignored = _SIGNING | _OF_S3 if is_s3(request) else _SIGNING
    members: dict[str, Any] = {
        name.lower(): value for name, value in request.args.items() if name.lower() not in ignored
    }
    meta: dict[str, str] = {}
    for name, value in ((_own_name(name.lower()), _VALUES.get(text, text)) for name, text in request.headers):
        if name.startswith(_META):
            meta[name.removeprefix(_META)] = value
        elif name in _HEADERS or (name.startswith("x-oss-") and name not in _SIGNING):
            members[name] = value
    return {**members, "x-oss-meta": meta} if meta else members


def check_emulated(asked: Asked) -> None:
    """Refuses an operation that is not emulated, and the first member that is not supported.

    Raises:
        AlibabaError: says which.
    """
    table = HONOURED.get((SERVICE, asked.operation))
    member = None if table is None else table.refused(asked.members)
    if table is not None and member is None:
        return
    what = asked.operation if member is None else f"{asked.operation}: {member}"
    raise AlibabaError("NotImplemented", f"The gpucloud sandbox does not emulate {what}.", 501)


def answer(root: str, body: Mapping[str, Any]) -> Response:
    """A result that is a document."""
    return Response(xml_document(root, body), content_type="application/xml")


def error(failure: AlibabaError, request_id: str, *, head: bool = False) -> Response:
    """A refusal as OSS writes it; one of HEAD, which has no body, has it in a header."""
    body = {
        "Code": failure.code,
        "Message": failure.message,
        "RequestId": request_id,
        "HostId": "oss.sandbox",
    }
    text = xml_document("Error", body)
    response = Response(b"" if head or failure.status == 304 else text, failure.status)
    response.content_type = "application/xml"
    response.headers["x-oss-request-id"] = request_id
    if head:
        response.headers["x-oss-err"] = base64.b64encode(text).decode()
    return response

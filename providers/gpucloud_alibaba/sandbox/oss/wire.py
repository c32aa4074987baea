"""OSS's wire format: which operation a request is and what it says, answers and refusals."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from werkzeug.wrappers import Request, Response

from gpucloud.sandbox import honoured
from gpucloud_alibaba.sandbox.wire import AlibabaError, xml_document

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

HONOURED = honoured.read("gpucloud_alibaba.sandbox.oss")
"""The honoured members of each operation."""


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
    signed = request.headers.get("Authorization", "").startswith("OSS")
    return signed or request.path != "/" or "x-oss-signature" in request.args


def read(request: Request) -> Asked:
    """Reads a request. The bucket is the first part of its path: hosts of buckets are not emulated."""
    bucket, _, key = request.path.removeprefix("/").partition("/")
    known = _OPERATIONS.get((request.method, bool(bucket), bool(key)))
    return Asked(
        operation=known or f"{request.method} {'object' if key else 'bucket'}",
        bucket=bucket,
        key=key,
        members=_members(request),
        body=request.get_data(cache=True),
        content_type=request.headers.get("Content-Type", ""),
        content_md5=request.headers.get("Content-MD5", ""),
    )


def _members(request: Request) -> dict[str, Any]:
    members: dict[str, Any] = {
        name.lower(): value for name, value in request.args.items() if name.lower() not in _SIGNING
    }
    meta: dict[str, str] = {}
    for name, value in ((name.lower(), value) for name, value in request.headers):
        if name.startswith(_META):
            meta[name.removeprefix(_META)] = value
        elif name in _HEADERS or (name.startswith("x-oss-") and name not in _SIGNING):
            members[name] = value
    return {**members, "x-oss-meta": meta} if meta else members


def check_emulated(asked: Asked) -> None:
    """Refuses an operation that is not emulated, and the first member that is not honoured.

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

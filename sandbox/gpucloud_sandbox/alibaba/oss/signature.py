"""OSS's signatures: versions 4 and 1, in the header or in the URL, and that of S3, in the header.

Source: OSS developer reference, "Include a V4 signature", "Include a V1 signature", each in headers and URLs;
"Accessing OSS with the AWS SDK", by which OSS takes no chunked bodies. S3 API Reference, "Signature
Calculations for the Authorization Header". UNVERIFIED: that S3's signature may carry a temporary token;
clients that send it so are in use (github.com/pingcap/tidb/issues/52349).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import quote

from werkzeug.wrappers import Request

from gpucloud_sandbox.alibaba.signature import OLDEST, Credential
from gpucloud_sandbox.alibaba.wire import AlibabaError

_V4 = re.compile(
    r"OSS4-HMAC-SHA256 Credential=([^,/]+)/(\d{8})/([^,/]*)/oss/aliyun_v4_request"
    r"(?:, *AdditionalHeaders=([^,]*))?, *Signature=([0-9a-f]{64})"
)
_V1 = re.compile(r"OSS ([^:]+):(\S+)")
_S3 = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^,/]+)/(\d{8})/([^,/]*)/s3/aws4_request"
    r", *SignedHeaders=([^,]+), *Signature=([0-9a-f]{64})"
)
_STAMP = "%Y%m%dT%H%M%SZ"
_DEFAULT = ("content-type", "content-md5")
"""Headers that version 4 signs wherever they are there, besides ``x-oss-*``."""

_SUBRESOURCES = frozenset(
    {
        "acl",
        "bucketInfo",
        "continuation-token",
        "delete",
        "location",
        "objectMeta",
        "partNumber",
        "response-cache-control",
        "response-content-disposition",
        "response-content-encoding",
        "response-content-language",
        "response-content-type",
        "response-expires",
        "security-token",
        "stat",
        "tagging",
        "uploadId",
        "uploads",
        "versionId",
        "versioning",
        "versions",
    }
)
"""Parameters that version 1 signs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signed:
    """What a signature says: by whom, when, until when, where, and the text that it is of."""

    key: str
    token: str
    given: str
    text: str
    at: datetime | None
    ends: datetime | None = None
    region: str = ""
    scope: str = ""
    """Date, region, service and terminator, by which version 4's key is derived; version 1 has none."""
    prefix: str = "aliyun_v4"


def verify(
    request: Request, credentials: Mapping[str, Credential], *, now: datetime, unmoved: datetime
) -> tuple[str, Credential]:
    """The region that a request was signed for (version 1 names none), and whose signature it is.

    Args:
        request: the request.
        credentials: the account's, by key.
        now: the clouds' time, by which tokens end.
        unmoved: the time that the caller's clock should show.

    Raises:
        AlibabaError: it is not signed, wrongly, too old, or not valid any more.
    """
    signed = _read(request)
    credential = credentials.get(signed.key)
    if credential is None:
        raise _denied(
            "InvalidAccessKeyId", "The OSS Access Key Id you provided does not exist in our records."
        )
    if not hmac.compare_digest(_signature(signed, credential.secret), signed.given):
        text = "The request signature we calculated does not match the signature you provided."
        raise _denied("SignatureDoesNotMatch", text)
    # AWS's SDKs follow the clock that the answers show, which is the clouds'
    if signed.at is not None and all(abs(signed.at - clock) > OLDEST for clock in (now, unmoved)):
        text = "The difference between the request time and the current time is too large."
        raise _denied("RequestTimeTooSkewed", text)
    if signed.ends is not None and signed.ends <= unmoved:
        raise _denied("AccessDenied", "Request has expired.")
    if signed.token != credential.token:
        raise _denied("InvalidAccessKeyId", "The security token you provided is invalid.")  # UNVERIFIED
    if credential.until is not None and credential.until <= now:
        raise _denied("SecurityTokenExpired", "The security token you provided has expired.")
    return signed.region, credential


def _denied(code: str, message: str) -> AlibabaError:
    return AlibabaError(code, message, 403)


def _read(request: Request) -> _Signed:
    header, query = request.headers.get("Authorization", ""), request.args
    try:
        if found := _V4.fullmatch(header):
            return _fourth(request, found, request.headers["x-oss-date"])
        if found := _S3.fullmatch(header):
            return _s3(request, found, request.headers["x-amz-date"])
        if "x-oss-signature" in query:
            return _fourth_of_url(request)
        if found := _V1.fullmatch(header):
            moment = request.headers.get("x-oss-date") or request.headers["Date"]
            return _first(request, found[1], found[2], moment, at=parsedate_to_datetime(moment))
        if "OSSAccessKeyId" in query:
            ends = datetime.fromtimestamp(int(query["Expires"]), UTC)
            return _first(request, query["OSSAccessKeyId"], query["Signature"], query["Expires"], ends=ends)
    except (KeyError, ValueError, TypeError):  # BadRequestKeyError is a KeyError
        text = "The authorization or the time of the request is invalid."
        raise AlibabaError("InvalidArgument", text) from None
    raise _denied("AccessDenied", "You have no right to access this object: the request is not signed.")


def _fourth(request: Request, found: re.Match[str], stamp: str, *, expires: str | None = None) -> _Signed:
    key, date, region, additional, given = found.groups()
    at = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    scope = f"{date}/{region}/oss/aliyun_v4_request"
    canonical = _canonical(request, additional or "")
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    token = request.headers.get("x-oss-security-token") or request.args.get("x-oss-security-token", "")
    return _Signed(
        key=key,
        token=token,
        given=given,
        text=f"OSS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}",
        at=at if expires is None else None,
        ends=None if expires is None else at + timedelta(seconds=int(expires)),
        region=region,
        scope=scope,
    )


def _s3(request: Request, found: re.Match[str], stamp: str) -> _Signed:
    key, date, region, names, given = found.groups()
    payload = request.headers["x-amz-content-sha256"]
    if payload.startswith("STREAMING-"):
        text = "aws-chunked encoding is not supported with the specified x-amz-content-sha256 value."
        raise AlibabaError("InvalidArgument", text)
    needed = {name.lower() for name, _ in request.headers if name.lower().startswith("x-amz-")} | {"host"}
    if needed - set(names.split(";")):
        raise ValueError(names)
    pairs = [pair.partition("=") for pair in request.query_string.decode("latin-1").split("&") if pair]
    canonical = "\n".join(
        (
            request.method,
            quote(request.path, safe="/"),
            "&".join(sorted(f"{name}={value}" for name, _, value in pairs)),
            "".join(f"{name}:{request.headers.get(name, '').strip()}\n" for name in names.split(";")),
            names,
            payload,
        )
    )
    scope = f"{date}/{region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return _Signed(
        key=key,
        token=request.headers.get("x-amz-security-token", ""),
        given=given,
        text=f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}",
        at=datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC),
        region=region,
        scope=scope,
        prefix="AWS4",
    )


def _fourth_of_url(request: Request) -> _Signed:
    query = request.args
    header = f"OSS4-HMAC-SHA256 Credential={query['x-oss-credential']}"
    if "x-oss-additional-headers" in query:
        header += f",AdditionalHeaders={query['x-oss-additional-headers']}"
    found = _V4.fullmatch(f"{header},Signature={query['x-oss-signature']}")
    if found is None:
        raise ValueError(header)
    return _fourth(request, found, query["x-oss-date"], expires=query["x-oss-expires"])


def _canonical(request: Request, additional: str) -> str:
    named = set(filter(None, additional.split(";")))
    headers = sorted(
        (name.lower(), value.strip())
        for name, value in request.headers
        if name.lower().startswith("x-oss-") or name.lower() in {*_DEFAULT, *named}
    )
    pairs = [pair.partition("=") for pair in request.query_string.decode("latin-1").split("&") if pair]
    query = sorted((name, value) for name, _, value in pairs if name != "x-oss-signature")
    return "\n".join(
        (
            request.method,
            quote(_resource(request), safe="/"),
            "&".join(f"{name}={value}" if value else name for name, value in query),
            "".join(f"{name}:{value}\n" for name, value in headers),
            additional,
            request.headers.get("x-oss-content-sha256", "UNSIGNED-PAYLOAD"),
        )
    )


def _first(
    request: Request,
    key: str,
    given: str,
    moment: str,
    *,
    at: datetime | None = None,
    ends: datetime | None = None,
) -> _Signed:
    headers = sorted(
        (name.lower(), value) for name, value in request.headers if name.lower().startswith("x-oss-")
    )
    query = sorted((name, value) for name, value in request.args.items() if name in _SUBRESOURCES)
    resource = _resource(request)
    if query:
        resource += "?" + "&".join(f"{name}={value}" if value else name for name, value in query)
    text = "\n".join(
        (
            request.method,
            request.headers.get("Content-MD5", ""),
            request.headers.get("Content-Type", ""),
            moment,
            "".join(f"{name}:{value}\n" for name, value in headers) + resource,
        )
    )
    token = request.headers.get("x-oss-security-token") or request.headers.get("security-token")
    return _Signed(
        key=key,
        token=token or request.args.get("security-token", ""),
        given=given,
        text=text,
        at=at,
        ends=ends,
    )


def _resource(request: Request) -> str:
    """The path of a request; that of a bucket ends with a slash."""
    bucket, slash, key = request.path.removeprefix("/").partition("/")
    return f"/{bucket}{slash}{key}" if slash or not bucket else f"/{bucket}/"


def _signature(signed: _Signed, secret: str) -> str:
    if not signed.scope:  # version 1
        digest = hmac.new(secret.encode(), signed.text.encode(), hashlib.sha1).digest()
        return base64.b64encode(digest).decode()
    key = f"{signed.prefix}{secret}".encode()
    for part in signed.scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, signed.text.encode(), hashlib.sha256).hexdigest()

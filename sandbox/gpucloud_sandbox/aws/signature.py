"""Signature version 4, in the header or in the query (presigned), verified with botocore's own signer."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPMessage
from typing import Any
from urllib.parse import parse_qsl

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from werkzeug.wrappers import Request

from gpucloud_sandbox.aws.callers import Caller
from gpucloud_sandbox.aws.s3_wire import path_of
from gpucloud_sandbox.aws.wire import AwsError, protocol_of
from gpucloud_sandbox.clock import Clock
from gpucloud_sandbox.connections import HEADERS

_ALGORITHM = "AWS4-HMAC-SHA256"
_SCOPE = r"(?P<key>[^/]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request"
_CREDENTIAL = re.compile(_SCOPE)
_AUTHORIZATION = re.compile(
    rf"{_ALGORITHM} Credential={_SCOPE}, ?"
    r"SignedHeaders=(?P<headers>[^,]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)
_UNSIGNED = "UNSIGNED-PAYLOAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What the signature of a request claims. ``expires_s`` is that of a presigned request."""

    key: str
    region: str
    service: str
    headers: tuple[str, ...]
    signature: str
    timestamp: str
    token: str
    expires_s: str = ""


def read(request: Request) -> Signed | None:
    """The claim of a request; ``None`` where it is not signed."""
    match = _AUTHORIZATION.fullmatch(request.headers.get("Authorization", ""))
    if match is not None:
        return Signed(
            key=match["key"],
            region=match["region"],
            service=match["service"],
            headers=tuple(match["headers"].split(";")),
            signature=match["signature"],
            timestamp=request.headers.get("X-Amz-Date", ""),
            token=request.headers.get("X-Amz-Security-Token", ""),
        )
    asked = request.args
    scope = _CREDENTIAL.fullmatch(asked.get("X-Amz-Credential", ""))
    if scope is None or asked.get("X-Amz-Algorithm") != _ALGORITHM:
        return None
    return Signed(
        key=scope["key"],
        region=scope["region"],
        service=scope["service"],
        headers=tuple(asked.get("X-Amz-SignedHeaders", "").split(";")),
        signature=asked.get("X-Amz-Signature", ""),
        timestamp=asked.get("X-Amz-Date", ""),
        token=asked.get("X-Amz-Security-Token", ""),
        expires_s=asked.get("X-Amz-Expires", "0"),
    )


def of_version_2(request: Request) -> bool:
    """Whether a request is presigned for S3 as before 2014, which S3 takes in its oldest regions alone."""
    return {"AWSAccessKeyId", "Signature", "Expires"} <= set(request.args)


def verify(
    request: Request,
    signed: Signed | None,
    caller: Caller | None,
    *,
    regions: Collection[str],
    clock: Clock,
) -> Caller:
    """The caller, if a request was signed with its key, for a region that exists.

    Args:
        request: what came in.
        signed: what it claims; ``None`` for nothing.
        caller: whose key it names; ``None`` for nobody's.
        regions: those that there are.
        clock: keys of sessions end by the clouds' time, presigned requests by the callers'.

    Raises:
        AwsError: it was not signed, with an unknown or ended key or another secret, or for too short a time.
    """
    if signed is None and of_version_2(request):
        text = "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."
        raise AwsError("InvalidRequest", text)
    if signed is None:
        raise AwsError("MissingAuthenticationToken", "Request is missing Authentication Token", 403)
    protocol = protocol_of(signed.service)
    if caller is None or not hmac.compare_digest(signed.token.encode(), caller.token.encode()):
        raise _unknown_caller(protocol, token=caller is not None and bool(signed.token))
    if caller.expired(clock.now()):
        raise _ended(protocol)
    if signed.region not in regions:
        text = f"Credential should be scoped to a valid region, not '{signed.region}'. "
        code = "InvalidSignatureException" if "json" in protocol else "SignatureDoesNotMatch"
        raise AwsError(code, text, 403)
    if not hmac.compare_digest(signed.signature.encode(), _expected(request, signed, caller).encode()):
        raise AwsError(
            "InvalidSignatureException" if "json" in protocol else "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. Check your AWS "
            "Secret Access Key and signing method. Consult the service documentation for details.",
            403,
        )
    if signed.expires_s and _end(signed) < clock.unmoved():
        code, status = ("AccessDenied", 403) if protocol == "rest-xml" else ("RequestExpired", 400)
        raise AwsError(code, f"Request has expired. It was valid for {signed.expires_s} s.", status)
    return caller


def _unknown_caller(protocol: str, *, token: bool) -> AwsError:
    """The refusal of a key that nobody has, or that came with a wrong token or without one."""
    match protocol:
        case "ec2":
            text = "AWS was not able to validate the provided access credentials"
            return AwsError("AuthFailure", text, 401)
        case "json" | "rest-json":
            text = "The security token included in the request is invalid."
            return AwsError("UnrecognizedClientException", text, 400)
        case "rest-xml" if token:
            return AwsError("InvalidToken", "The provided token is malformed or otherwise invalid.", 400)
        case "rest-xml":
            text = "The AWS Access Key Id you provided does not exist in our records."
            return AwsError("InvalidAccessKeyId", text, 403)
        case _:
            text = "The security token included in the request is invalid."
            return AwsError("InvalidClientTokenId", text, 403)


def _ended(protocol: str) -> AwsError:
    """The refusal of a session's key that has ended."""
    match protocol:
        case "ec2":
            return AwsError("RequestExpired", "Request has expired.")
        case "json" | "rest-json":
            text = "The security token included in the request is expired"
            return AwsError("ExpiredTokenException", text)
        case "rest-xml":
            return AwsError("ExpiredToken", "The provided token has expired.")
        case _:
            return AwsError("ExpiredToken", "The security token included in the request is expired", 403)


def _end(signed: Signed) -> datetime:
    try:
        began = datetime.strptime(signed.timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        return began + timedelta(seconds=int(signed.expires_s))
    except ValueError:
        raise AwsError("InvalidParameterValue", "X-Amz-Date or X-Amz-Expires is malformed") from None


class _Claimed(SigV4Auth):
    """The signer, for the headers that the client says it has signed, and for no others."""

    def headers_to_sign(self, request: Any) -> HTTPMessage:
        headers = HTTPMessage()
        for name, value in request.headers.items():
            headers[name.lower()] = value
        return headers


class _ClaimedOfStorage(_Claimed):
    """The same for S3, which signs paths as they are, and may leave bodies unsigned."""

    def _normalize_url_path(self, path: str) -> str:
        return path

    def payload(self, request: Any) -> str:
        return _UNSIGNED


def _expected(request: Request, signed: Signed, caller: Caller) -> str:
    query = dict(parse_qsl(request.query_string.decode(), keep_blank_values=True))
    query.pop("X-Amz-Signature", None)
    body = request.get_data(cache=True)
    storage = signed.service == "s3"
    sent_headers = {name.lower(): value for name, value in request.environ[HEADERS]}
    claim = AWSRequest(
        method=request.method,
        url=f"{request.host_url.rstrip('/')}{path_of(request)}" if storage else request.base_url,
        data=body,
        params=query,
        headers={name: sent_headers.get(name, "") for name in signed.headers},
    )
    sent = claim.headers.get("X-Amz-Content-SHA256")
    in_chunks = storage and (sent or "").startswith("STREAMING-")
    if not in_chunks and sent not in {None, _UNSIGNED, hashlib.sha256(body).hexdigest()}:
        text = "The provided 'x-amz-content-sha256' header does not match what was computed."
        raise AwsError("XAmzContentSHA256Mismatch", text)
    signing = _ClaimedOfStorage if storage else _Claimed
    signer = signing(Credentials(caller.key, caller.secret), signed.service, signed.region)
    claim.context["timestamp"] = signed.timestamp
    canonical = signer.canonical_request(claim)
    return str(signer.signature(signer.string_to_sign(claim, canonical), claim))

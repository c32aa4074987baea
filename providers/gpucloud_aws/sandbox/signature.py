"""Signature version 4, verified with botocore's own signer."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from werkzeug.wrappers import Request

from gpucloud_aws.sandbox.wire import AwsError

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, ?"
    r"SignedHeaders=(?P<headers>[^,]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What an ``Authorization`` header claims."""

    key: str
    region: str
    service: str
    headers: tuple[str, ...]
    signature: str


def read(request: Request) -> Signed | None:
    """The claim of a request; ``None`` where it is not signed."""
    match = _AUTHORIZATION.fullmatch(request.headers.get("Authorization", ""))
    if match is None:
        return None
    return Signed(
        key=match["key"],
        region=match["region"],
        service=match["service"],
        headers=tuple(match["headers"].split(";")),
        signature=match["signature"],
    )


def verify(request: Request, signed: Signed | None, *, key: str, secret: str) -> None:
    """Checks that a request was signed with this key.

    Raises:
        AwsError: it was not signed, with another key, or with another secret.
    """
    if signed is None:
        raise AwsError("MissingAuthenticationToken", "Request is missing Authentication Token", 403)
    if not hmac.compare_digest(signed.key, key):
        json_service = signed.service not in {"ec2", "sts"}
        code = "UnrecognizedClientException" if json_service else "AuthFailure"
        raise AwsError(code, "AWS was not able to validate the provided access credentials", 401)
    if not hmac.compare_digest(signed.signature, _expected(request, signed, key, secret)):
        raise AwsError(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. Check your AWS "
            "Secret Access Key and signing method. Consult the service documentation for details.",
            403,
        )


def _expected(request: Request, signed: Signed, key: str, secret: str) -> str:
    claim = AWSRequest(
        method=request.method,
        url=request.url,
        data=request.get_data(cache=True),
        headers={name: request.headers.get(name, "") for name in signed.headers},
    )
    signer = SigV4Auth(Credentials(key, secret), signed.service, signed.region)
    claim.context["timestamp"] = request.headers.get("X-Amz-Date", "")
    canonical = signer.canonical_request(claim)
    return str(signer.signature(signer.string_to_sign(claim, canonical), claim))

"""Both signature versions: ``ACS3-HMAC-SHA256`` in the headers, and HMAC-SHA1 among the parameters.

Source: Alibaba Cloud SDK reference, "Request syntax and signature method V3" and "... V2 (RPC)".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote

from werkzeug.wrappers import Request

from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.policy import Statement

OLDEST = timedelta(minutes=15)
_V3 = re.compile(r"ACS3-HMAC-SHA256 Credential=([^,]+),SignedHeaders=([^,]+),Signature=([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A key that the account has; ``token`` and ``until`` are of a temporary one.

    ``grants`` are the statements of policies, each of which must allow an action: those of a session's role,
    and of its session policy. A user has none, and may do what :mod:`.permissions` leaves them.
    """

    secret: str
    token: str = ""
    until: datetime | None = None
    grants: Sequence[Sequence[Statement]] = ()


class Signatures:
    """Checks signatures. Remembers nonces, so that no request counts twice."""

    def __init__(self) -> None:
        self._nonces: dict[str, datetime] = {}
        """When each was seen, oldest first."""
        self._lock = threading.Lock()

    def verify(
        self, request: Request, credentials: Mapping[str, Credential], *, now: datetime, unmoved: datetime
    ) -> str:
        """The id of the key that signed a request.

        Args:
            request: the request.
            credentials: the account's, by key.
            now: the clouds' time, by which tokens end.
            unmoved: the time that the caller's clock should show.

        Raises:
            AlibabaError: it is not signed, wrongly, too old, or was sent before.
        """
        header = request.headers.get("Authorization")
        key, nonce, moment, token = (
            _third(request, header, credentials) if header else _first(request, credentials)
        )
        self._check_moment(moment, unmoved)
        credential = credentials[key]
        if credential.token != token:
            raise AlibabaError("InvalidSecurityToken.Malformed", "Specified SecurityToken is malformed.")
        if credential.until is not None and credential.until <= now:
            raise AlibabaError("InvalidSecurityToken.Expired", "Specified SecurityToken is expired.")
        if not nonce:
            raise AlibabaError("MissingSignatureNonce", "SignatureNonce is mandatory for this action.")
        self._use(nonce, now)
        return key

    def _use(self, nonce: str, now: datetime) -> None:
        with self._lock:
            if nonce in self._nonces:
                raise AlibabaError("SignatureNonceUsed", "Specified signature nonce was used already.")
            while self._nonces and now - self._nonces[oldest := next(iter(self._nonces))] >= OLDEST:
                del self._nonces[oldest]
            self._nonces[nonce] = now

    def _check_moment(self, text: str, now: datetime) -> None:
        try:
            moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise AlibabaError(
                "InvalidTimeStamp.Format", "Specified time stamp is not well formatted."
            ) from None
        if abs(moment - now) > OLDEST:
            raise AlibabaError("InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")


Signed = tuple[str, str, str, str]
"""Key, nonce, time and security token."""


def _third(request: Request, header: str, credentials: Mapping[str, Credential]) -> Signed:
    match = _V3.fullmatch(header)
    if match is None:
        raise AlibabaError(
            "IncompleteSignature", "The request signature does not conform to Aliyun standards."
        )
    key, names, given = match.groups()
    body = request.get_data(cache=True)
    digest = request.headers.get("x-acs-content-sha256", "")
    if hashlib.sha256(body).hexdigest() != digest:
        raise AlibabaError(
            "InvalidContentSha256", "The hash of the body is not that of x-acs-content-sha256."
        )
    needed = {name.lower() for name, _ in request.headers if name.lower().startswith("x-acs-")} | {"host"}
    if needed - set(names.split(";")):
        raise AlibabaError(
            "IncompleteSignature", "The request signature does not conform to Aliyun standards."
        )
    pairs = parse_qsl(request.query_string.decode("latin-1"), keep_blank_values=True)
    query = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in sorted(pairs))
    headers = "".join(f"{name}:{request.headers.get(name, '').strip()}\n" for name in names.split(";"))
    canonical = "\n".join((request.method, request.path, query, headers, names, digest))
    text = f"ACS3-HMAC-SHA256\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    wanted = hmac.new(_secret(key, credentials).encode(), text.encode(), hashlib.sha256).hexdigest()
    _compare(wanted, given, canonical)
    return (
        key,
        request.headers.get("x-acs-signature-nonce", ""),
        request.headers.get("x-acs-date", ""),
        request.headers.get("x-acs-security-token", ""),
    )


def _first(request: Request, credentials: Mapping[str, Credential]) -> Signed:
    values = {**request.args.to_dict(), **request.form.to_dict()}
    if "AccessKeyId" not in values:
        raise AlibabaError("MissingAccessKeyId", "AccessKeyId is mandatory for this action.")
    given = values.pop("Signature", "")
    if not given:
        raise AlibabaError("MissingSignature", "Signature is mandatory for this action.")
    key = values["AccessKeyId"]
    query = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in sorted(values.items()))
    text = f"{request.method}&%2F&{_quoted(query)}"
    signed = hmac.new(f"{_secret(key, credentials)}&".encode(), text.encode(), hashlib.sha1).digest()
    _compare(base64.b64encode(signed).decode(), given, text)
    return key, values.get("SignatureNonce", ""), values.get("Timestamp", ""), values.get("SecurityToken", "")


def _secret(key: str, credentials: Mapping[str, Credential]) -> str:
    if key not in credentials:
        raise AlibabaError("InvalidAccessKeyId.NotFound", "Specified access key is not found.", 404)
    return credentials[key].secret


def _compare(wanted: str, given: str, text: str) -> None:
    if not hmac.compare_digest(wanted, given):
        raise AlibabaError(
            "SignatureDoesNotMatch",
            f"Specified signature does not match our calculation. server string to sign is:{text}",
        )


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")

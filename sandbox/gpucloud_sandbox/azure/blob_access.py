"""Who may do what with blobs: Shared Key, and shared access signatures.

Strings to sign: learn.microsoft.com, "Authorize with Shared Key", "Create a service SAS", "Create an account
SAS". Of signatures, those of version 2020-12-06 and later are known, those of user delegation too
(:mod:`gpucloud_sandbox.azure.blob_delegation`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from urllib.parse import unquote

from werkzeug.wrappers import Request

from gpucloud_sandbox.azure import blob_delegation
from gpucloud_sandbox.azure.blob_wire import Right, not_emulated
from gpucloud_sandbox.azure.subscription import Subscription
from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.database import Document

_SCHEMES = {"Bearer", "SharedKeyLite"}
"""What Azure takes beside Shared Key."""
_SIGNED_HEADERS = (
    *("Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type", "Date"),
    *("If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"),
)
_OF_ACCOUNT = ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses")
_OF_RESOURCE = ("si", "sip", "spr", "sv", "sr", "snapshot", "ses", "rscc", "rscd", "rsce", "rscl", "rsct")
_UNKNOWN = (
    *("si", "snapshot", "ses", "rscc", "rscd", "rsce", "rscl", "rsct"),
    *("saoid", "suoid", "scid", "skdutid", "sduoid"),
)
_MISMATCHES = {"ResourceType": "resource type", "SourceIP": "source IP"}
_FIRST_VERSION = "2020-12-06"


def check(subscription: Subscription, account: Document, request: Request, where: str, right: Right) -> None:
    """Passes a request that is signed with a key of the account, or by who has one.

    Args:
        subscription: the subscription.
        account: the account.
        request: the request.
        where: the container, and after a slash the blob.
        right: what it needs.

    Raises:
        AzureError: it is not signed, or the signature does not allow it.
    """
    given = request.headers.get("Authorization", "")
    query = dict(_parameters(request))
    if not given and "sig" not in query:
        text = "Server failed to authenticate the request: it is not signed."
        raise AzureError("NoAuthenticationInformation", text, 401)
    if account["properties"].get("allowSharedKeyAccess") is False and "skoid" not in query:
        text = "Key based authentication is not permitted on this storage account."
        raise AzureError("KeyBasedAuthenticationNotPermitted", text, 403)  # Azure/AI-Landing-Zones#64
    if given:
        _check_key(account, request, given)
    else:
        if request.args.get("comp") == "list":
            where = "/".join(filter(None, (where, request.args.get("prefix", "").rpartition("/")[0])))
        _check_signature(subscription, account, where, query)
        _check_use(subscription, request, query, right)


def _parameters(request: Request) -> list[tuple[str, str]]:
    """An address's members as they are signed: a plus sign is no blank."""
    pairs = (each.partition("=") for each in request.query_string.decode().split("&") if each)
    return [(unquote(name), unquote(value)) for name, _, value in pairs]


def _signed(account: Document, signature: str, text: str) -> bool:
    keys = (base64.b64decode(key) for key in account["_keys"].values())
    made = (base64.b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).decode() for key in keys)
    return signature in set(made)  # guessing by time is no threat on loopback


def _check_key(account: Document, request: Request, given: str) -> None:
    scheme, _, rest = given.partition(" ")
    if scheme in _SCHEMES:
        raise not_emulated(f"Authorization: {scheme}")
    name, _, signature = rest.partition(":")
    headers = {each: request.headers.get(each, "") for each in _SIGNED_HEADERS}
    if headers["Content-Length"] == "0":
        headers["Content-Length"] = ""
    own = {each.lower(): value for each, value in request.headers.items() if each.lower().startswith("x-ms-")}
    if "x-ms-date" in own:
        headers["Date"] = ""
    path = str(request.environ["RAW_URI"]).partition("?")[0]
    lines = [request.method, *headers.values()]
    lines += [f"{each}:{own[each].strip()}" for each in sorted(own)]
    lines += [f"/{account['name']}{path}"]
    values: dict[str, list[str]] = {}
    for parameter, value in _parameters(request):
        values.setdefault(parameter.lower(), []).append(value)
    lines += [f"{each}:{','.join(sorted(values[each]))}" for each in sorted(values)]
    if scheme != "SharedKey" or name != account["name"] or not _signed(account, signature, "\n".join(lines)):
        raise _unauthentic("the MAC signature found in the HTTP request is not the same as any computed one")


def _unauthentic(why: str) -> AzureError:
    text = (
        "Server failed to authenticate the request. Make sure the value of Authorization header is formed "
        f"correctly including the signature: {why}."
    )
    return AzureError("AuthenticationFailed", text, 403)


def _check_signature(
    subscription: Subscription, account: Document, where: str, query: Mapping[str, str]
) -> None:
    """Passes a good signature. ``where`` has the folder of a list's prefix behind its container."""
    for name in _UNKNOWN:
        if name in query:
            what = f"shared access signatures with {name}"
            raise not_emulated(what, "UnsupportedQueryParameter")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", query.get("sv", "")) or query["sv"] < _FIRST_VERSION:
        raise _unauthentic(f"its version sv={query.get('sv')} is before {_FIRST_VERSION}")
    if "skoid" in query:
        if not blob_delegation.fits(subscription, account, where, query):
            raise _unauthentic("Signature did not match")
        return
    if "ss" in query:
        lines = [account["name"], *(query.get(name, "") for name in _OF_ACCOUNT), ""]
    else:
        of = where.partition("/")[0] if query.get("sr") == "c" else where
        begin = [query.get(name, "") for name in ("sp", "st", "se")]
        lines = [*begin, f"/blob/{account['name']}/{of}", *(query.get(name, "") for name in _OF_RESOURCE)]
    if not _signed(account, query["sig"], "\n".join(lines)):
        raise _unauthentic("Signature did not match")


def _check_use(subscription: Subscription, request: Request, query: Mapping[str, str], right: Right) -> None:
    """Whether a good signature allows this: now, from here, of this."""
    now = subscription.now
    begins, ends = query.get("st"), query.get("se", "")
    if (begins and _time(begins) > now) or _time(ends) <= now:
        raise _unauthentic(f"Signature not valid in the specified time frame: {begins} to {ends}")
    if "https" not in query.get("spr", "https") or (
        request.scheme != "https" and query.get("spr") == "https"
    ):
        raise _not_allowed("Protocol")
    if "sip" in query and not _is_from(subscription.world.dials.caller_address, query["sip"]):
        raise _not_allowed("SourceIP")
    if "ss" in query:
        if "b" not in query["ss"]:
            raise _not_allowed("Service")
        if right.level not in query.get("srt", ""):
            raise _not_allowed("ResourceType")
    elif query.get("sr") not in ({"c", "b", "d"} if "skoid" in query else {"c", "b"}) or right.level == "s":
        raise _not_allowed("ResourceType")
    if not set(right.any_of) & set(query.get("sp", "")):
        raise _not_allowed("Permission")


def _not_allowed(what: str) -> AzureError:
    """The refusal of a use that a signature is not for.

    Source: learn.microsoft.com, "Shared access signature error codes".
    """
    words = _MISMATCHES.get(what, what.lower())
    text = f"This request is not authorized to perform this operation using this {words}."
    return AzureError(f"Authorization{what}Mismatch", text, 403)


def _time(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise _unauthentic(f"{text} is no time") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _is_from(caller: str, allowed: str) -> bool:
    first, _, last = allowed.partition("-")
    return ip_address(first) <= ip_address(caller) <= ip_address(last or first)  # type: ignore[operator]

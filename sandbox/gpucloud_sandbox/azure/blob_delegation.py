"""User delegation: keys that a signed-in caller gets, and the shared access signatures made with them.

Source: learn.microsoft.com, "Get User Delegation Key" and "Create a user delegation SAS". Signatures of a
container, a blob, and a directory of an account with a hierarchical namespace are known.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.azure import permissions
from gpucloud_sandbox.azure.entra import TENANT
from gpucloud_sandbox.azure.subscription import Subscription
from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.database import Document

OPERATION = "Get User Delegation Key"
AUDIENCE = "https://storage.azure.com"
ACTION = "Microsoft.Storage/storageAccounts/blobServices/generateUserDelegationKey/action"
LONGEST = timedelta(days=7)
KEY = ("skoid", "sktid", "skt", "ske", "sks", "skv")
"""The members of a signature that name its key."""
_BEGIN = ("sp", "st", "se")
_DELEGATED_FROM = "2025-07-05"
"""From this version on, a signature says whom it is for."""
_BOUND_FROM = "2026-02-06"
"""From this version on, a signature may be bound to headers and parameters; UNVERIFIED: the first version."""
_SETTING = "azure_delegation"


def give_key(subscription: Subscription, account: Document, request: Request, caller: str) -> Response:
    """A key for the caller, for the time that is asked for.

    Raises:
        AzureError: the caller may not have one, or the time is malformed or too long.
    """
    permissions.check(subscription, ACTION, account["id"])
    try:  # it comes from this machine, by whoever holds the sandbox's key
        asked = ElementTree.fromstring(request.get_data())  # noqa: S314
        begins, ends = (asked.findtext(name) or "" for name in ("Start", "Expiry"))
        lasts = _time(ends) - max(_time(begins) if begins else subscription.now, subscription.now)
    except (ElementTree.ParseError, ValueError):
        raise AzureError("InvalidXmlDocument", "XML specified is not syntactically valid.") from None
    if not timedelta() < lasts <= LONGEST:
        raise AzureError("InvalidXmlNodeValue", "The value for one of the XML nodes is out of range.")
    values = (caller, TENANT, begins or ends, ends, "b", request.headers.get("x-ms-version", ""))
    names = ("SignedOid", "SignedTid", "SignedStart", "SignedExpiry", "SignedService", "SignedVersion")
    members = {**dict(zip(names, values, strict=True)), "Value": _key(subscription, values)}
    body = "".join(f"<{name}>{value}</{name}>" for name, value in members.items())
    text = f'<?xml version="1.0" encoding="utf-8"?><UserDelegationKey>{body}</UserDelegationKey>'
    return Response(text, content_type="application/xml")


def fits(subscription: Subscription, account: Document, where: str, query: Mapping[str, str]) -> bool:
    """Whether a signature is that of a delegation key, over these members and this place.

    Args:
        subscription: the subscription.
        account: the account.
        where: the container, and after a slash the blob, or the folder of a list.
        query: the members of the address.
    """
    resource = _resource(account, where, query)
    if resource is None or _time(query.get("ske", "")) <= subscription.now:
        return False
    lines = [*(query.get(name, "") for name in _BEGIN), f"/blob/{account['name']}/{resource}"]
    lines += [query.get(name, "") for name in _members(query.get("sv", ""))]
    key = base64.b64decode(_key(subscription, [query.get(name, "") for name in KEY]))
    signature = base64.b64encode(hmac.digest(key, "\n".join(lines).encode(), hashlib.sha256)).decode()
    return hmac.compare_digest(signature, query["sig"])


def _members(version: str) -> Sequence[str]:
    """The names of the signed members behind the resource, in the order of a version."""
    whom = ("skdutid", "sduoid") if version >= _DELEGATED_FROM else ()
    bound = ("srh", "srq") if version >= _BOUND_FROM else ()
    names = (*KEY, "saoid", "suoid", "scid", *whom, "sip", "spr", "sv", "sr", "snapshot", "ses", *bound)
    return (*names, "rscc", "rscd", "rsce", "rscl", "rsct")


def _resource(account: Document, where: str, query: Mapping[str, str]) -> str | None:
    """What a signature is for: the container, the blob, or the directory of what is asked for."""
    container, _, path = where.partition("/")
    match query.get("sr"):
        case "c":
            return container
        case "b":
            return where
        case "d" if account["properties"].get("isHnsEnabled") and query.get("sdd", "").isdecimal():
            folders, depth = path.split("/"), int(query["sdd"])
            return "/".join([container, *folders[:depth]]) if len(folders) >= depth else None
        case _:
            return None


def _key(subscription: Subscription, values: Sequence[str]) -> str:
    """A key is a function of what it is for, so that none need be kept."""
    secret = subscription.world.database.setting(_SETTING)
    if secret is None:
        secret = subscription.world.token(64)
        subscription.world.database.keep_setting(_SETTING, secret)
    made = hmac.digest(str(secret).encode(), "\n".join(values).encode(), hashlib.sha256)
    return base64.b64encode(made).decode()


def _time(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    return when if when.tzinfo else when.replace(tzinfo=UTC)

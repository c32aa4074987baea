"""The blob service of a storage account: containers, block blobs, block lists, ranges and conditions.

It answers at ``ORIGIN/ACCOUNT/CONTAINER/BLOB``, as Azure's own emulator does. Codes: learn.microsoft.com,
"Blob Storage error codes". Contents are files of the sandbox's folder, named by their digest, until a reset.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from werkzeug.wrappers import Request, Response

from gpucloud.sandbox.database import Document
from gpucloud_azure.sandbox import blob_access, blob_lists, blob_objects, members, storage
from gpucloud_azure.sandbox.blob_access import Right
from gpucloud_azure.sandbox.blob_place import Place, done, metadata
from gpucloud_azure.sandbox.storage import BLOB, BLOCKS, CONTAINER
from gpucloud_azure.sandbox.subscription import Subscription
from gpucloud_azure.sandbox.wire import AzureError

OPERATIONS: Mapping[tuple[str, int, str], tuple[str, Right]] = {
    ("GET", 0, "list"): ("List Containers", Right(level="s", any_of="l")),
    ("PUT", 1, ""): ("Create Container", Right(level="c", any_of="cw")),
    ("GET", 1, ""): ("Get Container Properties", Right(level="c", any_of="r")),
    ("HEAD", 1, ""): ("Get Container Properties", Right(level="c", any_of="r")),
    ("DELETE", 1, ""): ("Delete Container", Right(level="c", any_of="d")),
    ("GET", 1, "list"): ("List Blobs", Right(level="c", any_of="l")),
    ("PUT", 2, ""): ("Put Blob", Right(level="o", any_of="cw")),
    ("PUT", 2, "block"): ("Put Block", Right(level="o", any_of="cw")),
    ("PUT", 2, "blocklist"): ("Put Block List", Right(level="o", any_of="cw")),
    ("GET", 2, "blocklist"): ("Get Block List", Right(level="o", any_of="r")),
    ("PUT", 2, "metadata"): ("Set Blob Metadata", Right(level="o", any_of="w")),
    ("GET", 2, ""): ("Get Blob", Right(level="o", any_of="r")),
    ("HEAD", 2, ""): ("Get Blob Properties", Right(level="o", any_of="r")),
    ("DELETE", 2, ""): ("Delete Blob", Right(level="o", any_of="d")),
}
"""By method, depth of the path and ``comp``: the operation, and what it needs."""
_NAME = re.compile(r"[a-z0-9](?!.*--)[a-z0-9-]{1,61}[a-z0-9]")
_GOING_S = 30
"""For so long the name of a deleted container is not free ("Delete Container")."""


def target(subscription: Subscription, path: str) -> tuple[Document | None, list[str]]:
    """The account that a path names, and the names of container and blob."""
    name, *rest = path.lstrip("/").split("/", 2)
    return storage.find_account(subscription, name), [each for each in rest if each]


def operation(request: Request, names: list[str]) -> tuple[str, Right]:
    """Which operation a request is.

    Raises:
        AzureError: none that is emulated.
    """
    known = OPERATIONS.get((request.method, len(names), request.args.get("comp", "")))
    if known is None or (len(names) == 1) != (request.args.get("restype") == "container"):
        text = f"The gpucloud sandbox does not emulate {name_of(request, names)}"
        raise AzureError("UnsupportedOperation", text, 405)
    return known


def name_of(request: Request, names: list[str]) -> str:
    """A request's operation in words, also where it is not emulated."""
    comp = request.args.get("comp", "")
    known = OPERATIONS.get((request.method, len(names), comp))
    what = ("an account", "a container", "a blob")[len(names)]
    return known[0] if known else f"{request.method} of {what}" + (f" with comp={comp}" if comp else "")


def answer(subscription: Subscription, folder: Path, request: Request) -> Response:
    """Does what a request asks.

    Args:
        subscription: what is emulated.
        folder: of the contents.
        request: to an account.

    Raises:
        AzureError: Azure would refuse.
    """
    account, names = target(subscription, request.path)
    if account is None:
        raise AzureError("ResourceNotFound", "The specified resource does not exist.", 404)
    name, right = operation(request, names)
    here = Place(subscription, folder, account, names)
    if name in {"Put Blob", "Put Block List"} and here.blob:
        right = Right(level=right.level, any_of="w")
    blob_access.check(subscription, account, request, "/".join(names), right)
    members.check_blob(name, _options(request))
    return _HANDLERS[name](here, request)


def _options(request: Request) -> dict[str, Any]:
    """A request's members; names of metadata are the caller's own."""
    own = {each.lower(): value for each, value in request.headers.items()}
    asked = {
        each.replace("x-ms-meta-", "x-ms-meta."): value
        for each, value in own.items()
        if each.startswith(("x-ms-", "if-")) or each in {"range", "content-md5"}
    }
    query = {each: value for each, value in request.args.items() if value and each not in blob_access.SAS}
    return asked | query


# --- containers


def _list_containers(here: Place, request: Request) -> Response:
    found = storage.contents(here.subscription, CONTAINER, here.account["name"])
    return blob_lists.containers([each for each in found if not each["gone_until"]], request)


def _create_container(here: Place, request: Request) -> Response:
    if not _NAME.fullmatch(here.names[0]):
        raise AzureError("InvalidResourceName", "The specified resource name contains invalid characters.")
    old = here.subscription.all(CONTAINER).get(here.key)
    if old is not None and not old["gone_until"]:
        raise AzureError("ContainerAlreadyExists", "The specified container already exists.", 409)
    if old is not None and old["gone_until"] > here.subscription.stamp:
        raise AzureError("ContainerBeingDeleted", "The specified container is being deleted.", 409)
    return done(201, here.keep(CONTAINER, metadata=metadata(request), gone_until=""))


def _container_properties(here: Place, _request: Request) -> Response:
    return done(200, here.container, {"x-ms-lease-status": "unlocked", "x-ms-lease-state": "available"})


def _delete_container(here: Place, _request: Request) -> Response:
    found = here.container
    for kind in (BLOB, BLOCKS):
        for each in storage.contents(here.subscription, kind, here.account["name"]):
            if each["container"] == found["name"]:
                here.subscription.forget(kind, each["key"])
    here.subscription.keep(CONTAINER, here.key, {**found, "gone_until": here.subscription.later(_GOING_S)})
    storage.bill(here.subscription, here.account)
    return Response(status=202)


def _list_blobs(here: Place, request: Request) -> Response:
    name = here.container["name"]
    found = storage.contents(here.subscription, BLOB, here.account["name"])
    return blob_lists.blobs([each for each in found if each["container"] == name], request)


_HANDLERS: Mapping[str, Callable[[Place, Request], Response]] = {
    "List Containers": _list_containers,
    "Create Container": _create_container,
    "Get Container Properties": _container_properties,
    "Delete Container": _delete_container,
    "List Blobs": _list_blobs,
    **blob_objects.HANDLERS,
}


# --- the wire


def refuse(failure: AzureError, request_id: str, now: datetime) -> Response:
    """A refusal in the service's own XML."""
    words = f"{escape(failure.message)}\nRequestId:{request_id}\nTime:{now.isoformat()}"
    text = (
        '<?xml version="1.0" encoding="utf-8"?>'
        f"<Error><Code>{failure.code}</Code><Message>{words}</Message></Error>"
    )
    empty = failure.status == 304
    response = Response(b"" if empty else text, failure.status, content_type="application/xml")
    response.headers["x-ms-error-code"] = failure.code
    return response

"""The blob service of a storage account: containers, block blobs, block lists, ranges and conditions.

It answers at ``ORIGIN/ACCOUNT/CONTAINER/BLOB``, as Azure's own emulator does. Codes: learn.microsoft.com,
"Blob Storage error codes". Contents are files of the sandbox's folder, named by their digest, until a reset.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.azure import blob_access, blob_lists, blob_objects, blob_wire, storage
from gpucloud_sandbox.azure.blob_place import Place, done
from gpucloud_sandbox.azure.blob_wire import Right, metadata
from gpucloud_sandbox.azure.storage import BLOB, BLOCKS, CONTAINER
from gpucloud_sandbox.azure.subscription import Subscription
from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.database import Document

_NAME = re.compile(r"[a-z0-9](?!.*--)[a-z0-9-]{1,61}[a-z0-9]")
_GOING_S = 30
"""For so long the name of a deleted container is not free ("Delete Container")."""


def target(subscription: Subscription, path: str) -> tuple[Document | None, list[str]]:
    """The account that a path names, and the names of container and blob."""
    name, *rest = path.lstrip("/").split("/", 2)
    return storage.find_account(subscription, name), [each for each in rest if each]


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
    name, right = blob_wire.operation(request, names)
    here = Place(subscription, folder, account, names)
    if name in {"Put Blob", "Put Block List"} and here.blob:
        right = Right(level=right.level, any_of="w")
    blob_access.check(subscription, account, request, "/".join(names), right)
    blob_wire.check_emulated(name, request)
    return _HANDLERS[name](here, request)


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

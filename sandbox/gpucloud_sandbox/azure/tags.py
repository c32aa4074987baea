"""``Microsoft.Resources/tags/default`` of a resource or group: its tags as a resource of their own."""

from __future__ import annotations

from gpucloud_sandbox.azure import permissions, validation
from gpucloud_sandbox.azure.groups import check_tags
from gpucloud_sandbox.azure.resources import BILLED
from gpucloud_sandbox.azure.review import review_tags
from gpucloud_sandbox.azure.subscription import GROUP, Subscription, part
from gpucloud_sandbox.azure.wire import Answer, AzureError, Json
from gpucloud_sandbox.database import Document

SUFFIX = "/providers/microsoft.resources/tags/default"


def answer(subscription: Subscription, method: str, kind: str, id_: str, body: Json) -> Answer:
    """GET, PUT or PATCH of the tags of what ``id_`` names.

    Raises:
        AzureError: there is nothing of the kind, or the tags are not taken.
    """
    verb = "read" if method == "GET" else "write"
    permissions.check(subscription, f"Microsoft.Resources/tags/{verb}", id_)
    document = subscription.find(kind, id_)
    if document is None:
        raise AzureError("ResourceNotFound", f"The Resource '{id_}' was not found.", 404)
    if method != "GET":
        body = validation.read(f"{method} Microsoft.Resources/tags", body)
        tags = _changed(document.get("tags") or {}, method, body)
        check_tags({"tags": tags})
        if kind in BILLED:
            review_tags({"tags": tags}, "what is billed")
        document = subscription.put(kind, {**document, "tags": tags})
    return Answer(body=_shown(document))


def _changed(tags: dict[str, str], method: str, body: Json) -> dict[str, str]:
    given: dict[str, str] = part(body, "properties", "tags")
    operation = "Replace" if method == "PUT" else body.get("operation")
    match operation:
        case "Replace":
            return given
        case "Merge":
            named = {key.lower() for key in given}
            return {**{key: value for key, value in tags.items() if key.lower() not in named}, **given}
        case "Delete":
            return {key: value for key, value in tags.items() if given.get(key) != value}
        case _:
            raise AzureError("InvalidTagsOperation", f"The operation '{operation}' is not valid.")


def _shown(document: Document) -> Document:
    return {
        "id": f"{document['id']}/providers/Microsoft.Resources/tags/default",
        "name": "default",
        "type": "Microsoft.Resources/tags",
        "properties": {"tags": document.get("tags") or {}},
    }


def target(path: str, kind: str, id_: str) -> tuple[str, str]:
    """The type and id of what a path's tags are of: a resource, or its group."""
    return (kind, id_) if id_ else (GROUP, path[: -len(SUFFIX)])

"""Parts of a resource that can be put, read and deleted like resources: subnets and rules."""

from __future__ import annotations

import copy

from gpucloud_sandbox.azure import operations, reservations, resources, validation
from gpucloud_sandbox.azure.subscription import FIREWALL, NETWORK, RESERVATIONS, Subscription, part
from gpucloud_sandbox.azure.wire import Answer, AzureError, Json
from gpucloud_sandbox.database import Document

PARTS = {(NETWORK, "subnets"): "subnets", (FIREWALL, "securityrules"): "securityRules"}
"""By type and word of the path: the member that they are in."""


def owner(subscription: Subscription, kind: str, id_: str) -> Document:
    """The resource that something is part of.

    Raises:
        AzureError: there is none.
    """
    document = subscription.find(kind, id_)
    if document is None:
        raise AzureError("ResourceNotFound", f"The Resource '{id_}' was not found.", 404)
    return document


def look(subscription: Subscription, document: Document, below: list[str]) -> Answer:
    """GET of all parts, or of one.

    Args:
        subscription: the subscription.
        document: what they are part of.
        below: the word of the path, and a name.

    Raises:
        AzureError: there is nothing of the kind.
    """
    if document["type"] == RESERVATIONS and below[0] == "capacityreservations":
        found = reservations.listed(subscription, document)
    else:
        found = _parts(document, below[0])
    if len(below) == 1:
        return Answer(body={"value": found})
    one = next((each for each in found if each["name"].lower() == below[1].lower()), None)
    if one is None:
        raise AzureError("NotFound", f"Resource {document['id']}/{'/'.join(below)} was not found.", 404)
    return Answer(body=one)


def put(subscription: Subscription, document: Document, below: list[str], body: Json, origin: str) -> Answer:
    """PUT of a part: the whole is held to its rules."""
    word, name = below
    old = [each for each in _parts(document, word) if each["name"].lower() == name.lower()]
    call = f"PUT {document['type']}/{PARTS[document['type'], word]}"
    read = validation.read(call, body, again=bool(old))
    whole = _change(subscription, document, word, name, {**read, "name": name})
    made = _parts(whole, word)[-1]
    headers = operations.begin(subscription, origin, whole, "done", located=False)
    return Answer(status=200 if old else 201, body=made, headers=headers)


def delete(subscription: Subscription, document: Document, below: list[str], origin: str) -> Answer:
    """DELETE of a part."""
    word, name = below
    if not any(each["name"].lower() == name.lower() for each in _parts(document, word)):
        return Answer(status=204)
    whole = _change(subscription, document, word, name, None)
    return Answer(status=202, headers=operations.begin(subscription, origin, whole, "done", located=True))


def _parts(document: Document, word: str) -> list[Document]:
    member = PARTS.get((document["type"], word))
    if member is None:
        text = f"The gpucloud sandbox does not emulate {document['type']}/{word}."
        raise AzureError("UnsupportedOperation", text, 405)
    return list[Document](part(document, "properties").get(member) or ())


def _change(
    subscription: Subscription, document: Document, word: str, name: str, child: Json | None
) -> Document:
    kind: str = document["type"]
    whole = copy.deepcopy(document)
    others = [each for each in _parts(whole, word) if each["name"].lower() != name.lower()]
    whole["properties"][PARTS[kind, word]] = others + ([child] if child else [])
    resources.MAKES[kind](subscription, whole, whole)
    return subscription.put(kind, whole)

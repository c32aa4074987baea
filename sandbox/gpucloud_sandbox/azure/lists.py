"""Lists of resources and groups: of one type, of all types in short, by tag."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gpucloud_sandbox.azure import instances, permissions, views
from gpucloud_sandbox.azure.foreign import scale_sets
from gpucloud_sandbox.azure.groups import group_of
from gpucloud_sandbox.azure.subscription import (
    GROUP,
    MACHINE,
    SCALE_SET,
    Subscription,
    canonical,
    is_nested,
    shown,
    tags_of,
)
from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.database import Document

SHORT: tuple[str, ...] = ("id", "name", "type", "location", "tags", "sku", "zones")
"""What a list of all types shows of a resource."""

Test = Callable[[Document], bool]

_TERM = re.compile(r"\s*(\w+) eq '((?:[^']|'')*)'\s*")


def hides(subscription: Subscription, document: Document) -> bool:
    """Whether a read does not see a machine yet. Each read counts."""
    if document.get("_hidden_reads", 0) > 0:
        subscription.put(MACHINE, {**document, "_hidden_reads": document["_hidden_reads"] - 1})
        return True
    return bool(document.get("_visible_at", "") > subscription.stamp)


def condition(text: str) -> Test:
    """What a ``$filter`` lets through: equalities, all of which must hold. Members' names have no case.

    A tag is one name and at most one value, and goes with nothing else (Resource Manager's own rule).

    Raises:
        AzureError: it is another one.
    """
    if not text:
        return lambda _: True
    terms: dict[str, str] = {}
    for word in re.split(r" and (?=\w+ eq ')", text):
        match = _TERM.fullmatch(word)
        if match is None or match[1].lower() in terms:
            raise _invalid(text)
        terms[match[1].lower()] = match[2].replace("''", "'")
    if "tagname" in terms:
        if set(terms) - {"tagname", "tagvalue"}:
            raise _invalid(text)
        return _tagged(terms["tagname"].lower(), terms.get("tagvalue"))
    if set(terms) - {"resourcetype", "resourcegroup", "location", "name"}:
        raise _invalid(text)
    return lambda document: all(_member(document, name) == value.lower() for name, value in terms.items())


def _invalid(text: str) -> AzureError:
    return AzureError(
        "InvalidFilterInQueryString", f"Invalid $filter '{text}' specified in the query string."
    )


def _tagged(name: str, value: str | None) -> Test:
    def fits(document: Document) -> bool:
        tags = tags_of(document)
        return name in tags and value in {None, tags[name]}

    return fits


def _member(document: Document, name: str) -> str:
    if name == "resourcegroup":
        return str(document["id"]).split("/")[4].lower()
    return str(document["type" if name == "resourcetype" else name]).lower()


def list_groups(subscription: Subscription, query: Mapping[str, str]) -> list[Document]:
    """The resource groups; none for who may not read them."""
    if not permissions.allows(subscription, "Microsoft.Resources/subscriptions/resourceGroups/read"):
        return []
    fits = condition(query.get("$filter", ""))
    return [shown(group) for group in subscription.all(GROUP).values() if fits(group)]


def list_resources(subscription: Subscription, query: Mapping[str, str], group: str | None) -> list[Document]:
    """Resources of all types, in short; only those that the caller may read.

    A list that is filtered by tag is without the resources' tags (azure-mgmt-resource, docstring of
    ``resources.list``; azure-rest-api-specs#3819).
    """
    filtered = query.get("$filter", "")
    fits = condition(filtered)
    by_tag = filtered.lower().lstrip().startswith("tagname")
    members = [name for name in SHORT if not (by_tag and name == "tags")]
    wanted = set(query.get("$expand", "").split(","))
    head = f"{canonical(group_of(subscription, group)['id'])}/" if group else ""
    found: list[Document] = []
    for kind, each in subscription.everything():
        if (
            is_nested(each)
            or not canonical(each["id"]).startswith(head)
            or not fits(each)
            or hides(subscription, each)
        ):
            continue
        if not permissions.allows(subscription, f"{kind}/read"):
            continue
        entry: Document = {name: value for name, value in each.items() if name in members}
        entry["name"] = full_name(each)
        created = each.get("_created") or each["properties"].get("timeCreated", subscription.moment)
        if "createdTime" in wanted:
            entry["createdTime"] = created
        if "changedTime" in wanted:
            entry["changedTime"] = created
        if "provisioningState" in wanted:
            entry["provisioningState"] = each["properties"].get("provisioningState", "Succeeded")
        if each.get("managedBy"):
            entry["managedBy"] = each["managedBy"]
        found.append(entry)
    return found


def full_name(document: Document) -> str:
    """The name of a resource in a list of all types: with the names of those that it is in."""
    return "/".join(str(document["id"]).partition("/providers/")[2].split("/")[2::2])


def list_of(subscription: Subscription, kind: str, scope: str, query: Mapping[str, str]) -> list[Document]:
    """The resources of one type, in a group or another resource by its id, or in the subscription."""
    head = f"{canonical(scope)}/" if scope else ""
    view = query.get("statusOnly") == "true" or query.get("$expand", "").lower() == "instanceview"
    return [
        _seen(subscription, each, view=view)
        for each in list(subscription.all(kind).values())
        if canonical(each["id"]).startswith(head) and not is_nested(each) and not hides(subscription, each)
    ]


def _seen(subscription: Subscription, document: Document, *, view: bool) -> Document:
    if document["type"] == MACHINE:
        return instances.show(document, view=view)
    if document["type"] == SCALE_SET:
        return scale_sets.show(subscription, document)
    return views.seen(subscription, document)

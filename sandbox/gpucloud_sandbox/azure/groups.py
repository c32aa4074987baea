"""Resource groups, and what is the same for all bodies: tags."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpucloud_sandbox.azure import image_versions, instances, network, storage, validation
from gpucloud_sandbox.azure.places import check_location
from gpucloud_sandbox.azure.subscription import (
    ACCOUNT,
    ADDRESS,
    DEPLOYMENT,
    GROUP,
    MACHINE,
    NIC,
    SUBSCRIPTION,
    VERSION,
    Subscription,
    canonical,
    shown,
)
from gpucloud_sandbox.azure.wire import Answer, AzureError, Json

API = "2025-04-01"
NAME = re.compile(r"[\w.()-]{1,90}", re.ASCII)


def check_tags(body: Json) -> None:
    """Refuses tags that Azure does not take."""
    tags: Mapping[str, str] = body.get("tags") or {}
    if len(tags) > 50:
        raise AzureError("InvalidTags", "A resource has at most 50 tags.")
    if len({key.lower() for key in tags}) < len(tags):
        raise AzureError("InvalidTags", "Two tags differ by their case only.")
    for key, value in tags.items():
        if not 0 < len(key) <= 512 or set(key) & set("<>%&\\?/") or len(str(value)) > 256:
            raise AzureError("InvalidTagNameCharacters", f"The tag '{key}' is not valid.")


def put_group(subscription: Subscription, name: str, body: Json) -> Answer:
    """PUT of a resource group."""
    id_ = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}"
    old = subscription.find(GROUP, id_) if NAME.fullmatch(name) else None
    body = validation.read(f"PUT {GROUP}", body, again=old is not None)
    check_tags(body)
    location = check_location(subscription, body.get("location"))
    if not NAME.fullmatch(name) or name.endswith("."):
        raise AzureError("InvalidResourceGroup", f"The provided resource group name '{name}' is not valid.")
    if old is not None and old["location"] != location:
        text = (
            f"Invalid resource group location '{location}'. The Resource group already exists in location "
            f"'{old['location']}'."
        )
        raise AzureError("InvalidResourceGroupLocation", text, 409)
    if old is not None and old["_gone_at"]:
        raise being_deleted(name)
    group = subscription.put(
        GROUP,
        {
            "id": old["id"] if old else id_,
            "name": old["name"] if old else name,
            "type": GROUP,
            "location": location,
            "tags": body.get("tags") or {},
            "properties": {"provisioningState": "Succeeded"},
            "_gone_at": None,
            "_created": old["_created"] if old else subscription.moment,
        },
    )
    return Answer(status=200 if old else 201, body=shown(group))


def patch_group(subscription: Subscription, name: str, body: Json) -> Answer:
    """PATCH of a resource group: its tags."""
    body = validation.read(f"PATCH {GROUP}", body)
    check_tags(body)
    group = group_of(subscription, name)
    return Answer(body=shown(subscription.put(GROUP, {**group, "tags": body.get("tags", group["tags"])})))


def group_of(subscription: Subscription, name: str) -> Json:
    """A resource group by name.

    Raises:
        AzureError: there is none.
    """
    group = subscription.find(GROUP, f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}")
    if group is None:
        raise AzureError("ResourceGroupNotFound", f"Resource group '{name}' could not be found.", 404)
    return group


def id_of(subscription: Subscription, name: str) -> str:
    """The id of a resource group; empty without a name.

    Raises:
        AzureError: there is none.
    """
    return str(group_of(subscription, name)["id"]) if name else ""


def being_deleted(name: str) -> AzureError:
    """What may not be done to a group that is going."""
    text = f"The resource group '{name}' is in deprovisioning state and cannot perform this operation."
    return AzureError("ResourceGroupBeingDeleted", text, 409)


def delete_group(subscription: Subscription, name: str, origin: str) -> Answer:
    """DELETE of a resource group: everything in it goes too."""
    group = group_of(subscription, name)
    if group["_gone_at"] is None:
        for kind, each in subscription.within(group["id"]):
            if kind == MACHINE:
                instances.delete(subscription, each, "deleted with its resource group")
        gone_at = subscription.later(subscription.transition_s)
        properties = {"provisioningState": "Deleting"}
        subscription.put(GROUP, {**group, "_gone_at": gone_at, "properties": properties})
    headers = {"Location": _result_url(origin, group["name"])}
    return Answer(status=202, headers=headers | ({"Retry-After": "1"} if subscription.transition_s else {}))


def group_result(subscription: Subscription, name: str, origin: str) -> Answer:
    """The state of the deletion of a resource group."""
    group = subscription.find(GROUP, f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}")
    if group is None:
        return Answer(status=200)
    return Answer(status=202, headers={"Location": _result_url(origin, name), "Retry-After": "1"})


def _result_url(origin: str, name: str) -> str:
    return f"{origin}/subscriptions/{SUBSCRIPTION}/operationresults/{name}?api-version={API}"


def settle(subscription: Subscription) -> None:
    """Groups that are due go, once their machines are gone, with all that is in them."""
    for group in list(subscription.all(GROUP).values()):
        if group["_gone_at"] is None or group["_gone_at"] > subscription.stamp:
            continue
        left = subscription.within(group["id"])
        if any(kind == MACHINE for kind, _ in left):
            continue
        for kind, each in left:
            if kind == NIC:
                network.end_nic(subscription, each)
        for kind, each in subscription.within(group["id"]):
            if kind == ADDRESS:
                network.end_address(subscription, each, "deleted with its resource group")
            elif kind == VERSION:
                image_versions.end_version(subscription, each, "deleted with its resource group")
            elif kind == ACCOUNT:
                storage.delete_account(subscription, each)
            else:
                subscription.end_billing(each, "deleted with its resource group")
                subscription.drop(kind, each["id"])
        for id_ in [
            id_ for id_ in subscription.all(DEPLOYMENT) if id_.startswith(canonical(group["id"]) + "/")
        ]:
            subscription.forget(DEPLOYMENT, id_)
        subscription.drop(GROUP, group["id"])

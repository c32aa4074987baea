"""Routes Resource Manager requests to their handlers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from werkzeug.wrappers import Request

from gpucloud_sandbox.azure import (
    api_versions,
    catalog,
    groups,
    instances,
    lists,
    machine_actions,
    members,
    operations,
    permissions,
    quotas,
    reserved,
    resources,
    roles,
    schedules,
    storage,
    tags,
)
from gpucloud_sandbox.azure.foreign import deployments, scale_set_parts, subresources
from gpucloud_sandbox.azure.machine_actions import Console, Exchange
from gpucloud_sandbox.azure.places import check_location, sizes_in
from gpucloud_sandbox.azure.review import review_action
from gpucloud_sandbox.azure.routes import Route, route
from gpucloud_sandbox.azure.subscription import (
    ACCOUNT,
    DEPLOYMENT,
    GROUP,
    MACHINE,
    SCALE_SET,
    SUBSCRIPTION,
    Subscription,
    shown,
)
from gpucloud_sandbox.azure.wire import Answer, AzureError, body_of
from gpucloud_sandbox.database import Document

PAGE = 500
_READ_PROVIDERS = "Microsoft.Resources/subscriptions/providers/read"
_TENANTS = {"capacity"}
"""Providers that no subscription registers."""


def endpoints(origin: str) -> Answer:
    """``/metadata/endpoints``."""
    return Answer(body=catalog.metadata_document(origin))


def answer(subscription: Subscription, request: Request, origin: str, console: Console) -> Answer:
    """Does what a request asks.

    Args:
        subscription: what is emulated.
        request: what was asked, by whoever has a token.
        origin: of the addresses in answers.
        console: returns the address of a box's console, which is valid for so many minutes.

    Raises:
        AzureError: Azure would refuse.
    """
    if "api-version" not in request.args:
        text = "The api-version query parameter (?api-version=) is required for all requests."
        raise AzureError("MissingApiVersionParameter", text)
    review_action(request.method, request.path)
    asked = route(request)
    words = [word for word in request.path.split("/") if word]
    if len(words) > 1 and words[0].lower() == "subscriptions":
        _check_subscription(words[1])
    if asked.namespace and asked.service not in _TENANTS:
        catalog.provider_document(subscription, asked.namespace)
    api_versions.check(subscription, request.args["api-version"], asked.call.partition(" ")[2])
    members.check(asked.call, request)
    if not words or words[0].lower() != "subscriptions":
        return _of_tenant(subscription, request, [word.lower() for word in words])
    if len(words) == 1:
        return Answer(body={"value": [catalog.subscription_document()]})
    if len(words) == 2:
        permissions.check(subscription, "Microsoft.Resources/subscriptions/read", request.path)
        return Answer(body=catalog.subscription_document())
    if request.path.lower().endswith(tags.SUFFIX):
        kind, id_ = tags.target(request.path, asked.kind, asked.id)
        return tags.answer(subscription, request.method, kind, id_, body_of(request))
    if asked.namespace:
        return _of_provider(subscription, asked, request, origin, console)
    return _of_manager(subscription, asked, request, origin)


def _of_tenant(subscription: Subscription, request: Request, words: list[str]) -> Answer:
    """What is of no subscription."""
    if words == ["tenants"]:
        return Answer(body={"value": [catalog.tenant_document()]})
    if tuple(words) == reserved.PATH and request.method == "GET":
        return _page(reserved.seen(subscription), request)
    raise _unknown(request)


def _check_subscription(id_: str) -> None:
    if id_.lower() == SUBSCRIPTION:
        return
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", id_):
        text = f"The provided subscription identifier '{id_}' is malformed or invalid."
        raise AzureError("InvalidSubscriptionId", text)
    text = f"The subscription '{id_}' could not be found."
    raise AzureError("SubscriptionNotFound", text, 404)


# --- Resource Manager's own


def _of_manager(subscription: Subscription, asked: Route, request: Request, origin: str) -> Answer:
    query = request.args.to_dict()
    if asked.kind == GROUP and asked.verb == "LIST":
        return _page(lists.list_groups(subscription, query), request)
    if asked.kind == GROUP:
        return _of_group(subscription, asked, request, origin)
    match asked.rest[0].lower():
        case "resources":
            return _page(lists.list_resources(subscription, query, asked.group or None), request)
        case "locations":
            return Answer(body={"value": catalog.locations(subscription)})
        case "providers":
            permissions.check(subscription, _READ_PROVIDERS, request.path)
            namespaces = permissions.NAMESPACES
            return _page([catalog.provider_document(subscription, each) for each in namespaces], request)
        case "operationresults":
            return groups.group_result(subscription, asked.rest[1], origin)
        case _:
            raise _unknown(request)


def _of_group(subscription: Subscription, asked: Route, request: Request, origin: str) -> Answer:
    verb = {"GET": "read", "HEAD": "read", "DELETE": "delete"}.get(request.method, "write")
    permissions.check(subscription, f"Microsoft.Resources/subscriptions/resourceGroups/{verb}", request.path)
    match request.method:
        case "PUT":
            return groups.put_group(subscription, asked.group, body_of(request))
        case "PATCH":
            return groups.patch_group(subscription, asked.group, body_of(request))
        case "GET":
            return Answer(body=shown(groups.group_of(subscription, asked.group)))
        case "HEAD":
            groups.group_of(subscription, asked.group)
            return Answer(status=204)
        case "DELETE":
            return groups.delete_group(subscription, asked.group, origin)
        case _:
            raise _unknown(request)


# --- resource providers


def _of_provider(
    subscription: Subscription, asked: Route, request: Request, origin: str, console: Console
) -> Answer:
    rest = [word.lower() for word in asked.rest]
    if not rest or rest == ["register"]:
        return _of_registration(subscription, asked, request)
    if asked.service == "resources" and rest[0] == "deployments":
        return _of_deployment(subscription, asked, request, origin)
    if asked.service == "authorization":
        return _of_authorization(subscription, asked, request)
    if asked.service == "features":
        return _of_features(subscription, asked, request)
    permissions.check_registered(subscription, asked.namespace)
    if asked.location or not asked.kind:
        return _of_place(subscription, asked, request)
    return _of_resource(subscription, asked, request, origin, console)


def _of_authorization(subscription: Subscription, asked: Route, request: Request) -> Answer:
    """``permissions``, or ``roleAssignments/NAME`` of a group."""
    if asked.rest[0].lower() == "permissions":
        permissions.check(subscription, "Microsoft.Authorization/permissions/read", request.path)
        return Answer(body={"value": [permissions.role(subscription)]})
    if not asked.group:
        raise _unknown(request)
    permissions.check(subscription, "Microsoft.Authorization/roleAssignments/write", request.path)
    scope = request.path.rpartition("/providers/")[0]
    return roles.assign(subscription, scope, request.path, body_of(request))


def _of_registration(subscription: Subscription, asked: Route, request: Request) -> Answer:
    """A provider's document; before that, with ``register``, its registration."""
    action = f"{asked.namespace}/register/action" if asked.rest else _READ_PROVIDERS
    permissions.check(subscription, action, request.path)
    if asked.rest:
        permissions.register(subscription, asked.namespace, registered=True)
    return Answer(body=catalog.provider_document(subscription, asked.namespace))


def _of_deployment(subscription: Subscription, asked: Route, request: Request, origin: str) -> Answer:
    """``deployments/NAME[/operationStatuses/ID]`` of a group."""
    words = [word for word in request.path.split("/") if word]
    id_ = f"/subscriptions/{words[1]}/resourceGroups/{asked.group}/providers/{DEPLOYMENT}/{asked.rest[1]}"
    verb = "write" if request.method == "PUT" else "read"
    permissions.check(subscription, f"{DEPLOYMENT}/{verb}", request.path)
    if request.method == "PUT":
        return deployments.put(subscription, id_, body_of(request), origin)
    if len(asked.rest) == 4:
        return deployments.status(subscription, id_)
    return deployments.get(subscription, id_)


def _of_features(subscription: Subscription, asked: Route, request: Request) -> Answer:
    """``features``, or ``providers/NAMESPACE/features/NAME[/register]``."""
    rest = [word.lower() for word in asked.rest]
    permissions.check(subscription, "Microsoft.Features/providers/features/read", request.path)
    if rest == ["features"] or (len(rest) == 3 and rest[2] == "features"):
        return _page(catalog.features(subscription), request)
    if len(rest) == 5 and rest[4] == "register" and request.method == "POST":
        permissions.check(subscription, "Microsoft.Features/providers/features/register/action", request.path)
        catalog.set_feature(subscription, asked.rest[3], registered=True)
    elif len(rest) != 4:
        raise _unknown(request)
    return Answer(body=catalog.feature(subscription, asked.rest[1], asked.rest[3]))


def _of_place(subscription: Subscription, asked: Route, request: Request) -> Answer:
    """What is asked of a region, or of the provider as a whole."""
    rest = [word.lower() for word in asked.rest]
    location = asked.location
    if rest[2:3] == ["operations"] and len(rest) == 4:
        return operations.outcome(subscription, asked.rest[3], monitor="monitor" in request.args)
    if asked.service == "compute":
        if rest == ["skus"]:
            permissions.check(subscription, "Microsoft.Compute/skus/read", request.path)
            return _page(catalog.skus(subscription, request.args.get("$filter", "")), request)
        if rest[2:] == ["usages"]:
            permissions.check(subscription, "Microsoft.Compute/locations/usages/read", request.path)
            sizes = sizes_in(subscription, check_location(subscription, location))
            return Answer(body={"value": quotas.usages(subscription, location, sizes)})
        if rest[2:3] == ["publishers"]:
            named = [word for word in asked.rest[3:] if word.lower() not in _IMAGE_WORDS]
            return _of_images(location, named, request)
    if asked.service == "computeschedule" and request.method == "POST":
        action = {
            "virtualmachinessubmitdeallocate": schedules.submit_deallocate,
            "virtualmachinesgetoperationstatus": schedules.operation_status,
            "virtualmachinescanceloperations": schedules.cancel,
        }.get(rest[-1])
        if action is not None:
            name = f"Microsoft.ComputeSchedule/locations/{asked.rest[-1]}/action"
            permissions.check(subscription, name, request.path)
            return action(subscription, location, body_of(request))
    if asked.service == "storage" and rest == ["checknameavailability"] and request.method == "POST":
        permissions.check(subscription, "Microsoft.Storage/checknameavailability/read", request.path)
        return storage.check_availability(subscription, body_of(request))
    raise _unknown(request)


def _of_images(location: str, named: list[str], request: Request) -> Answer:
    """Images by the names of their parents; newest first where that is asked for."""
    query = request.args
    found = catalog.images(location, named, detailed=query.get("$expand") == "properties")
    if isinstance(found, list):
        found = found[::-1] if query.get("$orderby") else found
        found = found[: int(query["$top"])] if query.get("$top", "").isdecimal() else found
    return Answer(body=found)


_IMAGE_WORDS = {"artifacttypes", "vmimage", "offers", "skus", "versions"}


def _of_resource(
    subscription: Subscription, asked: Route, request: Request, origin: str, console: Console
) -> Answer:
    query = request.args.to_dict()
    kind, id_ = asked.kind, asked.id
    if request.method == "POST" or asked.is_part:
        return _of_part(subscription, asked, request, origin, console)
    verb = {"GET": "read", "LIST": "read", "DELETE": "delete"}.get(asked.verb, "write")
    permissions.check(subscription, f"{kind}/{verb}", request.path)
    match asked.verb:
        case "LIST":
            scope = asked.parent or groups.id_of(subscription, asked.group)
            return _page(lists.list_of(subscription, kind, scope, query), request)
        case "GET":
            return resources.get(subscription, kind, id_, expand=query.get("$expand", "").lower())
        case "PUT":
            return resources.put(
                subscription, kind, id_, body_of(request), origin, headers=dict(request.headers)
            )
        case "PATCH":
            return resources.patch(
                subscription, kind, id_, body_of(request), origin, headers=dict(request.headers)
            )
        case "DELETE":
            return resources.delete(subscription, kind, id_, origin)
        case _:
            raise _unknown(request)


def _of_part(
    subscription: Subscription, asked: Route, request: Request, origin: str, console: Console
) -> Answer:
    """What is done to a resource, or to what is inside it."""
    exchange = Exchange(request=request, origin=origin, console=console)
    if asked.kind == SCALE_SET:
        return _of_scale_set(subscription, asked, exchange)
    if request.method != "POST":
        return _of_child(subscription, asked, request, origin)
    if asked.kind == ACCOUNT:
        permissions.check(subscription, f"{ACCOUNT}/{asked.rest[2]}/action", request.path)
        account = subresources.owner(subscription, ACCOUNT, asked.id)
        return storage.keys(subscription, account, asked.rest[2].lower(), body_of(request))
    if asked.kind != MACHINE:
        raise _unknown(request)
    permissions.check(subscription, f"{MACHINE}/{asked.rest[2]}/action", request.path)
    machine = instances.find(subscription, asked.id)
    done = machine_actions.act(subscription, machine, asked.rest[2], exchange)
    if done is None:
        raise _unknown(request)
    return done


def _of_scale_set(subscription: Subscription, asked: Route, exchange: Exchange) -> Answer:
    """What is done to what is inside a scale set."""
    below, request = asked.rest[2:], exchange.request
    verb = {"GET": "read", "DELETE": "delete"}.get(request.method, "action")
    permissions.check(subscription, f"{SCALE_SET}/{'/'.join(below[::2])}/{verb}", request.path)
    found = scale_set_parts.answer(subscription, asked.id, below, exchange)
    if found is None:
        raise _unknown(request)
    return _page(found, request) if isinstance(found, list) else found


def _of_child(subscription: Subscription, asked: Route, request: Request, origin: str) -> Answer:
    below = [asked.rest[2].lower(), *asked.rest[3:]]
    verb = {"GET": "read", "DELETE": "delete"}.get(request.method, "write")
    permissions.check(subscription, f"{asked.kind}/{asked.rest[2]}/{verb}", request.path)
    if asked.kind == MACHINE and request.method == "GET" and below == ["instanceview"]:
        return Answer(body=instances.instance_view(instances.find(subscription, asked.id)))
    document = subresources.owner(subscription, asked.kind, asked.id)
    match request.method, len(below):
        case "GET", 1 | 2:
            return subresources.look(subscription, document, below)
        case "PUT", 2:
            return subresources.put(subscription, document, below, body_of(request), origin)
        case "DELETE", 2:
            return subresources.delete(subscription, document, below, origin)
        case _:
            raise _unknown(request)


def _page(items: Iterable[Document], request: Request) -> Answer:
    """A page of a list, and where the next one is."""
    listed = list(items)
    skip = int(request.args.get("$skiptoken", 0))
    body: Mapping[str, object] = {"value": listed[skip : skip + PAGE]}
    if skip + PAGE < len(listed):
        rest = "&".join(f"{name}={value}" for name, value in request.args.items() if name != "$skiptoken")
        body = {**body, "nextLink": f"{request.base_url}?{rest}&$skiptoken={skip + PAGE}"}
    return Answer(body=body)


def _unknown(request: Request) -> AzureError:
    return members.not_emulated(route(request).call)

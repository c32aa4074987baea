"""Template deployments: each resource of a template is a PUT, in the order of what depends on what.

A deployment that fails keeps what it made before: Resource Manager takes nothing back, unless a rollback
(``onErrorDeployment``, not emulated) is asked for. Source: learn.microsoft.com, "Rollback on error to
successful deployment": even that deploys an earlier template again, and undoes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.azure import api_versions, instances, members, operations, permissions, resources
from gpucloud_sandbox.azure.foreign.templates import Functions, evaluated
from gpucloud_sandbox.azure.groups import being_deleted, group_of
from gpucloud_sandbox.azure.subscription import (
    BY_NAME,
    DEPLOYMENT,
    GROUP,
    MACHINE,
    SUBSCRIPTION,
    Subscription,
    canonical,
    part,
    shown,
    tail,
)
from gpucloud_sandbox.azure.wire import Answer, AzureError, Json
from gpucloud_sandbox.database import Document

_CALL = f"PUT {DEPLOYMENT}"
_NAME = re.compile(r"[\w.()-]{1,64}", re.ASCII)
_TEMPLATE = {"$schema", "contentVersion", "parameters", "variables", "resources", "outputs", "metadata"}
_OF_TEMPLATE = {"type", "apiVersion", "dependsOn", "comments", "metadata"}
"""The members of a resource that are the template's; the others are those of its PUT."""


def put(subscription: Subscription, id_: str, body: Json, origin: str) -> Answer:
    """PUT of a deployment: it begins at once, and comes to an end when its machines have.

    Raises:
        AzureError: the template is not valid, or something in it is not emulated.
    """
    group = group_of(subscription, id_.split("/")[4])
    if group["_gone_at"]:
        raise being_deleted(group["name"])
    if not _NAME.fullmatch(tail(id_)):
        raise AzureError("InvalidDeploymentName", f"The deployment name '{tail(id_)}' is not valid.")
    wanted = part(body, "properties")
    template = part(wanted, "template")
    if not isinstance(template.get("resources"), list):
        raise AzureError("InvalidTemplate", "Deployment template validation failed: it has no resources.")
    if unknown := sorted(template.keys() - _TEMPLATE):
        raise members.not_emulated(f"{_CALL}: properties.template.{unknown[0]}")
    functions = _functions(subscription, group, template, part(wanted, "parameters"))
    head = f"{group['id']}/providers"
    todo = _in_order([evaluated(each, functions) for each in template["resources"]], head)
    for each in todo:
        _check(subscription, each)
    made, failure = _make(subscription, todo, head, origin)
    outputs = {} if failure else _outputs(part(template, "outputs"), functions)
    old = subscription.find(DEPLOYMENT, id_)
    deployment: Document = {
        "id": id_,
        "name": tail(id_),
        "type": DEPLOYMENT,
        "location": group["location"],
        "properties": {
            "templateHash": subscription.world.token(19),
            "mode": "Incremental",
            "timestamp": subscription.moment,
            "correlationId": subscription.new_uuid(),
            "outputs": outputs,
            "outputResources": [{"id": each} for each in made],
        },
        "_failure": list(failure) if failure else None,
    }
    subscription.keep(DEPLOYMENT, canonical(id_), deployment)
    url = f"{origin}{id_}/operationStatuses/{subscription.new_uuid()}?api-version={operations.API}"
    headers = {"Azure-AsyncOperation": url}
    return Answer(status=200 if old else 201, body=_shown(subscription, deployment), headers=headers)


def get(subscription: Subscription, id_: str) -> Answer:
    """GET of a deployment."""
    return Answer(body=_shown(subscription, _find(subscription, id_)))


def status(subscription: Subscription, id_: str) -> Answer:
    """The state of a deployment's operation."""
    deployment = _find(subscription, id_)
    state, error = _state(subscription, deployment)
    headers = {"Retry-After": "1"} if state == "Running" and subscription.transition_s else {}
    return Answer(body={"status": state, **({"error": error} if error else {})}, headers=headers)


def _find(subscription: Subscription, id_: str) -> Document:
    deployment = subscription.find(DEPLOYMENT, id_)
    if deployment is None:
        raise AzureError("DeploymentNotFound", f"Deployment '{tail(id_)}' could not be found.", 404)
    return deployment


def _shown(subscription: Subscription, deployment: Document) -> Document:
    state, error = _state(subscription, deployment)
    answer = shown(deployment)
    del answer["location"]
    more: Json = {"provisioningState": state, **({"error": error} if error else {})}
    return {**answer, "properties": {**answer["properties"], **more}}


def _state(subscription: Subscription, deployment: Document) -> tuple[str, Json | None]:
    """Running until its machines are there; it fails with what failed first."""
    if deployment["_failure"]:
        return "Failed", _failed(*deployment["_failure"])
    state = "Succeeded"
    for each in deployment["properties"]["outputResources"]:
        for machine in _machines(subscription, each["id"]):
            if machine["properties"]["provisioningState"] == instances.FAILED:
                return "Failed", _failed(*machine["_failure"])
            if machine["properties"]["provisioningState"] == instances.CREATING:
                state = "Running"
    return state, None


def _machines(subscription: Subscription, id_: str) -> list[Document]:
    """The machine of an id, or the instances of a scale set."""
    wanted = canonical(id_)
    return [each for at, each in subscription.all(MACHINE).items() if f"{at}/".startswith(f"{wanted}/")]


def _failed(code: str, text: str) -> Json:
    words = (
        "At least one resource deployment operation failed. Please list deployment operations for details. "
        "Please see https://aka.ms/arm-deployment-operations for usage details."
    )
    return {"code": "DeploymentFailed", "message": words, "details": [{"code": code, "message": text}]}


# --- the template


def _functions(subscription: Subscription, group: Document, template: Json, given: Json) -> Functions:
    described = part(template, "parameters")
    if unknown := sorted(given.keys() - described.keys()):
        text = f"The following parameters were supplied, but do not correspond to any: '{unknown[0]}'."
        raise AzureError("InvalidTemplate", f"Deployment template validation failed: '{text}'")

    def parameters(name: str) -> Any:
        if "value" in part(given, name):
            return given[name]["value"]
        if "defaultValue" not in part(described, name):
            text = f"The value for the template parameter '{name}' is not provided."
            raise AzureError("InvalidTemplate", f"Deployment template validation failed: '{text}'")
        return evaluated(described[name]["defaultValue"], functions)

    def variables(name: str) -> Any:
        known = part(template, "variables")
        if name not in known:
            raise AzureError("InvalidTemplate", f"The template variable '{name}' is not found.")
        return evaluated(known[name], functions)

    def resource_id(type_: str, *names: str) -> str:
        namespace, *words = type_.split("/")
        pairs = "/".join(f"{word}/{name}" for word, name in zip(words, names, strict=False))
        return f"{group['id']}/providers/{namespace}/{pairs}"

    def reference(name: str, _version: str = "", full: str = "") -> Any:
        id_ = name if name.startswith("/") else _id_of(name, f"{group['id']}/providers")
        kind = BY_NAME.get("/".join(id_.split("/")[6:8]).lower(), "")
        document = subscription.find(kind, id_) if kind else None
        if document is None:
            raise AzureError("ResourceNotFound", f"The Resource '{id_}' was not found.", 404)
        return shown(document) if full.lower() == "full" else shown(document)["properties"]

    def concat(*each: object) -> str:
        return "".join(map(str, each))

    def providers(*_: str) -> Any:
        return {"apiVersions": [operations.API]}

    functions: dict[str, Any] = {
        "parameters": parameters,
        "variables": variables,
        "resourceId": resource_id,
        "reference": reference,
        "concat": concat,
        "toLower": str.lower,
        "resourceGroup": lambda: {**shown(group), "type": GROUP},
        "subscription": lambda: {"id": f"/subscriptions/{SUBSCRIPTION}", "subscriptionId": SUBSCRIPTION},
        "providers": providers,
    }
    return functions


def _id_of(name: str, head: str) -> str:
    """The id of what ``dependsOn`` names: an id, or ``namespace/type/name``."""
    return name if name.startswith("/") else f"{head}/{name}"


def _in_order(wanted: list[Json], head: str) -> list[Json]:
    """Resources with those first that others depend on."""
    by_id = {canonical(f"{head}/{each.get('type')}/{each.get('name')}"): each for each in wanted}
    if len(by_id) < len(wanted):
        raise AzureError(
            "InvalidTemplate", "Deployment template validation failed: a resource is there twice."
        )
    order: list[Json] = []
    above: set[str] = set()

    def add(id_: str) -> None:
        each = by_id[id_]
        if each in order:
            return
        if id_ in above:
            raise AzureError(
                "InvalidTemplate", "Deployment template validation failed: 'Circular dependency'."
            )
        above.add(id_)
        for name in each.get("dependsOn") or ():
            needed = canonical(_id_of(name, head))
            if needed not in by_id:
                text = f"The resource '{name}' is not defined in the template."
                raise AzureError("InvalidTemplate", f"Deployment template validation failed: '{text}'")
            add(needed)
        order.append(each)

    for id_ in by_id:
        add(id_)
    return order


def _check(subscription: Subscription, wanted: Json) -> None:
    """Passes a resource whose PUT is emulated, with members that are supported."""
    if not wanted.get("apiVersion"):
        text = f"The template resource '{wanted.get('name')}' lacks apiVersion."
        raise AzureError("InvalidTemplate", f"Deployment template validation failed: '{text}'")
    kind = BY_NAME.get(str(wanted["type"]).lower())
    if kind not in resources.PUTS or kind.count("/") > 1:
        raise members.not_emulated(f"{_CALL}: properties.template.resources: {wanted['type']}")
    api_versions.check(subscription, wanted["apiVersion"], kind)
    members.check_members(f"PUT {kind}", _body(wanted))


def _body(wanted: Json) -> Json:
    return {name: value for name, value in wanted.items() if name not in _OF_TEMPLATE}


def _make(
    subscription: Subscription, todo: list[Json], head: str, origin: str
) -> tuple[list[str], tuple[str, str] | None]:
    """Puts resources until one is refused; returns the ids of those that are there, and why one is not."""
    made: list[str] = []
    for wanted in todo:
        kind = BY_NAME[str(wanted["type"]).lower()]
        id_ = f"{head}/{kind}/{wanted['name']}"
        try:
            permissions.check(subscription, f"{kind}/write", id_)
            resources.put(subscription, kind, id_, _body(wanted), origin, headers={})
        except AzureError as refusal:
            return made, (refusal.code, refusal.message)
        made.append(id_)
    return made, None


def _outputs(wanted: Mapping[str, Json], functions: Functions) -> Json:
    return {
        name: {
            "type": str(each.get("type", "String")).capitalize(),
            "value": evaluated(each["value"], functions),
        }
        for name, each in wanted.items()
    }

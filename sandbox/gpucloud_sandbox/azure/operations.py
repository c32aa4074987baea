"""Long-running operations: their outcome is read from the URL in the first answer.

Shapes and statuses are those of recorded traffic: a PUT names Azure-AsyncOperation only; DELETE and POST name
Location besides; groups name Location only.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucloud_sandbox.azure import instances
from gpucloud_sandbox.azure.stock import Failure
from gpucloud_sandbox.azure.subscription import MACHINE, SUBSCRIPTION, VERSION, Subscription
from gpucloud_sandbox.azure.wire import Answer, AzureError
from gpucloud_sandbox.database import Document

OPERATION = "operation"
API = "2024-07-01"


def begin(
    subscription: Subscription,
    origin: str,
    document: Document,
    ends: str,
    *,
    located: bool,
    failure: Failure | None = None,
    targets: Sequence[str] | None = None,
) -> dict[str, str]:
    """The headers with the URL of an operation's outcome.

    Args:
        subscription: the subscription.
        origin: of the address.
        document: what is worked on.
        ends: what a machine, or the version of an image, comes to: ``made``, ``gone``, ``switched``; ``done``
            for what is done at once.
        located: whether the outcome is at a Location as well.
        failure: the code and words with which it fails, where that is known already.
        targets: the ids of the machines that it waits for, where it is not one that is worked on.
    """
    id_ = subscription.new_uuid()
    operation: Document = {
        "kind": VERSION if document["type"] == VERSION else MACHINE,
        "targets": [document["id"]] if targets is None else list(targets),
        "ends": ends,
        "started": subscription.moment,
        "failure": list(failure) if failure else None,
    }
    subscription.keep(OPERATION, id_, operation)
    namespace = document["type"].partition("/")[0]
    url = (
        f"{origin}/subscriptions/{SUBSCRIPTION}/providers/{namespace}/locations/{document['location']}"
        f"/operations/{id_}?api-version={API}"
    )
    headers = {"Azure-AsyncOperation": url}
    if located:
        headers["Location"] = f"{url}&monitor=true"
    if subscription.transition_s and ends != "done":
        headers["Retry-After"] = "1"
    return headers


def outcome(subscription: Subscription, id_: str, *, monitor: bool) -> Answer:
    """The state of an operation."""
    operation = subscription.all(OPERATION).get(id_)
    if operation is None:
        raise AzureError("OperationNotFound", f"The operation {id_} was not found.", 404)
    status, error = _status(subscription, operation)
    headers = {"Retry-After": "1"} if status == "InProgress" else {}
    if monitor:
        return Answer(status=202 if status == "InProgress" else 200, headers=headers)
    body: Document = {"name": id_, "startTime": operation["started"], "status": status}
    if status != "InProgress":
        body["endTime"] = subscription.moment
    if error:
        body["error"] = {"code": error[0], "message": error[1]}
    return Answer(body=body, headers=headers)


def _status(subscription: Subscription, operation: Document) -> tuple[str, Failure | None]:
    if operation["failure"]:
        code, text = operation["failure"]
        return "Failed", (code, text)
    if operation["ends"] == "done":
        return "Succeeded", None
    kind: str = operation["kind"]
    found = [_ended(subscription.find(kind, each), operation["ends"]) for each in operation["targets"]]
    for status in ("InProgress", "Failed", "Canceled"):
        for each in found:
            if each[0] == status:
                return each
    return "Succeeded", None


def _ended(machine: Document | None, ends: str) -> tuple[str, Failure | None]:
    if ends == "gone":
        return ("Succeeded" if machine is None else "InProgress"), None
    if machine is None:
        return "Canceled", ("OperationPreempted", "The operation was preempted by a deletion.")
    state = machine["properties"]["provisioningState"]
    going = machine["_power"] in instances.NEXT if ends == "switched" else state == instances.CREATING
    if going:
        return "InProgress", None
    if ends == "made" and state == instances.FAILED:
        code, text = machine.get("_failure") or ("ProvisioningFailed", "The image version could not be made.")
        return "Failed", (code, text)
    return "Succeeded", None

"""Long-running operations: their outcome is told at the address that the first answer names.

Shapes and statuses are those of recorded traffic (machines: 201 or 202 with Azure-AsyncOperation; groups: 202
with Location).
"""

from __future__ import annotations

from gpucloud.sandbox.database import Document
from gpucloud_azure.sandbox import machines
from gpucloud_azure.sandbox.subscription import MACHINE, SUBSCRIPTION, Subscription
from gpucloud_azure.sandbox.wire import Answer, AzureError

OPERATION = "operation"


def begin(
    subscription: Subscription, origin: str, *, target: str, ends: str, location: str
) -> dict[str, str]:
    """The headers that tell where the outcome of an operation on a machine is.

    Args:
        subscription: the subscription.
        origin: of the address.
        target: the machine.
        ends: what the machine comes to: ``made``, ``gone`` or ``done`` for what is done at once.
        location: the machine's region.
    """
    id_ = subscription.new_uuid()
    subscription.keep(OPERATION, id_, {"target": target, "ends": ends, "started": subscription.moment})
    url = (
        f"{origin}/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/{location}/operations/{id_}"
        "?api-version=2024-07-01"
    )
    headers = {"Azure-AsyncOperation": url}
    if ends != "made":
        headers["Location"] = f"{url}&monitor=true"
    if subscription.transition_s:
        headers["Retry-After"] = "1"
    return headers


def outcome(subscription: Subscription, id_: str, *, monitor: bool) -> Answer:
    """How an operation stands."""
    operation = subscription.all(OPERATION).get(id_)
    if operation is None:
        raise AzureError("OperationNotFound", f"The operation {id_} was not found.", 404)
    status, error = _status(subscription, operation)
    if monitor:
        return Answer(status=202 if status == "InProgress" else 200)
    body: Document = {"name": id_, "startTime": operation["started"], "status": status}
    if status != "InProgress":
        body["endTime"] = subscription.moment
    if error:
        body["error"] = {"code": error[0], "message": error[1]}
    headers = {"Retry-After": "1"} if status == "InProgress" else {}
    return Answer(body=body, headers=headers)


def _status(subscription: Subscription, operation: Document) -> tuple[str, tuple[str, str] | None]:
    machine = subscription.find(MACHINE, operation["target"])
    match operation["ends"]:
        case "gone":
            return ("Succeeded" if machine is None else "InProgress"), None
        case "made" if machine is None:
            return "Canceled", ("OperationPreempted", "The operation was preempted by a deletion.")
        case "made" if machine is not None:
            state = machine["properties"]["provisioningState"]
            if state == machines.CREATING:
                return "InProgress", None
            if state == machines.FAILED:
                code, text = machine["_failure"]
                return "Failed", (code, text)
            return "Succeeded", None
        case _:
            return "Succeeded", None

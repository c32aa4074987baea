"""What is below a scale set in its address: its instances, their interfaces and addresses, and actions."""

from __future__ import annotations

from collections.abc import Sequence

from gpucloud_sandbox.azure import instances, machine_actions, operations, validation, views
from gpucloud_sandbox.azure.foreign import scale_sets
from gpucloud_sandbox.azure.foreign.scale_instances import instances_of, staying
from gpucloud_sandbox.azure.foreign.subresources import owner
from gpucloud_sandbox.azure.lists import hides
from gpucloud_sandbox.azure.machine_actions import Exchange
from gpucloud_sandbox.azure.stock import Failure
from gpucloud_sandbox.azure.subscription import (
    ADDRESS,
    NIC,
    SCALE_SET,
    Subscription,
    canonical,
    part,
    tail,
)
from gpucloud_sandbox.azure.wire import Answer, AzureError, HiddenError, body_of
from gpucloud_sandbox.database import Document

_LISTED = {"networkinterfaces": NIC, "publicipaddresses": ADDRESS}
"""What a set lists of all its instances."""
Found = Answer | list[Document]
_OF_NETWORK = ("type", "location", "tags")
"""What an interface or an address inside an instance does not show."""


def answer(subscription: Subscription, id_: str, below: Sequence[str], exchange: Exchange) -> Found | None:
    """Does what is asked of what is below a set; ``None`` for what is not emulated.

    Args:
        subscription: the subscription.
        id_: of the set.
        below: the words of the address after it.
        exchange: the request.

    Raises:
        AzureError: Azure would refuse.
    """
    scale_set = owner(subscription, SCALE_SET, id_)
    words = [word.lower() for word in below]
    match exchange.request.method:
        case "POST":
            return _post(subscription, scale_set, words, exchange)
        case "DELETE":
            return _delete(subscription, scale_set, words, exchange.origin)
        case "GET" if words[0] == "virtualmachines":
            return _look(subscription, scale_set, words[1:], exchange.request.args.get("$expand", ""))
        case "GET" if words == ["instanceview"]:
            return Answer(body=scale_sets.instance_view(subscription, scale_set))
        case "GET" if words[0] in _LISTED and len(words) == 1:
            return _inside(subscription, _LISTED[words[0]], id_)
        case _:
            return None


def _look(subscription: Subscription, scale_set: Document, words: list[str], expand: str) -> Found | None:
    """GET of the instances, of one, or of what it has."""
    view = expand.lower() == "instanceview"
    if not words:
        listed = [each for each in instances_of(subscription, scale_set) if not hides(subscription, each)]
        return [_seen(each, view=view) for each in listed]
    machine = _instance(subscription, scale_set, words[0])
    if hides(subscription, machine):
        raise HiddenError("NotFound", f"Resource {machine['id']} was not found.", 404)
    match words[1:]:
        case []:
            return Answer(body=_seen(machine, view=view))
        case ["instanceview"]:
            return Answer(body=_view(machine))
        case ["networkinterfaces", *rest]:
            return _of_interfaces(subscription, machine, rest)
        case _:
            return None


def _seen(machine: Document, *, view: bool) -> Document:
    answer = instances.show(machine, view=False)
    if view:
        answer["properties"] = {**answer["properties"], "instanceView": _view(machine)}
    return answer


def _view(machine: Document) -> Document:
    """What an instance is doing, and where: all are in the one placement group of their set."""
    number = int(machine["instanceId"])
    return {
        "placementGroupId": machine["_group"],
        "platformFaultDomain": number % 5,
        "platformUpdateDomain": number % 5,
        **instances.instance_view(machine),
    }


def _of_interfaces(subscription: Subscription, machine: Document, words: list[str]) -> Found | None:
    """The interfaces of an instance, one, its configurations, one, its addresses, one."""
    match words:
        case []:
            return _inside(subscription, NIC, machine["id"])
        case [name]:
            return Answer(body=_shown(subscription, _part(subscription, NIC, machine, name)))
        case [name, "ipconfigurations", *rest]:
            nic = _part(subscription, NIC, machine, name)
            return _of_configurations(subscription, nic, rest)
        case _:
            return None


def _of_configurations(subscription: Subscription, nic: Document, words: list[str]) -> Found | None:
    configurations: list[Document] = part(nic, "properties").get("ipConfigurations") or []
    if not words:
        return configurations
    one = next((each for each in configurations if each["name"].lower() == words[0]), None)
    if one is None:
        raise _missing(f"{nic['id']}/ipConfigurations/{words[0]}")
    match words[1:]:
        case []:
            return Answer(body=one)
        case ["publicipaddresses"]:
            return _inside(subscription, ADDRESS, one["id"])
        case ["publicipaddresses", name]:
            return Answer(body=_shown(subscription, _part(subscription, ADDRESS, one, name)))
        case _:
            return None


def _inside(subscription: Subscription, kind: str, id_: str) -> list[Document]:
    """The interfaces or addresses inside a set, an instance or a configuration."""
    head = f"{canonical(id_)}/"
    return [_shown(subscription, each) for at, each in subscription.all(kind).items() if at.startswith(head)]


def _part(subscription: Subscription, kind: str, above: Document, name: str) -> Document:
    id_ = f"{above['id']}/{tail(kind)}/{name}"
    found = subscription.find(kind, id_)
    if found is None:
        raise _missing(id_)
    return found


def _shown(subscription: Subscription, document: Document) -> Document:
    seen = views.seen(subscription, document)
    return {name: value for name, value in seen.items() if name not in _OF_NETWORK}


def _missing(id_: str) -> AzureError:
    return AzureError("NotFound", f"Resource {id_} was not found.", 404)


# --- instances


def _instance(subscription: Subscription, scale_set: Document, number: str) -> Document:
    """An instance by its id."""
    if not number.isdecimal():
        text = "Virtual Machine Scale Set VM instanceId must be a number."  # Azure/vm-scale-sets#60
        raise AzureError("InvalidParameter", text)
    found = [each for each in instances_of(subscription, scale_set) if each["instanceId"] == number]
    if not found:  # the code is UNVERIFIED
        raise _missing(f"{scale_set['id']}/virtualMachines/{number}")
    return found[0]


def _chosen(subscription: Subscription, scale_set: Document, ids: list[str] | None) -> list[Document]:
    """The instances that an action is for: those named, or all.

    Source of the refusals: azure-cli#9926, microsoft/onefuzz#2547.
    """
    known = {each["instanceId"]: each for each in staying(subscription, scale_set)}
    if ids in (None, ["*"]):
        return list(known.values())
    for each in ids or ():
        if not each.isdecimal():
            words = f'instanceId {each} is invalid. It must be a non-negative integer or the character "*".'
            raise AzureError("InvalidParameter", f"The provided {words}")
        if each not in known:
            text = f"The provided instanceId {each} is not an active Virtual Machine Scale Set VM instanceId."
            raise AzureError("InvalidParameter", text)
    return [known[each] for each in ids or ()]


def _post(
    subscription: Subscription, scale_set: Document, words: list[str], exchange: Exchange
) -> Answer | None:
    """An action on one instance, or on several."""
    match words:
        case ["virtualmachines", number, action]:
            machine = _instance(subscription, scale_set, number)
            return machine_actions.act(subscription, machine, action, exchange)
        case [action] if action in {"delete", "manualupgrade", *instances.SWITCHES}:
            return _all(subscription, scale_set, action, exchange)
        case _:
            return None


def _all(subscription: Subscription, scale_set: Document, action: str, exchange: Exchange) -> Answer:
    scale_sets.check_not_ending(scale_set)
    body = validation.read(f"POST {SCALE_SET}/{action}", body_of(exchange.request))
    ids: list[str] | None = body.get("instanceIds")
    if action == "delete" and not ids:
        text = "Required parameter 'instanceIds' is missing (null)."  # UNVERIFIED for this parameter
        raise AzureError("InvalidParameter", text)
    chosen = _chosen(subscription, scale_set, ids)
    failures: list[Failure | None] = []
    if action == "delete":
        for each in chosen:
            instances.delete(subscription, each, "deleted by its user")
    elif action in instances.SWITCHES:  # a manual upgrade finds all at the one model that a set has
        failures = [instances.SWITCHES[action](subscription, each) for each in chosen]
    headers = operations.begin(
        subscription,
        exchange.origin,
        scale_set,
        "gone" if action == "delete" else "switched",
        located=True,
        failure=next(filter(None, failures), None),
        targets=[each["id"] for each in chosen],
    )
    return Answer(status=202, headers=headers)


def _delete(subscription: Subscription, scale_set: Document, words: list[str], origin: str) -> Answer | None:
    """DELETE of an instance: the capacity of its set is one less."""
    if len(words) != 2 or words[0] != "virtualmachines":
        return None
    found = [each for each in instances_of(subscription, scale_set) if each["instanceId"] == words[1]]
    if not found:
        return Answer(status=204)
    machine = instances.delete(subscription, found[0], "deleted by its user")
    headers = operations.begin(subscription, origin, machine, "gone", located=True)
    return Answer(status=202, headers=headers)

"""Uniform scale sets with one placement group: machines that are made, counted and deleted together.

The capacity of a set is the number of its instances, and its state follows from theirs: neither is kept. What
describes the instances cannot be changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpucloud_sandbox.azure import instances, launch, nic_limits, operations, order, quotas
from gpucloud_sandbox.azure.foreign.scale_instances import (
    computer_name,
    instances_of,
    make,
    make_surplus,
    staying,
)
from gpucloud_sandbox.azure.members import not_emulated
from gpucloud_sandbox.azure.review import review_scale_set, review_tags
from gpucloud_sandbox.azure.subscription import SCALE_SET, Subscription, part, shown, tail
from gpucloud_sandbox.azure.wire import Answer, AzureError, Json
from gpucloud_sandbox.database import Document

LIMIT = 100
"""Instances of one placement group. Source: azure-docs, virtual-machine-scale-sets-placement-groups.md."""
_EXTRA_OF = 5
"""One instance more for each so many; how many Azure really adds is not documented."""
_CHANGEABLE = ("sku.capacity", "properties.overprovision")
_FIXED = ("zones", "properties.singlePlacementGroup", "properties.virtualMachineProfile.osProfile")
"""What Azure does not change either."""


def put(subscription: Subscription, old: Document | None, id_: str, body: Json, origin: str) -> Answer:
    """PUT of a scale set: it is made with its instances, or has another capacity from now on.

    Raises:
        AzureError: Azure, or the sandbox's reviewer, would refuse.
    """
    if old is not None:
        return change(subscription, old, body, origin)
    review_scale_set(body)
    scale_set = subscription.put(SCALE_SET, _new(subscription, id_, body))
    made = _grow(subscription, scale_set, _model(subscription, scale_set), _wanted(scale_set, body))
    headers = operations.begin(
        subscription, origin, scale_set, "made", located=False, targets=[each["id"] for each in made]
    )
    return Answer(status=201, body=show(subscription, _kept(subscription, scale_set)), headers=headers)


def _new(subscription: Subscription, id_: str, body: Json) -> Document:
    properties, sku = part(body, "properties"), part(body, "sku")
    sku.pop("capacity", None)
    if not part(properties, "upgradePolicy").get("mode"):
        text = "Required parameter 'upgradePolicy.mode' is missing (null)."  # Azure/azure_preview_modules#259
        raise AzureError("InvalidParameter", text)
    profile = part(properties, "virtualMachineProfile")
    guest = part(profile, "osProfile")
    custom_data = guest.pop("customData", None)
    storage = part(profile, "storageProfile")
    disk = {"caching": "ReadWrite", "osType": "Linux", **part(storage, "osDisk")}
    signals: Json = {"secrets": [], "allowExtensionOperations": True, "requireGuestProvisionSignal": True}
    return {
        **{name: value for name, value in body.items() if name in {"location", "zones", "tags"}},
        "id": id_,
        "name": tail(id_),
        "type": SCALE_SET,
        "sku": {"tier": "Standard", **sku},
        "etag": f'"{subscription.new_uuid()}"',
        "properties": {
            "orchestrationMode": "Uniform",
            "singlePlacementGroup": True,
            "overprovision": True,
            "doNotRunExtensionsOnOverprovisionedVMs": False,
            "platformFaultDomainCount": 5,
            **properties,
            "virtualMachineProfile": {
                **profile,
                "osProfile": {**guest, **signals},
                "storageProfile": {**storage, "osDisk": disk},
                "timeCreated": subscription.moment,
            },
            "uniqueId": subscription.new_uuid(),
            "timeCreated": subscription.moment,
        },
        "_custom_data": custom_data,
        "_next": 0,
        "_done_at": subscription.later(subscription.transition_s),
        "_gone_at": None,
        "_created": subscription.moment,
    }


def _wanted(scale_set: Document, body: Json) -> int:
    """The capacity that is asked for."""
    capacity: int | None = part(body, "sku").get("capacity")
    if capacity is None:
        text = "Required parameter 'sku.capacity' is missing (null)."  # UNVERIFIED for this parameter
        raise AzureError("InvalidParameter", text)
    if capacity < 0:
        text = "The value of parameter sku.capacity is invalid."  # azure-powershell#3388, for another one
        raise AzureError("InvalidParameter", text)
    if capacity > LIMIT:
        what = f"Virtual Machine Scale Set '{scale_set['name']}'"  # terraform-azurerm-nomad#6
        text = (
            f"Unable to create or update {what} as it exceeds the total limit of '{LIMIT}' Virtual Machine "
        )
        text += "instances."
        raise AzureError("OperationNotAllowed", text, 409)
    return capacity


def change(
    subscription: Subscription, scale_set: Document, body: Json, origin: str, *, located: bool = False
) -> Answer:
    """PUT or PATCH of a set that exists: its capacity, its tags and its overprovisioning.

    Raises:
        AzureError: something that is fixed would change, or it is being deleted.
    """
    check_not_ending(scale_set)
    _check_unchanged(scale_set, body)
    overprovision = part(body, "properties").get("overprovision")
    kept = {} if overprovision is None else {"overprovision": overprovision}
    changed: Document = {
        **scale_set,
        "tags": body.get("tags", scale_set.get("tags")),
        "properties": {**scale_set["properties"], **kept},
    }
    review_tags(changed, "the scale set")
    subscription.put(SCALE_SET, changed)
    now = len(staying(subscription, changed))
    more = _wanted(changed, body) - now if "capacity" in part(body, "sku") else 0
    ends, touched = "made", list[Document]()
    if more > 0:
        touched = _grow(subscription, changed, _model(subscription, changed), more)
    elif more < 0:
        ends, touched = "gone", _shrink(subscription, changed, -more)
    headers = operations.begin(
        subscription, origin, changed, ends, located=located, targets=[each["id"] for each in touched]
    )
    return Answer(body=show(subscription, _kept(subscription, changed)), headers=headers)


def _check_unchanged(scale_set: Document, body: Json) -> None:
    wanted = {name: value for name, value in body.items() if name in {"sku", "zones", "properties"}}
    custom_data = part(wanted, "properties", "virtualMachineProfile", "osProfile").get("customData")
    for path in launch.changed(scale_set, wanted):
        if path.endswith(".customData") and custom_data == scale_set["_custom_data"]:
            continue
        if path.startswith(_FIXED) and not path.endswith(".customData"):
            raise launch.fixed(path)
        if path not in _CHANGEABLE:
            raise not_emulated(f"a change of {path} of the scale set {scale_set['name']}")


def check_not_ending(scale_set: Document) -> None:
    """Passes a set that stays.

    Raises:
        AzureError: it is being deleted.
    """
    if scale_set["_gone_at"] is not None:
        text = f"Operation is not allowed on scale set '{scale_set['name']}' since it is marked for deletion."
        raise AzureError("OperationNotAllowed", text, 409)


def _grow(subscription: Subscription, scale_set: Document, model: order.Model, count: int) -> list[Document]:
    """Makes so many instances more; those that find no place are there and fail."""
    if not count:
        return []
    quotas.check(subscription, model.location, model.type.name, model.purchase, count=count)
    first: int = scale_set["_next"]
    extra = -(-count // _EXTRA_OF) if scale_set["properties"]["overprovision"] else 0
    # The second is one that goes: tools that take the ids for 0, 1, 2, … are wrong on Azure too.
    surplus = range(first + 1, first + 1 + extra)
    numbers = range(first, first + count + extra)
    subscription.put(SCALE_SET, {**scale_set, "_next": numbers.stop})
    made: list[Document] = []
    for number in numbers:
        if number in surplus:
            make_surplus(subscription, scale_set, model, number)
        else:
            made.append(make(subscription, scale_set, model, number))
    return made


def _model(subscription: Subscription, scale_set: Document) -> order.Model:
    """What the next instances are to be, at today's price."""
    profile = part(scale_set, "properties", "virtualMachineProfile")
    guest = part(profile, "osProfile")
    if not guest.get("computerNamePrefix"):
        text = "Required parameter 'computerNamePrefix' is missing (null)."  # azure-cli#19578
        raise AzureError("InvalidParameter", text)
    guest["computerName"] = computer_name(guest["computerNamePrefix"], 0)
    guest["customData"] = scale_set["_custom_data"]
    size: str = part(scale_set, "sku").get("name", "")
    model = order.read_model(subscription, scale_set, size, {**profile, "osProfile": guest})
    described: list[Json] = part(profile, "networkProfile").get("networkInterfaceConfigurations") or []
    if not described:
        text = "A scale set must have at least one network interface."
        raise AzureError("InvalidParameter", text)  # UNVERIFIED: code
    # Azure's words for a scale set are others; whether its codes are is not known.
    owner = f"scale set {scale_set['name']}"
    nic_limits.check_count(owner, size, len(described))
    nic_limits.check_primary(owner, order.described_nics(part(profile, "networkProfile")))
    nic_limits.check_acceleration([part(each, "properties") for each in described], size)
    return model


def _shrink(subscription: Subscription, scale_set: Document, count: int) -> list[Document]:
    """Deletes so many instances: the newest.

    Source: azure-docs, virtual-machine-scale-sets-scale-in-policy.md, the default policy within one zone.
    """
    newest = staying(subscription, scale_set)[-count:]
    return [instances.delete(subscription, each, "scaled in") for each in newest]


def delete(subscription: Subscription, scale_set: Document, origin: str) -> Answer:
    """DELETE of a scale set: its instances go, then it goes."""
    gone = instances_of(subscription, scale_set)
    for each in gone:
        instances.delete(subscription, each, "deleted with its scale set")
    kept = _kept(subscription, scale_set)
    gone_at = kept["_gone_at"] or subscription.later(subscription.transition_s)
    subscription.put(SCALE_SET, {**kept, "_gone_at": gone_at})
    headers = operations.begin(
        subscription, origin, scale_set, "gone", located=True, targets=[each["id"] for each in gone]
    )
    return Answer(status=202, headers=headers)


def settle(subscription: Subscription) -> None:
    """Sets that are due go, once their instances are gone."""
    for scale_set in list(subscription.all(SCALE_SET).values()):
        due = scale_set["_gone_at"] is not None and scale_set["_gone_at"] <= subscription.stamp
        if due and not instances_of(subscription, scale_set):
            subscription.drop(SCALE_SET, scale_set["id"])


# --- looking


def show(subscription: Subscription, scale_set: Document) -> Document:
    """A scale set as Azure answers it."""
    answer = shown(scale_set)
    state = _state(subscription, scale_set)
    capacity = len(staying(subscription, scale_set))
    return {
        **answer,
        "sku": {**answer["sku"], "capacity": capacity},
        "properties": {**answer["properties"], "provisioningState": state},
    }


def _state(subscription: Subscription, scale_set: Document) -> str:
    if scale_set["_gone_at"] is not None:
        return instances.DELETING
    found = instances_of(subscription, scale_set)
    states = {each["properties"]["provisioningState"] for each in found}
    moving = any(each["_power"] in instances.NEXT and not each["_failed"] for each in found)
    if moving or states & {instances.CREATING, instances.DELETING}:
        return instances.CREATING if scale_set["_done_at"] > subscription.stamp else "Updating"
    return instances.FAILED if instances.FAILED in states else instances.SUCCEEDED


def instance_view(subscription: Subscription, scale_set: Document) -> Document:
    """How many instances are in which state."""
    state = _state(subscription, scale_set)
    return {
        "virtualMachine": {"statusesSummary": _summary(instances_of(subscription, scale_set))},
        "statuses": [
            {
                "code": f"ProvisioningState/{state.lower()}",
                "level": "Error" if state == instances.FAILED else "Info",
                "displayStatus": f"Provisioning {state.lower()}",
                "time": scale_set["properties"]["timeCreated"],
            }
        ],
    }


def _summary(machines: Sequence[Document]) -> list[Document]:
    """The states of instances, counted; the words of a failure are of the instance alone."""
    counted = Counter(
        "/".join(status["code"].split("/")[:2])
        for each in machines
        for status in instances.instance_view(each)["statuses"]
    )
    return [{"code": code, "count": count} for code, count in sorted(counted.items())]


def _kept(subscription: Subscription, scale_set: Document) -> Document:
    """A set as it is now."""
    return subscription.find(SCALE_SET, scale_set["id"]) or scale_set

"""Snapshots of managed disks: full and incremental, copied between regions, made into disks again.

A snapshot is billed for what is written on its disk. The sandbox does not know that and bills the whole disk,
for the later snapshots of a family too: never less than Azure would.
"""

from __future__ import annotations

from datetime import datetime

from gpucloud_sandbox.azure.members import not_emulated
from gpucloud_sandbox.azure.review import review_tags
from gpucloud_sandbox.azure.subscription import CLOUD, DISK, MACHINE, SNAPSHOT, Subscription, canonical, part
from gpucloud_sandbox.azure.wire import AzureError, Json
from gpucloud_sandbox.database import Document

GIB = 1024**3
_FIXED = ("creationData.createOption", "creationData.sourceResourceId", "incremental")
_NO_SOURCE = ("CopySourceNotFound", "The source snapshot was deleted while it was copied.")
"""Code: azure-mgmt-compute 39.0.0, CopyCompletionErrorReason."""


def make_snapshot(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of a snapshot; it is billed at once."""
    review_tags(body, "the snapshot")
    document["properties"].pop("completionPercent", None)  # read-only (azure-cli#19773)
    old = subscription.find(SNAPSHOT, document["id"])
    if old is not None:
        check_unchanged(old, document, _FIXED)
        _check_size(document, old)
        inside = {**document["properties"], "creationData": old["properties"]["creationData"]}
        own = {name: value for name, value in old.items() if name.startswith("_")}
        document.update({**own, "sku": old["sku"], "properties": {**old["properties"], **inside}})
        return
    begins = part(document, "properties", "creationData").get("createOption") == "CopyStart"
    source = _copied(subscription, document) if begins else source_of(subscription, document)
    _check_size(document, source)
    family = _family(subscription, source)
    document["sku"] = {"name": _sku(subscription, document, family), "tier": "Standard"}
    document["_began"] = subscription.stamp
    document["_done_at"] = subscription.later(subscription.transition_s if begins else 0)
    document["properties"] = {**_described(subscription, source, family), **document["properties"]}
    document["properties"]["creationData"] |= {"sourceUniqueId": source["properties"]["uniqueId"]}
    gib = source["properties"]["diskSizeGB"]
    price = subscription.world.market.snapshot_price(CLOUD, document["location"], gib)
    subscription.begin_billing("snapshot", document, price.amount, price.currency)
    document["_driver"] = source.get("_driver", "")
    copy_files(subscription, source, document["properties"]["uniqueId"])


def copy_files(subscription: Subscription, source: Document, target: str) -> None:
    """Fills what has the unique id ``target`` with the files of a disk or a snapshot."""
    machine = subscription.find(MACHINE, source["managedBy"]) if source.get("managedBy") else None
    if machine is not None and canonical(machine["_disk"]) == canonical(source["id"]):
        subscription.world.boxes.copy_root(machine["_box"], target)
    else:
        subscription.world.boxes.copy(source["properties"]["uniqueId"], target)


def _check_size(document: Document, source: Document) -> None:
    wanted, gib = document["properties"].get("diskSizeGB"), source["properties"]["diskSizeGB"]
    if wanted not in {None, gib}:
        raise not_emulated(f"PUT {SNAPSHOT}: properties.diskSizeGB={wanted}")


def _described(subscription: Subscription, source: Document, family: str) -> Document:
    """What a snapshot has of its source, and what Azure gives it."""
    gib = source["properties"]["diskSizeGB"]
    return {
        **of_system(source),
        "timeCreated": subscription.moment,
        "diskSizeGB": gib,
        "diskSizeBytes": gib * GIB,
        "diskState": "Unattached",
        "uniqueId": subscription.new_uuid(),
        "incremental": False,
        "incrementalSnapshotFamilyId": family,
        "encryption": {"type": "EncryptionAtRestWithPlatformKey"},
        "networkAccessPolicy": "AllowAll",
        "publicNetworkAccess": "Enabled",
    }


def of_system(source: Document) -> Document:
    """What the copy of an OS disk has of it: how it boots. UNVERIFIED: all but the security type.

    Source: the pull request terraform-provider-azurerm#16679.
    """
    members = ("osType", "hyperVGeneration", "supportedCapabilities", "securityProfile")
    return {name: source["properties"][name] for name in members if name in source["properties"]}


def check_unchanged(old: Document, wanted: Document, fixed: tuple[str, ...]) -> None:
    """Passes a disk or snapshot that is put again with the same origin.

    Raises:
        AzureError: one of the ``fixed`` properties would change.
    """
    for path in fixed:
        *above, last = path.split(".")
        had = part(old, "properties", *above).get(last)
        asked = part(wanted, "properties", *above).get(last)
        if asked is not None and str(asked).lower() != str(had).lower():
            # Code and words: azure-cli#22166
            text = f"Changing property '{last}' is not allowed for existing disk '{old['name']}'."
            raise AzureError("BadRequest", text)


def source_of(subscription: Subscription, target: Document) -> Document:
    """The disk or snapshot that a disk or snapshot is copied from, which is in the same region.

    Raises:
        AzureError: there is none, or it is still being copied itself.
    """
    source = _found(subscription, target, (DISK, SNAPSHOT))
    if source["location"] != target["location"]:
        raise _missing(source["id"])  # Azure looks in the region of the copy only (azure-cli#16385)
    if source["type"] == SNAPSHOT and progress(subscription, source) < 100:
        text = f"The snapshot {source['name']} is still being copied in the background."
        raise AzureError("OperationNotAllowed", text, 409)  # UNVERIFIED: code
    return source


def _found(subscription: Subscription, target: Document, kinds: tuple[str, ...]) -> Document:
    id_ = part(target, "properties", "creationData").get("sourceResourceId")
    if not id_:
        text = "Required parameter 'creationData.sourceResourceId' is missing (null)."
        raise AzureError("InvalidParameter", text)
    kind = next((each for each in kinds if f"/providers/{each}/".lower() in canonical(id_).lower()), None)
    if kind is None:
        raise AzureError("InvalidParameter", "Entity not of expected type")  # azure-cli#22370
    source = subscription.find(kind, id_)
    if source is None:
        raise _missing(id_)
    return source


def _missing(id_: str) -> AzureError:
    return AzureError(
        "NotFound", f"Resource {id_} is not found.", 404
    )  # UNVERIFIED: code; words azure-cli#11909


def _copied(subscription: Subscription, target: Document) -> Document:
    """The snapshot that a snapshot is copied from in the background, from whatever region.

    Raises:
        AzureError: one of both is not incremental, or another of that disk is being copied.
    """
    source = _found(subscription, target, (SNAPSHOT,))
    if not (source["properties"]["incremental"] and target["properties"].get("incremental")):
        text = "CopyStart is supported from incremental snapshots to incremental snapshots only."
        raise AzureError("InvalidParameter", text)  # UNVERIFIED: code
    family = source["properties"]["incrementalSnapshotFamilyId"]
    for each in subscription.all(SNAPSHOT).values():
        busy = each["properties"]["incrementalSnapshotFamilyId"] == family
        if busy and _is_being_copied(subscription, each):
            text = f"Another snapshot of the same disk is being copied: {each['id']}."
            raise AzureError("OperationNotAllowed", text, 409)  # UNVERIFIED: code
    return source


def _family(subscription: Subscription, source: Document) -> str:
    """The family of a source's snapshots: that of earlier ones, or a new one."""
    if source["type"] == SNAPSHOT:
        return str(source["properties"]["incrementalSnapshotFamilyId"])
    for each in subscription.all(SNAPSHOT).values():
        if each["properties"]["creationData"]["sourceUniqueId"] == source["properties"]["uniqueId"]:
            return str(each["properties"]["incrementalSnapshotFamilyId"])
    return subscription.new_uuid()


def _sku(subscription: Subscription, document: Document, family: str) -> str:
    """The wanted storage; else that of an incremental one's family, or spread over the region's zones."""
    zones = subscription.world.market.catalog(CLOUD).zones.get(document["location"], ())
    wanted: str | None = part(document, "sku").get("name")
    if wanted == "Standard_ZRS" and not zones:
        text = f"The AccountType {wanted} is invalid."
        raise AzureError(
            "InvalidAccountType", text
        )  # UNVERIFIED: that it is this one of the documented codes
    if wanted is None and document["properties"].get("incremental"):
        for each in subscription.all(SNAPSHOT).values():
            theirs = (each["location"], each["properties"]["incrementalSnapshotFamilyId"])
            if theirs == (document["location"], family):
                return str(each["sku"]["name"])
        return "Standard_ZRS" if zones else "Standard_LRS"
    return wanted or "Standard_LRS"


def progress(subscription: Subscription, snapshot: Document) -> float:
    """How many percent of a copy are there: all of what was not copied in the background."""
    if "copyCompletionError" in snapshot["properties"]:
        return float(snapshot["_stopped"])
    began, done = (datetime.fromisoformat(snapshot[name]) for name in ("_began", "_done_at"))
    left = (done - subscription.now).total_seconds()
    return 100.0 if left <= 0 else round(100 * (1 - left / (done - began).total_seconds()), 1)


def _is_being_copied(subscription: Subscription, snapshot: Document) -> bool:
    return "copyCompletionError" not in snapshot["properties"] and progress(subscription, snapshot) < 100


def delete_snapshot(subscription: Subscription, snapshot: Document) -> None:
    """DELETE of a snapshot; copies that are being made of it fail."""
    for each in list(subscription.all(SNAPSHOT).values()):
        origin: str = each["properties"]["creationData"]["sourceResourceId"]
        if canonical(origin) == canonical(snapshot["id"]) and _is_being_copied(subscription, each):
            code, text = _NO_SOURCE
            failed = {**each["properties"], "copyCompletionError": {"errorCode": code, "errorMessage": text}}
            stopped = progress(subscription, each)
            subscription.put(SNAPSHOT, {**each, "properties": failed, "_stopped": stopped})
    subscription.end_billing(snapshot, "deleted")
    subscription.world.boxes.wipe(snapshot["properties"]["uniqueId"])
    subscription.drop(SNAPSHOT, snapshot["id"])

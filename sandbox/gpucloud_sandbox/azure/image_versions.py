"""Versions of images in an Azure Compute Gallery, which machines boot from.

Words, where not marked: azure-compute-docs, troubleshooting-shared-images.md, read 2026-11-26. A version is
billed as a snapshot for each replica (azure-compute-gallery.md, "Billing"); like those of disks, by the whole
disk. It is in one region here, and made of a disk or a snapshot.
"""

from __future__ import annotations

import re

from gpucloud_sandbox.azure import snapshots
from gpucloud_sandbox.azure.galleries import EITHER, STANDARD, invalid, security_of
from gpucloud_sandbox.azure.images import Image
from gpucloud_sandbox.azure.members import not_emulated
from gpucloud_sandbox.azure.review import review_tags
from gpucloud_sandbox.azure.subscription import (
    CLOUD,
    DEFINITION,
    DISK,
    GALLERY,
    SNAPSHOT,
    VERSION,
    Subscription,
    canonical,
    part,
)
from gpucloud_sandbox.azure.wire import AzureError, Json
from gpucloud_sandbox.database import Document

CREATING, SUCCEEDED, FAILED, DELETING = "Creating", "Succeeded", "Failed", "Deleting"
LARGEST = 2**31 - 1
MOST_REPLICAS = 100
MOST_GIB = 2048
_NAME = re.compile(r"\d+\.\d+\.\d+", re.ASCII)


def make_version(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of a version; it is billed at once, and boots machines when it is complete."""
    review_tags(body, "the image version")
    old = subscription.find(VERSION, document["id"])
    if old is not None:
        _put_again(document, old)
        return
    name: str = document["name"]
    if not _NAME.fullmatch(name) or any(int(each) > LARGEST for each in name.split(".")):
        raise invalid(
            "The image version name is invalid. The image version name should follow "
            "Major(int).Minor(int).Patch(int) format, for e.g: 1.0.0, 2018.12.1 etc"
        )
    definition = subscription.find(DEFINITION, document["id"].rsplit("/", 2)[0])
    assert definition is not None  # noqa: S101  (the parent was checked)
    source = _source_of(subscription, document)
    _check_fits(source, definition)
    profile = _profile(subscription, document)
    gib = source["properties"]["diskSizeGB"]
    document["properties"] = {
        "publishingProfile": profile,
        "storageProfile": {
            "osDiskImage": {"sizeInGB": gib, "hostCaching": "ReadWrite", "source": {"id": source["id"]}}
        },
        "safetyProfile": {"reportedForPolicyViolation": False, "allowDeletionOfReplicatedLocations": False},
        "provisioningState": CREATING,
    }
    document |= {
        "_done_at": subscription.later(subscription.transition_s),
        "_gone_at": None,
        "_driver": source.get("_driver", ""),
        "_files": subscription.new_uuid(),
    }
    price = subscription.world.market.snapshot_price(CLOUD, document["location"], gib)
    replicas = profile["targetRegions"][0]["regionalReplicaCount"]
    subscription.begin_billing("snapshot", document, price.amount * replicas, price.currency)
    snapshots.copy_files(subscription, source, document["_files"])


def _put_again(document: Document, old: Document) -> None:
    """A version keeps its source; nothing else of it is changed here.

    Raises:
        AzureError: something would change, or it is being deleted.
    """
    if old["properties"]["provisioningState"] == DELETING:
        text = (
            f"Operation 'Update Gallery Image Version' is not on allowed on {old['name']}; since it is "
            "marked for deletion. You can only retry the Delete operation (or wait for an ongoing one to "
            "complete)"
        )
        raise AzureError("OperationNotAllowed", text, 409)  # UNVERIFIED: code
    asked = part(document, "properties", "storageProfile", "osDiskImage", "source").get("id")
    had = old["properties"]["storageProfile"]["osDiskImage"]["source"]["id"]
    if asked is not None and canonical(asked) != canonical(had):
        name = "galleryImageVersion.properties.storageProfile.osDiskImage.source.id"
        text = f"Changing property '{name}' is not allowed."
        raise AzureError("PropertyChangeNotAllowed", text, 409)  # UNVERIFIED: code
    own = {name: value for name, value in old.items() if name.startswith("_")}
    document.update({**own, "properties": old["properties"]})


def _source_of(subscription: Subscription, document: Document) -> Document:
    """The disk or snapshot that a version is made of, which is in its region."""
    id_ = part(document, "properties", "storageProfile", "osDiskImage", "source").get("id")
    if not id_:
        raise invalid(
            "The gallery artifact version source can only be specified either directly under storageProfile "
            "or within individual OS or data disks. One and only one source type (user image, snapshot, "
            "disk, virtual machine) can be provided"
        )
    kind = next((each for each in (DISK, SNAPSHOT) if f"/{each}/" in canonical(id_)), None)
    if kind is None:
        raise invalid(f"The source id: {id_} must be a managed disk or snapshot")
    source = subscription.find(kind, id_)
    if source is None or source["location"] != document["location"]:
        text = (
            f"Source {id_} is not found. Please check source exists, and is in the same region as gallery "
            "image version being created"
        )
        raise AzureError("NotFound", text, 404)  # UNVERIFIED: code
    gib = source["properties"]["diskSizeGB"]
    if gib > MOST_GIB:  # UNVERIFIED: that it is refused at once
        raise invalid(
            f"The GalleryImageVersion source resource size {gib} exceeds the max size {MOST_GIB} supported"
        )
    return source


def _check_fits(source: Document, definition: Document) -> None:
    """Passes a source that is what its definition says.

    A mismatch of generations was seen as a Conflict, a security type that disks cannot have as an
    InvalidParameter (microsoft/STL#4682). UNVERIFIED: the other codes, and the words on the architecture.
    """
    properties, wanted = source["properties"], definition["properties"]
    architecture = part(properties, "supportedCapabilities").get("architecture", "x64")
    for what, had, asked in (
        ("OS type", properties.get("osType"), wanted["osType"]),
        ("Hypervisor generation", properties.get("hyperVGeneration", "V1"), wanted["hyperVGeneration"]),
        ("architecture", architecture, wanted["architecture"]),
    ):
        if had != asked:
            text = (
                f"The resource with id '{source['id']}' has a different {what} ['{had}'] than the parent "
                f"gallery image {what} ['{asked}']."
            )
            raise AzureError("Conflict", text, 409)
    security = security_of(definition)
    if security == EITHER:
        raise invalid(
            f"The security type '{EITHER}' is not supported for the source id '{source['id']}'. Currently "
            "only Vhd Blob, User Image and Gallery Image Version sources are supported for "
            f"'{EITHER}' images."
        )
    if part(properties, "securityProfile").get("securityType", STANDARD) != security:
        raise invalid(
            f"The source '{source['id']}' does not have the security type '{security}' of the gallery image."
        )


def _profile(subscription: Subscription, document: Document) -> Json:
    """Where a version is kept, and how often."""
    profile, location = part(document, "properties", "publishingProfile"), document["location"]
    regions: list[Json] = profile.get("targetRegions") or [{"name": location}]
    names = [str(each.get("name", "")).replace(" ", "").lower() for each in regions]
    if location not in names:
        raise invalid(
            f"Gallery image version publishing profile regions {', '.join(names)} must contain the location "
            f"of image version {location}"
        )
    if len(names) > 1:
        raise not_emulated(f"PUT {VERSION}: several targetRegions")
    replicas = int(regions[0].get("regionalReplicaCount") or profile.get("replicaCount") or 1)
    if not 1 <= replicas <= MOST_REPLICAS:
        raise invalid(
            f"The value {replicas} of parameter regionalReplicaCount is out of range. The value must be "
            f"between 1 and {MOST_REPLICAS}, inclusive"
        )
    account = regions[0].get("storageAccountType") or profile.get("storageAccountType") or "Standard_LRS"
    if account == "Standard_ZRS" and not subscription.world.market.catalog(CLOUD).zones.get(location):
        raise invalid("ZRS storage account type is not supported in this region.")
    return {
        "targetRegions": [
            {"name": location, "regionalReplicaCount": replicas, "storageAccountType": account}
        ],
        "replicaCount": replicas,
        "excludeFromLatest": bool(profile.get("excludeFromLatest")),
        "publishedDate": subscription.moment,
        "storageAccountType": account,
        "replicationMode": "Full",
    }


def replication(version: Document) -> Json:
    """How far the replicas of a version have come: ``$expand=ReplicationStatus``."""
    states = {CREATING: ("InProgress", "Replicating", 0), FAILED: ("Failed", "Failed", 0)}
    whole, state, percent = states.get(
        version["properties"]["provisioningState"], ("Completed", "Completed", 100)
    )
    region = {"region": version["location"], "state": state, "details": "", "progress": percent}
    return {"aggregatedState": whole, "summary": [region]}


def delete_version(subscription: Subscription, version: Document) -> None:
    """DELETE of a version, which is billed until it is gone."""
    properties = {**version["properties"], "provisioningState": DELETING}
    gone_at = subscription.later(subscription.transition_s)
    subscription.put(VERSION, {**version, "properties": properties, "_gone_at": gone_at})


def end_version(subscription: Subscription, version: Document, reason: str) -> None:
    """A version goes."""
    subscription.end_billing(version, reason)
    subscription.world.boxes.wipe(version["_files"])
    subscription.drop(VERSION, version["id"])


def settle(subscription: Subscription) -> None:
    """Versions that are due are complete, or gone; one whose source went before it was complete has failed.

    UNVERIFIED: that it fails then.
    """
    for version in list(subscription.all(VERSION).values()):
        state = version["properties"]["provisioningState"]
        if state == DELETING and version["_gone_at"] <= subscription.stamp:
            end_version(subscription, version, "deleted")
        elif state == CREATING:
            source = version["properties"]["storageProfile"]["osDiskImage"]["source"]["id"]
            if all(subscription.find(kind, source) is None for kind in (DISK, SNAPSHOT)):
                state = FAILED
            elif version["_done_at"] <= subscription.stamp:
                state = SUCCEEDED
            properties = {**version["properties"], "provisioningState": state}
            subscription.put(VERSION, {**version, "properties": properties})


# --- machines of a version


def find_own(subscription: Subscription, location: str, id_: str) -> Image:
    """The version that a machine names, or the latest of the definition that it names.

    Code and words: pulumi-azure-native and cluster-api-provider-azure#5348.

    Raises:
        AzureError: it is not there, not complete, or in another region.
    """
    named = canonical(id_)
    if f"/{GALLERY}/" not in named:
        raise not_emulated(f"imageReference.id={id_}")
    if "/versions/" not in named:
        named = _latest(subscription, named) or named
    version = subscription.find(VERSION, named)
    definition = subscription.find(DEFINITION, named.partition("/versions/")[0])
    if (
        version is None
        or definition is None
        or version["location"] != location
        or version["properties"]["provisioningState"] != SUCCEEDED
    ):
        text = (
            f"The gallery image {id_} is not available in {location} region. Please contact image owner to "
            "replicate to this region, or change your requested region."
        )
        raise AzureError("GalleryImageNotFound", text, 404)
    properties, security = definition["properties"], security_of(definition)
    return Image(
        publisher="",
        offer="",
        sku="",
        arch="x86_64" if properties["architecture"] == "x64" else "arm64",
        generation=int(properties["hyperVGeneration"][1:]),
        driver=version["_driver"],
        disk_gib=version["properties"]["storageProfile"]["osDiskImage"]["sizeInGB"],
        version=version["name"],
        security="" if security == EITHER else str(security),
        files=version["_files"],
    )


def _latest(subscription: Subscription, definition_id: str) -> str | None:
    """The latest complete version of a definition."""
    found = [
        (tuple(map(int, each["name"].split("."))), id_)
        for id_, each in subscription.all(VERSION).items()
        if id_.startswith(f"{definition_id}/")
        and not each["properties"]["publishingProfile"]["excludeFromLatest"]
        and each["properties"]["provisioningState"] == SUCCEEDED
    ]
    return max(found)[1] if found else None

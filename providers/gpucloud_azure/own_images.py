"""Images of machines: versions in an Azure Compute Gallery, each in a gallery and a group of its own.

A managed image cannot be made of a machine with Trusted Launch. Of its OS disk, or of a snapshot of that, a
gallery makes a version whose definition has the security type ``TrustedLaunch``, and which boots machines
with Trusted Launch only; ``TrustedLaunchSupported`` is refused for these sources (azure-compute-docs,
trusted-launch-portal.md, "Trusted Launch VM images"; microsoft/STL#4682). The definition is ``Generalized``,
as machines of it need a user, and their own user-data; what the old machine left is reset by its first boot.

The version is made of the disk itself: a snapshot between them would be billed beside it. A version is a full
copy ("Because the source image isn't copied" is said of shallow ones, shared-image-galleries.md), so that the
disk may change and go once it is complete, and is waited for until then. Packer deletes its sources, too. It
is billed as a snapshot, by the occupied size (azure-compute-gallery.md, "Billing"; read 2026-11-26).
UNVERIFIED: that a version cannot be made meanwhile of a disk that changes, and how long it takes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from gpucloud.clouds.abilities import Images
from gpucloud.clouds.provider import LateFailureError, PartialCreateError, Record
from gpucloud.errors import ErrorClass, UsageError
from gpucloud.resources import Request, Resource, ResourceKind, SnapshotOrder
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import FailedImageError, MalformedAnswerError, classify
from gpucloud_azure.find import resource_of, show
from gpucloud_azure.ids import TYPES, api, id_in
from gpucloud_azure.json_paths import Json, at, list_at, plain, text_at
from gpucloud_azure.network import all_tags, group_name, put
from gpucloud_azure.volumes import make_group

VERSION = "1.0.0"
MOST_GIB = 2048
"""Source: troubleshooting-shared-images.md, "exceeds the max size 2048 supported"."""
TRUSTED = "TrustedLaunch"
LOOKS = 720  # with their pauses, an hour: a full copy of a large disk takes long
LONGEST_PAUSE_S = 5.0


class AzureImages(Images):
    """Versions in galleries."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    def prepare_image(self, order: SnapshotOrder, record: Record, /) -> Request:
        """Creates the resource group, the gallery and the definition; returns the version's PUT as JSON.

        Raises:
            UsageError: the disk is too large for a gallery.
        """
        self._account.refuse_foreign(order.of)
        clients = self._account.clients
        if order.size_gib > MOST_GIB:
            raise UsageError(f"Azure makes no image of {order.size_gib} GiB: at most {MOST_GIB}")
        machine = show(clients, order.of.id)
        disk_id = text_at(machine, "properties", "storageProfile", "osDisk", "managedDisk", "id")
        disk = plain(clients.resources().resources.get_by_id(disk_id, api_version=api(ResourceKind.DISK)))
        # The name of a gallery has no hyphens, and is unique in the subscription.
        name = f"{order.name.replace('-', '_')}/{order.name}/{VERSION}"
        id_ = id_in(order.account, group_name(order), ResourceKind.IMAGE, name)
        tags = all_tags(order.name, {}, order.tags)
        make_group(order, record, clients)
        definition, gallery = id_.rpartition("/versions/")[0], id_.rpartition("/images/")[0]
        common = {"location": order.region, "tags": tags}
        put(clients, gallery, ResourceKind.IMAGE, {**common, "properties": {}})
        put(clients, definition, ResourceKind.IMAGE, {**common, "properties": _definition(order, disk)})
        region = {"name": order.region, "regionalReplicaCount": 1, "storageAccountType": "Standard_LRS"}
        properties = {
            "publishingProfile": {"targetRegions": [region], "replicationMode": "Full"},
            "storageProfile": {"osDiskImage": {"source": {"id": disk_id}}},
        }
        return {"account": order.account, "id": id_, "body": {**common, "properties": properties}}

    def create_image(self, request: Request, /) -> Sequence[Resource]:
        """Puts the version, unless an earlier try of this call has done so, and waits until it is complete.

        Raises:
            PartialCreateError: it is there, and how far it has come is not known.
            FailedImageError: Azure could not make it.
        """
        clients = self._account.clients
        resources = clients.resources().resources
        id_, version = request["id"], api(ResourceKind.IMAGE)
        if not _is_there(request, clients):
            resources.begin_create_or_update_by_id(
                id_, dict(request["body"]), api_version=version, polling=False
            )
        try:
            shown = _await(request, clients)
        except Exception as error:
            raise PartialCreateError(str(error)) from error
        if text_at(shown, "properties", "provisioningState") == "Failed":
            raise FailedImageError("Azure could not make an image version of this disk")
        made = resource_of({**shown, "type": TYPES[ResourceKind.IMAGE].type, "id": id_}, request["account"])
        if made is None:
            raise MalformedAnswerError("the answer to the PUT of an image version is none")
        return [made]


def _definition(order: SnapshotOrder, disk: Json) -> dict[str, Any]:
    """What machines must be to boot from a disk. Its generation is 1 unless it says so."""
    security = text_at(disk, "properties", "securityProfile", "securityType")
    return {
        "osType": "Linux",
        "osState": "Generalized",
        "hyperVGeneration": text_at(disk, "properties", "hyperVGeneration") or "V1",
        "architecture": text_at(disk, "properties", "supportedCapabilities", "architecture") or "x64",
        # Said in both cases: since API version 2025-03-03 it is TrustedLaunchSupported otherwise.
        "features": [{"name": "SecurityType", "value": TRUSTED if security == TRUSTED else "Standard"}],
        "identifier": {"publisher": "gpucloud", "offer": "box", "sku": order.name},
    }


def _is_there(request: Request, clients: Clients) -> bool:
    try:
        _look(request, clients)
    except Exception as error:
        verdict = classify(error)
        if verdict is None or verdict.error_class is not ErrorClass.NOT_FOUND:
            raise
        return False
    return True


def _look(request: Request, clients: Clients) -> dict[str, Any]:
    found: Any = clients.resources().resources.get_by_id(request["id"], api_version=api(ResourceKind.IMAGE))
    return plain(found)


def _await(request: Request, clients: Clients) -> dict[str, Any]:
    """The version, once it is complete or failed."""
    pause_s = 0.1
    for _ in range(LOOKS):
        shown = _look(request, clients)
        if text_at(shown, "properties", "provisioningState") not in {"Creating", "Updating"}:
            return shown
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    raise LateFailureError("NotComplete", "the image version is not complete yet")


def is_trusted(version_id: str, clients: Clients) -> bool:
    """Whether machines of an image in a gallery have Trusted Launch: what boots with it alone, or may."""
    definition = version_id.lower().rpartition("/versions/")[0] or version_id
    shown = plain(clients.resources().resources.get_by_id(definition, api_version=api(ResourceKind.IMAGE)))
    features = {at(each, "name"): at(each, "value") for each in list_at(shown, "properties", "features")}
    return features.get("SecurityType") == TRUSTED

"""Images of stopped machines on Azure: what is asked of a gallery, and what is made of its answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpucloud.clouds.abilities import Images
from gpucloud.errors import RULES, UsageError
from gpucloud.resources import Request, ResourceKind, SnapshotOrder, State
from gpucloud_azure.errors import FailedImageError
from gpucloud_azure.ids import id_in
from gpucloud_azure.provider import AzureProvider
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.providers.azure_wire import SUBSCRIPTION, Answer, Remembered, Wire, order, ref

DISK = "/disks/x-disk"
GALLERY = "gpucloud_mine_1"
IMAGE = f"/galleries/{GALLERY}/images/gpucloud-mine-1"
VERSION = f"{IMAGE}/versions/1.0.0"
OWN = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.Compute{VERSION}"
TRUSTED = {"securityProfile": {"securityType": "TrustedLaunch"}}
FEATURES = {"properties": {"features": [{"name": "SecurityType", "value": "TrustedLaunch"}]}}
MISSING = Answer({"error": {"code": "ResourceNotFound", "message": "No."}}, 404)


def shown(state: str) -> Answer:
    """A version in a state."""
    size = {"osDiskImage": {"sizeInGB": 100}}
    return Answer(
        {"location": "eastus", "properties": {"provisioningState": state, "storageProfile": size}},
    )


def prepared(wire: Wire, provider: AzureProvider, *, size_gib: int = 100, **disk: Any) -> Request:
    """The request for an image of a machine whose disk says this."""
    group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.Compute"
    os_disk = {"managedDisk": {"id": f"{group}{DISK}"}}
    wire.say("GET", "/virtualMachines/x", Answer({"properties": {"storageProfile": {"osDisk": os_disk}}}))
    wire.say("GET", DISK, Answer({"properties": disk}))
    wanted = order()
    return able(provider, Images).prepare_image(
        SnapshotOrder(
            key=wanted.key,
            name="gpucloud-mine-1",
            account=wanted.account,
            region="eastus",
            of=ref(ResourceKind.INSTANCE, id_in(SUBSCRIPTION, "g", ResourceKind.INSTANCE, "x")),
            size_gib=size_gib,
            keep_days=31,
            tags=wanted.tags,
        ),
        Remembered(),
    )


@pytest.mark.parametrize(
    ("disk", "generation", "architecture", "security"),
    [
        ({"hyperVGeneration": "V2", **TRUSTED}, "V2", "x64", "TrustedLaunch"),
        (
            {"hyperVGeneration": "V2", "supportedCapabilities": {"architecture": "Arm64"}},
            "V2",
            "Arm64",
            "Standard",
        ),
        ({}, "V1", "x64", "Standard"),
    ],
)
def test_a_definition_is_what_the_disk_is(
    azure_wire: Wire, disk: dict[str, Any], generation: str, architecture: str, security: str
) -> None:
    request = prepared(azure_wire, AzureProvider(own_profile()), **disk)
    [put] = azure_wire.calls("PUT", IMAGE)
    properties = json.loads(put.body)["properties"]
    assert (properties["hyperVGeneration"], properties["architecture"]) == (generation, architecture)
    assert properties["features"] == [{"name": "SecurityType", "value": security}]
    assert azure_wire.calls("PUT", f"/galleries/{GALLERY}")
    assert not azure_wire.calls("PUT", VERSION)
    assert request["body"]["properties"]["storageProfile"]["osDiskImage"]["source"]["id"].endswith(DISK)


def test_a_disk_that_is_too_large_for_a_gallery_is_refused_before_anything_is_made(azure_wire: Wire) -> None:
    with pytest.raises(UsageError, match="2048"):
        prepared(azure_wire, AzureProvider(own_profile()), size_gib=2049)
    assert not azure_wire.calls("PUT")


def test_a_version_is_waited_for_and_put_once_however_often_it_is_asked_for(azure_wire: Wire) -> None:
    provider = AzureProvider(own_profile())
    request = prepared(azure_wire, provider)
    azure_wire.say("GET", VERSION, MISSING, shown("Creating"), shown("Succeeded"))
    for _ in range(2):
        [image] = able(provider, Images).create_image(request)
        assert (image.ref.kind, image.state, image.size_gib) == (ResourceKind.IMAGE, State.RUNNING, 100)
    assert len(azure_wire.calls("PUT", VERSION)) == 1


def test_a_version_that_azure_could_not_make_is_refused_for_good(azure_wire: Wire) -> None:
    provider = AzureProvider(own_profile())
    request = prepared(azure_wire, provider)
    azure_wire.say("GET", VERSION, MISSING, shown("Creating"), shown("Failed"))
    with pytest.raises(FailedImageError) as caught:
        able(provider, Images).create_image(request)
    verdict = provider.classify(caught.value)
    assert verdict is not None
    assert RULES[verdict.error_class].definite


def test_an_image_boots_with_trusted_launch_where_its_gallery_demands_it(azure_wire: Wire) -> None:
    azure_wire.say("GET", IMAGE, Answer(FEATURES))
    provider = AzureProvider(own_profile())
    request = provider.prepare(order(image=OWN), Remembered())
    [machine] = request["machines"]
    security = machine["body"]["properties"]["securityProfile"]
    assert (security["securityType"], security["uefiSettings"]["secureBootEnabled"]) == (
        "TrustedLaunch",
        False,
    )
    made = len(azure_wire.calls("PUT"))
    with pytest.raises(UsageError, match="Trusted Launch"):
        provider.prepare(order(image=OWN, instance_type="Standard_ND96asr_v4"), Remembered())
    assert len(azure_wire.calls("PUT")) == made

"""Galleries in the emulated Azure: images of disks, and machines that boot from them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.sandbox.azure_lab import GENERATION_1, GROUP, REGION, Azure, refused
from tests.sandbox.running import TAGS
from tests.sandbox.test_azure_snapshots import made, snap

SECURE: dict[str, Any] = {"securityProfile": {"securityType": "TrustedLaunch"}}


def definition(sku: str = "one", security: str = "TrustedLaunch", **properties: Any) -> dict[str, Any]:
    """The body of a definition."""
    wanted = {
        "osType": "Linux",
        "osState": "Generalized",
        "hyperVGeneration": "V2",
        "architecture": "x64",
        "features": [{"name": "SecurityType", "value": security}],
        "identifier": {"publisher": "lab", "offer": "box", "sku": sku},
    }
    return {"location": REGION, "tags": TAGS, "properties": {**wanted, **properties}}


def version(source: str, *, location: str = REGION, **profile: Any) -> dict[str, Any]:
    """The body of a version."""
    regions = {"targetRegions": [{"name": location, "regionalReplicaCount": 1}]}
    properties = {
        "publishingProfile": {**regions, **profile},
        "storageProfile": {"osDiskImage": {"source": {"id": source}}},
    }
    return {"location": location, "tags": TAGS, "properties": properties}


class Gallery:
    """A machine, and a gallery with one definition."""

    def __init__(self, azure: Azure, security: str = "TrustedLaunch", **changes: Any) -> None:
        self.azure, self.compute = azure, azure.compute
        self.disk = str(azure.launch(**changes).storage_profile.os_disk.managed_disk.id)
        body: dict[str, Any] = {"location": REGION, "properties": {}}
        self.compute.galleries.begin_create_or_update(GROUP, "lab", body).result()
        self.define("box", definition(security=security))

    def define(self, name: str, body: Any) -> Any:
        return self.compute.gallery_images.begin_create_or_update(GROUP, "lab", name, body).result()

    def put(self, body: Any, name: str = "1.0.0", definition: str = "box") -> Any:
        put = self.compute.gallery_image_versions.begin_create_or_update
        return put(GROUP, "lab", definition, name, body)

    def refused(self, body: Any, name: str = "1.0.0", definition: str = "box") -> tuple[str, int]:
        return refused(self.put, body, name, definition)

    def boots(self, image: str, name: str = "copy", **changes: Any) -> Any:
        return self.azure.launch(name, storageProfile__imageReference={"id": image}, **changes)


@pytest.fixture
def trusted(azure: Azure) -> Gallery:
    """Of a machine with Trusted Launch."""
    return Gallery(azure, **SECURE)


def test_a_version_boots_machines_is_billed_as_a_snapshot_and_goes_before_its_gallery(
    trusted: Gallery,
) -> None:
    compute = trusted.compute
    made_of_it = trusted.put(version(trusted.disk, replicaCount=1)).result()
    assert made_of_it.provisioning_state == "Succeeded"
    assert made_of_it.storage_profile.os_disk_image.size_in_gb == 100
    (entry,) = [each for each in trusted.azure.sandbox.status()["billing"] if each["kind"] == "snapshot"]
    assert Decimal(entry["price"]["amount"]) * 730 == pytest.approx(Decimal("5"), rel=Decimal("0.001"))
    assert trusted.put(version(trusted.disk)).result().id == made_of_it.id
    listed = {each.type: each.name for each in trusted.azure.resources.resources.list()}
    assert listed["Microsoft.Compute/galleries/images/versions"] == "lab/box/1.0.0"
    assert listed["Microsoft.Compute/galleries/images"] == "lab/box"
    assert [each.name for each in compute.gallery_images.list_by_gallery(GROUP, "lab")] == ["box"]
    versions = compute.gallery_image_versions
    assert [each.name for each in versions.list_by_gallery_image(GROUP, "lab", "box")] == ["1.0.0"]
    assert [each.name for each in compute.galleries.list()] == ["lab"]
    shown = versions.get(GROUP, "lab", "box", "1.0.0", expand="ReplicationStatus")
    assert shown.replication_status.aggregated_state == "Completed"

    assert trusted.boots(made_of_it.id, **SECURE).storage_profile.image_reference.id == made_of_it.id
    assert trusted.boots(made_of_it.id.rpartition("/versions/")[0], "latest", **SECURE)
    assert refused(compute.galleries.begin_delete, GROUP, "lab") == ("CannotDeleteResource", 409)
    assert refused(compute.gallery_images.begin_delete, GROUP, "lab", "box") == ("CannotDeleteResource", 409)
    versions.begin_delete(GROUP, "lab", "box", "1.0.0").result()
    assert "snapshot" not in trusted.azure.billed()
    compute.gallery_images.begin_delete(GROUP, "lab", "box").result()
    compute.galleries.begin_delete(GROUP, "lab").result()
    assert not list(compute.galleries.list())


def test_an_image_that_boots_with_trusted_launch_alone_is_in_its_region_and_complete(
    trusted: Gallery,
) -> None:
    azure = trusted.azure
    image = str(trusted.put(version(trusted.disk)).result().id)
    for changes, error in (
        ({}, ("BadRequest", 400)),
        ({**SECURE, "storageProfile__osDisk__diskSizeGB": 50}, ("ResizeDiskError", 400)),
    ):
        assert refused(trusted.boots, image, **changes) == error
    azure.sandbox.pace(transition_s=60)
    begun = trusted.compute.gallery_image_versions.begin_create_or_update
    begun(GROUP, "lab", "box", "1.0.1", version(trusted.disk), polling=False)
    waiting = trusted.compute.gallery_image_versions.get(GROUP, "lab", "box", "1.0.1")
    assert waiting.provisioning_state == "Creating"
    nothing = azure.id_of("Microsoft.Compute/galleries", "lab/images/box/versions/9.0.0")
    for id_ in (waiting.id, nothing):
        assert refused(trusted.boots, id_, **SECURE) == ("GalleryImageNotFound", 404)
    azure.sandbox.clock(advance_s=61)
    assert trusted.compute.gallery_image_versions.get(GROUP, "lab", "box", "1.0.1").provisioning_state == (
        "Succeeded"
    )


def test_a_version_whose_disk_goes_before_it_is_complete_has_failed(trusted: Gallery) -> None:
    trusted.azure.sandbox.pace(transition_s=60)
    begun = trusted.compute.gallery_image_versions.begin_create_or_update
    begun(GROUP, "lab", "box", "1.0.0", version(trusted.disk), polling=False)
    trusted.azure.sandbox.pace(transition_s=0)
    trusted.compute.virtual_machines.begin_delete(GROUP, "vm").result()
    shown = trusted.compute.gallery_image_versions.get(GROUP, "lab", "box", "1.0.0")
    assert shown.provisioning_state == "Failed"


def test_a_source_is_what_its_definition_says(azure: Azure) -> None:
    """Of a disk or a snapshot with Trusted Launch, no image is made that boots without it."""
    lab = Gallery(azure, **SECURE)
    source = snap(azure, "s", made(source=lab.disk, incremental=True)).id
    for number, (body, error) in enumerate(
        (
            (definition("a", "TrustedLaunchSupported"), ("InvalidParameter", 400)),
            (definition("b", "Standard"), ("InvalidParameter", 400)),
            (definition("c", "Standard", hyperVGeneration="V1"), ("Conflict", 409)),
            (definition("d", architecture="Arm64"), ("Conflict", 409)),
        )
    ):
        lab.define(f"d{number}", body)
        for each in (lab.disk, source):
            assert lab.refused(version(each), definition=f"d{number}") == error
    blank = azure.compute.disks.begin_create_or_update(GROUP, "blank", made("Empty", diskSizeGB=8))
    assert lab.refused(version(blank.result().id)) == ("Conflict", 409)
    assert lab.refused(version(lab.disk.replace("vm", "nothing"))) == ("NotFound", 404)
    assert lab.refused(version(azure.id_of("Microsoft.Compute/virtualMachines", "vm")))[1] == 400
    elsewhere = version(lab.disk, targetRegions=[{"name": "westus2"}])
    assert lab.refused(elsewhere) == ("InvalidParameter", 400)
    assert lab.put(version(source)).result().provisioning_state == "Succeeded"


def test_an_old_generation_boots_without_trusted_launch_alone(azure: Azure) -> None:
    lab = Gallery(azure, security="TrustedLaunch", storageProfile__imageReference=GENERATION_1)
    assert lab.refused(version(lab.disk)) == ("Conflict", 409)
    lab.define("old", definition("old", "Standard", hyperVGeneration="V1"))
    image = lab.put(version(lab.disk), definition="old").result().id
    assert refused(lab.boots, image, **SECURE) == ("BadRequest", 400)
    assert lab.boots(image, "second")


@pytest.mark.parametrize(
    ("place", "body"),
    [
        ("my-gallery", {"location": REGION, "properties": {}}),
        ("lab_", {"location": REGION, "properties": {}}),
        ("lab/images/_box", definition("two")),
        ("lab/images/box.", definition("two")),
        ("lab/images/two", definition("ends.")),
        ("lab/images/two", definition("two", hyperVGeneration="V1")),
        ("lab/images/box/versions/1.0", version("disk")),
        ("lab/images/box/versions/1.0.2147483648", version("disk")),
    ],
)
def test_names_and_members_follow_azures_rules(trusted: Gallery, place: str, body: Any) -> None:
    asked = trusted.azure.id_of("Microsoft.Compute/galleries", place) + "?api-version=2025-03-03"
    answer = trusted.azure.ask("PUT", asked, body=body)
    assert (answer.status, answer.code) == (400, "InvalidParameter")


def test_what_is_nested_needs_its_parent_and_definitions_do_not_change(trusted: Gallery) -> None:
    azure = trusted.azure
    for place, body in (("no/images/box", definition()), ("lab/images/no/versions/1.0.0", version("disk"))):
        asked = azure.id_of("Microsoft.Compute/galleries", place) + "?api-version=2025-03-03"
        assert azure.ask("PUT", asked, body=body).code == "ParentResourceNotFound"
    for body, code in (
        (definition(architecture="Arm64"), "PropertyChangeNotAllowed"),
        (definition("other"), "PropertyChangeNotAllowed"),
    ):
        assert refused(trusted.define, "box", body)[0] == code
    assert refused(trusted.define, "same", definition()) == ("Conflict", 409)
    azure.make_group("other")
    again = azure.compute.galleries.begin_create_or_update
    assert refused(again, "other", "lab", {"location": REGION, "properties": {}}) == ("Conflict", 409)

"""Snapshots of disks in the emulated Azure, and disks made from them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.sandbox.azure_lab import GROUP, REGION, Azure, refused
from tests.sandbox.running import TAGS

DISK = "Microsoft.Compute/disks"
SNAPSHOT = "Microsoft.Compute/snapshots"


def made(option: str = "Copy", source: str = "", location: str = REGION, **properties: Any) -> dict[str, Any]:
    """The body of a disk or snapshot."""
    origin = {"createOption": option, **({"sourceResourceId": source} if source else {})}
    return {"location": location, "tags": TAGS, "properties": {"creationData": origin, **properties}}


@pytest.fixture
def disk(azure: Azure) -> str:
    """The id of a disk of 64 GiB."""
    azure.make_group()
    put = azure.compute.disks.begin_create_or_update
    return str(put(GROUP, "disk", made("Empty", diskSizeGB=64)).result().id)


def snap(azure: Azure, name: str, body: dict[str, Any]) -> Any:
    return azure.compute.snapshots.begin_create_or_update(GROUP, name, body).result()


def percent(azure: Azure, name: str) -> float:
    return float(azure.compute.snapshots.get(GROUP, name).completion_percent)


def test_a_snapshot_outlives_its_disk_and_is_billed_until_it_is_deleted(azure: Azure, disk: str) -> None:
    made_of_it = snap(azure, "s", made(source=disk))
    assert (made_of_it.disk_size_gb, made_of_it.incremental) == (64, False)
    assert made_of_it.sku.name == "Standard_LRS"
    azure.compute.disks.begin_delete(GROUP, "disk").result()
    (entry,) = azure.sandbox.status()["billing"]
    assert entry["kind"] == "snapshot"
    assert Decimal(entry["price"]["amount"]) * 730 == pytest.approx(Decimal("3.2"), rel=Decimal("0.001"))
    assert [each.name for each in azure.compute.snapshots.list()] == ["s"]
    azure.compute.snapshots.begin_delete(GROUP, "s").result()
    assert azure.billed() == []
    assert refused(azure.compute.snapshots.get, GROUP, "s") == ("ResourceNotFound", 404)


def test_a_disk_is_made_from_a_snapshot_in_any_zone_and_not_smaller(azure: Azure, disk: str) -> None:
    source = snap(azure, "s", made(source=disk)).id
    put = azure.compute.disks.begin_create_or_update
    copy = put(GROUP, "copy", {**made(source=source), "zones": ["2"]}).result()
    assert (copy.disk_size_gb, copy.zones, copy.disk_state) == (64, ["2"], "Unattached")
    assert copy.creation_data.source_resource_id == source
    assert put(GROUP, "larger", made(source=source, diskSizeGB=128)).result().disk_size_gb == 128
    assert refused(put, GROUP, "less", made(source=source, diskSizeGB=32)) == ("ResizeDiskError", 400)
    assert put(GROUP, "of-disk", made(source=disk)).result().disk_size_gb == 64
    assert azure.billed() == ["disk"] * 4 + ["snapshot"]


def test_the_disk_of_a_machine_can_be_kept_as_a_snapshot(azure: Azure) -> None:
    machine = azure.launch()
    source = machine.storage_profile.os_disk.managed_disk.id
    assert snap(azure, "s", made(source=source, incremental=True)).os_type == "Linux"
    azure.compute.virtual_machines.begin_delete(GROUP, "vm").result()
    put = azure.compute.disks.begin_create_or_update
    again = put(GROUP, "again", made(source=azure.id_of(SNAPSHOT, "s"))).result()
    assert (again.os_type, again.disk_size_gb) == ("Linux", 100)


def test_incremental_snapshots_of_a_disk_are_one_family(azure: Azure, disk: str) -> None:
    first, second = (snap(azure, name, made(source=disk, incremental=True)) for name in ("a", "b"))
    assert first.incremental_snapshot_family_id == second.incremental_snapshot_family_id
    assert first.sku.name == "Standard_ZRS"  # eastus has zones
    kept_plain = {**made(source=disk, incremental=True), "sku": {"name": "Standard_LRS"}}
    assert snap(azure, "c", kept_plain).sku.name == "Standard_LRS"
    elsewhere = azure.compute.disks.begin_create_or_update(GROUP, "other", made("Empty", diskSizeGB=8))
    other = snap(azure, "d", made(source=elsewhere.result().id, incremental=True))
    assert other.incremental_snapshot_family_id != first.incremental_snapshot_family_id


def test_a_copy_to_another_region_takes_its_time_and_is_not_used_before(azure: Azure, disk: str) -> None:
    source = snap(azure, "s", made(source=disk, incremental=True)).id
    azure.sandbox.pace(transition_s=1000)
    away = made("CopyStart", source, "westeurope", incremental=True)
    assert snap(azure, "copy", away).completion_percent < 50
    use = made(source=azure.id_of(SNAPSHOT, "copy"), location="westeurope")
    put = azure.compute.disks.begin_create_or_update
    assert refused(put, GROUP, "new", use) == ("OperationNotAllowed", 409)
    call = azure.compute.snapshots.begin_create_or_update
    assert refused(call, GROUP, "second", away) == ("OperationNotAllowed", 409)
    azure.sandbox.clock(advance_s=500)
    assert 50 <= percent(azure, "copy") < 100
    azure.sandbox.clock(advance_s=500)
    assert percent(azure, "copy") == 100
    assert put(GROUP, "new", use).result().location == "westeurope"


def test_a_copy_whose_source_goes_fails(azure: Azure, disk: str) -> None:
    source = snap(azure, "s", made(source=disk, incremental=True)).id
    azure.sandbox.pace(transition_s=1000)
    snap(azure, "copy", made("CopyStart", source, "westeurope", incremental=True))
    azure.compute.snapshots.begin_delete(GROUP, "s").result()
    azure.sandbox.clock(advance_s=2000)
    failed = azure.compute.snapshots.get(GROUP, "copy")
    assert failed.copy_completion_error.error_code == "CopySourceNotFound"
    assert failed.completion_percent < 100
    use = made(source=failed.id, location="westeurope")
    call = azure.compute.disks.begin_create_or_update
    assert refused(call, GROUP, "new", use) == ("OperationNotAllowed", 409)


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        (made(), "InvalidParameter", 400),
        (made(source=DISK + "/none"), "NotFound", 404),
        (made(source="Microsoft.Compute/virtualMachines/none"), "InvalidParameter", 400),
        (made(source=DISK + "/disk", location="westeurope"), "NotFound", 404),
        (made("CopyStart", DISK + "/disk", "westeurope", incremental=True), "InvalidParameter", 400),
        (made("CopyStart", SNAPSHOT + "/full", "westeurope", incremental=True), "InvalidParameter", 400),
        (made("CopyStart", SNAPSHOT + "/growing", "westeurope"), "InvalidParameter", 400),
        (made(source=DISK + "/disk", diskSizeGB=128), "UnsupportedOperation", 405),
        ({**made(source=DISK + "/disk"), "tags": {}}, "RequestDisallowedByPolicy", 403),
    ],
)
def test_a_snapshot_that_azure_refuses_is_refused(
    azure: Azure, disk: str, body: Any, code: str, status: int
) -> None:
    snap(azure, "full", made(source=disk))
    snap(azure, "growing", made(source=disk, incremental=True))
    origin = body["properties"]["creationData"]
    if "sourceResourceId" in origin:
        kind, _, name = origin["sourceResourceId"].rpartition("/")
        origin = {**origin, "sourceResourceId": azure.id_of(kind, name)}
    body = {**body, "properties": {**body["properties"], "creationData": origin}}
    assert refused(azure.compute.snapshots.begin_create_or_update, GROUP, "s", body) == (code, status)
    assert azure.billed() == ["disk", "snapshot", "snapshot"]


def test_what_something_was_made_of_does_not_change(azure: Azure, disk: str) -> None:
    snap(azure, "s", made(source=disk))
    shown = azure.ask("GET", azure.id_of(SNAPSHOT, "s") + "?api-version=2024-03-02").body
    again = azure.ask("PUT", azure.id_of(SNAPSHOT, "s") + "?api-version=2024-03-02", body=shown)
    assert (again.status, again.body["properties"]["uniqueId"]) == (200, shown["properties"]["uniqueId"])
    other = azure.id_of(DISK, "other")
    call = azure.compute.snapshots.begin_create_or_update
    assert refused(call, GROUP, "s", made(source=other)) == ("BadRequest", 400)
    assert refused(call, GROUP, "s", made(source=disk, incremental=True)) == ("BadRequest", 400)
    put = azure.compute.disks.begin_create_or_update
    assert refused(put, GROUP, "disk", made(source=other, diskSizeGB=64)) == ("BadRequest", 400)


def test_snapshots_go_with_their_group(azure: Azure, disk: str) -> None:
    snap(azure, "s", made(source=disk))
    azure.resources.resource_groups.begin_delete(GROUP).result()
    assert azure.billed() == []

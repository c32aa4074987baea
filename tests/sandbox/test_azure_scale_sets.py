"""Uniform scale sets with one placement group in the emulated Azure, through the vendor's SDK."""

from __future__ import annotations

from typing import Any

import pytest

from gpucloud_sandbox.review import Review
from tests.sandbox.azure_lab import (
    FAMILY,
    GROUP,
    REGION,
    SPOT,
    Azure,
    refused,
    scale_set,
)
from tests.sandbox.running import TAGS

OF_ONE = ["address", "disk", "instance"]


def make(azure: Azure, capacity: int = 2, **changes: Any) -> Any:
    """A scale set and what it stands on; gives the poller."""
    azure.make_ground()
    return put(azure, scale_set(azure, capacity, **changes))


def put(azure: Azure, body: Any) -> Any:
    return azure.compute.virtual_machine_scale_sets.begin_create_or_update(GROUP, "set", body)


def scale(azure: Azure, capacity: int) -> Any:
    body = {"sku": {"capacity": capacity}}
    return azure.compute.virtual_machine_scale_sets.begin_update(GROUP, "set", body)


def listed(azure: Azure, **options: Any) -> list[Any]:
    return list(azure.compute.virtual_machine_scale_set_vms.list(GROUP, "set", **options))


def ids(azure: Azure) -> list[str]:
    return [each.instance_id for each in listed(azure)]


def powers(azure: Azure) -> list[str]:
    return [each.instance_view.statuses[-1].code for each in listed(azure, expand="instanceView")]


def shown(azure: Azure) -> Any:
    return azure.compute.virtual_machine_scale_sets.get(GROUP, "set")


def test_each_instance_is_billed_with_its_disk_and_its_address(azure: Azure) -> None:
    made = make(azure, 2).result()
    assert (made.provisioning_state, made.sku.capacity) == ("Succeeded", 2)
    assert azure.billed() == sorted(OF_ONE * 2)
    assert len(azure.boxes.alive) == 2
    first, second = listed(azure)
    assert (first.name, first.instance_id, second.instance_id) == ("set_0", "0", "1")
    assert (first.os_profile.computer_name, second.os_profile.computer_name) == ("n0000000", "n0000001")
    assert (first.latest_model_applied, first.provisioning_state) == (True, "Succeeded")
    disk = next(each for each in azure.compute.disks.list() if each.managed_by == first.id)
    assert disk.id == first.storage_profile.os_disk.managed_disk.id
    assert list(azure.compute.virtual_machines.list_all()) == []
    assert {each.type for each in azure.resources.resources.list()} == {
        "Microsoft.Compute/virtualMachineScaleSets",
        "Microsoft.Compute/disks",
        "Microsoft.Network/virtualNetworks",
        "Microsoft.Network/networkSecurityGroups",
    }


def test_interfaces_and_addresses_are_found_through_the_set_alone(azure: Azure) -> None:
    make(azure, 2).result()
    nics, addresses = azure.network.network_interfaces, azure.network.public_ip_addresses
    assert list(nics.list_all()) == list(addresses.list_all()) == []
    found = list(nics.list_virtual_machine_scale_set_network_interfaces(GROUP, "set"))
    instances = listed(azure)
    assert [each.virtual_machine.id for each in found] == [each.id for each in instances]
    (own,) = nics.list_virtual_machine_scale_set_vm_network_interfaces(GROUP, "set", "1")
    assert own.id == instances[1].network_profile.network_interfaces[0].id
    one = nics.get_virtual_machine_scale_set_network_interface(GROUP, "set", "1", "nic")
    assert one.ip_configurations[0].private_ip_address == "10.42.0.5"
    # This call of the SDK writes the namespace in another case.
    (configured,) = nics.list_virtual_machine_scale_set_ip_configurations(GROUP, "set", "1", "nic")
    assert configured.id == one.ip_configurations[0].id
    public = list(addresses.list_virtual_machine_scale_set_public_ip_addresses(GROUP, "set"))
    assert len({each.ip_address for each in public}) == 2
    of_one = list(
        addresses.list_virtual_machine_scale_set_vm_public_ip_addresses(GROUP, "set", "1", "nic", "ip")
    )
    assert [each.ip_address for each in of_one] == [public[1].ip_address]
    got = addresses.get_virtual_machine_scale_set_public_ip_address(GROUP, "set", "1", "nic", "ip", "pub")
    assert (got.ip_address, got.ip_configuration.id) == (of_one[0].ip_address, one.ip_configurations[0].id)
    assert refused(nics.get_virtual_machine_scale_set_network_interface, GROUP, "set", "1", "x")[1] == 404
    guard = azure.network.network_security_groups.get(GROUP, "fw")
    assert [each.id for each in guard.network_interfaces] == [each.id for each in found]


def test_capacity_goes_up_and_down_and_ids_are_never_used_twice(azure: Azure) -> None:
    make(azure, 2).result()
    scale(azure, 3).result()
    assert ids(azure) == ["0", "1", "2"]
    assert scale(azure, 1).result().sku.capacity == 1
    assert ids(azure) == ["0"]
    assert azure.billed() == OF_ONE
    body = scale_set(azure, 2)
    assert put(azure, body).result().sku.capacity == 2
    assert ids(azure) == ["0", "3"]
    azure.compute.virtual_machine_scale_sets.begin_update(GROUP, "set", {"tags": {**TAGS, "a": "b"}}).result()
    assert (shown(azure).tags["a"], shown(azure).sku.capacity) == ("b", 2)


def test_deleted_instances_lower_the_capacity(azure: Azure) -> None:
    make(azure, 4).result()
    sets, machines = azure.compute.virtual_machine_scale_sets, azure.compute.virtual_machine_scale_set_vms
    sets.begin_delete_instances(GROUP, "set", {"instanceIds": ["1", "2"]}).result()
    machines.begin_delete(GROUP, "set", "0").result()
    assert (ids(azure), shown(azure).sku.capacity) == (["3"], 1)
    assert azure.billed() == OF_ONE
    assert machines.begin_delete(GROUP, "set", "0").result() is None
    assert refused(machines.get, GROUP, "set", "0")[1] == 404
    sets.begin_delete_instances(GROUP, "set", {"instanceIds": ["*"]}).result()
    assert (ids(azure), azure.billed()) == ([], [])


def test_instances_are_switched_one_by_one_and_together(azure: Azure) -> None:
    make(azure, 2).result()
    sets, machines = azure.compute.virtual_machine_scale_sets, azure.compute.virtual_machine_scale_set_vms
    machines.begin_deallocate(GROUP, "set", "0").result()
    assert powers(azure) == ["PowerState/deallocated", "PowerState/running"]
    assert azure.billed() == sorted([*OF_ONE, "address", "disk"])
    machines.begin_start(GROUP, "set", "0").result()
    machines.begin_restart(GROUP, "set", "0").result()
    sets.begin_power_off(GROUP, "set").result()
    assert powers(azure) == ["PowerState/stopped"] * 2
    assert azure.billed() == sorted(OF_ONE * 2)
    sets.begin_start(GROUP, "set", {"instanceIds": ["1"]}).result()
    assert powers(azure) == ["PowerState/stopped", "PowerState/running"]
    counted = sets.get_instance_view(GROUP, "set").virtual_machine.statuses_summary
    assert {each.code: each.count for each in counted} == {
        "PowerState/running": 1,
        "PowerState/stopped": 1,
        "ProvisioningState/succeeded": 2,
    }


def test_a_set_takes_everything_with_it(azure: Azure) -> None:
    make(azure, 2).result()
    azure.sandbox.pace(transition_s=60)
    azure.compute.virtual_machine_scale_sets.begin_delete(GROUP, "set", polling=False)
    assert shown(azure).provisioning_state == "Deleting"
    assert refused(scale, azure, 3) == ("OperationNotAllowed", 409)
    azure.sandbox.clock(advance_s=61)
    assert refused(azure.compute.virtual_machine_scale_sets.get, GROUP, "set") == ("ResourceNotFound", 404)
    assert azure.billed() == []
    assert list(azure.compute.disks.list()) == []


def test_a_group_takes_its_sets_with_it(azure: Azure) -> None:
    make(azure, 2).result()
    azure.resources.resource_groups.begin_delete(GROUP).result()
    assert (azure.billed(), list(azure.compute.virtual_machine_scale_sets.list_all())) == ([], [])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, "AllocationFailed"),
        (SPOT, "OverconstrainedAllocationRequest"),
    ],
)
def test_instances_without_a_place_are_there_and_fail(
    azure: Azure, changes: dict[str, Any], code: str
) -> None:
    azure.sandbox.stock(count=1, cloud="azure")
    assert refused(make(azure, 3, **changes).result) == (code, 200)
    states = [each.provisioning_state for each in listed(azure)]
    assert states == ["Succeeded", "Failed", "Failed"]
    assert (shown(azure).provisioning_state, shown(azure).sku.capacity) == ("Failed", 3)
    assert azure.billed() == OF_ONE
    view = azure.compute.virtual_machine_scale_set_vms.get_instance_view(GROUP, "set", "2")
    assert view.statuses[0].code == f"ProvisioningState/failed/{code}"
    scale(azure, 1).result()
    assert shown(azure).provisioning_state == "Succeeded"


def test_more_than_the_quota_or_the_placement_group_holds_makes_nothing(azure: Azure) -> None:
    azure.sandbox.cloud("azure", "quota", region=REGION, name=FAMILY, value=7)
    assert refused(make, azure, 2) == ("OperationNotAllowed", 409)
    azure.sandbox.cloud("azure", "quota", region=REGION, name=FAMILY, value=20000)
    assert refused(make, azure, 101) == ("OperationNotAllowed", 409)
    assert (list(azure.compute.virtual_machine_scale_sets.list(GROUP)), azure.billed()) == ([], [])
    make(azure, 1).result()
    assert refused(scale, azure, 101) == ("OperationNotAllowed", 409)
    assert ids(azure) == ["0"]


@pytest.mark.parametrize("id_", ["7", "x"])
def test_ids_that_no_instance_has_are_refused(azure: Azure, id_: str) -> None:
    make(azure, 1).result()
    sets = azure.compute.virtual_machine_scale_sets
    assert refused(sets.begin_deallocate, GROUP, "set", {"instanceIds": [id_]}) == ("InvalidParameter", 400)
    assert refused(sets.begin_delete_instances, GROUP, "set", {"instanceIds": []}) == (
        "InvalidParameter",
        400,
    )
    assert powers(azure) == ["PowerState/running"]


def test_overprovisioning_makes_instances_that_go_again(azure: Azure) -> None:
    azure.make_ground()
    azure.sandbox.pace(transition_s=60)
    body = scale_set(azure, 2)
    del body["properties"]["overprovision"]
    azure.compute.virtual_machine_scale_sets.begin_create_or_update(GROUP, "set", body, polling=False)
    assert (ids(azure), shown(azure).sku.capacity) == (["0", "1", "2"], 2)
    assert azure.billed() == sorted(OF_ONE * 2)
    assert shown(azure).provisioning_state == "Creating"
    azure.sandbox.clock(advance_s=61)
    assert (ids(azure), shown(azure).provisioning_state) == (["0", "2"], "Succeeded")


def test_an_evicted_instance_is_no_longer_counted(azure: Azure) -> None:
    make(azure, 2, **SPOT).result()
    azure.compute.virtual_machine_scale_set_vms.simulate_eviction(GROUP, "set", "0")
    assert (ids(azure), shown(azure).sku.capacity) == (["1"], 1)
    azure.sandbox.interrupt(listed(azure)[0].id, notice_s=0)
    assert (ids(azure), azure.billed()) == ([], [])


def test_an_evicted_instance_stays_where_its_policy_says_so(azure: Azure) -> None:
    azure.sandbox.review(Review.OFF)
    try:
        make(azure, 1, **{**SPOT, "evictionPolicy": "Deallocate"}).result()
        azure.compute.virtual_machine_scale_set_vms.simulate_eviction(GROUP, "set", "0")
    finally:
        azure.sandbox.review(Review.ALL)
    assert powers(azure) == ["PowerState/deallocated"]
    assert azure.billed() == ["address", "disk"]
    azure.compute.virtual_machine_scale_set_vms.begin_start(GROUP, "set", "0").result()
    assert (powers(azure), azure.billed()) == (["PowerState/running"], OF_ONE)


def test_what_describes_the_instances_cannot_be_changed(azure: Azure) -> None:
    made = make(azure, 1).result()
    again = made.as_dict()
    assert put(azure, again).result().sku.capacity == 1
    assert refused(put, azure, scale_set(azure, 1, osProfile__adminUsername="other")) == (
        "PropertyChangeNotAllowed",
        409,
    )
    larger = scale_set(azure, 1, hardwareProfile__vmSize="Standard_NC8as_T4_v3")
    assert refused(put, azure, larger) == ("UnsupportedOperation", 405)
    assert refused(put, azure, scale_set(azure, 1, osProfile__customData="eA==")) == (
        "UnsupportedOperation",
        405,
    )
    assert put(azure, scale_set(azure, 1)).result().sku.capacity == 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"tags": {}}, "RequestDisallowedByPolicy"),
        (SPOT | {"evictionPolicy": "Deallocate"}, "RequestDisallowedByPolicy"),
        ({"storageProfile__imageReference": {"publisher": "x"}}, "PlatformImageNotFound"),
        ({"hardwareProfile__vmSize": "Standard_NC0"}, "InvalidParameter"),
        ({"osProfile__adminUsername": "admin"}, "InvalidParameter"),
        ({"osProfile__computerName": ""}, "InvalidParameter"),
        ({"storageProfile__osDisk__diskSizeGB": 8}, "ResizeDiskError"),
    ],
)
def test_a_set_is_held_to_what_holds_for_machines(azure: Azure, changes: dict[str, Any], code: str) -> None:
    for capacity in (0, 1):
        assert refused(make, azure, capacity, **changes)[0] == code
    assert azure.billed() == []


def test_booleans_may_be_text_as_in_templates_of_az(azure: Azure) -> None:
    azure.make_ground()
    body = scale_set(azure, 1)
    described = body["properties"]["virtualMachineProfile"]["networkProfile"][
        "networkInterfaceConfigurations"
    ]
    described[0]["properties"]["primary"] = "true"
    path = azure.id_of("Microsoft.Compute/virtualMachineScaleSets", "set?api-version=2024-07-01")
    made = azure.ask("PUT", path, body=body)
    assert made.status == 201
    profile = made.body["properties"]["virtualMachineProfile"]["networkProfile"]
    assert profile["networkInterfaceConfigurations"][0]["properties"]["primary"] is True
    described[0]["properties"]["primary"] = "yes"
    assert azure.ask("PUT", path, body=body).code == "InvalidRequestContent"


def test_a_set_without_instances_is_there_and_grows(azure: Azure) -> None:
    assert make(azure, 0).result().sku.capacity == 0
    assert azure.billed() == []
    scale(azure, 1).result()
    assert azure.billed() == OF_ONE
    assert refused(scale, azure, -1) == ("InvalidParameter", 400)


def test_a_new_instance_is_seen_after_some_reads(azure: Azure) -> None:
    azure.sandbox.pace(lag_calls=1)
    make(azure, 1).result()
    instance = azure.compute.virtual_machine_scale_set_vms.get
    assert refused(instance, GROUP, "set", "0") == ("NotFound", 404)
    assert instance(GROUP, "set", "0").name == "set_0"


def test_a_template_waits_for_the_instances_of_its_set(azure: Azure) -> None:
    azure.make_ground()
    azure.sandbox.stock(count=0, cloud="azure")
    resource = {
        "type": "Microsoft.Compute/virtualMachineScaleSets",
        "name": "set",
        "apiVersion": "2024-07-01",
    }
    template = {"contentVersion": "1.0.0.0", "resources": [{**resource, **scale_set(azure, 1)}]}
    path = azure.id_of("Microsoft.Resources/deployments", "d?api-version=2024-07-01")
    azure.ask("PUT", path, body={"properties": {"mode": "incremental", "template": template}})
    error = azure.ask("GET", path).body["properties"]["error"]
    assert [each["code"] for each in error["details"]] == ["AllocationFailed"]

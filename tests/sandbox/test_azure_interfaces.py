"""Network interfaces of machines in the emulated Azure, held to what their size takes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.azure_lab import GROUP, REGION, Azure, machine, network, refused, scale_set


def two_nics(azure: Azure, *primary: bool | None, **changes: Any) -> dict[str, Any]:
    """A machine with interfaces that say so much of being the primary."""
    azure.make_ground()
    interface = azure.interface("", **changes)
    del interface["properties"]["ipConfigurations"][0]["properties"]["publicIPAddress"]
    named: list[dict[str, Any]] = []
    for number, first in enumerate(primary):
        made = azure.network.network_interfaces.begin_create_or_update(GROUP, f"nic{number}", interface)
        chosen = {} if first is None else {"primary": first}
        named.append({"id": made.result().id, "properties": {"deleteOption": "Delete", **chosen}})
    return machine("", networkProfile__networkInterfaces=named)


def test_a_machine_has_several_interfaces_one_of_them_the_primary(azure: Azure) -> None:
    azure.put(two_nics(azure, False, True)).result()
    nics = azure.network.network_interfaces
    assert [nics.get(GROUP, name).primary for name in ("nic0", "nic1")] == [False, True]
    (box,) = azure.boxes.alive.values()
    assert box.private_ip == nics.get(GROUP, "nic1").ip_configurations[0].private_ip_address
    azure.compute.virtual_machines.begin_delete(GROUP, "vm").result()
    assert list(nics.list_all()) == []


@pytest.mark.parametrize(
    ("primary", "code"),
    [
        ((True, None), "NetworkInterfaceMustHavePrimaryPropertySet"),
        ((True, True), "VirtualMachineMustHaveOneNetworkInterfaceAsPrimary"),
        ((False, False), "VirtualMachineMustHaveOneNetworkInterfaceAsPrimary"),
        ((True, False, False), "NetworkInterfaceCountExceeded"),
    ],
)
def test_interfaces_are_held_to_the_size_and_to_one_primary(azure: Azure, primary: Any, code: str) -> None:
    assert refused(azure.put, two_nics(azure, *primary)) == (code, 400)
    assert azure.billed() == []


def test_interfaces_are_in_one_network(azure: Azure) -> None:
    body = two_nics(azure, True, False)
    azure.network.virtual_networks.begin_create_or_update(GROUP, "far", network()).result()
    moved = azure.network.network_interfaces.get(GROUP, "nic1").as_dict()
    subnet = azure.id_of("Microsoft.Network/virtualNetworks", "far/subnets/default")
    moved["properties"]["ipConfigurations"][0]["properties"]["subnet"] = {"id": subnet}
    azure.network.network_interfaces.begin_create_or_update(GROUP, "nic1", moved).result()
    assert refused(azure.put, body) == ("SubnetsNotInSameVnet", 400)


def test_the_list_of_sizes_says_how_many_interfaces_each_takes(azure: Azure) -> None:
    listed = azure.compute.resource_skus.list(filter=f"location eq '{REGION}'")
    told = {
        each.name: next(int(c.value) for c in each.capabilities if c.name == "MaxNetworkInterfaces")
        for each in listed
    }
    assert (told["Standard_NC4as_T4_v3"], told["Standard_NC64as_T4_v3"]) == (2, 8)
    assert set(told.values()) <= {1, 2, 4, 6, 8}


def test_a_machine_with_many_interfaces_cannot_become_too_small_for_them(azure: Azure) -> None:
    body = two_nics(azure, True, False, False, enableAcceleratedNetworking=True)
    body["properties"]["hardwareProfile"]["vmSize"] = "Standard_NC8as_T4_v3"
    azure.put(body).result()

    def resized(size: str) -> tuple[str, int]:
        change = {"properties": {"hardwareProfile": {"vmSize": size}}}
        return refused(azure.compute.virtual_machines.begin_update, GROUP, "vm", change)

    assert resized("Standard_NC4as_T4_v3") == ("NetworkInterfaceCountExceeded", 400)
    assert resized("Standard_NC6s_v3") == ("VMSizeIsNotPermittedToEnableAcceleratedNetworking", 400)


def test_an_interface_in_use_is_accelerated_only_where_the_size_can(azure: Azure) -> None:
    nic = azure.make_parts()
    azure.put(machine(nic, hardwareProfile__vmSize="Standard_NC6s_v3")).result()
    body = azure.network.network_interfaces.get(GROUP, "vm-nic").as_dict()
    body["properties"]["enableAcceleratedNetworking"] = True
    code = refused(azure.network.network_interfaces.begin_create_or_update, GROUP, "vm-nic", body)
    assert code == ("VMSizeIsNotPermittedToEnableAcceleratedNetworking", 400)


def test_instances_of_a_set_have_several_interfaces_too(azure: Azure) -> None:
    azure.make_ground()
    body = scale_set(azure, 1)
    described = body["properties"]["virtualMachineProfile"]["networkProfile"][
        "networkInterfaceConfigurations"
    ]
    second = {**described[0], "name": "nic2", "properties": {**described[0]["properties"], "primary": False}}
    described.append(second)
    sets, nics = azure.compute.virtual_machine_scale_sets, azure.network.network_interfaces
    sets.begin_create_or_update(GROUP, "set", body).result()
    listed = nics.list_virtual_machine_scale_set_network_interfaces(GROUP, "set")
    assert [(each.name, each.primary) for each in listed] == [("nic", True), ("nic2", False)]
    described.append({**second, "name": "nic3"})
    assert refused(sets.begin_create_or_update, GROUP, "set2", body) == ("NetworkInterfaceCountExceeded", 400)

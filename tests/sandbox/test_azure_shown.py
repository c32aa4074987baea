"""What the emulated Azure supports in a PUT is what a GET shows, member by member."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpucloud_sandbox.azure.api_versions import versions_of
from gpucloud_sandbox.azure.members import TABLE
from gpucloud_sandbox.supported import leaves
from tests.sandbox.azure_lab import (
    ADDRESS,
    GROUP,
    REGION,
    SIZE,
    SPOT,
    Azure,
    firewall,
    machine,
    network,
    rule,
)
from tests.sandbox.running import TAGS
from tests.sandbox.test_azure_galleries import SECURE, Gallery, version

Body = dict[str, Any]
Make = Callable[[Azure], Body]
CALLS = dict(TABLE.values())
HEADERS = {"If-Match", "If-None-Match"}  # tests/sandbox/test_azure_conditions.py

UNSHOWN = {
    "properties.osProfile.customData": "a secret: the machine alone reads it",
    "properties.storageProfile.osDisk.managedDisk.id": "supported where the disk exists, from a GET",
    "properties.networkProfile.networkApiVersion": "of described interfaces, which are shown as such",
    "properties.networkProfile.networkInterfaceConfigurations": "as above",
    "properties.completionPercent": "read-only, and ignored in what a GET showed",
    "properties.ipAddress": "supported where it is the address's own: of what a GET showed",
    "properties.virtualMachines": "as above",
    "properties.securityRules.id": "as above",
    "properties.subnets.id": "as above",
    "properties.ipConfigurations.id": "as above",
}
"""The supported members that no body below has, or no GET shows, and why."""


def data_disk(azure: Azure) -> str:
    """A disk that a machine can have."""
    body = {"location": REGION, "zones": ["1"], "tags": TAGS, "properties": empty(8)}
    return str(azure.compute.disks.begin_create_or_update(GROUP, "data", body).result().id)


def empty(gib: int) -> dict[str, Any]:
    return {"creationData": {"createOption": "Empty"}, "diskSizeGB": gib}


def usual(azure: Azure, nic: str) -> dict[str, Any]:
    """A machine with what machines have of their own accord, all of it said."""
    disk = {
        "name": "root",
        "osType": "Linux",
        "caching": "ReadWrite",
        "createOption": "FromImage",
        "deleteOption": "Delete",
        "diskSizeGB": 64,
        "managedDisk": {"storageAccountType": "Premium_LRS"},
    }
    data = [
        {
            "lun": 3,
            "name": "fresh",
            "caching": "None",
            "createOption": "Empty",
            "deleteOption": "Delete",
            "diskSizeGB": 16,
            "managedDisk": {"storageAccountType": "Premium_LRS"},
        },
        {
            "lun": 1,
            "createOption": "Attach",
            "deleteOption": "Detach",
            "managedDisk": {"id": data_disk(azure)},
        },
    ]
    body = machine(
        nic,
        storageProfile__osDisk=disk,
        storageProfile__dataDisks=data,
        osProfile__allowExtensionOperations=True,
        osProfile__requireGuestProvisionSignal=True,
        osProfile__secrets=[],
        diagnosticsProfile={"bootDiagnostics": {"enabled": False}},
        priority="Regular",
    )
    return {**body, "identity": {"type": "SystemAssigned"}}


def guarded(azure: Azure, nic: str) -> dict[str, Any]:
    """A Spot machine with Trusted Launch, encrypted at its host."""
    azure.sandbox.cloud("azure", "feature", name="EncryptionAtHost", registered=True)
    security = {
        "securityType": "TrustedLaunch",
        "encryptionAtHost": True,
        "uefiSettings": {"secureBootEnabled": False, "vTpmEnabled": True},
    }
    return machine(nic, securityProfile=security, **SPOT)


def held(azure: Azure, nic: str) -> dict[str, Any]:
    """A machine in a capacity reservation."""
    group = azure.sandbox.cloud("azure", "reserve", region=REGION, zone="1", instance_type=SIZE, count=1)
    return machine(nic, capacityReservation={"capacityReservationGroup": {"id": group}})


def in_a_set(azure: Azure, nic: str) -> dict[str, Any]:
    """A machine in an availability set."""
    made = azure.compute.availability_sets.create_or_update(
        GROUP, "set", {"location": REGION, "sku": {"name": "Aligned"}}
    )
    body = machine(nic, availabilitySet={"id": made.id})
    del body["zones"]
    return body


def interface(azure: Azure) -> dict[str, Any]:
    """An interface with all that one may say."""
    azure.make_parts()
    address = azure.network.public_ip_addresses.begin_create_or_update(GROUP, "other", ADDRESS).result().id
    body = azure.interface(
        address,
        enableAcceleratedNetworking=True,
        enableIPForwarding=False,
        disableTcpStateTracking=False,
        dnsSettings={"dnsServers": []},
        nicType="Standard",
        auxiliaryMode="None",
        auxiliarySku="None",
    )
    body["properties"]["ipConfigurations"][0]["properties"] |= {
        "primary": True,
        "privateIPAddress": "10.42.0.99",
        "privateIPAddressVersion": "IPv4",
        "privateIPAllocationMethod": "Static",
    }
    return body


def copied(azure: Azure, option: str = "Copy", **properties: Any) -> dict[str, Any]:
    """The body of a snapshot or disk that is copied from another."""
    azure.make_group()
    source = data_disk(azure)
    if option == "CopyStart":
        origin = {"createOption": "Copy", "sourceResourceId": source}
        first = {
            "location": REGION,
            "tags": TAGS,
            "properties": {"creationData": origin, "incremental": True},
        }
        source = azure.compute.snapshots.begin_create_or_update(GROUP, "first", first).result().id
    inside = {"creationData": {"createOption": option, "sourceResourceId": source}, **properties}
    return {"location": REGION, "tags": TAGS, "properties": inside}


OPEN: dict[str, Any] = {
    "encryption": {"type": "EncryptionAtRestWithPlatformKey"},
    "networkAccessPolicy": "AllowAll",
    "publicNetworkAccess": "Enabled",
}
CLOSED: dict[str, Any] = {**OPEN, "networkAccessPolicy": "DenyAll", "publicNetworkAccess": "Disabled"}


def full_network(azure: Azure) -> dict[str, Any]:
    azure.make_parts()
    subnet: dict[str, Any] = {
        "addressPrefix": "10.42.0.0/20",
        "networkSecurityGroup": {"id": azure.id_of("Microsoft.Network/networkSecurityGroups", "fw")},
        "privateEndpointNetworkPolicies": "Disabled",
        "privateLinkServiceNetworkPolicies": "Enabled",
        "delegations": [],
    }
    return network(
        subnets=[{"name": "s", "properties": subnet}],
        enableDdosProtection=False,
        enableVmProtection=False,
        dhcpOptions={"dnsServers": []},
        virtualNetworkPeerings=[],
    )


def full_firewall(azure: Azure) -> dict[str, Any]:
    azure.make_group()
    several = rule(priority=200, description="more", destinationPortRanges=["80", "443"], sourcePortRanges=[])
    several["properties"] |= {"sourceAddressPrefixes": ["192.0.2.1", "192.0.2.2"]}
    several["properties"] |= {"destinationAddressPrefixes": []}
    for single in ("sourceAddressPrefix", "destinationPortRange"):
        del several["properties"][single]
    return firewall(rule(), {**several, "name": "web"})


def full_address(azure: Azure) -> dict[str, Any]:
    azure.make_group()
    more: dict[str, Any] = {
        "publicIPAddressVersion": "IPv4",
        "idleTimeoutInMinutes": 4,
        "ipTags": [],
        "ddosSettings": {"protectionMode": "VirtualNetworkInherited"},
    }
    sku = {"name": "Standard", "tier": "Regional"}
    return {**ADDRESS, "sku": sku, "zones": ["1", "2", "3"], "properties": {**ADDRESS["properties"], **more}}


def premium(azure: Azure) -> dict[str, Any]:
    azure.make_group()
    sku = {"name": "Premium_LRS"}
    return {"location": REGION, "zones": ["2"], "sku": sku, "tags": TAGS, "properties": {**empty(32), **OPEN}}


def aligned(azure: Azure) -> dict[str, Any]:
    azure.make_group()
    counts = {"platformFaultDomainCount": 3, "platformUpdateDomainCount": 7}
    return {"location": REGION, "tags": TAGS, "sku": {"name": "Aligned"}, "properties": counts}


def of_machine(make: Callable[[Azure, str], Body]) -> Make:
    """A body that needs an interface."""

    def made(azure: Azure) -> Body:
        return make(azure, azure.make_parts())

    return made


def of_an_image(azure: Azure) -> Body:
    """A machine of an image in a gallery."""
    lab = Gallery(azure, **SECURE)
    image = lab.put(version(lab.disk)).result().id
    return machine(azure.make_parts("walked"), storageProfile__imageReference={"id": image}, **SECURE)


def described_gallery(azure: Azure) -> Body:
    azure.make_group()
    return {"location": REGION, "tags": TAGS, "properties": {"description": "images"}}


def full_snapshot(azure: Azure) -> Body:
    body = copied(azure, osType="Linux", diskSizeGB=8, **OPEN)
    return {**body, "sku": {"name": "Standard_LRS"}}


def moved_snapshot(azure: Azure) -> Body:
    return copied(azure, "CopyStart", incremental=True, **CLOSED)


WALKS: dict[str, list[Make]] = {
    "Microsoft.Compute/virtualMachines": [
        *(of_machine(each) for each in (usual, guarded, held, in_a_set)),
        of_an_image,
    ],
    "Microsoft.Compute/galleries": [described_gallery],
    "Microsoft.Compute/disks": [premium, copied],
    "Microsoft.Compute/snapshots": [full_snapshot, moved_snapshot],
    "Microsoft.Compute/availabilitySets": [aligned],
    "Microsoft.Network/virtualNetworks": [full_network],
    "Microsoft.Network/networkSecurityGroups": [full_firewall],
    "Microsoft.Network/publicIPAddresses": [full_address],
    "Microsoft.Network/networkInterfaces": [interface],
}
"""By type: bodies that have every supported member between them."""


def stated(body: Any) -> Iterator[tuple[str, str]]:
    """The members of a document that can be compared; what it does not name is not stated."""
    for path, value in leaves(body):
        yield path, str(value).lower()


@pytest.mark.parametrize("kind", sorted(WALKS))
def test_a_get_shows_every_member_of_the_put(azure: Azure, kind: str) -> None:
    said: set[str] = set()
    for make in WALKS[kind]:
        azure.sandbox.reset()
        body = make(azure)
        path = f"{azure.id_of(kind, 'walked')}?api-version={versions_of(*kind.split('/'))[0]}"
        put = azure.ask("PUT", path, body=copy.deepcopy(body))
        assert put.status in {200, 201, 202}, put.body
        answer = set(stated(azure.ask("GET", path).body))
        lost = [each for each in stated(body) if each not in answer and each[0] not in UNSHOWN]
        assert lost == []
        said |= {each for each, _ in leaves(body)}
    row = CALLS[f"PUT {kind}"]
    silent = {
        each
        for each in {*row.paths, *row.valued} - HEADERS - said
        if not any(f"{each}.".startswith(f"{unshown}.") for unshown in UNSHOWN)
    }
    assert silent == set()


def test_what_a_machine_describes_of_its_interface_is_shown_by_interface_and_address(azure: Azure) -> None:
    azure.make_parts()
    address = {
        "name": "ip",
        "tags": {**TAGS, "colour": "blue"},
        "sku": {"name": "Standard", "tier": "Regional"},
        "properties": {"publicIPAllocationMethod": "Static", "deleteOption": "Delete"},
    }
    subnet = azure.id_of("Microsoft.Network/virtualNetworks", "net/subnets/default")
    configuration = {"primary": True, "subnet": {"id": subnet}, "publicIPAddressConfiguration": address}
    guard = {"id": azure.id_of("Microsoft.Network/networkSecurityGroups", "fw")}
    described = {
        "name": "nic",
        "tags": {**TAGS, "colour": "red"},
        "properties": {
            "primary": True,
            "deleteOption": "Delete",
            "enableAcceleratedNetworking": True,
            "networkSecurityGroup": guard,
            "ipConfigurations": [{"name": "first", "properties": configuration}],
        },
    }
    profile = {"networkApiVersion": "2022-11-01", "networkInterfaceConfigurations": [described]}
    azure.put(machine("", networkProfile=profile)).result()
    (nic,) = (each for each in azure.network.network_interfaces.list(GROUP) if each.name.startswith("nic-"))
    assert (nic.enable_accelerated_networking, nic.network_security_group.id) == (True, guard["id"])
    assert nic.tags["colour"] == "red"
    (inside,) = nic.ip_configurations
    assert (inside.name, inside.primary, inside.subnet.id) == ("first", True, subnet)
    (public,) = (each for each in azure.network.public_ip_addresses.list(GROUP) if each.name != "vm-ip")
    assert public.id == inside.public_ip_address.id
    assert (public.tags["colour"], public.sku.tier) == ("blue", "Regional")

"""PUT of a virtual machine in the sandbox, as the vendor's SDK sees it."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from tests.sandbox.azure_lab import (
    ADDRESS,
    FAMILY,
    GENERATION_1,
    GROUP,
    IF_NEW,
    REGION,
    SIZE,
    SPOT,
    UBUNTU,
    Azure,
    machine,
    refused,
    rule,
)
from tests.sandbox.running import TAGS

HUNDRED = "Standard_NC24ads_A100_v4"
WEAK_KEY = "ssh-rsa " + base64.b64encode(b"\0\0\0\7ssh-rsa" + b"\0" * 140).decode()
ED25519 = "ssh-ed25519 " + base64.b64encode(b"\0" * 51).decode()


def keys(data: str, path: str = "/home/box/.ssh/authorized_keys") -> list[dict[str, str]]:
    return [{"path": path, "keyData": data}]


def test_a_launch_gives_a_machine_with_disk_interface_address_and_tags(azure: Azure) -> None:
    nic = azure.make_parts()
    poller = azure.put(machine(nic))
    assert poller.polling_method()._initial_response.http_response.status_code == 201
    made = poller.result()
    assert made.provisioning_state == "Succeeded"
    assert made.id == azure.id_of("Microsoft.Compute/virtualMachines", "vm")
    assert made.os_profile.custom_data is None  # it is written once and never shown
    assert azure.power() == "PowerState/running"
    disk = azure.compute.disks.get(GROUP, made.storage_profile.os_disk.name)
    assert (disk.disk_size_gb, disk.disk_state, disk.managed_by) == (100, "Attached", made.id)
    address = azure.network.public_ip_addresses.get(GROUP, "vm-ip")
    assert address.ip_address.startswith("203.0.113.")
    assert azure.network.network_interfaces.get(GROUP, "vm-nic").virtual_machine.id == made.id
    (spec,) = azure.boxes.alive.values()
    assert (spec.gpu_model, spec.gpu_count, spec.user_data) == ("T4", 1, "#cloud-config\n")
    assert (spec.public_ip, spec.private_ip) == (address.ip_address, "10.42.0.4")
    billing = azure.sandbox.status()["billing"]
    assert sorted(entry["kind"] for entry in billing) == ["address", "disk", "instance"]
    assert {(entry["box"], entry["owner"]) for entry in billing} == {("b", "u")}


def test_interfaces_and_addresses_that_a_launch_describes_are_made_and_named(azure: Azure) -> None:
    azure.make_parts()
    address = {
        "name": "pip",
        "tags": TAGS,
        "sku": {"name": "Standard"},
        "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": "Static"},
    }
    known = azure.network.network_interfaces.get(GROUP, "vm-nic")
    configuration = {
        "subnet": {"id": known.ip_configurations[0].subnet.id},
        "publicIPAddressConfiguration": address,
    }
    described = {
        "name": "nic",
        "tags": TAGS,
        "properties": {
            "primary": True,
            "deleteOption": "Delete",
            "networkSecurityGroup": {"id": known.network_security_group.id},
            "ipConfigurations": [{"name": "ip", "properties": configuration}],
        },
    }
    profile = {"networkApiVersion": "2022-11-01", "networkInterfaceConfigurations": [described]}
    made = azure.put(machine("", networkProfile=profile)).result()
    nic_id = made.network_profile.network_interfaces[0].id
    nic = azure.network.network_interfaces.get(GROUP, nic_id.rpartition("/")[2])
    public = nic.ip_configurations[0].public_ip_address.id.rpartition("/")[2]
    assert azure.network.public_ip_addresses.get(GROUP, public).ip_address
    assert azure.billed() == ["address", "address", "disk", "instance"]
    azure.compute.virtual_machines.begin_delete(GROUP, "vm").result()
    assert azure.billed() == ["address"]  # the one that was made by itself
    assert [each.name for each in azure.network.network_interfaces.list(GROUP)] == ["vm-nic"]


def test_ids_are_compared_without_regard_to_case_and_shown_as_they_were_written(azure: Azure) -> None:
    azure.launch("Big-Name")
    found = azure.compute.virtual_machines.get(GROUP.upper(), "BIG-name")
    assert found.id == azure.id_of("Microsoft.Compute/virtualMachines", "Big-Name")
    assert [each.name for each in azure.compute.virtual_machines.list(GROUP.lower())] == ["Big-Name"]


def test_a_machine_is_put_only_where_there_is_none(azure: Azure) -> None:
    body = machine(azure.make_parts())
    path = azure.id_of("Microsoft.Compute/virtualMachines", "vm") + "?api-version=2026-04-01"

    def put(_: int) -> int:
        return azure.ask("PUT", path, body=body, If_None_Match="*").status

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(put, range(8)))
    assert answers == [201] + [412] * 7
    assert refused(azure.put, body, **IF_NEW) == ("PreconditionFailed", 412)
    assert azure.put(body).result().name == "vm"  # the same again changes nothing
    births = [entry for entry in azure.sandbox.ledger() if entry["kind"] == "instance"]
    assert len(births) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"storageProfile__imageReference": {**UBUNTU, "sku": "22_04-lts"}},
        {"osProfile__adminUsername": "boss"},
        {"osProfile__customData": base64.b64encode(b"other").decode()},
        {"priority": "Spot", "evictionPolicy": "Delete"},
    ],
)
def test_what_a_machine_keeps_for_life_cannot_be_changed(azure: Azure, changes: dict[str, Any]) -> None:
    made = azure.launch()
    nic = made.network_profile.network_interfaces[0].id
    assert refused(azure.put, machine(nic, **changes)) == ("PropertyChangeNotAllowed", 409)


@pytest.mark.parametrize(
    ("changes", "code", "status"),
    [
        ({"location": None}, "LocationRequired", 400),
        ({"location": "atlantis"}, "LocationNotAvailableForResourceType", 400),
        ({"location": "westeurope"}, "InvalidResourceReference", 400),
        ({"zones": ["1", "2"]}, "InvalidParameter", 400),
        ({"zones": ["9"]}, "SkuNotAvailable", 409),
        ({"hardwareProfile__vmSize": "Standard_NC5"}, "InvalidParameter", 400),
        (
            {"hardwareProfile__vmSize": HUNDRED, "storageProfile__imageReference": GENERATION_1},
            "BadRequest",
            400,
        ),
        ({"storageProfile__imageReference": {**UBUNTU, "sku": "no"}}, "PlatformImageNotFound", 404),
        ({"storageProfile__imageReference": {**UBUNTU, "version": "1"}}, "PlatformImageNotFound", 404),
        ({"storageProfile__imageReference": {**UBUNTU, "sku": "22_04-lts-arm64"}}, "InvalidParameter", 400),
        ({"storageProfile__osDisk__diskSizeGB": 8}, "ResizeDiskError", 400),
        ({"storageProfile__osDisk__diskSizeGB": 9999}, "InvalidParameter", 400),
        ({"osProfile__adminUsername": "root"}, "InvalidParameter", 400),
        ({"osProfile__adminUsername": None}, "InvalidParameter", 400),
        ({"osProfile__computerName": "a_b"}, "InvalidParameter", 400),
        ({"osProfile__computerName": "n" * 65}, "InvalidParameter", 400),
        ({"osProfile__customData": "not base64!"}, "InvalidParameter", 400),
        ({"osProfile__customData": base64.b64encode(b"x" * 65536).decode()}, "InvalidParameter", 400),
        ({"osProfile__linuxConfiguration__ssh__publicKeys": keys(ED25519)}, "InvalidParameter", 400),
        ({"osProfile__linuxConfiguration__ssh__publicKeys": keys(WEAK_KEY)}, "InvalidParameter", 400),
        ({"osProfile__linuxConfiguration__ssh__publicKeys": []}, "InvalidParameter", 400),
        ({"networkProfile__networkInterfaces": []}, "InvalidParameter", 400),
        ({"securityProfile": {"encryptionAtHost": True}}, "InvalidParameter", 400),
        (
            {"securityProfile": {"securityType": "Standard", "uefiSettings": {"vTpmEnabled": False}}},
            "InvalidParameter",
            400,
        ),
        ({"evictionPolicy": "Delete"}, "InvalidParameter", 400),
        (
            {"osProfile__linuxConfiguration__disablePasswordAuthentication": False},
            "UnsupportedOperation",
            405,
        ),
        ({"osProfile__adminPassword": "correct horse"}, "UnsupportedOperation", 405),
        ({**SPOT, "billingProfile": {"maxPrice": 0.00001}}, "SpotPriceGreaterThanProvidedMaxPrice", 409),
        ({**SPOT, "billingProfile": {"maxPrice": 1.1234567}}, "InvalidParameter", 400),
        # the shape of the body
        ({"bogus": 1}, "InvalidRequestContent", 400),
        ({"hardwareProfile__size": SIZE}, "InvalidRequestContent", 400),
        ({"hardwareProfile__id": "x"}, "InvalidRequestContent", 400),
        ({"networkProfile__networkInterfaces": {}}, "InvalidRequestContent", 400),
        ({"storageProfile__osDisk__diskSizeGB": "100"}, "InvalidRequestContent", 400),
        ({"osProfile__linuxConfiguration__disablePasswordAuthentication": 1}, "InvalidRequestContent", 400),
        ({"tags": {**TAGS, "n": 1}}, "InvalidRequestContent", 400),
        ({"zones": "1"}, "InvalidRequestContent", 400),
        ({"vmId": "x"}, "InvalidParameter", 400),
        ({"priority": "Spott"}, "InvalidParameter", 400),
        ({"tags": {**TAGS, "a?b": ""}}, "InvalidTagNameCharacters", 400),
    ],
)
def test_what_azure_refuses_is_refused_with_its_code(
    azure: Azure, changes: dict[str, Any], code: str, status: int
) -> None:
    nic = azure.make_parts()
    assert refused(azure.put, machine(nic, **changes)) == (code, status)
    assert azure.billed() == ["address"]
    assert list(azure.compute.virtual_machines.list(GROUP)) == []


def test_accelerated_networking_is_refused_for_sizes_without_it(azure: Azure) -> None:
    id_ = azure.make_parts()
    nic = azure.interface(azure.id_of("Microsoft.Network/publicIPAddresses", "vm-ip"))
    nic["properties"]["enableAcceleratedNetworking"] = True
    azure.network.network_interfaces.begin_create_or_update(GROUP, "vm-nic", nic).result()
    old = machine(id_, hardwareProfile={"vmSize": "Standard_NC6s_v3"})
    assert refused(azure.put, old) == ("VMSizeIsNotPermittedToEnableAcceleratedNetworking", 400)
    azure.put(machine(id_)).result()


def test_encryption_at_host_is_for_subscriptions_that_have_it(azure: Azure) -> None:
    azure.sandbox.cloud("azure", "feature", name="EncryptionAtHost", registered=True)
    assert azure.launch(securityProfile={"encryptionAtHost": True}).security_profile.encryption_at_host


@pytest.mark.parametrize(
    "changes",
    [
        {"tags": {}},
        {"tags": {name: value for name, value in TAGS.items() if name != "gpucloud:owner"}},
        {"osProfile__linuxConfiguration__disablePasswordAuthentication": None},
        {"storageProfile__osDisk__deleteOption": None},
        {"storageProfile__osDisk__deleteOption": "Detach"},
        {**SPOT, "evictionPolicy": "Deallocate"},
        {**SPOT, "evictionPolicy": None},
    ],
)
def test_what_a_careful_reviewer_would_not_let_pass_is_refused(azure: Azure, changes: dict[str, Any]) -> None:
    nic = azure.make_parts()
    assert refused(azure.put, machine(nic, **changes)) == ("RequestDisallowedByPolicy", 403)
    assert azure.billed() == ["address"]


def test_an_interface_that_outlives_its_machine_is_refused(azure: Azure) -> None:
    nic = azure.make_parts()
    stays = [{"id": nic, "properties": {"primary": True}}]
    body = machine(nic, networkProfile__networkInterfaces=stays)
    assert refused(azure.put, body) == ("RequestDisallowedByPolicy", 403)


@pytest.mark.parametrize("path", ["addresses", "interfaces", "firewalls"])
def test_parts_that_a_careful_reviewer_would_not_let_pass_are_refused(azure: Azure, path: str) -> None:
    azure.make_parts()
    firewalls = azure.network.network_security_groups
    bodies: dict[str, tuple[Any, list[Any]]] = {
        "addresses": (azure.network.public_ip_addresses, [{**ADDRESS, "tags": {}}]),
        "interfaces": (
            azure.network.network_interfaces,
            [
                {**azure.interface(""), "tags": {}},
                azure.interface("", networkSecurityGroup=None),
                azure.interface("", ipConfigurations=[_staying(azure)]),
            ],
        ),
        "firewalls": (
            firewalls,
            [
                {"location": REGION, "properties": {"securityRules": [open_rule]}}
                for open_rule in (
                    rule(sourceAddressPrefix="*"),
                    rule(sourceAddressPrefix="Internet"),
                    rule(sourceAddressPrefix="INTERNET"),
                    rule(sourceAddressPrefix="*", access="allow", direction="inbound"),
                    rule(sourceAddressPrefix="0.0.0.0/0"),
                    rule(sourceAddressPrefix=None, sourceAddressPrefixes=["0.0.0.0/1", "128.0.0.0/1"]),
                    rule(sourceAddressPrefix=None, sourceAddressPrefixes=["::/0"]),
                )
            ],
        ),
    }
    client, refusable = bodies[path]
    for body in refusable:
        found = refused(client.begin_create_or_update, GROUP, "other", body)
        assert found == ("RequestDisallowedByPolicy", 403)


def _staying(azure: Azure) -> Any:
    configuration = azure.interface(azure.id_of("Microsoft.Network/publicIPAddresses", "vm-ip"))
    inside = configuration["properties"]["ipConfigurations"][0]
    inside["properties"]["publicIPAddress"].pop("properties")
    return inside


@pytest.mark.parametrize(
    "path",
    [
        "Microsoft.Capacity/reservationOrders/x",
        "Microsoft.BillingBenefits/savingsPlanOrders/x",
        "Microsoft.Compute/capacityReservationGroups/x",
    ],
)
def test_no_purchase_can_be_made(azure: Azure, path: str) -> None:
    azure.make_group()
    head = f"/subscriptions/{azure.subscription}/resourceGroups/{GROUP}/providers"
    for whole in (f"{head}/{path}", f"/providers/{path}"):
        answer = azure.ask("PUT", f"{whole}?api-version=1", body={"location": REGION})
        assert (answer.status, answer.code) == (403, "RequestDisallowedByPolicy")


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        (FAMILY, {}, f"exceeding approved {FAMILY} Cores quota"),
        ("cores", {}, "exceeding approved Total Regional Cores quota"),
        ("lowPriorityCores", SPOT, "exceeding approved LowPriorityCores quota"),
    ],
)
def test_quotas_are_enforced_and_told(azure: Azure, name: str, changes: dict[str, Any], words: str) -> None:
    azure.sandbox.cloud("azure", "quota", region=REGION, name=name, value=6)
    azure.launch(**changes)  # 4 of 6
    told = {usage.name.value: usage for usage in azure.compute.usage.list(REGION)}[name]
    assert (told.current_value, told.limit) == (4, 6)
    nic = azure.make_parts("two")
    with pytest.raises(Exception, match=words) as caught:
        azure.put(machine(nic, **changes), "two")
    error: Any = caught.value
    assert (error.error.code, error.status_code) == ("OperationNotAllowed", 409)
    for part in (
        "Current Limit: 6",
        "Current Usage: 4",
        "Additional Required: 4",
        "Submit a request for Quota",
    ):
        assert part in error.message


def test_the_family_of_the_quota_is_the_one_that_the_list_of_sizes_names(azure: Azure) -> None:
    (sku,) = [
        each
        for each in azure.compute.resource_skus.list(filter=f"location eq '{REGION}'")
        if each.name == SIZE
    ]
    assert sku.family == FAMILY
    assert {one.name: one.value for one in sku.capabilities}["GPUs"] == "1"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"zones": None}, "AllocationFailed"),
        ({}, "ZonalAllocationFailed"),
        ({**SPOT, "zones": None}, "OverconstrainedAllocationRequest"),
        (SPOT, "OverconstrainedZonalAllocationRequest"),
    ],
)
def test_without_stock_a_launch_is_accepted_and_fails_later(
    azure: Azure, changes: dict[str, Any], code: str
) -> None:
    azure.sandbox.stock(count=0)
    nic = azure.make_parts()
    poller = azure.put(machine(nic, **changes))
    assert refused(poller.result) == (code, 200)
    left = azure.compute.virtual_machines.get(GROUP, "vm", expand="instanceView")
    assert left.provisioning_state == "Failed"
    assert left.instance_view.statuses[0].code == f"ProvisioningState/failed/{code}"
    assert azure.billed() == ["address"]
    assert azure.boxes.alive == {}
    azure.compute.virtual_machines.begin_delete(GROUP, "vm", force_deletion=True).result()
    assert azure.billed() == []


def test_the_interface_of_a_failed_machine_is_reserved_for_three_minutes(azure: Azure) -> None:
    nic = azure.make_parts()
    azure.sandbox.stock(count=0)
    refused(azure.put(machine(nic)).result)
    assert refused(azure.put, machine(nic), "two") == ("NicReservedForAnotherVm", 400)
    assert refused(azure.network.network_interfaces.begin_delete, GROUP, "vm-nic") == ("NicInUse", 400)
    azure.sandbox.clock(advance_s=181)
    assert refused(azure.put, machine(nic), "two") == ("NicInUse", 400)
    azure.compute.virtual_machines.begin_delete(GROUP, "vm", force_deletion=True).result()
    assert list(azure.network.network_interfaces.list(GROUP)) == []


def test_stock_is_per_zone_and_comes_back(azure: Azure) -> None:
    azure.sandbox.stock(count=1, cloud="azure", zone="1")
    azure.launch()
    assert refused(azure.put(machine(azure.make_parts("two")), "two").result)[0] == "ZonalAllocationFailed"
    assert azure.put(machine(azure.make_parts("three"), zones=["2"]), "three").result()
    azure.compute.virtual_machines.begin_delete(GROUP, "vm").result()
    assert azure.put(machine(azure.make_parts("four")), "four").result()


def test_a_size_that_is_restricted_is_told_and_refused_at_once(azure: Azure) -> None:
    def told() -> list[Any]:
        skus = azure.compute.resource_skus.list(filter=f"location eq '{REGION}'")
        return next(each.as_dict()["restrictions"] for each in skus if each.name == SIZE)

    assert told() == []
    nic = azure.make_parts()
    azure.sandbox.cloud("azure", "restrict", rules=[{"region": REGION, "instance_type": SIZE, "zone": "1"}])
    assert told()[0]["type"] == "Zone"
    assert told()[0]["restrictionInfo"]["zones"] == ["1"]
    assert refused(azure.put, machine(nic)) == ("SkuNotAvailable", 409)
    azure.sandbox.cloud("azure", "restrict", rules=[{"instance_type": "Standard_NC*"}])
    assert (told()[0]["type"], told()[0]["reasonCode"]) == ("Location", "NotAvailableForSubscription")
    assert refused(azure.put, machine(nic, zones=["2"])) == ("SkuNotAvailable", 409)
    azure.sandbox.cloud("azure", "restrict", rules=[])
    assert azure.put(machine(nic)).result()


def test_held_capacity_is_there_when_nothing_else_is(azure: Azure) -> None:
    held = azure.sandbox.cloud("azure", "reserve", region=REGION, zone="1", instance_type=SIZE, count=1)
    azure.sandbox.stock(count=0)
    use = {"capacityReservationGroup": {"id": held}}
    nic = azure.make_parts()
    assert refused(azure.put, machine(nic, capacityReservation=use, zones=["2"])) == (
        "OperationNotAllowed",
        409,
    )
    assert azure.put(machine(nic, capacityReservation=use)).result()
    second = azure.make_parts("two")
    assert refused(azure.put, machine(second, capacityReservation=use), "two") == (
        "OverconstrainedCapacityReservation",
        409,
    )
    group = held.split("/")[4]
    (shown,) = azure.compute.capacity_reservations.list_by_capacity_reservation_group(
        group, held.rpartition("/")[2]
    )
    assert shown.sku.capacity == 1


def test_a_machine_comes_to_be_by_the_clouds_clock(azure: Azure) -> None:
    nic = azure.make_parts()
    azure.sandbox.pace(transition_s=600)
    path = azure.id_of("Microsoft.Compute/virtualMachines", "vm") + "?api-version=2024-07-01"
    token = azure.token()
    made = azure.ask("PUT", path, body=machine(nic), token=token)
    assert (made.status, made.body["properties"]["provisioningState"]) == (201, "Creating")
    assert made.headers["retry-after"] == "1"
    follow = made.headers["azure-asyncoperation"].removeprefix(azure.origin)
    assert azure.ask("GET", follow, token=token).body["status"] == "InProgress"
    azure.sandbox.clock(advance_s=601)
    done = azure.ask("GET", follow, token=token)
    assert (done.body["status"], "retry-after" in done.headers) == ("Succeeded", False)
    gone = azure.ask("DELETE", path, token=token)
    assert gone.status == 202
    assert azure.ask("GET", path, token=token).body["properties"]["provisioningState"] == "Deleting"
    again = azure.ask("PUT", path, body=machine(nic), token=token)
    assert (again.status, again.code) == (409, "OperationNotAllowed")
    monitor = gone.headers["location"].removeprefix(azure.origin)
    assert azure.ask("GET", monitor, token=token).status == 202
    azure.sandbox.clock(advance_s=601)
    assert azure.ask("GET", monitor, token=token).status == 200
    assert azure.ask("GET", path, token=token).code == "ResourceNotFound"


def test_a_machine_is_hidden_from_as_many_looks_as_asked(azure: Azure) -> None:
    nic = azure.make_parts()
    azure.sandbox.pace(lag_calls=2)
    azure.put(machine(nic), polling=False)
    assert refused(azure.compute.virtual_machines.get, GROUP, "vm") == ("ResourceNotFound", 404)
    assert list(azure.compute.virtual_machines.list_all()) == []
    assert [each.name for each in azure.compute.virtual_machines.list_all()] == ["vm"]


def test_a_first_user_may_have_an_ed25519_key(azure: Azure) -> None:
    blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + b"k" * 32
    key = f"ssh-ed25519 {base64.b64encode(blob).decode()} them@there"
    azure.launch(osProfile__linuxConfiguration__ssh__publicKeys=keys(key))
    (spec,) = azure.boxes.alive.values()
    assert [(user.name, user.keys) for user in spec.users] == [("box", (key,))]


def test_another_size_is_another_price(azure: Azure) -> None:
    azure.launch()
    bigger = {"properties": {"hardwareProfile": {"vmSize": "Standard_NC8as_T4_v3"}}}
    azure.compute.virtual_machines.begin_update(GROUP, "vm", bigger).result()
    assert azure.compute.virtual_machines.get(GROUP, "vm").hardware_profile.vm_size == "Standard_NC8as_T4_v3"
    [now] = [entry for entry in azure.sandbox.status()["billing"] if entry["kind"] == "instance"]
    births = [
        each for each in azure.sandbox.ledger() if (each["kind"], each["event"]) == ("instance", "born")
    ]
    first, second = (Decimal(str(each["price"])) for each in births)
    assert Decimal(now["price"]["amount"]) == second > first
    azure.sandbox.cloud("azure", "quota", region=REGION, name=FAMILY, value=8)
    huge = {"properties": {"hardwareProfile": {"vmSize": "Standard_NC16as_T4_v3"}}}
    assert refused(azure.compute.virtual_machines.begin_update, GROUP, "vm", huge) == (
        "OperationNotAllowed",
        409,
    )


def test_data_disks_are_made_attached_detached_and_billed(azure: Azure) -> None:
    made = azure.launch(
        storageProfile__dataDisks=[
            {"lun": 0, "createOption": "Empty", "diskSizeGB": 8, "deleteOption": "Delete"},
            {"lun": 1, "createOption": "Empty", "diskSizeGB": 8},
        ]
    )
    assert azure.billed() == ["address", "disk", "disk", "disk", "instance"]
    nic = made.network_profile.network_interfaces[0].id
    kept = made.storage_profile.data_disks[0]
    stays = {"lun": 0, "createOption": "Empty", "managedDisk": {"id": kept.managed_disk.id}}
    changed = azure.put(
        machine(nic, storageProfile__dataDisks=[{**stays, "deleteOption": "Delete"}])
    ).result()
    assert [each.lun for each in changed.storage_profile.data_disks] == [0]
    free = made.storage_profile.data_disks[1].name
    assert azure.compute.disks.get(GROUP, free).disk_state == "Unattached"
    azure.make_parts("other")
    other = azure.launch("other")
    taken = [{"lun": 0, "createOption": "Attach", "managedDisk": {"id": kept.managed_disk.id}}]
    body = machine(other.network_profile.network_interfaces[0].id, storageProfile__dataDisks=taken)
    assert refused(azure.put, body, "other") == ("ConflictingUserInput", 409)
    azure.compute.virtual_machines.begin_delete(GROUP, "vm").result()
    assert [each.name for each in azure.compute.disks.list() if each.disk_state == "Unattached"] == [free]
    azure.compute.disks.begin_delete(GROUP, free).result()


def test_a_private_address_is_the_interfaces_own_choice_within_its_subnet(azure: Azure) -> None:
    azure.make_parts()

    def put(name: str, address: str) -> Any:
        body = azure.interface("")
        properties = body["properties"]["ipConfigurations"][0]["properties"]
        del properties["publicIPAddress"]
        properties |= {"privateIPAddress": address, "privateIPAllocationMethod": "Static"}
        return azure.network.network_interfaces.begin_create_or_update(GROUP, name, body)

    assert put("two", "10.42.0.9").result().ip_configurations[0].private_ip_address == "10.42.0.9"
    for address, code in (
        ("10.42.0.9", "PrivateIPAddressIsAllocated"),
        ("10.42.0.2", "PrivateIPAddressInReservedRange"),
        ("10.99.0.9", "PrivateIPAddressNotInSubnet"),
    ):
        assert refused(put, "three", address) == (code, 400)

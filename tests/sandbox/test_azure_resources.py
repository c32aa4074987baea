"""Resource groups, networks and what can be looked up in the emulated Azure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.sandbox.azure_lab import (
    ADDRESS,
    GROUP,
    HERE,
    REGION,
    UBUNTU,
    Azure,
    firewall,
    network,
    refused,
    rule,
)
from tests.sandbox.running import TAGS

# --- groups


def test_a_group_is_put_by_name_in_one_place(azure: Azure) -> None:
    path = f"/subscriptions/{azure.subscription}/resourcegroups/{GROUP}?api-version=2025-04-01"
    body = {"location": "East US", "tags": TAGS}
    first = azure.ask("PUT", path, body=body)
    assert (first.status, first.body["location"]) == (201, REGION)
    assert azure.ask("PUT", path.replace(GROUP, GROUP.lower()), body=body).status == 200
    assert [group.name for group in azure.resources.resource_groups.list()] == [GROUP]
    assert azure.ask("HEAD", path).status == 204
    elsewhere = azure.ask("PUT", path, body={"location": "westeurope"})
    assert (elsewhere.status, elsewhere.code) == (409, "InvalidResourceGroupLocation")


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        ("g", {}, "LocationRequired"),
        ("g", {"location": "atlantis"}, "LocationNotAvailableForResourceType"),
        ("g.", {"location": REGION}, "InvalidResourceGroup"),
        ("g" * 91, {"location": REGION}, "InvalidResourceGroup"),
        ("g", {"location": REGION, "bogus": 1}, "InvalidRequestContent"),
        ("g", {"location": REGION, "tags": {"a": "1", "A": "2"}}, "InvalidTags"),
        ("g", {"location": REGION, "tags": {str(n): "" for n in range(51)}}, "InvalidTags"),
        ("g", [], "InvalidRequestContent"),
    ],
)
def test_a_group_that_azure_refuses_is_refused_with_its_code(
    azure: Azure, name: str, body: Any, code: str
) -> None:
    path = f"/subscriptions/{azure.subscription}/resourcegroups/{name}?api-version=2025-04-01"
    answer = azure.ask("PUT", path, body=body)
    assert (answer.status, answer.code) == (400, code)
    assert list(azure.resources.resource_groups.list()) == []


def test_nothing_is_made_in_a_group_that_does_not_exist(azure: Azure) -> None:
    call = azure.network.virtual_networks.begin_create_or_update
    assert refused(call, GROUP, "net", network()) == ("ResourceGroupNotFound", 404)
    assert refused(azure.network.virtual_networks.list, GROUP) == ("ResourceGroupNotFound", 404)


def test_everything_is_found_by_its_tags(azure: Azure) -> None:
    azure.launch()
    azure.resources.resource_groups.create_or_update("other", {"location": REGION, "tags": {"a": "1"}})

    def found(condition: str, expand: str | None = None) -> list[Any]:
        return list(azure.resources.resources.list(filter=condition, expand=expand))

    ours = found("tagName eq 'GPUCLOUD:box' and tagValue eq 'b'", "createdTime,provisioningState")
    assert {each.type.rpartition("/")[2] for each in ours} == {
        "virtualMachines",
        "disks",
        "virtualNetworks",
        "networkSecurityGroups",
        "publicIPAddresses",
        "networkInterfaces",
    }
    assert all(each.created_time and each.provisioning_state == "Succeeded" for each in ours)
    assert found("tagName eq 'gpucloud:box' and tagValue eq 'B'") == []  # values have their case
    assert len(found("tagname eq 'gpucloud:box'")) == len(ours)  # as az writes it
    (disk,) = found("resourceType eq 'Microsoft.Compute/disks'")
    assert disk.managed_by.endswith("/vm")
    assert len(found(f"resourceGroup eq '{GROUP.lower()}'")) == len(ours)
    (group,) = azure.resources.resource_groups.list(filter="tagName eq 'a' and tagValue eq '1'")
    assert group.name == "other"
    listed = list(azure.resources.resources.list_by_resource_group(GROUP))
    assert len(listed) == len(ours)
    for wrong in ("tagName eq 'a' and resourceType eq 'b'", "tagName ne 'a'", "a", "tagName eq 'a"):
        assert refused(found, wrong) == ("InvalidFilterInQueryString", 400)


def test_a_list_that_is_filtered_by_tag_comes_without_tags(azure: Azure) -> None:
    azure.launch()
    listed = azure.resources.resources.list
    assert not any(each.tags for each in listed(filter="tagName eq 'gpucloud:box' and tagValue eq 'b'"))
    assert not any(each.tags for each in listed(filter="tagname eq 'gpucloud:box'"))
    assert all(each.tags for each in listed())
    assert all(each.tags for each in listed(filter="resourceType eq 'Microsoft.Compute/virtualMachines'"))


def test_tags_can_be_changed_but_not_who_owns_what_is_billed(azure: Azure) -> None:
    azure.launch()
    more = {"tags": {**TAGS, "colour": "blue"}}
    changed = azure.compute.virtual_machines.begin_update(GROUP, "vm", more).result()
    assert changed.tags["colour"] == "blue"
    group = azure.resources.resource_groups.update(GROUP, {"tags": {"colour": "red"}})
    assert group.tags == {"colour": "red"}
    address = azure.network.public_ip_addresses.update_tags(GROUP, "vm-ip", more)
    assert address.tags["colour"] == "blue"
    bare = {"tags": {"colour": "red"}}
    call = azure.compute.virtual_machines.begin_update
    assert refused(call, GROUP, "vm", bare) == ("RequestDisallowedByPolicy", 403)
    assert refused(call, GROUP, "vm", {"bogus": 1}) == ("InvalidRequestContent", 400)


# --- networks


def test_parts_of_a_network_are_made_and_ended_as_recorded_traffic_shows(azure: Azure) -> None:
    azure.make_parts()
    path = azure.id_of("Microsoft.Network/networkInterfaces", "vm-nic") + "?api-version=2026-03-01"
    shown = azure.ask("GET", path).body
    del shown["properties"]["provisioningState"]
    again = azure.ask("PUT", path, body=_writable(shown))
    assert (again.status, again.body["properties"]["provisioningState"]) == (200, "Succeeded")
    assert "azure-asyncoperation" in again.headers
    assert {"location", "retry-after"}.isdisjoint(again.headers)
    gone = azure.ask("DELETE", path)
    assert gone.status == 202
    assert {"azure-asyncoperation", "location"} <= set(gone.headers)
    assert azure.ask("GET", gone.headers["location"].removeprefix(azure.origin)).status == 200
    outcome = azure.ask("GET", gone.headers["azure-asyncoperation"].removeprefix(azure.origin)).body
    assert outcome["status"] == "Succeeded"
    assert azure.ask("GET", path).code == "ResourceNotFound"
    assert azure.ask("DELETE", path).status == 204


def _writable(shown: dict[str, Any]) -> dict[str, Any]:
    """What a GET gave, without what only Azure sets."""
    for each in shown["properties"]["ipConfigurations"]:
        del each["properties"]["provisioningState"]
    return shown


def test_what_is_in_use_cannot_be_deleted_and_says_by_whom(azure: Azure) -> None:
    azure.launch()
    net = azure.network
    for call, name, code in (
        (net.network_interfaces, "vm-nic", "NicInUse"),
        (net.public_ip_addresses, "vm-ip", "PublicIPAddressCannotBeDeleted"),
        (net.network_security_groups, "fw", "InUseNetworkSecurityGroupCannotBeDeleted"),
        (net.virtual_networks, "net", "InUseSubnetCannotBeDeleted"),
    ):
        assert refused(call.begin_delete, GROUP, name) == (code, 400)
    without = network(subnets=[])
    call = net.virtual_networks.begin_create_or_update
    assert refused(call, GROUP, "net", without) == ("InUseSubnetCannotBeDeleted", 400)
    disk = azure.compute.virtual_machines.get(GROUP, "vm").storage_profile.os_disk.name
    assert refused(azure.compute.disks.begin_delete, GROUP, disk) == ("OperationNotAllowed", 409)
    azure.compute.virtual_machines.begin_delete(GROUP, "vm").result()
    net.virtual_networks.begin_delete(GROUP, "net").result()
    net.network_security_groups.begin_delete(GROUP, "fw").result()
    assert list(azure.resources.resources.list()) == []


def test_a_subnets_firewall_is_in_use_too(azure: Azure) -> None:
    azure.make_group()
    made = azure.network.network_security_groups.begin_create_or_update(GROUP, "fw", firewall()).result()
    subnet = {"addressPrefix": "10.42.0.0/20", "networkSecurityGroup": {"id": made.id}}
    body = network(subnets=[{"name": "default", "properties": subnet}])
    azure.network.virtual_networks.begin_create_or_update(GROUP, "net", body).result()
    call = azure.network.network_security_groups.begin_delete
    assert refused(call, GROUP, "fw") == ("InUseNetworkSecurityGroupCannotBeDeleted", 400)


Change = Callable[[Azure], tuple[Any, Any]]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda azure: (azure.network.virtual_networks, network(addressSpace={})), "InvalidRequestFormat"),
        (
            lambda azure: (
                azure.network.virtual_networks,
                network(addressSpace={"addressPrefixes": ["10.42.0.0/99"]}),
            ),
            "InvalidCIDRNotation",
        ),
        (
            lambda azure: (
                azure.network.virtual_networks,
                network(subnets=[{"name": "s", "properties": {"addressPrefix": "10.9.0.0/24"}}]),
            ),
            "NetcfgSubnetRangeOutsideVnet",
        ),
        (
            lambda azure: (azure.network.network_security_groups, firewall(rule(priority=99))),
            "SecurityRuleConflict",
        ),
        (
            lambda azure: (
                azure.network.network_security_groups,
                firewall(rule(), {**rule(), "name": "second"}),
            ),
            "SecurityRuleConflict",
        ),
        (
            lambda azure: (azure.network.network_security_groups, firewall(rule(protocol="Smoke"))),
            "InvalidParameter",
        ),
        (
            lambda azure: (azure.network.public_ip_addresses, {**ADDRESS, "sku": {"name": "Basic"}}),
            "IPv4BasicSkuPublicIpCountLimitReached",
        ),
        (
            lambda azure: (
                azure.network.public_ip_addresses,
                {name: value for name, value in ADDRESS.items() if name != "sku"},
            ),
            "IPv4BasicSkuPublicIpCountLimitReached",
        ),
        (
            lambda azure: (
                azure.network.public_ip_addresses,
                {**ADDRESS, "properties": {"publicIPAllocationMethod": "Dynamic"}},
            ),
            "StandardSkuPublicIPAddressesMustBeStatic",
        ),
        (
            lambda azure: (azure.network.public_ip_addresses, {**ADDRESS, "properties": {"bogus": 1}}),
            "InvalidRequestContent",
        ),
        (
            lambda azure: (
                azure.network.network_interfaces,
                azure.interface(azure.id_of("Microsoft.Network/publicIPAddresses", "none")),
            ),
            "InvalidResourceReference",
        ),
        (
            lambda azure: (
                azure.network.network_interfaces,
                azure.interface(azure.id_of("Microsoft.Network/publicIPAddresses", "vm-ip")),
            ),
            "PublicIPAddressInUse",
        ),
    ],
)
def test_parts_that_azure_refuses_are_refused_with_its_code(azure: Azure, change: Change, code: str) -> None:
    azure.make_parts()
    client, body = change(azure)
    assert refused(client.begin_create_or_update, GROUP, "other", body) == (code, 400)
    assert azure.billed() == ["address"]


def test_a_name_that_exists_elsewhere_is_refused(azure: Azure) -> None:
    azure.make_parts()
    body = {**network(), "location": "westeurope"}
    call = azure.network.virtual_networks.begin_create_or_update
    assert refused(call, GROUP, "net", body) == ("InvalidResourceLocation", 409)


def test_subnets_and_rules_can_be_looked_at_by_themselves(azure: Azure) -> None:
    azure.make_parts()
    assert azure.network.subnets.get(GROUP, "net", "default").address_prefix == "10.42.0.0/20"
    (only,) = azure.network.security_rules.list(GROUP, "fw")
    assert only.source_address_prefix == HERE
    assert refused(azure.network.subnets.get, GROUP, "net", "none") == ("NotFound", 404)


# --- looking up


def test_sizes_say_what_they_are_and_where(azure: Azure) -> None:
    skus = list(azure.compute.resource_skus.list(filter="location eq 'eastus'"))
    assert skus
    for sku in skus:
        assert sku.locations == [REGION]
        told = {each.name for each in sku.capabilities}
        assert {"vCPUs", "MemoryGB"} <= told
        assert ("GPUs" in told) == sku.name.startswith("Standard_N")
    everywhere = list(azure.compute.resource_skus.list())
    assert len({sku.locations[0] for sku in everywhere}) > 5


def test_images_are_found_step_by_step(azure: Azure) -> None:
    images = azure.compute.virtual_machine_images
    assert "Canonical" in {each.name for each in images.list_publishers(REGION)}
    offer = UBUNTU["offer"]
    assert offer in {each.name for each in images.list_offers(REGION, "canonical")}
    assert UBUNTU["sku"] in {each.name for each in images.list_skus(REGION, "Canonical", offer)}
    (version,) = images.list(REGION, "Canonical", offer, UBUNTU["sku"])
    image = images.get(REGION, "Canonical", offer, UBUNTU["sku"], version.name)
    assert (image.hyper_v_generation, image.architecture) == ("V2", "x64")
    assert refused(images.list, REGION, "Canonical", offer, "none") == ("NotFound", 404)


def test_features_are_registered_for_the_subscription(azure: Azure) -> None:
    path = (
        f"/subscriptions/{azure.subscription}/providers/Microsoft.Features/providers/Microsoft.Compute"
        "/features/EncryptionAtHost"
    )
    assert azure.ask("GET", f"{path}?api-version=2021-07-01").body["properties"]["state"] == "NotRegistered"
    assert (
        azure.ask("POST", f"{path}/register?api-version=2021-07-01").body["properties"]["state"]
        == "Registered"
    )
    assert azure.ask("GET", f"{path}?api-version=2021-07-01").body["properties"]["state"] == "Registered"


def test_providers_say_whether_they_are_registered(azure: Azure) -> None:
    found = {each.namespace: each for each in azure.resources.providers.list()}
    assert found["Microsoft.Compute"].registration_state == "Registered"
    assert "virtualMachines" in {each.resource_type for each in found["Microsoft.Compute"].resource_types}
    call = azure.resources.providers.get
    assert refused(call, "Nobody.Here") == ("InvalidResourceNamespace", 404)


# --- parts of a whole


def test_a_rule_can_be_put_and_deleted_by_itself_and_is_held_to_the_same_rules(azure: Azure) -> None:
    azure.make_parts()
    rules = azure.network.security_rules
    second = {"properties": rule(priority=101, destinationPortRange="8080")["properties"]}
    assert rules.begin_create_or_update(GROUP, "fw", "web", second).result().destination_port_range == "8080"
    assert [each.name for each in rules.list(GROUP, "fw")] == ["ssh", "web"]
    for body, code, status in (
        (rule(priority=101), "SecurityRuleConflict", 400),
        (rule(priority=102, sourceAddressPrefix="*"), "RequestDisallowedByPolicy", 403),
        ({"properties": {"bogus": 1}}, "InvalidRequestContent", 400),
    ):
        wanted = {"properties": body["properties"]}
        assert refused(rules.begin_create_or_update, GROUP, "fw", "third", wanted) == (code, status)
    rules.begin_delete(GROUP, "fw", "ssh").result()
    assert [each.name for each in rules.list(GROUP, "fw")] == ["web"]


def test_a_subnet_in_use_stays(azure: Azure) -> None:
    azure.make_parts()
    subnets = azure.network.subnets
    more = {"properties": {"addressPrefix": "10.42.16.0/24"}}
    assert subnets.begin_create_or_update(GROUP, "net", "more", more).result().id.endswith("/subnets/more")
    assert refused(subnets.begin_delete, GROUP, "net", "default") == ("InUseSubnetCannotBeDeleted", 400)
    subnets.begin_delete(GROUP, "net", "more").result()
    assert [each.name for each in subnets.list(GROUP, "net")] == ["default"]


def test_tags_are_a_thing_of_their_own_too(azure: Azure) -> None:
    made = azure.launch()
    tags = azure.resources.tags
    merged = tags.begin_create_or_update_at_scope  # PUT
    change = {"operation": "Merge", "properties": {"tags": {"Colour": "blue", "GPUCLOUD:run": "r"}}}
    after = tags.begin_update_at_scope(made.id, change).result().properties.tags
    assert (after["Colour"], after["GPUCLOUD:run"], "gpucloud:run" in after) == ("blue", "r", False)
    away = {"operation": "Delete", "properties": {"tags": {"Colour": "blue"}}}
    assert "Colour" not in tags.begin_update_at_scope(made.id, away).result().properties.tags
    assert azure.compute.virtual_machines.get(GROUP, "vm").tags["GPUCLOUD:run"] == "r"
    bare = {"properties": {"tags": {"a": "b"}}}
    assert refused(merged, made.id, bare) == ("RequestDisallowedByPolicy", 403)
    group = f"/subscriptions/{azure.subscription}/resourceGroups/{GROUP}"
    assert merged(group, bare).result().properties.tags == {"a": "b"}
    assert tags.get_at_scope(group).properties.tags == {"a": "b"}

"""Availability sets in the emulated Azure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.azure_lab import GROUP, REGION, SIZE, SPOT, Azure, machine, refused
from tests.sandbox.running import TAGS

SET = "Microsoft.Compute/availabilitySets"


def set_of(faults: int = 2, updates: int = 5, *, sku: str = "Aligned", location: str = REGION) -> Any:
    counts = {"platformFaultDomainCount": faults, "platformUpdateDomainCount": updates}
    return {"location": location, "sku": {"name": sku}, "properties": counts}


def make(azure: Azure, body: Any, name: str = "set") -> Any:
    azure.make_group()
    return azure.compute.availability_sets.create_or_update(GROUP, name, body)


def member(azure: Azure, nic: str, **changes: Any) -> Any:
    inside = {"zones": None, "availabilitySet__id": azure.id_of(SET, "set"), **changes}
    return {name: each for name, each in machine(nic, **inside).items() if each is not None}


def test_the_machines_of_a_set_are_spread_over_its_domains(azure: Azure) -> None:
    make(azure, set_of(2, 3))
    for name in ("a", "b", "c"):
        azure.put(member(azure, azure.make_parts(name)), name).result()
    views = [azure.compute.virtual_machines.instance_view(GROUP, name) for name in ("a", "b", "c")]
    assert [each.platform_fault_domain for each in views] == [0, 1, 0]
    assert [each.platform_update_domain for each in views] == [0, 1, 2]
    shown = azure.compute.availability_sets.get(GROUP, "set")
    assert [each.id.rpartition("/")[2] for each in shown.virtual_machines] == ["a", "b", "c"]
    assert azure.compute.virtual_machines.get(GROUP, "a").availability_set.id == shown.id
    assert azure.billed() == sorted(["address", "disk", "instance"] * 3)


def test_a_set_stays_while_machines_are_in_it(azure: Azure) -> None:
    make(azure, set_of())
    azure.put(member(azure, azure.make_parts())).result()
    sets = azure.compute.availability_sets
    assert refused(sets.delete, GROUP, "set") == ("OperationNotAllowed", 409)
    azure.compute.virtual_machines.begin_delete(GROUP, "vm").result()
    sets.delete(GROUP, "set")
    assert list(sets.list(GROUP)) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (set_of(4), "InvalidParameter"),
        (set_of(0), "InvalidParameter"),
        (set_of(3, location="uksouth"), "InvalidParameter"),  # two fault domains there
        (set_of(updates=21), "InvalidParameter"),
    ],
)
def test_a_set_has_no_more_domains_than_its_region(azure: Azure, body: Any, code: str) -> None:
    azure.make_group()
    assert refused(azure.compute.availability_sets.create_or_update, GROUP, "set", body) == (code, 400)


def test_the_domains_of_a_set_are_for_ever(azure: Azure) -> None:
    make(azure, {"location": REGION})
    call = azure.compute.availability_sets.create_or_update
    assert call(GROUP, "set", {"location": REGION, "sku": {"name": "Aligned"}}).sku.name == "Aligned"
    assert refused(call, GROUP, "set", set_of(3)) == ("PropertyChangeNotAllowed", 409)
    assert refused(call, GROUP, "set", set_of(sku="Classic")) == ("OperationNotAllowed", 409)
    tagged = azure.compute.availability_sets.update(GROUP, "set", {"tags": TAGS})
    assert (tagged.tags, tagged.platform_update_domain_count) == (TAGS, 5)


@pytest.mark.parametrize(
    ("set_", "changes", "code", "status"),
    [
        (set_of(), {"zones": ["1"]}, "BadRequest", 400),
        (set_of(), SPOT, "AzureSpotVMNotSupportedInAvailabilitySet", 409),
        (set_of(sku="Classic"), {}, "BadRequest", 400),
        (set_of(location="westeurope"), {}, "NotFound", 404),
        (None, {}, "NotFound", 404),
    ],
)
def test_a_machine_joins_only_a_set_that_takes_it(
    azure: Azure, set_: Any, changes: Any, code: str, status: int
) -> None:
    if set_ is not None:
        make(azure, set_)
    nic = azure.make_parts()
    assert refused(azure.put, member(azure, nic, **changes)) == (code, status)
    assert azure.billed() == ["address"]


def test_a_machine_does_not_join_a_set_later_or_in_another_group(azure: Azure) -> None:
    azure.make_group("other")
    azure.compute.availability_sets.create_or_update("other", "set", set_of())
    elsewhere = {"availabilitySet__id": azure.id_of(SET, "set").replace(GROUP, "other")}
    nic = azure.make_parts()
    assert refused(azure.put, member(azure, nic, **elsewhere)) == ("NotFound", 404)
    make(azure, set_of())
    without = member(azure, nic, availabilitySet=None)
    azure.put(without).result()
    assert refused(azure.put, member(azure, nic)) == ("PropertyChangeNotAllowed", 409)


def test_a_machine_of_a_set_uses_no_held_capacity(azure: Azure) -> None:
    make(azure, set_of())
    held = azure.sandbox.cloud("azure", "reserve", region=REGION, zone="", instance_type=SIZE, count=1)
    use = {"capacityReservationGroup": {"id": held}}
    refusal = refused(azure.put, member(azure, azure.make_parts(), capacityReservation=use))
    assert refusal == ("BadRequest", 400)


def test_the_first_machine_of_a_set_pins_the_hardware_of_all(azure: Azure) -> None:
    make(azure, set_of())
    azure.put(member(azure, azure.make_parts("a")), "a").result()
    other = {"hardwareProfile__vmSize": "Standard_NC24ads_A100_v4"}
    refusal = refused(azure.put(member(azure, azure.make_parts("b"), **other), "b").result)
    assert refusal == ("AllocationFailed", 200)
    azure.compute.virtual_machines.begin_deallocate(GROUP, "a").result()
    azure.put(member(azure, azure.make_parts("c"), **other), "c").result()

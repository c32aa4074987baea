"""What becomes of virtual machines in the sandbox, and what is billed meanwhile."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpucloud_sandbox.azure import AzureSandbox
from gpucloud_sandbox.client import SandboxError
from gpucloud_sandbox.review import Review
from tests.sandbox.azure_lab import GROUP, REGION, SIZE, SPOT, Azure, machine, refused
from tests.sandbox.running import TAGS, HollowBoxes, hollow_sandbox

ALL = ["address", "disk", "instance"]
PARTS = ["address", "disk"]


def deaths(azure: Azure) -> dict[str, str]:
    """Why each kind of thing is no longer billed."""
    return {each["kind"]: each["reason"] for each in azure.sandbox.ledger() if each["event"] == "died"}


def now(azure: Azure) -> datetime:
    return datetime.fromisoformat(azure.sandbox.status()["clock"])


# --- power


def test_a_machine_that_is_off_is_billed_and_one_that_is_deallocated_is_not(azure: Azure) -> None:
    azure.launch()
    machines = azure.compute.virtual_machines
    machines.begin_power_off(GROUP, "vm").result()
    assert (azure.power(), azure.billed()) == ("PowerState/stopped", ALL)
    machines.begin_start(GROUP, "vm").result()
    assert (azure.power(), azure.billed()) == ("PowerState/running", ALL)
    machines.begin_restart(GROUP, "vm").result()
    assert azure.power() == "PowerState/running"
    machines.begin_deallocate(GROUP, "vm").result()
    assert (azure.power(), azure.billed()) == ("PowerState/deallocated", PARTS)
    machines.begin_start(GROUP, "vm").result()
    assert (azure.power(), azure.billed()) == ("PowerState/running", ALL)


def test_power_changes_by_the_clouds_clock(azure: Azure) -> None:
    azure.launch()
    azure.sandbox.pace(transition_s=60)
    azure.compute.virtual_machines.begin_deallocate(GROUP, "vm", polling=False)
    assert (azure.power(), azure.billed()) == ("PowerState/deallocating", ALL)
    azure.sandbox.clock(advance_s=61)
    assert (azure.power(), azure.billed()) == ("PowerState/deallocated", PARTS)


def test_a_deallocated_machine_keeps_its_quota_but_not_its_place(azure: Azure) -> None:
    azure.sandbox.stock(count=1, cloud="azure")
    azure.launch()
    azure.compute.virtual_machines.begin_deallocate(GROUP, "vm").result()
    used = {usage.name.value: usage.current_value for usage in azure.compute.usage.list(REGION)}
    assert used["cores"] == 4
    azure.put(machine(azure.make_parts("two")), "two").result()
    start = azure.compute.virtual_machines.begin_start(GROUP, "vm")
    assert refused(start.result) == ("ZonalAllocationFailed", 200)
    assert azure.power() == "PowerState/deallocated"


def test_lists_tell_power_only_when_asked(azure: Azure) -> None:
    azure.launch()
    machines = azure.compute.virtual_machines
    assert next(machines.list_all()).instance_view is None
    for seen in (next(machines.list_all(status_only="true")), next(machines.list_all(expand="instanceView"))):
        assert [each.code for each in seen.instance_view.statuses] == [
            "ProvisioningState/succeeded",
            "PowerState/running",
        ]


# --- ending


def test_what_belongs_to_a_machine_goes_with_it(azure: Azure) -> None:
    azure.launch()
    poller = azure.compute.virtual_machines.begin_delete(GROUP, "vm")
    answer = poller.polling_method()._initial_response.http_response
    assert answer.status_code == 202
    assert {"Location", "Azure-AsyncOperation"} <= set(answer.headers)
    poller.result()
    assert azure.billed() == []
    assert {each.type.rpartition("/")[2] for each in azure.resources.resources.list()} == {
        "virtualNetworks",
        "networkSecurityGroups",
    }
    assert azure.compute.virtual_machines.begin_delete(GROUP, "vm").result() is None
    assert refused(azure.compute.virtual_machines.get, GROUP, "vm") == ("ResourceNotFound", 404)


def test_a_group_takes_everything_with_it(azure: Azure) -> None:
    azure.launch()
    azure.launch("two")
    poller = azure.resources.resource_groups.begin_delete(GROUP)
    answer = poller.polling_method()._initial_response.http_response
    assert (answer.status_code, "Azure-AsyncOperation" in answer.headers) == (202, False)
    poller.result()
    assert azure.billed() == []
    assert list(azure.resources.resources.list()) == []
    assert azure.resources.resource_groups.check_existence(GROUP) is False
    assert refused(azure.resources.resource_groups.get, GROUP) == ("ResourceGroupNotFound", 404)


def test_a_group_that_is_going_takes_nothing_new(azure: Azure) -> None:
    azure.launch()
    azure.sandbox.pace(transition_s=60)
    azure.resources.resource_groups.begin_delete(GROUP, polling=False)
    assert refused(azure.make_group) == ("ResourceGroupBeingDeleted", 409)
    assert azure.resources.resource_groups.get(GROUP).properties.provisioning_state == "Deleting"
    assert azure.billed() == PARTS
    azure.sandbox.clock(advance_s=61)
    assert azure.billed() == []


# --- Spot


def test_an_evicted_machine_goes_with_its_disk_after_a_notice(azure: Azure) -> None:
    made = azure.launch(**SPOT)
    azure.sandbox.interrupt(made.id, notice_s=30)
    notice = azure.boxes.notices[made.vm_id]
    assert timedelta() < notice - now(azure) <= timedelta(seconds=30)
    assert azure.power() == "PowerState/running"
    azure.sandbox.pace(transition_s=3600)  # how long what its user deletes is still shown
    azure.sandbox.clock(advance_s=31)
    assert refused(azure.compute.virtual_machines.get, GROUP, "vm") == ("ResourceNotFound", 404)
    assert list(azure.compute.virtual_machines.list(GROUP)) == []
    left = {each.type.rpartition("/")[2] for each in azure.resources.resources.list_by_resource_group(GROUP)}
    assert not left & {"virtualMachines", "disks", "networkInterfaces"}
    assert azure.billed() == []
    assert deaths(azure)["instance"] == "evicted"


def test_an_eviction_can_be_simulated_of_spot_machines_only(azure: Azure) -> None:
    azure.launch(**SPOT)
    azure.launch("two")
    simulate = azure.compute.virtual_machines.simulate_eviction
    assert refused(simulate, GROUP, "two") == ("OperationNotAllowed", 409)
    with pytest.raises(SandboxError):
        azure.sandbox.interrupt(azure.id_of("Microsoft.Compute/virtualMachines", "two"))
    assert simulate(GROUP, "vm") is None
    assert [each.name for each in azure.compute.virtual_machines.list(GROUP)] == ["two"]


# --- timers


def submit(azure: Azure, machine_id: str, after_s: float = 3600, **changes: Any) -> Any:
    deadline = (now(azure) + timedelta(seconds=after_s)).isoformat()
    schedule = {"deadline": deadline, "timezone": "UTC", "deadlineType": "InitiateAt"}
    body = {
        "schedule": schedule | changes,
        "executionParameters": {"retryPolicy": {"retryCount": 5, "retryWindowInMinutes": 60}},
        "resources": {"ids": [machine_id]},
        "correlationid": str(uuid.uuid4()),
    }
    return azure.schedules.virtual_machines_submit_deallocate(REGION, body).results[0]


def state(azure: Azure, operation: str) -> Any:
    body = {"operationIds": [operation], "correlationid": str(uuid.uuid4())}
    answer = azure.schedules.virtual_machines_get_operation_status(REGION, body)
    return answer.results[0].operation.state


def test_a_scheduled_action_deallocates_at_its_time_and_disk_and_address_are_billed_on(azure: Azure) -> None:
    made = azure.launch()
    operation = submit(azure, made.id).operation.operation_id
    assert state(azure, operation) == "Scheduled"
    azure.sandbox.clock(advance_s=3590)
    assert azure.billed() == ALL
    azure.sandbox.clock(advance_s=11)
    assert azure.billed() == PARTS
    assert deaths(azure)["instance"] == "deallocated by its scheduled action"
    again = Azure(azure.endpoint, azure.boxes)  # the token of before has expired
    assert (again.power(), state(again, operation)) == ("PowerState/deallocated", "Succeeded")
    again.close()


def test_an_action_for_a_machine_that_does_not_exist_is_an_error_of_its_own(azure: Azure) -> None:
    answer = submit(azure, azure.id_of("Microsoft.Compute/virtualMachines", "later"))
    assert (answer.error_code, answer.operation) == ("ResourceNotFound", None)


def test_an_action_can_be_cancelled(azure: Azure) -> None:
    operation = submit(azure, azure.launch().id).operation.operation_id
    body = {"operationIds": [operation], "correlationid": str(uuid.uuid4())}
    assert azure.schedules.virtual_machines_cancel_operations(REGION, body).results[0].operation.state
    assert state(azure, operation) == "Cancelled"
    azure.sandbox.clock(advance_s=3601)
    assert azure.billed() == ALL


@pytest.mark.parametrize("after_s", [-60, 400 * 86400])
def test_an_action_in_the_past_or_far_ahead_is_not_taken(azure: Azure, after_s: float) -> None:
    assert submit(azure, azure.launch().id, after_s).error_code == "InvalidDeadline"


def test_an_action_needs_the_right_to_deallocate_and_a_known_form(azure: Azure) -> None:
    made = azure.launch()
    assert refused(submit, azure, made.id, deadlineType="Whenever") == ("InvalidParameter", 400)
    assert refused(submit, azure, made.id, bogus=1) == ("InvalidRequestContent", 400)
    azure.sandbox.cloud("azure", "deny", actions=["*/deallocate/action"])
    assert submit(azure, made.id).error_code == "AuthorizationFailed"


def test_the_daily_shutdown_deallocates_at_its_time_of_the_day(azure: Azure) -> None:
    made = azure.launch()
    due = now(azure) + timedelta(hours=2)
    put = daily(azure, made.id, f"{due:%H%M}")
    assert put.properties["taskType"] == "ComputeVmShutdownTask"
    azure.sandbox.clock(advance_s=3600)
    assert azure.billed() == ALL
    azure.sandbox.clock(advance_s=3600)
    assert azure.billed() == PARTS
    assert deaths(azure)["instance"] == "deallocated by its daily schedule"


def daily(azure: Azure, machine_id: str, time: str, name: str = "shutdown-computevm-vm") -> Any:
    properties = {
        "status": "Enabled",
        "taskType": "ComputeVmShutdownTask",
        "dailyRecurrence": {"time": time},
        "timeZoneId": "UTC",
        "targetResourceId": machine_id,
    }
    path = azure.id_of("Microsoft.DevTestLab/schedules", name)
    body = {"location": REGION, "tags": TAGS, "properties": properties}
    poller = azure.resources.resources.begin_create_or_update_by_id(path, body, api_version="2018-09-15")
    return poller.result()


def test_a_daily_shutdown_is_found_by_its_name_only(azure: Azure) -> None:
    made = azure.launch()
    assert refused(daily, azure, made.id, "1830", "evening")[1] == 400
    assert refused(daily, azure, made.id, "2530")[1] == 400


# --- what a machine says


def test_the_console_is_at_an_address_that_nobody_can_guess(azure: Azure) -> None:
    made = azure.launch()
    told = azure.compute.virtual_machines.retrieve_boot_diagnostics_data(GROUP, "vm")
    url = urlsplit(told.serial_console_log_blob_uri)
    answer = azure.ask("GET", f"{url.path}?{url.query}", token=None)
    assert (answer.status, answer.body) == (200, f"boot of {made.vm_id}\n\x1b[0mdone\n")
    assert azure.ask("GET", f"{url.path}?{url.query[:-1]}", token=None).status == 403
    assert azure.ask("GET", url.path, token=None).status == 403


# --- what is kept


def test_a_restarted_sandbox_has_everything_and_boots_what_was_on(tmp_path: Path) -> None:
    boxes = HollowBoxes()
    with hollow_sandbox(tmp_path, boxes, AzureSandbox) as endpoint:
        azure = Azure(endpoint, boxes)
        on = azure.launch().vm_id
        azure.launch("off")
        azure.compute.virtual_machines.begin_deallocate(GROUP, "off").result()
        submit(azure, azure.id_of("Microsoft.Compute/virtualMachines", "vm"))
        before = azure.sandbox.status()["billing"]
        azure.close()
    with hollow_sandbox(tmp_path, boxes, AzureSandbox) as endpoint:
        assert dict(endpoint.environ) == dict(azure.endpoint.environ)
        again = Azure(endpoint, boxes)
        assert again.sandbox.status()["billing"] == before
        assert list(boxes.alive) == [on]
        assert _powers(again, ["vm", "off"]) == ["PowerState/running", "PowerState/deallocated"]
        again.sandbox.clock(advance_s=3601)
        assert again.billed() == ["address", "address", "disk", "disk"]
        again.close()


def _powers(azure: Azure, names: Sequence[str]) -> list[str]:
    return [azure.power(name) for name in names]


def test_prices_of_the_ledger_are_the_markets(azure: Azure) -> None:
    azure.sandbox.price(cloud="azure", region=REGION, instance_type=SIZE, purchase="on_demand", amount="9")
    azure.launch()
    price = {entry["kind"]: entry["price"] for entry in azure.sandbox.status()["billing"]}
    assert price["instance"] == {"amount": "9", "currency": "USD"}
    assert all(float(each["amount"]) > 0 for each in price.values())


# --- what others may do


@pytest.fixture
def unreviewed(azure: Azure) -> Iterator[Azure]:
    """A subscription of somebody else."""
    azure.sandbox.review(Review.OFF)
    yield azure
    azure.sandbox.review(Review.ALL)


def test_an_evicted_machine_is_deallocated_unless_it_says_otherwise(unreviewed: Azure) -> None:
    azure = unreviewed
    made = azure.launch(priority="Spot")
    assert made.eviction_policy == "Deallocate"
    azure.compute.virtual_machines.simulate_eviction(GROUP, "vm")
    assert (azure.power(), azure.billed()) == ("PowerState/deallocated", PARTS)
    azure.compute.virtual_machines.begin_start(GROUP, "vm").result()
    assert azure.billed() == ALL


def test_a_machine_of_somebody_else_has_azures_defaults(unreviewed: Azure) -> None:
    azure = unreviewed
    azure.make_parts()
    bare = azure.interface("", networkSecurityGroup=None)
    del bare["tags"], bare["properties"]["ipConfigurations"][0]["properties"]["publicIPAddress"]
    nic = azure.network.network_interfaces.begin_create_or_update(GROUP, "bare", bare).result()
    body = machine(
        nic.id,
        tags=None,
        networkProfile={"networkInterfaces": [{"id": nic.id}]},
        storageProfile__osDisk={"createOption": "fromImage"},
        osProfile__customData=None,
        diagnosticsProfile=None,
    )
    made = azure.put(body).result()
    disk = made.storage_profile.os_disk
    assert (disk.delete_option, disk.disk_size_gb, disk.create_option) == ("Detach", 30, "FromImage")
    assert disk.managed_disk.storage_account_type == "Premium_LRS"
    azure.compute.virtual_machines.begin_delete(GROUP, "vm").result()
    assert azure.billed() == ["address", "disk"]
    assert [each.name for each in azure.network.network_interfaces.list(GROUP)] == ["vm-nic", "bare"]

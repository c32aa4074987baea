"""Instances of the emulated Alibaba Cloud that are stopped, restarted, renamed, or get another type."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.sandbox.alibaba_lab import REGION, TYPE, ZONE, Alibaba

LARGER = "ecs.gn6i-c8g1.2xlarge"
LOCAL_DISKS = "ecs.gn5-c4g1.xlarge"
STOCK = {"cloud": "alibaba", "region": REGION, "zone": ZONE, "instance_type": TYPE}


def price(alibaba: Alibaba) -> float:
    [entry] = [each for each in alibaba.sandbox.status()["billing"] if each["kind"] == "instance"]
    return float(entry["price"]["amount"])


def test_capacity_whose_bill_was_stopped_may_be_gone_at_the_start(alibaba: Alibaba) -> None:
    alibaba.sandbox.stock(**STOCK, count=1)
    network = alibaba.make_network()
    first = alibaba.launch(network)
    alibaba.ask("StopInstance", InstanceId=first, StoppedMode="StopCharging")
    second = alibaba.launch(network)
    assert alibaba.refused("StartInstance", InstanceId=first) == ("OperationDenied.NoStock", 403)
    assert alibaba.status(first) == "Stopped"
    alibaba.ask("DeleteInstance", InstanceId=second, Force=True)
    alibaba.ask("StartInstance", InstanceId=first)
    assert alibaba.billed() == ["address", "disk", "instance"]


def test_a_start_costs_what_the_type_costs_then(alibaba: Alibaba) -> None:
    id_ = alibaba.launch(alibaba.make_network())
    before = price(alibaba)
    alibaba.ask("StopInstance", InstanceId=id_, StoppedMode="StopCharging")
    alibaba.sandbox.price(cloud="alibaba", instance_type=TYPE, factor="1.5")
    alibaba.ask("StartInstance", InstanceId=id_)
    assert price(alibaba) == pytest.approx(1.5 * before)


def test_capacity_that_is_kept_is_there_at_the_start(alibaba: Alibaba) -> None:
    alibaba.sandbox.stock(**STOCK, count=1)
    network = alibaba.make_network()
    kept = alibaba.launch(network)
    alibaba.ask("StopInstance", InstanceId=kept)
    assert alibaba.refused("RunInstances", **alibaba.order(network))[0] == "OperationDenied.NoStock"
    alibaba.ask("StartInstance", InstanceId=kept)


def test_a_type_with_disks_of_its_own_is_billed_on_without_a_word(alibaba: Alibaba) -> None:
    zones = alibaba.ask("DescribeAvailableResource", DestinationResource="Zone", InstanceType=LOCAL_DISKS)
    zone = zones["AvailableZones"]["AvailableZone"][0]["ZoneId"]
    id_ = alibaba.launch(alibaba.make_network(zone), InstanceType=LOCAL_DISKS)
    alibaba.ask("StopInstance", InstanceId=id_, StoppedMode="StopCharging")
    [stopped] = alibaba.instances()
    assert (stopped["Status"], stopped["StoppedMode"]) == ("Stopped", "Not-applicable")
    assert "instance" in alibaba.billed()


def test_of_several_all_are_stopped_or_none(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    on, off = alibaba.launch(network), alibaba.launch(network)
    alibaba.ask("StopInstance", InstanceId=off)
    refused = alibaba.refused("StopInstances", InstanceId=[on, off])
    assert refused == ("IncorrectInstanceStatus", 403)
    assert alibaba.status(on) == "Running"
    assert alibaba.refused("StopInstance", InstanceId=on, StoppedMode="Soon")[0] == "InvalidStoppedMode"


@pytest.mark.parametrize(
    ("action", "several", "code"),
    [
        ("StopInstance", False, "DryRunOperation"),
        ("StopInstances", True, "DRYRUN.SUCCESS"),
        ("RebootInstance", False, "DryRunOperation"),
        ("RebootInstances", True, "DRYRUN.SUCCESS"),
    ],
)
def test_a_dry_run_changes_nothing(alibaba: Alibaba, action: str, several: bool, code: str) -> None:
    id_ = alibaba.launch()
    assert alibaba.refused(action, InstanceId=[id_] if several else id_, DryRun=True)[0] == code
    assert alibaba.status(id_) == "Running"


def test_only_what_runs_is_restarted(alibaba: Alibaba) -> None:
    id_ = alibaba.launch()
    alibaba.boxes.ended.clear()
    alibaba.ask("RebootInstance", InstanceId=id_)
    assert alibaba.boxes.stopped.wait(10)
    assert not alibaba.boxes.ended.is_set(), "which would erase its disk"
    assert alibaba.status(id_) == "Running"
    alibaba.ask("StopInstance", InstanceId=id_)
    assert alibaba.refused("RebootInstance", InstanceId=id_) == ("IncorrectInstanceStatus", 403)


def test_names_protection_and_groups_are_changed_while_it_runs_user_data_when_it_does_not(
    alibaba: Alibaba,
) -> None:
    network, other = alibaba.make_network(), alibaba.make_network()
    id_ = alibaba.launch(network)
    group = alibaba.ask("CreateSecurityGroup", VpcId=network.vpc)["SecurityGroupId"]

    def change(**changes: Any) -> None:
        alibaba.ask("ModifyInstanceAttribute", InstanceId=id_, **changes)

    change(InstanceName="other", Description="told", DeletionProtection=True, SecurityGroupIds=[group])
    [shown] = alibaba.instances(SecurityGroupId=group)
    assert (shown["InstanceName"], shown["Description"]) == ("other", "told")
    protected = alibaba.refused("DeleteInstance", InstanceId=id_, Force=True)
    assert protected[0] == "OperationDenied.DeletionProtection"
    foreign: dict[str, Any] = {"InstanceId": id_, "SecurityGroupIds": [other.group]}
    assert alibaba.refused("ModifyInstanceAttribute", **foreign)[0] == "InvalidParameter.Mismatch"
    data = base64.b64encode(b"#cloud-config\n").decode()
    early = alibaba.refused("ModifyInstanceAttribute", InstanceId=id_, UserData=data)
    assert early == ("IncorrectInstanceStatus", 403)
    alibaba.ask("StopInstance", InstanceId=id_)
    change(UserData=data)
    alibaba.ask("StartInstance", InstanceId=id_)
    assert alibaba.boxes.alive[id_].user_data == "#cloud-config\n"


def test_a_stopped_instance_gets_another_type_and_costs_what_that_costs(alibaba: Alibaba) -> None:
    id_ = alibaba.launch()
    before = price(alibaba)
    larger = {"InstanceId": id_, "InstanceType": LARGER}
    assert alibaba.refused("ModifyInstanceSpec", **larger) == ("IncorrectInstanceStatus", 403)
    alibaba.ask("StopInstance", InstanceId=id_)
    unknown = alibaba.refused("ModifyInstanceSpec", InstanceId=id_, InstanceType="ecs.none")
    assert unknown[0] == "InvalidInstanceType.ValueNotSupported"
    alibaba.ask("ModifyInstanceSpec", **larger)
    [shown] = alibaba.instances()
    assert (shown["InstanceType"], shown["Cpu"]) == (LARGER, 8)
    assert price(alibaba) > before

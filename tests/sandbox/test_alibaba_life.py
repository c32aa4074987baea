"""What becomes of instances of the emulated Alibaba Cloud, and what they cost."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpucloud_sandbox.alibaba import AlibabaSandbox
from gpucloud_sandbox.alibaba.metadata import answer
from gpucloud_sandbox.boxes_metadata import Facts
from tests.sandbox.alibaba_lab import REGION, SPOT, TYPE, ZONE, Alibaba
from tests.sandbox.running import HollowBoxes, hollow_sandbox

EVERYTHING = ["address", "disk", "instance"]


def test_an_instance_comes_to_run_by_the_clouds_clock(alibaba: Alibaba) -> None:
    alibaba.sandbox.pace(transition_s=60)
    network = alibaba.ask("CreateVpc", "vpc", CidrBlock="10.42.0.0/16")["VpcId"]
    switch = {"VpcId": network, "ZoneId": ZONE, "CidrBlock": "10.42.0.0/20"}
    assert alibaba.refused("CreateVSwitch", "vpc", **switch)[0] == "IncorrectVpcStatus"
    alibaba.sandbox.pace(transition_s=0)
    parts = alibaba.make_network()
    alibaba.sandbox.pace(transition_s=60)
    id_ = alibaba.launch(parts)
    [pending] = alibaba.instances()
    assert (pending["Status"], pending["PublicIpAddress"]["IpAddress"]) == ("Pending", [])
    early = alibaba.refused("DeleteInstance", InstanceId=id_, Force=True)
    assert early == ("IncorrectInstanceStatus.Initializing", 403)
    alibaba.sandbox.clock(advance_s=61)
    assert alibaba.status(id_) == "Running"


def test_an_instance_is_hidden_from_as_many_looks_as_asked(alibaba: Alibaba) -> None:
    alibaba.sandbox.pace(lag_calls=2)
    id_ = alibaba.launch()
    assert [alibaba.status(id_) for _ in range(3)] == [None, None, "Running"]


def test_a_running_instance_is_deleted_by_force_only_and_all_that_is_its_goes_too(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    id_ = alibaba.launch(network)
    assert alibaba.billed() == EVERYTHING
    assert alibaba.refused("DeleteInstance", InstanceId=id_) == ("IncorrectInstanceStatus", 403)
    assert (
        alibaba.refused("DeleteInstances", InstanceId=[id_], Force=True, DryRun=True)[0] == "DRYRUN.SUCCESS"
    )
    alibaba.ask("DeleteInstances", InstanceId=[id_], Force=True)
    assert alibaba.billed() == []
    assert alibaba.status(id_) is None
    assert alibaba.ask("DescribeDisks")["Disks"]["Disk"] == []
    assert alibaba.refused("DeleteInstance", InstanceId=id_, Force=True) == (
        "InvalidInstanceId.NotFound",
        404,
    )


def test_of_several_all_are_deleted_or_none(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    mine = alibaba.launch(network)
    kept = alibaba.launch(network, DeletionProtection=True)
    refused = alibaba.refused("DeleteInstances", InstanceId=[mine, kept], Force=True)
    assert refused == ("OperationDenied.DeletionProtection", 403)
    assert {alibaba.status(mine), alibaba.status(kept)} == {"Running"}


@pytest.mark.parametrize(
    ("mode", "billed"), [("KeepCharging", EVERYTHING), ("StopCharging", ["address", "disk"])]
)
def test_what_a_stopped_instance_costs_depends_on_how_it_was_stopped(
    alibaba: Alibaba, mode: str, billed: list[str]
) -> None:
    id_ = alibaba.launch()
    alibaba.ask("StopInstance", InstanceId=id_, StoppedMode=mode)
    assert (alibaba.status(id_), alibaba.billed()) == ("Stopped", billed)
    assert alibaba.refused("StopInstance", InstanceId=id_) == ("IncorrectInstanceStatus", 403)
    alibaba.ask("StartInstance", InstanceId=id_)
    assert (alibaba.status(id_), alibaba.billed()) == ("Running", EVERYTHING)


def test_the_release_time_ends_an_instance_whatever_its_state(alibaba: Alibaba) -> None:
    id_ = alibaba.launch(AutoReleaseTime=alibaba.in_future(minutes=40))
    alibaba.ask("StopInstance", InstanceId=id_)
    alibaba.sandbox.clock(advance_s=38 * 60)
    assert alibaba.billed() == EVERYTHING
    alibaba.sandbox.clock(advance_s=3 * 60)
    assert alibaba.instances() == []
    assert alibaba.billed() == []


def test_the_release_time_can_be_moved_and_taken_back(alibaba: Alibaba) -> None:
    id_ = alibaba.launch(AutoReleaseTime=alibaba.in_future(minutes=40))
    alibaba.ask("ModifyInstanceAutoReleaseTime", InstanceId=id_, AutoReleaseTime=alibaba.in_future(hours=3))
    alibaba.sandbox.clock(advance_s=3600)
    [instance] = alibaba.instances()
    assert instance["AutoReleaseTime"]
    alibaba.ask("ModifyInstanceAutoReleaseTime", InstanceId=id_)
    alibaba.sandbox.clock(advance_s=4 * 3600)
    assert alibaba.status(id_) == "Running"


def test_a_spot_instance_is_taken_back_after_a_notice(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    taken, kept = alibaba.launch(network, **SPOT), alibaba.launch(network)
    alibaba.sandbox.interrupt(taken, notice_s=300)
    [locked] = [each for each in alibaba.instances() if each["InstanceId"] == taken]
    assert locked["OperationLocks"]["LockReason"][0]["LockReason"] == "Recycling"
    assert set(alibaba.boxes.notices) == {taken}
    alibaba.ask(
        "TagResources", ResourceType="instance", ResourceId=[taken, kept], Tag=[{"Key": "a", "Value": "b"}]
    )
    alibaba.sandbox.clock(advance_s=301)
    tagged = alibaba.ask("ListTagResources", ResourceType="instance", Tag=[{"Key": "a", "Value": "b"}])
    assert {each["ResourceId"] for each in tagged["TagResources"]["TagResource"]} == {kept}
    assert (alibaba.status(taken), alibaba.status(kept)) == (None, "Running")
    [event] = alibaba.ask("DescribeInstanceHistoryEvents", InstanceId=taken)["InstanceSystemEventSet"][
        "InstanceSystemEventType"
    ]
    assert event["EventType"]["Name"] == "InstanceExpiration.Delete"
    assert alibaba.billed() == EVERYTHING


def test_the_console_can_be_read(alibaba: Alibaba) -> None:
    id_ = alibaba.launch()
    said = alibaba.ask("GetInstanceConsoleOutput", InstanceId=id_)["ConsoleOutput"]
    assert base64.b64decode(said).decode().startswith(f"boot of {id_}")


def test_prices_of_the_ledger_are_the_markets(alibaba: Alibaba) -> None:
    alibaba.launch()
    asked = {"InstanceType": TYPE, "PriceUnit": "Hour", "ZoneId": ZONE}
    price = alibaba.ask("DescribePrice", **asked)["PriceInfo"]["Price"]
    [entry] = [entry for entry in alibaba.sandbox.status()["billing"] if entry["kind"] == "instance"]
    assert float(entry["price"]["amount"]) == price["TradePrice"]
    assert entry["price"]["currency"] == price["Currency"]


def test_a_restarted_sandbox_has_everything_and_boots_what_was_on(tmp_path: Path) -> None:
    boxes = HollowBoxes()
    with hollow_sandbox(tmp_path, boxes, AlibabaSandbox) as endpoint:
        lab = Alibaba(endpoint, boxes)
        network = lab.make_network()
        on, off = lab.launch(network, AutoReleaseTime=lab.in_future(hours=1)), lab.launch(network)
        lab.ask("StopInstance", InstanceId=off)
    boxes.alive.clear()
    with hollow_sandbox(tmp_path, boxes, AlibabaSandbox) as endpoint:
        again = Alibaba(endpoint, boxes)
        assert set(boxes.alive) == {on}
        assert {again.status(on), again.status(off)} == {"Running", "Stopped"}
        assert again.billed() == sorted(EVERYTHING * 2)
        again.sandbox.clock(advance_s=2 * 3600)
        assert again.status(on) is None


# --- from within


FACTS = Facts(
    id="i-bp1",
    hostname="n0",
    public_ip="203.0.113.7",
    private_ip="10.42.0.4",
    user_data="#cloud-config\n",
    tags={"gpucloud:box": "b"},
    spot=True,
    token="t",
    interruption=None,
    now=datetime(2026, 11, 21, tzinfo=UTC),
)
KNOWS = {"x-aliyun-ecs-metadata-token": "t"}
ENDS = "/latest/meta-data/instance/spot/termination-time"


def test_the_metadata_service_wants_a_token_that_a_put_gave() -> None:
    ttl = {"x-aliyun-ecs-metadata-token-ttl-seconds": "60"}
    assert answer(FACTS, "PUT", "/latest/api/token", ttl) == (200, "t")
    assert answer(FACTS, "PUT", "/latest/api/token", {})[0] == 400
    path = "/latest/meta-data/instance-id"
    assert answer(FACTS, "GET", path, {})[0] == 403
    assert answer(FACTS, "GET", path, {"x-aliyun-ecs-metadata-token": "u"})[0] == 403
    assert answer(FACTS, "POST", path, KNOWS)[0] == 405
    assert answer(FACTS, "GET", path, KNOWS) == (200, "i-bp1")
    assert answer(FACTS, "GET", "/latest/user-data", KNOWS) == (200, "#cloud-config\n")
    assert answer(FACTS, "GET", "/latest/meta-data/nothing", KNOWS)[0] == 404


def test_a_spot_box_is_told_when_it_ends_and_others_nothing() -> None:
    assert answer(FACTS, "GET", ENDS, KNOWS)[0] == 404
    soon = replace(FACTS, interruption=FACTS.now + timedelta(minutes=5))
    assert answer(soon, "GET", ENDS, KNOWS) == (200, "2026-11-21T00:05:00Z")
    assert answer(replace(soon, spot=False), "GET", ENDS, KNOWS)[0] == 404


def test_regions_and_endpoints(alibaba: Alibaba) -> None:
    regions = {each["RegionId"] for each in alibaba.ask("DescribeRegions")["Regions"]["Region"]}
    assert {REGION, "cn-hangzhou", "eu-central-1"} <= regions

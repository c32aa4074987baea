"""Deployment sets of the emulated Alibaba Cloud, and launches into them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.alibaba_lab import SPOT, Alibaba

OTHER_ZONE = "us-east-1b"


def make(alibaba: Alibaba, **asked: Any) -> str:
    id_: str = alibaba.ask("CreateDeploymentSet", **asked)["DeploymentSetId"]
    return id_


def shown(alibaba: Alibaba, **asked: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = alibaba.ask("DescribeDeploymentSets", **asked)["DeploymentSets"][
        "DeploymentSet"
    ]
    return found


def test_a_set_is_made_once_changed_found_and_deleted(alibaba: Alibaba) -> None:
    named = {"DeploymentSetName": "near", "Strategy": "LowLatency", "ClientToken": "t"}
    made = make(alibaba, **named)
    assert make(alibaba, **named) == made
    make(alibaba)
    alibaba.ask("ModifyDeploymentSetAttribute", DeploymentSetId=made, DeploymentSetName="nearer")
    [found] = shown(alibaba, DeploymentSetName="nearer")
    assert (found["DeploymentSetId"], found["Strategy"], found["InstanceAmount"]) == (made, "LowLatency", 0)
    assert shown(alibaba, DeploymentSetIds='["ds-nothing"]') == []
    alibaba.ask("DeleteDeploymentSet", DeploymentSetId=made)
    assert [each["Strategy"] for each in shown(alibaba)] == ["Availability"]
    assert alibaba.billed() == []


def test_a_set_knows_its_instances_and_stays_while_it_has_any(alibaba: Alibaba) -> None:
    made: dict[str, Any] = {"DeploymentSetId": make(alibaba)}
    id_ = alibaba.launch(**made)
    assert alibaba.instances()[0]["DeploymentSetId"] == made["DeploymentSetId"]
    [found] = shown(alibaba)
    assert found["InstanceIds"]["InstanceId"] == [id_]
    zones = {each["ZoneId"]: each["AvailableAmount"] for each in found["Capacities"]["Capacity"]}
    assert (zones["us-east-1a"], zones["us-east-1b"]) == (19, 20)
    assert alibaba.refused("DeleteDeploymentSet", **made) == ("DependencyViolation.NotEmpty", 403)
    alibaba.ask("DeleteInstance", InstanceId=id_, Force=True)
    alibaba.ask("DeleteDeploymentSet", **made)


def test_a_zone_of_a_set_takes_twenty_instances(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    made: dict[str, Any] = {"DeploymentSetId": make(alibaba)}
    alibaba.launch(network, Amount=19, InternetMaxBandwidthOut=0, **made)
    order = alibaba.order(network, Amount=2, **made)
    assert alibaba.refused("RunInstances", **order) == ("QuotaExceed.DeploymentSetInstanceQuotaFull", 403)
    assert len(alibaba.instances(PageSize=100)) == 19, "all or none"
    alibaba.launch(network, Amount=1, **made)
    alibaba.launch(alibaba.make_network(OTHER_ZONE), **made)


def test_instances_of_a_grouped_set_go_to_the_group_that_they_name_or_the_emptiest(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    made: dict[str, Any] = {"DeploymentSetId": make(alibaba, Strategy="AvailabilityGroup", GroupCount=2)}
    alibaba.launch(network, DeploymentSetGroupNo=1, **made)
    alibaba.launch(network, **made)
    assert sorted(each["DeploymentSetGroupNo"] for each in alibaba.instances()) == [1, 2]
    order = alibaba.order(network, DeploymentSetGroupNo=3, **made)
    assert alibaba.refused("RunInstances", **order)[0] == "InvalidParameter.DeploymentSetGroupNo"


CLOSE = "ecs.ebmgn7ex.32xlarge"
"""A type that is sold in two zones of a region, and that stands close to others."""


def test_a_set_of_low_latency_is_in_one_zone_and_takes_some_families_and_no_spot(alibaba: Alibaba) -> None:
    region, first, second = "cn-shenzhen", "cn-shenzhen-f", "cn-shenzhen-a"
    network = alibaba.make_network(first, region)
    made: dict[str, Any] = {
        "RegionId": region,
        "InstanceType": CLOSE,
        "ImageId": alibaba.image(region=region),
        "DeploymentSetId": make(alibaba, Strategy="LowLatency", RegionId=region),
    }
    spot = alibaba.order(network, **{**SPOT, "ZoneId": first}, **made)
    assert alibaba.refused("RunInstances", **spot)[0] == "InvalidSpotStrategy"
    other = alibaba.order(network, **{**made, "InstanceType": "ecs.ebmgn7ix.32xlarge"})
    assert alibaba.refused("RunInstances", **other) == ("InvalidInstanceType.ValueNotSupported", 403)
    alibaba.launch(network, **made)
    elsewhere = alibaba.order(alibaba.make_network(second, region), **made)
    refused = alibaba.refused("RunInstances", **elsewhere)
    assert refused == ("InvalidDestinationZone.DeploymentSetMismatch", 400)


@pytest.mark.parametrize(
    ("action", "asked", "code"),
    [
        ("CreateDeploymentSet", {"Strategy": "Near"}, "InvalidParameter.Strategy"),
        ("CreateDeploymentSet", {"DeploymentSetName": "x"}, "InvalidDeploymentSetName.Malformed"),
        ("CreateDeploymentSet", {"GroupCount": 8}, "InvalidParameter.GroupCount"),
        ("CreateDeploymentSet", {"Affinity": 2}, "UnsupportedOperation"),
        ("ModifyDeploymentSetAttribute", {"DeploymentSetId": "ds-0"}, "InvalidDeploymentSetId.NotFound"),
    ],
)
def test_sets_that_the_cloud_refuses_are_refused(
    alibaba: Alibaba, action: str, asked: dict[str, Any], code: str
) -> None:
    assert alibaba.refused(action, **asked) == (code, 400)


def test_a_launch_names_a_set_that_exists_and_a_type_that_it_takes(alibaba: Alibaba) -> None:
    order = alibaba.order(DeploymentSetId="ds-0")
    assert alibaba.refused("RunInstances", **order) == ("InvalidDeploymentSetId.NotFound", 400)
    large: dict[str, Any] = {"InstanceType": "ecs.gn7i-c8g1.2xlarge", "DeploymentSetId": make(alibaba)}
    refused = alibaba.refused("RunInstances", **alibaba.order(**large))
    assert refused == ("InvalidInstanceType.ValueNotSupported", 403)

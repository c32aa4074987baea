"""Placement groups: which instances are close together (``cluster``) or apart (``spread``, ``partition``).

Limits: EC2 User Guide, "Placement groups" and its pages on the strategies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.aws.hardware import strategies
from gpucloud_sandbox.aws.instances import alive
from gpucloud_sandbox.aws.query import Field, select
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.review import review_tags
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.wire import AwsError, part
from gpucloud_sandbox.database import Document

MOST = 500
"""Groups of a region (EC2 User Guide, "Rules and limitations" of placement groups)."""
MOST_SPREAD = 7
"""Running instances of a spread group in a zone, each in a rack of its own."""
MOST_PARTITIONS = 7

_FILTERS: dict[str, Field] = {
    "group-arn": "GroupArn",
    "group-name": "GroupName",
    "spread-level": "SpreadLevel",
    "state": "State",
    "strategy": "Strategy",
}


def create_placement_group(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreatePlacementGroup; a cluster where no strategy is named."""
    name, strategy = parameters.get("GroupName"), parameters.get("Strategy", "cluster")
    if not name:
        raise AwsError("MissingParameter", "The request must contain the parameter groupName")
    if _named(region, "GroupName", name) is not None:
        raise AwsError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
    if len(region.all("placement")) >= MOST:
        text = "The maximum number of placement groups has been reached."
        raise AwsError("PlacementGroupLimitExceeded", text)
    count = parameters.get("PartitionCount")
    if count is not None and strategy != "partition":
        text = "The parameter partitionCount is for the strategy partition only"
        raise AwsError("InvalidParameterCombination", text)
    if count is not None and not 1 <= count <= MOST_PARTITIONS:
        raise AwsError("InvalidParameterValue", f"Value ({count}) for parameter partitionCount is invalid.")
    review_tags(parameters, "placement-group")
    id_ = region.new_id("pg")
    group = {
        "GroupId": id_,
        "GroupName": name,
        "GroupArn": f"arn:aws:ec2:{region.name}:{ACCOUNT}:placement-group/{name}",
        "State": "available",
        "Strategy": strategy,
        "PartitionCount": (count or 2) if strategy == "partition" else None,
        "SpreadLevel": "rack" if strategy == "spread" else None,
        "Tags": tags_for(parameters, "placement-group"),
    }
    return {"PlacementGroup": region.put("placement", group)}


def delete_placement_group(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeletePlacementGroup: once its instances are gone, stopped ones too."""
    group = _find(region, "GroupName", parameters["GroupName"])
    if any(each["State"]["Name"] != "terminated" for each in _members(region, group)):
        text = f"The placement group '{group['GroupName']}' is in use and may not be deleted."
        raise AwsError("InvalidPlacementGroup.InUse", text)
    region.drop("placement", group["GroupId"])
    return {}


def describe_placement_groups(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribePlacementGroups, which knows no pages."""
    asked = {
        member: {_find(region, member, value)["GroupId"] for value in parameters[f"{member}s"]}
        for member in ("GroupId", "GroupName")
        if f"{member}s" in parameters
    }
    groups = region.all("placement").values()
    found = [group for group in groups if all(group["GroupId"] in ids for ids in asked.values())]
    return {"PlacementGroups": select(found, parameters.get("Filters"), _FILTERS)}


def group_of_launch(
    region: Region, parameters: Mapping[str, Any], zone: str, most: int
) -> tuple[Document | None, int]:
    """The placement group that a launch names, and how many instances of ``most`` it takes in a zone.

    Raises:
        AwsError: it is not there, does not take the type or the zone, or is full.
    """
    placement = part(parameters, "Placement")
    asked = [(member, placement[member]) for member in ("GroupId", "GroupName") if placement.get(member)]
    if len(asked) > 1:
        text = "The parameters groupId and groupName may not be used together"
        raise AwsError("InvalidParameterCombination", text)
    group = _find(region, *asked[0]) if asked else None
    _check_partition(group, placement.get("PartitionNumber"))
    if group is None:
        return None, most
    strategy, type_ = group["Strategy"], parameters["InstanceType"]
    if strategy not in strategies(type_):
        text = (
            f"{strategy.capitalize()} placement groups are not supported by the '{type_}' instance type. "
            "Specify a supported instance type or change the placement group strategy, and try again."
        )
        raise AwsError("InvalidParameterCombination", text)
    return group, _room(region, group, zone, parameters["MinCount"], most)


def place(region: Region, group: Document | None, number: int | None) -> Document:
    """What an instance's ``Placement`` says of its group: the partition asked for, or else the emptiest."""
    if group is None:
        return {"GroupName": ""}
    named = {"GroupName": group["GroupName"], "GroupId": group["GroupId"]}
    if group["Strategy"] != "partition":
        return named
    used = Counter(each["Placement"]["PartitionNumber"] for each in _members(region, group) if alive(each))
    partitions = range(1, group["PartitionCount"] + 1)
    return {**named, "PartitionNumber": number or min(partitions, key=lambda each: used[each])}


def _check_partition(group: Document | None, number: int | None) -> None:
    if number is None:
        return
    if group is None or group["Strategy"] != "partition":
        text = "The parameter partitionNumber is for placement groups of the strategy partition only"
        raise AwsError("InvalidParameterCombination", text)
    if not 1 <= number <= group["PartitionCount"]:
        raise AwsError("InvalidParameterValue", f"Value ({number}) for parameter partitionNumber is invalid.")


def _room(region: Region, group: Document, zone: str, least: int, most: int) -> int:
    """How many more instances, of ``least`` to ``most``, a group takes in a zone."""
    zones = Counter(each["Placement"]["AvailabilityZone"] for each in _members(region, group) if alive(each))
    if group["Strategy"] == "cluster" and set(zones) - {zone}:
        text = "Your placement group is spread across Availability Zones."
        raise AwsError("InvalidParameterValue", text)  # UNVERIFIED: the words are those of a spot request
    if group["Strategy"] != "spread":
        return most
    free = MOST_SPREAD - zones[zone]
    if free < least:
        text = (
            "We currently do not have sufficient capacity to launch all of the additional requested "
            f"instances into Placement Group '{group['GroupName']}'."
        )
        raise AwsError("InsufficientInstanceCapacity", text, 500)  # UNVERIFIED
    return min(most, free)


def _members(region: Region, group: Document) -> list[Document]:
    instances = region.all("instance").values()
    return [each for each in instances if each["Placement"].get("GroupId") == group["GroupId"]]


def _named(region: Region, member: str, value: str) -> Document | None:
    return next((each for each in region.all("placement").values() if each[member] == value), None)


def _find(region: Region, member: str, value: str) -> Document:
    group = _named(region, member, value)
    if group is None:
        raise AwsError("InvalidPlacementGroup.Unknown", f"The Placement Group '{value}' is unknown.")
    return group

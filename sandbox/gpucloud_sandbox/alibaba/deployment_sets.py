"""Deployment sets: where instances stand relative to each other. They cost nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpucloud_sandbox.alibaba.names import check_names
from gpucloud_sandbox.alibaba.region import ACCOUNT, Region, page_by_number, shown
from gpucloud_sandbox.alibaba.stock import alive
from gpucloud_sandbox.alibaba.tokens import once
from gpucloud_sandbox.alibaba.wire import AlibabaError, json_list
from gpucloud_sandbox.database import Document

SPREAD, GROUPED, CLOSE = "Availability", "AvailabilityGroup", "LowLatency"
"""The strategies. Source: ECS API reference, CreateDeploymentSet, ``Strategy``."""

PER_ZONE = 20
"""Instances of a set in a zone; of each group where it has groups (UNVERIFIED).

Source: ECS user guide, "Deployment sets".
"""

GROUPS, MOST_GROUPS = 3, 7
"""Groups of an ``AvailabilityGroup`` set: the default, the most. Source: as above, ``GroupCount``."""

SPREADABLE = ("ecs.gn6i",)
"""Families with GPUs that a set can spread, as beginnings of types.

Source: ECS user guide, "Deployment sets", 2026-06.
"""

CLOSE_FAMILIES = frozenset({"ecs.ebmgn7ex", "ecs.ebmgn8v", "ecs.gn8v"})
"""Families with GPUs that a set of low latency takes. Source: as above."""

_PLANS = ("CancelMembershipAndStart", "KeepStopped")


@dataclass(frozen=True, slots=True)
class Place:
    """The deployment set of a launch, and the group in it (0 where it has none)."""

    set_id: str = ""
    group: int = 0


# --- the sets


def create(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateDeploymentSet."""
    check_names(parameters, "DeploymentSetName", "Description")
    strategy = parameters.get("Strategy", SPREAD)
    if strategy not in {SPREAD, GROUPED, CLOSE}:
        raise AlibabaError("InvalidParameter.Strategy", "The specified parameter Strategy is not valid.")
    groups = int(parameters.get("GroupCount", GROUPS))
    if not 1 <= groups <= MOST_GROUPS:
        raise AlibabaError("InvalidParameter.GroupCount", "The GroupCount is not valid.")  # UNVERIFIED
    plan = parameters.get("OnUnableToRedeployFailedInstance", _PLANS[0])
    if plan not in _PLANS:
        text = "The specified OnUnableToRedeployFailedInstance is not valid."
        raise AlibabaError("InvalidParameter.OnUnableToRedeployFailedInstance", text)  # UNVERIFIED

    def make() -> Document:
        made = region.put(
            "deployment_set",
            {
                "DeploymentSetId": region.new_id("deployment_set"),
                "DeploymentSetName": parameters.get("DeploymentSetName", ""),
                "DeploymentSetDescription": parameters.get("Description", ""),
                "Strategy": strategy,
                "DeploymentStrategy": strategy,
                "Domain": "default",
                "Granularity": "host",
                "GroupCount": groups if strategy == GROUPED else 0,
                "AccountId": int(ACCOUNT),
                "CreationTime": region.second,
            },
        )
        return {"DeploymentSetId": made["DeploymentSetId"]}

    return once(region, "CreateDeploymentSet", parameters, make)


def describe(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeDeploymentSets."""
    ids = json_list(parameters.get("DeploymentSetIds"), "DeploymentSetIds")
    found = [
        each
        for each in region.all("deployment_set").values()
        if (ids is None or each["DeploymentSetId"] in ids)
        and all(parameters.get(name) in {None, each[name]} for name in ("DeploymentSetName", "Strategy"))
    ]
    items, about = page_by_number(found, parameters, 50)
    sets = [_show(region, each) for each in items]
    return {"RegionId": region.name, "DeploymentSets": {"DeploymentSet": sets}, **about}


def modify(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ModifyDeploymentSetAttribute."""
    found = find(region, parameters["DeploymentSetId"])
    check_names(parameters, "DeploymentSetName", "Description")
    members = {"DeploymentSetName": "DeploymentSetName", "Description": "DeploymentSetDescription"}
    changes = {member: parameters[name] for name, member in members.items() if name in parameters}
    region.put("deployment_set", {**found, **changes})
    return {}


def delete(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteDeploymentSet, once it has no instances. What is not there is no error (UNVERIFIED)."""
    id_ = parameters["DeploymentSetId"]
    if _members(region, id_):
        text = "There are still instance(s) in the specified DeploymentSetId."
        raise AlibabaError("DependencyViolation.NotEmpty", text, 403)
    region.drop("deployment_set", id_)
    return {}


def find(region: Region, id_: str) -> Document:
    """A set by id.

    Raises:
        AlibabaError: there is none.
    """
    found = region.all("deployment_set").get(id_)
    if found is None:
        raise AlibabaError("InvalidDeploymentSetId.NotFound", "The specified DeploymentSetId does not exist.")
    return found


def _members(region: Region, id_: str) -> list[Document]:
    """The instances in a set."""
    known = region.all("instance").values()
    return [each for each in known if alive(each) and each["DeploymentSetId"] == id_]


def _show(region: Region, each: Document) -> Document:
    """A set with its instances, and how many more each zone takes."""
    members = _members(region, each["DeploymentSetId"])
    used = Counter(member["ZoneId"] for member in members)
    most = PER_ZONE * max(1, each["GroupCount"])
    capacities = [
        {"ZoneId": zone, "UsedAmount": used[zone], "AvailableAmount": most - used[zone]}
        for zone in region.zones
    ]
    return {
        **shown(each),
        "InstanceAmount": len(members),
        "InstanceIds": {"InstanceId": [member["InstanceId"] for member in members]},
        "Capacities": {"Capacity": capacities},
    }


# --- launches into them


def place_of(region: Region, parameters: Mapping[str, Any], *, zone: str, purchase: str, least: int) -> Place:
    """Where in a set a launch goes.

    Args:
        region: where it is.
        parameters: those of RunInstances.
        zone: the zone of the launch.
        purchase: its way of paying.
        least: how many instances it needs.

    Raises:
        AlibabaError: there is no such set, or it does not take them.
    """
    id_, group = parameters.get("DeploymentSetId"), int(parameters.get("DeploymentSetGroupNo", 0))
    if not id_:
        return Place()
    found = find(region, id_)
    if "DeploymentSetGroupNo" in parameters and not 1 <= group <= found["GroupCount"]:
        text = "The specified DeploymentSetGroupNo is not valid."
        raise AlibabaError("InvalidParameter.DeploymentSetGroupNo", text)  # UNVERIFIED
    type_name: str = parameters["InstanceType"]
    close = type_name.rpartition(".")[0] in CLOSE_FAMILIES
    if not (close if found["Strategy"] == CLOSE else type_name.startswith(SPREADABLE)):
        text = f"{type_name} does not support the strategy of the deployment set."
        raise AlibabaError("InvalidInstanceType.ValueNotSupported", text, 403)  # UNVERIFIED
    if found["Strategy"] == CLOSE and purchase == "spot":
        text = "A deployment set of LowLatency takes no spot instances."
        raise AlibabaError("InvalidSpotStrategy", text)  # UNVERIFIED
    members = _members(region, id_)
    if found["Strategy"] == CLOSE and any(each["ZoneId"] != zone for each in members):
        text = "The instances of the deployment set are in another zone."
        raise AlibabaError("InvalidDestinationZone.DeploymentSetMismatch", text)
    group = group or _emptiest(found, members)
    beside = [each for each in members if each["ZoneId"] == zone and each["DeploymentSetGroupNo"] == group]
    if len(beside) + least > PER_ZONE:
        text = "Instance quota in one deployment set exceeded."
        raise AlibabaError("QuotaExceed.DeploymentSetInstanceQuotaFull", text, 403)
    return Place(id_, group)


def _emptiest(found: Document, members: list[Document]) -> int:
    """The group with the fewest instances; 0 where a set has no groups."""
    counts = Counter(each["DeploymentSetGroupNo"] for each in members)
    return min(range(1, found["GroupCount"] + 1), key=lambda group: counts[group], default=0)

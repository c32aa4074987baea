"""Creates instances: an order becomes a RunInstances request, and its answer becomes machines."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, assert_never

from gpucloud.errors import UsageError
from gpucloud.resources import Machine, Order, Request, ResourceKind, State, Tags
from gpucloud_alibaba.describe import ref_of
from gpucloud_alibaba.errors import MalformedAnswerError, named, reading
from gpucloud_alibaba.find import TOKEN_TAG
from gpucloud_alibaba.images import Found
from gpucloud_alibaba.models import ecs_models
from gpucloud_alibaba.network import NetworkIds
from gpucloud_alibaba.placement import Erdma, interfaces
from gpucloud_alibaba.prices import DISK_CATEGORY
from gpucloud_pricing.purchases import Purchase

BID_STEP = Decimal("0.001")
"""The least difference of two bids. Source: ECS API reference, RunInstances, SpotPriceLimit."""

SHORTEST_LIFE = timedelta(minutes=32)
"""A release time must be half an hour ahead; two minutes are for the call itself and its retries."""

LONGEST_LIFE = timedelta(days=3 * 365 - 1)
"""A release time is at most three years ahead. Source: ECS API reference, ModifyInstanceAutoReleaseTime."""


def tags_of(order: Order) -> dict[str, str]:
    """The tags of all resources of a box: the user's own, and the five of gpucloud, which win."""
    return {**order.extra_tags, **order.tags.as_dict()}


def release_time(deadline: datetime | None, now: datetime) -> str | None:
    """When the cloud itself releases the machines; ``None`` for never.

    Args:
        deadline: the deadline of the box.
        now: the time of the order.

    Raises:
        UsageError: the deadline is further ahead than the cloud accepts.
    """
    if deadline is None:
        return None
    if deadline > now + LONGEST_LIFE:
        raise UsageError(
            f"--ttl: Alibaba Cloud's release time is at most {LONGEST_LIFE.days} days ahead",
            hint=f"use --ttl {LONGEST_LIFE.days}d and extend it later, or --ttl none",
        )
    end = max(deadline, now + SHORTEST_LIFE)
    # The cloud truncates to minutes, so the time is rounded up.
    whole = end.astimezone(UTC).replace(second=0, microsecond=0)
    if whole < end:
        whole += timedelta(minutes=1)
    return whole.strftime("%Y-%m-%dT%H:%M:%SZ")


def market_of(order: Order, limit: float | None) -> dict[str, Any]:
    """The part of the call with the way of paying.

    Args:
        order: the order.
        limit: the bid of a spot order, in the account's currency; ``None`` for any other.
    """
    match order.purchase:
        case Purchase.ON_DEMAND:
            return {"SpotStrategy": "NoSpot", "PrivatePoolOptions": {"MatchCriteria": "None"}}
        case Purchase.SPOT:
            return {
                "SpotStrategy": "SpotWithPriceLimit",
                "SpotPriceLimit": limit,
                "SpotDuration": 0,
                "SpotInterruptionBehavior": "Terminate",
            }
        case Purchase.RESERVED:
            pool = {"MatchCriteria": "Target", "Id": order.reservation}
            return {"SpotStrategy": "NoSpot", "PrivatePoolOptions": pool}
        case _:
            assert_never(order.purchase)


def request_of(
    order: Order,
    *,
    network_ids: NetworkIds,
    image: Found,
    market: Mapping[str, Any],
    ends: str | None,
    placement: str | None = None,
    erdma: Erdma | None = None,
) -> Request:
    """The create call as plain JSON. Pure: the same order yields the same request.

    Args:
        order: the order.
        network_ids: network and group.
        image: the image.
        market: from :func:`market_of`.
        ends: from :func:`release_time`.
        placement: the deployment set.
        erdma: what the type has for eRDMA, where it is to join the instances.
    """
    vswitch, group = network_ids.vswitch, network_ids.group
    attached: dict[str, Any] = {"VSwitchId": vswitch, "SecurityGroupId": group}
    if erdma is not None:  # all interfaces are in the list then, the primary one too
        attached = {"NetworkInterface": interfaces(erdma, vswitch=vswitch, group=group)}
    tags = {**tags_of(order), TOKEN_TAG: order.key}
    call: dict[str, Any] = {
        "RegionId": order.region,
        "ZoneId": order.zone,
        "InstanceType": order.instance_type,
        "ImageId": image.id,
        "Amount": len(order.ranks),
        "MinAmount": len(order.ranks),
        "ClientToken": order.key,
        "InstanceName": order.name,
        "UniqueSuffix": order.nodes > 1,
        "InstanceChargeType": "PostPaid",
        **attached,
        "InternetChargeType": "PayByTraffic",
        "InternetMaxBandwidthOut": 100,
        "SystemDisk": {
            "Category": DISK_CATEGORY,
            "PerformanceLevel": "PL1",
            "Size": str(order.disk_gib),
            "Encrypted": "true",
        },
        "HttpEndpoint": "enabled",
        "HttpTokens": "required" if image.hardened else "optional",
        "HttpPutResponseHopLimit": 1,
        "UserData": base64.b64encode(order.user_data).decode(),
        "Tag": [{"Key": key, "Value": value} for key, value in tags.items()],
        **market,
        **({"AutoReleaseTime": ends} if ends else {}),
        **({"DeploymentSetId": placement} if placement else {}),
    }
    return {"account": order.account, "run_instances": call}


def create(request: Request, ecs: Any) -> Sequence[Machine]:
    """Sends the call, once. The answer has ids only; all other fields are as ordered.

    Args:
        request: from :func:`request_of`.
        ecs: the client of the request's region.

    Raises:
        MalformedAnswerError: the answer does not have as many machines as ordered.
    """
    models = ecs_models()

    call: Mapping[str, Any] = request["run_instances"]
    answer = ecs.run_instances(models.RunInstancesRequest().from_map(dict(call))).body
    with reading("RunInstances"):
        ids = [named(id_) for id_ in answer.instance_id_sets.instance_id_set]
    if len(ids) != call["Amount"]:
        raise MalformedAnswerError(f"RunInstances gave {len(ids)} ids for {call['Amount']} machines")
    tags = Tags.parse({tag["Key"]: tag["Value"] for tag in call["Tag"]})
    return [
        Machine(
            ref=ref_of(request["account"], call["RegionId"], ResourceKind.INSTANCE, id_),
            state=State.PENDING,
            tags=tags,
            zone=call["ZoneId"],
            instance_type=call["InstanceType"],
            purchase=_purchase(call),
        )
        for id_ in ids
    ]


def _purchase(call: Mapping[str, Any]) -> Purchase:
    if call["SpotStrategy"] != "NoSpot":
        return Purchase.SPOT
    targeted = call["PrivatePoolOptions"]["MatchCriteria"] == "Target"
    return Purchase.RESERVED if targeted else Purchase.ON_DEMAND

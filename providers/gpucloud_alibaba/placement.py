"""The placement of a box's instances: in a deployment set, and joined by eRDMA interfaces."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from gpucloud.clouds.provider import Record
from gpucloud.resources import Order, Ref, ResourceKind, Tags, expires_text
from gpucloud_alibaba.clients import Clients, listed
from gpucloud_alibaba.describe import ref_of
from gpucloud_alibaba.descriptions import description_of, tags_in
from gpucloud_alibaba.errors import MalformedAnswerError, NoErdmaError, named, reading
from gpucloud_alibaba.models import ecs_models
from gpucloud_alibaba.network import refuse_apart, token_of
from gpucloud_pricing.purchases import Purchase

# --- the deployment set


def set_name(order: Order) -> str | None:
    """The name of the deployment set of several instances; ``None`` where they can have none.

    All instances of a set are in one zone, so each zone that is tried has its own.
    """
    rules = _rules()
    fits = (
        1 < order.nodes <= rules["most_machines"]
        and order.purchase is Purchase.ON_DEMAND
        and order.instance_type.rpartition(".")[0] in rules["low_latency"]
    )
    return f"{order.name}-{order.zone}" if fits else None


@cache
def _rules() -> Mapping[str, Any]:
    text = files("gpucloud_alibaba").joinpath("placement.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def prepare_set(order: Order, clients: Clients, record: Record) -> str | None:
    """Creates the deployment set of an order's instances, or finds it; ``None`` where they can have none.

    Raises:
        AlibabaNotReadyError: a single instance is to join others whose set is not shown yet.
    """
    name = set_name(order)
    if name is None:
        return None
    models, ecs = ecs_models(), clients.ecs(order.region)
    asked = models.DescribeDeploymentSetsRequest(region_id=order.region, deployment_set_name=name)
    body = ecs.describe_deployment_sets(asked).body
    with reading("DescribeDeploymentSets"):
        found = [
            named(each.deployment_set_id)
            for each in listed(body.deployment_sets.deployment_set)
            if _is_mine(each, order)
        ]
    if not found:
        refuse_apart(order, "deployment set")
        record.making(ResourceKind.PLACEMENT_GROUP, name)
        made = ecs.create_deployment_set(
            models.CreateDeploymentSetRequest(
                region_id=order.region,
                deployment_set_name=name,
                description=description_of(order.tags),
                strategy="LowLatency",
                client_token=token_of(order, "DeploymentSetId"),
            )
        ).body
        with reading("CreateDeploymentSet"):
            found = [named(made.deployment_set_id)]
    record.made(ref_of(order.account, order.region, ResourceKind.PLACEMENT_GROUP, found[0]))
    return found[0]


def _is_mine(shown: Any, order: Order) -> bool:
    tags = tags_in(shown.deployment_set_description)
    return isinstance(tags, Tags) and (tags.owner, tags.box) == (order.tags.owner, order.tags.box)


def extend(clients: Clients, ref: Ref, expires_at: datetime | None) -> None:
    """Writes a new deadline into the description of a deployment set."""
    models, ecs = ecs_models(), clients.ecs(ref.region)
    asked = models.DescribeDeploymentSetsRequest(region_id=ref.region, deployment_set_ids=f'["{ref.id}"]')
    body = ecs.describe_deployment_sets(asked).body
    with reading("DescribeDeploymentSets"):
        shown = listed(body.deployment_sets.deployment_set)
    for tags in (tags_in(each.deployment_set_description) for each in shown):
        if isinstance(tags, Tags):
            ecs.modify_deployment_set_attribute(
                models.ModifyDeploymentSetAttributeRequest(
                    region_id=ref.region,
                    deployment_set_id=ref.id,
                    description=description_of(replace(tags, expires=expires_text(expires_at))),
                )
            )


# --- eRDMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Erdma:
    """What a type has for eRDMA: interfaces, each on a network card of its own, and queue pairs for all."""

    interfaces: int
    queue_pairs: int


def erdma_of(instance_type: str, ecs: Any) -> Erdma:
    """What a type has for eRDMA, asked of the cloud.

    Raises:
        NoErdmaError: it takes no such interfaces.
        MalformedAnswerError: the cloud does not know the type.
    """
    models = ecs_models()
    asked = models.DescribeInstanceTypesRequest(instance_types=[instance_type])
    body = ecs.describe_instance_types(asked).body
    with reading("DescribeInstanceTypes"):
        types = listed(body.instance_types.instance_type)
        shown = next((each for each in types if each.instance_type_id == instance_type), None)
    if shown is None:
        raise MalformedAnswerError(f"the answer to DescribeInstanceTypes lacks {instance_type}")
    if not shown.eri_quantity:
        raise NoErdmaError(f"{instance_type} takes no eRDMA interfaces (EriQuantity is 0)")
    return Erdma(interfaces=int(shown.eri_quantity), queue_pairs=int(shown.queue_pair_number or 0))


def interfaces(erdma: Erdma, *, vswitch: str, group: str) -> list[dict[str, Any]]:
    """The ``NetworkInterface`` list of RunInstances: all that the type takes, the primary one among them.

    An interface without ``QueuePairNumber`` takes all queue pairs of its type, so that several are given
    equal shares; and each is on a network card of its own (SDK 7.11.8, RunInstances; GPU guide, "Enable
    eRDMA on a GPU-accelerated instance"). All are deleted with their instance.
    """
    shared = {
        "VSwitchId": vswitch,
        "SecurityGroupIds": [group],
        "NetworkInterfaceTrafficMode": "HighPerformance",
    }

    def one(card: int) -> dict[str, Any]:
        kind = {"InstanceType": "Secondary", "DeleteOnRelease": True} if card else {"InstanceType": "Primary"}
        if erdma.interfaces == 1:
            return {**kind, **shared}
        pairs = {"QueuePairNumber": erdma.queue_pairs // erdma.interfaces} if erdma.queue_pairs else {}
        return {**kind, **shared, "NetworkCardIndex": card, **pairs}

    return [one(card) for card in range(erdma.interfaces)]

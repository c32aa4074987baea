"""The cluster configuration that Ray's autoscaler reads (``ray-schema.json``, 2.60). Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TypedDict

from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.ray.nodes import HEAD_TYPE, head_id
from gpucloud_pricing.values import Offer

MODULE = "gpucloud.api.ray.NodeProvider"
GIB = 2**30
MEMORY_SHARE = Decimal("0.6")
"""The share of a machine's memory for tasks: the system has some, and Ray's object store takes 0.3."""


class ProviderSettings(TypedDict):
    """What the autoscaler hands to :mod:`gpucloud.api.ray`, and three settings of its own."""

    type: str
    module: str
    cluster_file: str
    head: str
    sandbox: bool
    use_internal_ips: bool
    disable_node_updaters: bool
    disable_launch_config_check: bool


class NodeType(TypedDict):
    """One type of nodes."""

    resources: dict[str, float]
    node_config: dict[str, str]
    min_workers: int
    max_workers: int


class Configuration(TypedDict):
    """The configuration of a cluster."""

    cluster_name: str
    max_workers: int
    upscaling_speed: float
    idle_timeout_minutes: float
    provider: ProviderSettings
    head_node_type: str
    available_node_types: dict[str, NodeType]
    setup_commands: list[str]
    head_setup_commands: list[str]
    worker_setup_commands: list[str]
    cluster_synced_files: list[str]


def configuration(
    cluster: Cluster,
    resources: Mapping[str, Mapping[str, float]],
    *,
    file: str,
    head: str,
    sandbox: bool,
) -> Configuration:
    """The configuration of a cluster: each class is a type, and gpucloud chooses inside it.

    Ray looks at no price when it chooses a type: one wish is one class.

    Args:
        cluster: the cluster.
        resources: what a node of each class has at least (:func:`resources_of`).
        file: the path of ``cluster.yaml``, from which the autoscaler reads the classes.
        head: the address of the head's control service.
        sandbox: whether the clouds are those of the sandbox.
    """
    most = sum(each.max for each in cluster.classes.values())
    types = {
        name: NodeType(resources=dict(resources[name]), node_config={}, min_workers=0, max_workers=each.max)
        for name, each in cluster.classes.items()
    }
    no_node = NodeType(resources={}, node_config={}, min_workers=0, max_workers=0)
    return {
        "cluster_name": cluster.name,
        "max_workers": most,
        "upscaling_speed": float(most),  # all that is wanted at once: a launch takes minutes
        "idle_timeout_minutes": cluster.idle.total_seconds() / 60,
        "provider": {
            "type": "external",
            "module": MODULE,
            "cluster_file": file,
            "head": head,
            "sandbox": sandbox,
            "use_internal_ips": True,
            "disable_node_updaters": True,  # Ray has one key for all nodes; each box has its own
            "disable_launch_config_check": True,
        },
        "head_node_type": HEAD_TYPE,
        "available_node_types": {HEAD_TYPE: no_node, **types},
        # Ray adds these lists to each other without looking whether they are there.
        "setup_commands": [],
        "head_setup_commands": [],
        "worker_setup_commands": [],
        "cluster_synced_files": [],
    }


def resources_of(offers: Iterable[Offer]) -> dict[str, float]:
    """What each of these offers has: the least of each, as Ray counts it (memory in bytes).

    A task that asks for a model (``accelerator_type``) finds a class of one model alone.
    """
    found = list(offers)
    resources: dict[str, float] = {
        "CPU": min(offer.vcpus for offer in found),
        "GPU": max(1, int(min(offer.gpu_count for offer in found))),  # a share of one is one to Ray
        "memory": int(min(offer.memory_gib for offer in found) * GIB * MEMORY_SHARE),
    }
    models = {offer.gpu_model for offer in found}
    if len(models) == 1:
        resources[f"accelerator_type:{models.pop()}"] = 1
    return resources


def head_command(cluster: Cluster, head: str, file: str) -> str:
    """The command that starts the head on its machine."""
    host, _, port = head.partition(":")
    told = f"RAY_enable_autoscaler_v2=1 RAY_CLOUD_INSTANCE_ID={head_id(cluster.name)}"
    told += f" RAY_NODE_TYPE_NAME={HEAD_TYPE}"
    return f"{told} ray start --head --node-ip-address={host} --port={port} --autoscaling-config={file}"

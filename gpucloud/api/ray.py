"""What Ray's autoscaler loads: ``provider: {type: external, module: gpucloud.api.ray.NodeProvider}``.

``gpucloud ray init`` writes that configuration. This is the only module that imports Ray.
"""

# Ray is not installed where types are checked: typings/ says what is used of it.
# pyright: reportMissingModuleSource=false

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import ray
import ray.autoscaler.node_provider
from ray.autoscaler.node_launch_exception import NodeLaunchException

from gpucloud.api.client import Client
from gpucloud.api.ray_init import class_resources
from gpucloud.api.ray_nodes import LaunchRefusedError, RayNodes
from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.cluster_file import load_cluster
from gpucloud.elastic.ray.nodes import HEAD_TAGS, RESOURCES, head_id, matches
from gpucloud.elastic.ray.starting import Head
from gpucloud.elastic.rules import SlotState
from gpucloud.errors import GpucloudError, UsageError

CLOUD_ID = "RAY_CLOUD_INSTANCE_ID"
"""The variable by which Ray knows a node; the head's processes have it, other programs there do not."""


class NodeProvider(ray.autoscaler.node_provider.NodeProvider):
    """The nodes of a Ray cluster as boxes of gpucloud. Safe to use from several threads.

    ``provider_config`` names the cluster (``cluster_file``), the address of the head's control service
    (``head``), and whether the clouds are those of the sandbox (``sandbox``).
    """

    def __init__(self, provider_config: dict[str, Any], cluster_name: str) -> None:
        super().__init__(provider_config, cluster_name)
        client, cluster = _opened(provider_config)
        self._head_id = head_id(cluster.name)
        on_head = os.environ.get(CLOUD_ID) == self._head_id
        self._nodes = RayNodes(client, cluster, _head(provider_config["head"]) if on_head else None)
        if on_head:
            self._nodes.keep()

    @staticmethod
    def fillout_available_node_types_resources(cluster_config: dict[str, Any]) -> dict[str, Any]:
        """The configuration of a cluster, with what a node of each class has where it is not said."""
        client, cluster = _opened(cluster_config["provider"])
        types: dict[str, dict[str, Any]] = cluster_config["available_node_types"]
        for name, resources in class_resources(client, cluster).items():
            types[name].setdefault("resources", resources)
        return cluster_config

    # --- looking

    def non_terminated_nodes(self, tag_filters: Mapping[str, str]) -> list[str]:
        """The ids of the head and of the nodes that have all of these tags."""
        tags = {self._head_id: HEAD_TAGS, **{node: slot.labels for node, slot in self._nodes.look().items()}}
        return [node for node, each in tags.items() if matches(each, tag_filters)]

    def node_tags(self, node_id: str) -> dict[str, str]:
        """The tags of a node; none of one that has ended."""
        if node_id == self._head_id:
            return {**HEAD_TAGS}
        slot = self._nodes.node(node_id)
        return {**slot.labels} if slot else {}

    def is_running(self, node_id: str) -> bool:
        """Whether a node is up and has joined."""
        slot = self._nodes.node(node_id)
        return node_id == self._head_id or (slot is not None and slot.state is SlotState.READY)

    def is_terminated(self, node_id: str) -> bool:
        """Whether there is no such node any more."""
        return node_id != self._head_id and self._nodes.node(node_id) is None

    def external_ip(self, node_id: str) -> str | None:
        """The public address of a node."""
        slot = self._nodes.node(node_id)
        return slot.address if slot else None

    def internal_ip(self, node_id: str) -> str | None:
        """The address of a node in the network of its cloud, which Ray uses."""
        if node_id == self._head_id:
            address: str = self.provider_config["head"]
            return address.partition(":")[0]
        slot = self._nodes.node(node_id)
        return slot.private_address if slot else None

    # --- changing

    def create_node(
        self, node_config: Mapping[str, Any], tags: Mapping[str, str], count: int
    ) -> dict[str, Any]:
        """As :meth:`create_node_with_resources_and_labels`, of a type without resources."""
        return self.create_node_with_resources_and_labels(node_config, tags, count, {}, {})

    def create_node_with_resources_and_labels(
        self,
        node_config: Mapping[str, Any],  # noqa: ARG002  (Ray's signature)
        tags: Mapping[str, str],
        count: int,
        resources: Mapping[str, float],
        labels: Mapping[str, str],  # noqa: ARG002
    ) -> dict[str, Any]:
        """Writes down that nodes are wanted; they are launched in the background. Asks no cloud.

        Raises:
            NodeLaunchException: none is launched now.
        """
        try:
            known = {**tags, RESOURCES: json.dumps(dict(resources))}
            ids = self._nodes.create(tags["ray-user-node-type"], count, known)
        except GpucloudError as error:
            category = error.category if isinstance(error, LaunchRefusedError) else str(error.error_class)
            raise NodeLaunchException(category, str(error), sys.exc_info()) from error
        return {node: {} for node in ids}

    def set_node_tags(self, node_id: str, tags: Mapping[str, str]) -> None:
        """Changes tags of a node, for later heads too. Those of the head stay."""
        self._nodes.label(node_id, tags)

    def terminate_node(self, node_id: str) -> None:
        """Gives a node back: it is deleted in the background. May be repeated."""
        self.terminate_nodes([node_id])

    def terminate_nodes(self, node_ids: Sequence[str]) -> None:
        """Gives nodes back, as :meth:`terminate_node`. The head is a machine of its owner, and stays."""
        self._nodes.end(node_ids)


def _opened(provider_config: Mapping[str, Any]) -> tuple[Client, Cluster]:
    """The owner's boxes and the classes that a configuration names."""
    client = Client.sandbox() if provider_config.get("sandbox") else Client()
    client.command = "ray"
    return client, load_cluster(Path(provider_config["cluster_file"]))


def _head(address: str) -> Head:
    """The head on whose machine this process is."""
    session = session_of(address, os.environ)
    return Head(address=address, version=ray.__version__, session=session, token=_token(os.environ))


def session_of(address: str, environment: Mapping[str, str]) -> str:
    """What changes when the head is started anew, in hexadecimal digits.

    The id of the cluster, from a module that Ray keeps to itself; where a later Ray has none such, the name
    of the session's folder, which its documents name: ``/tmp/ray/session_latest``, or below ``RAY_TMPDIR``
    or ``TMPDIR``.

    Raises:
        UsageError: there is neither.
    """
    try:
        made: str = importlib.import_module("ray._raylet").GcsClient(address=address).cluster_id.hex()
    except (ImportError, AttributeError, TypeError):
        above = environment.get("RAY_TMPDIR") or environment.get("TMPDIR") or "/tmp"  # noqa: S108  (as Ray does)
        latest = Path(above, "ray", "session_latest")
        if not latest.is_symlink():
            raise UsageError(
                f"Ray {ray.__version__} does not tell its session: there is no {latest}",
                hint="start the head without --temp-dir, or use Ray 2.60",
            ) from None
        return sha256(os.fsencode(latest.readlink().name)).hexdigest()
    return made


def _token(environment: Mapping[str, str]) -> str | None:
    """The token of the cluster, from where Ray reads it; ``None`` if it has none."""
    if environment.get("RAY_AUTH_MODE", "").lower() != "token":
        return None
    own = Path.home() / ".ray" / "auth_token"
    file = Path(environment.get("RAY_AUTH_TOKEN_PATH") or own)
    return environment.get("RAY_AUTH_TOKEN") or file.read_text(encoding="utf-8").strip()

"""The configuration of a Ray cluster, from a cluster's file and the market."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.cluster_file import load_cluster
from gpucloud.elastic.ray.configuration import Configuration, configuration, head_command, resources_of
from gpucloud.elastic.ray.starting import head_address, port_options
from gpucloud.errors import GpucloudError, UsageError

if TYPE_CHECKING:
    from gpucloud.api.client import Client

_FAR = ("10.255.255.255", 1)
"""An address for finding this machine's own; no packet is sent there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayInit:
    """The configuration of a Ray cluster.

    Attributes:
        configuration: what Ray reads.
        head_command: the command that starts the head with it, once it is in ``ray.yaml``.
        closed: the classes whose nodes name no ports.
    """

    configuration: Configuration
    head_command: str
    closed: tuple[str, ...]


def ray_init(client: Client, file: Path, *, head: str | None, sandbox: bool) -> RayInit:
    """The configuration for the classes of ``cluster.yaml``. Asks no cloud.

    Args:
        client: for the market.
        file: the cluster's file.
        head: the private address of the head's machine, with or without a port; by default, this machine's.
        sandbox: whether the clouds are those of the sandbox.

    Raises:
        UsageError: the file is not valid, or the address is not private.
        NoOfferError: nothing matches a class.
        PriceError: what matches a class costs more than its limit.
    """
    cluster = load_cluster(file)
    address = head_address(head or _own_address())
    for each in cluster.classes.values():
        port_options(each.spec.ports)
    resources = class_resources(client, cluster)
    found = configuration(cluster, resources, file=str(file.absolute()), head=address, sandbox=sandbox)
    return RayInit(
        configuration=found,
        head_command=head_command(cluster, address, "ray.yaml"),
        closed=tuple(name for name, each in cluster.classes.items() if not each.spec.ports),
    )


def class_resources(client: Client, cluster: Cluster) -> dict[str, dict[str, float]]:
    """What a node of each class has at least, in Ray's words, from the market.

    Raises:
        NoOfferError: nothing matches a class.
        PriceError: what matches a class costs more than its limit.
    """
    resources: dict[str, dict[str, float]] = {}
    for name, each in cluster.classes.items():
        try:
            resources[name] = resources_of(client.market.offers(each.spec).offers)
        except GpucloudError as error:
            error.message = f"class {name}: {error.message}"
            raise
    return resources


def _own_address() -> str:
    """The address of this machine in its network.

    Raises:
        UsageError: it has none.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(_FAR)
        except OSError as error:
            raise UsageError(
                "this machine has no address in a network", hint="name the head's: --head 10.0.0.5"
            ) from error
        address: str = asked.getsockname()[0]
    return address

"""The documents of ``slurm``, ``ray`` and ``k8s``."""

from __future__ import annotations

from typing import Any, TypedDict

from gpucloud.cli.documents.runs import TroubleDocument
from gpucloud.elastic.ray.configuration import Configuration
from gpucloud_pricing.documents import MoneyDocument


class K8sServeDocument(TypedDict):
    """Where cluster-autoscaler is answered from now on."""

    address: str


class K8sManifestsDocument(TypedDict):
    """What a Kubernetes cluster needs to use the nodes, each as Kubernetes has it."""

    manifests: list[dict[str, Any]]


class RayInitDocument(TypedDict):
    """The configuration of Ray's autoscaler for a cluster.

    Attributes:
        configuration: what Ray reads, as YAML or JSON.
        head_command: the command that starts the head, with the configuration in ``ray.yaml``.
    """

    configuration: Configuration
    head_command: str


class SlurmFileDocument(TypedDict):
    """A file of ``slurm init``.

    Attributes:
        state: ``written``, ``same`` as it was, or ``kept``: the user's own.
    """

    path: str
    state: str


class SlurmInitDocument(TypedDict):
    """The files for slurmctld, in the order in which they are needed."""

    folder: str
    files: list[SlurmFileDocument]


class SlurmNodeDocument(TypedDict):
    """A node of a cluster.

    Attributes:
        state: ``wanted``, ``launching``, ``waiting``, ``ready``, ``lost``, ``ending`` or ``ended``.
        gang: the nodes that are launched together with it, by rank.
        reason: why it is lost or waits.
        price: per hour.
    """

    name: str
    state: str
    gang: list[str]
    reason: str | None
    cloud: str | None
    zone: str | None
    instance_type: str | None
    purchase: str | None
    price: MoneyDocument | None


class SlurmNodesDocument(TypedDict):
    """The nodes that are wanted now, of those that were named; others go on ending."""

    nodes: list[SlurmNodeDocument]


class SlurmUpdateDocument(TypedDict):
    """What slurmctld was told.

    Attributes:
        what: the nodes or the job.
        settings: as scontrol(1) takes them.
    """

    what: str
    settings: str


class SlurmSyncDocument(TypedDict):
    """The nodes of a cluster, what slurmctld was told of them, and what could not be done."""

    nodes: list[SlurmNodeDocument]
    told: list[SlurmUpdateDocument]
    troubles: list[TroubleDocument]

"""Nodes for engines with a queue of their own: ``client.engines``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpucloud.api.fleet import Fleet
    from gpucloud.api.kubernetes import Kubernetes
    from gpucloud.api.session import Session
    from gpucloud.api.slurm import Slurm
    from gpucloud.elastic.cluster import Cluster
    from gpucloud.elastic.kubernetes.join import Joining
    from gpucloud.elastic.kubernetes.manifests import ManifestPart


class Engines:
    """The boxes of a cluster, for Slurm, Ray, Kubernetes and others."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def fleet(self, cluster: Cluster | Path) -> Fleet:
        """The boxes of a cluster, for an engine that has a queue of its own.

        Args:
            cluster: the cluster, or the file that it is in (``cluster.yaml``).

        Raises:
            UsageError: the file cannot be read, or is not valid; with file and line.
        """
        from gpucloud.api.fleet import Fleet
        from gpucloud.elastic.cluster_file import load_cluster

        return Fleet(load_cluster(cluster) if isinstance(cluster, Path) else cluster, self._session)

    def slurm(self, file: Path) -> Slurm:
        """The nodes of a cluster for Slurm, on the machine of slurmctld.

        Args:
            file: the cluster's file (``cluster.yaml``).
        """
        from gpucloud.api.slurm import Slurm

        return Slurm(file, self._session)

    def kubernetes(self, cluster: Cluster | Path, joining: Joining, token: str) -> Kubernetes:
        """The boxes of a cluster as groups of nodes for Kubernetes' cluster-autoscaler.

        Args:
            cluster: the cluster, or the file that it is in (``cluster.yaml``).
            joining: how its boxes become nodes.
            token: the secret that lets them join.

        Raises:
            UsageError: the file cannot be read, or is not valid; with file and line.
        """
        from gpucloud.api.kubernetes import Kubernetes

        return Kubernetes(self._session, self.fleet(cluster), joining, token)

    def manifests(
        self,
        cluster: Path,
        *,
        image: str,
        joining: Joining,
        parts: Collection[ManifestPart] | None = None,
        deployment: str | None = None,
        prometheus: str | None = None,
    ) -> str:
        """What a Kubernetes cluster needs to use the boxes of a cluster, as YAML. Asks no cloud.

        Args:
            cluster: the file of the cluster (``cluster.yaml``).
            image: an image with gpucloud, pinned to a tag or digest.
            joining: how its boxes become nodes.
            parts: what is wanted of it; all by default.
            deployment: a Deployment to scale by the use of its GPUs.
            prometheus: the address of Prometheus, for that.

        Raises:
            UsageError: the file cannot be read or is not valid, or an argument is not.
            NoOfferError: nothing matches a class.
            PriceError: what matches a class costs more than its limit.
        """
        from gpucloud.api.kubernetes import shape_of_class
        from gpucloud.elastic.cluster_file import load_cluster
        from gpucloud.elastic.kubernetes.manifests import PROMETHEUS, Filling, ManifestPart, manifests

        found = load_cluster(cluster)
        filling = Filling(
            cluster=found,
            text=cluster.read_text(encoding="utf-8"),
            shapes={name: shape_of_class(self._session, each.spec) for name, each in found.classes.items()},
            image=image,
            joining=joining,
            deployment=deployment,
            prometheus=prometheus or PROMETHEUS,
        )
        return manifests(filling, parts or frozenset(ManifestPart))

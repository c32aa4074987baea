"""What a Kubernetes cluster needs to use the nodes of gpucloud, as YAML: templates, filled in."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from importlib.resources import files
from string import Template
from typing import Any

from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.kubernetes.join import Joining
from gpucloud.elastic.kubernetes.shapes import GroupShape
from gpucloud.errors import UsageError

_NAME = re.compile("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
BUSY = 70
"""The GPU use that a scaled Deployment aims at, in per cent."""
PROMETHEUS = "http://prometheus-operated.monitoring.svc:9090"
"""The service of the Prometheus operator in the namespace of kube-prometheus-stack's documents."""


class ManifestPart(StrEnum):
    """The parts, each of which needs its own kinds of resources in the cluster."""

    AUTOSCALER = "autoscaler"  # with cert-manager
    GPU = "gpu"
    KUEUE = "kueue"
    KEDA = "keda"
    ALERTS = "alerts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What the templates are filled with.

    Attributes:
        cluster: the cluster.
        text: the text of ``cluster.yaml``.
        shapes: what a node of each class has at least.
        image: an image with gpucloud and its extras.
        joining: how nodes find their cluster.
        deployment: the Deployment that is scaled by the use of its GPUs; ``None`` for none.
        prometheus: the address of Prometheus, which KEDA asks.

    Raises:
        UsageError: the image is not pinned, or the Deployment has no valid name.
    """

    cluster: Cluster
    text: str
    shapes: Mapping[str, GroupShape]
    image: str
    joining: Joining
    deployment: str | None = None
    prometheus: str = PROMETHEUS

    def __post_init__(self) -> None:
        name, _, digest = self.image.partition("@")
        tag = name.rpartition("/")[2].partition(":")[2]
        if re.search(r"\s", self.image) or not (digest or tag) or tag == "latest":
            raise UsageError(
                f"--image: {self.image[:80]!r} is not pinned to a tag or digest",
                hint="such as registry.example/gpucloud:0.1.0",
            )
        if self.deployment is not None and not _NAME.fullmatch(self.deployment):
            raise UsageError(f"--scale: {self.deployment[:80]!r} is not the name of a Deployment")


def manifests(filling: Filling, parts: Collection[ManifestPart]) -> str:
    """The manifests of some parts, as one text of several YAML documents.

    KEDA's is left out without a Deployment.
    """
    texts = [text for part in ManifestPart if part in parts for text in _texts(part, filling)]
    return "---\n".join(texts)


def images() -> dict[str, str]:
    """The image of each program, with its tag."""
    text = files("gpucloud.elastic.kubernetes").joinpath("images.toml").read_text(encoding="utf-8")
    return {name: row["image"] for name, row in tomllib.loads(text).items()}


def _texts(part: ManifestPart, filling: Filling) -> Iterator[str]:
    """The texts of a part: of Kueue's, one for each class."""
    cluster = filling.cluster
    match part:
        case ManifestPart.AUTOSCALER:
            yield _filled(part, **_of_autoscaler(filling))
        case ManifestPart.GPU:
            yield _filled(part, cluster=cluster.name, **images())
        case ManifestPart.KUEUE:
            for name, shape in filling.shapes.items():
                most = cluster.classes[name].max
                yield _filled(
                    part,
                    cluster=cluster.name,
                    node_class=name,
                    cpus=most * shape.cpus,
                    memory=most * shape.memory_bytes,
                    gpus=most * shape.gpus,
                )
        case ManifestPart.KEDA if filling.deployment is not None:
            gpus = sum(cluster.classes[name].max * shape.gpus for name, shape in filling.shapes.items())
            yield _filled(
                part,
                deployment=filling.deployment,
                busy=BUSY,
                gpus=gpus,
                prometheus=json.dumps(filling.prometheus),
            )
        case ManifestPart.ALERTS:
            yield _filled(part)
        case _:
            return


def _of_autoscaler(filling: Filling) -> dict[str, Any]:
    folder = "/etc/gpucloud-server"
    serve = ["k8s", "serve", "/etc/gpucloud/cluster.yaml", "--cert", f"{folder}/tls.crt"]
    serve += ["--key", f"{folder}/tls.key", "--client-ca", f"{folder}/ca.crt", *filling.joining.options()]
    return {
        "cluster_yaml": _block(filling.text),
        "image": json.dumps(filling.image),
        "arguments": json.dumps(serve),
        "idle": f"{filling.cluster.idle // timedelta(seconds=1)}s",
        **images(),
    }


def _filled(part: ManifestPart, **values: Any) -> str:
    file = files("gpucloud.elastic.kubernetes").joinpath("templates", f"{part}.yaml")
    return Template(file.read_text(encoding="utf-8")).substitute(values)


def _block(text: str) -> str:
    """A text as a block of YAML, below the data of a ConfigMap."""
    lines = "\n".join(f"    {line}".rstrip() for line in text.rstrip().splitlines())
    return f"|2\n{lines}" if text[:1].isspace() else f"|\n{lines}"

"""What a node of a class has at least, and costs: for the autoscaler's simulations. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpucloud.elastic.kubernetes.groups import CLASS_LABEL, CLUSTER_LABEL, GPU_LABEL
from gpucloud_pricing.values import Offer

GPU = "nvidia.com/gpu"
PODS = 110
"""kubelet's own ``maxPods``."""
USABLE_MEMORY = Decimal("0.9")
"""The part of a type's memory that pods get: the kernel keeps some, kubelet's eviction 100 MiB. UNVERIFIED: a
lower bound, so that no pod is promised a node that it does not fit on."""
GIB = 1 << 30
_ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "arm64": "arm64"}
"""The names of Go, which Kubernetes uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShape:
    """The least that each offer of a class has, and the price of the cheapest, per hour."""

    cpus: int
    memory_bytes: int
    gpus: int
    disk_bytes: int
    gpu_model: str
    arch: str
    usd_per_hour: Decimal | None

    @property
    def resources(self) -> dict[str, str]:
        """What pods can ask for, as Kubernetes writes quantities."""
        return {
            "cpu": str(self.cpus),
            "memory": str(self.memory_bytes),
            "ephemeral-storage": str(self.disk_bytes),
            "pods": str(PODS),
            GPU: str(self.gpus),
        }


def shape_of(offers: Sequence[Offer], disk_gib: int) -> GroupShape:
    """The shape of a class, by the offers that match its spec: at least one."""
    prices = [offer.price_usd for offer in offers if offer.price_usd is not None]
    memory = min(offer.memory_gib for offer in offers)
    return GroupShape(
        cpus=min(offer.vcpus for offer in offers),
        memory_bytes=int(memory * GIB * USABLE_MEMORY),
        gpus=max(int(min(offer.gpu_count for offer in offers)), 1),  # a share of one is one device
        disk_bytes=disk_gib * GIB,
        gpu_model=offers[0].gpu_model,
        arch=_ARCHITECTURES.get(offers[0].kind.arch, offers[0].kind.arch),
        usd_per_hour=min(prices, default=None),
    )


def labels(cluster: str, node_class: str, gpu_model: str) -> dict[str, str]:
    """The labels that kubelet gives a node of a class when it registers it."""
    return {CLASS_LABEL: node_class, CLUSTER_LABEL: cluster, GPU_LABEL: label_value(gpu_model)}


def label_value(text: str) -> str:
    """A text as the value of a label."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:63]


def quantity(text: str) -> Decimal:
    """The value of a quantity: ``500m``, ``16Gi``, ``2e3``.

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch(r"([+-]?[0-9.]+)((?:[eE][+-]?[0-9]+)|[KMGTPE]i|[numkMGTPE])?", text)
    if found is None:
        raise ValueError(f"{text!r} is not a quantity")
    number, suffix = found[1], found[2] or ""
    if suffix[:1] in {"e", "E"} and len(suffix) > 1 and suffix != "Ei":
        return Decimal(number + suffix)
    if suffix.endswith("i"):
        return Decimal(number) * Decimal(1024) ** ("KMGTPE".index(suffix[0]) + 1)
    powers = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
    return Decimal(number).scaleb(powers[suffix])


def price_of_pod(requests: Mapping[str, Decimal], shapes: Iterable[GroupShape]) -> Decimal | None:
    """What a pod costs per hour: its share of the cheapest node that it fits on; ``None`` if it fits on none.

    Its share is the largest of its shares of any resource: who takes all GPUs takes the node.
    """
    prices: list[Decimal] = []
    for shape in shapes:
        has = {name: Decimal(value) for name, value in shape.resources.items()}
        shares = [
            asked / has[name] if has.get(name) else Decimal(2) for name, asked in requests.items() if asked
        ]
        share = max(shares, default=Decimal(0))
        if shape.usd_per_hour is not None and share <= 1:
            prices.append(share * shape.usd_per_hour)
    return min(prices, default=None)

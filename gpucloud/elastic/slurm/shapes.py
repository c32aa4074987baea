"""The node definitions for Slurm of a class, from its spec and today's offers. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from gpucloud.elastic.cluster import Cluster, NodeClass
from gpucloud_pricing.gpus import parse_requirements
from gpucloud_pricing.values import Offer

SEEN_OF_MEMORY = Decimal("0.95")
"""The share of the memory of a type that its system shows at least; the kernel keeps the rest."""
UNKNOWN_WEIGHT = 1_000_000
"""The weight of a class whose price is unknown: after all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapestPlace:
    """Where a class is cheapest now.

    Attributes:
        usd: per hour and node; ``None`` if no price is known.
    """

    usd: Decimal | None
    cloud: str | None = None
    purchase: str | None = None

    @property
    def weight(self) -> int:
        """The price in tenths of a cent: Slurm uses nodes of less weight first (slurm.conf(5))."""
        if self.usd is None:
            return UNKNOWN_WEIGHT
        return int((self.usd * 1000).to_integral_value(ROUND_HALF_UP))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmShape:
    """The nodes of a class as Slurm knows them.

    Attributes:
        count: how many there may be.
        cpus: at least so many have each; with less a node is refused when it registers.
        memory_mib: the same.
        gpus: GPUs of a node, or slices of them.
        gres: what users ask for: ``t4`` in ``--gpus-per-node=t4:1``.
        sliced: whether these are MIG slices.
        market: where it is cheapest.
        limit_usd: what a node may cost per hour; ``None`` for no limit.
    """

    node_class: str
    count: int
    cpus: int
    memory_mib: int
    gpus: int
    gres: str
    sliced: bool
    market: CheapestPlace
    limit_usd: Decimal | None

    @property
    def features(self) -> str:
        """The words that users choose nodes by (``sbatch -C``), of nodes that are not up."""
        return features(self.node_class, self.market.cloud, self.market.purchase)


def features(*words: str | None) -> str:
    """Feature names, as Slurm takes them."""
    return ",".join(dict.fromkeys(word for word in words if word))


def shape_of(name: str, node_class: NodeClass, offers: Sequence[Offer]) -> SlurmShape:
    """The nodes of a class: what all of its offers have at least.

    Args:
        name: the name of the class.
        node_class: the class.
        offers: those that match its spec, without its price limit.
    """
    spec, wishes = node_class.spec, parse_requirements(node_class.spec.gpu or "")
    kinds = {wish.mig or (wish.model or "").lower() for wish in wishes}
    slices = [int(wish.min_count) for wish in wishes if wish.mig]
    memory_gib = spec.memory or min(Decimal(offer.memory_gib) for offer in offers)
    return SlurmShape(
        node_class=name,
        count=node_class.max,
        cpus=spec.cpus or min(offer.vcpus for offer in offers),
        memory_mib=int(memory_gib * 1024 * SEEN_OF_MEMORY),
        gpus=min(slices) if slices else max(1, min(int(offer.gpu_count) for offer in offers)),
        gres=_word(kinds.pop()) if len(kinds) == 1 and "" not in kinds else _word(name),
        sliced=bool(slices),
        market=market_of(offers),
        limit_usd=spec.max_price,
    )


def slices_of(classes: Mapping[str, NodeClass]) -> Mapping[str, int]:
    """How many MIG slices a node of each class has, of those that have any."""
    wishes = {name: parse_requirements(each.spec.gpu or "") for name, each in classes.items()}
    return {
        name: min(int(wish.min_count) for wish in found if wish.mig)
        for name, found in wishes.items()
        if any(wish.mig for wish in found)
    }


def market_of(offers: Collection[Offer]) -> CheapestPlace:
    """The cheapest offer with a known price."""
    priced = [offer for offer in offers if offer.price_usd is not None]
    if not priced:
        return CheapestPlace(usd=None)
    best = min(priced, key=lambda offer: offer.price_usd or Decimal(0))
    return CheapestPlace(usd=best.price_usd, cloud=best.cloud, purchase=best.purchase)


def hostlist(cluster: Cluster, node_class: str) -> str:
    """The names of the nodes of a class, as Slurm writes them."""
    return f"{cluster.name}-{node_class}-[1-{cluster.classes[node_class].max}]"


def ports(cluster: Cluster, first: int) -> Mapping[str, tuple[int, int]]:
    """The first and last port of each class, where all nodes have one address."""
    found: dict[str, tuple[int, int]] = {}
    for name, each in cluster.classes.items():
        found[name] = (first, first + each.max - 1)
        first += each.max
    return found


def _word(text: str) -> str:
    """A name of a GPU as a type of GRES."""
    return text.lower().replace(" ", "-").replace("/", "-")

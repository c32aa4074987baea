"""Which node of a box is replaced alone, by what offer, and beside what. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gpucloud.journal.records import Box, Intent
from gpucloud.planning.plan import Candidate
from gpucloud.resources import NodeSlot


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReplacement:
    """One node that is to be replaced alone: its place among the others, and the offer that they are of."""

    vacancy: NodeSlot
    candidate: Candidate


def opening_of(
    box: Box, unfit: Collection[int], intents: Sequence[Intent], attempts: Sequence[Candidate]
) -> NodeReplacement | None:
    """The only unfit node of a box of several.

    Args:
        box: the box, whose machines run.
        unfit: the nodes that were found unfit by themselves.
        intents: the create calls of the box, oldest first.
        attempts: the offers of its launch.

    Returns:
        The node; ``None`` where all nodes are to be replaced. That is also so where one rule of the cloud
        ends them (``ttl_role``): it would name a machine that is gone, and EC2 terminates none of several
        where it does not know one (EC2 API reference, TerminateInstances).
    """
    made = [intent for intent in intents if intent.status == "made"]
    offer = _bought(box, attempts)
    if len(unfit) != 1 or len(box.nodes) < 2 or not made or offer is None or box.wanted.spec.get("ttl_role"):
        return None
    return NodeReplacement(vacancy=NodeSlot(rank=next(iter(unfit)), key=made[-1].token), candidate=offer)


def _bought(box: Box, attempts: Sequence[Candidate]) -> Candidate | None:
    """The offer that a box was bought by, in the zone in which its machines are."""
    place, offer = box.place, box.offer
    if place is None or offer is None:
        return None
    bought = (place.cloud, place.region, offer.instance_type, offer.purchase, offer.reservation)
    zone = place.zone or ""
    return next(
        (
            replace(each, zone=zone)
            for each in attempts
            if (each.cloud, each.region, each.instance_type, each.purchase, each.reservation) == bought
            and each.zone in {"", zone}
        ),
        None,
    )

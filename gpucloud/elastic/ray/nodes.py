"""The slots of a cluster as nodes of Ray's autoscaler. Pure functions.

A node is one wish for a slot: the same slot, wanted again, is another node to Ray, which may still be ending
the first one. The words are those of ``ray/autoscaler/tags.py`` (2.60).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gpucloud.elastic.rules import Slot, SlotState

KIND, TYPE, REQUEST = "ray-node-type", "ray-user-node-type", "ray-launch-request"
"""The tags that Ray itself reads: what a node is, of which class, and for which request it was launched."""
RESOURCES = "gpucloud-resources"
"""The label with what Ray counts on at the node, as JSON: a node that registers with less is never used."""

HEAD_TYPE = "ray.head.default"
"""Ray's name for the type of the head. No class has a name with dots."""
HEAD_TAGS: Mapping[str, str] = {KIND: "head", TYPE: HEAD_TYPE, "ray-node-status": "up-to-date"}

LIVING = frozenset({SlotState.WANTED, SlotState.LAUNCHING, SlotState.READY})
"""The states of a slot whose node Ray counts on. A launch that failed has no node: Ray retries."""


def head_id(cluster: str) -> str:
    """The id of the head of a cluster, which is started with it."""
    return f"{cluster}.head"


def node_id(name: str, wish: str) -> str:
    """The id of the node that is wanted in a slot."""
    return f"{name}.{wish}"


def made_for(request: str, slots: Iterable[Slot]) -> int:
    """How many of these slots are wanted for a request; none for a call without one."""
    return sum(slot.labels.get(REQUEST) == request for slot in slots) if request else 0


def nodes_of(slots: Iterable[Slot], given_back: Collection[str]) -> dict[str, Slot]:
    """The nodes that there are or will be, by id, without those that Ray has given back."""
    found = {node_id(slot.name, slot.wish): slot for slot in slots if slot.state in LIVING}
    return {node: slot for node, slot in found.items() if node not in given_back}


def matches(tags: Mapping[str, str], filters: Mapping[str, str]) -> bool:
    """Whether a node has all tags of a filter."""
    return filters.items() <= tags.items()


def free_slots(every: Sequence[str], taken: Iterable[Slot], count: int) -> list[str]:
    """The first slots of a class that are neither wanted nor have a box, at most so many."""
    names = {slot.name for slot in taken}
    return [name for name in every if name not in names][:count]

"""A cluster: its classes of nodes, each a spec, and the names of their slots. Pure functions.

The slots of a class are ``CLUSTER-CLASS-1`` and so on. A slot's name is that of its box.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from gpucloud.errors import UsageError, first_of
from gpucloud.spec.fields import NAME, shown
from gpucloud.spec.model import Spec

LEASE, IDLE = timedelta(hours=1), timedelta(minutes=10)
LEAST_LEASE = timedelta(minutes=10)
"""The shortest lease: a node boots within it, and an engine looks more often than in half of it."""
MOST = 1000
"""The most nodes of a class."""
LONGEST_NAME = 40
"""The characters of a box's name, as :data:`gpucloud.spec.fields.NAME` limits them."""

_OF_A_RUN = "it belongs to a command of `gpucloud run`"
NOT_HERE: Mapping[str, str] = {
    "name": "a node has the name of its slot",
    "count": "max says how many nodes there may be",
    "nodes": "the engine says how many nodes a job has",
    "spread": "it spreads the boxes of one launch",
    "ttl": "a node lives as long as the lease of the cluster",
    "idle": "the engine says when a node is idle; idle of the cluster is for all classes",
    "idle_below": "the engine says when a node is idle",
    "budget": "a node lives as long as it is wanted; limit max_price and max",
    "run": "the engine runs the commands",
    "volumes": "a volume is attached to one machine",
    "on_unhealthy": "the engine replaces its nodes",
    "checkpoint_dir": _OF_A_RUN,
    "checkpoint_to": _OF_A_RUN,
    "checkpoint_every": _OF_A_RUN,
    "checkpoint_marker": _OF_A_RUN,
    "checkpoint_keep": _OF_A_RUN,
    "checkpoint_role": _OF_A_RUN,
    "checkpoint_encryption": _OF_A_RUN,
}
"""The fields of a spec that a class cannot have, each with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """Nodes of one spec. ``max`` is how many there may be at a time."""

    spec: Spec
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The classes of nodes that an engine may ask for.

    Attributes:
        name: the beginning of each node's name.
        classes: the classes by name.
        lease: how long a node lives unless its engine still wants it.
        source: the file that it was read from; two clusters of one name are told apart by it.
        idle: after how long without work the engine gives a node back. A box cannot tell: work of an engine
            is no job of its guard.

    Raises:
        UsageError: a name is invalid or too long, or a class cannot be as it is.
    """

    name: str
    classes: Mapping[str, NodeClass]
    lease: timedelta = LEASE
    idle: timedelta = IDLE
    source: str = ""

    def __post_init__(self) -> None:
        problems = [
            *problems_of_name(self.name, "cluster"),
            *problems_of_lease(self.lease),
            *([] if self.classes else ["classes are missing"]),
            *(
                f"{name}: {text}"
                for name, each in self.classes.items()
                for text in problems_of_class(self.name, name, each)
            ),
        ]
        if problems:
            raise UsageError(first_of(problems))

    def slots(self, node_class: str) -> list[str]:
        """The names of the slots of a class, in order."""
        return [f"{self.name}-{node_class}-{n}" for n in range(1, self.classes[node_class].max + 1)]

    def class_of(self, slot: str) -> str:
        """The name of the class of a slot.

        Raises:
            UsageError: the cluster has no such slot.
        """
        node_class, _, number = slot.removeprefix(f"{self.name}-").rpartition("-")
        known = self.classes.get(node_class)
        if known is not None and re.fullmatch("[1-9][0-9]{0,3}", number) and int(number) <= known.max:
            found = f"{self.name}-{node_class}-{number}"
            if slot == found:
                return node_class
        ranges = ", ".join(f"{self.name}-{name}-1..{each.max}" for name, each in self.classes.items())
        raise UsageError(f"cluster {self.name!r} has no slot {slot!r}", hint=f"its slots are {ranges}")

    def spec_of(self, slots: Sequence[str]) -> Spec:
        """The spec of the box of a slot, or of the slots of a gang: its nodes, by rank."""
        # What ends an idle node is its engine; a preset may have said otherwise.
        return self.classes[self.class_of(slots[0])].spec.replaced(
            name=slots[0], nodes=len(slots), ttl=self.lease, idle="none"
        )


def problems_of_name(name: str, what: str) -> Iterator[str]:
    """What is wrong with the name of a cluster or a class."""
    if not re.fullmatch(NAME, name):
        yield f"{shown(name)} is not a name of a {what}; allowed: a-z 0-9 -, the first a letter or digit"


def problems_of_lease(lease: timedelta) -> Iterator[str]:
    """What is wrong with a lease."""
    if lease < LEAST_LEASE:
        yield "the lease is too short; allowed: 10m or more"


def problems_of_class(cluster: str, name: str, node_class: NodeClass) -> Iterator[str]:
    """What is wrong with a class, by its spec and the names of its slots."""
    yield from problems_of_name(name, "class")
    spec, last = node_class.spec, f"{cluster}-{name}-{node_class.max}"
    for field in sorted((spec.given - spec.from_preset) & NOT_HERE.keys()):
        yield f"{field} is not allowed here: {NOT_HERE[field]}"
    if not spec.wants_gpu:
        yield "gpu is missing, such as `gpu: T4:1`"
    if not 1 <= node_class.max <= MOST:
        yield f"max {node_class.max} is not allowed; allowed: 1 to {MOST}"
    if len(last) > LONGEST_NAME:
        yield f"the name of its last slot, {last!r}, has {len(last)} characters; allowed: {LONGEST_NAME}"

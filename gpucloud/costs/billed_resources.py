"""The cloud's own id of what a charge is for: the machine, its disk, its public address."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gpucloud.journal.records import ResourceRow
from gpucloud.resources import ResourceKind

_KINDS: Mapping[str, Sequence[ResourceKind]] = {
    "disk": (ResourceKind.DISK,),
    "address": (ResourceKind.ADDRESS, ResourceKind.NIC),
}
"""The kinds that may stand for a part of a machine, best first.

An address that came with its machine has no id of its own on AWS and Alibaba Cloud: its network interface
stands for it.
"""


class BilledResources:
    """The ids of the machines of boxes, and of their parts, from the journal."""

    def __init__(self, rows: Iterable[ResourceRow]) -> None:
        """Takes every resource that the boxes ever had, in the order in which they were made."""
        self._ids: dict[tuple[str, ResourceKind], list[str]] = defaultdict(list)
        for row in rows:
            if row.ref.id:
                self._ids[row.box, row.ref.kind].append(row.ref.id)

    def id_of(self, box: str, machine: str, part: str) -> str:
        """The id of a part of a machine; that of the machine if the journal does not tell its part apart."""
        machines = self._ids[box, ResourceKind.INSTANCE]
        for kind in _KINDS.get(part, ()):
            found = _belonging(machine, machines, self._ids[box, kind])
            if found is not None:
                return found
        return machine


def _belonging(machine: str, machines: Sequence[str], parts: Sequence[str]) -> str | None:
    """The part of a machine: named after it, or the only one at its position.

    Parts are named after their machine where gpucloud chooses the ids itself (Azure). Elsewhere the journal
    has one part per machine, in the order of the machines.
    """
    prefix = f"{_name(machine)}-"
    named = [part for part in parts if _name(part).startswith(prefix)]
    if named:
        return named[0]
    if machine in machines and len(parts) == len(machines):
        return parts[machines.index(machine)]
    return None


def _name(resource_id: str) -> str:
    return resource_id.rpartition("/")[2]

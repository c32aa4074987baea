"""The nodes of a cluster as cluster-autoscaler sees them, and what its calls mean for slots. Pure functions.

A group is a class. Its target is the number of its living wishes in the journal, so that a server which was
killed finds it again. A node whose machine is not known yet has an id that stands for its wish: it is counted
from the call that asked for it on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.rules import Slot, SlotState
from gpucloud.elastic.view import View
from gpucloud.errors import GpucloudError
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import RUNS_OVER, Loss

SCHEME = "gpucloud://"
CLASS_LABEL, CLUSTER_LABEL, GPU_LABEL = "gpucloud/class", "gpucloud/cluster", "gpucloud/gpu"
"""The labels of a node. The autoscaler waits for the GPUs of a node that has the last one."""

PROVISION = timedelta(minutes=30)
"""How long a node may take until it is ready: GPU nodes were seen to take more than ten minutes
(Azure/telescope#1322)."""
GRACE = timedelta(minutes=5)
"""How much longer the autoscaler has to give it back; then it is given up here (berops/claudie#2050)."""

OUT_OF_RESOURCES, OTHER = 1, 99
"""The ``instanceErrorClass`` after which the autoscaler takes another group at once, and that of the rest."""


class MemberState(StrEnum):
    """The states of a node of a group."""

    CREATING = "creating"
    RUNNING = "running"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True)
class MemberError:
    """Why a node does not come up: a code, its class for the autoscaler, and the words."""

    code: str
    error_class: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A node of a group.

    Attributes:
        id: the ``spec.providerID`` of the node, or what stands for it.
        wish: the id that stands for its wish; also once the machine is known.
        slot: the slot, with its place and price.
    """

    id: str
    wish: str
    slot: Slot
    state: MemberState
    error: MemberError | None = None


class NotOfGroupError(GpucloudError):
    """A node does not belong to the group."""


class SizeError(GpucloudError):
    """A group cannot become as large, or as small, as it was asked to."""


def provider_id(box: Box) -> str | None:
    """The ``spec.providerID`` of the node of a box; ``None`` while its machine is not known."""
    if box.place is None or not box.nodes or not box.nodes[0].instance_id:
        return None
    # Azure's ids are paths: their last part names the machine within the group that only it is in.
    machine = box.nodes[0].instance_id.rpartition("/")[2]
    return f"{SCHEME}{box.place.cloud}/{box.place.zone or box.place.region}/{machine}"


def node_name(slot: str, box: Box) -> str:
    """The name of the node of a box.

    Each box has another one: the node of the machine before may still be listed, and keeps its provider id.
    """
    return f"{slot}-{box.id.rpartition('-')[2].lower()[-8:]}"


def wish_id(slot: str, wish: Run) -> str:
    """The id of a node whose machine is not known yet: another one for each wish for the same slot."""
    return f"{SCHEME}/{slot}/{wish.id}"


def members(cluster: Cluster, node_class: str, view: View, now: datetime) -> list[GroupMember]:
    """The nodes of a group, in the order of the slots."""
    backoff = view.backoffs.get(node_class)
    waits = backoff.reason if backoff is not None and now < backoff.until else None
    found = [
        _member(slot, view.wishes[name], view.boxes, waits, now)
        for name in cluster.slots(node_class)
        if (slot := view.slots.get(name)) is not None
    ]
    return [each for each in found if each is not None]


def _member(
    slot: Slot, wish: Run, boxes: Mapping[str, Box], waits: str | None, now: datetime
) -> GroupMember | None:
    """The node of a slot; ``None`` if nobody wants it and nothing is left of it, or it was lost."""
    box = boxes.get(wish.box or "")
    machine = provider_id(box) if box is not None and box.state not in OVER else None
    stand_in = wish_id(slot.name, wish)
    if not is_counted(slot, wish):
        if machine is None:
            return None
        return GroupMember(id=machine, wish=stand_in, slot=slot, state=MemberState.DELETING)
    return GroupMember(
        id=machine or stand_in,
        wish=stand_in,
        slot=slot,
        state=MemberState.RUNNING if slot.state is SlotState.READY else MemberState.CREATING,
        error=_error(slot, wish, waits, now),
    )


def is_counted(slot: Slot, wish: Run) -> bool:
    """Whether a slot counts for the target: it is wanted, and was not lost."""
    return wish.state not in RUNS_OVER and slot.state not in {SlotState.LOST, SlotState.ENDING}


def _error(slot: Slot, wish: Run, waits: str | None, now: datetime) -> MemberError | None:
    """Why a node does not come up: the autoscaler gives it back, and leaves its group alone for a time."""
    if slot.state is SlotState.READY:
        return None
    last = wish.attempts[-1].loss if wish.attempts else None
    if slot.state is SlotState.WAITING:
        error_class = OUT_OF_RESOURCES if last is Loss.CAPACITY else OTHER
        return MemberError(str(last), error_class, slot.reason or "its launch failed")
    if waits is not None and slot.state is SlotState.WANTED:
        return MemberError("waiting", OUT_OF_RESOURCES, waits)
    if now - wish.created_at >= PROVISION:
        minutes = PROVISION.total_seconds() / 60
        return MemberError("timeout", OTHER, f"it was not up {minutes:.0f} minutes after it was asked for")
    return None


# --- what the calls mean for slots


def target(found: Collection[GroupMember]) -> int:
    """The number of nodes that are wanted of a group."""
    return sum(each.state is not MemberState.DELETING for each in found)


def more(
    cluster: Cluster, node_class: str, view: View, found: Collection[GroupMember], delta: int
) -> list[str]:
    """The slots that a larger group gets: those that were never used first, and last those being deleted.

    Raises:
        SizeError: the group would be larger than its ``max``.
    """
    if delta <= 0:
        raise SizeError(f"the delta is {delta}; allowed: 1 or more")
    most, size = cluster.classes[node_class].max, target(found)
    if size + delta > most:
        raise SizeError(f"{node_class} has {size} nodes of at most {most}: {delta} more are too many")
    taken = {each.slot.name for each in found if each.state is not MemberState.DELETING}
    free = [name for name in cluster.slots(node_class) if name not in taken]
    free.sort(key=lambda name: name in view.slots and view.slots[name].has_box)
    return free[:delta]


def fewer(node_class: str, found: Collection[GroupMember], delta: int) -> list[str]:
    """The slots that a smaller target leaves out, none of them up: those with an error, then the newest.

    Raises:
        SizeError: too few are not up.
    """
    if delta >= 0:
        raise SizeError(f"the delta is {delta}; allowed: -1 or less")
    coming = [each for each in found if each.state is MemberState.CREATING]
    if len(coming) < -delta:
        raise SizeError(
            f"{node_class} has {len(coming)} nodes that are not up: its target cannot go down by {-delta}"
        )
    coming.sort(key=lambda each: each.slot.since, reverse=True)
    coming.sort(key=lambda each: (each.error is None, each.id != each.wish))
    return [each.slot.name for each in coming[:-delta]]


def named(
    cluster: Cluster, node_class: str, every: Mapping[str, Sequence[GroupMember]], ids: Sequence[str]
) -> list[str]:
    """The slots of nodes that are to be deleted; those that are gone already are left out.

    Args:
        cluster: the cluster.
        node_class: the group that they are said to be of.
        every: the nodes of all groups.
        ids: their provider ids, or what stood for them.

    Raises:
        NotOfGroupError: one is not of this group; nothing is to be deleted then.
    """
    for id in ids:  # noqa: A001
        other = group_of(every, id)
        if not id.startswith(SCHEME) or other not in {None, node_class}:
            owner = f"it is of group {other}" if other else "gpucloud did not make it"
            raise NotOfGroupError(f"node {id!r} is not of group {node_class} of {cluster.name}: {owner}")
    wanted = set(ids)
    return [
        each.slot.name
        for each in every[node_class]
        if {each.id, each.wish} & wanted and each.state is not MemberState.DELETING
    ]


def group_of(every: Mapping[str, Sequence[GroupMember]], id: str) -> str | None:  # noqa: A002
    """The group of a node; ``None`` if it is not of gpucloud, or gone."""
    return next(
        (name for name, found in every.items() if any(id in {each.id, each.wish} for each in found)), None
    )


def given_up(view: View, now: datetime) -> list[str]:
    """The slots that are no longer to be wanted: lost ones, and those that nobody gave back in time.

    The autoscaler sees a smaller target, and asks again if it still needs a node.
    """
    return [
        name
        for name, slot in view.slots.items()
        if view.is_wanted(name)
        and (
            slot.state is SlotState.LOST
            or (slot.state is not SlotState.READY and now - view.wishes[name].created_at >= PROVISION + GRACE)
        )
    ]

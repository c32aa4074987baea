"""The documents of commands about boxes, volumes and snapshots."""

from __future__ import annotations

from typing import Any, TypedDict

from gpucloud.api.documents import BoxDocument, SnapshotDocument, VolumeDocument
from gpucloud.cli.documents.errors import FailureDocument
from gpucloud_pricing.documents import Number


class StepDocument(TypedDict):
    """A step of a command.

    Attributes:
        at_s: when it began, in seconds since the command's start.
    """

    step: str
    at_s: Number


class ShowDocument(TypedDict):
    """One box.

    Attributes:
        spec: the spec of its launch, without the values of variables.
    """

    box: BoxDocument
    spec: dict[str, Any]


class ExtendDocument(TypedDict):
    """The box with its new deadline."""

    box: BoxDocument


class ShareNodeDocument(TypedDict):
    """A node, as somebody with another ssh client reaches it."""

    node: int
    address: str
    port: int
    user: str
    host_key: str


class ShareDocument(TypedDict):
    """The box, and who was let in, or no longer.

    Attributes:
        fingerprint: of the key.
        changed: ``false`` if all was so before.
        nodes: those that have the key now, or have it no longer.
        allow_from: the addresses that the box accepts.
        command: what a colleague with the same journal enters; ``null`` if the journal is a file.
    """

    box: BoxDocument
    fingerprint: str
    changed: bool
    nodes: list[ShareNodeDocument]
    allow_from: list[str]
    command: str | None


class StopDocument(TypedDict):
    """The box that is stopped; ``expires_at`` is when it is deleted."""

    box: BoxDocument


class VolumeAnswerDocument(TypedDict):
    """One volume."""

    volume: VolumeDocument


class SnapshotAnswerDocument(TypedDict):
    """One snapshot."""

    snapshot: SnapshotDocument


class SnapshotsDocument(TypedDict):
    """The snapshots of the journal."""

    snapshots: list[SnapshotDocument]


class VolumesDocument(TypedDict):
    """The volumes of the journal."""

    volumes: list[VolumeDocument]


class StartDocument(TypedDict):
    """The box that was started again."""

    box: BoxDocument


class MoveDocument(TypedDict):
    """The new box, and the one that was moved, which is deleted unless the user kept it.

    Attributes:
        volumes: those of the new box.
        old_volumes: those that the old box had; they are kept, and billed.
    """

    box: BoxDocument
    old: BoxDocument
    volumes: list[VolumeDocument]
    old_volumes: list[VolumeDocument]


class LaunchDocument(TypedDict):
    """The boxes that were launched, and the steps of the launch.

    Attributes:
        box: the first box that is ready.
        boxes: all of them.
        failure: why other boxes of the spec are not ready; ``null`` if all are.
    """

    box: BoxDocument
    boxes: list[BoxDocument]
    failure: FailureDocument | None
    timeline: list[StepDocument]


class SetupDocument(TypedDict):
    """The box whose set-up was repeated, and the steps."""

    box: BoxDocument
    timeline: list[StepDocument]

"""Mounts the volumes that are attached to a box, and unmounts them before it is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gpucloud.bring_up.bring_up import targets
from gpucloud.journal.events import Seen
from gpucloud.journal.facts import Facts, VolumeFacts
from gpucloud.journal.records import Box, Volume
from gpucloud.resources import State
from gpucloud.runtime.context import Context
from gpucloud.spec.mounts import mount as read_mount
from gpucloud.ssh.client import Target
from gpucloud.ssh.keys import key_folder
from gpucloud.ssh.volumes import mount, unmount
from gpucloud.storage.attachments import Attached

MOUNT_TIMEOUT_S = 300.0
UNMOUNT_TIMEOUT_S = 20.0
LABEL = "gpucloud-"
LABEL_DIGITS = 7
"""ext4 takes 16 characters."""


def label_of(volume: Volume) -> str:
    """The label of a volume's file system, by which it is mounted."""
    return LABEL + volume.id[-LABEL_DIGITS:]


def mount_all(context: Context, node: Target, attached: Sequence[Attached]) -> None:
    """Mounts volumes that are attached, each by the label of its file system.

    A volume is formatted only if it is blank and was never mounted.

    Raises:
        NotMountedError: the node refused.
    """
    # Copies first: until a copy has a label of its own, its source cannot be told from it.
    for each, devices in sorted(attached, key=lambda found: not found[0].volume.label):
        told = context.journal.now_of(each.volume)
        context.tell("volume", f"mounting {each.volume.name} at {each.path}")
        call = partial(
            mount,
            node,
            each.path,
            label=label_of(each.volume),
            devices=devices,
            may_format=not told.mounted,
            copied=told.label,
        )
        context.tasks.run(call, MOUNT_TIMEOUT_S)
        context.journal.write(each.volume, Seen(facts=Facts(volume=VolumeFacts(mounted=True))))


def write_out(context: Context, box: Box) -> None:
    """Unmounts the volumes of a box that is about to be deleted: some clouds cut the power of its machine.

    A box that does not answer is left as it is: its file systems recover from their journals.
    """
    paths = [read_mount(each).path for each in box.wanted.spec.get("volumes") or ()]
    if not paths or context.state is None:
        return
    nodes = targets(box, key_folder(context.state, box.id), context.proxy_command)
    running = [node for node in nodes if box.nodes[node.node].state is State.RUNNING]
    if running:
        context.tell("volume", f"unmounting {', '.join(paths)}")
        calls = [context.tasks.start(partial(unmount, node, paths)) for node in running]
        context.tasks.until_done(calls, min(UNMOUNT_TIMEOUT_S, context.tasks.left_s / 2))

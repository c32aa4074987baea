"""Keeps the file of ssh hosts up to date with the journal: with it, every ssh client reaches the boxes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpucloud.bring_up.bring_up import targets
from gpucloud.config import HOSTS
from gpucloud.errors import GpucloudError
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.records import Box
from gpucloud.journal.store import Journal
from gpucloud.resources import BOX_ID, State
from gpucloud.runtime.context import Context
from gpucloud.ssh.hosts import Host, keep
from gpucloud.ssh.keys import ONE_TIME, key_folder, pinned


def hosts_of(box: Box, state: Path, proxy_command: str | None) -> Iterator[Host]:
    """The nodes of a box that can be reached.

    Those whose keys are not on this machine are left out (as are all of a box whose id is none), and those
    that still have the host key of the user-data: nothing may be sent to them before it is replaced.
    """
    if box.state in OVER or not BOX_ID.fullmatch(box.id):
        return
    for target in targets(box, key_folder(state, box.id), proxy_command):
        known = pinned(target.keys, target.alias)
        safe = known and not any(key.endswith(ONE_TIME) for key in known)
        if safe and box.nodes[target.node].state is not State.GONE:
            yield Host(box.name, target)


def all_hosts(journal: Journal, owner: str, state: Path, proxy_command: str | None) -> list[Host]:
    """The nodes of all of an owner's boxes that can be reached, the oldest box first."""
    boxes = journal.boxes(owner=owner)
    return [host for box in boxes for host in hosts_of(box, state, proxy_command)]


def keep_hosts(context: Context) -> None:
    """Brings the file of hosts up to date, if there is one. A failure is a warning: the boxes are right."""
    assert context.state is not None  # noqa: S101  (who has boxes has a state folder)
    state, file = context.state, context.state / HOSTS
    if not file.exists():
        return
    try:
        keep(file, lambda: all_hosts(context.journal, context.owner, state, context.proxy_command))
    except (OSError, GpucloudError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        context.warn("ssh", f"The ssh hosts in {file} are not up to date: {reason}", "gpucloud ssh-config")

"""Copies the data sets of a spec to the nodes of a box, with credentials that are issued for this copy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gpucloud.clouds import stores
from gpucloud.clouds.cloud import Cloud
from gpucloud.planning.data_source import DataSource
from gpucloud.runtime.context import Context
from gpucloud.ssh import data as on_node
from gpucloud.ssh.client import Target
from gpucloud.ssh.data import DataNotCopiedError
from gpucloud.ssh.rclone import INSTALL_S

TRIES = 3
"""How often a copy is tried, each time with new rights; what is there already is not copied again."""
STEP = "data"


def bring(context: Context, nodes: Sequence[Target], sources: Sequence[DataSource]) -> None:
    """Copies data sets to nodes, where nobody can write them afterwards; what is there already stays.

    Raises:
        DataNotCopiedError: a data set could not be copied.
        CloudError: the cloud refused to lend the rights.
        ConnectionFailedError: a node could not be reached.
    """
    if not sources:
        return
    context.tell(STEP, "installing rclone")
    _on_all(context, [partial(on_node.install, node) for node in nodes], INSTALL_S)
    for source in sources:
        context.tell(STEP, f"copying {source.wanted.url} to {source.wanted.path}")
        cloud = context.clouds[source.cloud]
        calls = [partial(_bring, context, cloud, node, source) for node in nodes]
        _on_all(context, calls, on_node.COPY_S)


def _bring(context: Context, cloud: Cloud, node: Target, source: DataSource) -> None:
    wanted, tries = source.wanted, 1
    folder = on_node.prepare(node, wanted.path, scratch=wanted.scratch)
    while True:
        lease = stores.lend(cloud, source.grant)
        try:
            if on_node.copy(node, lease.reading, f"{lease.folder}/{source.folder}", folder):
                break
        except DataNotCopiedError as error:
            if tries == TRIES:
                raise DataNotCopiedError(
                    f"{wanted.url} could not be copied in {TRIES} tries: {error.message}",
                    hint="see what the store refuses; the rights are those of --data-role, or your own",
                ) from error
            tries += 1
            context.tell(STEP, f"{error.message}; trying again")
    on_node.lock(node, folder, wanted.path)


def _on_all(context: Context, calls: Sequence[partial[None]], timeout_s: float) -> None:
    """Makes one call for each node, all at the same time."""
    for call in [context.tasks.start(each) for each in calls]:
        context.tasks.wait(call, timeout_s)

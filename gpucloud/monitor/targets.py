"""Where Prometheus finds the metrics of boxes: its HTTP and file service discovery. A pure function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.resources import State

Targets = Sequence[Mapping[str, object]]
"""As Prometheus reads them: ``[{"targets": [ADDRESS], "labels": {…}}]``."""


def targets(boxes: Iterable[Box], address: str) -> Targets:
    """One target for each node that is up, all at the address of this server.

    Args:
        boxes: the living boxes.
        address: host and port of ``metrics serve``.
    """
    return [
        {
            "targets": [address],
            "labels": {
                "__metrics_path__": f"/box/{box.id}/metrics",
                "__param_node": str(number),
                "box": box.name,
                "cloud": box.cloud,
                "node": str(number),
            },
        }
        for box in boxes
        if box.state is BoxState.READY
        for number, node in enumerate(box.nodes)
        if node.public_ip and node.state is not State.GONE
    ]

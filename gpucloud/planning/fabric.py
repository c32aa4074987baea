"""Which RDMA network joins the nodes of a box."""

from __future__ import annotations

from gpucloud_pricing.demand import NO_RDMA


def fabric_of(wanted: str | None, nodes: int, offered: str) -> str | None:
    """The RDMA network that joins the nodes of a box; ``None`` for ordinary networks alone.

    A machine that could be joined is not, unless that is asked for: it takes more network interfaces, which
    take addresses, and in some clouds a public address that is billed by itself.

    Args:
        wanted: the spec's ``rdma``.
        nodes: how many nodes the box has; a single one has nothing to be joined to.
        offered: what the type can be joined by.
    """
    asked = wanted not in {None, NO_RDMA} and nodes > 1
    return offered if asked and offered != NO_RDMA else None

"""Stops and starts machines.

A deallocated machine is billed for its disk and its static address. One that is only powered off is billed
in full (azure-compute-docs, states-billing.md).
"""

from __future__ import annotations

from gpucloud_azure.clients import Clients
from gpucloud_azure.ids import name_of

POLLING_S = 2.0


def stop(clients: Clients, machine_id: str) -> None:
    """Requests the deallocation; one that is deallocated already is fine."""
    group, name = name_of(machine_id)
    clients.compute().virtual_machines.begin_deallocate(group, name, polling=False)


def start(clients: Clients, machine_id: str) -> None:
    """Starts a machine. Whether there is capacity is known only at the end of the operation."""
    group, name = name_of(machine_id)
    clients.compute().virtual_machines.begin_start(group, name, polling_interval=POLLING_S).result()

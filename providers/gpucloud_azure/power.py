"""Stops and starts machines.

A deallocated machine is billed for its disk and its static address. One that is only powered off is billed
in full (azure-compute-docs, states-billing.md).
"""

from __future__ import annotations

from gpucloud.clouds.abilities import Power
from gpucloud.resources import Machine, Ref
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.ids import name_of

POLLING_S = 2.0


class AzurePower(Power):
    """Deallocates and starts machines."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    @property
    def timer_deletes(self) -> bool:
        """The timers deallocate machines, and leave their disks."""
        return False

    def why_not_stop(self, machine: Machine, /, *, local_disks: bool) -> str | None:  # noqa: ARG002
        """Every machine can be deallocated: gpucloud creates none with an ephemeral disk."""
        return None

    def stop(self, ref: Ref, /) -> None:
        """Requests the deallocation; one that is deallocated already is fine."""
        self._account.refuse_foreign(ref)
        group, name = name_of(ref.id)
        self._account.clients.compute().virtual_machines.begin_deallocate(group, name, polling=False)

    def start(self, ref: Ref, /) -> None:
        """Starts a machine. Whether there is capacity is known only at the end of the operation."""
        self._account.refuse_foreign(ref)
        group, name = name_of(ref.id)
        machines = self._account.clients.compute().virtual_machines
        machines.begin_start(group, name, polling_interval=POLLING_S).result()

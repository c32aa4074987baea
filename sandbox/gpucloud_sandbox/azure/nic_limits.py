"""What a size takes of network interfaces: how many, which is the primary, which are accelerated."""

from __future__ import annotations

from collections.abc import Sequence

from gpucloud_azure.sizes import accelerates_networking, max_network_interfaces
from gpucloud_sandbox.azure.wire import AzureError, Json


def check_count(owner: str, size: str, count: int) -> None:
    """Passes a number of interfaces that a size takes.

    Source: azure-sdk-for-java#15425, fortigate-terraform-deploy#148 (recorded refusals).

    Raises:
        AzureError: it is more.
    """
    most = max_network_interfaces(size)
    if count > most:
        text = (
            f"The number of network interfaces for {owner} exceeds the maximum allowed for the virtual "
            f"machine size {size}. The number of network interfaces is {count} and the maximum allowed is "
            f"{most}."
        )
        raise AzureError("NetworkInterfaceCountExceeded", text)


def check_primary(owner: str, chosen: Sequence[tuple[str, bool | None]]) -> None:
    """Passes interfaces of which one is the primary; a single one is, whatever it says.

    Source: ansible#40648 for the first code; the second is UNVERIFIED.

    Args:
        owner: whose they are.
        chosen: names, and whether each is the primary, where that is said.

    Raises:
        AzureError: of several, one does not say it, or not exactly one is.
    """
    if len(chosen) < 2:
        return
    for name, primary in chosen:
        if primary is None:
            text = f"Network interface {name} must have Primary property set."
            raise AzureError("NetworkInterfaceMustHavePrimaryPropertySet", text)
    if sum(bool(primary) for _, primary in chosen) != 1:
        text = f"{owner[:1].upper()}{owner[1:]} must have one network interface set as the primary."
        raise AzureError("VirtualMachineMustHaveOneNetworkInterfaceAsPrimary", text)


def check_acceleration(interfaces: Sequence[Json], size: str) -> None:
    """Passes interfaces, by their properties, that a size can accelerate.

    Raises:
        AzureError: it cannot, and one asks for it.
    """
    accelerated = any(each.get("enableAcceleratedNetworking") for each in interfaces)
    if accelerated and not accelerates_networking(size):
        text = (
            f"The size {size} is not compatible with enabling accelerated networking on a network interface."
        )
        raise AzureError("VMSizeIsNotPermittedToEnableAcceleratedNetworking", text)

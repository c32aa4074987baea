"""What is asked before a box is bought."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import assert_never

from gpucloud.clouds.abilities import Preflight
from gpucloud.clouds.kit import Limits, check_limits
from gpucloud.errors import UsageError
from gpucloud.resources import Order
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.deadlines import refuse_far
from gpucloud_azure.errors import DeadlineTooFarError
from gpucloud_azure.identity import checked_role
from gpucloud_azure.images import refuse_without
from gpucloud_azure.network import set_name, wanted_rules
from gpucloud_pricing.purchases import Purchase

LIMITS = Limits(cloud="Azure", user_data_bytes=64 * 1024 - 1, disk_gib=4095, rules=1000)
"""Sources: azure-compute-docs, custom-data.md ("65535 bytes"), managed-disks-overview.md (OS disks), and
azure-subscription-service-limits.md (rules of a network security group)."""
MAX_TAGS = 50 - 8
"""Resource Manager accepts 50; gpucloud uses a name, its five and two of its create call."""
MOST_IN_SET = 200
"""Source: azure-docs, azure-subscription-service-limits.md."""


class AzurePreflight(Preflight):
    """Checks orders; tells how the subscription's machines are encrypted."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    def check(self, order: Order, /) -> None:
        """Refuses, before anything is created, an order that Azure would refuse later.

        Raises:
            UsageError: Azure would refuse it; the message says why.
        """
        _check_deadline(order)
        check_limits(order, LIMITS)
        wanted_rules(order.allow_from, order.ports)
        if len(order.extra_tags) > MAX_TAGS:
            raise UsageError(f"Azure accepts {MAX_TAGS} tags of your own; {len(order.extra_tags)} are given")
        for key, value in order.extra_tags.items():
            reserved = key.lower().startswith(("microsoft", "azure", "windows"))
            if not key or len(key) > 512 or set(key) & set("<>%&\\?/") or reserved:
                raise UsageError(
                    f"tag {key!r} cannot be used on Azure: up to 512 characters, none of < > % & \\ ? /, "
                    "and not microsoft…, azure…, windows…"
                )
            if len(value) > 256:
                raise UsageError(f"the value of tag {key!r} cannot be used on Azure: up to 256 characters")
        if order.box_identity is not None:
            checked_role(order.box_identity)
        if order.purchase is Purchase.RESERVED and not order.reservation:
            raise UsageError("a launch into held capacity needs the capacity reservation group's id")
        _check_placement(order)

    def read_ahead(self, region: str, /) -> None:
        """Nothing: what a launch needs is put by name."""

    def remarks(self) -> Sequence[str]:
        """Whether disks are encrypted on the host as well."""
        if self._account.has_host_encryption():
            return ()
        return (
            "disks are encrypted by the platform, but not at the host: the subscription lacks the feature "
            "(az feature register --namespace Microsoft.Compute --name EncryptionAtHost)",
        )


def _check_deadline(order: Order) -> None:
    try:
        refuse_far(order, datetime.now(UTC))
    except DeadlineTooFarError as error:
        raise UsageError(str(error), hint="use a shorter --ttl, or another --cloud") from error


def _check_placement(order: Order) -> None:
    """Refuses InfiniBand where the machines would not be joined by it, and more machines than a set takes."""
    if order.fabric is not None and set_name(order) is None:
        raise UsageError(
            "InfiniBand joins machines of one availability set, which takes no machine "
            f"{_outside_of_sets(order.purchase)}",
            hint="--on-demand and no --zone; or leave --rdma out, and the nodes use Ethernet",
        )
    if order.fabric is not None:
        refuse_without(order.fabric, order.image, order.arch, order.instance_type)
    if set_name(order) is not None and order.nodes > MOST_IN_SET:
        raise UsageError(f"--nodes {order.nodes}: an availability set on Azure takes {MOST_IN_SET} machines")


def _outside_of_sets(purchase: Purchase) -> str:
    """What keeps a machine of a failed order out of an availability set."""
    match purchase:
        case Purchase.ON_DEMAND:
            return "of a zone"
        case Purchase.SPOT:
            return "on Spot"
        case Purchase.RESERVED:
            return "in held capacity"
        case _:
            assert_never(purchase)

"""What is asked before a box is bought."""

from __future__ import annotations

from collections.abc import Sequence

from gpucloud.clouds.abilities import Preflight
from gpucloud.clouds.kit import Limits, check_limits
from gpucloud.errors import UsageError
from gpucloud.resources import Order
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.create import release_time, tags_of
from gpucloud_alibaba.network import wanted_rules
from gpucloud_pricing.purchases import Purchase

LIMITS = Limits(cloud="Alibaba Cloud", user_data_bytes=32 * 1024, disk_gib=2048, rules=200, nodes=100)
"""Sources: ECS API reference, RunInstances (``InvalidUserData.SizeExceeded``, SystemDisk.Size, Amount); ECS
user guide, "Limits" (rules of a security group)."""
SUPER_COMPUTING = "ecs.scc"
"""How the types of Super Computing Clusters begin. Source: SDK 7.11.8, RunInstances, ``HpcClusterId``."""
MOST_TAGS = 20
_FORBIDDEN_STARTS = ("aliyun", "acs:")


class AlibabaPreflight(Preflight):
    """Checks orders."""

    def __init__(self, account: AlibabaAccount) -> None:
        self._account = account

    def check(self, order: Order, /) -> None:
        """Refuses, before anything is created, an order that the cloud would refuse later.

        Raises:
            UsageError: the cloud would refuse it; the message says why.
        """
        check_order(order)
        release_time(order.deadline, self._account.clock())

    def read_ahead(self, region: str, /) -> None:
        """Nothing: what a launch reads depends on its type as well."""

    def remarks(self) -> Sequence[str]:
        """None: boxes of every account are alike."""
        return ()


def check_order(order: Order) -> None:
    """Refuses an order that the cloud would refuse whenever it is sent: its deadline is not looked at.

    Raises:
        UsageError: the cloud would refuse it; the message says why.
    """
    check_limits(order, LIMITS)
    wanted_rules(order.allow_from, order.ports)
    for key, value in order.extra_tags.items():
        _check_tag(key, value)
    if len(tags_of(order)) + 1 > MOST_TAGS:
        raise UsageError(f"Alibaba Cloud takes {MOST_TAGS} tags; {len(tags_of(order)) + 1} are wanted")
    if order.box_identity is not None:
        raise UsageError(
            "--box-identity: Alibaba Cloud has no role that a box could be limited to itself with",
            hint="leave it out, or --cloud azure; the cloud's own release time ends the box here",
        )
    if order.instance_type.startswith(SUPER_COMPUTING):
        raise UsageError(
            f"{order.instance_type} needs an HPC cluster (HpcClusterId), which gpucloud does not make",
            hint="choose another instance type",
        )
    if order.purchase is Purchase.RESERVED and not order.reservation:
        raise UsageError("a launch into held capacity needs the private pool's id")


def _check_tag(key: str, value: str) -> None:
    lowered = key.lower()
    if not 0 < len(key) <= 128 or lowered.startswith(_FORBIDDEN_STARTS):
        raise UsageError(
            f"tag {key!r} cannot be used on Alibaba Cloud: up to 128 characters, not aliyun or acs:"
        )
    if len(value) > 128:
        raise UsageError(f"the value of tag {key!r} cannot be used on Alibaba Cloud: up to 128 characters")
    if any(scheme in text.lower() for text in (key, value) for scheme in ("http://", "https://")):
        raise UsageError(f"tag {key!r} cannot be used on Alibaba Cloud: no http:// or https:// in it")

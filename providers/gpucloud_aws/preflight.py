"""What is asked before a box is bought."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpucloud.clouds.abilities import Preflight
from gpucloud.clouds.kit import Limits, check_limits
from gpucloud.errors import UsageError
from gpucloud.resources import Order
from gpucloud_aws.network import Subnets
from gpucloud_aws.schedule import checked_role
from gpucloud_pricing.purchases import Purchase

LIMITS = Limits(cloud="AWS", user_data_bytes=16 * 1024, disk_gib=64 * 1024, rules=1000)
"""Sources: EC2 User Guide, "Run commands when you launch an EC2 instance"; EBS User Guide, gp3 volumes; VPC
User Guide, quotas: 60 rules of a group by default, up to 1000 on request."""
_TAG_KEY = re.compile(r"[\w+\-=.,:@]{1,128}", re.ASCII)
_TAG_VALUE = re.compile(r"[\w .:/=+\-@]{0,256}")


class AwsPreflight(Preflight):
    """Checks orders, and reads the subnets in advance.

    Args:
        subnets: those that instances can be put into.
    """

    def __init__(self, subnets: Subnets) -> None:
        self._subnets = subnets

    def check(self, order: Order, /) -> None:
        """Refuses, before anything is created, an order that EC2 would refuse later.

        Raises:
            UsageError: EC2 would refuse it; the message says why.
        """
        check_limits(order, LIMITS)
        for key, value in order.extra_tags.items():
            if not _TAG_KEY.fullmatch(key) or key.lower().startswith("aws:") or key in {".", "..", "_index"}:
                raise UsageError(
                    f"tag {key!r} cannot be used on AWS: letters, digits and + - = . , _ : @ only, not aws:"
                )
            if not _TAG_VALUE.fullmatch(value):
                raise UsageError(
                    f"the value of tag {key!r} cannot be used on AWS: up to 256 letters, digits, spaces and "
                    ". : / = + - @ only"
                )
        if order.ttl_role is not None:
            checked_role(order.ttl_role)
        if order.box_identity is not None and order.box_identity.startswith("arn:"):
            raise UsageError(
                "--box-identity names the role of Azure with which a box deletes itself: on AWS a box does so"
                f" without a role, and gets no instance profile ({order.box_identity})",
                hint="leave it out; give your program credentials of its own with --env NAME",
            )
        if order.purchase is Purchase.RESERVED and not order.reservation:
            raise UsageError("a launch into held capacity needs the reservation's id")

    def read_ahead(self, region: str, /) -> None:
        """The subnets, which do not change while a command runs."""
        self._subnets.of(region)

    def remarks(self) -> Sequence[str]:
        """None: boxes of every account are alike."""
        return ()

"""Moves the deadline of a box: its release time, and its tag."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from gpucloud.clouds.abilities import Deadlines
from gpucloud.resources import EXPIRES_TAG, End, Machine, Ref, ResourceKind, expires_text
from gpucloud_alibaba import placement
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.clients import Clients
from gpucloud_alibaba.create import release_time
from gpucloud_alibaba.models import ecs_models

_TYPES: Mapping[ResourceKind, tuple[str, str]] = {
    ResourceKind.INSTANCE: ("ecs", "instance"),
    ResourceKind.DISK: ("ecs", "disk"),
    ResourceKind.NIC: ("ecs", "eni"),
    ResourceKind.GROUP: ("ecs", "securitygroup"),
    ResourceKind.ADDRESS: ("vpc", "EIP"),
    ResourceKind.NETWORK: ("vpc", "VPC"),
}
"""The products, and their names of resource types for tags (API references of TagResources)."""


class AlibabaDeadlines(Deadlines):
    """The release time of instances, which is part of the create call."""

    def __init__(self, account: AlibabaAccount) -> None:
        self._account = account

    def ensure_end(
        self,
        machines: Sequence[Machine],  # noqa: ARG002
        end: End,  # noqa: ARG002
        timers: Sequence[str],  # noqa: ARG002
        note: Callable[[Sequence[str]], None],  # noqa: ARG002
        /,
    ) -> Sequence[Ref]:
        """Nothing: the release time is part of the create call."""
        return ()

    def extend(
        self,
        resources: Sequence[Ref],
        expires_at: datetime | None,
        timers: Sequence[str],  # noqa: ARG002  (the timer is the instance's own)
        note: Callable[[Sequence[str]], None],  # noqa: ARG002
        /,
    ) -> Sequence[str]:
        """Moves the release time of the instances, never nearer than 32 minutes, and tags all resources."""
        for ref in resources:
            self._account.refuse_foreign(ref)
        clients, now = self._account.clients, self._account.clock()
        for ref in resources:
            if ref.kind is ResourceKind.INSTANCE:
                _set_release_time(clients, ref, release_time(expires_at, now))
            elif ref.kind is ResourceKind.PLACEMENT_GROUP:  # it has no tags
                placement.extend(clients, ref, expires_at)
        for (region, product, type_), ids in _by_type(resources).items():
            clients.call(
                product,
                region,
                "TagResources",
                {
                    "RegionId": region,
                    "ResourceType": type_,
                    "ResourceId": ids,
                    "Tag": [{"Key": EXPIRES_TAG, "Value": expires_text(expires_at)}],
                },
            )
        return ()


def _set_release_time(clients: Clients, ref: Ref, at: str | None) -> None:
    """Sets an instance's release time; without a time, it is no longer released."""
    models = ecs_models()
    clients.ecs(ref.region).modify_instance_auto_release_time(
        models.ModifyInstanceAutoReleaseTimeRequest(
            region_id=ref.region, instance_id=ref.id, auto_release_time=at
        )
    )


def _by_type(resources: Sequence[Ref]) -> dict[tuple[str, str, str], list[str]]:
    """The ids by region, product, and the product's name of their type."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for ref in resources:
        if ref.kind is ResourceKind.PLACEMENT_GROUP:
            continue
        product, type_ = _TYPES[ref.kind]
        if ref.id.startswith("vsw-"):
            type_ = "VSWITCH"
        found.setdefault((ref.region, product, type_), []).append(ref.id)
    return found

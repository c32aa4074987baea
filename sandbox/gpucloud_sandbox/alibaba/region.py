"""One region of the emulated account: its zones and its resources.

Resources are kept as JSON documents in the shape in which the APIs answer them; keys that begin with ``_``
are the sandbox's own and never leave it.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document, Shelf
from gpucloud_sandbox.emulator import World
from gpucloud_sandbox.market import InstanceType

CLOUD = "alibaba"
ACCOUNT = "5123456789012345"
USER = "gpucloud-sandbox"

ID_KEYS = {
    "instance": "InstanceId",
    "disk": "DiskId",
    "nic": "NetworkInterfaceId",
    "group": "SecurityGroupId",
    "deployment_set": "DeploymentSetId",
    "vpc": "VpcId",
    "vswitch": "VSwitchId",
    "eip": "AllocationId",
    "keypair": "KeyPairName",
    "reservation": "PrivatePoolOptionsId",
    "reserved": "ReservedInstanceId",
    "snapshot": "SnapshotId",
    "image": "ImageId",
    "event": "EventId",
    "role": "Arn",
    "session": "AccessKeyId",
    "key": "KeyId",
    "bucket": "Name",
    "object": "_path",
    "upload": "UploadId",
    "token": "_token",
    "quota": "_name",
}
"""The kinds of resource, and the member that holds the id of each."""

_PREFIXES = {
    "instance": "i",
    "disk": "d",
    "nic": "eni",
    "group": "sg",
    "deployment_set": "ds",
    "vpc": "vpc",
    "vswitch": "vsw",
    "snapshot": "s",
    "image": "m",
    "keypair": "ssh",
    "eip": "eip",
    "event": "e",
    "reservation": "crp",
    "reserved": "ecsri",
}
_DIGITS = string.digits + string.ascii_lowercase


class Region:
    """One region.

    Args:
        world: the shared parts of the sandbox: database, clock, ledger, market.
        shelf: Alibaba Cloud's resources.
        name: the region's id.
    """

    def __init__(self, world: World, shelf: Shelf, name: str) -> None:
        self.world = world
        self.name = name
        self._shelf = shelf

    @property
    def now(self) -> datetime:
        """The clouds' time."""
        return self.world.clock.now()

    @property
    def stamp(self) -> str:
        """The clouds' time to the microsecond, for the sandbox's own use."""
        return stamp(self.now)

    @property
    def second(self) -> str:
        """The clouds' time as the APIs write it."""
        return f"{self.now:%Y-%m-%dT%H:%M:%SZ}"

    @property
    def minute(self) -> str:
        """The clouds' time as instances show it."""
        return f"{self.now:%Y-%m-%dT%H:%MZ}"

    def later(self, seconds: float) -> str:
        """A time to come, for the sandbox's own use."""
        return stamp(self.now + timedelta(seconds=seconds))

    # --- resources

    def all(self, kind: str) -> Mapping[str, Document]:
        """All resources of a kind, by id."""
        return self._shelf.all(self.name, kind)

    def put(self, kind: str, document: Document) -> Document:
        """Stores a new or changed resource."""
        return self._shelf.put(self.name, kind, document[ID_KEYS[kind]], document)

    def drop(self, kind: str, id_: str) -> None:
        """Removes a resource."""
        self._shelf.drop(self.name, kind, id_)

    def new_id(self, kind: str) -> str:
        """A fresh id such as ``i-bp1a2b3c4d5e6f7g8h9i``."""
        number = int(self.world.token(26), 16)
        text = ""
        while len(text) < 17:
            number, digit = divmod(number, 36)
            text += _DIGITS[digit]
        return f"{_PREFIXES[kind]}-bp1{text}"

    # --- what is sold where

    @property
    def zones(self) -> list[str]:
        """The region's zones: those of the catalog, and any in which it sells something."""
        catalog = self.world.market.catalog(CLOUD)
        selling = {
            zone for (region, _), zones in catalog.offered.items() if region == self.name for zone in zones
        }
        return sorted({*catalog.zones.get(self.name, ()), *selling}) or [f"{self.name}-a"]

    def zones_of(self, instance_type: str) -> list[str]:
        """The zones that sell a type: every zone of the region where the catalog has prices but no zones."""
        catalog = self.world.market.catalog(CLOUD)
        zones = catalog.offered.get((self.name, instance_type))
        if zones:
            return sorted(zones)
        prices = catalog.prices
        sold = any((self.name, "", instance_type, way) in prices for way in ("on_demand", "spot"))
        return self.zones if sold else []

    def type_of(self, name: str) -> InstanceType | None:
        """A type's hardware; ``None`` for one that this region does not sell."""
        return self.world.market.catalog(CLOUD).types.get(name) if self.zones_of(name) else None


def gpu_spec(type_: InstanceType) -> str:
    """How ECS calls the GPUs of a type; empty for a type without any."""
    return f"NVIDIA {type_.gpu_model}" if type_.gpu_model else ""


def known_regions(world: World) -> list[str]:
    """The regions of the catalog."""
    return sorted(world.market.catalog(CLOUD).zones)


def tags_of(document: Mapping[str, Any]) -> dict[str, str]:
    """A resource's tags, whichever API it belongs to."""
    pairs = document.get("Tags", {}).get("Tag", [])
    return {pair.get("TagKey") or pair["Key"]: pair.get("TagValue", pair.get("Value", "")) for pair in pairs}


def asked_tags(parameters: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a call for the resources that it creates.

    Raises:
        AlibabaError: the cloud takes no such tags.
    """
    pairs: list[Mapping[str, str]] = parameters.get("Tag") or []
    if len(pairs) > 20:
        raise AlibabaError("QuotaExceed.Tags", "The number of tags exceeds the limit of 20.", 403)
    tags: dict[str, str] = {}
    for pair in pairs:
        key, value = pair.get("Key", ""), pair.get("Value", "")
        web = any(scheme in text for text in (key, value) for scheme in ("http://", "https://"))
        if not 0 < len(key) <= 128 or key.lower().startswith(("aliyun", "acs:")) or web:
            raise AlibabaError("InvalidTagKey.Malformed", f"The specified Tag.n.Key {key!r} is not valid.")
        if len(value) > 128:
            raise AlibabaError(
                "InvalidTagValue.Malformed", f"The specified Tag.n.Value of {key} is not valid."
            )
        if key in tags:
            raise AlibabaError("Duplicate.TagKey", f"The Tag.n.Key {key} contains duplicate keys.")
        tags[key] = value
    return tags


def ecs_tags(tags: Mapping[str, str]) -> Document:
    """Tags as ECS shows them."""
    return {"Tag": [{"TagKey": key, "TagValue": value} for key, value in tags.items()]}


def vpc_tags(tags: Mapping[str, str]) -> Document:
    """Tags as the VPC API shows them."""
    return {"Tag": [{"Key": key, "Value": value} for key, value in tags.items()]}


def has_tags(document: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
    """Whether a resource has all tags that a question names; without a value any will do."""
    own = tags_of(document)
    for pair in parameters.get("Tag") or ():
        key = pair.get("Key") or pair.get("key")
        if key is None:
            raise AlibabaError("InvalidParameter.TagValue", "A tag value needs its key.")
        value = pair.get("Value") or pair.get("value")
        if key not in own or (value and own[key] != value):
            return False
    return True


def shown(document: Document) -> Document:
    """A resource without the sandbox's own fields."""
    return {name: value for name, value in document.items() if not name.startswith("_")}


def page_by_number(
    items: list[Document], parameters: Mapping[str, Any], most: int
) -> tuple[list[Document], Document]:
    """One page by number, and the members about the page."""
    number, size = int(parameters.get("PageNumber", 1)), int(parameters.get("PageSize", 10))
    if number < 1 or not 1 <= size <= most:
        raise AlibabaError("InvalidParameter", f"PageNumber {number} or PageSize {size} is not valid.")
    about: Document = {"TotalCount": len(items), "PageNumber": number, "PageSize": size}
    return items[(number - 1) * size : number * size], about


def page(items: list[Document], parameters: Mapping[str, Any]) -> tuple[list[Document], Document]:
    """One page, by token where the caller names ``MaxResults`` or ``NextToken``, else by number."""
    if "MaxResults" not in parameters and "NextToken" not in parameters:
        found, about = page_by_number(items, parameters, 100)
        return found, {**about, "NextToken": ""}
    size, at = int(parameters.get("MaxResults", 10)), parameters.get("NextToken") or "0"
    if not 1 <= size <= 100 or not str(at).isdecimal():
        raise AlibabaError("InvalidParameter", f"MaxResults {size} or NextToken {at!r} is not valid.")
    end = int(at) + size
    return items[int(at) : end], {"TotalCount": len(items), "NextToken": str(end) if end < len(items) else ""}

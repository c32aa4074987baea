"""Sizes that the subscription may not rent in a place: marked in its list of sizes, refused by a PUT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpucloud_sandbox.azure.subscription import Subscription
from gpucloud_sandbox.database import Document

_SETTING = "azure_restrictions"


def restrict(subscription: Subscription, rules: Iterable[Mapping[str, Any]]) -> None:
    """Restricts what matches any of these rules (globs ``region``, ``instance_type``, ``zone``) only."""
    kept = [
        {name: str(rule.get(name, "*")) for name in ("region", "instance_type", "zone")} for rule in rules
    ]
    subscription.world.database.keep_setting(_SETTING, kept)


def restricted(subscription: Subscription, region: str, size: str, zone: str) -> bool:
    """Whether a size is restricted in a zone; in the whole region for no zone."""
    rules: list[dict[str, str]] = subscription.world.database.setting(_SETTING) or []
    return any(
        fnmatchcase(region, rule["region"])
        and fnmatchcase(size, rule["instance_type"])
        and (rule["zone"] == "*" if not zone else fnmatchcase(zone, rule["zone"]))
        for rule in rules
    )


def of_size(subscription: Subscription, region: str, size: str, zones: Iterable[str]) -> list[Document]:
    """The ``restrictions`` of a size in a region's list."""
    if restricted(subscription, region, size, ""):
        return [_restriction("Location", [region], {"locations": [region]})]
    closed = [zone for zone in zones if restricted(subscription, region, size, zone)]
    return [_restriction("Zone", [region], {"locations": [region], "zones": closed})] if closed else []


def _restriction(kind: str, values: list[str], where: Document) -> Document:
    return {
        "type": kind,
        "values": values,
        "restrictionInfo": where,
        "reasonCode": "NotAvailableForSubscription",
    }

"""Patterns for clouds, regions, zones and instance types: names, globs, geo groups, ``!x`` to exclude."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache

from gpucloud_pricing.suggestions import closest
from gpucloud_pricing.values import Region

MOST_NAMES = 150
"""How many names an error lists; of more, and if one is misspelt, the :data:`MOST_LIKE` most similar."""
MOST_LIKE = 10
_WILDCARDS = frozenset("*?[")


class BadPlaceError(ValueError):
    """A pattern that matches no cloud, region, zone or instance type.

    Attributes:
        field: ``clouds``, ``regions``, ``residency``, ``zones`` or ``instance_types``.
        value: the pattern.
        nearest: the nearest name, if one is near.
        existing: the names that exist at the clouds of the demand, as text by cloud; of many, the most
            similar ones. For the name that a zone has in an account, the IDs of the zones of its region.
    """

    def __init__(
        self,
        field: str,
        value: str,
        names: frozenset[str],
        by_cloud: Mapping[str, Iterable[str]],
        *,
        zone_ids: Iterable[str] = (),
    ) -> None:
        plain = value.removeprefix("!")
        close = [] if zone_ids else _closest_names(plain, names, most=1, least=0.6)
        if field == "clouds" and plain.lower() in OTHER_NAMES:
            close = [OTHER_NAMES[plain.lower()]]
        hint = f"; did you mean {close[0]}?" if close else ""
        super().__init__(f"unknown {field.removesuffix('s').replace('_', ' ')} {value!r}{hint}")
        self.field = field
        self.value = value
        self.nearest = close[0] if close else None
        misspelt = bool(_closest_names(plain, names, most=1, least=0.8))
        self.existing = (
            f"zones of {plain[:-1]} are written as IDs: {', '.join(sorted(zone_ids))}. A name such as "
            f"{plain} is another zone in each account; `aws ec2 describe-availability-zones` shows "
            "the IDs of yours"
            if zone_ids
            else _listing(field, plain, by_cloud, most=MOST_LIKE if misspelt else MOST_NAMES)
        )


def knows(names: frozenset[str], pattern: str) -> bool:
    """Whether a pattern, with or without ``!``, matches any name."""
    return _any_match(pattern.removeprefix("!"), names)


def admits(patterns: tuple[str, ...], names: frozenset[str]) -> bool:
    """Whether a place with these names is admitted.

    No ``!x`` may match, and one of the other patterns must match, if there are any.
    """
    positive = False
    hit = False
    for pattern in patterns:
        if pattern.startswith("!"):
            if _any_match(pattern[1:], names):
                return False
        else:
            positive = True
            hit = hit or _any_match(pattern, names)
    return hit or not positive


def knows_type(names: frozenset[str], pattern: str) -> bool:
    """As :func:`knows`, for instance types: case does not matter."""
    return knows(frozenset(map(str.lower, names)), pattern.lower())


def admits_type(patterns: tuple[str, ...], name: str) -> bool:
    """As :func:`admits`, for an instance type: case does not matter."""
    return admits(tuple(map(str.lower, patterns)), frozenset({name.lower()}))


def names_specially(patterns: tuple[str, ...], name: str, head: str) -> bool:
    """Whether a pattern explicitly requests a place that is left out by default.

    A glob does if the text before its first wildcard begins with ``head``: ``us-gov-*`` requests GovCloud,
    ``us-*`` does not. Geo groups never do.
    """
    return any(
        pattern == name or (_head(pattern).startswith(head) and fnmatchcase(name, pattern))
        for pattern in patterns
    )


@cache
def region_names(region: Region) -> frozenset[str]:
    """The names of a region for patterns: its name, its geo groups, and its city: ``frankfurt``."""
    return region.geos | {region.name} | _cities(region)


def _cities(region: Region) -> frozenset[str]:
    """The city in a region's display name, ``Europe (Frankfurt)``, or the state; Azure's have none."""
    found = re.search(r"\((?:N\. )?([^()]+?)(?: - Local Region)?\)", region.display_name)
    text = AZURE_CITIES.get(region.name, "") if region.cloud == "azure" else found[1] if found else ""
    word = text.lower().replace(" ", "-")
    return frozenset() if not word or word in _NO_CITIES else frozenset({word})


AZURE_CITIES = {
    "australiaeast": "Sydney",
    "australiasoutheast": "Melbourne",
    "austriaeast": "Vienna",
    "brazilsouth": "Sao Paulo",
    "canadacentral": "Toronto",
    "canadaeast": "Quebec",
    "centralindia": "Pune",
    "centralus": "Iowa",
    "eastasia": "Hong Kong",
    "eastus": "Virginia",
    "eastus2": "Virginia",
    "francecentral": "Paris",
    "francesouth": "Marseille",
    "germanynorth": "Berlin",
    "germanywestcentral": "Frankfurt",
    "italynorth": "Milan",
    "japaneast": "Tokyo",
    "japanwest": "Osaka",
    "koreacentral": "Seoul",
    "koreasouth": "Busan",
    "northcentralus": "Illinois",
    "northeurope": "Ireland",
    "norwayeast": "Oslo",
    "polandcentral": "Warsaw",
    "qatarcentral": "Doha",
    "southafricanorth": "Johannesburg",
    "southafricawest": "Cape Town",
    "southcentralus": "Texas",
    "southeastasia": "Singapore",
    "southindia": "Chennai",
    "spaincentral": "Madrid",
    "switzerlandnorth": "Zurich",
    "switzerlandwest": "Geneva",
    "uaenorth": "Dubai",
    "uksouth": "London",
    "ukwest": "Cardiff",
    "westcentralus": "Wyoming",
    "westeurope": "Netherlands",
    "westindia": "Mumbai",
    "westus": "California",
    "westus2": "Washington",
    "westus3": "Phoenix",
}
"""The cities, or states, of Azure's regions, whose names have none.

Source: https://learn.microsoft.com/en-us/azure/reliability/regions-list ("Physical location").
"""
_NO_CITIES = frozenset({"central", "us-east", "us-west"})
OTHER_NAMES = {
    "alicloud": "alibaba",
    "aliyun": "alibaba",
    "amazon": "aws",
    "az": "azure",
    "ec2": "aws",
    "ecs": "alibaba",
    "microsoft": "azure",
}
"""What people call the clouds elsewhere."""


def opt_in_head(zone: str, region: Region) -> str | None:
    """The prefix of a zone that an account must opt in to; ``None`` for an ordinary zone."""
    return _matched_head(region.opt_in_zones, zone) if region.opt_in_zones else None


@cache  # asked for each of 100,000 prices, of a few hundred zones
def _matched_head(pattern: str, zone: str) -> str | None:
    head = re.match(pattern, zone)
    return head and head.group()


def _listing(field: str, pattern: str, by_cloud: Mapping[str, Iterable[str]], *, most: int) -> str:
    """Names by cloud, as text; of many, those most like a pattern."""
    what = field.replace("_", " ")
    if field == "clouds":
        return f"{what}: {', '.join(sorted(by_cloud))}"
    names = {cloud: frozenset(names) for cloud, names in by_cloud.items()}
    count = sum(map(len, names.values()))
    head = f"{what} of "
    if count > most:
        some = frozenset(
            _closest_names(pattern, frozenset[str]().union(*names.values()), most=MOST_LIKE, least=0)
        )
        names = {cloud: each & some for cloud, each in names.items()}
        head = f"the most similar of {count} {what}: "
    return head + "; ".join(
        f"{cloud}: {', '.join(sorted(each))}" for cloud, each in sorted(names.items()) if each
    )


def _closest_names(pattern: str, names: frozenset[str], *, most: int, least: float) -> list[str]:
    """The names most like a pattern, whatever their case, the closest first; ``least`` from 0 to 1."""
    by_lower = {name.lower(): name for name in sorted(names)}
    return [by_lower[low] for low in closest(pattern.lower(), by_lower, most=most, least=least)]


def _any_match(pattern: str, names: frozenset[str]) -> bool:
    if pattern in names:
        return True
    return not _WILDCARDS.isdisjoint(pattern) and any(fnmatchcase(name, pattern) for name in names)


def _head(pattern: str) -> str:
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0]

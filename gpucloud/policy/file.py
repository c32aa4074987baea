"""Reads the rules of a policy from YAML; errors name the line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from gpucloud.errors import UsageError
from gpucloud.journal.policy import EVERYBODY, Rules
from gpucloud.resources import OWNER_ID
from gpucloud.spec import fields as read
from gpucloud.spec.yaml import parse
from gpucloud_pricing import Demand, Market
from gpucloud_pricing.gpu_models import BY_NAME
from gpucloud_pricing.places import BadPlaceError, knows_type

HINT = "such as: {regions: [eu], max_price: 4.50, boxes: 3, ttl: 24h}; see docs/policy.md"
_PLACES = ("clouds", "regions", "instance_types")


def read_rules(data: bytes, source: str, market: Market) -> Rules:
    """Reads rules; a document without any allows everything.

    Args:
        data: YAML, in UTF-8.
        source: where it is from, for messages.
        market: has the clouds, regions and types that exist.

    Raises:
        UsageError: a key is unknown, or a value is not allowed; with file and line.
    """
    file = parse(data, source)
    values: dict[str, Any] = {}
    for name, line in file.lines.items():
        where = f"{source}:{line}"
        if name not in _READERS:
            raise UsageError(
                f"{where}: unknown key {read.shown(name)}{read.nearest(name, _READERS)}", hint=HINT
            )
        try:
            if name in file.fields:
                values[_FIELDS.get(name, name)] = _READERS[name](file.fields[name])
            if name in _PLACES:
                market.check(Demand(**{name: values.get(name, ())}))
        except (ValueError, BadPlaceError) as error:
            hint = error.existing if isinstance(error, BadPlaceError) else HINT
            raise UsageError(f"{where}: {name}: {error}", hint=hint) from None
    return Rules(**values)


def _gpus(value: object) -> tuple[str, ...]:
    for pattern in (found := read.patterns(value)):
        if not knows_type(frozenset(BY_NAME), pattern):
            raise ValueError(f"unknown GPU {read.shown(pattern)}")
    return found


def _purchases(value: object) -> tuple[str, ...]:
    return tuple(map(str, read.purchases(value)))


def _folders(value: object) -> tuple[str, ...]:
    return tuple(map(read.store_url, cast("list[object]", value) if isinstance(value, list) else [value]))


def _names_of_tags(value: object) -> tuple[str, ...]:
    names = cast("list[object]", value) if isinstance(value, list) else [value]
    return tuple(read.tags({str(name): "x" for name in names}))


def _ttl(value: object) -> int:
    return int(read.interval(value).total_seconds())


def _by_owner(limit: Callable[[object], object]) -> Callable[[object], dict[str, Any]]:
    """Makes a parser of a limit for everybody, or of limits by owner id."""

    def by_owner(value: object) -> dict[str, Any]:
        limits = cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {EVERYBODY: value}
        for owner in limits:
            if owner != EVERYBODY and not OWNER_ID.fullmatch(owner):
                raise ValueError(
                    f"{read.shown(owner)} is no owner id; allowed: one, or {EVERYBODY!r} for all others"
                )
        return {owner: limit(each) for owner, each in limits.items()}

    return by_owner


_READERS: Mapping[str, Callable[[object], Any]] = {
    "clouds": read.patterns,
    "regions": read.patterns,
    "instance_types": read.patterns,
    "gpus": _gpus,
    "purchase": _purchases,
    "max_price": read.usd,
    "boxes": _by_owner(read.whole(0, 1_000_000, "a whole number of boxes")),
    "per_hour": _by_owner(read.usd),
    "tags": _names_of_tags,
    "ttl": _ttl,
    "checkpoint_to": _folders,
}
_FIELDS = {"ttl": "ttl_s"}

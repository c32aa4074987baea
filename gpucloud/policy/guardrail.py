"""What a cloud itself can hold of the rules, and what it cannot. Pure functions."""

from __future__ import annotations

from gpucloud.journal.policy import Rules
from gpucloud.policy.rules import words
from gpucloud.resources import Bounds
from gpucloud_pricing import Market
from gpucloud_pricing.places import admits, admits_type, region_names

_ALONE = ("max_price", "boxes", "per_hour", "ttl", "checkpoint_to")
"""The rules that no cloud can hold."""


def bounds_of(rules: Rules, cloud: str, market: Market) -> Bounds:
    """What the rules leave of a cloud, in its own names as far as the market knows them."""
    known = {name: region_names(region) for (of, name), region in market.regions.items() if of == cloud}
    regions = tuple(sorted(name for name, names in known.items() if admits(rules.regions, names)))
    types = tuple(
        sorted(
            name
            for (of, name), kind in market.types.items()
            if of == cloud
            and admits_type(rules.instance_types, name)
            and admits_type(rules.gpus, kind.gpu_model)
        )
    )
    return Bounds(
        allowed=admits(rules.clouds, frozenset({cloud})) and bool(regions) and bool(types),
        regions=regions if rules.regions else None,
        other_regions=tuple(sorted(set(known) - set(regions))),
        instance_types=types if rules.instance_types or rules.gpus else None,
        purchases=rules.purchase or None,
        tags=rules.tags,
    )


def not_held(rules: Rules) -> list[str]:
    """The rules that no cloud can hold, each in a sentence."""
    return [
        f"No cloud can hold `{words(rules, rule)}`: gpucloud alone looks at it."
        for rule in _ALONE
        if rule in rules.given
    ]

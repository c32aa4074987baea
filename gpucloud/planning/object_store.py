"""The clouds by the schemes of their object stores."""

from __future__ import annotations

from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import UsageError
from gpucloud.runtime.context import Context
from gpucloud_pricing import Market
from gpucloud_pricing.places import admits, region_names


def store_of(context: Context, scheme: str, field: str) -> Cloud:
    """The cloud with the object store of a scheme, which a field of the spec names.

    Raises:
        UsageError: no installed cloud has it.
    """
    known: dict[str, Cloud] = {}
    for name in context.clouds.names():
        try:
            cloud = context.clouds[name]
        except ImportError:
            continue
        if cloud.store_scheme is not None:
            known[cloud.store_scheme] = cloud
    if scheme not in known:
        allowed = ", ".join(f"{each}://" for each in sorted(known)) or "none with the installed clouds"
        raise UsageError(f"{field}: {scheme}:// is not supported; allowed: {allowed}")
    return known[scheme]


def refuse_outside(market: Market, residency: tuple[str, ...], place: tuple[str, str], field: str) -> None:
    """Refuses a bucket outside of the residency; also one of which nobody knows where it is.

    Args:
        market: the regions and their groups.
        residency: where it may be, as in a spec; empty for anywhere.
        place: the cloud and the region of the bucket.
        field: the field of the spec that names the bucket.

    Raises:
        UsageError: it is outside.
    """
    region = market.regions.get(place)
    names = region_names(region) if region else frozenset({place[1]})
    if not admits(residency, names):
        outside = f"outside of the residency {', '.join(residency)}"
        raise UsageError(
            f"{field}: the bucket is in {place[0]} {place[1]}, {outside}",
            hint="use a bucket inside of it, or another --residency",
        )

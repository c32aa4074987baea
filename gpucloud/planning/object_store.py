"""The clouds by the schemes of their object stores."""

from __future__ import annotations

from functools import partial

from gpucloud.clouds import stores
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import UsageError
from gpucloud.runtime.context import Context
from gpucloud.spec.model import Spec
from gpucloud_pricing import Market
from gpucloud_pricing.demand import BucketPlace
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
        if (theirs := stores.scheme_of(cloud)) is not None:
            known[theirs] = cloud
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
    if not admits(residency, _names(market, place)):
        outside = f"outside of the residency {', '.join(residency)}"
        raise UsageError(
            f"{field}: the bucket is in {place[0]} {place[1]}, {outside}",
            hint="use a bucket inside of it, or another --residency",
        )


def place_near(context: Context, market: Market, spec: Spec) -> BucketPlace | None:
    """Where the bucket is that a spec wants its boxes near; ``None`` if it names none.

    Raises:
        UsageError: there is no such bucket, it belongs to somebody else, or the spec leaves its region out.
        CloudError: the cloud did not answer.
    """
    if spec.near is None:
        return None
    scheme, _, address = spec.near.partition("://")
    cloud = store_of(context, scheme, "near")
    bucket, _ = context.tasks.run(partial(stores.locate, cloud, address))
    place = (cloud.name, bucket.region)
    refuse_outside(market, spec.residency, place, "near")
    for flag, patterns, names in (
        ("--cloud", spec.clouds, frozenset({cloud.name})),
        ("--region", spec.regions, _names(market, place)),
    ):
        if not admits(patterns, names):
            raise UsageError(
                f"near: {spec.near} is in {cloud.name} {bucket.region},"
                f" which {flag} {','.join(patterns)} leaves out",
                hint=f"omit --near, or use another {flag}",
            )
    return BucketPlace(url=spec.near, cloud=cloud.name, region=bucket.region)


def narrowed(context: Context, market: Market, spec: Spec) -> Spec:
    """A spec for the region of the bucket that it wants its boxes near, for what reads its places alone.

    Raises:
        GpucloudError: as :func:`place_near`.
    """
    place = place_near(context, market, spec)
    return spec if place is None else spec.replaced(near=None, clouds=(place.cloud,), regions=(place.region,))


def refuse_near(spec: Spec, command: str) -> None:
    """Refuses a bucket in the spec of a command that does not ask where it is.

    Raises:
        UsageError: the spec has one.
    """
    if spec.near is not None:
        raise UsageError(
            f"near: {command} does not look up where {spec.near} is",
            hint="name its place: --cloud NAME --region NAME",
        )


def _names(market: Market, place: tuple[str, str]) -> frozenset[str]:
    """The names of the region of a bucket for patterns; one that the market does not know has no groups."""
    region = market.regions.get(place)
    return region_names(region) if region else frozenset({place[1]})

"""Which image an order boots, and how it is secured (``images.toml``)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

from gpucloud.errors import UsageError
from gpucloud_templates.software import Image as BootImage
from gpucloud_templates.software import contents_of, own_image

_OWN_ID = re.compile(r"/(subscriptions|communityGalleries|sharedGalleries)/.+", re.IGNORECASE)
_URN = re.compile(r"[^:/\s]+:[^:/\s]+:[^:/\s]+:[^:/\s]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What a machine boots.

    Attributes:
        reference: the VM's ``imageReference``.
        trusted_launch: whether size and image take it.
        signed_driver: whether the image's driver boots under Secure Boot.
        driver_ready: whether NVIDIA's driver is on the image.
    """

    reference: Mapping[str, str]
    trusted_launch: bool
    signed_driver: bool
    driver_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of ``images.toml``. ``contents`` are the other fields of :class:`gpucloud_templates.Image`."""

    recipes: tuple[str, ...]
    arch: str
    sizes: tuple[str, ...]
    urn: str
    trusted_launch: bool
    signed_driver: bool
    driver_ready: bool
    contents: Mapping[str, Any]


@cache
def table() -> tuple[Sequence[Row], Sequence[str]]:
    """The rows, in the order in which they are tried, and the sizes that take no Trusted Launch."""
    text = files("gpucloud_azure").joinpath("images.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    rows = tuple(
        Row(
            recipes=tuple(row["recipes"]),
            arch=row["arch"],
            sizes=tuple(row["sizes"]),
            urn=row["urn"],
            trusted_launch=row["trusted_launch"],
            signed_driver=row["signed_driver"],
            driver_ready=row["driver_ready"],
            contents=contents_of(row),
        )
        for row in document["image"]
    )
    return rows, tuple(document["no_trusted_launch"])


def reference_of(name: str) -> Mapping[str, str] | None:
    """An image of the user's own as ``imageReference``; ``None`` for what is no id and no URN."""
    if _URN.fullmatch(name):
        publisher, offer, sku, version = name.split(":")
        return {"publisher": publisher, "offer": offer, "sku": sku, "version": version}
    if not _OWN_ID.fullmatch(name):
        return None
    head = name.lower()
    if head.startswith("/communitygalleries/"):
        return {"communityGalleryImageId": name}
    if head.startswith("/sharedgalleries/"):
        return {"sharedGalleryImageId": name}
    return {"id": name}


def image_for(recipe: str, arch: str, size: str) -> Image:
    """The image of a recipe, or the user's own, on a size.

    An image of the user's own is booted without Trusted Launch: whether it supports that is not known.

    Raises:
        UsageError: no row fits; names the recipes that there are.
    """
    own = reference_of(recipe)
    if own is not None:
        return Image(reference=own, trusted_launch=False, signed_driver=False, driver_ready=False)
    row = _row_for(recipe, arch, size)
    reference = reference_of(row.urn)
    assert reference is not None  # noqa: S101  (the table's own)
    takes = not any(fnmatchcase(size, pattern) for pattern in table()[1])
    return Image(
        reference=reference,
        trusted_launch=row.trusted_launch and takes,
        signed_driver=row.signed_driver,
        driver_ready=row.driver_ready,
    )


def boot_image(recipe: str, arch: str, size: str) -> BootImage:
    """What a recipe, or a user's own image, boots on a size.

    Raises:
        UsageError: no row fits.
    """
    if reference_of(recipe) is not None:
        return own_image(recipe)
    row = _row_for(recipe, arch, size)
    return BootImage(name=row.urn, **row.contents)


def _row_for(recipe: str, arch: str, size: str) -> Row:
    rows, _ = table()
    for row in rows:
        if (
            row.arch == arch
            and any(fnmatchcase(recipe, pattern) for pattern in row.recipes)
            and any(fnmatchcase(size, pattern) for pattern in row.sizes)
        ):
            return row
    known = sorted({pattern for row in rows for pattern in row.recipes})
    raise UsageError(
        f"Azure has no image for {recipe!r} on {arch}",
        hint=f"use one of {', '.join(known)}, or your own image (an id, or publisher:offer:sku:version)",
    )

"""Which image an order boots (``images.toml``): public ids carry a date, so the newest is looked up."""

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
from gpucloud.resources import Order
from gpucloud_alibaba.clients import ecs_models, listed
from gpucloud_alibaba.errors import NoImageError, reading
from gpucloud_templates.software import Image as BootImage
from gpucloud_templates.software import contents_of, driver, own_image

_OWN = re.compile(r"m-[a-z0-9]+|.+\.vhd")
_ARCHITECTURES = {"x86_64": "x86_64", "arm64": "arm64"}
_DRIVER = re.compile(r"NVIDIA\D{0,40}driver\D{0,10}(\d{3})\b", re.IGNORECASE)
PAGE_SIZE = 100  # the API's most
PAGES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One row of ``images.toml``. ``driver_ready`` says that NVIDIA's driver is on the image.

    ``contents`` are the other fields of :class:`gpucloud_templates.Image`.
    """

    recipes: tuple[str, ...]
    arch: str
    prefix: str
    user: str
    driver_ready: bool
    contents: Mapping[str, Any]


@cache
def table() -> Sequence[Image]:
    """The rows, in the order in which they are tried."""
    text = files("gpucloud_alibaba").joinpath("images.toml").read_text(encoding="utf-8")
    return tuple(
        Image(
            recipes=tuple(row["recipes"]),
            arch=row["arch"],
            prefix=row["prefix"],
            user=row["user"],
            driver_ready=row["driver_ready"],
            contents=contents_of(row),
        )
        for row in tomllib.loads(text)["image"]
    )


def is_own(image: str) -> bool:
    """Whether an order's image is an id of Alibaba's rather than a recipe."""
    return bool(_OWN.fullmatch(image))


def image_for(recipe: str, arch: str) -> Image:
    """The row of a recipe.

    Raises:
        UsageError: no row fits; names the recipes that there are.
    """
    for image in table():
        if image.arch == arch and any(fnmatchcase(recipe, pattern) for pattern in image.recipes):
            return image
    known = sorted({pattern for image in table() for pattern in image.recipes})
    raise UsageError(
        f"Alibaba Cloud has no image for {recipe!r} on {arch}",
        hint=f"use one of {', '.join(known)}, or an image id of your own (m-…, ….vhd)",
    )


def boot_image(recipe: str, arch: str) -> BootImage:
    """What a recipe, or a user's own image, boots.

    Raises:
        UsageError: no row fits.
    """
    if is_own(recipe):
        return own_image(recipe)
    image = image_for(recipe, arch)
    return BootImage(name=f"{image.prefix}*", **image.contents)


def newest(image: Image, ecs: Any, order: Order) -> str:
    """The id of the newest public image that an order can boot: one with NVIDIA's driver where a recipe needs
    it and the region has one on the same system, else the row's own.

    Raises:
        NoImageError: the region has none.
    """
    shown = _public(image, ecs, order)
    with_driver = (
        [] if order.image.startswith("ubuntu") else [each for each in shown if _fits(each, image, order)]
    )
    plain = [each for each in shown if each.image_id.startswith(image.prefix)]
    with reading("DescribeImages"):
        for found in (with_driver, plain):
            if found:
                return str(max((each.creation_time, each.image_id) for each in found)[1])
    raise NoImageError(
        f"{order.region} has no public image {image.prefix}… that {order.instance_type} can boot"
    )


def _fits(shown: Any, image: Image, order: Order) -> bool:
    """Whether a public image has the driver that would be installed otherwise, on the system planned for.

    Goes by what its name says: its id is not known beforehand.
    """
    said = _DRIVER.search(str(shown.image_name or ""))
    system = " ".join(str(shown.osname_en or shown.osname or "").lower().split())
    return (
        said is not None
        and said[1] == driver().branch
        and system.startswith(str(image.contents["system"]).replace("-", " "))
        and int(shown.size or 0) <= order.disk_gib
    )


def _public(image: Image, ecs: Any, order: Order) -> list[Any]:
    """The public images that an instance type can boot."""
    models = ecs_models()
    seen: list[Any] = []
    for page in range(1, PAGES + 1):
        body = ecs.describe_images(
            models.DescribeImagesRequest(
                region_id=order.region,
                image_owner_alias="system",
                ostype="linux",
                architecture=_ARCHITECTURES[image.arch],
                instance_type=order.instance_type,
                is_support_cloudinit=True,
                status="Available",
                page_number=page,
                page_size=PAGE_SIZE,
            )
        ).body
        with reading("DescribeImages"):
            shown = listed(body.images.image)
            seen += shown
        if len(shown) < PAGE_SIZE:
            break
    return seen

"""How a box boots: the image of an order (``images.toml``), and the metadata service.

Public ids contain a date, so the newest is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpucloud.clouds.abilities import Boot
from gpucloud.clouds.kit import ImageRow, image_row, read_images
from gpucloud.resources import Order
from gpucloud_alibaba.clients import listed
from gpucloud_alibaba.errors import NoImageError, reading
from gpucloud_alibaba.models import ecs_models
from gpucloud_templates import Metadata
from gpucloud_templates.software import Image as BootImage
from gpucloud_templates.software import driver, own_image

_OWN = re.compile(r"m-[a-z0-9]+|.+\.vhd")
_ARCHITECTURES = {"x86_64": "x86_64", "arm64": "arm64"}
_DRIVER = re.compile(r"NVIDIA\D{0,40}driver\D{0,10}(\d{3})\b", re.IGNORECASE)
PAGE_SIZE = 100  # the API's most
PAGES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(ImageRow):
    """One row of ``images.toml``. ``driver_ready`` says that NVIDIA's driver is on the image."""

    prefix: str
    user: str
    driver_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An image in a region. ``hardened`` says that machines of it can require tokens for their metadata."""

    id: str
    hardened: bool


@cache
def table() -> Sequence[Image]:
    """The rows, in the order in which they are tried."""
    return read_images("gpucloud_alibaba", Image)


def is_own(image: str) -> bool:
    """Whether an order's image is an id of Alibaba Cloud, not a recipe."""
    return bool(_OWN.fullmatch(image))


def image_for(recipe: str, arch: str) -> Image:
    """The row of a recipe.

    Raises:
        UsageError: no row fits; the message lists the recipes.
    """
    own = "an image id of your own (m-…, ….vhd)"
    return image_row(table(), recipe, arch, "", cloud="Alibaba Cloud", own=own)


def own(ecs: Any, order: Order) -> Found:
    """The image whose id an order names.

    Raises:
        NoImageError: the region has none of this id, or shows it to nobody of this account.
    """
    models = ecs_models()
    body = ecs.describe_images(
        models.DescribeImagesRequest(region_id=order.region, image_id=order.image)
    ).body
    with reading("DescribeImages"):
        for shown in listed(body.images.image):
            if shown.image_id == order.image:
                return _found(shown)
    raise NoImageError(f"{order.region} has no image {order.image} that this account can use")


def _found(shown: Any) -> Found:
    """An image of an answer.

    Only a machine of an image with ``ImdsSupport`` v2 can require tokens; v1 is the default of images of
    one's own (alibabacloud-ecs20140526 7.11.8, CreateImagePipeline).
    """
    features = shown.features
    return Found(id=str(shown.image_id), hardened=bool(features and features.imds_support == "v2"))


def newest(image: Image, ecs: Any, order: Order) -> Found:
    """The newest public image that an order can boot: one with NVIDIA's driver where a recipe needs it and
    the region has one on the same system, else the row's own.

    Raises:
        NoImageError: the region has none.
    """
    shown = _public(image, ecs, order)
    with reading("DescribeImages"):
        with_driver = (
            [] if order.image.startswith("ubuntu") else [each for each in shown if _fits(each, image, order)]
        )
        plain = [each for each in shown if each.image_id.startswith(image.prefix)]
        for found in (with_driver, plain):
            if found:
                return _found(max(found, key=lambda each: (each.creation_time, each.image_id)))
    raise NoImageError(
        f"{order.region} has no public image {image.prefix}… that {order.instance_type} can boot"
    )


def _fits(shown: Any, image: Image, order: Order) -> bool:
    """Whether a public image has the driver and the system of the row.

    Decided by its name: its id is not known in advance.
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


class AlibabaBoot(Boot):
    """How boxes boot: their images, and the metadata service of ECS."""

    def boot_image(self, recipe: str, arch: str, instance_type: str, /) -> BootImage:  # noqa: ARG002  (images fit every type)
        """The image of a recipe, or a user's own image.

        Raises:
            UsageError: no row fits.
        """
        if is_own(recipe):
            return own_image(recipe)
        image = image_for(recipe, arch)
        return BootImage(name=f"{image.prefix}*", **image.contents)

    @property
    def metadata(self) -> Metadata:
        """The metadata service in hardened mode (ECS user guide, "Query the interruption events ...").

        The notice comes five minutes before.
        """
        return Metadata(
            url="http://100.100.100.200",
            notice="/latest/meta-data/instance/spot/termination-time",
            notice_s=300,
            token_path="/latest/api/token",  # noqa: S106  (where one is got)
            token_ttl_header="X-aliyun-ecs-metadata-token-ttl-seconds",  # noqa: S106
            token_header="X-aliyun-ecs-metadata-token",  # noqa: S106
        )

    @property
    def self_delete(self) -> None:
        """None: the bill ends without an identity of the box."""
        return

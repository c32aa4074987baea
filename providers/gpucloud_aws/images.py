"""Which image an order boots (``images.toml``)."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One row of ``images.toml``. ``driver_ready`` says that NVIDIA's driver is on the image.

    ``contents`` are the other fields of :class:`gpucloud_templates.Image`.
    """

    recipes: tuple[str, ...]
    arch: str
    families: tuple[str, ...]
    ssm: str
    user: str
    root_device: str
    driver_ready: bool
    contents: Mapping[str, Any]

    @property
    def image_id(self) -> str:
        """What RunInstances takes as ``ImageId``; EC2 resolves the parameter itself."""
        return f"resolve:ssm:{self.ssm}"


@cache
def table() -> Sequence[Image]:
    """The rows, in the order in which they are tried."""
    text = files("gpucloud_aws").joinpath("images.toml").read_text(encoding="utf-8")
    return tuple(
        Image(
            recipes=tuple(row["recipes"]),
            arch=row["arch"],
            families=tuple(row["families"]),
            ssm=row["ssm"],
            user=row["user"],
            root_device=row["root_device"],
            driver_ready=row["driver_ready"],
            contents=contents_of(row),
        )
        for row in tomllib.loads(text)["image"]
    )


def image_for(recipe: str, arch: str, instance_type: str) -> Image:
    """The image of a recipe on an instance type.

    Raises:
        UsageError: no row fits; names the recipes that there are.
    """
    family = instance_type.split(".", maxsplit=1)[0]
    for image in table():
        if (
            image.arch == arch
            and any(fnmatchcase(recipe, pattern) for pattern in image.recipes)
            and any(fnmatchcase(family, pattern) for pattern in image.families)
        ):
            return image
    known = sorted({pattern for image in table() for pattern in image.recipes})
    raise UsageError(
        f"AWS has no image for {recipe!r} on {arch}",
        hint=f"use one of {', '.join(known)}, or an image id of your own (ami-…)",
    )


def boot_image(recipe: str, arch: str, instance_type: str) -> BootImage:
    """What a recipe, or a user's own image, boots on an instance type.

    Raises:
        UsageError: no row fits.
    """
    if is_own(recipe):
        return own_image(recipe)
    image = image_for(recipe, arch, instance_type)
    return BootImage(name=image.ssm, **image.contents)


def is_own(recipe: str) -> bool:
    """Whether an order's image is an id of EC2's rather than a recipe."""
    return recipe.startswith("ami-")

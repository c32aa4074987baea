"""How a box boots: the image of an order (``images.toml``), and the metadata service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from gpucloud.clouds.abilities import Boot
from gpucloud.clouds.kit import ImageRow, image_row, read_images
from gpucloud_templates import Metadata
from gpucloud_templates.software import Image as BootImage
from gpucloud_templates.software import own_image


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(ImageRow):
    """One row of ``images.toml``. ``driver_ready`` says that NVIDIA's driver is on the image."""

    ssm: str
    user: str
    root_device: str
    driver_ready: bool

    @property
    def image_id(self) -> str:
        """The ``ImageId`` for RunInstances; EC2 resolves the SSM parameter itself."""
        return f"resolve:ssm:{self.ssm}"


@cache
def table() -> Sequence[Image]:
    """The rows, in the order in which they are tried."""
    return read_images("gpucloud_aws", Image)


def image_for(recipe: str, arch: str, instance_type: str) -> Image:
    """The image of a recipe on an instance type.

    Raises:
        UsageError: no row fits; the message lists the recipes.
    """
    family = instance_type.split(".", maxsplit=1)[0]
    return image_row(table(), recipe, arch, family, cloud="AWS", own="an image id of your own (ami-…)")


def is_own(recipe: str) -> bool:
    """Whether an order's image is an id of EC2, not a recipe."""
    return recipe.startswith("ami-")


class AwsBoot(Boot):
    """How boxes boot: their images, and the metadata service of EC2."""

    def boot_image(self, recipe: str, arch: str, instance_type: str, /) -> BootImage:
        """The image of a recipe, or a user's own image, on an instance type.

        Raises:
            UsageError: no row fits.
        """
        if is_own(recipe):
            return own_image(recipe)
        image = image_for(recipe, arch, instance_type)
        return BootImage(name=image.ssm, **image.contents)

    @property
    def metadata(self) -> Metadata:
        """Version 2 of its service (EC2 User Guide, "Spot Instance interruption notices": two minutes)."""
        return Metadata(
            url="http://169.254.169.254",
            notice="/latest/meta-data/spot/instance-action",
            notice_s=120,
            token_path="/latest/api/token",  # noqa: S106  (where one is got)
            token_ttl_header="X-aws-ec2-metadata-token-ttl-seconds",  # noqa: S106
            token_header="X-aws-ec2-metadata-token",  # noqa: S106
        )

    @property
    def self_delete(self) -> None:
        """None: the bill ends without an identity of the box."""
        return

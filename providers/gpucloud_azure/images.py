"""The image of an order, and its security type (``images.toml``)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

from gpucloud.clouds.abilities import Boot
from gpucloud.clouds.kit import ImageRow, image_row, read_images
from gpucloud.errors import UsageError
from gpucloud.resources import ResourceKind
from gpucloud_azure.clients import Clients
from gpucloud_azure.ids import api
from gpucloud_templates import Metadata, SelfDelete
from gpucloud_templates.software import Image as BootImage
from gpucloud_templates.software import own_image

_METADATA = "http://169.254.169.254"
_OWN_ID = re.compile(r"/(subscriptions|communityGalleries|sharedGalleries)/.+", re.IGNORECASE)
_OF_GALLERY = re.compile(r"/subscriptions/.+/galleries/[^/]+/images/.+", re.IGNORECASE)
_URN = re.compile(r"[^:/\s]+:[^:/\s]+:[^:/\s]+:[^:/\s]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The image of a machine.

    Attributes:
        reference: the VM's ``imageReference``.
        trusted_launch: whether size and image support it.
        signed_driver: whether the image's driver boots under Secure Boot.
        driver_ready: whether NVIDIA's driver is on the image.
    """

    reference: Mapping[str, str]
    trusted_launch: bool
    signed_driver: bool
    driver_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricImageRow(ImageRow):
    """One row of ``images.toml``. ``fabrics`` are the RDMA networks whose drivers are on the image."""

    urn: str
    trusted_launch: bool
    signed_driver: bool
    driver_ready: bool
    fabrics: tuple[str, ...] = ()


@cache
def table() -> Sequence[FabricImageRow]:
    """The rows, in the order in which they are tried."""
    return read_images("gpucloud_azure", FabricImageRow)


@cache
def without_trusted_launch() -> Sequence[str]:
    """The sizes without Trusted Launch, as globs."""
    text = files("gpucloud_azure").joinpath("images.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["no_trusted_launch"])


def reference_of(name: str) -> Mapping[str, str] | None:
    """A user's own image as ``imageReference``; ``None`` for text that is no id and no URN."""
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


def image_for(recipe: str, arch: str, size: str, is_trusted: Callable[[str], bool]) -> Image:
    """The image of a recipe, or a user's own, on a size.

    A user's own image boots without Trusted Launch, unless its gallery says that it boots with it only.

    Args:
        recipe: a recipe, an id or a URN.
        arch: the architecture.
        size: the size.
        is_trusted: whether the image of an id in a gallery of a subscription boots with Trusted Launch only.

    Raises:
        UsageError: no row fits, and the message lists the recipes; or the size has no Trusted Launch.
    """
    takes = not any(fnmatchcase(size, pattern) for pattern in without_trusted_launch())
    own = reference_of(recipe)
    if own is not None:
        trusted = _OF_GALLERY.fullmatch(recipe) is not None and is_trusted(recipe)
        if trusted and not takes:
            raise UsageError(f"the image boots with Trusted Launch only, which {size} does not have")
        return Image(reference=own, trusted_launch=trusted, signed_driver=False, driver_ready=False)
    row = _row_for(recipe, arch, size)
    reference = reference_of(row.urn)
    assert reference is not None  # noqa: S101  (the table's own)
    return Image(
        reference=reference,
        trusted_launch=row.trusted_launch and takes,
        signed_driver=row.signed_driver,
        driver_ready=row.driver_ready,
    )


def refuse_without(fabric: str, recipe: str, arch: str, size: str) -> None:
    """Refuses an image without the drivers of an RDMA network; a user's own image may have them.

    Without them NCCL falls back to TCP and says so in its log alone.

    Raises:
        UsageError: the image lacks them, or no row fits.
    """
    if reference_of(recipe) is not None:
        return
    row = _row_for(recipe, arch, size)
    if fabric not in row.fabrics:
        fitting = [each for each in table() if fabric in each.fabrics and arch == each.arch]
        ready = any(fnmatchcase(size, pattern) for each in fitting for pattern in each.machines)
        raise UsageError(
            f"{row.urn} has no drivers for {fabric} on {size}",
            hint=f"use --image {fitting[0].recipes[0] if ready else 'URN of an image of yours that has them'}"
            ", or leave --rdma out",
        )


def _row_for(recipe: str, arch: str, size: str) -> FabricImageRow:
    own = "your own image (an id, or publisher:offer:sku:version)"
    return image_row(table(), recipe, arch, size, cloud="Azure", own=own)


class AzureBoot(Boot):
    """How boxes boot: their images, and the instance metadata service.

    Args:
        clients: they know Resource Manager's endpoint.
    """

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def boot_image(self, recipe: str, arch: str, instance_type: str, /) -> BootImage:
        """The image of a recipe, or a user's own image, on a size.

        Raises:
            UsageError: no row fits.
        """
        if reference_of(recipe) is not None:
            return own_image(recipe)
        row = _row_for(recipe, arch, instance_type)
        return BootImage(name=row.urn, **row.contents)

    @property
    def metadata(self) -> Metadata:
        """Scheduled Events of the instance metadata service (azure-compute-docs, scheduled-events.md).

        Its notice comes up to 30 seconds before (spot-vms.md).
        """
        return Metadata(
            url=_METADATA,
            notice="/metadata/scheduledevents?api-version=2020-07-01",
            notice_s=30,
            headers={"Metadata": "true"},
        )

    @property
    def self_delete(self) -> SelfDelete:
        """By Resource Manager, with the machine's own identity.

        Source: "How to use managed identities on an Azure VM to acquire an access token".
        """
        endpoint = self._clients.endpoint
        return SelfDelete(
            url=_METADATA,
            headers={"Metadata": "true"},
            token=f"/metadata/identity/oauth2/token?api-version=2018-02-01&resource={endpoint}/",
            name="/metadata/instance/compute/resourceId?api-version=2021-02-01&format=text",
            endpoint=endpoint,
            query=f"?api-version={api(ResourceKind.INSTANCE)}&forceDeletion=true",
        )

"""The marketplace images of the sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpucloud_sandbox.azure.wire import AzureError


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image.

    Attributes:
        publisher: of the marketplace; empty for one of a gallery, like offer and sku.
        offer: the offer.
        sku: the sku.
        arch: the architecture, as the market has it.
        generation: of the hypervisor.
        driver: the version of NVIDIA's, if any.
        disk_gib: the least size of a disk.
        version: its version.
        security: the only security type of machines that boot from it; empty for any.
        files: the unique id of the files that it holds, if any.
    """

    publisher: str
    offer: str
    sku: str
    arch: str = "x86_64"
    generation: int = 2
    driver: str = ""
    disk_gib: int = 30
    version: str = "22.04.202610150"
    security: str = ""
    files: str = ""

    @property
    def architecture(self) -> str:
        """The architecture as Azure writes it."""
        return "x64" if self.arch == "x86_64" else "Arm64"


IMAGES = (
    Image(publisher="microsoft-dsvm", offer="ubuntu-hpc", sku="2204", driver="580.95.05", disk_gib=64),
    Image(publisher="microsoft-dsvm", offer="ubuntu-hpc", sku="2404", driver="580.95.05", disk_gib=64),
    Image(publisher="Canonical", offer="0001-com-ubuntu-server-jammy", sku="22_04-lts", generation=1),
    Image(publisher="Canonical", offer="0001-com-ubuntu-server-jammy", sku="22_04-lts-gen2"),
    Image(publisher="Canonical", offer="0001-com-ubuntu-server-jammy", sku="22_04-lts-arm64", arch="arm64"),
    Image(publisher="Canonical", offer="ubuntu-24_04-lts", sku="server"),
    Image(publisher="Canonical", offer="ubuntu-24_04-lts", sku="server-arm64", arch="arm64"),
)
"""Names: Azure HPC image documentation and Canonical's list of Azure images; the versions are made up."""


def find_image(reference: dict[str, Any]) -> Image:
    """The image that a machine names.

    Raises:
        AzureError: there is none.
    """
    names = tuple(str(reference.get(name, "")).lower() for name in ("publisher", "offer", "sku"))
    for image in IMAGES:
        if names == (image.publisher.lower(), image.offer.lower(), image.sku.lower()):
            if reference.get("version", "latest") not in {"latest", image.version}:
                break
            return image
    urn = ":".join(str(reference.get(name, "")) for name in ("publisher", "offer", "sku", "version"))
    text = f"The platform image '{urn}' is not available. Verify all fields in the storage profile."
    raise AzureError("PlatformImageNotFound", text, 404)

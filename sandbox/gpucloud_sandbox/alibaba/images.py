"""The public images of the sandbox. Names and ids are in the form of the console's; the dates are made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpucloud_sandbox.alibaba.region import Region, has_tags, page_by_number
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.database import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image; ``driver`` is the version of NVIDIA's, if any."""

    id: str
    name: str
    os: str
    arch: str
    created: str
    size_gib: int = 20
    driver: str = ""
    cloud_init: bool = True
    imds: str = "v2"
    own: Document | None = None
    """The account's own image as it is kept; ``None`` for a public one."""

    @property
    def base(self) -> str:
        """The public image that it was made of; its own id for a public one."""
        return self.id if self.own is None else str(self.own["_base"])

    @property
    def snapshot(self) -> str:
        """The snapshot of the system disk that it holds; empty for a public one, which fills no disk."""
        return "" if self.own is None else str(self.own["_system"])

    @property
    def status(self) -> str:
        """Whether it can be used yet."""
        return "Available" if self.own is None else str(self.own["Status"])


def _ubuntu(release: str, arch: str, day: str) -> Image:
    chip = {"x86_64": "x64", "arm64": "arm64"}[arch]
    id_ = f"ubuntu_{release.replace('.', '_')}_{chip}_20G_alibase_{day}.vhd"
    created = f"{day[:4]}-{day[4:6]}-{day[6:]}T02:00:00Z"
    title = "64 bit" if arch == "x86_64" else "64 bit ARM Edition"
    return Image(id=id_, name=id_, os=f"Ubuntu  {release} {title}", arch=arch, created=created)


IMAGES = (
    *(
        _ubuntu(r, a, d)
        for r in ("22.04", "24.04")
        for a in ("x86_64", "arm64")
        for d in ("20260720", "20261015")
    ),
    Image(
        id="aliyun_3_x64_20G_alibase_20261010.vhd",
        name="aliyun_3_x64_20G_alibase_20261010.vhd",
        os="Alibaba Cloud Linux  3.2104 LTS 64 bit",
        arch="x86_64",
        created="2026-10-10T02:00:00Z",
    ),
    Image(
        id="m-gpucloudgpu2404580",
        name="Ubuntu 24.04 with NVIDIA GPU driver 580 and CUDA 13.0",
        os="Ubuntu  24.04 64 bit",
        arch="x86_64",
        created="2026-10-20T02:00:00Z",
        size_gib=40,
        driver="580.95.05",
    ),
    Image(
        id="m-gpucloudimdsv1",
        name="an image of one's own, made without ImdsSupport",
        os="Ubuntu  24.04 64 bit",
        arch="x86_64",
        created="2025-02-01T02:00:00Z",
        imds="v1",
    ),
)


def images_of(region: Region) -> list[Image]:
    """The public images, and the account's own of a region."""
    public = {image.id: image for image in IMAGES}
    own = [
        replace(
            public[each["_base"]],
            id=each["ImageId"],
            name=each["ImageName"],
            created=each["CreationTime"],
            size_gib=each["Size"],
            imds=each["_imds"],
            own=each,
        )
        for each in region.all("image").values()
    ]
    return [*IMAGES, *own]


def find_image(region: Region, id_: str) -> Image:
    """An image by id, to launch of.

    Raises:
        AlibabaError: there is none, or it is being made.
    """
    image = next((image for image in images_of(region) if image.id == id_), None)
    if image is None:
        raise AlibabaError("InvalidImageId.NotFound", "The specified ImageId does not exist.", 404)
    if image.status != "Available":
        text = "The current status of the image does not support this operation."
        raise AlibabaError("IncorrectImageStatus", text, 403)
    return image


def describe_images(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeImages."""
    if true(parameters.get("DryRun")):
        raise AlibabaError("DryRunOperation", "Request validation has been passed with DryRun flag set.")
    arch = parameters.get("Architecture")
    type_name = parameters.get("InstanceType")
    if type_name is not None:
        type_ = region.type_of(type_name)
        if type_ is None:
            raise AlibabaError(
                "InvalidInstanceType.ValueNotSupported",
                "The specified InstanceType does not exist or beyond the permitted range.",
                403,
            )
        arch = arch or type_.arch
    ids = (parameters.get("ImageId") or "").split(",") if parameters.get("ImageId") else None
    found = [
        image
        for image in images_of(region)
        if arch in {None, image.arch}
        and (ids is None or image.id in ids)
        and parameters.get("ImageName") in {None, image.name}
        and parameters.get("ImageOwnerAlias") in {None, "system" if image.own is None else "self"}
        and parameters.get("OSType") in {None, "linux"}
        and image.status in parameters.get("Status", "Available").split(",")
        and has_tags(image.own or {}, parameters)
        and (image.cloud_init or not true(parameters.get("IsSupportCloudinit")))
    ]
    items, about = page_by_number([_shown(image) for image in found], parameters, 100)
    return {"RegionId": region.name, "Images": {"Image": items}, **about}


def describe_image_from_family(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeImageFromFamily: the newest of a family such as ``acs:ubuntu_22_04_x64``."""
    family = parameters["ImageFamily"].removeprefix("acs:")
    found = [image for image in IMAGES if image.id.startswith(f"{family}_")]
    if not found:
        return {"Image": {}}
    return {"Image": _shown(max(found, key=lambda image: image.created))}


def _shown(image: Image) -> Document:
    return {
        "ImageId": image.id,
        "ImageName": image.name,
        "OSName": image.os,
        "OSNameEn": image.os,
        "OSType": "linux",
        "Platform": "Ubuntu" if "Ubuntu" in image.os else "Aliyun",
        "Architecture": image.arch,
        "Size": image.size_gib,
        "Status": image.status,
        "ImageOwnerAlias": "system" if image.own is None else "self",
        "IsSupportCloudinit": image.cloud_init,
        "IsSupportIoOptimized": True,
        "IsPublic": image.own is None,
        "CreationTime": image.created,
        "Usage": "none",
        "Features": {"ImdsSupport": image.imds, "NvmeSupport": "supported"},
        "DiskDeviceMappings": {
            "DiskDeviceMapping": [
                {"SnapshotId": id_} for id_ in (image.own["_snapshots"] if image.own else ())
            ]
        },
        "Tags": image.own["Tags"] if image.own else {"Tag": []},
    }

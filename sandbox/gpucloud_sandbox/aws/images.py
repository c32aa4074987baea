"""The images that can be launched: public ones with the parameters that name them, and the account's own.

Names, owners and contents: docs.aws.amazon.com/dlami (release notes of September and October 2026),
"find-dlami-id", and Canonical's and Amazon Linux's parameters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

AMAZON, CANONICAL, AMAZON_LINUX = "898082745236", "099720109477", "137112412989"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image.

    Attributes:
        parameter: the name of its public parameter.
        root_gib: the size of its root disk.
        driver: the version of NVIDIA's, if it has one.
        own: the account's own image, as DescribeImages shows it.
    """

    parameter: str
    name: str
    owner: str
    arch: str
    root_device: str
    root_gib: int
    driver: str
    own: Document | None = None

    @classmethod
    def of_own(cls, document: Document) -> Image:
        """An image of the account."""
        root = document["RootDeviceName"]
        disks = {each["DeviceName"]: each["Ebs"] for each in document["BlockDeviceMappings"]}
        return cls(
            parameter="",
            name=document["Name"],
            owner=ACCOUNT,
            arch=document["Architecture"],
            root_device=root,
            root_gib=disks[root]["VolumeSize"],
            driver=document["_driver"],
            own=document,
        )

    def disks(self) -> dict[str, Document]:
        """The disks of its launch by device, as a mapping's ``Ebs``."""
        if self.own is None:
            public = {"VolumeSize": self.root_gib, "VolumeType": "gp3", "_driver": self.driver}
            return {self.root_device: public}
        return {each["DeviceName"]: each["Ebs"] for each in self.own["BlockDeviceMappings"]}

    def shown_in(self, region: str) -> Document:
        """The image as DescribeImages shows it in a region."""
        return self.own or _document(self, region)

    def id_in(self, region: str) -> str:
        """The image's id in a region."""
        if self.own is not None:
            return str(self.own["ImageId"])
        return f"ami-0{hashlib.sha256(f'{region}{self.parameter}'.encode()).hexdigest()[:16]}"


def _deep_learning(arch: str, kind: str, title: str, os: str, os_title: str) -> Image:
    chip = "ARM64 " if arch == "arm64" else ""
    return Image(
        parameter=f"/aws/service/deeplearning/ami/{arch}/{kind}-{os}/latest/ami-id",
        name=f"Deep Learning {chip}{title} ({os_title}) 20261008",
        owner=AMAZON,
        arch=arch,
        root_device="/dev/xvda" if os == "amazon-linux-2023" else "/dev/sda1",
        root_gib=75,
        driver="595.91.07",
    )


def _ubuntu(release: str, codename: str, arch: str, disk: str) -> Image:
    chip = {"x86_64": "amd64", "arm64": "arm64"}[arch]
    return Image(
        parameter=f"/aws/service/canonical/ubuntu/server/{release}/stable/current/{chip}/hvm/ebs-{disk}/ami-id",
        name=f"ubuntu/images/hvm-ssd/ubuntu-{codename}-{release}-{chip}-server-20261101",
        owner=CANONICAL,
        arch=arch,
        root_device="/dev/sda1",
        root_gib=8,
        driver="",
    )


_SYSTEMS = {
    "ubuntu-24.04": "Ubuntu 24.04",
    "ubuntu-22.04": "Ubuntu 22.04",
    "amazon-linux-2023": "Amazon Linux 2023",
}
_BASE = ("base-oss-nvidia-driver-gpu", "Base OSS Nvidia Driver GPU AMI")
_PYTORCH = [
    ("2.6", "ubuntu-22.04"),
    ("2.7", "ubuntu-22.04"),
    ("2.8", "ubuntu-24.04"),
    ("2.12", "ubuntu-24.04"),
]

IMAGES = (
    *(
        _deep_learning(arch, *_BASE, system, title)
        for arch in ("x86_64", "arm64")
        for system, title in _SYSTEMS.items()
    ),
    *(
        _deep_learning(
            "x86_64",
            f"oss-nvidia-driver-gpu-pytorch-{version}",
            f"OSS Nvidia Driver AMI GPU PyTorch {version}",
            system,
            _SYSTEMS[system],
        )
        for version, system in _PYTORCH
    ),
    *(_ubuntu("24.04", "noble", arch, "gp3") for arch in ("x86_64", "arm64")),
    *(_ubuntu("22.04", "jammy", arch, disk) for arch in ("x86_64", "arm64") for disk in ("gp2", "gp3")),
    Image(
        parameter="/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64",
        name="al2023-ami-2023.12.20261105.0-kernel-6.1-x86_64",
        owner=AMAZON_LINUX,
        arch="x86_64",
        root_device="/dev/xvda",
        root_gib=8,
        driver="",
    ),
)

_BY_PARAMETER = {image.parameter: image for image in IMAGES}

_FILTERS: dict[str, Field] = {
    "architecture": "Architecture",
    "block-device-mapping.delete-on-termination": "BlockDeviceMappings.Ebs.DeleteOnTermination",
    "block-device-mapping.device-name": "BlockDeviceMappings.DeviceName",
    "block-device-mapping.encrypted": "BlockDeviceMappings.Ebs.Encrypted",
    "block-device-mapping.snapshot-id": "BlockDeviceMappings.Ebs.SnapshotId",
    "block-device-mapping.volume-size": "BlockDeviceMappings.Ebs.VolumeSize",
    "block-device-mapping.volume-type": "BlockDeviceMappings.Ebs.VolumeType",
    "creation-date": "CreationDate",
    "description": "Description",
    "ena-support": "EnaSupport",
    "hypervisor": "Hypervisor",
    "image-id": "ImageId",
    "image-type": "ImageType",
    "name": "Name",
    "owner-id": "OwnerId",
    "owner-alias": "ImageOwnerAlias",
    "root-device-name": "RootDeviceName",
    "root-device-type": "RootDeviceType",
    "source-instance-id": "SourceInstanceId",
    "state": "State",
    "virtualization-type": "VirtualizationType",
    "is-public": "Public",
}


def find_image(region: Region, image_id: str) -> Image:
    """The image that a launch names, by id or as ``resolve:ssm:PARAMETER``.

    Raises:
        AwsError: there is none.
    """
    if image_id.startswith("resolve:ssm:"):
        name = image_id.removeprefix("resolve:ssm:")
        image = _BY_PARAMETER.get(name)
        if image is None:
            raise AwsError(
                "InvalidParameterValue", f"We cannot resolve the SSM parameter {name} to an AMI ID"
            )
        return image
    if not image_id.startswith("ami-"):
        raise AwsError("InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")')
    own = region.all("image").get(image_id)
    image = _by_id(region.name).get(image_id) if own is None else Image.of_own(own)
    if image is None:
        raise AwsError("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
    return image


def check_available(shown: Document) -> None:
    """Refuses an image, as DescribeImages shows it, that is being made or has failed.

    Raises:
        AwsError: it is not available.
    """
    if shown["State"] != "available":
        text = (
            f"The AMI ID '{shown['ImageId']}' is currently {shown['State']} and may not be used for this "
            "operation"
        )
        raise AwsError("InvalidAMIID.Unavailable", text)


def describe_images(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeImages."""
    ids = parameters.get("ImageIds")
    own = [Image.of_own(each) for each in region.all("image").values()]
    images = [*IMAGES, *own] if ids is None else [find_image(region, id_) for id_ in ids]
    owners = {"amazon": {AMAZON, AMAZON_LINUX}, "self": {ACCOUNT}}
    wanted = set[str]().union(*(owners.get(each, {each}) for each in parameters.get("Owners") or ()))
    documents = [image.shown_in(region.name) for image in images if not wanted or image.owner in wanted]
    shown, token = page(select(documents, parameters.get("Filters"), _FILTERS), parameters, ids="ImageIds")
    return {"Images": shown, "NextToken": token}


def get_parameter(region: Region, parameters: Mapping[str, Any]) -> Document:
    """SSM GetParameter."""
    image = _BY_PARAMETER.get(parameters["Name"])
    if image is None:
        raise AwsError("ParameterNotFound", "")
    return {"Parameter": _parameter(image, region.name)}


def get_parameters(region: Region, parameters: Mapping[str, Any]) -> Document:
    """SSM GetParameters."""
    names: list[str] = parameters["Names"]
    return {
        "Parameters": [
            _parameter(_BY_PARAMETER[name], region.name) for name in names if name in _BY_PARAMETER
        ],
        "InvalidParameters": [name for name in names if name not in _BY_PARAMETER],
    }


def get_parameters_by_path(region: Region, parameters: Mapping[str, Any]) -> Document:
    """SSM GetParametersByPath, recursive: a public parameter is never directly below a path."""
    path = parameters["Path"].rstrip("/") + "/"
    found = [image for name, image in _BY_PARAMETER.items() if name.startswith(path)]
    parameters_shown, token = page([_parameter(image, region.name) for image in found], parameters, lowest=1)
    return {"Parameters": parameters_shown, "NextToken": token}


@cache
def _by_id(region: str) -> dict[str, Image]:
    return {image.id_in(region): image for image in IMAGES}


def _parameter(image: Image, region: str) -> Document:
    return {
        "Name": image.parameter,
        "Type": "String",
        "Value": image.id_in(region),
        "Version": 1,
        "LastModifiedDate": "2026-10-08T00:00:00+00:00",
        "ARN": f"arn:aws:ssm:{region}::parameter{image.parameter}",
        "DataType": "aws:ec2:image" if image.owner == CANONICAL else "text",
    }


def _document(image: Image, region: str) -> Document:
    return {
        "ImageId": image.id_in(region),
        "Name": image.name,
        "ImageLocation": f"amazon/{image.name}",
        "OwnerId": image.owner,
        "ImageOwnerAlias": None if image.owner == CANONICAL else "amazon",
        "Architecture": image.arch,
        "CreationDate": "2026-10-08T00:00:00.000Z",
        "State": "available",
        "Public": True,
        "ImageType": "machine",
        "RootDeviceType": "ebs",
        "RootDeviceName": image.root_device,
        "VirtualizationType": "hvm",
        "Hypervisor": "xen",
        "EnaSupport": True,
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
        "BlockDeviceMappings": [
            {
                "DeviceName": image.root_device,
                "Ebs": {
                    "DeleteOnTermination": True,
                    "VolumeSize": image.root_gib,
                    "VolumeType": "gp3",
                    "Encrypted": False,
                    "SnapshotId": f"snap-0{hashlib.sha256(image.id_in(region).encode()).hexdigest()[:16]}",
                },
            }
        ],
    }

"""The JSON documents of a plan and of the images that boxes boot."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from gpucloud_pricing.documents import Day, MoneyDocument, Number, Time


class AttemptDocument(TypedDict):
    """One offer in one zone that a launch may try. Prices are per hour and node.

    Attributes:
        zone: ``null`` if the market has no zone.
        purchase: the way of paying.
        gpu_count: the GPUs of one node; less than 1 for a share of a GPU.
        gpu_memory_gib: the memory of one whole GPU.
        local_ssd_gib: the local disks, which become ``/scratch``; 0 if none are known.
        price: as the cloud bills it.
        price_usd: the same in USD.
        ceiling_usd: the most that it may cost when it is bought.
        as_of: the date of the price.
        source: an id of the market's sources.
        flags: what speaks against it.
        quoted: whether the cloud itself quoted the price today.
        quoted_at: when.
        reservation: held capacity to launch into.
    """

    cloud: str
    region: str
    zone: str | None
    instance_type: str
    purchase: str
    gpu_model: str
    gpu_count: Number
    gpu_memory_gib: Number
    vcpus: int
    memory_gib: Number
    local_ssd_gib: Number
    interconnect: str
    rdma: str
    arch: str
    price: MoneyDocument
    price_usd: MoneyDocument
    ceiling_usd: MoneyDocument
    as_of: Day
    source: str
    flags: list[str]
    quoted: bool
    quoted_at: Time | None
    reservation: str | None


class DataDocument(TypedDict):
    """A data set that is copied to the box.

    Attributes:
        url: its folder in the object store.
        path: where the box has it.
        cache: where its copy is: ``scratch`` for the local disks, ``null`` for the root disk.
        cloud: the cloud of the bucket.
        region: that of the bucket.
        files: how many were counted; ``null`` if the store does not list sizes.
        bytes: their size.
        whole: whether all were counted.
        traffic: what copying it to the first attempt costs, without requests; ``null`` if unknown.
    """

    url: str
    path: str
    cache: str | None
    cloud: str
    region: str
    files: int | None
    bytes: int | None
    whole: bool
    traffic: MoneyDocument | None


class CostLimitDocument(TypedDict):
    """The most that a plan may cost.

    Attributes:
        per_hour: compute, disks and addresses of all nodes.
        without: what has no known price: ``disks``, ``addresses``.
        until: when the box ends; ``null`` if nothing ends it.
    """

    per_hour: MoneyDocument
    nodes: int
    without: list[str]
    until: Time | None


class DefaultsDocument(TypedDict):
    """What the user's defaults decided.

    Attributes:
        fields: the fields of the spec.
    """

    file: str
    fields: dict[str, Any]


class PresetDocument(TypedDict):
    """What a preset decided.

    Attributes:
        fields: the fields of the spec.
    """

    name: str
    fields: dict[str, Any]


class PlanDocument(TypedDict):
    """What a launch would do. A saved plan ends with ``digest``.

    Attributes:
        spec: the spec, without its defaults and without the values of variables.
        attempts: in order.
        left_out: clouds, and parts of clouds, that were not considered, and why.
        endings: what ends a box at its deadline, by cloud.
        remarks: how boxes differ from the default, by cloud.
        digest: a hash of the above: an edited plan is refused.
        ends: what ends the box if gpucloud does nothing more.
        at_most: the most that it may cost.
        defaults: what the user's defaults decided; ``null`` if nothing.
        preset: what the preset of the spec decided; ``null`` if it has none.
        data: the data sets, as they are now.
    """

    created_at: Time
    spec: dict[str, Any]
    attempts: list[AttemptDocument]
    left_out: dict[str, str]
    endings: dict[str, str]
    remarks: dict[str, list[str]]
    digest: str
    ends: NotRequired[str]
    at_most: NotRequired[CostLimitDocument]
    defaults: NotRequired[DefaultsDocument | None]
    preset: NotRequired[PresetDocument | None]
    data: NotRequired[list[DataDocument]]


class ImageGpuDocument(TypedDict):
    """The GPUs of an offer."""

    model: str
    memory_gib: Number


class ImageDocument(TypedDict):
    """What the best offer of a GPU boots.

    Attributes:
        problem: why no image works; the fields after it are missing then.
        image: the name of the image.
        driver: the version of the GPU driver.
        cuda: the CUDA toolkits.
        containers: whether containers see the GPUs.
        installs: what the first boot adds to the image.
        why: why this image was chosen.
    """

    cloud: str
    instance_type: str
    gpu: ImageGpuDocument
    arch: str
    problem: str | None
    image: NotRequired[str]
    system: NotRequired[str | None]
    driver: NotRequired[str | None]
    cuda: NotRequired[list[str]]
    cudnn: NotRequired[str | None]
    frameworks: NotRequired[list[str]]
    containers: NotRequired[bool]
    installs: NotRequired[list[str]]
    why: NotRequired[str]


class ImagesDocument(TypedDict):
    """One image for each GPU and cloud."""

    images: list[ImageDocument]

"""The fields of a spec: how each is read, written as a flag, described, and defaulted.

A new field is added to :data:`FIELDS`, and with its type to :class:`gpucloud.spec.model.Spec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

from gpucloud.spec import fields as read
from gpucloud.spec import mounts
from gpucloud.spec.flags import BOX, GPU, PAYMENT, PLACE, Flag
from gpucloud.spec.presets import NAMES
from gpucloud_pricing.demand import ANY_RDMA, INTERCONNECTS, RDMA
from gpucloud_pricing.purchases import Purchase

DEFAULT_DISK_GIB = 100

_STRING: Mapping[str, Any] = {"type": "string"}
_NUMBER: Mapping[str, Any] = {"type": ["number", "string"]}
_WHOLE: Mapping[str, Any] = {"type": ["integer", "string"]}
_STRINGS: Mapping[str, Any] = {"type": ["array", "string"], "items": _STRING}
_VOLUMES: Mapping[str, Any] = {
    "type": ["array", "string"],
    "items": {
        "anyOf": [
            _STRING,
            {
                "type": "object",
                "properties": {"name": _STRINGS, "path": _STRING},
                "required": ["name", "path"],
                "additionalProperties": False,
            },
        ]
    },
    "examples": [["data:/data"], [{"name": ["a", "b"], "path": "/data"}]],
}
_DATA: Mapping[str, Any] = {
    "type": ["array", "string"],
    "items": {
        "anyOf": [
            _STRING,
            {
                "type": "object",
                "properties": {"from": _STRING, "path": _STRING, "cache": {"enum": ["scratch"]}},
                "required": ["from", "path"],
                "additionalProperties": False,
            },
        ]
    },
    "examples": [
        ["s3://bucket/set:/data"],
        [{"from": "s3://bucket/set", "path": "/data", "cache": "scratch"}],
    ],
}
_PORTS: Mapping[str, Any] = {"type": ["array", "integer", "string"], "items": _WHOLE}
_MAPPING: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
}
_END: Mapping[str, Any] = {**_STRING, "examples": ["90m", "24h", "1h30m", "2d", "none"]}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the spec.

    Attributes:
        read: parses a value: text or plain Python, its own result included. A number or duration that a
            program computed is held as finely as a document writes it. Raises ``ValueError``.
        flag: how the field is written on a command line.
        schema: the JSON Schema of a value in a file.
        description: the help text of the flag, and the description in the JSON Schema.
        default: the value of a field that is not given; ``None`` may be given too where it is ``None``.
    """

    read: Callable[[object], object]
    flag: Flag
    schema: Mapping[str, Any]
    description: str
    default: object = None

    def value(self, given: object) -> object:
        """The checked value.

        Raises:
            ValueError: it is not allowed.
        """
        return None if given is None and self.default is None else self.read(given)


FIELDS: Mapping[str, Field] = {
    "name": Field(
        read.name,
        Flag(BOX, "NAME"),
        {**_STRING, "pattern": read.NAME},
        "Name of the box: 1-40 of a-z, 0-9 and -, unique among your boxes. Default: generated.",
    ),
    "preset": Field(
        read.preset,
        Flag(BOX, "NAME"),
        {"enum": list(NAMES)},
        f"Fields for a kind of work, where you give none: {', '.join(NAMES)}.",
    ),
    "gpu": Field(
        read.gpu,
        Flag(GPU, "GPU"),
        {**_STRINGS, "examples": ["A100:8", "T4:1..4"]},
        "GPU model, with memory and count: A100, A100-80GB:8, T4:1..4, A100:8,H100:4.",
    ),
    "instance_types": Field(
        read.patterns,
        Flag(GPU, "TYPE", names=("--instance-type",)),
        {**_STRINGS, "examples": ["p4d.24xlarge", "Standard_NC*"]},
        "Instance types to use, with or without --gpu: names, globs, or !name to exclude one.",
        default=(),
    ),
    "gpu_memory": Field(
        read.gib,
        Flag(GPU, "GIB"),
        {**_NUMBER, "examples": [40, "80GB"]},
        "Minimum memory of each GPU, in GiB.",
    ),
    "total_gpu_memory": Field(
        read.gib,
        Flag(GPU, "GIB"),
        {**_NUMBER, "examples": [40, "80GB"]},
        "Minimum memory of all GPUs together, in GiB.",
    ),
    "interconnect": Field(
        read.interconnect,
        Flag(GPU, "LINK"),
        {"enum": list(INTERCONNECTS)},
        f"Minimum link between the GPUs: {', '.join(INTERCONNECTS)}.",
    ),
    "rdma": Field(
        read.rdma,
        Flag(GPU, "NETWORK"),
        {"enum": [*RDMA, ANY_RDMA]},
        f"RDMA network between the nodes: {', '.join(RDMA)}, or {ANY_RDMA} of them.",
    ),
    "cpus": Field(
        read.whole(1, 4096, "a whole number of vCPUs"),
        Flag(GPU, "N"),
        {**_WHOLE, "minimum": 1},
        "Minimum number of vCPUs.",
    ),
    "memory": Field(
        read.gib,
        Flag(GPU, "GIB"),
        {**_NUMBER, "examples": [40, "80GB"]},
        "Minimum main memory, in GiB.",
    ),
    "arch": Field(
        read.arch,
        Flag(GPU, "ARCH"),
        {"enum": list(read.ARCHES)},
        f"Processor architecture: {' or '.join(read.ARCHES)}. Default: x86_64.",
        default="x86_64",
    ),
    "purchase": Field(
        read.purchases,
        Flag(
            PAYMENT,
            "OPTION",
            switches={
                "on-demand": "Allow on-demand instances. This is the default.",
                "spot": "Allow spot instances.",
                "reserved": "Allow reserved capacity that the account already holds.",
            },
        ),
        {**_STRINGS, "items": {"enum": list(read.PURCHASES)}},
        f"Allowed purchase options: {', '.join(read.PURCHASES)}.",
        default=(Purchase.ON_DEMAND,),
    ),
    "max_price": Field(
        read.usd,
        Flag(PAYMENT, "USD"),
        {**_NUMBER, "examples": ["2.50"]},
        "Maximum compute price of a node, in USD per hour.",
    ),
    "budget": Field(
        read.usd,
        Flag(PAYMENT, "USD"),
        {**_NUMBER, "examples": ["2.50"]},
        "Total cost limit in USD, without egress. The box ends once it is spent, or at its ttl.",
    ),
    "clouds": Field(
        read.patterns,
        Flag(PLACE, "NAME", names=("--cloud",)),
        _STRINGS,
        "Clouds to use: names, globs, or !name to exclude one.",
        default=(),
    ),
    "regions": Field(
        read.patterns,
        Flag(PLACE, "NAME", names=("--region",)),
        _STRINGS,
        "Regions to use: names, cities, globs (us-*), groups (eu, us, cn, ap), or !name to exclude one.",
        default=(),
    ),
    "residency": Field(
        read.patterns,
        Flag(PLACE, "NAME"),
        _STRINGS,
        "Regions or groups (eu) outside of which nothing may be: no machine, volume, bucket or data set.",
        default=(),
    ),
    "zones": Field(
        read.patterns,
        Flag(PLACE, "NAME", names=("--zone",)),
        _STRINGS,
        "Zones to use: names, globs, or !name to exclude one.",
        default=(),
    ),
    "near": Field(
        read.store_url,
        Flag(PLACE, "URL"),
        {**_STRING, "examples": ["s3://bucket"]},
        "Bucket in whose region the box is to be: {s3,oss}://BUCKET, az://ACCOUNT/CONTAINER.",
    ),
    "nodes": Field(
        read.whole(1, 1000, "a whole number of nodes"),
        Flag(BOX, "N"),
        {**_WHOLE, "minimum": 1},
        "Number of identical nodes, placed together: all are launched, or none. Default: 1.",
        default=1,
    ),
    "count": Field(
        read.whole(1, 100, "a whole number of boxes"),
        Flag(BOX, "N"),
        {**_WHOLE, "minimum": 1},
        "Number of boxes of one run, each by itself; launch only. Default: 1.",
        default=1,
    ),
    "spread": Field(
        read.spread,
        Flag(PLACE, "PLACES"),
        {"enum": list(read.SPREADS)},
        f"With count: distribute the boxes evenly over different places: {', '.join(read.SPREADS)}.",
    ),
    "disk": Field(
        read.disk_gib,
        Flag(BOX, "GIB"),
        {**_WHOLE, "examples": [100, "1TB"]},
        f"Size of the encrypted root disk in GiB. Default: {DEFAULT_DISK_GIB}.",
        default=DEFAULT_DISK_GIB,
    ),
    "image": Field(
        read.image,
        Flag(BOX, "IMAGE"),
        {**_STRING, "examples": ["cuda-12.4", "pytorch"]},
        "A recipe (cuda-12.4, pytorch, ubuntu-22.04), a snapshot of a box, or an image ID of the cloud.",
    ),
    "ttl": Field(
        read.end,
        Flag(BOX, "TIME"),
        _END,
        "Time to live; then the box is deleted: 90m, 24h, 1h30m, 2d, or none.",
    ),
    "ttl_role": Field(
        read.text,
        Flag(BOX, "ARN"),
        _STRING,
        "Role of the cloud's schedule that also ends the box at its ttl.",
    ),
    "box_identity": Field(
        read.text,
        Flag(BOX, "ROLE"),
        _STRING,
        "Role with which the box deletes itself; granted on the box alone.",
    ),
    "idle": Field(
        read.end,
        Flag(BOX, "TIME"),
        _END,
        "End the box when GPUs, ssh sessions and jobs are idle this long: 30m, 2h, or none.",
    ),
    "idle_below": Field(
        read.percent,
        Flag(BOX, "PERCENT"),
        {**_WHOLE, "minimum": 1, "maximum": 100},
        "With idle: jobs whose GPUs are used less than this count as idle, such as 30.",
    ),
    "on_unhealthy": Field(
        read.on_unhealthy,
        Flag(BOX, "ACTION"),
        {"enum": list(read.ON_UNHEALTHY)},
        "When the guard of a box reports faulty hardware: keep it, or have `gpucloud tend` replace it "
        "(of run --detach: as one of the restarts). Default: keep.",
        default="keep",
    ),
    "setup": Field(
        read.script,
        Flag(BOX, "COMMANDS"),
        _STRING,
        "Shell commands that prepare the box, once, after sync and data. See --setup-file.",
    ),
    "run": Field(
        read.text,
        Flag(BOX, "COMMAND"),
        _STRING,
        "Command to run when the box is ready.",
    ),
    "env": Field(
        read.env,
        Flag(BOX, "K=V"),
        _MAPPING,
        "Variables for setup and run: K=V, or K alone for the value on this machine.",
        default={},
    ),
    "sync": Field(
        read.sync,
        Flag(BOX, "PATH"),
        _STRINGS,
        "Files to copy to the box: LOCAL or LOCAL:REMOTE.",
        default=(),
    ),
    "exclude": Field(
        read.ignored,
        Flag(BOX, "PATTERN"),
        {**_STRINGS, "examples": ["*.ckpt", "data/"]},
        "What sync leaves out, besides what git ignores and .gpucloudignore names, as in .gitignore.",
        default=(),
    ),
    "volumes": Field(
        mounts.volumes,
        Flag(BOX, "NAME:/PATH", names=("--volume",)),
        _VOLUMES,
        "Volume to mount, and where: data:/data. With NAME,OTHER:/PATH, the one in the chosen zone.",
        default=(),
    ),
    "data": Field(
        mounts.data,
        Flag(BOX, "URL:/PATH[:scratch]", names=("--data",)),
        _DATA,
        "Folder of your bucket to copy to the box, read-only: s3://BUCKET/SET:/data. "
        "With :scratch, to its local disks.",
        default=(),
    ),
    "data_role": Field(
        read.text,
        Flag(BOX, "ROLE"),
        _STRING,
        "Role whose rights to read the data are lent to the box while it copies. Default: yours.",
    ),
    "ports": Field(
        read.ports,
        Flag(BOX, "PORT", names=("--ports", "--port")),
        _PORTS,
        "TCP ports, besides ssh, to open to the addresses of allow_from.",
        default=(),
    ),
    "tags": Field(
        read.tags,
        Flag(BOX, "K=V", names=("--tags", "--tag")),
        _MAPPING,
        "Your own tags for everything that is billed.",
        default={},
    ),
    "allow_from": Field(
        read.cidrs,
        Flag(BOX, "CIDR"),
        {**_STRINGS, "examples": ["203.0.113.7/32"]},
        "Addresses that may connect, such as 203.0.113.7/32. Default: your own address.",
        default=(),
    ),
    "ssh_key": Field(
        read.ssh_key,
        Flag(BOX, "KEY"),
        _STRING,
        "Another public key that may log in: its text, or its file.",
    ),
    "checkpoint": Field(
        read.text,
        Flag(BOX, "COMMAND"),
        _STRING,
        "Command to run on the box before it is ended.",
    ),
    "checkpoint_dir": Field(
        read.folder,
        Flag(BOX, "PATH"),
        _STRING,
        "Folder on the box whose files `run` keeps in checkpoint_to. Default of `run`: checkpoints.",
    ),
    "checkpoint_to": Field(
        read.store_url,
        Flag(BOX, "URL"),
        {**_STRING, "examples": ["s3://bucket/lab"]},
        "Your bucket for the checkpoints of `run`: {s3,oss}://BUCKET/PATH, az://ACCOUNT/CONTAINER/PATH.",
    ),
    "checkpoint_every": Field(
        read.interval,
        Flag(BOX, "TIME"),
        {**_STRING, "examples": ["30m", "1h"]},
        "Time between two checkpoints, which an interruption loses at most. Default of `run`: 30m.",
    ),
    "checkpoint_marker": Field(
        read.marker,
        Flag(BOX, "GLOB"),
        {**_STRING, "examples": ["*/done", "*.index"]},
        "File in the folder whose appearance says that a checkpoint is whole, such as */done.",
    ),
    "checkpoint_keep": Field(
        read.kept_sets,
        Flag(BOX, "N|all"),
        {"type": ["integer", "string"], "examples": [2, "all"]},
        "Newest whole sets of each attempt that stay in the bucket; older ones are deleted. Default: 2.",
    ),
    "checkpoint_role": Field(
        read.text,
        Flag(BOX, "ROLE"),
        _STRING,
        "Role whose rights on the bucket are lent to the box, for an hour at a time. Default: yours.",
    ),
    "checkpoint_encryption": Field(
        read.encryption,
        Flag(BOX, "kms:KEY"),
        _STRING,
        "Key of the cloud that encrypts the checkpoints: kms:KEY. Default: as the bucket does.",
    ),
    "accept_test": Field(
        read.switch,
        Flag(BOX),
        {"type": "boolean"},
        "Test the GPUs, and the nodes together, before the box is ready.",
        default=False,
    ),
}
"""The fields by name, in the order of help and schema."""
ALIASES = {"on_sick": "on_unhealthy"}
"""Earlier names of fields: read in files, flags and saved documents, and shown nowhere."""


def renamed(given: Mapping[str, object]) -> dict[str, object]:
    """The same values, each under the name that its field has today."""
    return {ALIASES.get(name, name): value for name, value in given.items()}


def plain(value: object) -> Any:
    """A field's value as plain JSON."""
    if isinstance(value, timedelta):
        return read.format_end(value)
    if isinstance(value, tuple):
        return list(cast("tuple[object, ...]", value))
    return f"{value:f}" if isinstance(value, Decimal) else value

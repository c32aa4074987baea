"""The spec: what a user asks for, as one value. Flags, YAML files and Python callers all produce one.

Fields are parsed from text or plain Python values by the same rules. No I/O, no clock, no environment;
files and flags are read by :mod:`gpucloud.spec.file`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal, cast

from gpucloud.errors import UsageError
from gpucloud.spec import fields as read
from gpucloud.spec.flags import BOX, GPU, PAYMENT, PLACE, Flag
from gpucloud.spec.presets import NAMES, presets
from gpucloud_pricing.demand import ANY_RDMA, INTERCONNECTS, RDMA, Demand
from gpucloud_pricing.gpus import parse_requirements
from gpucloud_pricing.purchases import LAUNCHABLE, PURCHASES, Purchase

DEFAULT_DISK_GIB = 100
_WHICH_GPU = frozenset({"gpu", "instance_types", "gpu_memory", "total_gpu_memory"})
"""The fields that name GPUs: who gives one of them wants none of a preset's."""

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
        description: the help text of the flag, and the description in the JSON Schema.
        schema: the JSON Schema of a value in a file.
        default: the value of a field that is not given; ``None`` may be given too where it is ``None``.
    """

    read: Callable[[object], object]
    flag: Flag
    description: str
    schema: Mapping[str, Any]
    default: object

    def value(self, given: object) -> object:
        """The checked value.

        Raises:
            ValueError: it is not allowed.
        """
        return None if given is None and self.default is None else self.read(given)


def _declared(
    read: Callable[[object], object],
    flag: Flag,
    schema: Mapping[str, Any],
    description: str,
    *,
    default: object = None,
) -> Mapping[str, Field]:
    return {"field": Field(read, flag, description, schema, default)}


class SpecError(UsageError):
    """A spec with invalid fields.

    Attributes:
        problems: what is wrong, each with its field; ``None`` where fields contradict each other.
    """

    def __init__(self, problems: Sequence[tuple[str | None, str]], hint: str | None = None) -> None:
        super().__init__("; ".join(f"{name}: {text}" if name else text for name, text in problems), hint=hint)
        self.problems = problems


@dataclass(frozen=True, init=False)
class Spec:
    """What a user asks for: GPU, purchase option, place, and box. Every field is optional.

    Attributes:
        given: the names of the fields that were given, with their defaults or other values; those of the
            preset are among them.
        from_preset: the names of the fields that the preset decided.
    """

    name: str | None = field(
        metadata=_declared(
            read.name,
            Flag(BOX, "NAME"),
            {**_STRING, "pattern": read.NAME},
            "Name of the box: 1-40 of a-z, 0-9 and -, unique among your boxes. Default: generated.",
        )
    )
    preset: str | None = field(
        metadata=_declared(
            read.preset,
            Flag(BOX, "NAME"),
            {"enum": list(NAMES)},
            f"Fields for a kind of work, where you give none: {', '.join(NAMES)}.",
        )
    )
    gpu: str | None = field(
        metadata=_declared(
            read.gpu,
            Flag(GPU, "GPU"),
            {**_STRINGS, "examples": ["A100:8", "T4:1..4"]},
            "GPU model, with memory and count: A100, A100-80GB:8, T4:1..4, A100:8,H100:4.",
        )
    )
    instance_types: tuple[str, ...] = field(
        metadata=_declared(
            read.patterns,
            Flag(GPU, "TYPE", names=("--instance-type",)),
            {**_STRINGS, "examples": ["p4d.24xlarge", "Standard_NC*"]},
            "Instance types to use, with or without --gpu: names, globs, or !name to exclude one.",
            default=(),
        )
    )
    gpu_memory: Decimal | None = field(
        metadata=_declared(
            read.gib,
            Flag(GPU, "GIB"),
            {**_NUMBER, "examples": [40, "80GB"]},
            "Minimum memory of each GPU, in GiB.",
        )
    )
    total_gpu_memory: Decimal | None = field(
        metadata=_declared(
            read.gib,
            Flag(GPU, "GIB"),
            {**_NUMBER, "examples": [40, "80GB"]},
            "Minimum memory of all GPUs together, in GiB.",
        )
    )
    interconnect: str | None = field(
        metadata=_declared(
            read.interconnect,
            Flag(GPU, "LINK"),
            {"enum": list(INTERCONNECTS)},
            f"Minimum link between the GPUs: {', '.join(INTERCONNECTS)}.",
        )
    )
    rdma: str | None = field(
        metadata=_declared(
            read.rdma,
            Flag(GPU, "NETWORK"),
            {"enum": [*RDMA, ANY_RDMA]},
            f"RDMA network between the nodes: {', '.join(RDMA)}, or {ANY_RDMA} of them.",
        )
    )
    cpus: int | None = field(
        metadata=_declared(
            read.whole(1, 4096, "a whole number of vCPUs"),
            Flag(GPU, "N"),
            {**_WHOLE, "minimum": 1},
            "Minimum number of vCPUs.",
        )
    )
    memory: Decimal | None = field(
        metadata=_declared(
            read.gib,
            Flag(GPU, "GIB"),
            {**_NUMBER, "examples": [40, "80GB"]},
            "Minimum main memory, in GiB.",
        )
    )
    arch: str = field(
        metadata=_declared(
            read.arch,
            Flag(GPU, "ARCH"),
            {"enum": list(read.ARCHES)},
            f"Processor architecture: {' or '.join(read.ARCHES)}. Default: x86_64.",
            default="x86_64",
        )
    )
    purchase: tuple[Purchase, ...] = field(
        metadata=_declared(
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
        )
    )
    max_price: Decimal | None = field(
        metadata=_declared(
            read.usd,
            Flag(PAYMENT, "USD"),
            {**_NUMBER, "examples": ["2.50"]},
            "Maximum compute price of a node, in USD per hour.",
        )
    )
    budget: Decimal | None = field(
        metadata=_declared(
            read.usd,
            Flag(PAYMENT, "USD"),
            {**_NUMBER, "examples": ["2.50"]},
            "Total cost limit in USD, without egress. The box ends once it is spent, or at its ttl.",
        )
    )
    clouds: tuple[str, ...] = field(
        metadata=_declared(
            read.patterns,
            Flag(PLACE, "NAME", names=("--cloud",)),
            _STRINGS,
            "Clouds to use: names, globs, or !name to exclude one.",
            default=(),
        )
    )
    regions: tuple[str, ...] = field(
        metadata=_declared(
            read.patterns,
            Flag(PLACE, "NAME", names=("--region",)),
            _STRINGS,
            "Regions to use: names, globs (us-*), groups (eu, us, cn, ap), or !name to exclude one.",
            default=(),
        )
    )
    residency: tuple[str, ...] = field(
        metadata=_declared(
            read.patterns,
            Flag(PLACE, "NAME"),
            _STRINGS,
            "Regions or groups (eu) outside of which nothing may be: no machine, volume, bucket or data set.",
            default=(),
        )
    )
    zones: tuple[str, ...] = field(
        metadata=_declared(
            read.patterns,
            Flag(PLACE, "NAME", names=("--zone",)),
            _STRINGS,
            "Zones to use: names, globs, or !name to exclude one.",
            default=(),
        )
    )
    near: str | None = field(
        metadata=_declared(
            read.store_url,
            Flag(PLACE, "URL"),
            {**_STRING, "examples": ["s3://bucket"]},
            "Bucket in whose region the box is to be: {s3,oss}://BUCKET, az://ACCOUNT/CONTAINER.",
        )
    )
    nodes: int = field(
        metadata=_declared(
            read.whole(1, 1000, "a whole number of nodes"),
            Flag(BOX, "N"),
            {**_WHOLE, "minimum": 1},
            "Number of identical nodes, placed together: all are launched, or none. Default: 1.",
            default=1,
        )
    )
    count: int = field(
        metadata=_declared(
            read.whole(1, 100, "a whole number of boxes"),
            Flag(BOX, "N"),
            {**_WHOLE, "minimum": 1},
            "Number of boxes of one run, each by itself; launch only. Default: 1.",
            default=1,
        )
    )
    spread: str | None = field(
        metadata=_declared(
            read.spread,
            Flag(PLACE, "PLACES"),
            {"enum": list(read.SPREADS)},
            f"With count: distribute the boxes evenly over different places: {', '.join(read.SPREADS)}.",
        )
    )
    disk: int = field(
        metadata=_declared(
            read.disk_gib,
            Flag(BOX, "GIB"),
            {**_WHOLE, "examples": [100, "1TB"]},
            f"Size of the encrypted root disk in GiB. Default: {DEFAULT_DISK_GIB}.",
            default=DEFAULT_DISK_GIB,
        )
    )
    image: str | None = field(
        metadata=_declared(
            read.image,
            Flag(BOX, "IMAGE"),
            {**_STRING, "examples": ["cuda-12.4", "pytorch"]},
            "A recipe (cuda-12.4, pytorch, ubuntu-22.04), a snapshot of a box, or an image ID of the cloud.",
        )
    )
    ttl: timedelta | Literal["none"] | None = field(
        metadata=_declared(
            read.end,
            Flag(BOX, "TIME"),
            _END,
            "Time to live; then the box is deleted: 90m, 24h, 1h30m, 2d, or none.",
        )
    )
    ttl_role: str | None = field(
        metadata=_declared(
            read.text,
            Flag(BOX, "ARN"),
            _STRING,
            "Role of the cloud's schedule that also ends the box at its ttl.",
        )
    )
    box_identity: str | None = field(
        metadata=_declared(
            read.text,
            Flag(BOX, "ROLE"),
            _STRING,
            "Role with which the box deletes itself; granted on the box alone.",
        )
    )
    idle: timedelta | Literal["none"] | None = field(
        metadata=_declared(
            read.end,
            Flag(BOX, "TIME"),
            _END,
            "End the box when GPUs, ssh sessions and jobs are idle this long: 30m, 2h, or none.",
        )
    )
    idle_below: int | None = field(
        metadata=_declared(
            read.percent,
            Flag(BOX, "PERCENT"),
            {**_WHOLE, "minimum": 1, "maximum": 100},
            "With idle: jobs whose GPUs are used less than this count as idle, such as 30.",
        )
    )
    on_sick: str = field(
        metadata=_declared(
            read.on_sick,
            Flag(BOX, "ACTION"),
            {"enum": list(read.ON_SICK)},
            "When the guard of a box reports faulty hardware: keep it, or have `gpucloud tend` replace it "
            "(of run --detach: as one of the restarts). Default: keep.",
            default="keep",
        )
    )
    setup: str | None = field(
        metadata=_declared(
            read.script,
            Flag(BOX, "COMMANDS"),
            _STRING,
            "Shell commands that prepare the box, once, after sync and data. See --setup-file.",
        )
    )
    run: str | None = field(
        metadata=_declared(
            read.text,
            Flag(BOX, "COMMAND"),
            _STRING,
            "Command to run when the box is ready.",
        )
    )
    env: dict[str, str | None] = field(  # its values may be secrets
        repr=False,
        metadata=_declared(
            read.env,
            Flag(BOX, "K=V"),
            _MAPPING,
            "Variables for setup and run: K=V, or K alone for the value on this machine.",
            default={},
        ),
    )
    sync: tuple[str, ...] = field(
        metadata=_declared(
            read.sync,
            Flag(BOX, "PATH"),
            _STRINGS,
            "Files to copy to the box: LOCAL or LOCAL:REMOTE.",
            default=(),
        )
    )
    exclude: tuple[str, ...] = field(
        metadata=_declared(
            read.ignored,
            Flag(BOX, "PATTERN"),
            {**_STRINGS, "examples": ["*.ckpt", "data/"]},
            "What sync leaves out, besides what git ignores and .gpucloudignore names, as in .gitignore.",
            default=(),
        )
    )
    volumes: tuple[str, ...] = field(
        metadata=_declared(
            read.volumes,
            Flag(BOX, "NAME:/PATH", names=("--volume",)),
            _VOLUMES,
            "Volume to mount, and where: data:/data. With NAME,OTHER:/PATH, the one in the chosen zone.",
            default=(),
        )
    )
    data: tuple[str, ...] = field(
        metadata=_declared(
            read.data,
            Flag(BOX, "URL:/PATH[:scratch]", names=("--data",)),
            _DATA,
            "Folder of your bucket to copy to the box, read-only: s3://BUCKET/SET:/data. "
            "With :scratch, to its local disks.",
            default=(),
        )
    )
    data_role: str | None = field(
        metadata=_declared(
            read.text,
            Flag(BOX, "ROLE"),
            _STRING,
            "Role whose rights to read the data are lent to the box while it copies. Default: yours.",
        )
    )
    ports: tuple[int, ...] = field(
        metadata=_declared(
            read.ports,
            Flag(BOX, "PORT", names=("--ports", "--port")),
            _PORTS,
            "TCP ports, besides ssh, to open to the addresses of allow_from.",
            default=(),
        )
    )
    tags: dict[str, str] = field(
        metadata=_declared(
            read.tags,
            Flag(BOX, "K=V", names=("--tags", "--tag")),
            _MAPPING,
            "Your own tags for everything that is billed.",
            default={},
        )
    )
    allow_from: tuple[str, ...] = field(
        metadata=_declared(
            read.cidrs,
            Flag(BOX, "CIDR"),
            {**_STRINGS, "examples": ["203.0.113.7/32"]},
            "Addresses that may connect, such as 203.0.113.7/32. Default: your own address.",
            default=(),
        )
    )
    ssh_key: str | None = field(
        metadata=_declared(
            read.ssh_key,
            Flag(BOX, "KEY"),
            _STRING,
            "Another public key that may log in: its text, or its file.",
        )
    )
    checkpoint: str | None = field(
        metadata=_declared(
            read.text,
            Flag(BOX, "COMMAND"),
            _STRING,
            "Command to run on the box before it is ended.",
        )
    )
    checkpoint_dir: str | None = field(
        metadata=_declared(
            read.folder,
            Flag(BOX, "PATH"),
            _STRING,
            "Folder on the box whose files `run` keeps in checkpoint_to. Default of `run`: checkpoints.",
        )
    )
    checkpoint_to: str | None = field(
        metadata=_declared(
            read.store_url,
            Flag(BOX, "URL"),
            {**_STRING, "examples": ["s3://bucket/lab"]},
            "Your bucket for the checkpoints of `run`: {s3,oss}://BUCKET/PATH, az://ACCOUNT/CONTAINER/PATH.",
        )
    )
    checkpoint_every: timedelta | None = field(
        metadata=_declared(
            read.interval,
            Flag(BOX, "TIME"),
            {**_STRING, "examples": ["30m", "1h"]},
            "Time between two checkpoints, which an interruption loses at most. Default of `run`: 30m.",
        )
    )
    checkpoint_marker: str | None = field(
        metadata=_declared(
            read.marker,
            Flag(BOX, "GLOB"),
            {**_STRING, "examples": ["*/done", "*.index"]},
            "File in the folder whose appearance says that a checkpoint is whole, such as */done.",
        )
    )
    checkpoint_keep: int | Literal["all"] | None = field(
        metadata=_declared(
            read.kept_sets,
            Flag(BOX, "N|all"),
            {"type": ["integer", "string"], "examples": [2, "all"]},
            "Newest whole sets of each attempt that stay in the bucket; older ones are deleted. Default: 2.",
        )
    )
    checkpoint_role: str | None = field(
        metadata=_declared(
            read.text,
            Flag(BOX, "ROLE"),
            _STRING,
            "Role whose rights on the bucket are lent to the box, for an hour at a time. Default: yours.",
        )
    )
    checkpoint_encryption: str | None = field(
        metadata=_declared(
            read.encryption,
            Flag(BOX, "kms:KEY"),
            _STRING,
            "Key of the cloud that encrypts the checkpoints: kms:KEY. Default: as the bucket does.",
        )
    )
    accept_test: bool = field(
        metadata=_declared(
            read.switch,
            Flag(BOX),
            {"type": "boolean"},
            "Test the GPUs, and the nodes together, before the box is ready.",
            default=False,
        )
    )
    given: frozenset[str] = field(init=False, repr=False, compare=False)
    from_preset: frozenset[str] = field(init=False, repr=False, compare=False)

    def __init__(self, /, **given: object) -> None:
        """Checks the given fields; each may be text, as in a file, or a plain Python value.

        Raises:
            SpecError: a field is unknown, has an invalid value, or contradicts another.
        """
        decided = _decided_by_preset(given)
        given = {**given, **decided}
        values: dict[str, object] = {"given": frozenset(given), "from_preset": frozenset(decided)}
        problems: list[tuple[str | None, str]] = []
        hints: list[str] = []
        for name, each in FIELDS.items():
            try:
                values[name] = each.value(given.get(name, each.default))
            except ValueError as error:
                problems.append((name, str(error)))
                hints += [error.hint] if isinstance(error, read.UnknownNameError) else []
        for name in sorted(given.keys() - FIELDS.keys()):
            problems.append((name, f"unknown field{read.nearest(name, FIELDS)}"))
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if not problems:
            problems = [(None, text) for text in self._contradictions()]
        if problems:
            raise SpecError(problems, "; ".join(hints) or None)

    def _contradictions(self) -> Iterator[str]:
        if self.budget is not None and self.ttl == "none":
            yield (
                "budget and ttl contradict: budget sets a deadline, ttl none means no deadline; leave ttl out"
            )
        if self.volumes and self.nodes > 1:
            yield "volumes and nodes contradict: a volume is attached to one machine"
        if self.volumes and self.count > 1:
            yield "volumes and count contradict: a volume is attached to one machine"
        if self.spread is not None and self.count == 1:
            yield "spread needs count: how many boxes there are, such as 3"
        if self.idle_below is not None and self.idles_out_after() is None:
            yield "idle_below needs idle: how long the box may be idle, such as 1h"
        if self.idle_below is not None and any(wish.mig for wish in parse_requirements(self.gpu or "")):
            yield "idle_below and MIG slices contradict: the driver reports no use of GPUs that are cut"
        if self.checkpoint_dir is not None and self.checkpoint_to is None:
            yield "checkpoint_dir needs checkpoint_to: the bucket that keeps the folder"
        for name in ("checkpoint_marker", "checkpoint_keep", "checkpoint_role", "checkpoint_encryption"):
            if getattr(self, name) is not None and self.checkpoint_to is None:
                yield f"{name} needs checkpoint_to"
        yield from self._contradictions_of_data()
        for name in ("instance_types", "clouds", "regions", "residency", "zones"):
            patterns: tuple[str, ...] = getattr(self, name)
            both = [each for each in patterns if f"!{each}" in patterns]
            if both:
                yield f"{name} contradict each other: {both[0]} is both included and excluded"

    def _contradictions_of_data(self) -> Iterator[str]:
        if self.data_role is not None and not self.data:
            yield "data_role needs data"
        paths = [each.path for each in self.data_sets]
        written = [each.path for each in self.mounts]
        if self.checkpoint_dir is not None and self.checkpoint_dir.startswith("/"):
            written.append(self.checkpoint_dir)
        for number, path in enumerate(paths):
            if any(read.nested(path, each) for each in paths[:number]):
                yield f"data: two sets are at {path}"
            for each in written:
                if read.nested(path, each):
                    yield f"data at {path} and {each} contradict: data sets are read-only"

    def replaced(self, **fields: object) -> Spec:
        """This spec with other values in these fields.

        Raises:
            SpecError: as for a new spec.
        """
        own = self.given - self.from_preset
        return Spec(**{name: getattr(self, name) for name in own} | fields)

    def after_spending(self, usd: Decimal) -> Spec | None:
        """This spec with what is left of its budget; ``None`` if that is nothing."""
        if self.budget is None:
            return self
        left = self.budget - usd
        return self.replaced(budget=left) if left >= read.LEAST_USD else None

    @property
    def machines(self) -> int:
        """The nodes of all boxes."""
        return self.nodes * self.count

    @property
    def wants_gpu(self) -> bool:
        """Whether it asks for GPUs or types. Any GPU at all is more often a mistake than intended."""
        gpus = (self.gpu, self.gpu_memory, self.total_gpu_memory)
        named = any(not each.startswith("!") for each in self.instance_types)
        return named or any(each is not None for each in gpus)

    @property
    def mounts(self) -> tuple[read.Mount, ...]:
        """The volumes, each with its path."""
        return tuple(map(read.mount, self.volumes))

    @property
    def data_sets(self) -> tuple[read.DataSet, ...]:
        """The data sets."""
        return tuple(map(read.data_set, self.data))

    def require_gpu(self) -> None:
        """Refuses a spec for any GPU at all.

        Raises:
            UsageError: it names neither GPUs nor types.
        """
        if not self.wants_gpu:
            raise UsageError(
                "specify a GPU or an instance type: --gpu T4, --gpu A100:8, --gpu-memory 24, "
                "or --instance-type p4d.24xlarge"
            )

    def ends_after(self, default: timedelta) -> timedelta | None:
        """The time to live: as given, or the command's default; ``None`` for ``ttl: none``."""
        ttl = default if self.ttl is None else self.ttl
        return None if ttl == "none" else ttl

    def idles_out_after(self) -> timedelta | None:
        """How long the box may be idle; ``None`` if idleness does not end it."""
        return None if self.idle is None or self.idle == "none" else self.idle

    def document(self) -> dict[str, Any]:
        """Plain JSON, without defaults, and without the values of variables.

        These may be secrets: they are given again when a saved plan is launched. With a preset, all that was
        given is kept: a default that a user chose instead of the preset's value, too.
        """
        document = {
            name: _plain(value)
            for name, each in FIELDS.items()
            if (value := getattr(self, name)) != each.value(each.default)
            or (self.preset is not None and name in self.given)
        }
        if self.env:
            document["env"] = dict.fromkeys(self.env)
        return document

    def preset_document(self) -> dict[str, Any]:
        """The fields that the preset decided, as plain JSON."""
        if self.preset is None:
            return {}
        return {name: value for name, value in presets()[self.preset].items() if name in self.from_preset}

    def demand(self, *, max_age: timedelta | None = None, include_hidden: bool = False) -> Demand:
        """The market search for this spec. ``reserved`` means every kind of commitment there.

        Args:
            max_age: leaves out older prices.
            include_hidden: includes types that are not for sale.
        """
        wanted = {str(purchase) for purchase in self.purchase}
        if Purchase.RESERVED in self.purchase:
            wanted |= {*PURCHASES} - {*LAUNCHABLE}
        return Demand(
            gpus=parse_requirements(self.gpu) if self.gpu else (),
            instance_types=self.instance_types,
            gpu_memory_gib=self.gpu_memory,
            total_gpu_memory_gib=self.total_gpu_memory,
            cpus=self.cpus,
            memory_gib=self.memory,
            arch=self.arch,
            interconnect=self.interconnect,
            rdma=self.rdma,
            purchases=tuple(purchase for purchase in PURCHASES if purchase in wanted),
            clouds=self.clouds,
            regions=self.regions,
            residency=self.residency,
            zones=self.zones,
            max_price_usd=self.max_price,
            max_age=max_age,
            include_hidden=include_hidden,
        )


FIELDS: Mapping[str, Field] = {
    each.name: each.metadata["field"] for each in fields(Spec) if "field" in each.metadata
}
"""The declarations of the spec's fields, by name."""


def _decided_by_preset(given: Mapping[str, object]) -> dict[str, object]:
    """The fields of the preset that is given, without those that the user gives."""
    if given.get("preset") is None:
        return {}
    try:
        name = read.preset(given["preset"])
    except ValueError:
        return {}  # told with the other fields
    own = set(given) | (_WHICH_GPU if _WHICH_GPU & set(given) else set[str]())
    return {field: value for field, value in presets()[name].items() if field not in own}


def deadline(
    *,
    ttl: timedelta | None,
    budget_usd: Decimal | None,
    compute_usd_per_hour: Decimal,
    disk_usd_per_hour: Decimal,
    address_usd_per_hour: Decimal,
    nodes: int,
) -> timedelta | None:
    """How long a box may live: until its ttl or until its budget is spent, whichever is earlier.

    Args:
        ttl: as given; ``None`` for no limit.
        budget_usd: for all nodes together; ``None`` for no limit.
        compute_usd_per_hour: the ceiling price of one node, not today's price.
        disk_usd_per_hour: of one node.
        address_usd_per_hour: of one node.
        nodes: how many nodes are paid for.

    Returns:
        Whole seconds, rounded down; ``None`` for no deadline.
    """
    per_hour = (compute_usd_per_hour + disk_usd_per_hour + address_usd_per_hour) * nodes
    if budget_usd is None or per_hour <= 0:
        return ttl
    seconds = min(budget_usd / per_hour * 3600, Decimal(read.LONGEST.total_seconds()))
    affordable = timedelta(seconds=int(seconds))
    return affordable if ttl is None else min(ttl, affordable)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a spec file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpucloud spec",
        "description": (Spec.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": {name: _property(each) for name, each in FIELDS.items()},
        "additionalProperties": False,
    }


def _property(each: Field) -> dict[str, Any]:
    about = {"description": each.description, "default": _plain(each.value(each.default))}
    if each.default is None:
        return {"anyOf": [each.schema, {"type": "null"}], **about}
    return {**each.schema, **about}


def _plain(value: object) -> Any:
    """A field's value as plain JSON."""
    if isinstance(value, timedelta):
        return read.format_end(value)
    if isinstance(value, tuple):
        return list(cast("tuple[object, ...]", value))
    return f"{value:f}" if isinstance(value, Decimal) else value

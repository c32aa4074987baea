"""The spec: what a user asks for, as one value. Flags, YAML files and Python callers all produce one.

Fields are parsed from text or plain Python values by the same rules. No I/O, no clock, no environment;
files and flags are read by :mod:`gpucloud.spec.file`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from gpucloud.errors import UsageError
from gpucloud.resources import Purchase
from gpucloud.spec import fields as read
from gpucloud.spec.flags import BOX, GPU, PAYMENT, PLACE, Flag
from gpucloud_pricing.demand import COMMITMENTS, INTERCONNECTS, OWNED, PURCHASES, RDMA, Demand
from gpucloud_pricing.gpus import parse_wishes

DEFAULT_DISK_GIB = 100

_STRING: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": ["number", "string"]}
_WHOLE: dict[str, Any] = {"type": ["integer", "string"]}
_STRINGS: dict[str, Any] = {"type": ["array", "string"], "items": _STRING}
_PORTS: dict[str, Any] = {"type": ["array", "integer", "string"], "items": _WHOLE}
_MAPPING: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
}


def _schema(schema: dict[str, Any], **more: Any) -> WithJsonSchema:
    return WithJsonSchema({**schema, **more})


Gib = Annotated[Decimal, BeforeValidator(read.gib), _schema(_NUMBER, examples=[40, "80GB"])]
Usd = Annotated[Decimal, BeforeValidator(read.usd), _schema(_NUMBER, examples=["2.50"])]
Patterns = Annotated[tuple[str, ...], BeforeValidator(read.patterns), _schema(_STRINGS)]
Text = Annotated[str, BeforeValidator(read.text), _schema(_STRING)]
Name = Annotated[str, BeforeValidator(read.name), _schema(_STRING, pattern=read.NAME)]
Gpu = Annotated[str, BeforeValidator(read.gpu), _schema(_STRINGS, examples=["A100:8", "T4:1..4"])]
Cpus = Annotated[int, BeforeValidator(read.whole(1, 4096, "vCPUs")), _schema(_WHOLE, minimum=1)]
Nodes = Annotated[int, BeforeValidator(read.whole(1, 1000, "nodes")), _schema(_WHOLE, minimum=1)]
Disk = Annotated[int, BeforeValidator(read.disk_gib), _schema(_WHOLE, examples=[100, "1TB"])]
Arch = Annotated[str, BeforeValidator(read.arch), _schema({"enum": list(read.ARCHES)})]
Interconnect = Annotated[str, BeforeValidator(read.interconnect), _schema({"enum": list(INTERCONNECTS)})]
Rdma = Annotated[str, BeforeValidator(read.rdma), _schema({"enum": list(RDMA)})]
Purchases = Annotated[
    tuple[Purchase, ...],
    BeforeValidator(read.purchases),
    _schema(_STRINGS, items={"enum": list(read.PURCHASES)}),
]
Image = Annotated[str, BeforeValidator(read.image), _schema(_STRING, examples=["cuda-12.4", "pytorch"])]
End = Annotated[
    timedelta | Literal["none"],
    BeforeValidator(read.end),
    PlainSerializer(read.format_end, return_type=str),
    _schema(_STRING, examples=["90m", "24h", "1h30m", "2d", "none"]),
]
Switch = Annotated[bool, BeforeValidator(read.switch)]
Env = Annotated[dict[str, str | None], BeforeValidator(read.env), _schema(_MAPPING)]
Tags = Annotated[dict[str, str], BeforeValidator(read.tags), _schema(_MAPPING)]
Sync = Annotated[tuple[str, ...], BeforeValidator(read.sync), _schema(_STRINGS)]
Ports = Annotated[tuple[int, ...], BeforeValidator(read.ports), _schema(_PORTS)]
Cidrs = Annotated[
    tuple[str, ...], BeforeValidator(read.cidrs), _schema(_STRINGS, examples=["203.0.113.7/32"])
]
SshKey = Annotated[str, BeforeValidator(read.ssh_key), _schema(_STRING)]


class SpecError(UsageError):
    """The values of a spec are not allowed.

    Attributes:
        problems: what is wrong, each with the field; without one, where fields contradict each other.
    """

    def __init__(self, problems: Sequence[tuple[str | None, str]]) -> None:
        super().__init__("; ".join(text if field is None else f"{field}: {text}" for field, text in problems))
        self.problems = problems


class Spec(BaseModel):
    """What a user asks for: GPU, purchase option, place, and box. Every field is optional."""

    # A field's description is also the help text of its flag, and stands in the JSON Schema.

    model_config = ConfigDict(extra="forbid", frozen=True, title="gpucloud spec")

    def __init__(self, /, **fields: Any) -> None:
        """Reads each field from text or a plain value: ``ttl="1h"``.

        Raises:
            SpecError: a value is not allowed, or fields contradict each other.
        """
        try:
            super().__init__(**fields)
        except ValidationError as error:
            problems = [_problem(each) for each in error.errors(include_url=False)]
            raise SpecError(problems) from None

    name: Annotated[Name | None, Flag(BOX, "NAME")] = Field(
        default=None,
        description="Name of the box: 1-40 of a-z, 0-9 and -, unique among your boxes. Default: generated.",
    )
    gpu: Annotated[Gpu | None, Flag(GPU, "GPU")] = Field(
        default=None,
        description="GPU model, with memory and count: A100, A100-80GB:8, T4:1..4, A100:8,H100:4.",
    )
    gpu_memory: Annotated[Gib | None, Flag(GPU, "GIB")] = Field(
        default=None, description="Minimum memory of each GPU, in GiB."
    )
    total_gpu_memory: Annotated[Gib | None, Flag(GPU, "GIB")] = Field(
        default=None, description="Minimum memory of all GPUs together, in GiB."
    )
    interconnect: Annotated[Interconnect | None, Flag(GPU, "LINK")] = Field(
        default=None, description=f"Minimum link between the GPUs: {', '.join(INTERCONNECTS)}."
    )
    rdma: Annotated[Rdma | None, Flag(GPU, "NETWORK")] = Field(
        default=None, description=f"RDMA network between the nodes: {', '.join(RDMA)}."
    )
    cpus: Annotated[Cpus | None, Flag(GPU, "N")] = Field(default=None, description="Minimum number of vCPUs.")
    memory: Annotated[Gib | None, Flag(GPU, "GIB")] = Field(
        default=None, description="Minimum main memory, in GiB."
    )
    arch: Annotated[Arch, Flag(GPU, "ARCH")] = Field(
        default="x86_64", description=f"Processor architecture: {' or '.join(read.ARCHES)}. Default: x86_64."
    )
    purchase: Annotated[
        Purchases,
        Flag(
            PAYMENT,
            "OPTION",
            switches={
                "on-demand": "Allow on-demand instances. This is the default.",
                "spot": "Allow spot instances.",
                "reserved": "Allow reserved capacity that the account already holds.",
            },
        ),
    ] = Field(
        default=(Purchase.ON_DEMAND,), description=f"Allowed purchase options: {', '.join(read.PURCHASES)}."
    )
    max_price: Annotated[Usd | None, Flag(PAYMENT, "USD")] = Field(
        default=None,
        description="Maximum compute price of a node, in USD per hour.",
    )
    budget: Annotated[Usd | None, Flag(PAYMENT, "USD")] = Field(
        default=None,
        description="Total cost limit in USD, without egress. The box ends once it is spent, or at its ttl.",
    )
    clouds: Annotated[Patterns, Flag(PLACE, "NAME", names=("--cloud",))] = Field(
        default=(), description="Clouds to use: names, globs, or !name to exclude one."
    )
    regions: Annotated[Patterns, Flag(PLACE, "NAME", names=("--region",))] = Field(
        default=(),
        description="Regions to use: names, globs (us-*), groups (eu, us, cn, ap), or !name to exclude one.",
    )
    zones: Annotated[Patterns, Flag(PLACE, "NAME", names=("--zone",))] = Field(
        default=(), description="Zones to use: names, globs, or !name to exclude one."
    )
    nodes: Annotated[Nodes, Flag(BOX, "N")] = Field(
        default=1,
        description="Number of identical nodes, placed together: all are launched, or none. Default: 1.",
    )
    disk: Annotated[Disk, Flag(BOX, "GIB")] = Field(
        default=DEFAULT_DISK_GIB,
        description=f"Size of the encrypted root disk in GiB. Default: {DEFAULT_DISK_GIB}.",
    )
    image: Annotated[Image | None, Flag(BOX, "IMAGE")] = Field(
        default=None, description="A recipe (cuda-12.4, pytorch, ubuntu-22.04) or an image ID of the cloud."
    )
    ttl: Annotated[End | None, Flag(BOX, "TIME")] = Field(
        default=None, description="Time to live; then the box is deleted: 90m, 24h, 1h30m, 2d, or none."
    )
    ttl_role: Annotated[Text | None, Flag(BOX, "ARN")] = Field(
        default=None, description="Role of the cloud's schedule that also ends the box at its ttl."
    )
    box_identity: Annotated[Text | None, Flag(BOX, "ROLE")] = Field(
        default=None, description="Role with which the box deletes itself; granted on the box alone."
    )
    idle: Annotated[End | None, Flag(BOX, "TIME")] = Field(
        default=None,
        description="End the box when GPUs, ssh sessions and jobs are idle this long: 30m, 2h, or none.",
    )
    setup: Annotated[Text | None, Flag(BOX, "COMMANDS")] = Field(
        default=None, description="Shell commands that prepare the box. They run once."
    )
    run: Annotated[Text | None, Flag(BOX, "COMMAND")] = Field(
        default=None, description="Command to run when the box is ready."
    )
    env: Annotated[Env, Flag(BOX, "K=V")] = Field(
        default={}, description="Variables for setup and run: K=V, or K alone for the value on this machine."
    )
    sync: Annotated[Sync, Flag(BOX, "PATH")] = Field(
        default=(), description="Files to copy to the box: LOCAL or LOCAL:REMOTE."
    )
    ports: Annotated[Ports, Flag(BOX, "PORT", names=("--ports", "--port"))] = Field(
        default=(), description="TCP ports, besides ssh, to open to the addresses of allow_from."
    )
    tags: Annotated[Tags, Flag(BOX, "K=V", names=("--tags", "--tag"))] = Field(
        default={}, description="Your own tags for everything that is billed."
    )
    allow_from: Annotated[Cidrs, Flag(BOX, "CIDR")] = Field(
        default=(),
        description="Addresses that may connect, such as 203.0.113.7/32. Default: your own address.",
    )
    ssh_key: Annotated[SshKey | None, Flag(BOX, "KEY")] = Field(
        default=None, description="Another public key that may log in: its text, or its file."
    )
    checkpoint: Annotated[Text | None, Flag(BOX, "COMMAND")] = Field(
        default=None, description="Command to run on the box before it is ended."
    )
    accept_test: Annotated[Switch, Flag(BOX)] = Field(
        default=False,
        description="Test memory, arithmetic and links of the GPUs before the box is ready.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Spec:
        if self.budget is not None and self.ttl == "none":
            raise ValueError(
                "budget and ttl contradict: budget sets a deadline, ttl none means no deadline; leave ttl out"
            )
        for field in ("clouds", "regions", "zones"):
            patterns: tuple[str, ...] = getattr(self, field)
            both = [each for each in patterns if f"!{each}" in patterns]
            if both:
                raise ValueError(f"{field} contradict each other: {both[0]} is both included and excluded")
        return self

    @property
    def wants_gpu(self) -> bool:
        """Whether it asks for a GPU. A spec for any GPU at all is more often a mistake than intended."""
        return any(each is not None for each in (self.gpu, self.gpu_memory, self.total_gpu_memory))

    def ends_after(self, default: timedelta) -> timedelta | None:
        """The time to live: as given, or the command's default; ``None`` for ``ttl: none``."""
        ttl = default if self.ttl is None else self.ttl
        return None if ttl == "none" else ttl

    def idles_out_after(self) -> timedelta | None:
        """How long the box may be idle; ``None`` if idleness does not end it."""
        return None if self.idle is None or self.idle == "none" else self.idle

    def document(self) -> dict[str, Any]:
        """Plain JSON, without defaults, and without the values of variables.

        These may be secrets: they are given again when a saved plan is launched.
        """
        document: dict[str, Any] = json.loads(self.model_dump_json(exclude_defaults=True))
        if self.env:
            document["env"] = dict.fromkeys(self.env)
        return document

    def demand(self, *, max_age: timedelta | None = None, include_hidden: bool = False) -> Demand:
        """The market search for this spec. ``reserved`` means every kind of commitment there.

        Args:
            max_age: leaves out older prices.
            include_hidden: includes types that are not for sale.
        """
        wanted = {str(purchase) for purchase in self.purchase}
        if Purchase.RESERVED in self.purchase:
            wanted |= {*COMMITMENTS, OWNED}
        return Demand(
            gpus=parse_wishes(self.gpu) if self.gpu else (),
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
            zones=self.zones,
            max_price_usd=self.max_price,
            max_age=max_age,
            include_hidden=include_hidden,
        )


def _problem(error: Any) -> tuple[str | None, str]:
    """One of pydantic's errors: the field, and what is wrong."""
    if not error["loc"]:
        return None, str(error["ctx"]["error"])
    field = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return field, f"unknown field{read.nearest(field, Spec.model_fields)}"
    return field, str(error.get("ctx", {}).get("error", error["msg"]))


FLAGS: Mapping[str, Flag] = {
    name: next(each for each in info.metadata if isinstance(each, Flag))
    for name, info in Spec.model_fields.items()
}
"""The flag of each field, by the field's name."""


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
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Spec.model_json_schema()}

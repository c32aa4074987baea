"""The spec: what a user asks for, as one value. Flags, YAML files and Python callers all end here.

Everything is read from text or from plain Python values, by the same rules. No I/O, no clock, no environment;
files and flags are read by :mod:`gpucloud.spec.file`.
"""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from gpucloud.resources import Purchase
from gpucloud.spec import fields as read
from gpucloud_pricing.demand import COMMITMENTS, OWNED, PURCHASES, Demand
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
Interconnect = Annotated[str, BeforeValidator(read.interconnect), _schema({"enum": list(read.INTERCONNECTS)})]
Rdma = Annotated[str, BeforeValidator(read.rdma), _schema({"enum": list(read.RDMA)})]
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


class Spec(BaseModel):
    """What a user asks for: a GPU, how to pay, where, and what the box is like. All may be left out."""

    # Making one from bad values raises pydantic's ValidationError; load_spec turns it into a UsageError.

    model_config = ConfigDict(extra="forbid", frozen=True, title="gpucloud spec")

    name: Name | None = Field(
        default=None, description="Unique among your boxes: 1-40 of a-z 0-9 -. Generated if absent."
    )
    gpu: Gpu | None = Field(default=None, description="MODEL[-MEMORYGB][:COUNT], alternatives with a comma.")
    gpu_memory: Gib | None = Field(default=None, description="At least this many GiB on each GPU.")
    total_gpu_memory: Gib | None = Field(default=None, description="At least this many GiB on all GPUs.")
    cpus: Cpus | None = Field(default=None, description="At least this many vCPUs.")
    memory: Gib | None = Field(default=None, description="At least this many GiB of main memory.")
    arch: Arch = Field(default="x86_64", description="The processor's architecture.")
    interconnect: Interconnect | None = Field(default=None, description="At least this between the GPUs.")
    rdma: Rdma | None = Field(default=None, description="The network between nodes.")
    purchase: Purchases = Field(
        default=(Purchase.ON_DEMAND,), description="The ways of paying that may be used."
    )
    clouds: Patterns = Field(default=(), description="Clouds to look in: names, globs, !x to leave out.")
    regions: Patterns = Field(
        default=(), description="Names, globs (us-*), groups (eu us cn ap), !x to leave out."
    )
    zones: Patterns = Field(default=(), description="Names, globs, !x to leave out.")
    max_price: Usd | None = Field(
        default=None, description="USD per hour and box, compute only: never launched above."
    )
    budget: Usd | None = Field(
        default=None,
        description="USD in all, egress left out: becomes a deadline; the earlier of it and ttl counts.",
    )
    nodes: Nodes = Field(default=1, description="Identical boxes placed together, all or none.")
    disk: Disk = Field(default=DEFAULT_DISK_GIB, description="The root disk in GiB, encrypted.")
    image: Image | None = Field(
        default=None, description="A recipe (cuda-12.4, pytorch, ubuntu-22.04) or a cloud's own image id."
    )
    ttl: End | None = Field(
        default=None, description="When the box ends without us: 90m, 24h, 1h30m, 2d, or none."
    )
    ttl_role: Text | None = Field(
        default=None, description="A role with which a rule of the cloud's own ends the box, too."
    )
    box_identity: Text | None = Field(
        default=None, description="A role that the box gets on itself alone, to delete itself."
    )
    idle: End | None = Field(
        default=None, description="End after GPUs, ssh sessions and jobs were all idle this long."
    )
    setup: Text | None = Field(default=None, description="Shell commands that prepare the box once.")
    run: Text | None = Field(default=None, description="The command to run when the box is ready.")
    env: Env = Field(
        default={}, description="Variables for setup and run; a key without a value takes the caller's own."
    )
    sync: Sync = Field(default=(), description="Files to bring along: LOCAL or LOCAL:REMOTE.")
    ports: Ports = Field(default=(), description="TCP ports opened to allow_from, besides ssh.")
    tags: Tags = Field(default={}, description="Tags of your own for everything billable.")
    allow_from: Cidrs = Field(
        default=(), description="CIDRs let in; never the world. Default: the caller's own address."
    )
    ssh_key: SshKey | None = Field(
        default=None, description="A public key (text or file) let in besides the box's own."
    )
    checkpoint: Text | None = Field(
        default=None, description="The command to run on the box before it is ended."
    )

    accept_test: Switch = Field(
        default=False, description="Test memory, arithmetic and connections of the GPUs before it is ready."
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Spec:
        if self.budget is not None and self.ttl == "none":
            raise ValueError(
                "budget and ttl contradict: a budget is an end, ttl none means no end; leave ttl out"
            )
        for field in ("clouds", "regions", "zones"):
            patterns: tuple[str, ...] = getattr(self, field)
            both = [each for each in patterns if f"!{each}" in patterns]
            if both:
                raise ValueError(f"{field} contradict each other: {both[0]} is asked for and left out")
        return self

    @property
    def wants_gpu(self) -> bool:
        """Whether it says anything of GPUs. A box of just any GPU is a typo more often than a wish."""
        return any(each is not None for each in (self.gpu, self.gpu_memory, self.total_gpu_memory))

    def ends_after(self, default: timedelta) -> timedelta | None:
        """The time to live: as given, else the command's default; ``None`` for ``ttl: none``."""
        ttl = default if self.ttl is None else self.ttl
        return None if ttl == "none" else ttl

    def idles_out_after(self) -> timedelta | None:
        """How long the box may be idle; ``None`` when that does not end it."""
        return None if self.idle is None or self.idle == "none" else self.idle

    def document(self) -> dict[str, Any]:
        """Plain JSON, without what the spec leaves open, and without the values of its variables.

        These may be secrets: whoever launches a saved plan gives them again.
        """
        document: dict[str, Any] = json.loads(self.model_dump_json(exclude_defaults=True))
        if self.env:
            document["env"] = dict.fromkeys(self.env)
        return document

    def demand(self, *, max_age: timedelta | None = None, include_hidden: bool = False) -> Demand:
        """The search of the market that this spec stands for. ``reserved`` is every kind of commitment there.

        Args:
            max_age: leaves out older quotes.
            include_hidden: shows what is not for sale, too.
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


def deadline(
    *,
    ttl: timedelta | None,
    budget_usd: Decimal | None,
    compute_usd_per_hour: Decimal,
    disk_usd_per_hour: Decimal,
    address_usd_per_hour: Decimal,
    nodes: int,
) -> timedelta | None:
    """How long a box may live: the earlier of its ttl and of the moment when its budget is spent.

    Args:
        ttl: as given; ``None`` for no end.
        budget_usd: for all nodes together; ``None`` for no limit.
        compute_usd_per_hour: the ceiling price of one node, not today's price.
        disk_usd_per_hour: of one node.
        address_usd_per_hour: of one node.
        nodes: how many nodes are paid for.

    Returns:
        Whole seconds, rounded down; ``None`` when nothing ends it.
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

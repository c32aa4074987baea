"""The spec: what a user asks for, as one value. Flags, YAML files and Python callers all produce one.

Fields are declared in :mod:`gpucloud.spec.declarations`, and parsed from text or plain Python values by the
same rules. No I/O, no clock, no environment; files and flags are read by :mod:`gpucloud.spec.file`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

from gpucloud.errors import MOST_PROBLEMS, UsageError, first_of
from gpucloud.spec import fields as read
from gpucloud.spec.declarations import FIELDS, plain, renamed
from gpucloud.spec.mounts import DataSet, Mount, data_set, mount, nested
from gpucloud.spec.presets import presets
from gpucloud_pricing.demand import Demand
from gpucloud_pricing.gpus import parse_requirements
from gpucloud_pricing.purchases import LAUNCHABLE, PURCHASES, Purchase

_WHICH_GPU = frozenset({"gpu", "instance_types", "gpu_memory", "total_gpu_memory"})
"""The fields that name GPUs: who gives one of them wants none of a preset's."""


class SpecError(UsageError):
    """A spec with invalid fields.

    Attributes:
        problems: what is wrong, each with its field; ``None`` where fields contradict each other.
    """

    def __init__(self, problems: Sequence[tuple[str | None, str]], hint: str | None = None) -> None:
        told = [f"{name}: {text}" if name else text for name, text in problems]
        super().__init__(first_of(told), hint=hint)
        self.problems = problems


@dataclass(frozen=True, init=False)
class Spec:
    """What a user asks for: GPU, purchase option, place, and box. Every field is optional.

    The fields are those of :data:`gpucloud.spec.declarations.FIELDS`, with their types.

    Attributes:
        given: the names of the fields that were given, with their defaults or other values; those of the
            preset are among them.
        from_preset: the names of the fields that the preset decided.
    """

    name: str | None
    preset: str | None
    gpu: str | None
    instance_types: tuple[str, ...]
    gpu_memory: Decimal | None
    total_gpu_memory: Decimal | None
    interconnect: str | None
    rdma: str | None
    cpus: int | None
    memory: Decimal | None
    arch: str
    purchase: tuple[Purchase, ...]
    max_price: Decimal | None
    budget: Decimal | None
    clouds: tuple[str, ...]
    regions: tuple[str, ...]
    residency: tuple[str, ...]
    zones: tuple[str, ...]
    near: str | None
    nodes: int
    count: int
    spread: str | None
    disk: int
    image: str | None
    ttl: timedelta | Literal["none"] | None
    ttl_role: str | None
    box_identity: str | None
    idle: timedelta | Literal["none"] | None
    idle_below: int | None
    on_unhealthy: str
    setup: str | None
    run: str | None
    env: dict[str, str | None] = field(repr=False)  # its values may be secrets
    sync: tuple[str, ...]
    exclude: tuple[str, ...]
    volumes: tuple[str, ...]
    data: tuple[str, ...]
    data_role: str | None
    ports: tuple[int, ...]
    tags: dict[str, str]
    allow_from: tuple[str, ...]
    ssh_key: str | None
    checkpoint: str | None
    checkpoint_dir: str | None
    checkpoint_to: str | None
    checkpoint_every: timedelta | None
    checkpoint_marker: str | None
    checkpoint_keep: int | Literal["all"] | None
    checkpoint_role: str | None
    checkpoint_encryption: str | None
    accept_test: bool
    given: frozenset[str] = field(init=False, repr=False, compare=False)
    from_preset: frozenset[str] = field(init=False, repr=False, compare=False)

    def __init__(self, /, **given: object) -> None:
        """Checks the given fields; each may be text, as in a file, or a plain Python value.

        Raises:
            SpecError: a field is unknown, has an invalid value, or contradicts another.
        """
        given = renamed(given)
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
        for number, name in enumerate(sorted(given.keys() - FIELDS.keys())):
            like = read.nearest(name, FIELDS) if number < MOST_PROBLEMS else ""
            problems.append((name, f"unknown field{like}"))
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
        if self.idle_below is not None and any(each.mig for each in parse_requirements(self.gpu or "")):
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
            if any(nested(path, each) for each in paths[:number]):
                yield f"data: two sets are at {path}"
            for each in written:
                if nested(path, each):
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
    def mounts(self) -> tuple[Mount, ...]:
        """The volumes, each with its path."""
        return tuple(map(mount, self.volumes))

    @property
    def data_sets(self) -> tuple[DataSet, ...]:
        """The data sets."""
        return tuple(map(data_set, self.data))

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
            name: plain(value)
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

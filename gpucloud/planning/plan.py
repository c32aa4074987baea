"""The plan of a launch, as a value: it can be printed, saved, compared with today, and refused.

Pure functions over the market's offers; nothing here calls a cloud or reads a clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import ROUND_DOWN, Decimal
from typing import TYPE_CHECKING, Any

from gpucloud.errors import UsageError
from gpucloud.market.cells import paid_cell
from gpucloud.planning.data_source import DataSource
from gpucloud.rendering.table import Cell, Role, Table
from gpucloud.rendering.tabular import Tabular
from gpucloud.resources import HeldCapacity, Quote, request_hash, rfc3339
from gpucloud_pricing import format_money
from gpucloud_pricing.demand import NO_RDMA
from gpucloud_pricing.purchases import Purchase
from gpucloud_pricing.rules import IMPLAUSIBLE, PRICE_FLAGS, STALE, caution
from gpucloud_pricing.values import Money, number

if TYPE_CHECKING:
    from gpucloud.planning.documents import AttemptDocument, PlanDocument

SCHEMA = "gpucloud.plan/v1"
CHEAPEST = 20
"""The attempts that are chosen by price alone; their prices and quotas are asked for before."""
MAX_ATTEMPTS = 60
"""All attempts: after the cheapest, one for each further way of paying, cloud and region."""
MAX_ATTEMPT_SECONDS = 600.0
DEAREST = 2
"""How many times the price of the cheapest attempt of its way of paying one may cost without a limit."""
OF_EACH = 3
"""The offers of each way of paying and cloud whose prices are asked for, also where others are cheaper."""
ZONES_BEFORE_NEXT_REGION = 2
SPOT_MARGIN = Decimal("1.25")
LIST_MARGIN = Decimal("1.02")
"""How far a price may rise between the plan and the purchase if there is no limit."""
CEILING_STEP = Decimal("0.000001")
MAKE_AGAIN = "make a new plan: gpucloud plan --save FILE; nothing was started"


Key = tuple[str, str, str, str, str]
"""The identity of a candidate: cloud, region, zone, instance type, way of paying."""


_TEXTS = (
    *("cloud", "region", "zone", "instance_type", "gpu_model", "interconnect", "rdma", "arch"),
    *("currency", "source"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One offer in one zone that a launch may try.

    ``zone`` is empty if the market has no zone. Prices are per hour and node: ``price`` in ``currency`` as
    the cloud bills it, ``price_usd`` for comparison. ``as_of`` is the price's date; ``quoted_at`` is when the
    cloud itself quoted it, ``None`` for a price of the market's data. ``ceiling_usd`` is the most that it may
    cost per hour and node when it is bought: its own price until a plan allows more (:func:`capped`).
    ``reservation`` is held capacity to launch into. ``local_ssd_gib`` is the size of the local disks, 0 where
    there are none, or none is known. ``surcharge_usd`` is what the order adds to the price per hour and node,
    for what is not billed by the hour; ``None`` if that is unknown. ``rdma`` is the RDMA network that
    the type can be joined by.
    """

    cloud: str
    region: str
    zone: str
    instance_type: str
    purchase: Purchase
    gpu_model: str
    gpu_count: Decimal
    gpu_memory_gib: Decimal
    vcpus: int
    memory_gib: Decimal
    interconnect: str
    arch: str
    price: Decimal
    currency: str
    price_usd: Decimal
    ceiling_usd: Decimal
    as_of: date
    source: str
    flags: tuple[str, ...] = ()
    quoted_at: datetime | None = None
    reservation: str | None = None
    local_ssd_gib: Decimal = Decimal(0)
    surcharge_usd: Decimal | None = Decimal(0)
    rdma: str = "none"

    @property
    def place(self) -> str:
        """The place, type and way of paying, for people: ``aws us-east-1 use1-az1 g4dn.xlarge spot``."""
        where = " ".join(part for part in (self.cloud, self.region, self.zone) if part)
        return f"{where} {self.instance_type} {self.purchase.replace('_', '-')}"

    def where(self) -> dict[str, str | None]:
        """The place, type and way of paying, as plain JSON."""
        return {
            "cloud": self.cloud,
            "region": self.region,
            "zone": self.zone or None,
            "instance_type": self.instance_type,
            "purchase": str(self.purchase),
        }

    @property
    def key(self) -> Key:
        """The identity of the candidate, independent of its price."""
        return (self.cloud, self.region, self.zone, self.instance_type, str(self.purchase))

    @property
    def quoted(self) -> bool:
        """Whether the cloud itself quoted the price."""
        return self.quoted_at is not None

    @property
    def stale(self) -> bool:
        """Whether the price is too old to buy at it without asking the cloud."""
        return STALE in self.flags and not self.quoted

    def as_json(self) -> AttemptDocument:
        """Plain JSON."""
        return {
            "cloud": self.cloud,
            "region": self.region,
            "zone": self.zone or None,
            "instance_type": self.instance_type,
            "purchase": str(self.purchase),
            "gpu_model": self.gpu_model,
            "gpu_count": number(self.gpu_count),
            "gpu_memory_gib": number(self.gpu_memory_gib),
            "vcpus": self.vcpus,
            "memory_gib": number(self.memory_gib),
            "local_ssd_gib": number(self.local_ssd_gib),
            "interconnect": self.interconnect,
            "rdma": self.rdma,
            "arch": self.arch,
            "price": Money(amount=self.price, currency=self.currency).document(),
            "price_usd": Money(amount=self.price_usd, currency="USD").document(),
            "ceiling_usd": Money(amount=self.ceiling_usd, currency="USD").document(),
            "as_of": self.as_of.isoformat(),
            "source": self.source,
            "flags": list(self.flags),
            "quoted": self.quoted,
            "quoted_at": rfc3339(self.quoted_at) if self.quoted_at else None,
            "reservation": self.reservation,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Candidate:
        """The reverse of :meth:`as_json`. Raises ``KeyError`` or ``ValueError`` for invalid data."""
        values: dict[str, Any] = {key: value for key, value in data.items() if key != "quoted"}
        for key in ("gpu_count", "gpu_memory_gib", "memory_gib", "local_ssd_gib"):
            values[key] = Decimal(str(data[key]))
        for key in ("price", "price_usd", "ceiling_usd"):
            values[key] = Decimal(data[key]["amount"])
        values["currency"] = data["price"]["currency"]
        values["zone"] = data["zone"] or ""
        values["purchase"] = Purchase(data["purchase"])
        values["as_of"] = date.fromisoformat(data["as_of"])
        values["quoted_at"] = datetime.fromisoformat(data["quoted_at"]) if data["quoted_at"] else None
        values["flags"] = tuple(data["flags"])
        if not all(isinstance(values[name], str) for name in _TEXTS):
            raise ValueError(f"one of {', '.join(_TEXTS)} is no text")
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Tabular):
    """The attempts of a launch, in order.

    ``spec`` is the spec as plain JSON. ``left_out`` has the clouds, and the parts of clouds, that were not
    considered, and why. ``endings`` has for each cloud what ends a box there at its deadline; ``remarks`` how
    its boxes differ from the default. ``data`` are the data sets; a saved
    plan has none.
    """

    created_at: datetime
    spec: Mapping[str, Any]
    attempts: tuple[Candidate, ...]
    left_out: Mapping[str, str]
    endings: Mapping[str, str] = field(default_factory=dict[str, str])
    remarks: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    data: tuple[DataSource, ...] = ()

    def table(self) -> Table:
        """The table of ``gpucloud plan``: its attempts."""
        return table_of(self.attempts)

    def as_json(self) -> dict[str, Any]:
        """The document that ``plan --save`` saves."""
        return {"schema": SCHEMA, **self.document()}

    def document(self) -> PlanDocument:
        """The fields of ``gpucloud.plan/v1``; ``digest`` detects changes to a saved plan."""
        document: PlanDocument = {
            "created_at": rfc3339(self.created_at),
            "spec": dict(self.spec),
            "attempts": [attempt.as_json() for attempt in self.attempts],
            "left_out": dict(self.left_out),
            "endings": dict(self.endings),
            "remarks": {cloud: list(said) for cloud, said in self.remarks.items()},
            "digest": "",
        }
        document["digest"] = request_hash(document)
        return document

    @classmethod
    def from_json(cls, data: Any) -> Plan:
        """Reads a saved plan.

        Raises:
            UsageError: it is no plan, of another schema, or not as it was saved.
        """
        document: dict[str, Any] = {**data} if isinstance(data, Mapping) else {}
        if document.get("schema") != SCHEMA:
            raise UsageError(
                "this file is not a saved plan", hint=f"make one: gpucloud plan --save plan.json ({SCHEMA})"
            )
        try:
            plan = cls(
                created_at=datetime.fromisoformat(document["created_at"]),
                spec=dict(document["spec"]),
                attempts=tuple(Candidate.from_json(each) for each in document["attempts"]),
                left_out=dict(document["left_out"]),
                endings=dict(document["endings"]),
                remarks=dict(document.get("remarks", {})),
            )
            digest = plan.document()["digest"]
        except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise UsageError(
                f"this saved plan is damaged: {type(error).__name__}: {error}", hint=MAKE_AGAIN
            ) from error
        if document.get("digest") != digest:
            raise UsageError("this saved plan was edited or is damaged", hint=MAKE_AGAIN)
        return plan


def rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The order of choice: paid already, unflagged, plausible, cheaper, newer price, smaller, then by name.

    Held capacity costs nothing more, whatever its price is. Of the rest, what has an unknown surcharge never
    comes before anything else.
    """
    return sorted(
        candidates,
        key=lambda c: (
            *_price_level(c),
            -c.as_of.toordinal(),
            c.vcpus,
            c.cloud,
            c.region,
            c.zone,
            c.instance_type,
        ),
    )


def cheapest(ranked: Iterable[Candidate], *, most: int = CHEAPEST) -> tuple[Candidate, ...]:
    """The first attempts in order: held capacity, then strictly by price; two zones of each region if equal.

    A more expensive offer never comes before a cheaper one. Among equal ones a third zone of a region comes
    after every other region, because two zones without capacity make capacity in a third one unlikely.
    """
    ordered: list[Candidate] = []
    level: list[Candidate] = []
    for candidate in ranked:
        if level and _price_level(candidate) != _price_level(level[0]):
            ordered += _spread(level)
            level = []
        if len(ordered) >= most:
            break
        level.append(candidate)
    ordered += _spread(level)
    return tuple(ordered[:most])


def attempts(ranked: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The attempts in order: the cheapest, then the best of each further way of paying, cloud and region.

    So a way of paying that is sold out, or a cloud that refuses, does not end a launch that another one would
    serve.
    """
    first = cheapest(ranked)
    seen = {_part(candidate) for candidate in first}
    further: list[Candidate] = []
    for candidate in ranked:
        if _part(candidate) not in seen:
            seen.add(_part(candidate))
            further.append(candidate)
    return (*first, *further)[:MAX_ATTEMPTS]


def _part(candidate: Candidate) -> tuple[str, str, str]:
    return str(candidate.purchase), candidate.cloud, candidate.region


def of_each(ranked: Iterable[Candidate]) -> list[Candidate]:
    """The first offers of each way of paying and cloud."""
    seen: Counter[tuple[str, str]] = Counter()
    found: list[Candidate] = []
    for candidate in ranked:
        part = str(candidate.purchase), candidate.cloud
        seen[part] += 1
        if seen[part] <= OF_EACH:
            found.append(candidate)
    return found


def split_dear(ranked: Iterable[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """The offers that may be tried where nobody has set a limit, and those that cost too much for that.

    That is more than :data:`DEAREST` times the first offer of the same way of paying.
    """
    most: dict[Purchase, Decimal] = {}
    tried: list[Candidate] = []
    dear: list[Candidate] = []
    for candidate in ranked:
        limit = most.setdefault(candidate.purchase, DEAREST * candidate.price_usd)
        is_dear = candidate.price_usd > limit and not candidate.purchase.kind.paid_already
        (dear if is_dear else tried).append(candidate)
    return tried, dear


def _price_level(candidate: Candidate) -> tuple[bool, bool, int, Decimal]:
    surcharge, paid = candidate.surcharge_usd, candidate.purchase.kind.paid_already
    return not paid, surcharge is None, caution(candidate.flags), candidate.price_usd + (surcharge or 0)


def _spread(level: Sequence[Candidate]) -> list[Candidate]:
    """Equal prices, region by region, at most two zones each per round."""
    seen: dict[tuple[str, str, str], int] = {}
    rounds: list[tuple[int, int, Candidate]] = []
    for position, candidate in enumerate(level):
        place = (candidate.cloud, candidate.region, candidate.instance_type)
        seen[place] = seen.get(place, 0) + 1
        rounds.append(((seen[place] - 1) // ZONES_BEFORE_NEXT_REGION, position, candidate))
    return [candidate for _, _, candidate in sorted(rounds, key=lambda row: row[:2])]


def requote(
    candidates: Iterable[Candidate],
    quotes: Iterable[Quote],
    *,
    usd: Callable[[Decimal, str], Decimal | None],
    plausible: Callable[[str, Decimal], bool],
) -> list[Candidate]:
    """The candidates with today's prices, where a cloud quoted one.

    Args:
        candidates: offers at snapshot prices.
        quotes: today's quotes of the clouds; a zonal quote takes precedence over a regional one.
        usd: converts an amount of a currency to USD; ``None`` for a currency without a rate.
        plausible: whether a price per hour is plausible for a GPU model; others are flagged.
    """
    by_key = {(q.cloud, q.region, q.zone or "", q.instance_type, str(q.purchase)): q for q in quotes}
    zonal: dict[tuple[str, str, str, str], list[Quote]] = {}
    for quote in by_key.values():
        if quote.zone:
            place = (quote.cloud, quote.region, quote.instance_type, str(quote.purchase))
            zonal.setdefault(place, []).append(quote)
    result: list[Candidate] = []
    for candidate in candidates:
        cloud, region, zone, instance_type, purchase = candidate.key
        one = by_key.get(candidate.key) or by_key.get((cloud, region, "", instance_type, purchase))
        # A candidate without a zone becomes one candidate per zone for which the cloud quoted a price.
        several = zonal.get((cloud, region, instance_type, purchase), []) if not zone and one is None else []
        told = [one] if one is not None else several
        result += [_at(candidate, quote, usd, plausible) for quote in told] or [candidate]
    return result


def _at(
    candidate: Candidate,
    quote: Quote,
    usd: Callable[[Decimal, str], Decimal | None],
    plausible: Callable[[str, Decimal], bool],
) -> Candidate:
    """A candidate at a price that its cloud quoted; unchanged if the currency has no rate."""
    price_usd = usd(quote.price_per_hour, quote.currency)
    if price_usd is None:
        return candidate
    flags = _type_flags(candidate)
    if not plausible(candidate.gpu_model, price_usd / candidate.gpu_count):
        flags += (IMPLAUSIBLE,)
    return replace(
        candidate,
        zone=candidate.zone or quote.zone or "",
        price=quote.price_per_hour.normalize(),  # clouds pad with zeros
        currency=quote.currency,
        price_usd=price_usd.normalize(),
        as_of=quote.as_of.date(),
        source=quote.source,
        ceiling_usd=price_usd.normalize(),
        quoted_at=quote.as_of,
        flags=flags,
    )


def repriced(
    candidate: Candidate, quotes: Iterable[Quote], *, usd: Callable[[Decimal, str], Decimal | None]
) -> Candidate | None:
    """The candidate at the present price of its cloud, with an unchanged ceiling.

    If the cloud quotes several zones and the candidate has no zone, the highest price counts.

    Returns:
        ``None`` if the cloud quoted no price of it, or one in a currency without a rate.
    """
    fresh = requote([candidate], quotes, usd=usd, plausible=lambda _model, _usd: True)
    told = [each for each in fresh if each is not candidate]
    if not told:
        return None
    dearest = max(told, key=lambda each: each.price_usd)
    return replace(dearest, zone=candidate.zone, flags=candidate.flags, ceiling_usd=candidate.ceiling_usd)


def capped(
    candidate: Candidate, *, max_price_usd: Decimal | None, on_demand_usd: Decimal | None
) -> Candidate:
    """The candidate with its ceiling: the limit of the spec, otherwise a margin above today's price.

    Args:
        candidate: an offer at today's price.
        max_price_usd: per hour and node; ``None`` for no limit.
        on_demand_usd: the on-demand price of the same type in the same region: the limit for spot.
    """
    if max_price_usd is not None:
        return replace(candidate, ceiling_usd=max_price_usd)
    most = candidate.price_usd * margin_of(candidate.purchase)
    ceiling = most.quantize(CEILING_STEP, rounding=ROUND_DOWN).normalize()
    if candidate.purchase.kind.price_moves and on_demand_usd is not None:
        ceiling = min(ceiling, on_demand_usd)
    return replace(candidate, ceiling_usd=ceiling)


def margin_of(purchase: Purchase) -> Decimal:
    """How many times the known price is still accepted where nobody has set a limit."""
    return SPOT_MARGIN if purchase.kind.price_moves else LIST_MARGIN


def worth_quoting(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The order of choice if old and doubtful prices were valid: for asking clouds, not for buying."""
    return rank(
        c if c.quoted or not PRICE_FLAGS.intersection(c.flags) else replace(c, flags=_type_flags(c))
        for c in candidates
    )


def _type_flags(candidate: Candidate) -> tuple[str, ...]:
    """The flags that today's price does not change."""
    return tuple(flag for flag in candidate.flags if flag not in PRICE_FLAGS)


def under(candidates: Iterable[Candidate], max_price_usd: Decimal | None) -> list[Candidate]:
    """The candidates at or below the limit, per hour and node."""
    return [c for c in candidates if max_price_usd is None or c.price_usd <= max_price_usd]


def into_held(
    candidates: Iterable[Candidate], held: Iterable[HeldCapacity], *, nodes: int
) -> list[Candidate]:
    """The candidates for which the account holds free capacity, each with its reservation.

    Held capacity is paid for already, so the price is the on-demand one, for information only. A candidate
    without a zone gets the zone of the capacity.
    """
    free = [hold for hold in held if hold.free >= nodes]
    return [
        replace(candidate, zone=hold.zone, purchase=Purchase.RESERVED, reservation=hold.id)
        for candidate in candidates
        for hold in free
        if (candidate.cloud, candidate.region, candidate.instance_type)
        == (hold.cloud, hold.region, hold.instance_type)
        and candidate.zone in {"", hold.zone}
    ]


def table_of(attempts: Sequence[Candidate]) -> Table:
    """The table of attempts, in order."""
    columns: dict[str, Sequence[object]] = {
        "TRY": range(1, len(attempts) + 1),
        "PER NODE-HOUR": [_price_text(attempt) for attempt in attempts],
        "PAID AS": [paid_cell(attempt.purchase) for attempt in attempts],
        "GPU": [f"{attempt.gpu_count.normalize():f} {attempt.gpu_model}" for attempt in attempts],
        "CLOUD": [attempt.cloud for attempt in attempts],
        "ZONE": [attempt.zone or attempt.region for attempt in attempts],
        "TYPE": [attempt.instance_type for attempt in attempts],
        "AS OF": [_as_of_cell(attempt) for attempt in attempts],
    }
    return Table(columns, right=("TRY", "PER NODE-HOUR"), optional=("AS OF", "GPU", "PAID AS"))


def _price_text(candidate: Candidate) -> str:
    """A price per hour and node: in the cloud's currency, and in USD if that differs."""
    own = format_money(candidate.price, candidate.currency)
    return own if candidate.currency == "USD" else f"{own} ({format_money(candidate.price_usd)})"


def _as_of_cell(candidate: Candidate) -> Cell:
    """The date of a price."""
    date_text = "today" if candidate.quoted else candidate.as_of.isoformat()
    return Cell(date_text, Role.STALE if STALE in candidate.flags else None)


def fabric_of(wanted: str | None, nodes: int, offered: str) -> str | None:
    """The RDMA network that joins the nodes of a box; ``None`` for ordinary networks alone.

    A machine that could be joined is not, unless that is asked for: it takes more network interfaces, which
    take addresses, and in some clouds a public address that is billed by itself.

    Args:
        wanted: the spec's ``rdma``.
        nodes: how many nodes the box has; a single one has nothing to be joined to.
        offered: what the type can be joined by.
    """
    asked = wanted not in {None, NO_RDMA} and nodes > 1
    return offered if asked and offered != NO_RDMA else None

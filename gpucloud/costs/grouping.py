"""What boxes have cost, grouped by month, cloud, GPU, owner or a tag of the user."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucloud.costs.spend import Charge, Spend, totals_of
from gpucloud.errors import UsageError
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.costs.documents import GroupDocument


def _gpu(charge: Charge) -> str | None:
    offer = charge.offer
    return offer.gpu.model if offer and offer.gpu else None


KEYS: Mapping[str, Callable[[Charge], str | None]] = {
    "month": lambda charge: f"{charge.start:%Y-%m}",
    "cloud": lambda charge: charge.holding.cloud or None,
    "gpu": _gpu,
    "owner": lambda charge: charge.holding.owner,
}
"""The value of a charge for each key other than tags; ``None`` if it has none. Months are in UTC."""
TAG = "tag:"
"""The prefix of a key that names a tag of the user."""
PLACES = 6
"""The decimal places of a group's cost: the groups add up to the total to the cent, however many they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeGroup:
    """The charges that have the same values for the keys. ``values`` are by key, in the order of the keys."""

    values: Mapping[str, str | None]
    charges: Sequence[Charge]

    @property
    def totals(self) -> list[Money]:
        """The known amounts, by currency; empty if no amount is known."""
        return totals_of((charge for charge in self.charges if charge.amount is not None), PLACES)

    @property
    def boxes(self) -> int:
        """The number of boxes with a charge in the group."""
        return len({charge.holding.id for charge in self.charges})

    @property
    def unknown(self) -> dict[str, list[str]]:
        """The names of the boxes with a part of unknown cost, by the reason."""
        return unknown_of(self.charges)

    def document(self) -> GroupDocument:
        """A group of ``gpucloud.spend/v1``."""
        return {
            "values": dict(self.values),
            "boxes": self.boxes,
            "totals": [total.document() for total in self.totals],
            "unknown": [{"reason": reason, "boxes": names} for reason, names in self.unknown.items()],
        }


def unknown_of(charges: Sequence[Charge]) -> dict[str, list[str]]:
    """The names of the boxes with a part of unknown cost, by the reason."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for charge in charges:
        if charge.unknown:
            found[charge.unknown][charge.holding.name] = None
    return {reason: list(names) for reason, names in found.items()}


def read_keys(text: str) -> tuple[str, ...]:
    """Reads keys such as ``month,tag:team``.

    Raises:
        UsageError: a key is unknown, or stands there twice.
    """
    from gpucloud.spec.fields import nearest

    keys = tuple(word.strip() for word in text.split(","))
    for key in keys:
        if key not in KEYS and not (key.startswith(TAG) and key != TAG):
            raise UsageError(
                f"--by: {key!r} is not a key{nearest(key, KEYS)}",
                hint=f"allowed: {', '.join(KEYS)} and {TAG}NAME, also several with commas",
            )
    if len(set(keys)) < len(keys):
        raise UsageError(f"--by: a key stands twice in {text!r}")
    return keys


def grouped(spent: Spend, keys: Sequence[str]) -> list[ChargeGroup]:
    """The charges of boxes by the values of keys, sorted by them; charges without a value come last.

    Args:
        spent: the charges.
        keys: of :data:`KEYS`, or a tag's name after :data:`TAG`, as :func:`read_keys` returns them.
    """
    groups: dict[tuple[str | None, ...], list[Charge]] = defaultdict(list)
    for charge in spent.charges:
        groups[tuple(_value(charge, key) for key in keys)].append(charge)
    return [
        ChargeGroup(values=dict(zip(keys, values, strict=True)), charges=groups[values])
        for values in sorted(groups, key=lambda values: [(value is None, value or "") for value in values])
    ]


def _value(charge: Charge, key: str) -> str | None:
    if key.startswith(TAG):
        return charge.box.wanted.tags.get(key.removeprefix(TAG)) if charge.box else None
    return KEYS[key](charge)

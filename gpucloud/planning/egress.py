"""What it costs to restart a run away from the bucket of its checkpoints, as a part of the order of offers.

The next box reads the newest checkpoint, and the first one that it uploads is whole as well; what it uploads
later depends on what changes, and is not counted. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from gpucloud.costs.resource_prices import store_transfer_price
from gpucloud.planning.plan import Candidate
from gpucloud_pricing import Market, format_money
from gpucloud_pricing.rules import caution

Place = tuple[str, str]
"""A cloud and a region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTransfer:
    """The newest checkpoint of a run, which its next box reads.

    Attributes:
        url: the folder of the run in the bucket.
        place: where the bucket is.
        gib: about how large it is; ``None`` if that is not known.
        hours: for how long the next box is expected to live.
        nodes: its machines, of which the first one alone reads and uploads.
    """

    url: str
    place: Place
    gib: Decimal | None
    hours: Decimal
    nodes: int

    def ordered(self, market: Market, candidates: Iterable[Candidate]) -> list[Candidate]:
        """The candidates, each with its share of the traffic in its surcharge per node and hour."""
        known: dict[Place, Decimal | None] = {}

        def surcharge(place: Place) -> Decimal | None:
            if place not in known:
                usd = self.usd(market, place)
                known[place] = None if usd is None else usd / self.hours / self.nodes
            return known[place]

        return [replace(each, surcharge_usd=surcharge((each.cloud, each.region))) for each in candidates]

    def usd(self, market: Market, target: Place) -> Decimal | None:
        """What reading it there, and uploading as much from there, costs in USD; ``None`` if unknown."""
        both = self._both(market, target)
        return None if both is None else sum(both, Decimal(0))

    def text(self, market: Market, target: Place) -> str | None:
        """What a restart in a place costs besides its box, as a sentence; ``None`` for nothing."""
        if self.usd(market, target) == 0 and target == self.place:
            return None
        return f"restart on {' '.join(target)}: {self._costs(market, target)}"

    def passed_over(self, market: Market, attempts: Sequence[Candidate]) -> str | None:
        """The best offer that comes later than its price alone would have it, and why, as a sentence."""
        first = attempts[0]
        cheaper = [
            each
            for each in attempts[1:]
            if (caution(each.flags), each.price_usd) < (caution(first.flags), first.price_usd)
        ]
        if not cheaper:
            return None
        best = min(cheaper, key=lambda each: (caution(each.flags), each.price_usd))
        price = format_money(best.price_usd)
        return (
            f"{best.place} at {price} per hour is not first: {self._costs(market, (best.cloud, best.region))}"
        )

    def _both(self, market: Market, target: Place) -> tuple[Decimal, Decimal] | None:
        """Reading it in a place, and uploading as much from there, in USD; ``None`` if one is unknown."""
        reading = store_transfer_price(market, self.place, target, self.gib)
        uploading = store_transfer_price(market, target, self.place, self.gib)
        return None if reading is None or uploading is None else (reading.amount, uploading.amount)

    def _costs(self, market: Market, target: Place) -> str:
        both = self._both(market, target)
        if both is not None:
            reading, uploading = map(format_money, both)
            size = f"about {self.gib:.1f} GiB"
            return (
                f"reading the checkpoint ({size}) from {self.url} costs {reading},"
                f" uploading a whole one from there {uploading}"
            )
        unknown = (
            "its size is" if self.gib is None else f"a price between there and {' '.join(self.place)} is"
        )
        return f"what reading the checkpoint from {self.url} costs is unknown, as {unknown}"

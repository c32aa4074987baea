"""The market's search against a plain scan: the top 20 of 100,000 synthetic offers.

The scan is as lean as Python allows: one list comprehension over tuples and a heap of 20. Searches without a
GPU model, by a price limit and by memory, stand against a scan of the same columns in numpy. Indexing is not
timed, as it happens once.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from time import perf_counter
from typing import Any

import numpy

from benchmarks.table import Row
from gpucloud_pricing import Demand, InstanceType, Market, Price, Region, parse_requirements

TODAY = date(2026, 11, 20)
BUDGET, COLUMNS_BUDGET = 0.1, 10
MODELS = ("T4", "A10", "A100", "L4", "L40S", "H100", "H200", "V100", "B200", "P100")
PURCHASES = ("on_demand", "spot")
Tuple = tuple[Decimal, int, int, str, str, str, str, str, int, str, bool]


def synthetic() -> tuple[list[InstanceType], list[Price], list[Region]]:
    """200 types in 50 regions of 5 zones, on demand and spot: 100,000 prices."""
    random_ = random.Random(1)  # noqa: S311
    types = [
        InstanceType(
            cloud=random_.choice(("aws", "azure", "alibaba")),
            name=f"type-{index}",
            gpu_model=MODELS[index % len(MODELS)],
            gpu_count=Decimal(2 ** (index // len(MODELS) % 4)),
            gpu_memory_gib=Decimal(24),
            vcpus=random_.choice((8, 16, 96)),
            memory_gib=Decimal(256),
            interconnect="none",
            source="synthetic",
        )
        for index in range(200)
    ]
    regions = [
        Region(
            cloud=cloud,
            name=f"region-{index}",
            geos=frozenset({"eu" if index % 3 == 0 else "na", f"g{index}"}),
        )
        for cloud in ("aws", "azure", "alibaba")
        for index in range(50)
    ]
    prices = [
        Price(
            cloud=kind.cloud,
            region=f"region-{region}",
            zone=f"zone-{zone}",
            instance_type=kind.name,
            purchase=purchase,
            amount=Decimal(random_.randrange(1000, 99999)) / 1000,
            currency="USD",
            as_of=date(2026, 10, 1 + region % 28),
            source="synthetic",
        )
        for kind in types
        for region in range(50)
        for zone in range(5)
        for purchase in PURCHASES
    ]
    return types, prices, regions


def rows_of(types: list[InstanceType], prices: list[Price]) -> list[Tuple]:
    """The same offers as the tuples that a scan would keep: sort key first, what is asked for last."""
    kinds = {kind.name: kind for kind in types}
    return [
        (
            price.amount,
            -price.as_of.toordinal(),
            kinds[price.instance_type].vcpus,
            price.cloud,
            price.region,
            str(price.zone),
            price.instance_type,
            kinds[price.instance_type].gpu_model,
            int(kinds[price.instance_type].gpu_count),
            price.purchase,
            int(price.region.removeprefix("region-")) % 3 == 0,
        )
        for price in prices
    ]


def scan(rows: list[Tuple]) -> list[Tuple]:
    """The cheapest 20 of 8 A100s on demand in Europe."""
    found = [r for r in rows if r[7] == "A100" and r[8] == 8 and r[9] == "on_demand" and r[10]]
    return heapq.nsmallest(20, found)


def best_of(function: Callable[[], object], times: int = 30) -> float:
    """Seconds of the fastest of several calls."""
    seconds: list[float] = []
    for _ in range(times):
        begin = perf_counter()
        function()
        seconds.append(perf_counter() - begin)
    return min(seconds)


def main() -> list[Row]:
    """The top 20 of 100,000 offers: both ways must find the same."""
    types, prices, regions = synthetic()
    rows = rows_of(types, prices)
    market = Market.build(types=types, offers=prices, regions=regions)
    demand = Demand(gpus=parse_requirements("A100:8"), regions=("eu",))
    found = [
        (o.price_usd, o.cloud, o.region, o.zone, o.instance_type) for o in market.search(demand, TODAY, 20)
    ]
    assert found == [(r[0], *r[3:7]) for r in scan(rows)]
    plain, indexed = best_of(lambda: scan(rows)), best_of(lambda: market.search(demand, TODAY, 20))
    return [
        Row(f"search, top 20 of {len(prices):,} offers", plain, indexed, BUDGET),
        *against_columns(types, prices, market),
    ]


def against_columns(types: list[InstanceType], prices: list[Price], market: Market) -> list[Row]:
    """Searches that look at every type: both ways must find the same prices."""
    kinds = {kind.name: kind for kind in types}
    amounts = numpy.array([float(price.amount) for price in prices])
    memory = numpy.array([float(total_memory(kinds[price.instance_type])) for price in prices])
    on_demand = numpy.array([price.purchase == "on_demand" for price in prices])

    def columns(most: float, least: float) -> Any:
        found = numpy.flatnonzero(on_demand & (amounts <= most) & (memory >= least))
        top = found[numpy.argpartition(amounts[found], 19)[:20]] if len(found) > 20 else found
        return numpy.sort(amounts[top])

    rows: list[Row] = []
    for name, most, least, today in (
        ("all below --max-price", 1000, 0, TODAY),
        ("none below --max-price", 0.5, 0, TODAY),
        ("--total-gpu-memory", 1000, 96, TODAY),
        ("all below --max-price, all stale", 1000, 0, TODAY + timedelta(days=4 * 365)),
    ):
        demand = Demand(max_price_usd=Decimal(str(most)), total_gpu_memory_gib=Decimal(least))
        found = [float(offer.price_usd or 0) for offer in market.search(demand, today, 20)]
        assert found == list(columns(most, least))
        scanned = best_of(partial(columns, most, least))
        searched = best_of(partial(market.search, demand, today, 20))
        rows.append(Row(f"search against numpy, {name}", scanned, searched, COLUMNS_BUDGET))
    return rows


def total_memory(kind: InstanceType) -> Decimal:
    """The memory of all GPUs of a type, in GiB."""
    return kind.gpu_memory_gib * kind.gpu_count

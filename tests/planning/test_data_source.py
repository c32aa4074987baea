"""Data sets of a plan: whether they fit on a machine, and what their traffic costs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpucloud.clouds.object_store import StorePlace, StoreSize
from gpucloud.errors import UsageError
from gpucloud.planning.data_source import GIB, DataSource, priced, refuse_too_large
from gpucloud.spec.mounts import DataSet
from gpucloud_pricing import Market


def a_set(gib: int, *, scratch: bool = False, whole: bool = True) -> DataSource:
    return DataSource(
        wanted=DataSet(url="s3://lab/set", path="/data", scratch=scratch),
        cloud="aws",
        place=StorePlace(container="lab", region="us-east-1", account="1"),
        folder="set",
        role=None,
        size=StoreSize(files=1, size_bytes=gib * GIB, whole=whole),
    )


@pytest.mark.parametrize(
    ("sources", "disk", "local", "said"),
    [
        ((a_set(100),), 100, 0, None),
        ((a_set(101),), 100, 500, "101.0 GiB do not fit on the root disk, which has 100 GiB"),
        ((a_set(60), a_set(60)), 100, 0, "120.0 GiB do not fit on the root disk"),
        ((a_set(60), a_set(400, scratch=True)), 100, 500, None),
        (
            (a_set(501, scratch=True),),
            100,
            500,
            "501.0 GiB do not fit on the local disks",
        ),
        ((a_set(101, scratch=True),), 100, 0, "101.0 GiB do not fit on the root disk"),
    ],
)
def test_what_does_not_fit_is_refused(
    sources: tuple[DataSource, ...], disk: int, local: int, said: str | None
) -> None:
    if said is None:
        refuse_too_large(sources, disk_gib=disk, local_gib=Decimal(local))
        return
    with pytest.raises(UsageError, match=said):
        refuse_too_large(sources, disk_gib=disk, local_gib=Decimal(local))


def test_traffic_is_free_in_its_own_region_and_counts_every_node_elsewhere() -> None:
    market = Market.load()
    [here] = priced(market, [a_set(1000)], ("aws", "us-east-1"), 2)
    [one] = priced(market, [a_set(1000)], ("aws", "eu-west-1"), 1)
    [two] = priced(market, [a_set(1000)], ("aws", "eu-west-1"), 2)
    assert here.traffic is not None and one.traffic is not None and two.traffic is not None  # noqa: PT018
    assert here.traffic.amount == 0
    assert two.traffic.amount == 2 * one.traffic.amount > 0
    [part] = priced(market, [a_set(1, whole=False)], ("aws", "eu-west-1"), 1)
    assert part.traffic is None

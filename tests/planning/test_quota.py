"""What the clouds say of quotas is remembered for a while: as old as it is, for the account that asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud.planning.quota import FRESH_FOR, QuotaCache
from gpucloud.resources import Quota
from gpucloud_pricing.purchases import Purchase
from tests.bench import ZONES, Bench
from tests.builders import Clock
from tests.memory import MemoryProvider

MINUTE_S = 60


class Limited(MemoryProvider):
    """A cloud whose quota of each region is so large that it only counts who asks."""

    def headroom(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quota]:
        answer = Quota(
            cloud=self.name,
            region=region,
            name="vcpus",
            instance_types=tuple(instance_types),
            unit="vcpus",
            limit=Decimal(1000),
            used=None,
            fix="ask for more",
        )
        return self.cloud.call("headroom", region, lambda: [answer])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    clock = Clock()
    made = Bench(tmp_path, clock, [MemoryProvider.named("aws", clock=clock, zones=ZONES)])
    made.kind = Limited
    return made


def asked_by_a_new_process(bench: Bench, *places: str) -> list[str]:
    """The regions whose quotas a process asks for that considers these places."""
    cloud = bench.providers[0].cloud
    cloud.calls.clear()
    QuotaCache(replace(bench.context(), state=bench.folder)).shortfalls(bench.offers(*places), nodes=1)
    return sorted(call.region for call in cloud.calls if call.action == "headroom")


EAST, WEST = "us-east-1/use1-az4", "us-west-2/usw2-az1"


def test_an_old_answer_stays_as_old_as_it_is_when_another_is_added(bench: Bench) -> None:
    assert asked_by_a_new_process(bench, EAST) == ["us-east-1"]
    bench.clock.sleep(10 * MINUTE_S)
    assert asked_by_a_new_process(bench, EAST, WEST) == ["us-west-2"]
    bench.clock.sleep((FRESH_FOR - timedelta(minutes=9)).total_seconds())
    assert asked_by_a_new_process(bench, EAST, WEST) == ["us-east-1"]


def test_an_answer_to_one_account_is_none_to_another(bench: Bench) -> None:
    assert asked_by_a_new_process(bench, EAST) == ["us-east-1"]
    bench.providers[0].cloud.account = "account-2"
    assert asked_by_a_new_process(bench, EAST) == ["us-east-1"]
    for account in ("account-1", "account-2"):
        bench.providers[0].cloud.account = account
        assert asked_by_a_new_process(bench, EAST) == []

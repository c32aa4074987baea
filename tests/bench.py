"""The engine with clouds in memory: a context whose waiting costs no time."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from gpucloud.clouds.cloud import Backoff, Cloud, Clouds
from gpucloud.clouds.provider import Provider
from gpucloud.planning.plan import Candidate, Plan
from gpucloud.purchase.order import BootData, BoxPurchase, BoxRequest, LaunchOrder
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Tasks
from gpucloud.spec.file import load_spec
from gpucloud_pricing import Market
from tests.builders import Clock
from tests.journals import open_journal
from tests.memory import MemoryProvider
from tests.planning.test_plan import a_candidate

OWNER = "u-tester"
ZONES = {"us-east-1": ("use1-az4", "use1-az6"), "us-west-2": ("usw2-az1",)}


@functools.cache
def _market() -> Market:
    return Market.load()


def a_purchase(
    offers: Sequence[Candidate],
    end: datetime,
    *,
    spec: dict[str, Any],
    box: str = "b-1",
    name: str = "x",
    until: datetime | None = None,
    agreed_at: datetime | None = None,
    **request: Any,
) -> BoxPurchase:
    """An order of these offers that is carried out; its machines boot with nothing."""
    order = LaunchOrder(
        request=BoxRequest(spec=load_spec(None, spec), environment={}, **request),
        plan=Plan(created_at=end - timedelta(hours=24), spec={}, attempts=tuple(offers), left_out={}),
        market=_market(),
        end=end,
        until=until,
        agreed_at=agreed_at,
    )
    return BoxPurchase(
        order=order,
        box=box,
        name=name,
        image="ubuntu-22.04",
        allow_from=("198.51.100.7/32",),
        boots=defaultdict(lambda: BootData(user_data=b"#cloud-config\n{}\n")),
    )


@dataclass
class Bench:
    """Contexts on top of clouds in memory, and what is needed to launch in it."""

    folder: Path
    clock: Clock
    providers: Sequence[MemoryProvider]
    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    kind: type[MemoryProvider] = MemoryProvider

    def context(self) -> Context:
        """A process: its own tasks and clients, the same journal and clouds."""

        def wrap(provider: Provider) -> Cloud:
            return Cloud(
                provider=provider,
                backoff=Backoff(budget_s=30),
                sleep=self.clock.sleep,
                monotonic=lambda: self.clock().timestamp(),
                uniform=lambda low, high: high,
            )

        def factory(provider: MemoryProvider) -> Any:
            return lambda: self.kind(provider.cloud)

        return Context(
            owner=OWNER,
            journal=open_journal(self.folder, self.clock, lease_clock=self.clock),
            clouds=Clouds(
                {p.name: factory(p) for p in self.providers},
                wrap,
                own_address=self.providers[0].caller_address,
            ),
            tasks=Tasks(self.clock.sleep, lambda: self.clock().timestamp()),
            emit=lambda event: self.lines.append((event.step, event.text)),
            clock=self.clock,
        )

    def purchase(
        self,
        offers: Sequence[Candidate] | None = None,
        *,
        box: str = "b-1",
        name: str = "x",
        nodes: int = 1,
        expires_at: datetime | None = None,
        until: datetime | None = None,
        agreed_at: datetime | None = None,
        **request: Any,
    ) -> BoxPurchase:
        """What is agreed to, of some offers: a day of one machine, if nothing else is said."""
        offers = self.offers() if offers is None else offers
        return a_purchase(
            offers,
            expires_at or self.clock() + timedelta(hours=24),
            box=box,
            name=name,
            spec={"gpu": "T4", "nodes": nodes},
            until=until,
            agreed_at=agreed_at,
            **request,
        )

    def offers(self, *places: str, **changes: Any) -> list[Candidate]:
        """Offers of a T4, each a little dearer than the one before."""
        name = self.providers[0].name
        return [
            a_candidate(f"{name}/{place}", str(Decimal(1) + n), instance_type="g4dn.xlarge", **changes)
            for n, place in enumerate(
                places or ("us-east-1/use1-az4", "us-east-1/use1-az6", "us-west-2/usw2-az1")
            )
        ]

    def billed(self) -> list[str]:
        """The kinds of what is billed anywhere."""
        return sorted(str(entry.ref.kind) for p in self.providers for entry in p.cloud.billing())

    def machines(self) -> int:
        """How many machines there are anywhere."""
        return sum(len(p.cloud.machines()) for p in self.providers)

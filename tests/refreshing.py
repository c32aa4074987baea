"""A refresh of prices in this process, by an engine that repeats nothing: what fails has failed at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

from gpucloud.clouds.cloud import Backoff, Cloud, Clouds
from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import Provider
from gpucloud.journal.store import Journal
from gpucloud.market.refresh import PriceScope, Refreshed, refresh
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Tasks
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_aws.provider import AwsProvider
from gpucloud_azure.provider import AzureProvider
from gpucloud_pricing import Market
from gpucloud_pricing.history import PriceHistory
from tests.profiles import own_profile

PROVIDERS: dict[str, Callable[[Profile], Provider]] = {
    "aws": AwsProvider,
    "azure": AzureProvider,
    "alibaba": AlibabaProvider,
}


@cache
def market() -> Market:
    """The market's own data, read once."""
    return Market.load()


def _impatient(provider: Provider) -> Cloud:
    return Cloud(provider=provider, backoff=Backoff(budget_s=0))


def refreshed(
    prices: Path,
    wanted: Mapping[str, PriceScope],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    wrap: Callable[[Provider], Cloud] = _impatient,
) -> dict[str, Refreshed]:
    """What came of a refresh, by cloud.

    Args:
        prices: the file that the answers are kept in.
        wanted: what, by cloud.
        clock: gives the time in UTC.
        wrap: makes a cloud of a provider.
    """
    context = Context(
        owner="u-tester",
        journal=Journal.open(prices.with_name("journal-of-the-test.db"), clock),
        clouds=Clouds({name: partial(make, own_profile()) for name, make in PROVIDERS.items()}, wrap),
        tasks=Tasks(),
        clock=clock,
    )
    with closing(PriceHistory.open(prices)) as history:
        return refresh(context, market(), history, wanted, anew=True)

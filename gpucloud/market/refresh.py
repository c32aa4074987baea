"""Asks clouds for all their prices, in parallel within their rate limits, and stores the answers."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

from gpucloud.clouds.abilities import Inquiry, PriceList, Prices
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import CloudError, ErrorClass, NoOfferError, absence, is_absent
from gpucloud.market.catalog import check_places
from gpucloud.market.commitments import failure_documents
from gpucloud.runtime.context import Context
from gpucloud.runtime.events import PricesAnswered
from gpucloud.spec.model import Spec
from gpucloud_pricing import Market
from gpucloud_pricing.history import Change, PriceHistory, SetAside
from gpucloud_pricing.places import admits, region_names
from gpucloud_pricing.tariff_history import TariffChange
from gpucloud_pricing.validation import validate_prices, validate_tariffs

if TYPE_CHECKING:
    from gpucloud.market.documents import RefreshedDocument

ASKED_AT_ONCE = 32
"""Inquiries to one cloud at a time, to hide its latency. Clouds limit the calls of each region, so the
regions take turns; a throttled call is retried later."""
FRUITLESS = 2 * ASKED_AT_ONCE
"""After so many failures of a source in a row, none of them a refusal, nothing more is sent to it: each takes
as long as a call may last, and there are hundreds."""
REFRESH_TIMEOUT_S = 3600.0
RESUMED = timedelta(hours=1)
"""A refresh that was interrupted no longer ago than this is resumed."""


@dataclass(slots=True)
class Refreshed:
    """The result of a refresh of one cloud.

    Attributes:
        asked: the number of inquiries.
        answered: how many of them have been answered, now or before.
        skipped: how many of them were answered before the refresh was interrupted.
        prices: the number of prices in the answers.
        new: how many of them were not known before.
        gone: how many known prices are no longer offered.
        moved: the prices that changed.
        tariffs: the number of lists of tariffs in the answers.
        moved_tariffs: the lists of tariffs that changed.
        set_aside: the rows that are not valid prices or tariffs.
        failures: errors by inquiry; the earlier prices stay as they were.
        absent: why this cloud was left out: it is not set up here.
    """

    asked: int = 0
    answered: int = 0
    skipped: int = 0
    prices: int = 0
    new: int = 0
    gone: int = 0
    moved: list[Change] = field(default_factory=list[Change])
    tariffs: int = 0
    moved_tariffs: list[TariffChange] = field(default_factory=list[TariffChange])
    set_aside: list[SetAside] = field(default_factory=list[SetAside])
    failures: dict[str, CloudError] = field(default_factory=dict[str, CloudError])
    absent: str | None = None

    def document(self) -> RefreshedDocument:
        """A cloud of ``gpucloud.prices-refresh/v1``, without its name."""
        return {
            "inquiries": self.asked,
            "answered": self.answered,
            "resumed": self.skipped,
            "prices": self.prices,
            "new": self.new,
            "moved": [change.document() for change in self.moved],
            "gone": self.gone,
            "tariffs": self.tariffs,
            "moved_tariffs": [change.document() for change in self.moved_tariffs],
            "set_aside": [{"reason": each.reason, "row": each.row} for each in self.set_aside],
            "failures": failure_documents(self.failures),
            "left_out": self.absent,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceScope:
    """The types and regions to refresh in one cloud; ``None`` for all regions. With tariffs or without."""

    instance_types: Sequence[str]
    regions: Sequence[str] | None = None
    tariffs: bool = False


def wanted_of(market: Market, spec: Spec, clouds: Collection[str], *, tariffs: bool) -> dict[str, PriceScope]:
    """The types and regions to ask for, by cloud: those of the spec, or all.

    Args:
        market: the known types and regions.
        spec: the GPUs, clouds and regions.
        clouds: the clouds that can be asked.
        tariffs: whether to ask for tariffs too.

    Raises:
        NoOfferError: none of them has such a GPU.
        UsageError: a cloud, region or zone does not exist.
    """
    demand = spec.demand()
    check_places(market, demand)
    types: dict[str, list[str]] = defaultdict(list)
    for kind in market.types_named(demand):
        if kind.cloud in clouds and admits(demand.clouds, frozenset({kind.cloud})):
            types[kind.cloud].append(kind.name)
    if not types:
        raise NoOfferError("no cloud that can be asked has such a GPU", hint="see all: gpucloud offers")
    regions = {
        cloud: [
            region.name
            for region in market.regions.values()
            if region.cloud == cloud and admits(demand.regions, region_names(region))
        ]
        for cloud in types
    }
    return {
        cloud: PriceScope(
            instance_types=sorted(names),
            regions=regions[cloud] if demand.regions else None,
            tariffs=tariffs,
        )
        for cloud, names in types.items()
        if regions[cloud]
    }


def refresh(
    context: Context,
    market: Market,
    history: PriceHistory,
    wanted: Mapping[str, PriceScope],
    *,
    anew: bool,
) -> dict[str, Refreshed]:
    """Refreshes prices.

    Args:
        context: clouds, journal, clock and progress of this call.
        market: prices of types that are not in it are set aside.
        history: stores the answers.
        wanted: the types and regions, by cloud.
        anew: repeat inquiries that were answered before an interruption.

    Returns:
        The results, by cloud.

    Raises:
        InterruptedBySignal: a signal came; the answers until then are stored.
    """
    since = history.begin(context.clock(), timedelta() if anew else RESUMED)
    done = {name for name, at in history.answered().items() if at >= since}
    writing, stopping = threading.Lock(), threading.Event()
    clerks = {name: _Clerk(context, market, history, name, writing, stopping) for name in wanted}
    calls = [context.tasks.start(partial(clerks[name].work, wanted[name], done)) for name in wanted]
    try:
        for call in calls:
            context.tasks.wait(call, REFRESH_TIMEOUT_S)
    finally:
        stopping.set()
        with writing:  # an answer that is being stored is stored completely
            pass
    history.finish()
    return {name: clerk.result for name, clerk in clerks.items()}


@dataclass(slots=True)
class _Clerk:
    """Refreshes the prices of one cloud."""

    context: Context
    market: Market
    history: PriceHistory
    name: str
    writing: threading.Lock
    stopping: threading.Event
    result: Refreshed = field(default_factory=Refreshed)
    given_up: set[str] = field(default_factory=set[str])
    """Sources that did not answer in spite of retries: further inquiries are sent once."""
    fruitless: Counter[str] = field(default_factory=Counter[str])
    """The failures of each source since its last answer."""

    def work(self, wanted: PriceScope, done: Collection[str]) -> None:
        """Sends all inquiries; one that fails is a failure in the result."""
        from multiprocessing.pool import ThreadPool

        try:
            cloud = self.context.clouds[self.name]
            # Tariffs first: a list of many pages goes on while the rest is asked.
            inquiries = [
                *(_tariff_inquiries(cloud, wanted) if wanted.tariffs else ()),
                *_inquiries(cloud, wanted),
            ]
        except (CloudError, ImportError) as error:
            if isinstance(error, CloudError) and not is_absent(error):
                self.result.failures["everything"] = error
            else:
                self.result.absent = absence(error)
            return
        while inquiries:
            left = [each for each in inquiries if self._key(each) not in done]
            self.result.asked += len(inquiries)
            self.result.answered += len(inquiries) - len(left)
            self.result.skipped += len(inquiries) - len(left)
            with ThreadPool(min(ASKED_AT_ONCE, max(1, len(left)))) as pool:
                further = pool.map(partial(self._ask, cloud), left, chunksize=1)
            inquiries = [each for turn in zip_longest(*further) for each in turn if each is not None]

    def _key(self, inquiry: Inquiry) -> str:
        return f"{self.name}: {inquiry.name}"

    def _ask(self, cloud: Cloud, inquiry: Inquiry) -> Sequence[Inquiry]:
        """Sends an inquiry and stores the answer; returns further inquiries."""
        if self.stopping.is_set():
            return ()
        at, source = self.context.clock(), inquiry.covers.source
        try:
            if self.fruitless[source] >= FRUITLESS:
                raise self._unsent(source)
            answer = cloud.call(
                f"ask for {inquiry.name}", inquiry.ask, 0.0 if source in self.given_up else None
            )
        except CloudError as error:
            self.result.failures[inquiry.name] = error
            if error.error_class is ErrorClass.SERVER:
                self.given_up.add(source)
                self.fruitless[source] += 1
            return ()
        self.fruitless[source] = 0
        if answer.further is not None:  # not stored: a resumed refresh must send these again
            with self.writing:
                self.result.answered += 1
            return answer.further
        prices, refused = validate_prices(self.market, answer.prices)
        tariffs, unbelieved = validate_tariffs(self.market, answer.tariffs)
        aside = [*answer.set_aside, *refused, *unbelieved]
        with self.writing:
            if not self.stopping.is_set():
                kept = replace(answer, prices=prices, tariffs=tariffs, set_aside=aside)
                self._keep(inquiry, kept, at)
        return ()

    def _unsent(self, source: str) -> CloudError:
        text = f"not sent: {source} did not answer {FRUITLESS} times in a row"
        return CloudError(text, error_class=ErrorClass.SERVER, cloud=self.name, sent=False)

    def _keep(self, inquiry: Inquiry, answer: PriceList, at: datetime) -> None:
        recorded = self.history.record(
            self._key(inquiry),
            inquiry.covers,
            answer.prices,
            at,
            answer.set_aside,
            interruptions=answer.interruptions,
            tariffs=answer.tariffs,
        )
        self.result.answered += 1
        self.result.prices += len(answer.prices)
        self.result.new += recorded.new
        self.result.gone += recorded.gone
        self.result.moved += recorded.moved
        self.result.tariffs += len(answer.tariffs)
        self.result.moved_tariffs += recorded.moved_tariffs
        self.result.set_aside += answer.set_aside
        self._tell()

    def _tell(self) -> None:
        answered, asked = self.result.answered, self.result.asked
        text = f"{self.name}: {answered} of {asked} queries answered"
        event = PricesAnswered("prices", text, cloud=self.name, answered=answered, asked=asked)
        self.context.emit(event)


def _inquiries(cloud: Cloud, wanted: PriceScope) -> Sequence[Inquiry]:
    what = "list the price queries"
    types, regions = wanted.instance_types, wanted.regions
    return cloud.ask(Prices, what, lambda prices: prices.inquiries(types, regions), lacking=())


def _tariff_inquiries(cloud: Cloud, wanted: PriceScope) -> Sequence[Inquiry]:
    what = "list the tariff queries"
    return cloud.ask(Prices, what, lambda prices: prices.tariff_inquiries(wanted.regions), lacking=())

"""Bad luck with a feed of prices: that question fails, what is known of it stays, the rest is new.

The vendors' own SDKs ask, over HTTP, a server that answers what a test says.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucloud.clouds.abilities import MISSING, NO_PRICE, OTHER_TYPE
from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.provider import Provider
from gpucloud.market.refresh import ASKED_AT_ONCE, PriceScope, Refreshed
from gpucloud_aws.spot_advisor import MOST_BYTES
from gpucloud_pricing.history import PriceHistory
from tests.builders import START, Clock
from tests.providers import alibaba_wire, aws_wire, azure_wire
from tests.providers.alibaba_sandbox import alibaba_environment
from tests.providers.test_alibaba_prices import advice, price, selling
from tests.providers.test_alibaba_prices import history as spot_history
from tests.providers.test_aws_prices import ZONES, spot_rows
from tests.providers.test_azure_prices import row as meter
from tests.providers.test_price_rows import RATE, product
from tests.refreshing import market, refreshed

__all__ = ["alibaba_environment"]

GPUS = {"aws": "g4dn.xlarge", "azure": "Standard_NC4as_T4_v3", "alibaba": "ecs.gn6i-c4g1.xlarge"}
WANTED = {
    cloud: PriceScope(instance_types=[name], regions=["eastus" if cloud == "azure" else "us-east-1"])
    for cloud, name in GPUS.items()
}
LATER = timedelta(days=3)


def rate(**changes: Any) -> dict[str, Any]:
    """A rate of a savings plan in us-east-1."""
    said = {each["name"]: each["value"] for each in RATE["properties"]} | {"region": "us-east-1"}
    return {**RATE, "properties": [{"name": n, "value": v} for n, v in said.items()], **changes}


@dataclass(frozen=True, eq=False)
class Feed:
    """One of the places where a vendor tells its prices, or how often spot is taken back.

    Attributes:
        cloud: whose.
        source: the market's name for it.
        action: what the SDK calls there, or the end of the path.
        inquiry: what is asked for, in our words.
        row: something that it tells.
        answer: an answer, of rows.
        endless: a page of this number, after which there is always one more, and the server's address;
            ``None`` where there are no pages.
    """

    cloud: str
    source: str
    action: str
    inquiry: str
    row: Any
    answer: Callable[..., Any]
    endless: Callable[[int, str], Any] | None = None

    def __str__(self) -> str:
        return self.source


def amz_json(**members: Any) -> str:
    return json.dumps({"FormatVersion": "aws_v1", **members})


def advised(row: Any) -> str:
    """The file of the spot instance advisor."""
    linux = {"us-east-1": {"Linux": {GPUS["aws"]: row}}}
    return json.dumps({"ranges": [{"index": 0, "label": "<5%"}], "spot_advisor": linux})


AWS_LIST = Feed(
    cloud="aws",
    source="aws-price-list",
    action="GetProducts",
    inquiry="list prices of g4dn.xlarge",
    row=product(),
    answer=lambda *rows: amz_json(PriceList=rows),
    endless=lambda number, _: amz_json(PriceList=[product()], NextToken=str(number)),
)
AWS_SPOT = Feed(
    cloud="aws",
    source="aws-spot-price-history",
    action="DescribeSpotPriceHistory",
    inquiry="spot prices in us-east-1",
    row=("g4dn.xlarge", "us-east-1a", "0.2", "2026-01-05T10:00:00Z"),
    answer=spot_rows,
    endless=lambda number, _: spot_rows().replace(
        "</spotPriceHistorySet>", f"</spotPriceHistorySet><nextToken>{number}</nextToken>"
    ),
)
AWS_SAVINGS = Feed(
    cloud="aws",
    source="aws-savings-plans",
    action="DescribeSavingsPlansOfferingRates",
    inquiry="savings plans, g4dn.xlarge to g4dn.xlarge",
    row=rate(),
    answer=lambda *rows: json.dumps({"searchResults": rows}),
    endless=lambda number, _: json.dumps({"searchResults": [rate()], "nextToken": str(number)}),
)
AWS_ADVISOR = Feed(
    cloud="aws",
    source="aws-spot-advisor-live",
    action="spot-advisor-data.json",
    inquiry="interruptions, by the spot instance advisor",
    row={"s": 70, "r": 0},
    answer=advised,
    endless=lambda *_: " " * (MOST_BYTES + 1),
)
AZURE = Feed(
    cloud="azure",
    source="azure-retail-prices",
    action="/api/retail/prices",
    inquiry="prices of Standard_NC4as_T4_v3",
    row=meter(),
    answer=lambda *rows: {"Items": rows},
    endless=lambda number, url: {"Items": [], "NextPageLink": f"{url}/api/retail/prices?$skip={number}000"},
)
ALIBABA_LIST = Feed(
    cloud="alibaba",
    source="alibaba-price",
    action="DescribePrice",
    inquiry="list prices of ecs.gn6i-c4g1.xlarge in us-east-1",
    row=0.6,
    answer=lambda row, currency="USD": price(row, currency=currency),
)
ALIBABA_SPOT = Feed(
    cloud="alibaba",
    source="alibaba-spot-price-history",
    action="DescribeSpotPriceHistory",
    inquiry="spot prices of ecs.gn6i-c4g1.xlarge in us-east-1",
    row=(GPUS["alibaba"], "us-east-1a", 0.2, "2026-01-05T10:00:00Z"),
    answer=spot_history,
    endless=lambda number, _: spot_history(("ecs.x", "z", 1, ""), following=number * 1000),
)
ALIBABA_ADVICE = Feed(
    cloud="alibaba",
    source="alibaba-spot-advice",
    action="DescribeSpotAdvice",
    inquiry="interruptions of ecs.gn6i-c4g1.xlarge and 0 more in us-east-1",
    row=("us-east-1a", "0-3%", 20),
    answer=advice,
)
FEEDS = [
    *(AWS_LIST, AWS_SPOT, AWS_SAVINGS, AWS_ADVISOR),
    AZURE,
    *(ALIBABA_LIST, ALIBABA_SPOT, ALIBABA_ADVICE),
]


@dataclass(frozen=True)
class Clouds:
    """The three clouds, which answer well until a test says otherwise."""

    aws: aws_wire.Wire
    azure: azure_wire.Wire
    alibaba: alibaba_wire.Wire
    folder: Path
    clock: Clock

    def refresh(self) -> dict[str, Refreshed]:
        return refreshed(self.folder / "prices.db", WANTED, self.clock)

    def say(self, feed: Feed, body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """From now on a feed answers this."""
        given = dict(headers or {})
        if feed.cloud == "aws":
            text = body if isinstance(body, str) or callable(body) else json.dumps(body)
            self.aws.say(feed.action, aws_wire.Answer(text, status, given))
        elif feed.cloud == "azure":
            self.azure.say("GET", feed.action, azure_wire.Answer(body, status, given))
        else:
            self.alibaba.say(feed.action, alibaba_wire.Answer(body, status, given))

    def days(self) -> dict[str, set[date]]:
        """On which days what is known was last seen, by the feed that told it."""
        found: dict[str, set[date]] = {}
        with closing(PriceHistory.open(self.folder / "prices.db")) as history:
            for cloud, name in GPUS.items():
                kind = market().types[cloud, name]
                told = [(each.source, each.as_of) for each in history.current(kind)]
                told += [(each.source, each.as_of) for each in history.interruptions(kind).values()]
                for source, day in told:
                    found.setdefault(source, set()).add(day)
        return found


@pytest.fixture
def clouds(
    wire: aws_wire.Wire,
    azure_wire: azure_wire.Wire,
    alibaba_environment: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Clouds]:
    with alibaba_wire.Wire() as alibaba:
        monkeypatch.setenv("GPUCLOUD_AWS_SPOT_ADVISOR_URL", f"{wire.url}/spot-advisor-data.json")
        monkeypatch.setenv("GPUCLOUD_ALIBABA_ENDPOINT", alibaba.url)
        regions = "<regionInfo><item><regionName>us-east-1</regionName></item></regionInfo>"
        wire.say("DescribeRegions", aws_wire.answer("DescribeRegions", regions))
        wire.say("DescribeAvailabilityZones", aws_wire.answer("DescribeAvailabilityZones", ZONES))
        alibaba.say("DescribeRegions", {"Regions": {"Region": [{"RegionId": "us-east-1"}]}})
        alibaba.say("DescribeAvailableResource", selling(GPUS["alibaba"]))
        made = Clouds(wire, azure_wire, alibaba, tmp_path, Clock())
        for feed in FEEDS:
            made.say(feed, feed.answer(feed.row))
        results = made.refresh()
        assert not any(result.failures or result.set_aside for result in results.values())
        assert made.days() == {feed.source: {START.date()} for feed in FEEDS}
        made.clock.sleep(LATER.total_seconds())
        yield made


def failure_of(clouds: Clouds, feed: Feed) -> str:
    """Why a feed fails in the next refresh; nothing else fails, and nothing else stays as old as it was."""
    results = clouds.refresh()
    assert {cloud: list(result.failures) for cloud, result in results.items() if result.failures} == {
        feed.cloud: [feed.inquiry]
    }
    old, new = START.date(), (START + LATER).date()
    assert clouds.days() == {each.source: {old if each == feed else new} for each in FEEDS}
    message = results[feed.cloud].failures[feed.inquiry].message
    begins = f"{feed.cloud}: could not ask for {feed.inquiry}: "
    assert message.startswith(begins)
    return message.removeprefix(begins)


PAGES = {
    200: "<html><body>Sorry</body></html>",
    503: "<!DOCTYPE html><html><title>Sorry<br></title>\n<body>We&nbsp;will be back &copy;</body>",
}
"""One that would do as XML, and one that would not."""


@pytest.mark.parametrize("feed", FEEDS, ids=str)
def test_a_page_for_people_is_no_answer(clouds: Clouds, feed: Feed) -> None:
    """And nobody has to read it."""
    for status, page in PAGES.items():
        clouds.say(feed, page, status, {"content-type": "text/html; charset=utf-8"})
        assert "body" not in failure_of(clouds, feed)


@pytest.mark.parametrize("feed", FEEDS, ids=str)
def test_nonsense_is_no_answer(clouds: Clouds, feed: Feed) -> None:
    """Above all it does not say that nothing is sold any more."""
    for body in ("", "[]", "null", '{"hello": 1}'):
        clouds.say(feed, body)
        assert failure_of(clouds, feed)


@pytest.mark.parametrize(
    ("feed", "body"),
    [
        (AWS_LIST, amz_json(NextToken="")),
        (AWS_SPOT, spot_rows(("g4dn.xlarge", "us-east-1a", "0.2", "yesterday"))),
        (AWS_SAVINGS, json.dumps({"nextToken": ""})),
        (AWS_ADVISOR, '{"ranges": [{"index": Infinity, "label": "<5%"}], "spot_advisor": {}}'),
        (AZURE, {"Items": None}),
        (AZURE, {"Items": ["row"]}),
        (ALIBABA_LIST, {"PriceInfo": {"Price": {"TradePrice": 1}}}),
        (ALIBABA_LIST, {"PriceInfo": {"Price": {"DetailInfos": {"DetailInfo": "none"}}}}),
        (ALIBABA_SPOT, {"SpotPrices": {"SpotPriceType": ["row"]}}),
        (ALIBABA_ADVICE, {"AvailableSpotZones": {"AvailableSpotZone": ["zone"]}}),
    ],
    ids=str,
)
def test_an_answer_of_another_form_is_none(clouds: Clouds, feed: Feed, body: Any) -> None:
    """The SDKs trip over some of them themselves."""
    clouds.say(feed, body)
    assert failure_of(clouds, feed)


@pytest.mark.parametrize("feed", [feed for feed in FEEDS if feed.endless], ids=str)
def test_what_never_ends_is_no_answer(clouds: Clouds, feed: Feed) -> None:
    pages = itertools.count(1)
    endless = feed.endless
    assert endless is not None
    clouds.say(feed, lambda: endless(next(pages), clouds.azure.url))
    assert re.search(r"\d+ (pages and still more|bytes)", failure_of(clouds, feed))


def test_an_answer_that_is_no_http_is_none(clouds: Clouds) -> None:
    """Of the one feed that is read without an SDK."""
    clouds.say(AWS_ADVISOR, "soon", headers={"transfer-encoding": "chunked"})
    assert "not HTTP" in failure_of(clouds, AWS_ADVISOR)


def test_a_feed_that_is_down_is_waited_for_once_and_not_with_every_question(clouds: Clouds) -> None:
    """Or a refresh that asks a thousand things would repeat each for a minute."""
    sizes = [f"Standard_N{number}" for number in range(ASKED_AT_ONCE + 20)]
    clouds.say(AZURE, "<html>Sorry</html>")

    def patient(provider: Provider) -> Cloud:
        now = clouds.clock
        return Cloud(provider=provider, sleep=now.sleep, monotonic=lambda: now().timestamp())

    wanted = {"azure": PriceScope(instance_types=sizes)}
    failures = refreshed(clouds.folder / "prices.db", wanted, clouds.clock, patient)["azure"].failures
    assert len(failures) == len(sizes)
    asked = Counter(sent.query["$filter"].split("'")[-2] for sent in clouds.azure.calls("GET", AZURE.action))
    assert max(asked[size] for size in sizes[:ASKED_AT_ONCE]) > 1
    assert [asked[size] for size in sizes[ASKED_AT_ONCE:]] == [1] * 20


LOWER = "a second, lower price for the same thing"
TEN = "2026-01-05T10:00:00Z"
EUROS = {**RATE["savingsPlanOffering"], "currency": "EUR"}
NO_PRICES: dict[Feed, list[tuple[Any, str]]] = {
    AWS_LIST: [
        (product(pricePerUnit={"USD": "0.0000000000"}), NO_PRICE),
        (product(pricePerUnit={"USD": "-0.5"}), NO_PRICE),
        (product(pricePerUnit={"CNY": "3.5"}), "not in USD"),
        (product(unit="Seconds"), "unknown unit 'Seconds'"),
        (product(pricePerUnit="0.5"), MISSING),
        ("{}", MISSING),
        (7, MISSING),
        (product(instanceType="p3.2xlarge"), OTHER_TYPE),
        (product(pricePerUnit={"USD": "0.4"}), LOWER),
    ],
    AWS_SPOT: [
        (("g4dn.xlarge", "us-east-1b", "0.0", TEN), NO_PRICE),
        (("g4dn.xlarge", "us-east-1b", "-0.1", TEN), NO_PRICE),
        (("g4dn.xlarge", "", "0.1", TEN), MISSING),
        (("", "us-east-1b", "0.1", TEN), MISSING),
        (("p5.48xlarge", "us-east-1b", "0.1", TEN), OTHER_TYPE),
    ],
    AWS_SAVINGS: [
        (rate(rate="0"), NO_PRICE),
        (rate(rate="-0.1"), NO_PRICE),
        (rate(savingsPlanOffering=EUROS), "not in USD"),
        (rate(unit="Request"), "unknown unit 'Request'"),
        (rate(properties=[*rate()["properties"], {"name": "region", "value": ""}]), MISSING),
        (rate(rate="0.3"), LOWER),
    ],
    AZURE: [
        (meter(retailPrice=0), NO_PRICE),
        (meter(retailPrice=-1), NO_PRICE),
        (meter(currencyCode="EUR"), "not in USD"),
        (meter(unitOfMeasure="1/Month"), "unknown unit '1/Month'"),
        (meter(armRegionName=None), MISSING),
        (meter(savingsPlan=["1 Year"]), MISSING),
        (meter(armSkuName="Standard_NC8as_T4_v3"), OTHER_TYPE),
        (meter(retailPrice=0.4), LOWER),
    ],
    ALIBABA_SPOT: [
        ((GPUS["alibaba"], "us-east-1b", 0, TEN), NO_PRICE),
        ((GPUS["alibaba"], "us-east-1b", -1, TEN), NO_PRICE),
        ((GPUS["alibaba"], None, 0.1, TEN), MISSING),
        ((GPUS["alibaba"], "us-east-1b", 0.1, None), MISSING),
        ((GPUS["alibaba"], "us-east-1b", 0.1, "yesterday"), MISSING),
        (("ecs.x", "us-east-1b", 0.1, TEN), OTHER_TYPE),
    ],
    ALIBABA_ADVICE: [
        (("us-east-1b", "seldom", 20), "no rate of interruption"),
        (("us-east-1b", "3-5%", 120), "no rate of interruption"),
    ],
}


@pytest.mark.parametrize("feed", NO_PRICES, ids=str)
def test_rows_that_are_no_price_are_set_aside_and_the_others_count(clouds: Clouds, feed: Feed) -> None:
    rows, reasons = zip(*NO_PRICES[feed], strict=True)
    clouds.say(feed, feed.answer(feed.row, *rows))
    results = clouds.refresh()
    aside = {cloud: Counter(each.reason for each in result.set_aside) for cloud, result in results.items()}
    assert aside == {cloud: Counter(reasons if cloud == feed.cloud else ()) for cloud in GPUS}
    assert not any(result.failures or result.moved or result.gone for result in results.values())
    assert clouds.days() == {each.source: {(START + LATER).date()} for each in FEEDS}


@pytest.mark.parametrize(
    ("feed", "answer", "why"),
    [
        (ALIBABA_LIST, price(0, currency="USD"), [NO_PRICE] * 3),
        (ALIBABA_LIST, price(-1, currency="USD"), [NO_PRICE] * 3),
        (ALIBABA_LIST, price(1, currency="XAU"), ["no reference rate from XAU to USD"] * 3),
        (AWS_ADVISOR, advised({"s": 70, "r": 1e999}), ["no rate of interruption"]),
        (AWS_ADVISOR, advised({"s": 70}), ["no rate of interruption"]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_where_there_is_one_row_to_a_question_it_is_set_aside_too(
    clouds: Clouds, feed: Feed, answer: Any, why: list[str]
) -> None:
    """Of Alibaba's: by the hour, the month and the year."""
    clouds.say(feed, answer)
    results = clouds.refresh()
    assert [each.reason for each in results[feed.cloud].set_aside] == why
    assert not any(result.failures for result in results.values())


def test_a_region_that_names_no_type_at_all_has_not_stopped_to_sell_ours(clouds: Clouds) -> None:
    clouds.alibaba.say("DescribeAvailableResource", {"AvailableZones": {"AvailableZone": []}})
    assert clouds.refresh()["alibaba"].gone == 0
    assert clouds.days()["alibaba-price"] == {START.date()}
    clouds.alibaba.say("DescribeAvailableResource", selling("ecs.x"))
    assert clouds.refresh()["alibaba"].gone == 4


def test_a_region_that_does_not_say_what_it_sells_fails_alone(clouds: Clouds) -> None:
    regions = [{"RegionId": "us-east-1"}, {"RegionId": "cn-beijing"}]
    clouds.alibaba.say("DescribeRegions", {"Regions": {"Region": regions}})
    denied, sells = alibaba_wire.refusal("Forbidden.RAM", status=403), selling(GPUS["alibaba"])
    clouds.alibaba.say("DescribeAvailableResource", denied, sells)
    wanted = {"alibaba": PriceScope(instance_types=[GPUS["alibaba"]])}
    result = refreshed(clouds.folder / "prices.db", wanted, clouds.clock)["alibaba"]
    (failed,) = result.failures
    assert failed in {"what us-east-1 sells", "what cn-beijing sells"}, "whichever asked first"
    assert result.answered == result.asked - 1
    assert result.prices > 0

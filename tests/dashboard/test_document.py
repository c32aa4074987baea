"""What the page is told: money that is never added across currencies, and words in both languages."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.costs.anomalies import charges_by_day
from gpucloud.costs.spend import per_hour
from gpucloud.dashboard import money
from gpucloud.dashboard.page import STATIC, words
from gpucloud.dashboard.timeline import timeline
from gpucloud.journal import events
from gpucloud.journal.facts import BoughtOffer, Facts, GuardReport, Node, Place, Price, Usage
from gpucloud.journal.lifecycle import BoxState, EndedBy
from gpucloud.journal.records import Box, StoredEvent
from gpucloud.journal.runs import Loss, RunState
from gpucloud.resources import ResourceKind, State
from gpucloud_pricing.billing import BILLING
from gpucloud_pricing.purchases import Purchase
from tests.builders import START, a_box

NOW = START + timedelta(hours=30)  # the next day, the 6th, at 18:00
DOLLAR = Price(amount=Decimal(1), currency="USD")


def billed(name: str, *, price: Price | None = DOLLAR, until_h: float | None = None, **changes: Any) -> Box:
    """A box whose compute is billed since the start."""
    end = None if until_h is None else START + timedelta(hours=until_h)
    usage = Usage(box=name, resource="i-1", part="compute", start=START, end=end, price=price)
    node = Node(instance_id="i-1", state=State.RUNNING)
    values: dict[str, Any] = {
        "id": name,
        "name": name,
        "place": Place(cloud="aws", region="us-east-1"),
        "price": price,
        "nodes": (node,),
        "usage": (usage,),
        **changes,
    }
    return a_box(**values)


def report(percent: float, *, age: timedelta = timedelta(minutes=1)) -> GuardReport:
    return GuardReport(at=(NOW - age).timestamp(), idle_s=600, gpu_percent=(percent,), health={})


def rates(*boxes: Box) -> money.Rates:
    return {box.id: per_hour(box, BILLING.__getitem__) for box in boxes}


def told(amounts: Any) -> dict[str, str]:
    return {each["currency"]: each["amount"].rstrip("0").rstrip(".") for each in amounts}


def test_each_currency_has_a_sum_of_its_own() -> None:
    yuan = Price(amount=Decimal(7), currency="CNY")
    boxes = [billed("a"), billed("b"), billed("c", price=yuan), billed("d", price=None)]
    sums, unknown = money.burn(boxes, rates(*boxes))
    assert (told(sums), unknown) == ({"CNY": "7", "USD": "2"}, ["d"])


def test_the_forecast_is_what_was_spent_and_what_is_committed_until_the_end_of_the_month() -> None:
    """The box without an end, and the one past its end, cost until somebody ends them."""
    soon, never, late = NOW + timedelta(hours=10), None, NOW - timedelta(hours=1)
    left_h = (31 - 6) * 24 + 6
    boxes = [billed(str(end), expires_at=end) for end in (soon, never, late)]
    spent = list(charges_by_day(boxes, NOW, BILLING.__getitem__))
    found = money.month(boxes, rates(*boxes), spent, START, NOW)
    assert (told(found["spent"]), told(found["forecast"])) == (
        {"USD": str(3 * 30)},
        {"USD": str(3 * 30 + 10 + 2 * left_h)},
    )
    assert found["flat"], "the journal is a day old"
    assert told(found["low"]) == told(found["high"]) == told(found["forecast"])


def test_new_boxes_are_expected_as_in_the_last_days() -> None:
    """One box of 14 dollars in 14 days is one dollar a day; the month has 25 and a quarter days left."""
    gone = billed("gone", until_h=14, created_at=START, state=BoxState.DELETED)
    spent = list(charges_by_day([gone], NOW, BILLING.__getitem__))
    found = money.month([gone], {}, spent, NOW - timedelta(days=100), NOW)
    assert (told(found["forecast"]), told(found["low"])) == ({"USD": "39.25"}, {"USD": "14"})
    assert not found["flat"]


def test_spending_is_split_at_midnight_and_every_day_is_there() -> None:
    gone = billed("gone", until_h=14, owner="u-other", state=BoxState.DELETED)
    spent = list(charges_by_day([gone], NOW, BILLING.__getitem__))
    found = money.spending(spent, NOW)
    assert [each["day"] for each in found["days"]][:: money.DAYS - 1] == ["2025-12-08", "2026-01-06"]
    assert [told(each["amounts"]) for each in found["days"]][-3:] == [{}, {"USD": "12"}, {"USD": "2"}]
    assert [(each["name"], told(each["amounts"])) for each in found["owner"]] == [("u-other", {"USD": "14"})]


def test_idle_money_is_the_part_of_the_price_that_gpus_do_not_use() -> None:
    boxes = [
        billed("busy", guards=(report(90),)),
        billed("idle", guards=(report(0),)),
        billed("silent", guards=(report(0, age=timedelta(hours=1)),)),
        billed("untold"),
    ]
    found = money.idle(boxes, rates(*boxes), NOW)
    assert told(found["per_hour"]) == {"USD": "1.1"}
    assert [each["name"] for each in found["items"]] == ["idle", "busy"]
    assert found["unknown"] == ["silent", "untold"], "what is not known is not idle"


def test_the_timeline_tells_what_happened_once() -> None:
    offer = BoughtOffer(instance_type="g4dn.xlarge", purchase=Purchase.SPOT)
    notice = Facts(guards=(GuardReport(at=0, idle_s=0, taken_back_at=1, health={}),))
    happened: list[events.JournalEvent] = [
        events.Intended(
            intent="n-1",
            op="o-1",
            cloud="aws",
            account="1",
            region="us-east-1",
            zone="use1-az4",
            token="t-1",
            name="x",
            facts=Facts(offer=offer, price=DOLLAR),
        ),
        events.StateChanged(state=BoxState.READY),
        events.Seen(facts=notice),
        events.Extended(expires_at=NOW),
        events.Seen(facts=notice),
        events.Released(),
        events.Seen(state=BoxState.INTERRUPTED, facts=Facts(ended_by=EndedBy.CLOUD)),
    ]
    stored = [
        StoredEvent(id=str(number), at=NOW, box="b", number=number, event=event)
        for number, event in enumerate(happened)
    ]
    entries = timeline(stored)
    assert [each["what"] for each in entries] == [
        "timeline.attempt",
        "state.ready",
        "timeline.seen.notice",
        "timeline.extended",
        "timeline.seen.cloud",
        "state.interrupted",
    ]
    assert entries[0]["values"] == {"place": "aws use1-az4", "type": "g4dn.xlarge", "purchase": "spot"}


# --- words

SHOWN = {
    "state": BoxState,
    "runstate": RunState,
    "loss": Loss,
    "kind": ResourceKind,
    "why": EndedBy,
    "sign.ended": EndedBy,
    "timeline.seen": EndedBy,
    "purchase": Purchase,
}
SOURCES = [STATIC / "script.js", *STATIC.parent.glob("*.py")]


def test_every_word_is_there_in_both_languages() -> None:
    for key, texts in words().items():
        assert set(texts) == {"en", "zh"}, key
        assert all(texts.values()), key
        places = [sorted(re.findall(r"\{\w+\}", text)) for text in texts.values()]
        assert places[0] == places[1], key


@pytest.mark.parametrize("group", SHOWN)
def test_whatever_the_journal_says_has_a_word(group: str) -> None:
    lacking = {f"{group}.{each}" for each in SHOWN[group]} - set(words())
    assert not lacking


def test_every_word_is_used_and_none_is_missing() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in SOURCES)
    said = set(re.findall(r'(?:(?:plain|say|tile|panel)\(|key: )"([a-z_]+(?:\.[\w.]+)?)"', text))
    said |= set(re.findall(r'\["(box\.\w+)",', text))
    said |= set(re.findall(r'"((?:timeline|why)\.[\w.]*\w)"', text))
    built = tuple(f"{start}." for start in re.findall(r"[`\"]([\w.]+)\.\$?\{", text))
    assert {key for key in said if "." in key} - set(words()) == set()
    assert {key for key in words() if key not in said and not key.startswith(built)} == set()

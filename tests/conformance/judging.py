"""What the provider says of errors and prices, and its use from several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from gpucloud.clouds.abilities import Prices
from gpucloud.errors import ErrorClass
from gpucloud.resources import Order, ResourceKind, Search
from gpucloud_pricing.purchases import Purchase
from tests.builders import Told
from tests.conformance.harness import (
    Conformance,
    Harness,
    bought,
    cannot,
    found,
    ids,
    refused,
    running,
    take_down,
)


class Judging(Conformance):
    """The obligations; one test each."""

    @pytest.mark.parametrize(
        "error_class",
        [
            ErrorClass.CAPACITY,
            ErrorClass.UNSUPPORTED,
            ErrorClass.QUOTA,
            ErrorClass.PRICE,
            ErrorClass.AUTH,
            ErrorClass.THROTTLED,
            ErrorClass.SERVER,
        ],
    )
    def test_a_refusal_keeps_its_class_and_the_clouds_own_words(
        self, harness: Harness, error_class: ErrorClass
    ) -> None:
        order = harness.order()
        request = harness.provider.prepare(order, Told())
        harness.refuse(error_class)
        verdict = refused(harness, lambda: harness.provider.create(request))
        assert verdict.error_class is error_class
        assert verdict.code
        assert verdict.message
        assert verdict.request_id
        assert not [t for t in found(harness, box=order.tags.box) if t.ref.kind is ResourceKind.INSTANCE]

    def test_an_error_of_another_origin_is_not_explained(self, harness: Harness) -> None:
        assert harness.provider.classify(ValueError("no SDK raised this")) is None
        assert harness.provider.classify(KeyError("nor this")) is None

    @pytest.mark.parametrize("purchase", [Purchase.ON_DEMAND, Purchase.SPOT])
    def test_prices_of_today_are_positive_and_have_a_currency(
        self, harness: Harness, purchase: Purchase
    ) -> None:
        source = harness.provider.ability(Prices)
        if source is None:
            cannot("ask for prices")
        order = harness.order()
        quotes = source.quotes(order.region, [order.instance_type], purchase)
        assert quotes
        for quote in quotes:
            assert quote.price_per_hour > 0
            assert len(quote.currency) == 3
            assert (quote.cloud, quote.region) == (harness.provider.name, order.region)
            assert (quote.instance_type, quote.purchase) == (order.instance_type, purchase)
            assert quote.source
            assert quote.as_of.tzinfo is not None

    def test_a_type_that_the_cloud_does_not_know_has_no_price(self, harness: Harness) -> None:
        source = harness.provider.ability(Prices)
        if source is None:
            cannot("ask for prices")
        assert not source.quotes(harness.order().region, ["no.such-type"], Purchase.ON_DEMAND)

    def test_lists_of_prices_agree_with_what_is_quoted(self, harness: Harness) -> None:
        source = harness.provider.ability(Prices)
        if source is None:
            cannot("ask for prices")
        order = harness.order()
        inquiries = list(source.inquiries([order.instance_type], [order.region]))
        listed: dict[tuple[str, str | None], Decimal] = {}
        for inquiry in inquiries:
            covers, answer = inquiry.covers, inquiry.ask()
            inquiries += answer.further or ()
            for price in answer.prices:
                assert (price.cloud, price.source) == (covers.cloud, covers.source)
                assert price.region in (covers.regions or [price.region])
                assert price.instance_type in (covers.instance_types or [price.instance_type])
                listed[price.purchase, price.zone] = price.amount
        assert len({inquiry.name for inquiry in inquiries}) == len(inquiries)
        for purchase in (Purchase.ON_DEMAND, Purchase.SPOT):
            for quote in source.quotes(order.region, [order.instance_type], purchase):
                assert listed[str(purchase), quote.zone] == quote.price_per_hour

    def test_looking_changes_nothing(self, harness: Harness) -> None:
        order = harness.order()
        _, machines = bought(harness, order)
        running(harness, machines[0])
        before = harness.mutating_calls()
        harness.provider.find(Search(owner=harness.owner))
        harness.provider.get(machines[0].ref)
        harness.provider.account()
        if (prices := harness.provider.ability(Prices)) is not None:
            prices.quotes(order.region, [order.instance_type], Purchase.ON_DEMAND)
        assert harness.mutating_calls() == before

    def test_several_boxes_are_bought_and_taken_down_at_the_same_time(self, harness: Harness) -> None:
        orders = [harness.order() for _ in range(4)]

        def live_and_die(order: Order) -> set[str]:
            _, machines = bought(harness, order)
            running(harness, machines[0])
            take_down(harness, box=order.tags.box)
            return ids(machines)

        with ThreadPoolExecutor(4) as threads:
            made = list(threads.map(live_and_die, orders))
        assert len(set().union(*made)) == 4

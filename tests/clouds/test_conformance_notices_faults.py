"""The conformance suite finds what it is there to find: each row breaks one promise and names who notices."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from gpucloud.clouds.provider import Record, Verdict
from gpucloud.errors import ErrorClass
from gpucloud.resources import (
    Machine,
    Order,
    Quote,
    Ref,
    Request,
    Resource,
    ResourceKind,
    Search,
    SearchResult,
    State,
)
from gpucloud_pricing.purchases import Purchase
from tests.clouds.test_memory_conformance import MemoryHarness
from tests.conformance import ProviderConformance
from tests.memory import CloudSaid, MemoryProvider

_numbers = itertools.count()


class ForgetsTheKey(MemoryProvider):
    def create(self, request: Request, /) -> Sequence[Machine]:
        return super().create({**request, "key": f"key-{next(_numbers)}"})


class BuysOneNodeLess(MemoryProvider):
    def create(self, request: Request, /) -> Sequence[Machine]:
        return super().create({**request, "nodes": max(request["nodes"] - 1, 1)})


class BuysWhateverIsThere(MemoryProvider):
    def create(self, request: Request, /) -> Sequence[Machine]:
        made: list[Machine] = []
        for node in range(request["nodes"]):
            made += super().create({**request, "nodes": 1, "key": f"{request['key'][:60]}{node}"})
        return made


class IgnoresTheBid(MemoryProvider):
    def create(self, request: Request, /) -> Sequence[Machine]:
        return super().create({**request, "bid_usd": "1000000"})


class MakesItsGroupAnew(MemoryProvider):
    def prepare(self, order: Order, record: Record, /) -> Request:
        return super().prepare(replace(order, name=f"{order.name}-{next(_numbers)}"), record)


class TellsTheRecordTooLate(MemoryProvider):
    def prepare(self, order: Order, record: Record, /) -> Request:
        class Silent:
            def making(self, kind: ResourceKind, name: str, /) -> None:
                pass

            def made(self, ref: Ref, /) -> None:
                record.making(ref.kind, ref.id)
                record.made(ref)

            def armed(self, timers: Sequence[str], /) -> None:
                record.armed(timers)

        return super().prepare(order, Silent())


class TellsTheRecordNothing(MemoryProvider):
    def prepare(self, order: Order, record: Record, /) -> Request:
        class Silent:
            def making(self, kind: ResourceKind, name: str, /) -> None:
                pass

            def made(self, ref: Ref, /) -> None:
                pass

            def armed(self, timers: Sequence[str], /) -> None:
                pass

        return super().prepare(order, Silent())


class FindsOthersResources(MemoryProvider):
    def find(self, search: Search, /) -> SearchResult:
        return super().find(replace(search, owner=None))


class TakesSilenceForAbsence(MemoryProvider):
    def find(self, search: Search, /) -> SearchResult:
        return replace(super().find(search), unread=())


class FindsMachinesOnly(MemoryProvider):
    def find(self, search: Search, /) -> SearchResult:
        found = super().find(search)
        return replace(
            found, resources=tuple(t for t in found.resources if t.ref.kind is ResourceKind.INSTANCE)
        )


class LosesTags(MemoryProvider):
    def find(self, search: Search, /) -> SearchResult:
        found = super().find(search)
        resources = tuple(t if isinstance(t, Machine) else replace(t, tags=None) for t in found.resources)
        return replace(found, resources=resources)


class KnowsEveryId(MemoryProvider):
    def get(self, ref: Ref, /) -> Resource:
        if (ref.region, ref.id) in self.cloud.items:
            return super().get(ref)
        return Resource(ref=ref, state=State.GONE, tags=None)


class FailsToDeleteTheDead(MemoryProvider):
    def delete(self, ref: Ref, /) -> None:
        self.get(ref)
        super().delete(ref)


class DeletesTheWrongOne(MemoryProvider):
    def delete(self, ref: Ref, /) -> None:
        for item in self.cloud.machines():
            super().delete(item.ref)


class DeletesNothing(MemoryProvider):
    def delete(self, ref: Ref, /) -> None:
        self.get(ref)


class ForgetsTheRequestId(MemoryProvider):
    def classify(self, error: Exception, /) -> Verdict | None:
        verdict = super().classify(error)
        return verdict and replace(verdict, request_id=None)


class CallsEverythingCapacity(MemoryProvider):
    def classify(self, error: Exception, /) -> Verdict | None:
        verdict = super().classify(error)
        return verdict and replace(verdict, error_class=ErrorClass.CAPACITY)


class ExplainsEverything(MemoryProvider):
    def classify(self, error: Exception, /) -> Verdict | None:
        return super().classify(error) or Verdict(
            error_class=ErrorClass.SERVER, code="Unknown", message=str(error)
        )


class QuotesNothing(MemoryProvider):
    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quote]:
        return [
            replace(q, price_per_hour=Decimal(0)) for q in super().quotes(region, instance_types, purchase)
        ]


suite = ProviderConformance
BROKEN = [
    (ForgetsTheKey, suite.test_a_repeated_create_call_gives_the_same_machines),
    (ForgetsTheKey, suite.test_concurrent_create_calls_give_the_same_machines),
    (ForgetsTheKey, suite.test_a_lost_answer_is_resolved_by_the_same_request),
    (ForgetsTheKey, suite.test_another_order_with_the_same_key_is_refused),
    (BuysOneNodeLess, suite.test_all_nodes_are_made_by_one_order),
    (BuysWhateverIsThere, suite.test_without_stock_for_all_nodes_none_lives),
    (IgnoresTheBid, suite.test_the_bid_of_a_spot_machine_is_a_limit),
    (MakesItsGroupAnew, suite.test_preparing_again_gives_the_same_request_and_makes_nothing_more),
    (MakesItsGroupAnew, suite.test_preparing_at_the_same_time_makes_no_more_than_preparing_once),
    (TellsTheRecordTooLate, suite.test_the_record_is_told_before_the_call_is_made),
    (TellsTheRecordNothing, suite.test_the_record_is_told_before_and_after_each_thing_that_is_made),
    (FindsOthersResources, suite.test_another_owners_things_are_never_given),
    (FindsOthersResources, suite.test_two_tags_must_both_match),
    (TakesSilenceForAbsence, suite.test_a_region_that_may_not_be_read_is_unread_and_no_proof_of_absence),
    (FindsMachinesOnly, suite.test_the_tags_are_on_everything_that_is_billed),
    (LosesTags, suite.test_the_tags_are_on_everything_that_is_billed),
    (KnowsEveryId, suite.test_an_unknown_id_is_not_found),
    (FailsToDeleteTheDead, suite.test_deleting_what_never_existed_is_success),
    (DeletesTheWrongOne, suite.test_deleting_what_never_existed_is_success),
    (DeletesNothing, suite.test_an_ended_machine_is_told_as_gone),
    (DeletesNothing, suite.test_a_box_is_taken_down_in_that_order),
    (QuotesNothing, lambda test, harness: suite.test_prices_of_today_are_positive_and_have_a_currency(
        test, harness, Purchase.SPOT)),
    *[
        (broken, lambda test, harness, each=each:
            suite.test_a_refusal_keeps_its_class_and_the_clouds_own_words(test, harness, each))
        for broken, each in (
            (ForgetsTheRequestId, ErrorClass.QUOTA),
            (CallsEverythingCapacity, ErrorClass.QUOTA),
            (CallsEverythingCapacity, ErrorClass.THROTTLED),
        )
    ],
    (ExplainsEverything, suite.test_an_error_of_another_origin_is_not_explained),
]  # fmt: skip


@pytest.mark.parametrize("name", ["aws", "azure", "alibaba"])
@pytest.mark.parametrize(("broken", "test"), BROKEN)
def test_a_broken_promise_is_noticed(name, broken, test) -> None:  # type: ignore[no-untyped-def]
    harness = MemoryHarness(name)
    test(ProviderConformance(), harness)  # the whole one passes
    harness = MemoryHarness(name)
    harness.provider = broken(harness.cloud)
    with pytest.raises((AssertionError, pytest.fail.Exception, CloudSaid)):
        test(ProviderConformance(), harness)

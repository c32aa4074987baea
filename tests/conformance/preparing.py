"""Preparing: what the instances stand on."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpucloud.resources import Request, ResourceKind
from tests.builders import Told
from tests.conformance.harness import Conformance, Harness, eventually, found, ids, refused


class Preparing(Conformance):
    """The obligations; one test each."""

    def test_preparing_makes_nothing_billable_but_addresses_that_were_announced(
        self, harness: Harness
    ) -> None:
        order, told = harness.order(nodes=2), Told()
        harness.provider.prepare(order, told)
        billable = [t.ref for t in found(harness, box=order.tags.box) if t.ref.kind.billable]
        assert {ref.kind for ref in billable} <= {ResourceKind.ADDRESS}
        announced = [
            name for event, kind, name in told.events if (event, kind) == ("making", ResourceKind.ADDRESS)
        ]
        assert len(announced) == len(billable)

    def test_preparing_bills_nothing_but_addresses_that_are_in_the_record(self, harness: Harness) -> None:
        told = Told()
        harness.provider.prepare(harness.order(), told)
        assert set(harness.billed()) <= {ref.id for ref in told.refs if ref.kind is ResourceKind.ADDRESS}

    def test_preparing_again_gives_the_same_request_and_makes_nothing_more(self, harness: Harness) -> None:
        order = harness.order()
        first = harness.provider.prepare(order, Told())
        resources = eventually(harness, lambda: found(harness, box=order.tags.box), "shown")
        again = harness.provider.prepare(order, Told())
        assert again == first
        assert ids(found(harness, box=order.tags.box)) == ids(resources)

    def test_preparing_at_the_same_time_makes_no_more_than_preparing_once(self, harness: Harness) -> None:
        order, alone = harness.order(), Told()
        harness.provider.prepare(harness.order(), alone)

        def prepare(_: int) -> Request:
            return eventually(harness, lambda: harness.provider.prepare(order, Told()), "prepared")

        with ThreadPoolExecutor(4) as threads:
            requests = list(threads.map(prepare, range(4)))
        assert all(request == requests[0] for request in requests)
        eventually(harness, lambda: found(harness, box=order.tags.box), "shown")
        kinds = sorted(resource.ref.kind for resource in found(harness, box=order.tags.box))
        assert kinds == sorted(ref.kind for ref in alone.refs)

    def test_the_record_is_told_before_and_after_each_thing_that_is_made(self, harness: Harness) -> None:
        order, told = harness.order(), Told()
        harness.provider.prepare(order, told)
        pending: list[ResourceKind] = []
        for event, kind, _ in told.events:
            if event == "making":
                pending.append(kind)
            elif pending:
                pending.remove(kind)  # what is made at the same time is told in any order
        assert not pending
        made = {ref.id for ref in told.refs}
        assert eventually(harness, lambda: found(harness, box=order.tags.box), "shown")
        assert ids(found(harness, box=order.tags.box)) <= made

    def test_the_record_is_told_before_the_call_is_made(self, harness: Harness) -> None:
        order, before = harness.order(), harness.mutating_calls()

        class Refuses(Told):
            def making(self, kind: ResourceKind, name: str, /) -> None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            harness.provider.prepare(order, Refuses())
        assert harness.mutating_calls() == before
        assert not found(harness, box=order.tags.box)

    def test_the_id_of_a_thing_whose_answer_was_lost_is_told_when_it_is_found_again(
        self, harness: Harness
    ) -> None:
        order, told = harness.order(), Told()
        harness.lose_answer("prepare")
        refused(harness, lambda: harness.provider.prepare(order, told))
        harness.provider.prepare(order, told)
        resources = eventually(harness, lambda: found(harness, box=order.tags.box), "shown")
        assert ids(resources) <= {ref.id for ref in told.refs}

    def test_the_request_is_plain_json_without_credentials(self, harness: Harness) -> None:
        request = harness.provider.prepare(harness.order(), Told())
        text = json.dumps(request)
        assert json.loads(text) == request
        secret = [v for k, v in os.environ.items() if k.endswith(("SECRET", "SECRET_ACCESS_KEY", "TOKEN"))]
        assert not [value for value in secret if len(value) > 3 and value in text]
        assert "PRIVATE KEY" not in text

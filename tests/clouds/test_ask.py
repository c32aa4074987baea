"""Abilities are asked in one place, which repeats, gives up, and refuses what a cloud lacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpucloud.clouds.abilities import Images, Prices, Traits
from gpucloud.clouds.cloud import Backoff, Cloud
from gpucloud.errors import CloudError, ErrorClass, OutcomeUnknownError
from tests.memory import MemoryProvider
from tests.memory.faults import ConnectionLost


def a_cloud(waits: list[float]) -> Cloud:
    return Cloud(
        provider=MemoryProvider.named("aws"),
        backoff=Backoff(),
        sleep=waits.append,
        monotonic=lambda: sum(waits),
    )


class Flaky:
    """Fails some times, then answers."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    def __call__(self, able: object) -> str:
        assert isinstance(able, Prices)
        if self.left:
            self.left -= 1
            raise ConnectionLost
        return "told"


def test_a_question_is_repeated_until_it_is_answered() -> None:
    waits: list[float] = []
    assert a_cloud(waits).ask(Prices, "ask", Flaky(3)) == "told"
    assert len(waits) == 3


def test_a_question_that_is_never_answered_ends_within_its_time() -> None:
    waits: list[float] = []
    with pytest.raises(CloudError, match="aws: could not ask: ConnectionLost"):
        a_cloud(waits).ask(Prices, "ask", Flaky(1000), budget_s=10.0)
    assert 0 < sum(waits) <= 10


def test_a_cloud_that_lacks_an_ability_gives_what_the_caller_says_or_refuses_without_a_call() -> None:
    cloud = a_cloud([])
    assert cloud.ability(Images) is None
    assert cloud.ask(Images, "ask", lambda _: "told", lacking=()) == ()
    calls: tuple[Callable[[], str], ...] = (
        lambda: cloud.ask(Images, "make it", lambda _: "told"),
        lambda: cloud.bill_by(Images, "make it", lambda _: "told", lambda: None),
    )
    for refused in calls:
        with pytest.raises(CloudError, match="aws: could not make it") as caught:
            refused()
        assert (caught.value.error_class, caught.value.sent) == (ErrorClass.UNSUPPORTED, False)


def test_a_billable_call_without_an_answer_may_have_been_applied() -> None:
    tries: list[None] = []
    with pytest.raises(OutcomeUnknownError):
        a_cloud([]).bill_by(Prices, "make it", Flaky(10**6), lambda: tries.append(None))
    assert tries


def test_facts_of_a_cloud_that_tells_none_are_the_careful_ones() -> None:
    assert a_cloud([]).traits == Traits(lists_machines=True)
    assert not any((Traits().forgets_ended, Traits().lists_machines, Traits().power_off_ends))

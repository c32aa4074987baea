"""What happens to a run whose attempt was lost, as one table."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucloud.errors import PriceError
from gpucloud.journal.facts import Node
from gpucloud.journal.lifecycle import BoxState, EndedBy
from gpucloud.journal.runs import AttemptPlace, AttemptRecord, Loss, RunState, Work
from gpucloud.resources import State
from gpucloud.runs.rules import (
    DeadlinePassedError,
    FruitlessError,
    NoRestart,
    Restart,
    WaitOverError,
    after_loss,
    avoided,
    end_of_wait,
    fate_of,
    fate_of_nodes,
    hours_ahead,
    job_environment,
    restarts_after,
    spec_left,
)
from gpucloud.spec.fields import LEAST_USD
from gpucloud.spec.file import load_spec
from tests.builders import START, a_box
from tests.planning.test_plan import a_candidate

LOSSES = {
    "i": Loss.INTERRUPTION,
    "h": Loss.HARDWARE,
    "c": Loss.CAPACITY,
    "r": Loss.REQUEST,
    "l": Loss.LAUNCH,
}
PLACE = AttemptPlace(cloud="aws", region="r1", zone="z1", instance_type="t.large", purchase="spot")


def attempts(history: str) -> tuple[AttemptRecord, ...]:
    """Lost attempts, each a letter of :data:`LOSSES`; ``+`` after one: a newer checkpoint was complete."""
    made: list[AttemptRecord] = []
    checkpoint: str | None = None
    for position, letter in enumerate(history):
        if letter == "+":
            checkpoint = f"c{position}"
            made[-1] = replace(made[-1], checkpoint=checkpoint)
            continue
        lost = AttemptRecord(
            box=f"b-{position}",
            at=START,
            lost_at=START,
            loss=LOSSES[letter],
            message="lost",
            place=PLACE,
            checkpoint=checkpoint,
        )
        made.append(lost)
    return tuple(made)


def work(restarts: int = 99, reasons: str = "ihcrl") -> Work:
    return Work(
        spec={"gpu": "T4"}, command="true", restarts=restarts, reasons=tuple(LOSSES[each] for each in reasons)
    )


@pytest.mark.parametrize(
    ("history", "pause_s", "sentence"),
    [
        ("i", 0, "the first loss costs no time"),
        ("ii", 5, "the second is followed by a short pause"),
        ("h", 0, "lost hardware is as an interruption"),
        ("l", 0, "a launch whose process died is begun anew"),
        ("c", 60, "capacity does not come back within a minute"),
        ("ic", 60, "not after another loss either"),
        ("cccccccc", 300, "the pauses grow up to five minutes"),
        ("cccccccccccc", 300, "and no further"),
        ("rrr", 10, "a command that asks again and again is made to wait"),
        ("rrrrrrr", 160, "each pause is twice the one before"),
        ("i+i+i+i+", 0, "with each newer checkpoint the pauses begin anew"),
        ("i+ii", 10, "one checkpoint, and two losses since"),
        ("ii+ii", 10, "what was lost before a checkpoint does not count"),
        ("iri", 10, "a command that asked for a restart has lost nothing"),
        ("cccci", 40, "no capacity is no lost box"),
    ],
)
def test_a_run_is_restarted(history: str, pause_s: int, sentence: str) -> None:
    step = after_loss(work(), attempts(history), None, START)
    assert step == Restart(START + timedelta(seconds=pause_s)), sentence


def test_three_lost_boxes_without_a_newer_checkpoint_end_a_run_and_tell_what_was_tried() -> None:
    for history in ("iii", "ihi", "i+iii", "ici" + "i", "icihh"):
        step = after_loss(work(), attempts(history), None, START)
        assert isinstance(step, NoRestart), history
        assert isinstance(step.error, FruitlessError), history
        assert (step.error.exit_code, step.error.error_class) == (5, "capacity")
        assert len(step.error.attempts) >= 3
        assert step.error.attempts[0]["region"] == "r1"


@pytest.mark.parametrize(
    ("history", "restarts", "reasons", "sentence"),
    [
        ("i", 0, "ihcrl", "without restarts, none"),
        ("cc", 1, "ihcrl", "no more than that many"),
        ("rc", 1, "ihcrl", "whatever they were for"),
        ("h", 9, "ic", "only after the reasons that were given"),
    ],
)
def test_a_run_is_not_restarted_and_fails_by_its_loss(
    history: str, restarts: int, reasons: str, sentence: str
) -> None:
    assert after_loss(work(restarts, reasons), attempts(history), None, START) == NoRestart(), sentence


@pytest.mark.parametrize(
    ("history", "left_s", "goes_on"),
    [("i", 61, True), ("i", 59, False), ("ic", 100, False), ("c", 1, True), ("l", 1, True)],
)
def test_no_attempt_is_begun_that_ends_before_it_has_booted(history: str, left_s: int, goes_on: bool) -> None:
    """The pause counts: after it, a minute must be left. Before its first box a run has no deadline yet."""
    step = after_loss(work(), attempts(history), START + timedelta(seconds=left_s), START)
    assert isinstance(step, Restart) == goes_on
    assert goes_on or (isinstance(step, NoRestart) and isinstance(step.error, DeadlinePassedError))


OFFERS = ("aws/r1/z1", "aws/r1/z2", "aws/r2/z3", "azure/r1/")


def lost_at(*places: str, loss: Loss = Loss.INTERRUPTION, at: datetime = START) -> list[AttemptRecord]:
    """Attempts that were lost in these places, cloud/region/zone."""
    made: list[AttemptRecord] = []
    for place in places:
        cloud, region, zone = place.split("/")
        where = replace(PLACE, cloud=cloud, region=region, zone=zone)
        made.append(AttemptRecord(box="b", at=at, lost_at=at, loss=loss, message="", place=where))
    return made


@pytest.mark.parametrize(
    ("lost", "left", "sentence"),
    [
        ((), OFFERS, "nothing was lost"),
        (("aws/r1/z1",), OFFERS[1:], "the place of the interruption"),
        (("aws/r1/z1", "aws/r1/z2"), OFFERS[2:], "two places"),
        (("aws/r1/z1", "aws/r1/z1"), OFFERS[2:], "twice in one region: the region"),
        (("azure/r1/zone-2",), OFFERS[:3], "an offer without a zone may be in that zone"),
        (OFFERS, OFFERS, "a place comes back when there is no other"),
        (("aws/r1/z1", "aws/r1/z1", "aws/r2/z3", "azure/r1/"), ("aws/r1/z2",), "a region before its places"),
    ],
)
def test_the_next_attempt_leaves_out_where_a_box_was_lost(
    lost: tuple[str, ...], left: tuple[str, ...], sentence: str
) -> None:
    candidates = [a_candidate(place) for place in OFFERS]
    found = avoided(lost_at(*lost), START + timedelta(minutes=59)).without(candidates)
    assert [f"{each.cloud}/{each.region}/{each.zone}" for each in found] == list(left), sentence


def test_another_type_in_the_place_is_not_left_out() -> None:
    other = a_candidate("aws/r1/z1", instance_type="t.small")
    assert avoided(lost_at("aws/r1/z1"), START).without([other, a_candidate("aws/r2/z3")])[0] == other


def test_a_place_comes_back_after_an_hour_and_once_the_others_had_no_capacity() -> None:
    here, there = a_candidate("aws/r1/z1"), a_candidate("aws/r2/z3")
    lost = lost_at("aws/r1/z1")
    assert avoided(lost, START + timedelta(minutes=60)).without([here, there]) == [here, there]
    refused = [*lost, *lost_at("aws/r2/z3", loss=Loss.CAPACITY)]
    assert avoided(refused, START).without([here, there]) == [here, there]


def test_the_next_attempt_has_what_is_left_of_time_and_budget_and_the_same_limit_of_price() -> None:
    spec = load_spec(None, {"gpu": "T4", "ttl": "6h", "budget": "5", "max_price": "0.40"})
    now = START + timedelta(hours=4, seconds=30, microseconds=1)
    left = spec_left(spec, START + timedelta(hours=6), Decimal("1.25"), now)
    assert (left.ttl, left.budget) == (timedelta(hours=1, minutes=59, seconds=29), Decimal("3.75"))
    assert left.max_price == spec.max_price
    endless = load_spec(None, {"gpu": "T4", "ttl": "none"})
    assert spec_left(endless, None, Decimal(9), now) == endless


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("lived_h", "left_h", "expected_h", "sentence"),
    [
        ((2, 4), 10, 3, "as long as the lost boxes did, on average"),
        ((2, 4), 1.5, 1.5, "but not beyond the deadline"),
        ((0.1,), 10, 1, "an early loss says little: an hour at least"),
        ((), 10, 10, "without a lost box, until the deadline"),
        ((), None, 24, "without a deadline either, a day"),
        ((99,), None, 24, "and no more than that"),
    ],
)
def test_the_next_box_is_expected_to_live(
    lived_h: tuple[float, ...], left_h: float | None, expected_h: float, sentence: str
) -> None:
    lost = [replace(attempts("i")[0], at=START - hours * HOUR) for hours in lived_h]
    expires_at = None if left_h is None else START + left_h * HOUR
    assert hours_ahead([*lost, *attempts("c")], expires_at, START) == Decimal(str(expected_h)), sentence


WAIT_S = 600


@pytest.mark.parametrize(
    ("history", "waited_s", "pause_s", "sentence"),
    [
        ("c", 0, 60, "the first try begins the wait"),
        ("ccc", 100, 60, "each try after it takes no restart"),
        ("c", 570, 30, "the last pause ends with the wait"),
        ("c", 600, None, "and then it is over"),
        ("l", 0, 0, "a launch that died belongs to the wait: its command had not begun"),
        ("icc", 300, 60, "after a loss a new wait begins"),
    ],
)
def test_a_run_that_waits_tries_until_its_wait_is_over(
    history: str, waited_s: int, pause_s: int | None, sentence: str
) -> None:
    waits = replace(work(restarts=1), wait_s=WAIT_S)
    step = after_loss(waits, attempts(history), None, START + timedelta(seconds=waited_s))
    if pause_s is not None:
        assert step == Restart(START + timedelta(seconds=waited_s + pause_s)), sentence
        return
    assert isinstance(step, NoRestart)
    assert isinstance(step.error, WaitOverError)
    assert (step.error.error_class, step.error.exit_code) == ("capacity", 5)


def test_the_rounds_of_a_wait_are_no_restarts_and_other_losses_are() -> None:
    waits = replace(work(restarts=2), wait_s=WAIT_S)
    lost = attempts("ccicc")
    assert restarts_after(waits, lost) == 1
    assert restarts_after(work(), lost) == len(lost), "without --wait each takes one"
    assert end_of_wait(waits, lost) == START + timedelta(seconds=WAIT_S)
    assert end_of_wait(waits, [*lost, AttemptRecord(box="b", at=START)]) is None, "it has a box"
    assert end_of_wait(work(), lost) is None
    assert isinstance(after_loss(waits, attempts("cicci"), None, START), Restart)
    assert after_loss(waits, attempts("iii+i"), None, START) == NoRestart(), "restarts are as many as before"
    told = job_environment("r-1", waits, (*lost, AttemptRecord(box="b", at=START)))
    assert told["GPUCLOUD_RESTARTS"] == "1"


def test_a_run_whose_budget_is_spent_gets_no_other_box() -> None:
    spec = load_spec(None, {"gpu": "T4", "budget": "5"})
    with pytest.raises(PriceError, match="has cost 5 USD") as refused:
        spec_left(spec, None, Decimal(5), START)
    assert refused.value.exit_code == 7


def test_a_run_whose_deadline_is_too_near_gets_no_other_box() -> None:
    spec = load_spec(None, {"gpu": "T4", "ttl": "1h"})
    with pytest.raises(DeadlinePassedError, match="too little is left"):
        spec_left(spec, START + timedelta(seconds=30), Decimal(0), START)


@given(
    budget=st.decimals("0.01", "100000", places=2),
    rate=st.decimals("0.0001", "30000", places=4),
    costs=st.lists(st.decimals("0.000001", "1000", places=6), min_size=1, max_size=4),
    days=st.integers(1, 30),
)
def test_every_restart_has_what_is_left_of_a_budget_whatever_the_currency_and_the_rate(
    budget: Decimal, rate: Decimal, costs: list[Decimal], days: int
) -> None:
    """Also the restart of a restart: each spec is read again as the journal has it."""
    expires_at, spent = START + timedelta(days=days), Decimal(0)
    for number, cost in enumerate(costs):
        spec = load_spec(None, load_spec(None, {"gpu": "T4", "budget": str(budget)}).document())
        spent += cost / rate
        now = START + timedelta(seconds=number, microseconds=number)
        if budget - spent < LEAST_USD:
            with pytest.raises(PriceError):
                spec_left(spec, expires_at, spent, now)
            return
        left = spec_left(spec, expires_at, spent, now)
        assert left.budget is not None
        assert isinstance(left.ttl, timedelta)
        assert 0 <= (budget - spent) - left.budget < LEAST_USD, "never more than is left"
        assert now + left.ttl <= expires_at
        assert load_spec(None, left.document()) == left


def test_a_command_is_told_its_run_and_its_restarts() -> None:
    under_way = AttemptRecord(box="b", at=START)
    told = job_environment("r-1", work(), (*attempts("ic"), under_way))
    assert told == {"GPUCLOUD_RUN_ID": "r-1", "GPUCLOUD_RESTARTS": "2"}


ENDED = START + timedelta(hours=1)


@pytest.mark.parametrize(
    ("box", "fate", "sentence"),
    [
        ({"state": "interrupted", "ended_by": "cloud"}, Loss.INTERRUPTION, "its cloud took it back"),
        ({"state": "deleted", "ended_by": "cloud"}, Loss.INTERRUPTION, "and somebody has cleared it away"),
        (
            {"state": "interrupted", "ended_by": "cloud", "attended": True},
            Loss.INTERRUPTION,
            "while it booted",
        ),
        ({"state": "provisioning", "attended": True}, Loss.LAUNCH, "who launched it has died"),
        ({"state": "ready", "attended": True}, Loss.LAUNCH, "before the command began"),
        ({"state": "deleted", "attended": True}, Loss.LAUNCH, "and somebody has cleared it away"),
        ({"state": "failed"}, Loss.LAUNCH, "or nothing of it was there"),
        ({"state": "deleting", "ended_by": "ttl"}, "deadline", "its guard ended it at the deadline"),
        ({"state": "deleted", "expires_at": ENDED}, "deadline", "or a settlement did"),
        ({"state": "deleting", "ended_by": "itself"}, "box_lost", "idle, or switched off from inside"),
        ({"state": "deleted"}, "cancelled", "a user deleted it"),
        ({"state": "stopped"}, None, "a user stopped it, and may start it again"),
        ({"state": "starting"}, None, "or is about to"),
    ],
)
def test_the_fate_of_an_attempt_follows_from_the_end_of_its_box(
    box: dict[str, Any], fate: Loss | str | None, sentence: str
) -> None:
    states = {
        "state": BoxState(box["state"]),
        "ended_at": ENDED if box["state"] in {"deleted", "failed"} else None,
    }
    ended_by = EndedBy(box["ended_by"]) if "ended_by" in box else None
    found = fate_of(a_box(**{**box, **states, "ended_by": ended_by}))
    if isinstance(fate, str) and not isinstance(fate, Loss):
        assert found is not None, sentence
        assert found.ended is not None, sentence
        assert found.ended.failure is not None, sentence
        assert found.ended.failure.error_class == fate, sentence
        assert (found.ended.state is RunState.CANCELLED) == (fate == "cancelled"), sentence
    else:
        assert (found and found.loss) == fate, sentence


RUNS = Node(instance_id="i", state=State.RUNNING)
ENDED_ITSELF = Node(instance_id="i", state=State.GONE)
TAKEN_BACK = Node(instance_id="i", state=State.GONE, taken_back=True)


@pytest.mark.parametrize(
    ("nodes", "first_only", "fate", "sentence"),
    [
        ((RUNS, RUNS), False, None, "all are there"),
        (
            (RUNS, TAKEN_BACK),
            False,
            "node 1 of box 'box-1' was interrupted by its cloud",
            "one is lost: all are",
        ),
        ((RUNS, TAKEN_BACK), True, None, "the command is on the first one"),
        ((TAKEN_BACK, RUNS), True, "node 0 of box 'box-1' was interrupted by its cloud", "which is lost"),
        (
            (ENDED_ITSELF, ENDED_ITSELF, RUNS),
            False,
            "nodes 0, 1 of box 'box-1' ended before",
            "nobody took them",
        ),
    ],
)
def test_the_fate_of_an_attempt_follows_from_the_end_of_a_node_with_the_command(
    nodes: tuple[Node, ...], first_only: bool, fate: str | None, sentence: str
) -> None:
    found = fate_of_nodes(a_box(nodes=nodes), Work(spec={}, command="x", first_node_only=first_only))
    assert (found is None) == (fate is None), sentence
    if found is not None and fate is not None:
        words = found.message or (found.ended and found.ended.failure and found.ended.failure.message) or ""
        assert words.startswith(fate), sentence
        assert (found.loss is Loss.INTERRUPTION) == any(node.taken_back for node in nodes), sentence

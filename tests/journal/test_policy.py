"""The policy in the journal: of all who share it, looked at in the transaction that plans a box."""

from __future__ import annotations

import threading
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud.errors import PolicyError
from gpucloud.journal.events import Seen, StateChanged
from gpucloud.journal.facts import BoughtOffer, Ceiling, Facts, Place, Wanted
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.policy import Rules
from gpucloud.journal.records import Box
from gpucloud.journal.store import Journal
from gpucloud.journal.verification import copy, verify
from gpucloud.purchase.policy_check import PolicyCheck, StartCheck
from gpucloud_pricing import Market
from gpucloud_pricing.purchases import Purchase
from tests.journal.test_store import NOW, a_lease, clock
from tests.journals import open_journal

MARKET = Market.load()
RULES = Rules(
    clouds=("aws", "!azure"),
    gpus=("T4",),
    purchase=("spot",),
    max_price=Decimal("1.50"),
    boxes={"*": 3, "boss": 20},
    per_hour={"*": Decimal("3.5")},
    tags=("team",),
    ttl_s=43200,
    checkpoint_to=("s3://lab",),
)

BEFORE_A_START = (
    BoxState.PROVISIONING,
    BoxState.BOOTSTRAPPING,
    BoxState.READY,
    BoxState.STOPPING,
    BoxState.STOPPED,
)


def plan(journal: Journal, name: str, owner: str = "me", *, hours: float = 10, **spec: object) -> Box:
    """At one dollar per hour."""
    return journal.plan(
        Box,
        id=f"b-{name}",
        name=name,
        owner=owner,
        run_id=None,
        op="op-1",
        expires_at=NOW + timedelta(hours=hours),
        facts=Facts(
            wanted=Wanted(spec={"tags": {"team": "a"}, **spec}), ceiling=Ceiling(usd_per_hour=Decimal(1))
        ),
        lease=a_lease(),
        forbids=PolicyCheck(MARKET, clock, ()),
    )


@pytest.mark.parametrize("rules", [Rules(boxes={"*": 3}), Rules(per_hour={"*": Decimal("3.5")})])
def test_of_twenty_launches_at_once_as_many_as_the_policy_allows_are_planned(
    tmp_path: Path, rules: Rules
) -> None:
    """Of each owner by itself."""
    open_journal(tmp_path, clock).apply_policy(rules, by="me")
    plan(open_journal(tmp_path, clock), "other", owner="somebody-else")
    told: list[str] = []
    ready = threading.Barrier(20)

    def launch(number: int) -> None:
        journal = open_journal(tmp_path, clock)
        ready.wait()
        try:
            told.append(plan(journal, f"x{number}").name)
        except PolicyError as error:
            told.append(error.rules[0])

    threads = [threading.Thread(target=launch, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [each for each in told if each in {"boxes: 3", "per_hour: 3.5"}]
    journal = open_journal(tmp_path, clock)
    assert (len(journal.boxes(owner="me", over=True)), len(refused), len(told)) == (3, 17, 20)


def test_of_two_stopped_boxes_that_start_at_once_the_second_sees_what_the_first_will_cost(
    tmp_path: Path,
) -> None:
    journal = open_journal(tmp_path, clock)
    journal.apply_policy(Rules(boxes={"*": 2}, per_hour={"*": Decimal("1.5")}), by="me")
    started = StateChanged(state=BoxState.STARTING, facts=Facts(ceiling=Ceiling(usd_per_hour=Decimal(1))))
    check = StartCheck(MARKET, clock, Decimal(1), NOW + timedelta(hours=1))
    facts = Facts(
        place=Place(cloud="aws", region="us-east-1"),
        offer=BoughtOffer(instance_type="g4dn.xlarge", purchase=Purchase.ON_DEMAND),
    )
    for name in ("a", "b"):
        box = plan(journal, name)
        journal.write(box, Seen(facts=facts))
        for state in BEFORE_A_START:
            journal.write(box, StateChanged(state=state))
    journal.write(journal.box("b-a"), started, forbids=check)
    with pytest.raises(PolicyError, match=r"`per_hour: 1\.5` forbids a box at up to \$1\.0000"):
        journal.write(journal.box("b-b"), started, forbids=check)
    assert [box.state for box in journal.boxes(owner="me")] == [BoxState.STARTING, BoxState.STOPPED]


def test_a_box_that_has_ended_makes_room_and_an_owner_may_have_a_limit_of_its_own(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, clock)
    journal.apply_policy(Rules(boxes={"*": 1, "boss": 2}), by="me")
    first = plan(journal, "a")
    with pytest.raises(PolicyError, match=r'`boxes: {"\*": 1, boss: 2}` forbids one more box of \'me\''):
        plan(journal, "b")
    journal.write(first, StateChanged(state=BoxState.FAILED))
    plan(journal, "b")
    plan(journal, "c", owner="boss")
    plan(journal, "d", owner="boss")
    with pytest.raises(PolicyError):
        plan(journal, "e", owner="boss")


def test_what_was_forbidden_since_the_plan_is_refused_as_the_box_is_planned(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, clock)
    plan(journal, "free", hours=99)
    journal.apply_policy(RULES, by="me")
    for refused, words in (
        ({"hours": 12.1}, "ttl: 12h"),
        ({"tags": {}}, "tags: [team]"),
        ({"checkpoint_to": "s3://lab-2/x"}, "checkpoint_to: [s3://lab]"),
    ):
        with pytest.raises(PolicyError) as caught:
            plan(journal, "x", **refused)
        assert caught.value.rules == (words,)
    assert [box.name for box in journal.boxes(owner="me")] == ["free"]
    plan(journal, "x", hours=12, checkpoint_to="s3://lab/x")


def test_a_policy_is_replaced_lifted_copied_and_verified(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, clock)
    assert journal.policy() is None
    for rules in (Rules(), RULES):
        journal.apply_policy(rules, by="you")
    policy = journal.policy()
    assert policy is not None
    assert (policy.rules, policy.by, policy.at) == (RULES, "you", NOW)
    (tmp_path / "other").mkdir()
    other = open_journal(tmp_path / "other", clock)
    assert (copy(journal, other), copy(journal, other)) == (2, 0)
    assert verify(other).differences == ()
    assert (other.policy(), other.budgets()) == (policy, [])
    assert verify(other).differences == ()
    other.apply_policy(Rules(), by="you")
    assert other.rules() == Rules()

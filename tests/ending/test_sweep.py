"""What a sweep takes for unwanted: one sentence per case; and that nothing else is ever ended."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucloud.costs.resource_prices import price_of
from gpucloud.ending.discovery import EVERYWHERE, DiscoveryResult, begin, by_box, finish
from gpucloud.ending.recover import adopt_box, state_of
from gpucloud.ending.sweep import OLD_ENOUGH, Find, SweepReason, end, judge, look, look_again
from gpucloud.errors import CleanupIncompleteError
from gpucloud.journal.events import StateChanged
from gpucloud.journal.facts import Place
from gpucloud.journal.lifecycle import BoxState, Lease, new_id
from gpucloud.journal.records import Box, Holding
from gpucloud.journal.verification import verify
from gpucloud.purchase.failover import launch
from gpucloud.resources import BadTags, Resource, ResourceKind, Search, State, Tags, UnreadableRegion, rfc3339
from gpucloud_pricing import Market
from gpucloud_pricing.purchases import Purchase
from tests.bench import Bench
from tests.builders import START, Clock, a_box, a_machine, a_ref, a_resource, a_volume, some_tags
from tests.journals import lose_journal
from tests.memory import BY_NAME_LONG_RUNNING, TOKEN_ATOMIC, VANISHING, MemoryProvider, Temperament

OWNER = "u-tester"
NOW = START + timedelta(hours=5)
HERE = Lease(host="h", boot="b", pid=1, started=1, beat=NOW)
PLACE = Place(cloud="aws", region="us-east-1")
AN_HOUR, A_MINUTE = timedelta(hours=1), timedelta(minutes=1)
LATER, EARLIER = rfc3339(NOW + AN_HOUR), rfc3339(NOW - A_MINUTE)


def found(
    age: timedelta | None = AN_HOUR,
    *,
    kind: ResourceKind = ResourceKind.DISK,
    region: str = "us-east-1",
    **tags: str,
) -> Resource:
    """A thing that a sweep comes upon."""
    return a_resource(
        ref=a_ref(kind=kind, region=region),
        tags=some_tags(**{"owner": OWNER, "box": "b-x", "expires": LATER, **tags}),
        created_at=None if age is None else NOW - age,
    )


def known(state: BoxState, made: Callable[..., Holding] = a_box, **changes: Any) -> Any:
    """The journal's box of the same id, or volume."""
    values: dict[str, Any] = {"id": "b-x", "owner": OWNER, "state": state, "expires_at": NOW + AN_HOUR}
    return made(**{**values, "place": PLACE, **changes})


def stopped(*, billed: bool = False, **tags: str) -> Resource:
    """A stopped machine that a sweep comes upon."""
    five = some_tags(**{"owner": OWNER, "box": "b-x", "expires": LATER, **tags})
    return a_machine(tags=five, created_at=NOW - AN_HOUR, state=State.STOPPED, billed=billed)


def volume(expires: str = LATER) -> Resource:
    """A volume that a sweep comes upon."""
    shown = found(expires=expires)
    assert isinstance(shown.tags, Tags)
    return replace(shown, tags=replace(shown.tags, volume="data", retain=True))


CASES: list[tuple[str, Resource, Any, SweepReason | None]] = [
    # --- of a box that the journal does not know
    ("an old untracked resource is a leak", found(), None, SweepReason.NOT_IN_JOURNAL),
    ("a young one may be about to be written down", found(A_MINUTE), None, SweepReason.YOUNG),
    ("the age that counts is reached exactly", found(OLD_ENOUGH), None, SweepReason.NOT_IN_JOURNAL),
    (
        "a young one past its end is not wanted all the same",
        found(A_MINUTE, expires=EARLIER),
        None,
        SweepReason.PAST_DEADLINE,
    ),
    ("one without an end is judged by its age", found(expires="none"), None, SweepReason.NOT_IN_JOURNAL),
    (
        "one of unknown age and a telling id",
        found(None, box=new_id("b-", NOW - AN_HOUR, b"0" * 10)),
        None,
        SweepReason.NOT_IN_JOURNAL,
    ),
    (
        "one of unknown age and a young id",
        found(None, box=new_id("b-", NOW, b"0" * 10)),
        None,
        SweepReason.YOUNG,
    ),
    (
        "an id from the future is young",
        found(None, box=new_id("b-", NOW + 48 * AN_HOUR, b"0" * 10)),
        None,
        SweepReason.YOUNG,
    ),
    ("one that nothing tells the age of", found(None), None, SweepReason.NOT_IN_JOURNAL),
    (
        "a network costs nothing and is a remain all the same",
        found(kind=ResourceKind.NETWORK),
        None,
        SweepReason.NOT_IN_JOURNAL,
    ),
    ("a stopped machine is kept until its deadline, whoever has its journal", stopped(), None, None),
    ("a stopped machine past its deadline is not", stopped(expires=EARLIER), None, SweepReason.PAST_DEADLINE),
    ("one that is switched off and billed is a leak", stopped(billed=True), None, SweepReason.NOT_IN_JOURNAL),
    ("a volume is kept until its deadline, whoever has its journal", volume(), None, None),
    (
        "a volume past its deadline is not",
        volume(expires=EARLIER),
        None,
        SweepReason.PAST_DEADLINE,
    ),
    # --- of others
    ("another owner's is left alone", found(owner="u-other"), None, SweepReason.OTHER_OWNER),
    (
        "another owner's past its end too",
        found(owner="u-other", expires=EARLIER),
        None,
        SweepReason.OTHER_OWNER,
    ),
    ("an owner that only begins alike is another", found(owner=f"{OWNER}2"), None, SweepReason.OTHER_OWNER),
    ("an owner in capitals is another", found(owner=OWNER.upper()), None, SweepReason.OTHER_OWNER),
    (
        "a copied box tag does not make it ours",
        found(owner="u-other"),
        known(BoxState.DELETED),
        SweepReason.OTHER_OWNER,
    ),
    (
        "another owner's box in the same journal is accounted for",
        found(owner="u-other"),
        known(BoxState.READY, owner="u-other"),
        None,
    ),
    (
        "once past its deadline it is not",
        found(owner="u-other"),
        known(BoxState.READY, owner="u-other", expires_at=NOW - A_MINUTE),
        SweepReason.OTHER_OWNER,
    ),
    ("what carries half of our tags is nobody's", replace(found(), tags=None), None, SweepReason.OTHER_OWNER),
    # --- of a box that the journal knows
    ("a living box's is wanted", found(), known(BoxState.READY), None),
    (
        "a volume that a box holds is not past its deadline",
        volume(expires=EARLIER),
        known(BoxState.READY, a_volume, expires_at=NOW - A_MINUTE, holder="b-y"),
        None,
    ),
    (
        "a volume that nobody holds is",
        volume(expires=EARLIER),
        known(BoxState.READY, a_volume, expires_at=NOW - A_MINUTE),
        SweepReason.PAST_DEADLINE,
    ),
    ("a stopped box's is wanted", found(), known(BoxState.STOPPED), None),
    ("so is one's whose stop was cut off", found(), known(BoxState.STOPPING), None),
    (
        "a stopped box's past its deadline is not",
        found(expires=EARLIER),
        known(BoxState.STOPPED, expires_at=NOW - A_MINUTE),
        SweepReason.PAST_DEADLINE,
    ),
    (
        "a living box without an end is wanted",
        found(expires="none"),
        known(BoxState.READY, expires_at=None),
        None,
    ),
    (
        "a box whose end was moved is judged by the journal",
        found(expires=EARLIER),
        known(BoxState.READY),
        None,
    ),
    (
        "a box past its end",
        found(),
        known(BoxState.READY, expires_at=NOW - A_MINUTE),
        SweepReason.PAST_DEADLINE,
    ),
    (
        "a box past its end that somebody works on",
        found(),
        known(BoxState.READY, expires_at=NOW - A_MINUTE, lease=HERE),
        None,
    ),
    (
        "a box in another region than its machine: an attempt",
        found(region="eu-west-1"),
        known(BoxState.READY),
        SweepReason.REMAINS,
    ),
    ("a launch under way is left alone", found(), known(BoxState.PROVISIONING, lease=HERE), None),
    ("its attempts elsewhere too", found(region="eu-west-1"), known(BoxState.PROVISIONING, lease=HERE), None),
    ("a launch that died", found(), known(BoxState.PROVISIONING), SweepReason.REMAINS),
    (
        "one that died before it had a place",
        found(),
        known(BoxState.PLANNED, place=None),
        SweepReason.REMAINS,
    ),
    ("one that died while it booted", found(), known(BoxState.BOOTSTRAPPING), SweepReason.REMAINS),
    ("a box that its cloud took back", found(), known(BoxState.INTERRUPTED), SweepReason.REMAINS),
    ("a deletion that was cut off", found(), known(BoxState.DELETING), SweepReason.REMAINS),
    ("a deletion under way", found(), known(BoxState.DELETING, lease=HERE), None),
    ("what is left of a deleted box", found(), known(BoxState.DELETED), SweepReason.REMAINS),
    (
        "what is left of a failed launch, however young",
        found(A_MINUTE),
        known(BoxState.FAILED),
        SweepReason.REMAINS,
    ),
    (
        "the box of a run under way",
        found(),
        known(BoxState.READY, lease=HERE, attended=True),
        None,
    ),
    (
        "the box of a run that died",
        found(),
        known(BoxState.READY, attended=True),
        SweepReason.REMAINS,
    ),
    (
        "a box that a run has left on purpose",
        found(),
        known(BoxState.READY, attended=False),
        None,
    ),
]


def test_a_thing_of_ours_whose_tags_gpucloud_never_wrote_is_listed_and_left_alone() -> None:
    """However old, and whatever the journal says of a box that its tags name."""
    ours, theirs = (
        a_machine(tags=BadTags(shown={"owner": owner, "box": "b-x"}, wrong="gpucloud:expires is 'soon'"))
        for owner in (OWNER, "u-other")
    )
    discovery = DiscoveryResult(
        resources=(), unread=(), left_out={}, clocks={"aws": NOW}, suspects=(ours, theirs)
    )
    boxes = {"b-x": known(BoxState.DELETED)}
    finds = judge(discovery, boxes, mine=Search(owner=OWNER), older_than=timedelta(), may_take=lambda _: True)
    assert {find.resource.ref: (find.reason, find.unwanted) for find in finds} == {
        ours.ref: (SweepReason.BAD_TAGS, False),
        theirs.ref: (SweepReason.OTHER_OWNER, False),
    }


def judged(
    resources: list[Resource], *boxes: Any, owner: str = OWNER, older_than: timedelta = OLD_ENOUGH
) -> list[Find]:
    discovery = DiscoveryResult(resources=tuple(resources), unread=(), left_out={}, clocks={"aws": NOW})
    journal = {box.id: box for box in boxes if box is not None}
    return judge(
        discovery,
        journal,
        mine=Search(owner=owner),
        older_than=older_than,
        may_take=lambda lease: lease is None,
    )


@pytest.mark.parametrize(
    ("resource", "box", "reason"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_what_is_unwanted(resource: Resource, box: Any, reason: SweepReason | None) -> None:
    assert [find.reason for find in judged([resource], box)] == ([] if reason is None else [reason])


def test_a_box_is_as_young_as_its_youngest_thing() -> None:
    """A launch that goes from place to place makes new things for a long time."""
    assert {find.reason for find in judged([found(), found(A_MINUTE)])} == {SweepReason.YOUNG}


def test_any_age_is_old_enough_where_that_is_said() -> None:
    for age in (timedelta(), -A_MINUTE):  # clouds tell their time to the second, and ages to the millisecond
        assert [find.reason for find in judged([found(age)], older_than=timedelta())] == [
            SweepReason.NOT_IN_JOURNAL
        ]


@pytest.mark.parametrize(
    ("resource", "state"),
    [
        (a_machine(tags=some_tags(expires=LATER)), BoxState.READY),
        (a_machine(tags=some_tags(expires="none")), BoxState.READY),
        (a_machine(tags=some_tags(expires=EARLIER)), BoxState.DELETING),
        (found(), BoxState.DELETING),
        (found(A_MINUTE), None),  # lists lag: its machine may be shown in a moment
        (found(A_MINUTE, expires=EARLIER), BoxState.DELETING),
        (found(None), BoxState.DELETING),
    ],
)
def test_what_a_box_is_that_is_found(resource: Resource, state: BoxState | None) -> None:
    assert state_of([resource], NOW) is state


def test_another_owner_who_is_named_takes_the_place_of_ours() -> None:
    ours, theirs = found(), found(owner="u-other", box="b-y")
    finds = judged([ours, theirs], owner="u-other")
    assert {find.resource.ref: find.unwanted for find in finds} == {ours.ref: False, theirs.ref: True}


def test_ages_and_ends_go_by_the_clock_of_the_cloud() -> None:
    """Whatever this machine believes: the same thing is young in one cloud and old in another."""
    resources = tuple(
        replace(found(), ref=a_ref(cloud=cloud, kind=ResourceKind.DISK)) for cloud in ("aws", "azure")
    )
    clocks = {"aws": NOW, "azure": NOW - AN_HOUR}
    discovery = DiscoveryResult(resources=resources, unread=(), left_out={}, clocks=clocks)
    finds = judge(discovery, {}, mine=Search(owner=OWNER), older_than=OLD_ENOUGH, may_take=lambda _: True)
    assert {find.resource.ref.cloud: find.reason for find in finds} == {
        "aws": SweepReason.NOT_IN_JOURNAL,
        "azure": SweepReason.YOUNG,
    }


# --- with clouds in memory

TEMPERAMENTS = [TOKEN_ATOMIC, BY_NAME_LONG_RUNNING, VANISHING]
MARKET = Market.load()


@pytest.fixture(params=TEMPERAMENTS, ids=[t.name for t in TEMPERAMENTS])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    temperament: Temperament = request.param
    clock = Clock()
    return Bench(tmp_path, clock, [MemoryProvider.named("aws", temperament=temperament, clock=clock)])


def forget_everything(bench: Bench) -> None:
    lose_journal(bench.folder)


def sweep(bench: Bench, *, older_than: timedelta = OLD_ENOUGH, owner: str = OWNER) -> list[Find]:
    """A sweep as the command does it; what was ended."""
    context = bench.context()
    first = look(context, owner=owner, older_than=older_than)
    again = look_again(context, first, owner=owner, older_than=older_than)
    assert end(context, again.finds, MARKET) == []
    return list(again.finds)


def swept_until_shown(bench: Bench) -> list[str]:
    """What several sweeps end: lists lag behind what is made."""
    return [find.resource.ref.id for _ in range(4) for find in sweep(bench)]


def live(bench: Bench, box: str = "b-1", **changes: Any) -> None:
    """A box that its owner uses."""
    context = bench.context()
    made = launch(context, bench.purchase(box=box, name=box, **changes))
    context.journal.write(made, StateChanged(state=BoxState.READY))
    context.journal.release(made)


def test_a_lost_journal_is_no_reason_to_lose_a_box(bench: Bench) -> None:
    live(bench)
    forget_everything(bench)
    assert sweep(bench) == [], "it is young: whoever launches it may be about to write it down"
    bench.clock.sleep(OLD_ENOUGH.total_seconds())
    assert sweep(bench)
    assert bench.billed() == []
    box = bench.context().journal.box("b-1")
    assert (box.state, box.recovered) == (BoxState.DELETED, True)


def test_a_living_box_survives_every_sweep(bench: Bench) -> None:
    live(bench)
    billed = bench.billed()
    bench.clock.sleep(3600)
    assert sweep(bench, older_than=timedelta()) == []
    assert bench.billed() == billed


def test_a_box_that_was_found_is_in_the_journal_before_anything_of_it_is_ended(bench: Bench) -> None:
    """Cut off in the middle, it is owed like any other."""
    live(bench)
    forget_everything(bench)
    bench.clock.sleep(3600)
    bench.providers[0].cloud.deny("delete")
    context = bench.context()
    first = look(context, owner=OWNER, older_than=OLD_ENOUGH)
    [trouble] = end(context, list(first.finds), MARKET)
    assert isinstance(trouble, CleanupIncompleteError)
    assert [box.state for box in bench.context().journal.boxes(owner=OWNER)] == [BoxState.DELETING]
    bench.providers[0].cloud.denied.clear()
    sweep(bench)
    assert bench.billed() == []


def test_what_is_taken_into_a_journal_between_the_looks_is_left_alone(bench: Bench) -> None:
    live(bench)
    forget_everything(bench)
    bench.clock.sleep(3600)
    context = bench.context()
    first = look(context, owner=OWNER, older_than=OLD_ENOUGH)
    [(_, resources)] = by_box(resource for resource in first.discovery.resources)
    other_shell = bench.context()
    assert adopt_box(other_shell, resources, BoxState.READY, MARKET)
    assert look_again(context, first, owner=OWNER, older_than=OLD_ENOUGH).finds == ()


def test_a_region_that_cannot_be_read_is_said_and_nothing_is_concluded_of_it(bench: Bench) -> None:
    live(bench)
    forget_everything(bench)
    bench.clock.sleep(3600)
    bench.providers[0].cloud.deny("list", "us-east-1")
    swept = look(bench.context(), owner=OWNER, older_than=timedelta())
    assert swept.finds == ()
    assert [region.region for region in swept.discovery.unread] == ["us-east-1"]


def test_a_cloud_that_does_not_answer_is_unread_where_something_was_there(bench: Bench) -> None:
    live(bench)
    bench.providers[0].cloud.deny("account")
    discovery = finish(bench.context(), begin(bench.context(), Search()))
    assert [(each.cloud, each.region) for each in discovery.unread] == [("aws", EVERYWHERE)]
    assert isinstance(discovery.unread[0], UnreadableRegion)


def test_a_stray_of_a_living_box_is_ended_and_the_box_is_not(bench: Bench) -> None:
    """Something that an attempt in another region has left."""
    live(bench)
    cloud = bench.providers[0].cloud
    kept = sorted(bench.billed())
    tags = some_tags(owner=OWNER, box="b-1").as_dict()
    stray = cloud.add(a_ref(region="us-west-2", kind=ResourceKind.DISK, id="vol-stray"), "stray", tags)
    cloud.bill(stray, Decimal("0.01"))
    bench.clock.sleep(3600)
    assert swept_until_shown(bench) == ["vol-stray"]
    assert sorted(bench.billed()) == kept
    assert bench.context().journal.box("b-1").state is BoxState.READY


def test_what_is_left_of_a_box_that_is_over_is_ended(bench: Bench) -> None:
    live(bench)
    forget_everything(bench)
    bench.clock.sleep(3600)
    sweep(bench)
    cloud = bench.providers[0].cloud
    tags = some_tags(owner=OWNER, box="b-1").as_dict()
    cloud.bill(cloud.add(a_ref(kind=ResourceKind.DISK, id="vol-late"), "late", tags), Decimal("0.01"))
    bench.clock.sleep(60)
    assert swept_until_shown(bench) == ["vol-late"]
    assert bench.billed() == []


def test_a_found_box_is_as_it_was(bench: Bench) -> None:
    """Name, run, end, place, price: from its tags, its machine and the market."""
    live(bench, "b-named", run_id="ci-7")
    before = bench.context().journal.box("b-named")
    forget_everything(bench)
    context = bench.context()
    discovery = finish(context, begin(context, Search(owner=OWNER)))
    [(owner, resources)] = by_box(discovery.resources)
    box = adopt_box(context, resources, BoxState.READY, MARKET)
    assert isinstance(box, Box)
    assert (owner, box.name, box.run_id, box.op) == (OWNER, before.name, "ci-7", before.op)
    assert box.expires_at == before.expires_at
    assert (box.place, box.nodes) == (before.place, before.nodes)
    assert box.offer is not None
    assert before.offer is not None
    assert box.offer.gpu is not None
    assert (box.offer.instance_type, box.offer.purchase) == (
        before.offer.instance_type,
        before.offer.purchase,
    )
    assert (box.offer.gpu.model, box.currency) == ("T4", "USD")
    assert {row.ref for row in context.journal.resources(box.id)} >= {resource.ref for resource in resources}
    assert adopt_box(context, resources, BoxState.READY, MARKET) is None, "it is known now"


def test_two_found_boxes_of_one_name_get_two(bench: Bench) -> None:
    live(bench, "b-1")
    context = bench.context()
    discovery = finish(context, begin(context, Search(owner=OWNER)))
    [(_, resources)] = by_box(discovery.resources)
    tags = resources[0].tags
    assert isinstance(tags, Tags)
    others = [replace(resource, tags=replace(tags, box="b-other")) for resource in resources]
    box = adopt_box(context, others, BoxState.DELETING, MARKET)
    assert box is not None
    assert box.name == "b-1-2"
    assert verify(context.journal).differences == ()
    assert context.journal.box("b-other") == box


def test_a_thing_that_nobody_can_name_is_called_by_its_id(bench: Bench) -> None:
    box = adopt_box(bench.context(), [found(box="b-0123456789ABCDEF")], BoxState.DELETING, MARKET)
    assert box is not None
    assert box.name == "found-89abcdef"


SALTED = 2_000


def test_no_sweep_ever_ends_what_is_not_unwanted() -> None:
    """Two thousand ledgers, salted with other owners' and look-alike things, by chance; the seed is told."""
    seed = random.randrange(1 << 32)  # noqa: S311  (a new one each time, and told)
    chance = random.Random(seed)  # noqa: S311
    for number in range(SALTED):
        resources, boxes, wanted = _salted(chance)
        ended = {find.resource.ref for find in judged(resources, *boxes) if find.unwanted}
        assert not ended & wanted, f"seed {seed}, ledger {number}"


def _salted(chance: random.Random) -> tuple[list[Resource], list[Any], set[Any]]:
    """Some of everything: things, what the journal knows, and what must survive."""
    resources: list[Resource] = []
    boxes: list[Any] = []
    wanted: set[Any] = set()
    for number in range(chance.randint(1, 12)):
        owner = chance.choice([OWNER, OWNER, "u-other", f"{OWNER}x", OWNER[:-1], "U-TESTER"])
        box = f"b-{number}"
        age = chance.choice([timedelta(), A_MINUTE, OLD_ENOUGH - timedelta(seconds=1), AN_HOUR])
        expired = chance.random() < 0.2
        mine = [
            found(age, kind=kind, owner=owner, box=box, expires=EARLIER if expired else LATER)
            for kind in chance.sample(
                [ResourceKind.DISK, ResourceKind.NIC, ResourceKind.GROUP, ResourceKind.ADDRESS],
                chance.randint(1, 4),
            )
        ]
        resources += mine
        state = chance.choice([None, *BoxState])
        lease = chance.choice([None, HERE])
        if state is not None:
            end = NOW + chance.choice([AN_HOUR, -A_MINUTE])
            boxes.append(known(state, id=box, owner=owner, lease=lease, expires_at=end))
        survives = owner != OWNER
        if state is None:
            survives = survives or (age < OLD_ENOUGH and not expired)
        elif state not in {BoxState.DELETED, BoxState.FAILED}:
            free_and_over = lease is None and (state is not BoxState.READY or boxes[-1].expires_at < NOW)
            survives = survives or not free_and_over
        if survives:
            wanted |= {resource.ref for resource in mine}
    return resources, boxes, wanted


# --- what it costs


@pytest.mark.parametrize(
    ("resource", "price"),
    [
        (a_machine(ref=a_ref(cloud="aws"), instance_type="g4dn.xlarge"), "0.526 USD"),
        (a_machine(ref=a_ref(cloud="aws"), instance_type="x.y"), "no price of x.y in us-east-1 is known"),
        (a_resource(ref=a_ref(kind=ResourceKind.DISK), size_gib=100), "0.010959 USD"),
        (
            a_resource(ref=a_ref(kind=ResourceKind.DISK, cloud="azure", region="eastus"), size_gib=100),
            "0.027 USD",
        ),
        (a_resource(ref=a_ref(kind=ResourceKind.DISK)), "the cloud's list does not show its size"),
        (a_resource(ref=a_ref(kind=ResourceKind.ADDRESS)), "0.005 USD"),
        (a_resource(ref=a_ref(kind=ResourceKind.GROUP)), "0 USD"),
        (a_resource(ref=a_ref(kind=ResourceKind.SPOT_REQUEST)), "0 USD"),
        (
            a_resource(ref=a_ref(kind=ResourceKind.SNAPSHOT)),
            "the cloud's list does not show how much data it holds",
        ),
        (
            a_resource(ref=a_ref(kind=ResourceKind.ADDRESS, cloud="nowhere")),
            "no address price is known for nowhere us-east-1",
        ),
    ],
)
def test_what_a_found_thing_costs_per_hour(resource: Resource, price: str) -> None:
    found = price_of(MARKET, resource)
    assert (found if isinstance(found, str) else f"{found.amount.normalize():f} {found.currency}") == price


def test_a_spot_machine_costs_the_price_of_its_zone() -> None:
    spot = a_machine(purchase=Purchase.SPOT, zone="use1-az4", instance_type="g4dn.xlarge")
    price = price_of(MARKET, spot)
    assert not isinstance(price, str)
    assert price.amount < Decimal("0.526")

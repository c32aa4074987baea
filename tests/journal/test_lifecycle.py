"""The life of a box: the recovery table, ids, leases, costs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gpucloud.journal.lifecycle import (
    CONSISTENCY_WINDOW,
    LEASE_TIMEOUT,
    BoxState,
    Claim,
    Lease,
    Phase,
    RecoveryStep,
    Sighting,
    claim_on,
    may_become,
    new_id,
    reconcile,
)
from gpucloud.resources import rfc3339

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
YOUNG = timedelta(minutes=1)
OLD = CONSISTENCY_WINDOW

RECOVERY = [
    (Phase.CREATE_OPEN, Sighting.THERE, YOUNG, RecoveryStep.ADOPT, "what a lost answer made is written down"),
    (Phase.CREATE_OPEN, Sighting.THERE, OLD, RecoveryStep.ADOPT, "however late it is found"),
    (Phase.CREATE_OPEN, Sighting.ENDING, YOUNG, RecoveryStep.ADOPT, "even when it is ending already"),
    (Phase.CREATE_OPEN, Sighting.TERMINAL, YOUNG, RecoveryStep.CLOSE, "what ended by itself is proof enough"),
    (
        Phase.CREATE_OPEN,
        Sighting.ABSENT,
        YOUNG,
        RecoveryStep.WAIT,
        "an empty list proves nothing while it may lag",
    ),
    (
        Phase.CREATE_OPEN,
        Sighting.ABSENT,
        OLD,
        RecoveryStep.CLOSE,
        "after the window nothing will appear any more",
    ),
    (
        Phase.CREATE_OPEN,
        Sighting.UNREADABLE,
        OLD,
        RecoveryStep.WAIT,
        "a region that cannot be read proves nothing, ever",
    ),
    (Phase.MADE, Sighting.THERE, YOUNG, RecoveryStep.DELETE, "what is not wanted is deleted"),
    (Phase.MADE, Sighting.ENDING, YOUNG, RecoveryStep.DELETE, "asking again does no harm"),
    (Phase.MADE, Sighting.ABSENT, YOUNG, RecoveryStep.DELETE, "an id that is not shown yet is deleted by id"),
    (Phase.MADE, Sighting.ABSENT, OLD, RecoveryStep.DELETE, "absence alone never closes what was made"),
    (Phase.MADE, Sighting.TERMINAL, YOUNG, RecoveryStep.CLOSE, "the cloud says itself that it is over"),
    (Phase.MADE, Sighting.UNREADABLE, YOUNG, RecoveryStep.WAIT, "nothing is concluded blind"),
    (
        Phase.DELETE_ASKED,
        Sighting.THERE,
        YOUNG,
        RecoveryStep.DELETE,
        "an ignored deletion is asked for again",
    ),
    (Phase.DELETE_ASKED, Sighting.ENDING, YOUNG, RecoveryStep.WAIT, "it is on its way"),
    (
        Phase.DELETE_ASKED,
        Sighting.ENDING,
        OLD,
        RecoveryStep.DELETE,
        "a deletion that hangs is asked for again",
    ),
    (Phase.DELETE_ASKED, Sighting.ABSENT, YOUNG, RecoveryStep.LOOK_AGAIN, "gone once is looked at once more"),
    (Phase.DELETE_ASKED, Sighting.TERMINAL, YOUNG, RecoveryStep.CLOSE, "the terminal state is proof"),
    (Phase.DELETE_ASKED, Sighting.UNREADABLE, OLD, RecoveryStep.WAIT, "still owed"),
    (Phase.GONE_ONCE, Sighting.ABSENT, YOUNG, RecoveryStep.WAIT, "the second look comes after the window"),
    (Phase.GONE_ONCE, Sighting.ABSENT, OLD, RecoveryStep.CLOSE, "absent twice, a window apart"),
    (Phase.GONE_ONCE, Sighting.THERE, OLD, RecoveryStep.DELETE, "it came back: the list had lagged"),
    (Phase.GONE_ONCE, Sighting.ENDING, YOUNG, RecoveryStep.WAIT, "it is on its way after all"),
    (Phase.GONE_ONCE, Sighting.TERMINAL, YOUNG, RecoveryStep.CLOSE, "the terminal state is proof"),
    (Phase.GONE_ONCE, Sighting.UNREADABLE, OLD, RecoveryStep.WAIT, "nothing is concluded blind"),
]


@pytest.mark.parametrize(
    ("phase", "seen", "age", "action", "why"), RECOVERY, ids=[row[-1] for row in RECOVERY]
)
def test_recovery_does_what_the_table_says(
    phase: Phase, seen: Sighting, age: timedelta, action: RecoveryStep, why: str
) -> None:
    """Each row is one situation after a crash, and its sentence."""
    assert reconcile(phase, seen, age=age) is action, why


def test_every_situation_has_a_row() -> None:
    """No pair of phase and sight is left to chance."""
    assert {(phase, seen) for phase, seen, *_ in RECOVERY} == {(p, s) for p in Phase for s in Sighting}


def test_nothing_made_is_ever_closed_without_the_clouds_word() -> None:
    """A thing with an id is closed only when it was seen terminal, or absent after a deletion."""
    for seen in Sighting:
        if seen is not Sighting.TERMINAL:
            assert reconcile(Phase.MADE, seen, age=timedelta(days=9)) is not RecoveryStep.CLOSE


def test_over_is_over() -> None:
    """A deleted or failed box never changes state again."""
    for state in BoxState:
        for end in (BoxState.DELETED, BoxState.FAILED):
            assert may_become(end, state) == (end == state)


def test_ids_sort_by_time_and_differ_by_chance() -> None:
    """Two boxes of one millisecond differ; a later one sorts after."""
    first, second = new_id("b-", NOW, b"\0" * 10), new_id("b-", NOW, b"\1" * 10)
    later = new_id("b-", NOW + timedelta(milliseconds=1), b"\0" * 10)
    assert first < second < later
    assert len(first) == len("b-") + 26


def _lease(**change: object) -> Lease:
    values: dict[str, object] = {"host": "h", "boot": "b", "namespace": "n", "pid": 7, "started": 100}
    values["beat"] = NOW
    return Lease(**{**values, **change})  # type: ignore[arg-type]


SOON, LATE = LEASE_TIMEOUT - timedelta(seconds=1), LEASE_TIMEOUT


@pytest.mark.parametrize(
    ("lease", "alive", "later", "claim", "why"),
    [
        (None, [], timedelta(), Claim.FREE, "nobody holds it"),
        (_lease(pid=8), [(8, 100)], timedelta(days=1), Claim.FREE, "this process does"),
        (_lease(), [(7, 100)], timedelta(days=1), Claim.HELD, "its process runs, however long it is silent"),
        (_lease(), [], timedelta(), Claim.FREE, "its process is gone"),
        (_lease(), [(7, 999)], timedelta(), Claim.FREE, "another process has its number now"),
        (_lease(host="other"), [(7, 100)], timedelta(days=1), Claim.HELD, "the machine has another name now"),
        (_lease(host="other"), [], timedelta(), Claim.FREE, "its process is gone, whatever the name"),
        (_lease(boot="old"), [(7, 100)], SOON, Claim.HELD, "another machine, or before a restart: not known"),
        (_lease(boot="old"), [(7, 100)], LATE, Claim.SILENT, "it should have renewed the lease"),
        (_lease(namespace="x"), [], SOON, Claim.HELD, "a process of another namespace cannot be seen"),
        (_lease(namespace="x"), [(7, 100)], SOON, Claim.HELD, "its number is another process's here"),
        (_lease(namespace="x"), [], LATE, Claim.SILENT, "it may be paused, and go on"),
        (
            _lease(namespace="x"),
            [],
            -timedelta(days=2),
            Claim.HELD,
            "a renewal to come is no old one",
        ),
    ],
)
def test_a_lease_is_left_to_its_holder_while_the_holder_may_live(
    lease: Lease | None, alive: list[tuple[int, int]], later: timedelta, claim: Claim, why: str
) -> None:
    """Who can be asked is asked; who cannot counts as silent once the lease was not renewed for long."""
    assert claim_on(lease, here=_lease(pid=8, beat=NOW + later), alive=alive) is claim, why


@pytest.mark.parametrize(
    ("lease", "calls", "claim", "why"),
    [
        (_lease(call="mine"), {"mine", "other"}, Claim.FREE, "this call holds it"),
        (_lease(call="other"), {"mine", "other"}, Claim.HELD, "another call of this process is under way"),
        (_lease(call="other"), {"mine"}, Claim.FREE, "that call is over"),
        (_lease(), {"mine", "other"}, Claim.FREE, "it was written by a version that knows no calls"),
    ],
)
def test_calls_of_one_process_leave_each_other_alone(
    lease: Lease, calls: set[str], claim: Claim, why: str
) -> None:
    """A program may make several at the same time, in its threads."""
    here = _lease(call="mine", beat=NOW + timedelta(days=1))
    assert claim_on(lease, here=here, alive=[(7, 100)], calls=calls) is claim, why


def test_where_a_system_names_no_boot_its_host_name_tells_processes_apart() -> None:
    """As on macOS: two hosts without a boot id are not one, and a process of the same host can be asked."""
    here, elsewhere = _lease(boot="", namespace=""), _lease(boot="", namespace="", host="other")
    assert not here.is_of(elsewhere)
    assert not here.can_ask(elsewhere)
    assert here.can_ask(here)


def test_a_process_that_cannot_see_its_own_namespace_asks_nobody() -> None:
    """Its /proc is that of another namespace: the numbers there are other processes."""
    blind = _lease(namespace="")
    assert blind.is_of(blind)
    assert not blind.can_ask(blind)


def test_times_are_written_in_utc() -> None:
    """Whatever zone a time comes in."""
    assert rfc3339(datetime.fromisoformat("2026-11-20T14:00:00.5+02:00")) == "2026-11-20T12:00:00Z"

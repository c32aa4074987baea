"""The way to the server: few round trips, and nothing lost or doubled where it breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from gpucloud.errors import UsageError
from gpucloud.journal.errors import JournalError, NameTakenError
from gpucloud.journal.events import Made, Making, Seen, StateChanged
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import BoxState, Claim, claim_on
from gpucloud.journal.postgresql import server
from gpucloud.journal.postgresql.address import protected, read_address
from gpucloud.journal.postgresql.migration import migrate
from gpucloud.journal.rows import COLUMNS
from gpucloud.journal.store import Journal
from tests.journal.test_store import a_box, a_group, a_lease, clock, intended
from tests.journals import Postgres, a_server, psql, with_schema
from tests.wire import Wire


def through(wire: Wire, url: str) -> str:
    """The URL of a journal by way of a wire."""
    return re.sub(r":\d+/", f":{wire.port}/", url)


@pytest.fixture
def wire(url: str) -> Iterator[Wire]:
    """A wire to the server of this test."""
    found = re.search(r":(\d+)/", url)
    assert found
    with Wire(int(found[1])) as made:
        yield made


def story(journal: Journal) -> None:
    """A box that is planned, taken over and ended."""
    box = a_box(journal)
    journal.write(box, intended())
    journal.write(box, Making(resource=a_group("")))
    journal.write(box, Made(resource=a_group()))
    taken = journal.take(box, a_lease(pid=2), claim=lambda _: Claim.SILENT)
    assert taken is not None
    journal.observe(taken, Facts(replaced="seen"))
    journal.renew()
    journal.write(taken, StateChanged(state=BoxState.FAILED))
    assert a_box(journal, id="b-2").name == box.name, "its name is free"
    with pytest.raises(NameTakenError):
        a_box(journal, id="b-3")


def told(journal: Journal) -> list[tuple[str, int, str]]:
    return [(each.box, each.number, each.event.type) for each in journal.since()[0]]


def test_an_event_is_one_round_trip_and_so_is_a_list_of_a_thousand_boxes(wire: Wire, url: str) -> None:
    journal = Journal.connect(through(wire, url), clock, kind="real")
    box = a_box(journal)
    for event in (intended(), Making(resource=a_group("")), Made(resource=a_group())):
        before = wire.exchanges
        journal.write(box, event)
        assert wire.exchanges == before + 1
    columns = [name for name in COLUMNS if name not in {"id", "name", "document"}]
    document = "jsonb_set(document::jsonb, '{id}', to_jsonb(id || n))"
    boxes = f"""INSERT INTO states (id, name, document, {", ".join(columns)})
        SELECT id || n, name || n, {document}, {", ".join(columns)}
        FROM states, generate_series(1, 999) AS n"""  # noqa: S608
    events = """INSERT INTO events (id, at, box, number, type, version, data)
        SELECT id || '-' || n, at, box || n, number, type, version,
            replace(data, '"name": "x"', '"name": "x' || n || '"')
        FROM events, generate_series(1, 999) AS n"""
    psql(url, boxes)
    psql(url, events)
    before = wire.exchanges
    assert len(journal.boxes(owner="me")) == 1000
    assert wire.exchanges == before + 1
    before = wire.exchanges
    assert journal.observe_all([(each, Seen()) for each in journal.boxes(owner="me")]) == 1000
    assert wire.exchanges == before + 3


@pytest.mark.parametrize("fate", ["cut", "deaf", "restarted"])
def test_whichever_message_is_lost_the_journal_tells_the_same(fate: str, wire: Wire, url: str) -> None:
    """``cut``: the request is lost; ``deaf``: its answer, so that nobody knows what was committed.

    ``restarted``: the server ends the connection, as it does before it restarts.
    """
    hang_up = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name = 'gpucloud' AND pid <> pg_backend_pid()"  # a pooler's may bear the name
    )
    plain = Journal.connect(url, clock, kind="real")
    story(plain)
    expected = told(plain)
    last, n = 0, 0
    while n <= last:
        n += 1
        struck = with_schema(url.partition("?")[0], f"{url.partition('schema=')[2]}_{n}")
        migrate(read_address(struck), kind="real")
        begun = wire.exchanges

        def strike(number: int, at: int = begun + 3 + n) -> str | None:
            if number == at and fate == "restarted":
                psql(url, hang_up)
            return fate if number == at else None

        wire.on_exchange = strike
        journal = Journal.connect(through(wire, struck), clock, kind="real")
        story(journal)
        last = wire.exchanges - begun - 3
        assert told(journal) == expected, f"message {n}"
        journal.close()
    assert n > len(expected)


def test_a_silent_network_ends_a_command_in_words_and_not_in_waiting(
    wire: Wire, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "ANSWER_S", 0.2)
    monkeypatch.setattr(server, "CONNECT_S", 2)
    monkeypatch.setattr(server, "PATIENCE_S", 0.5)
    journal = Journal.connect(through(wire, url), clock, kind="real")
    box = a_box(journal)
    wire.silent = True
    with pytest.raises(JournalError, match="cannot be reached") as caught:
        journal.write(box, intended())
    assert caught.value.hint
    wire.silent = False
    journal.write(box, intended())
    assert [each.event.type for each in journal.history(box.id)] == ["planned", "intended"]


def test_a_server_that_restarts_is_waited_for_and_one_that_only_reads_is_named(tmp_path: Path) -> None:
    with a_server() as own:
        url = with_schema(own.url, "gpucloud")
        migrate(read_address(url), kind="real")
        journal = Journal.connect(url, clock, kind="real")
        box = a_box(journal)
        restart(own)
        journal.write(box, intended())
        assert [each.number for each in journal.history(box.id)] == [1, 2]
        restart(own, "standby.signal")
        with pytest.raises(JournalError, match="recovery") as caught:
            journal.write(box, StateChanged(state=BoxState.FAILED))
        assert "primary" in str(caught.value.hint)
        assert journal.box(box.id).state is BoxState.PROVISIONING


def restart(own: Postgres, *marks: str) -> None:
    own.stop()
    for mark in marks:
        (own.folder / "data" / mark).touch(mode=0o666)
    own.start()


def test_leases_age_by_the_clock_of_the_server_however_wrong_those_of_the_machines_are(url: str) -> None:
    year = timedelta(days=365)
    slow, fast = (
        Journal.connect(url, lambda wrong=wrong: clock() + wrong, kind="real")  # type: ignore[misc]
        for wrong in (-year, year)
    )
    assert abs(fast.now() - slow.now()) < timedelta(minutes=1)
    lease = a_lease(beat=slow.now())
    assert claim_on(lease, here=a_lease(boot="other", beat=fast.now()), alive=[]) is Claim.HELD


# --- what is refused before anything is spent


def test_a_journal_that_is_not_there_or_newer_or_for_other_boxes_is_refused(url: str) -> None:
    missing = with_schema(url.partition("?")[0], "nothing_here")
    with pytest.raises(UsageError, match="no tables yet") as caught:
        Journal.connect(missing, clock, kind="real")
    assert "journal migrate" in str(caught.value.hint)
    with pytest.raises(UsageError, match="for real clouds, not for the sandbox"):
        Journal.connect(url, clock, kind="sandbox")
    psql(url, "INSERT INTO schema_version (version) VALUES (99)")
    for refused in (
        lambda: Journal.connect(url, clock, kind="real"),
        lambda: migrate(read_address(url), kind="real"),
    ):
        with pytest.raises(UsageError, match="another gpucloud"):
            refused()


def test_no_message_has_the_password(url: str) -> None:
    for bad in (
        "postgresql://u:s3cret@127.0.0.1:1/d",
        "postgresql://u:s3cret@[::1/d",
        "postgresql://u:s3cret@h/d?x=1",
    ):
        with pytest.raises(UsageError) as caught:
            Journal.connect(bad, clock, kind="real")
        assert "s3cret" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__!r}", bad


@pytest.mark.parametrize(
    ("named", "defaults", "mode"),
    [
        ({"host": "db.example"}, {}, "verify-full"),
        ({"host": "db.example"}, {"sslmode": "prefer"}, "verify-full"),
        ({"host": "db.example", "sslmode": "verify-full"}, {}, "verify-full"),
        ({}, {"host": "db.example"}, "verify-full"),
        ({"host": "127.0.0.1,db.example"}, {}, "verify-full"),
        ({"hostaddr": "192.0.2.1", "host": "localhost"}, {}, "verify-full"),
        ({"service": "lab"}, {"sslmode": "require"}, "verify-full"),
        ({}, {"service": "lab"}, "verify-full"),
        ({"host": "/run/postgresql"}, {}, None),
        ({"host": "localhost"}, {"sslmode": "disable"}, None),
        ({"host": "::1"}, {}, None),
        ({"host": "db.example", "sslmode": "require"}, {}, "refused"),
        ({"host": "db.example", "sslmode": "verify-ca"}, {}, "refused"),
        ({"host": "db.example"}, {"sslmode": "allow"}, "refused"),
        ({"service": "lab", "sslmode": "prefer"}, {}, "refused"),
    ],
)
def test_the_way_to_another_machine_is_always_verified(
    named: dict[str, str], defaults: dict[str, str], mode: str | None
) -> None:
    if mode == "refused":
        with pytest.raises(UsageError, match="does not prove") as caught:
            protected(named, defaults)
        assert "verify-full" in str(caught.value.hint)
    else:
        assert protected(named, defaults).get("sslmode") == mode

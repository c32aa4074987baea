"""Journals that this program did not make: refused in words, and left as they are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gpucloud.api.client import Client
from gpucloud.errors import UsageError
from gpucloud.journal.errors import JournalError
from gpucloud.journal.events import VERSION as EVENTS
from gpucloud.journal.events import Extended, UnreadableEventError, read
from gpucloud.journal.sqlite.schema import VERSION
from gpucloud.journal.store import Journal
from gpucloud.journal.verification import verify
from tests.builders import Clock
from tests.journal.test_store import a_box

pytestmark = pytest.mark.files


@pytest.mark.parametrize("version", [VERSION + 1, 8, 99])
def test_a_journal_of_another_version_is_refused_and_left_as_it_is(version: int, tmp_path: Path) -> None:
    """Nothing was released yet: an older one is taken in by the tags of what runs."""
    file = tmp_path / "journal.db"
    Journal.open(file, Clock()).close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = file.read_bytes()
    with pytest.raises(UsageError, match=f"schema {version}, this one has {VERSION}") as caught:
        Journal.open(file, Clock())
    assert "gpucloud recover" in str(caught.value.hint)
    assert file.read_bytes() == before


def test_a_journal_of_the_sandbox_is_not_taken_for_real_boxes_in_its_place(tmp_path: Path) -> None:
    """As where the folder of a sandbox was copied or linked."""
    file = tmp_path / "journal.db"
    assert Client(journal=file, owner="me").list() == []
    with pytest.raises(UsageError, match="for real clouds, not for the sandbox") as caught:
        Client.sandbox(journal=file, owner="me").list()
    assert str(file) in caught.value.message


@pytest.mark.parametrize("damage", ["data = '{'", "data = '{}'", "type = 'unheard-of'", "version = 7"])
def test_a_damaged_event_is_told_by_who_reads_it(damage: str, tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    journal = Journal.open(file, Clock())
    box = a_box(journal)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE events SET {damage}")  # noqa: S608
    for look in (lambda: verify(journal), lambda: journal.history(box.id)):
        with pytest.raises(JournalError, match=f"event 1 of {box.id}") as caught:
            look()
        assert "restore a copy" in str(caught.value.hint)


@pytest.mark.parametrize(
    "damage",
    [
        "document = '{}'",
        "document = json_set(document, '$.id', 'b-9')",
        "document = json_set(document, '$.state', 'unheard-of')",
        "document = json_set(document, '$.expires_at', '2026-01-05T20:00:00')",
        "kind = 'wish'",
        "number = 0",
        "living = 2",
    ],
)
def test_a_state_that_makes_no_sense_is_refused_by_the_table_or_its_events_are_folded(
    damage: str, tmp_path: Path
) -> None:
    file = tmp_path / "journal.db"
    journal = Journal.open(file, Clock())
    box = a_box(journal)
    try:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(f"UPDATE states SET {damage}")  # noqa: S608
    except sqlite3.IntegrityError:
        return
    assert replace(journal.box(box.id), lease=None) == replace(box, lease=None)
    assert list(journal.damaged) == [box.id]
    assert box.id in " ".join(verify(journal).differences)
    journal.write(box, Extended(expires_at=None))
    assert verify(journal).differences == (), "the next event mends it"


@pytest.mark.parametrize("version", [0, EVENTS + 1])
def test_an_event_of_another_version_is_not_guessed_at(version: int) -> None:
    with pytest.raises(UnreadableEventError, match="another gpucloud"):
        read("released", version, {})


@pytest.mark.parametrize(
    "data",
    [
        {"expires_at": 5},
        {"expires_at": "2026-01-05T20:00:00"},
        {"expires_at": None, "more": 1},
        {},
        [],
        None,
    ],
)
def test_a_payload_that_is_none_of_its_type_is_refused(data: object) -> None:
    with pytest.raises(UnreadableEventError, match="damaged"):
        read("extended", EVENTS, data)  # type: ignore[arg-type]


@pytest.mark.parametrize("column", ["living = 0", "owner = 'another'", "name = 'y'", "present = 5"])
def test_a_state_that_lists_would_not_find_is_told_by_the_verification(column: str, tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    journal = Journal.open(file, Clock())
    box = a_box(journal)
    assert verify(journal).differences == ()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE states SET {column}")  # noqa: S608
    [difference] = verify(journal).differences
    assert box.id in difference

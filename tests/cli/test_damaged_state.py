"""One bad row of the journal stops nobody: neither from launching, nor from ending the others."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.shell import Shell

T4 = ("--gpu", "T4", "--cloud", "aws", "--ttl", "2h", "--yes")
LINES = (
    ("list",),
    ("sweep", "--yes", "--older-than", "0s"),
    ("tend",),
    ("spend",),
    ("budget", "list"),
    ("metrics", "--once"),
    ("launch", *T4, "--name", "other"),
    ("down", "good", "--yes"),
)


@pytest.mark.parametrize("events", [False, True], ids=["the state", "the state and its events"])
def test_a_row_that_makes_no_sense_is_told_and_nothing_of_it_is_ended(
    own_clouds: Shell, events: bool
) -> None:
    cli = own_clouds
    for name in ("good", "bad"):
        assert cli("launch", *T4, "--name", name).code == 0
    bad = cli("show", "bad", "--json").box
    [journal] = cli.home.rglob("journal.db")
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute(
            "UPDATE states SET document = json_set(document, '$.state', 'weird') WHERE id = ?", (bad["id"],)
        )
        if events:
            connection.execute("UPDATE events SET data = '{\"x\": 1}' WHERE box = ?", (bad["id"],))
    for line in LINES:
        ran = cli(*line)
        assert ran.code == 0, (line, ran.err)
        if line == ("list",):
            assert f"the state of {bad['id']} in the journal makes no sense" in ran.err
            assert ("bad" in ran.out) is not events
    left = {each["box"] for each in cli.billed()}
    assert bad["id"] in left
    if not events:
        assert cli("down", "bad", "--yes").code == 0
        assert bad["id"] not in {each["box"] for each in cli.billed()}

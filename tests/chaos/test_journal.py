"""One journal: a crowd of processes on it, and what a disk can do to its file."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpucloud.journal.store import Journal
from tests.chaos.crowd import SHARED, now
from tests.chaos.lab import Home, Lab, a_lab
from tests.chaos.scenes import LAUNCH, REGION
from tests.chaos.truth import ours
from tests.forked import Forked, ForkServer

MEMBER = "tests.chaos.crowd:main"
CROWD = int(os.environ.get("CROWD_PROCESSES", "30"))
OPERATIONS = int(os.environ.get("CROWD_OPERATIONS", "30"))
"""``make torture`` asks for a hundred of each."""


@pytest.fixture(scope="module")
def forking() -> Iterator[ForkServer]:
    forks = ForkServer("tests.chaos.victims", "tests.chaos.crowd")
    yield forks
    forks.close()


@pytest.fixture(scope="module")
def lab(forking: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with a_lab(tmp_path_factory.mktemp("lab"), forking) as made:
        yield made


def test_a_crowd_of_processes_shares_one_journal(forking: ForkServer, tmp_path: Path) -> None:
    """Nobody hears of a locked database, no box is lost, one at a time has the name that all want."""
    seed = f"{random.randrange(1 << 32):08x}"  # noqa: S311

    def start(number: int) -> Forked:
        arguments = [str(tmp_path), str(number), str(OPERATIONS), seed]
        return forking.start(
            arguments,
            environment={"HOME": str(tmp_path)},
            folder=str(tmp_path),
            main="tests.chaos.crowd:main",
        )

    crowd = [start(number) for number in range(CROWD)]
    for process in crowd:
        out, err = process.communicate(timeout=280)
        assert (process.wait() in {0, -9}, out, err) == (True, "", ""), seed
    connection = sqlite3.connect(tmp_path / "journal.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    living = "SELECT count(*) FROM boxes WHERE name = ? AND state NOT IN ('deleted', 'failed')"
    assert connection.execute(living, (SHARED,)).fetchone()[0] <= 1
    planned = connection.execute("SELECT count(*) FROM events WHERE type = 'planned'").fetchone()
    assert connection.execute("SELECT count(*) FROM boxes").fetchone() == planned
    connection.close()


# --- what a disk can do


def launch(home: Home, name: str) -> None:
    done = home.run(*LAUNCH, "--cloud", home.cloud, "--region", REGION[home.cloud], "--name", name)
    assert done.code == 0, done.err


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for position in range(100, len(content), 97):
        content[position] ^= 0x10
    file.write_bytes(content)


def replace_by_text(file: Path) -> None:
    file.write_text("this was a journal\n" * 400)


@pytest.mark.parametrize("damage", [cut, zero, flip, replace_by_text])
def test_a_damaged_journal_is_refused_before_anything_is_spent_and_recovered(
    lab: Lab, damage: Callable[[Path], None]
) -> None:
    """The file is left as it is; moved aside, the box is found by its tags."""
    home = lab.begin("aws")
    launch(home, "x")
    file = home.state / "journal.db"
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    damage(file)
    before = file.read_bytes()
    lab.clouds.calls(clear=True)
    refused = home.run(*LAUNCH, "--cloud", "aws", "--name", "y")
    assert (refused.code, "journal" in refused.err) == (2, True), refused.err
    assert "hint:" in refused.err
    assert not [call for call in lab.clouds.calls() if call["mutating"]]
    assert file.read_bytes() == before
    for each in home.state.glob("journal.db*"):
        each.rename(each.with_name(f"damaged-{each.name}"))
    assert home.run("recover").code == 0
    assert list(home.boxes().values()) == ["ready"]
    assert home.run("down", "--all", "--yes").code == 0
    assert ours(home) == []
    home.close()


@pytest.mark.parametrize("cloud", ["aws", "azure", "alibaba"])
def test_a_journal_of_yesterday_finds_what_was_launched_since_and_forgets_what_is_gone(
    lab: Lab, cloud: str
) -> None:
    home = lab.begin(cloud)
    launch(home, "old")
    launch(home, "gone")
    shutil.copytree(home.state, home.path / "copy")
    assert home.run("down", "gone", "--yes").code == 0
    launch(home, "new")
    shutil.rmtree(home.state)
    (home.path / "copy").rename(home.state)
    assert home.run("recover").code == 0
    names = dict(home.rows("SELECT name, state FROM boxes"))
    assert (names["old"], names["new"]) == ("ready", "ready")
    ended = home.run("down", "--all", "--yes")
    assert ended.code == 0, ended.err
    assert ours(home) == []
    home.close()


def test_replaying_what_a_crowd_wrote_gives_the_same_tables(forking: ForkServer, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    crowd = [
        forking.start(
            [str(tmp_path), str(number), "20", "replay"],
            environment=environment,
            folder=str(tmp_path),
            main=MEMBER,
        )
        for number in range(8)
    ]
    for process in crowd:
        process.communicate(timeout=120)
    journal = Journal.open(tmp_path / "journal.db", now)
    before = (journal.boxes(owner="u", over=True), journal.intents(), journal.resources(present=False))
    assert len(before[0]) > 8
    journal.rebuild()
    assert (
        journal.boxes(owner="u", over=True),
        journal.intents(),
        journal.resources(present=False),
    ) == before

"""One journal: a crowd of processes on it, and what a disk can do to its file."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from gpucloud.journal.store import Journal
from tests.chaos.crowd import END_S, OPERATIONS, PROCESSES, Crowd, now
from tests.chaos.lab import Home, Lab
from tests.chaos.scenes import LAUNCH, REGION
from tests.chaos.truth import ours
from tests.forked import ForkServer


@pytest.mark.timeout(END_S + 60)
def test_a_crowd_of_processes_shares_one_journal(forks: ForkServer, tmp_path: Path) -> None:
    """Nobody hears of a locked database, nothing is lost or doubled, replaying it gives the same tables."""
    seed = f"{random.randrange(1 << 32):08x}"  # noqa: S311
    crowd = Crowd(forks, tmp_path, {})
    said = crowd.run(seed=seed, processes=PROCESSES, operations=OPERATIONS, killed=0.01, stopped=0)
    wrong = crowd.wrong(Journal.open(tmp_path / "journal.db", now))
    assert (said, wrong) == ([], []), seed
    connection = sqlite3.connect(tmp_path / "journal.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
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

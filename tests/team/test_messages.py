"""A sample of what ``make chaos CHAOS_ARGS="--journal postgresql"`` plays whole: a message of a command."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.chaos.lab import CLOUDS, Lab, a_lab
from tests.chaos.messages import MESSAGES, SCENES_OF_TEAMS
from tests.chaos.patience import ROWS
from tests.chaos.schedules import cells_of, play
from tests.chaos.teams import a_team
from tests.forked import ForkServer
from tests.journals import Postgres

SAMPLE = ("launch", "down", "extend", "stop", "sweep", "volume-create", "list", "budget-set", "journal-copy")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, team_server: Postgres) -> Iterator[Lab]:
    victims = ForkServer("tests.chaos.victims")
    with a_team(team_server.url) as team, a_lab(tmp_path_factory.mktemp("lab"), victims, team) as made:
        yield made
    victims.close()


@pytest.mark.parametrize("name", SAMPLE)
def test_whatever_befalls_a_message_nothing_is_lost_or_doubled(lab: Lab, name: str) -> None:
    seed = f"{random.randrange(1 << 32):08x}"  # noqa: S311
    chance = random.Random(seed)  # noqa: S311
    cells = cells_of(lab, SCENES_OF_TEAMS[name], chance.choice(CLOUDS))
    cell = chance.choice([each for each in cells if each.action == MESSAGES])
    outcome = play(lab, cell, f"{seed} {cell}")
    assert not outcome.wrong, f"--replay '{cell}' --seed '{seed}'\n{outcome.told}"


def test_a_launch_that_is_done_succeeds_though_its_last_look_at_the_journal_fails(lab: Lab) -> None:
    cells = cells_of(lab, SCENES_OF_TEAMS["launch"], "aws")
    gone = [each for each in cells if each.action == MESSAGES and each.plight == "gone"]
    outcome = play(lab, max(gone, key=lambda each: each.nth), "0")
    assert outcome.struck
    assert not outcome.wrong, outcome.told
    assert "the journal cannot be read" in outcome.told


def test_no_command_that_uses_the_journal_is_forgotten() -> None:
    played = {scene.line(CLOUDS[0])[0] for scene in SCENES_OF_TEAMS.values()}
    assert {name for name, row in ROWS.items() if row.journal == "scenes"} == ROWS.keys() & played

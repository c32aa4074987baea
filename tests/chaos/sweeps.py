"""Sweeps in clouds full of other people's boxes, called and tagged nearly alike; run by ``make torture``."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from tests.chaos.lab import CLOUDS, Home, Lab
from tests.chaos.scenes import SCENES

SWEEPS = int(os.environ.get("SWEEPS", "30"))
"""So many in all."""
PARTS = 10
OWNERS = ("u-chaos", "u-chaos2", "u-chao", "U-CHAOS", "u")


def _salted(home: Home, cloud: str) -> None:
    """A box of each owner, with the same name and run id; no journal knows of any."""
    for owner in OWNERS:
        launched = home.run(*SCENES["launch"].line(cloud), "--run-id", "r", owner=owner)
        assert launched.code == 0, launched.err
        for file in home.state.glob("journal.db*"):
            file.unlink()


def _billed(lab: Lab) -> Counter[str]:
    return Counter(str(entry["owner"]) for entry in lab.billing())


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_sweep_ends_what_is_the_sweepers_own_and_nothing_else(lab: Lab, part: int, cloud: str) -> None:
    for turn in range(part, SWEEPS // len(CLOUDS) + 1, PARTS):
        seed = f"{random.randrange(1 << 32):08x} {turn}"  # noqa: S311
        chance = random.Random(seed)  # noqa: S311
        home = lab.begin_after(_salted, cloud)
        before = _billed(lab)
        assert set(before) == set(OWNERS)
        sweeper = chance.choice(OWNERS)
        journal = chance.random() < 0.25
        if journal:
            assert home.run("recover", owner=sweeper).code == 0
        age, how = chance.choice(["0s", "0s", "1h"]), chance.choice(["--yes", "--yes", "--dry-run"])
        swept = home.run("sweep", "--older-than", age, how, owner=sweeper)
        assert swept.code == 0, swept.err
        ends = not journal and age == "0s" and how == "--yes"
        expected = Counter({owner: n for owner, n in before.items() if not ends or owner != sweeper})
        assert _billed(lab) == expected, (
            f"seed {seed}: {sweeper} {journal} {age} {how}\n{swept.out}{swept.err}"
        )

"""A sample of what ``make chaos`` plays whole: one cell of each command, another each time, with its seed."""

from __future__ import annotations

import random

import pytest

from tests.chaos.lab import CLOUDS, Lab
from tests.chaos.plights import COMMITS, LOCAL, PLIGHTS
from tests.chaos.scenes import SCENES
from tests.chaos.schedules import cells_of, play


@pytest.mark.parametrize("name", SCENES)
def test_whatever_befalls_a_command_nothing_is_lost_doubled_or_dearer(lab: Lab, name: str) -> None:
    """Each failure names its cell and seed: ``python -m tests.chaos --replay CELL --seed SEED``."""
    seed = f"{random.randrange(1 << 32):08x}"  # noqa: S311
    chance = random.Random(seed)  # noqa: S311
    scene = SCENES[name]
    cloud = chance.choice(CLOUDS)
    cells = cells_of(lab, scene, cloud)
    changing = {cell.action for cell in cells if cell.plight == "delivered-twice"}
    assert changing or scene.reads or "F9" not in (scene.kinds or {"F9"})
    plain = [plight for plight in PLIGHTS if plight.every == 1 and not plight.meanwhile]
    always = {plight.name: plight.kind for plight in plain if plight.only == "any" and not plight.not_first}
    always |= {how: kind for _, hows in LOCAL.values() for how, (kind, _) in hows.items()}
    expected = {how for how, kind in always.items() if scene.kinds is None or kind in scene.kinds}
    assert {cell.plight for cell in cells} >= expected
    changes = [cell for cell in cells if cell.action in changing | {COMMITS}]
    new = [cell for cell in cells if cell.kind.startswith("K")]
    cell = chance.choice(chance.choice([changes or cells, changes or cells, cells, new or cells]))
    outcome = play(lab, cell, f"{seed} {cell}")
    assert not outcome.wrong, f"--replay '{cell}' --seed '{seed} {cell}'\n{outcome.told}"

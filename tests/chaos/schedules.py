"""Schedules: a command, a call of it, what befalls that call; and what must hold afterwards."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.lab import CLOUDS, STRANGER, Home, Lab
from tests.chaos.plights import PLIGHTS, Plight
from tests.chaos.scenes import SCENES, Scene
from tests.chaos.truth import (
    check_nothing_is_doubled,
    check_nothing_is_lost,
    check_price,
    check_stranger,
    check_truthful,
    ours,
)
from tests.shell import Result

AFTER_THE_WINDOW_S = 660.0
"""When a call without an answer counts as never made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One place in the life of a command, and what happens there. ``str`` of it can be replayed."""

    scene: str
    cloud: str
    action: str
    nth: int
    plight: str

    def __str__(self) -> str:
        return f"{self.scene}/{self.cloud}/{self.action}/{self.nth}/{self.plight}"

    @classmethod
    def parse(cls, text: str) -> Cell:
        """The cell that ``str`` wrote."""
        scene, cloud, rest = text.split("/", 2)
        action, nth, plight = rest.rsplit("/", 2)
        return cls(scene=scene, cloud=cloud, action=action, nth=int(nth), plight=plight)


def cells_of(lab: Lab, scene: Scene, cloud: str) -> list[Cell]:
    """Every cell of a command, from a run of it that nothing befalls."""
    home = lab.begin()
    scene.before(home, cloud)
    lab.clouds.calls(clear=True)
    clean = home.run(*scene.line(cloud))
    assert clean.code == 0, clean.err
    counted: dict[tuple[str, bool], int] = {}
    for call in lab.clouds.calls():
        if call["cloud"] == cloud:
            key = (call["action"], call["mutating"])
            counted[key] = counted.get(key, 0) + call["count"]
    home.close()
    return [
        Cell(scene=scene.name, cloud=cloud, action=action, nth=nth, plight=plight.name)
        for (action, changing), count in sorted(counted.items())
        for nth in range(count)
        for plight in PLIGHTS
        if plight.strikes(action, nth, changing)
    ]


def all_cells(lab: Lab) -> Iterator[Cell]:
    """Every cell of every command on every cloud."""
    for scene in SCENES.values():
        for cloud in CLOUDS:
            yield from cells_of(lab, scene, cloud)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a schedule: whether the fault struck, what is wrong, and the commands' own words."""

    struck: bool
    wrong: tuple[str, ...]
    told: str


def play(lab: Lab, cell: Cell, plight: Plight, seed: str) -> Outcome:
    """Runs one schedule."""
    chance = random.Random(seed)  # noqa: S311  (to be replayed)
    scene = SCENES[cell.scene]
    home = lab.begin()
    try:
        theirs = _stranger(home) if chance.random() < 0.05 else 0
        scene.before(home, cell.cloud)
        rule = {**plight.fault(cell.cloud), "cloud": cell.cloud, "action": cell.action, "skip": cell.nth}
        lab.clouds.fault(**rule)
        victim = home.run(*scene.line(cell.cloud))
        struck = not any(rule["effect"] == each["effect"] for each in lab.clouds.fault())
        lab.clouds.clear_faults()
        wrong = _after_victim(home, scene, victim)
        said = [_told("victim", victim)]
        if chance.random() < 0.2:
            other = home.run("launch", "--gpu", "T4", "--cloud", cell.cloud, "--name", "other", "--yes")
            said.append(_told("next", other))
            if other.code:
                wrong.append(f"the next command ended with {other.code}")
            wrong += check_nothing_is_lost(home) + check_nothing_is_doubled(home, max(scene.buys, 1))
        wrong += _to_nothing(home, said)
        wrong += check_stranger(home, theirs)
        return Outcome(struck=struck, wrong=tuple(wrong), told="\n".join(said))
    finally:
        home.close()


def _after_victim(home: Home, scene: Scene, victim: Result) -> list[str]:
    wrong = check_nothing_is_lost(home) + check_price(home)
    wrong += check_nothing_is_doubled(home, max(scene.buys, 1))
    if victim.code != -signal.SIGKILL:
        if victim.code < 0 or "unexpected:" in victim.err or "Traceback" in victim.err:
            wrong.append(f"the victim ended with {victim.code} and words of its own making")
        wrong += check_truthful(home, victim.code, ends=scene.ends, buys=scene.buys)
    return wrong


def _to_nothing(home: Home, said: list[str]) -> list[str]:
    """What the next commands must reach, once nothing can still show up: that nothing of ours is billed."""
    later = {"later": AFTER_THE_WINDOW_S}
    for line in (("sweep", "--older-than", "0s", "--yes"), ("down", "--all", "--yes")):
        last = home.run(*line, plight=later)
        said.append(_told(line[0], last))
        if last.code:
            return [f"{line[0]} ended with {last.code}"]
    left = ours(home)
    return [f"{each['kind']} {each['id']} of {each['box']} is left" for each in left]


def _stranger(home: Home) -> int:
    """Something of somebody else's, under the same name; how many things that is."""
    launched = home.run("launch", "--gpu", "T4", "--cloud", "aws", "--name", "x", "--yes", owner=STRANGER)
    assert launched.code == 0, launched.err
    for file in home.state.glob("journal.db*"):
        file.unlink()
    return sum(entry["owner"] == STRANGER for entry in home.lab.billing())


def _told(who: str, result: Result) -> str:
    return f"--- {who}: {result.code}\n{result.out}{result.err}"

"""Schedules: a command, a call of it, what befalls that call; and what must hold afterwards."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from tests.chaos.lab import CLOUDS, STRANGER, Home, Lab
from tests.chaos.plights import BY_NAME, PLIGHTS
from tests.chaos.scenes import LAUNCH, REGION, SCENES, Scene
from tests.chaos.truth import (
    check_nothing_is_doubled,
    check_nothing_is_lost,
    check_price,
    check_stranger,
    check_truthful,
    ours,
)
from tests.shell import Result

COMMITS = "commits"
"""In place of an action: the command's own commits to its journal."""
SHORTAGES = {"disk": ("D1", range(0, 200, 4)), "files": ("D4", range(4, 40))}
"""Of what this machine has: the fault kind, and how much of it there is."""
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

    @property
    def kind(self) -> str:
        """The fault kind."""
        if self.action in SHORTAGES:
            return SHORTAGES[self.action][0]
        return "H2" if self.action == COMMITS else BY_NAME[self.plight].kind

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
    home = lab.begin_after(scene.before, cloud)
    lab.clouds.calls(clear=True)
    clean = home.run(*scene.line(cloud), plight={"commit": ["never", 0]})
    assert clean.code == 0, clean.err
    counted: dict[tuple[str, bool], int] = {}
    for call in lab.clouds.calls():
        if call["cloud"] == cloud:
            key = (call["action"], call["mutating"])
            counted[key] = counted.get(key, 0) + call["count"]
    commits = int((home.path / "commits").read_text())
    home.close()
    found = [
        Cell(scene=scene.name, cloud=cloud, action=COMMITS, nth=nth, plight=f"killed-{moment}")
        for nth in range(commits)
        for moment in ("before", "after")
    ]
    found += [
        Cell(scene=scene.name, cloud=cloud, action=what, nth=amount, plight="short")
        for what, (_, amounts) in SHORTAGES.items()
        for amount in amounts
    ]
    return found + [
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


def play(lab: Lab, cell: Cell, seed: str) -> Outcome:
    """Runs one schedule."""
    chance = random.Random(seed)  # noqa: S311  (to be replayed)
    scene = SCENES[cell.scene]
    crowded = chance.random() < 0.05
    home = lab.begin(cell.cloud) if crowded else lab.begin_after(scene.before, cell.cloud)
    try:
        theirs = 0
        if crowded:
            theirs = _stranger(home)
            scene.before(home, cell.cloud)
        victim, struck = _befallen(home, scene, cell)
        wrong = _after_victim(home, scene, victim)
        said = [_told("victim", victim)]
        if chance.random() < 0.2:
            where = ("--cloud", cell.cloud, "--region", REGION[cell.cloud])
            other = home.run(*LAUNCH, *where, "--name", "other")
            said.append(_told("next", other))
            if other.code:
                wrong.append(f"the next command ended with {other.code}")
            wrong += check_nothing_is_lost(home, forgotten=scene.forgotten)
            wrong += check_nothing_is_doubled(home, max(scene.buys, 1))
        wrong += _to_nothing(home, scene, said)
        wrong += check_stranger(home, theirs)
        return Outcome(struck=struck, wrong=tuple(wrong), told="\n".join(said))
    finally:
        home.close()


def _befallen(home: Home, scene: Scene, cell: Cell) -> tuple[Result, bool]:
    """Runs the command with what befalls it; whether it was struck."""
    if cell.action == COMMITS:
        plight = {"commit": [cell.plight.removeprefix("killed-"), cell.nth + 1]}
        victim = home.run(*scene.line(cell.cloud), plight=plight)
        return victim, victim.code == -signal.SIGKILL
    if cell.action in SHORTAGES:
        return home.run(*scene.line(cell.cloud), plight={cell.action: cell.nth}), True
    clouds = home.lab.clouds
    rule = BY_NAME[cell.plight].fault(cell.cloud)
    clouds.fault(**{**rule, "cloud": cell.cloud, "action": cell.action, "skip": cell.nth})
    victim = home.run(*scene.line(cell.cloud))
    struck = all(each["struck"] for each in clouds.fault())
    clouds.clear_faults()
    return victim, struck


def _after_victim(home: Home, scene: Scene, victim: Result) -> list[str]:
    wrong = check_nothing_is_lost(home, forgotten=scene.forgotten) + check_price(home)
    wrong += check_nothing_is_doubled(home, max(scene.buys, 1))
    if victim.code != -signal.SIGKILL:
        if victim.code < 0 or "unexpected:" in victim.err or "Traceback" in victim.err:
            wrong.append(f"the victim ended with {victim.code} and words of its own making")
        wrong += check_truthful(home, victim.code, ends=scene.ends, buys=scene.buys)
    return wrong


def _to_nothing(home: Home, scene: Scene, said: list[str]) -> list[str]:
    """What the next commands must reach, once nothing can still show up: that nothing of ours is billed."""
    if not ours(home):
        return []
    later = {"later": AFTER_THE_WINDOW_S}
    down, sweep = ("down", "--all", "--yes"), ("sweep", "--older-than", "0s", "--yes")
    for line in (down, sweep) if scene.forgotten else (down,):
        last = home.run(*line, plight=later)
        said.append(_told(line[0], last))
        if last.code:
            return [f"{line[0]} ended with {last.code}"]
    left = ours(home)
    return [f"{each['kind']} {each['id']} of {each['box']} is left" for each in left]


def _stranger(home: Home) -> int:
    """Something of somebody else's, under the same name; how many things that is."""
    launched = home.run(*SCENES["launch"].line(home.cloud), owner=STRANGER)
    assert launched.code == 0, launched.err
    for file in home.state.glob("journal.db*"):
        file.unlink()
    return sum(entry["owner"] == STRANGER for entry in home.lab.billing())


def _told(who: str, result: Result) -> str:
    return f"--- {who}: {result.code}\n{result.out}{result.err}"

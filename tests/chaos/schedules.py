"""Schedules: a command, a call of it, what befalls that call; and what must hold afterwards."""

from __future__ import annotations

import random
import signal
from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.chaos.elsewhere import may_leave
from tests.chaos.lab import CLOUDS, OWNER, STRANGER, Home, Lab
from tests.chaos.messages import (
    AROUND_TEAMS,
    FORGETS,
    KINDS,
    MESSAGES,
    SCENES_OF_TEAMS,
    TROUBLES,
    befall,
    check_messages,
)
from tests.chaos.plights import AROUND, BROKEN_TAGS, BY_NAME, COMMITTED_AFTER_SWAP, LOCAL, PLIGHTS
from tests.chaos.rivals import OWED, Meeting, check_ceiling, check_rival, meet
from tests.chaos.scenes import LAUNCH, REGION, SCENES, Line, Scene
from tests.chaos.truth import (
    check_ends,
    check_nothing_is_doubled,
    check_nothing_is_lost,
    check_price,
    check_results,
    check_runs,
    check_stranger,
    check_truthful,
    ours,
)
from tests.shell import Result

LOOK: Line = ("tend",)
"""Of whoever tends runs: the same again and again."""
AFTER_THE_WINDOW_S = 2000.0
"""When a call without an answer counts as never made, and what a victim has waited for is over too."""


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
        if self.action == MESSAGES:
            return TROUBLES[self.plight].kind
        if self.action in AROUND:
            return AROUND[self.action][0]
        if self.action in LOCAL:
            return LOCAL[self.action][1][self.plight][0]
        return BY_NAME[self.plight].kind

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
    home = _begin(lab, scene, cloud)
    lab.clouds.calls(clear=True)
    begun = lab.team.wire.exchanges if lab.team else 0
    ports = _ports(lab)
    clean = home.run(*scene.line(cloud), plight={"commit": ["never", 0], "connection": ["never", 0, ports]})
    assert clean.code == 0, clean.err
    counted: dict[tuple[str, bool], int] = {}
    for call in lab.clouds.calls():
        if call["cloud"] == cloud:
            key = (call["action"], call["mutating"])
            counted[key] = counted.get(key, 0) + call["count"]
    if lab.team is not None:
        found = _cells_of_messages(scene, cloud, lab.team.wire.exchanges - begun)
    else:
        found = _cells_of_files(lab, home, scene, cloud)
    home.close()
    found += [
        Cell(scene=scene.name, cloud=cloud, action=what, nth=amount, plight="around")
        for what, (_, amounts) in (AROUND if lab.team is None else AROUND_TEAMS).items()
        for amount in amounts
        if (what != "read_only" or may_leave()) and (what != "skew" or scene.buys)
    ]
    calls = [(*key, nth) for key, count in sorted(counted.items()) for nth in range(count)]
    found += [
        Cell(scene=scene.name, cloud=cloud, action=action, nth=nth, plight=plight.name)
        for at, (action, changing, nth) in enumerate(calls)
        for number, plight in enumerate(PLIGHTS)
        if plight.strikes(action, nth, changing) and (at + number) % plight.every == 0
        if lab.team is None or plight.kind == "K1"  # else the server is not concerned
    ]
    left_out = {kind for kind, plays in (("K1", may_leave()), ("K2", scene.most_usd)) if not plays}
    every = scene.kinds if lab.team is None or scene.kinds is None else scene.kinds | KINDS
    return [cell for cell in found if (every is None or cell.kind in every) and cell.kind not in left_out]


def _cells_of_files(lab: Lab, home: Home, scene: Scene, cloud: str) -> list[Cell]:
    """What can befall a command with its own files; ``home`` is where it has run."""
    done = {what: int((home.path / what).read_text()) for what in ("commits", "connections")}
    done["swaps"] = done["commits"] - 1  # after the last one nobody looks
    for what in ("writes", "syncs"):
        again = _begin(lab, scene, cloud)
        ran = again.run(*scene.line(cloud), plight={LOCAL[what][0]: ["never", 0]})
        assert ran.code == 0, ran.err
        done[what] = int((again.path / what).read_text())
    return [
        Cell(scene=scene.name, cloud=cloud, action=what, nth=nth, plight=how)
        for what, (_, hows) in LOCAL.items()
        for how, (_, step) in hows.items()
        for nth in range(0, done[what], step)
    ]


def _cells_of_messages(scene: Scene, cloud: str, messages: int) -> list[Cell]:
    """Every message to the server of a team's journal, with each trouble in turn."""
    assert messages > 0
    return [
        Cell(scene=scene.name, cloud=cloud, action=MESSAGES, nth=nth, plight=name)
        for number, (name, trouble) in enumerate(TROUBLES.items())
        for nth in range(1, messages + 1)
        if (nth + number) % trouble.every == 0 or (nth == 1 and trouble.every > messages)
    ]


def _begin(lab: Lab, scene: Scene, cloud: str) -> Home:
    """A new home, with all that must be there before a command."""
    home = lab.begin_after(scene.before, cloud)
    scene.beside(home, cloud)
    return home


def _ports(lab: Lab) -> list[int | None]:
    return [urlsplit(url).port for url in lab.endpoint.endpoints.values()]


def all_cells(lab: Lab, beginning: str = "") -> Iterator[Cell]:
    """Every cell of every command on every cloud whose name begins so."""
    for number, scene in enumerate((SCENES if lab.team is None else SCENES_OF_TEAMS).values()):
        # What is said to a server is much the same on each cloud.
        for cloud in CLOUDS if lab.team is None else (CLOUDS[number % len(CLOUDS)],):
            name = f"{scene.name}/{cloud}/"
            if name.startswith(beginning) or beginning.startswith(name):
                yield from (each for each in cells_of(lab, scene, cloud) if str(each).startswith(beginning))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a schedule: whether the fault struck, what is wrong, and the commands' own words."""

    struck: bool
    wrong: tuple[str, ...]
    told: str


def play(lab: Lab, cell: Cell, seed: str) -> Outcome:
    """Runs one schedule."""
    chance = random.Random(seed)  # noqa: S311  (to be replayed)
    scene = SCENES_OF_TEAMS[cell.scene]
    crowded = chance.random() < 0.03 or cell.action == "hostile"
    home = lab.begin(cell.cloud) if crowded else _begin(lab, scene, cell.cloud)
    try:
        theirs = 0
        if crowded:
            theirs = _stranger(lab, cell.cloud)
            scene.before(home, cell.cloud)
            scene.beside(home, cell.cloud)
        if cell.action == "hostile":
            lab.put_tags(STRANGER, {"owner": OWNER, **BROKEN_TAGS[cell.nth]})
        before = set(home.boxes())
        meeting = _befallen(home, scene, cell)
        forgotten = _is_forgotten(scene, cell)
        wrong = _after_victim(home, scene, cell, meeting, before)
        said = [_told("victim", meeting.victim)]
        if meeting.rival is not None:
            said.append(_told("rival", meeting.rival))
        for line in _following(scene, cell.cloud, chance):
            ran = home.run(*line)
            said.append(_told("next", ran))
            if ran.code and line != LOOK:  # a look names what is not settled yet
                wrong.append(f"the next command ended with {ran.code}")
            wrong += check_nothing_is_lost(home, forgotten=forgotten)
            wrong += check_nothing_is_doubled(home, max(scene.buys, 1)) + check_results(home)
        codes = {0, OWED} if cell.action == "hostile" else {0}  # what nobody may end is said each time
        wrong += check_runs(home)
        wrong += _to_nothing(home, said, forgotten=forgotten, stops=scene.stops, codes=codes)
        wrong += check_stranger(home, theirs)
        if scene.placed:
            wrong += _no_group_left(home, said)
        return Outcome(struck=meeting.struck, wrong=tuple(wrong), told="\n".join(said))
    finally:
        home.close()


def _following(scene: Scene, cloud: str, chance: random.Random) -> Iterator[Line]:
    """What may come after the command, before all is swept: another look of a tender, a launch."""
    if scene.line(cloud) == LOOK and chance.random() < 0.5:
        yield LOOK
    if chance.random() < 0.1:
        yield (*LAUNCH, "--cloud", cloud, "--region", REGION[cloud], "--name", "other")


def _is_forgotten(scene: Scene, cell: Cell) -> bool:
    """Whether the journal may know nothing of what was made."""
    return scene.forgotten or cell.action == "swaps" or cell.kind == FORGETS


def _befallen(home: Home, scene: Scene, cell: Cell) -> Meeting:
    """Runs the command with what befalls it."""
    line, clouds = scene.line(cell.cloud), home.lab.clouds
    match cell.action:
        case "newer":
            with home.newer_journal():
                return Meeting(victim=home.run(*line))
        case "lag_calls" | "lag_s":
            clouds.pace(**{cell.action: cell.nth})
            try:
                return Meeting(victim=home.run(*line))
            finally:
                clouds.pace(**{cell.action: 0})
                home.lab.end_lag()
        case around if around in AROUND:
            plight = {} if around == "hostile" else {around: cell.nth}
            return Meeting(victim=home.run(*line, plight=plight))
        case what if what == MESSAGES:
            return befall(home, line, cell.nth, cell.plight)
        case local if local in LOCAL:
            more = [_ports(home.lab)] if local == "connections" else []
            victim = home.run(*line, plight={LOCAL[local][0]: [cell.plight, cell.nth + 1, *more]})
            return Meeting(victim=victim, struck=(home.path / local).exists())
        case _:
            return _struck(home, line, cell)


def _struck(home: Home, line: Line, cell: Cell) -> Meeting:
    """Runs the command, and one of its calls goes wrong."""
    plight, clouds = BY_NAME[cell.plight], home.lab.clouds
    rule = {**plight.fault(cell.cloud), "cloud": cell.cloud, "action": cell.action, "skip": cell.nth}
    if plight.meanwhile:
        return meet(home, line, plight, rule)
    number = clouds.fault(**rule)[-1]["number"]
    victim = home.run(*line, plight=plight.local)
    struck = all(each["struck"] for each in clouds.fault() if each["number"] == number)
    clouds.clear_faults()
    home.lose_what_was_not_synced()
    return Meeting(victim=victim, struck=struck)


def _after_victim(
    home: Home, scene: Scene, cell: Cell, meeting: Meeting, before: Collection[str]
) -> list[str]:
    victim, short_of_memory = meeting.victim, cell.action == "memory"
    plight = BY_NAME.get(cell.plight)
    wrong = check_nothing_is_lost(home, forgotten=_is_forgotten(scene, cell))
    if cell.action == MESSAGES:
        wrong += check_messages(home, cell.plight, victim, before)
    wrong += check_ends(home)
    if plight is None or not plight.meanwhile.startswith("down"):  # who names a box deletes what is on it
        wrong += check_results(home)
    moved = plight is not None and plight.meanwhile == "dearer"
    wrong += check_price(home, moved=moved) + check_nothing_is_doubled(home, max(scene.buys, 1))
    if plight is not None and plight.meanwhile:
        wrong += check_rival(home, scene, plight, meeting) + check_ceiling(home, scene, plight)
    if cell.action == "skew" and (victim.code == 0 or ours(home) or home.rows("SELECT id FROM intents")):
        wrong.append(f"bought by a wrong clock, exit code {victim.code}")
    if cell.action == "swaps" and meeting.struck:
        if (home.path / COMMITTED_AFTER_SWAP).exists():
            wrong.append("it has committed to a journal that is not its own")
        if victim.code and "journal" not in victim.err:  # after the last commit nobody looks
            wrong.append("nothing was said of the journal that was swapped")
    if cell.action == "hostile" and victim.code not in {0, OWED}:
        wrong.append(f"broken tags of one thing ended the command with {victim.code}")
    if victim.code != -signal.SIGKILL and not (short_of_memory and victim.code < 0):
        own_words = "unexpected:" in victim.err or "Traceback" in victim.err
        if victim.code < 0 or (own_words and not short_of_memory):
            wrong.append(f"the victim ended with {victim.code} and words of its own making")
        if meeting.rival is None or meeting.rival.code == 0:  # what that owes is not for the victim to tell
            # A stop signal may come when the box is ready and the lease given back: it is the rival's to end.
            done = plight is not None and plight.meanwhile.startswith("down") and home.was_ready()
            done = done or (victim.code != 0 and home.has_moved())  # what came then deletes nothing
            wrong += check_truthful(
                home,
                victim.code,
                ends=scene.ends,
                buys=0 if done else scene.buys,
                made=scene.made,
                kept=scene.kept,
                before=before,
            )
    return wrong


def _to_nothing(
    home: Home, said: list[str], *, forgotten: bool, stops: bool, codes: Container[int]
) -> list[str]:
    """What the next commands must reach, once nothing can still show up: that nothing of ours is billed."""
    if not ours(home):
        return []
    later = {"later": AFTER_THE_WINDOW_S}
    down, sweep = ("down", "--all", "--yes"), ("sweep", "--older-than", "0s", "--yes")
    lost = (down, sweep, ("recover",), down) if stops else (down, sweep)
    for line in lost if forgotten else (down,):
        last = home.run(*line, plight=later)
        said.append(_told(line[0], last))
        if last.code not in codes:
            return [f"{line[0]} ended with {last.code}"]
    query = "SELECT kind, name FROM boxes WHERE kind != 'box' AND state NOT IN ('deleted', 'failed')"
    for kind, name in home.rows(query):
        last = home.run(kind, "delete", name, "--yes", plight=later)
        said.append(_told("delete", last))
        if last.code:
            return [f"the deletion of {kind} {name} ended with {last.code}"]
    left = ours(home)
    return [f"{each['kind']} {each['id']} of {each['box']} is left" for each in left]


def _no_group_left(home: Home, said: list[str]) -> list[str]:
    """What costs nothing is deleted too, by the same sweep as everything else."""
    if not home.lab.placement_groups():
        return []
    last = home.run("sweep", "--older-than", "0s", "--yes", plight={"later": AFTER_THE_WINDOW_S})
    said.append(_told("sweep", last))
    return [f"the placement group {id_} is left" for id_ in home.lab.placement_groups()]


def _stranger(lab: Lab, cloud: str) -> int:
    """Something of somebody else's, under the same name; how many things that is."""
    home = lab.new_home("stranger", cloud)
    launched = home.run(*SCENES["launch"].line(cloud), owner=STRANGER)
    assert launched.code == 0, launched.err
    home.close()
    return sum(entry["owner"] == STRANGER for entry in lab.billing())


def _told(who: str, result: Result) -> str:
    return f"--- {who}: {result.code}\n{result.out}{result.err}"

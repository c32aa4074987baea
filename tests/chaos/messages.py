"""What can befall a command on the way to the server of a team's journal, at each of its messages."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from gpucloud.journal.store import Journal
from gpucloud.journal.verification import verify
from tests.chaos.crowd import now
from tests.chaos.lab import TIMEOUT_S, Home
from tests.chaos.rivals import NO_JOURNAL, Meeting
from tests.chaos.scenes import SCENES, Line, Scene, always, launched
from tests.chaos.teams import Team
from tests.forked import Forked
from tests.shell import Result

MESSAGES = "messages"
"""In place of an action: the messages of the command to the server."""
SLOW_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What befalls one message.

    Attributes:
        kind: ``T1``: a connection is lost; ``T2``: it goes silent; ``T3``: the server is gone; ``T4``: its
            disk is full; ``T5``: the process dies; ``T6``: an older replica takes over; ``T7``: all is slow.
        every: at every how manieth message it is tried.
        befalls: what to do, and the wire's answer; told the home's name, its team and the command.
        lasting: whether what follows meets the same.
        waits: how long the command waits for an answer, and how long it tries again.
    """

    kind: str
    every: int
    befalls: Callable[[Team, str, Forked], str | None]
    lasting: bool = False
    waits: tuple[float, float] = (2.0, 20.0)


def _wire(fate: str) -> Callable[[Team, str, Forked], str | None]:
    return lambda team, name, process: fate


def _restart(team: Team, name: str, process: Forked) -> None:
    team.hang_up(name)


def _silence(team: Team, name: str, process: Forked) -> None:
    team.wire.silent = True


def _fill(team: Team, name: str, process: Forked) -> None:
    team.fill(name)


def _fail_over(team: Team, name: str, process: Forked) -> None:
    team.put_back(name)


def _slow_down(team: Team, name: str, process: Forked) -> None:
    team.wire.round_trip_s = SLOW_S


def _kill(fate: str) -> Callable[[Team, str, Forked], str | None]:
    def befall(team: Team, name: str, process: Forked) -> str:
        process.send_signal(signal.SIGKILL)
        return fate

    return befall


TROUBLES: Mapping[str, Trouble] = {
    "cut": Trouble(kind="T1", every=1, befalls=_wire("cut")),
    "deaf": Trouble(kind="T1", every=1, befalls=_wire("deaf")),
    "restarted": Trouble(kind="T1", every=3, befalls=_restart),
    "mute": Trouble(kind="T2", every=5, befalls=_wire("mute")),
    "unheard": Trouble(kind="T2", every=5, befalls=_wire("unheard")),
    "gone": Trouble(kind="T3", every=2, befalls=_wire("cut"), lasting=True, waits=(2.0, 0.3)),
    "silent": Trouble(kind="T3", every=7, befalls=_silence, waits=(0.5, 0.3)),
    "full": Trouble(kind="T4", every=2, befalls=_fill),
    "killed-before": Trouble(kind="T5", every=2, befalls=_kill("cut")),
    "killed-after": Trouble(kind="T5", every=2, befalls=_kill("deaf")),
    "older": Trouble(kind="T6", every=3, befalls=_fail_over),
    "slow": Trouble(kind="T7", every=1000, befalls=_slow_down),
}
PASSES = frozenset({"T1", "T2", "T7"})
"""What a command gets over, once it has reached the server: it succeeds."""
AROUND_TEAMS: Mapping[str, tuple[str, Sequence[int]]] = {
    "clock": ("D9", (-8760, 8760)),
    "newer": ("D12", (1,)),
}
"""How things are around a command, as in plights.py: its clock is off by a year, the journal is newer."""
KINDS = frozenset({"T1", "T2", "T3", "T4", "T5", "T6", "T7", "D9", "D12"})
"""What is played of each command."""
FORGETS = "T6"
"""After this only tags tell of what was made since."""

_LOOKS: Mapping[str, Line] = {
    "list": ("list",),
    "list-live": ("list", "--live"),
    "show": ("show", "x"),
    "ssh-config": ("ssh-config",),
    "runs": ("runs", "list", "--all"),
    "spend": ("spend",),
    "metrics": ("metrics", "--once"),
    "dashboard": ("dashboard", "--html", "page.html"),
    "budget-list": ("budget", "list"),
    "budget-set": ("budget", "set", "lab", "500", "--per", "month"),
    "policy-show": ("policy", "show"),
    "volume-list": ("volume", "list"),
    "snapshot-list": ("snapshot", "list"),
    "journal-verify": ("journal", "verify"),
    "journal-copy": ("journal", "copy", "--to", "copy.db"),
}
SCENES_OF_TEAMS: Mapping[str, Scene] = {
    **SCENES,
    **{
        name: Scene(name=name, before=launched, line=always(*line), kept=1, reads=True)
        for name, line in _LOOKS.items()
    },
}
"""What is played with a team's journal: also commands that change nothing in a cloud."""


def befall(home: Home, line: Line, nth: int, name: str) -> Meeting:
    """Runs a command, and one of its messages fares as the trouble says."""
    trouble, team = TROUBLES[name], team_of(home)
    victim = Future[Forked]()
    begun, struck = team.wire.exchanges, False

    def strike(number: int) -> str | None:
        nonlocal struck
        at = number - begun
        if at == nth or (trouble.lasting and at > nth):
            struck = True
            return trouble.befalls(team, home.path.name, victim.result())
        return None

    team.wire.on_exchange = strike
    victim.set_result(home.start(*line, plight={"waits": trouble.waits}))
    try:
        out, err = victim.result().communicate(timeout=TIMEOUT_S)
    finally:
        team.clear(home.path.name)
    return Meeting(victim=Result(victim.result().wait(), out, err), struck=struck)


def check_messages(home: Home, name: str, victim: Result, before: Collection[str]) -> list[str]:
    """One lost message is made good; a command that never reached the server did nothing."""
    trouble = TROUBLES[name]
    wrong = [f"the journal: {each}" for each in differences(home)]
    refused = victim.code == NO_JOURNAL and "cannot be reached" in victim.err and set(home.boxes()) == before
    if trouble.kind in PASSES and victim.code != 0 and not refused:
        wrong.append(f"one lost message ended the command with {victim.code}")
    return wrong


def team_of(home: Home) -> Team:
    """The server of a home's journal."""
    assert home.lab.team is not None
    return home.lab.team


def differences(home: Home) -> Sequence[str]:
    """What the tables have, and the events do not tell; or the other way round."""
    journal = Journal.connect(team_of(home).behind(home.path.name), now, kind="sandbox")
    try:
        return verify(journal).differences
    finally:
        journal.close()

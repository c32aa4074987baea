"""What happens while a command waits: somebody's command on the same journal, or a price that moves."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpucloud_sandbox.market import in_usd
from tests.chaos.elsewhere import ASKABLE
from tests.chaos.lab import TIMEOUT_S, Home
from tests.chaos.plights import LEASE, WINDOW_S, Plight
from tests.chaos.scenes import LAUNCH, REGION, Line, Scene
from tests.chaos.truth import ours
from tests.forked import Forked
from tests.shell import Result

FACTOR = "5"
"""How much dearer everything becomes."""
NO_JOURNAL, TOO_DEAR, OWED = 2, 7, 8
LOOK_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """How a command ended, whether it was struck, and how the command ended that came by meanwhile.

    ``known``: whether the journal had a box by then.
    """

    victim: Result
    rival: Result | None = None
    known: bool = False
    struck: bool = True


def meet(home: Home, line: Line, plight: Plight, rule: Mapping[str, Any]) -> Meeting:
    """Runs a command that waits where ``rule`` strikes, and has the other thing happen there."""
    clouds = home.lab.clouds
    number = clouds.fault(**rule)[-1]["number"]
    process = home.start(*line, plight=plight.local)
    struck = _wait(home, process, number)
    rival, known = None, bool(home.boxes())
    if struck and plight.meanwhile == "dearer":
        clouds.price(cloud=home.cloud, factor=FACTOR)
    elif struck:
        time.sleep(LEASE[1] + LEASE[0])  # who does not renew a lease has lost it now
        what, place = plight.meanwhile.split()
        how = {"place": place, "patient": what != "down", "lease": LEASE, "window": WINDOW_S}
        rival = home.run(*_line(what, home.cloud), plight=how)
        process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    clouds.clear_faults()
    return Meeting(victim=Result(process.wait(), out, err), rival=rival, known=known, struck=struck)


def _line(what: str, cloud: str) -> Line:
    """A launch settles first what others have left; it buys nothing: no machine costs so little."""
    where = ("--cloud", cloud, "--region", REGION[cloud])
    return {
        "launch": (*LAUNCH, *where, "--name", "y", "--max-price", "0.01"),
        "sweep": ("sweep", "--older-than", "0s", "--yes"),
        "down": ("down", "--all", "--yes"),
    }[what]


def _wait(home: Home, process: Forked, number: int) -> bool:
    """Until the fault has struck, and stopped the process where it is to; false where that never happens."""
    while any(each["number"] == number for each in home.lab.clouds.fault()):
        if process.poll() is not None:
            return False
        time.sleep(LOOK_S)
    return True


def check_rival(home: Home, scene: Scene, plight: Plight, meeting: Meeting) -> list[str]:
    """K1: who lives keeps what it works on, unless that is taken by name; who lost it changes nothing."""
    rival, victim = meeting.rival, meeting.victim
    if rival is None:
        return []
    what, place = plight.meanwhile.split()
    wrong: list[str] = []
    locked_out = "database is locked" in rival.err  # by who was stopped in the middle of a write
    if rival.code not in {0, OWED, TOO_DEAR if what == "launch" else 0, NO_JOURNAL if locked_out else 0}:
        wrong.append(f"the rival ended with {rival.code}")
    lives = plight.name.startswith("held") or place in ASKABLE
    if what != "down" and lives and victim.code:
        wrong.append(f"a living holder ended with {victim.code}")
    known = meeting.known and not scene.forgotten  # or it was taken in only after
    if what == "down" and rival.code == 0 and known and ours(home):
        wrong.append(f"{len(ours(home))} things are billed after an explicit down")
    return wrong


def check_ceiling(home: Home, scene: Scene, plight: Plight) -> list[str]:
    """K2: no machine is kept that costs more than was agreed to, when the price moved while it was bought."""
    if scene.most_usd and plight.meanwhile == "dearer":
        most = Decimal(scene.most_usd[home.cloud])
        factor = Decimal(FACTOR) if plight.name == "dearer-since" else Decimal(1)
        for entry in ours(home):
            price = in_usd(Decimal(entry["price"]["amount"]), entry["price"]["currency"]) * factor
            if entry["kind"] == "instance" and price > most:
                return [f"{entry['id']} costs {price}, agreed was {most}"]
    return []

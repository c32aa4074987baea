"""Seven people share one journal, three names and three clouds, and are unlucky; run by ``make torture``.

Their commands are killed, stopped for longer than a lease and interrupted, while the clouds show things late.
Leases and the window in which a cloud may be late are shorter here, in the same proportion.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import Any

import pytest

from tests.chaos.elsewhere import may_leave
from tests.chaos.lab import CLOUDS, Home, Lab
from tests.chaos.plights import LEASE
from tests.chaos.scenes import LAUNCH, REGION, WANTED, Line
from tests.chaos.truth import check_nothing_is_doubled, check_price, ours
from tests.forked import Forked
from tests.processes import first_child

OPERATIONS = int(os.environ.get("TORTURE_OPERATIONS", "300"))
SEEDS = os.environ.get("TORTURE_SEEDS", "").split() or [f"{random.randrange(1 << 32):08x}" for _ in range(2)]  # noqa: S311
"""Others each time; those of a failure are named by it."""
NAMES = ("x", "y", "z")
LAG_S, WINDOW_S = 0.5, 8.0
"""How late the clouds are, and how late the program takes them to be at most."""
STOP_S = LEASE[1] + 1.0
LONGEST_S = 4.0
"""How long a command runs at most before something befalls it."""
PLIGHT = {"cloud": "", "patient": True, "lease": LEASE, "window": WINDOW_S}
MISFORTUNES = {
    "kill": (signal.SIGKILL, 12),
    "stop": (signal.SIGSTOP, 10),
    "interrupt": (signal.SIGINT, 10),
    "": (signal.SIGCONT, 68),
}
"""A signal, and how many of a hundred commands get it."""
PLACES = ("", "", "", "namespace", "namespace", "host", "renamed")
"""Where the seven are (:data:`tests.chaos.elsewhere.PLACES`)."""
TIMEOUT_S = 240.0


def some_line(chance: random.Random) -> Line:
    """What somebody does next."""
    name, cloud = chance.choice(NAMES), chance.choice(CLOUDS)
    where = ("--cloud", cloud, "--region", REGION[cloud], "--name", name)
    lines: dict[Line, int] = {
        (*LAUNCH, *where): 8,
        ("run", *WANTED, *where, "--", "true"): 4,
        ("down", name, "--yes"): 9,
        ("extend", name, "--ttl", "48h"): 2,
        ("sweep", "--older-than", "0s", "--yes"): 2,
        ("list",): 1,
        ("list", "--live"): 1,
    }
    return chance.choices(list(lines), list(lines.values()))[0]


def strike(process: Forked, misfortune: str, after_s: float, *, in_child: bool) -> None:
    """What befalls a command a while after it began, if it still runs."""
    with suppress(ProcessLookupError):
        try:
            process.wait(timeout=after_s)
        except TimeoutExpired:
            working = first_child(process.pid) if in_child else process.pid
            os.kill(working, MISFORTUNES[misfortune][0])
            if misfortune == "stop":
                time.sleep(STOP_S)
                os.kill(working, signal.SIGCONT)


def work(home: Home, seed: str, number: int) -> list[str]:
    """One person's commands; those that ended as none may."""
    chance = random.Random(f"{seed} {number}")  # noqa: S311
    place = {"place": PLACES[number]} if PLACES[number] and may_leave() else {}
    weights = [weight for _, weight in MISFORTUNES.values()]
    wrong: list[str] = []
    for _ in range(number, OPERATIONS, len(PLACES)):
        line = some_line(chance)
        process = home.start(*line, plight={**PLIGHT, **place})
        misfortune, after_s = chance.choices(list(MISFORTUNES), weights)[0], chance.uniform(0.05, LONGEST_S)
        if misfortune:
            strike(process, misfortune, after_s, in_child=bool(place))
        out, err = process.communicate(timeout=TIMEOUT_S)
        code = process.wait()
        killed = misfortune == "kill" and code in {-signal.SIGKILL, 128 + signal.SIGKILL}
        if not killed and (code < 0 or "unexpected:" in err or "Traceback" in err):
            wrong.append(
                f"{' '.join(line)} ({misfortune} after {after_s:.2f} s) ended with {code}: {out}{err}"
            )
    return wrong


def doubles(home: Home) -> list[str]:
    """Where two machines of one name lived at the same time."""
    names: dict[str, str] = dict(home.rows("SELECT id, name FROM boxes"))
    alive: defaultdict[str, set[str]] = defaultdict(set)
    wrong: list[str] = []
    for event in home.lab.clouds.ledger():
        if event.get("kind") != "instance":
            continue
        name = names.get(event["box"], event["box"])
        if event["event"] == "died":
            alive[name].discard(event["id"])
            continue
        alive[name].add(event["id"])
        if len(alive[name]) > 1:
            wrong.append(f"{name} has {sorted(alive[name])} at {event['at']}")
    return wrong


def to_nothing(home: Home) -> list[str]:
    """What must be reached once nothing can still show up."""
    wrong: list[str] = []
    for line in (("down", "--all", "--yes"), ("sweep", "--older-than", "0s", "--yes")):
        time.sleep(WINDOW_S + LAG_S)
        last = home.run(*line, plight=PLIGHT)
        if last.code:
            wrong.append(f"{line[0]} ended with {last.code}: {last.err}")
    return wrong + [f"{each['kind']} {each['id']} of {each['box']} is left" for each in ours(home)]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_seven_who_share_three_names_never_have_two_machines_of_one_nor_lose_any(lab: Lab, seed: str) -> None:
    home = lab.begin("")
    lab.clouds.pace(lag_s=LAG_S)
    began = time.monotonic()
    try:
        with ThreadPoolExecutor(len(PLACES)) as pool:
            wrong = [
                each
                for found in pool.map(lambda n: work(home, seed, n), range(len(PLACES)))
                for each in found
            ]
    finally:
        lab.clouds.pace(lag_s=0)
    made = sum(event.get("kind") == "instance" for event in lab.clouds.ledger() if event["event"] == "born")
    wrong += doubles(home) + check_nothing_is_doubled(home, 1) + check_price(home) + to_nothing(home)
    states: dict[str, Any] = {}
    for state in home.boxes().values():
        states[state] = states.get(state, 0) + 1
    sys.stdout.write(
        f"seed {seed}: {OPERATIONS} operations in {time.monotonic() - began:.0f} s, {made} machines, "
        f"boxes {json.dumps(states)}\n"
    )
    home.close()
    assert not wrong, f"TORTURE_SEEDS={seed}\n" + "\n".join(wrong)

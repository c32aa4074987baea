"""Two machines that tend the same runs, whose boxes their cloud takes back; run by ``make torture``.

Their looks are killed, and stopped for longer than a lease, at any moment.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.chaos.elsewhere import may_leave
from tests.chaos.lab import CLOUDS, Home, Lab
from tests.chaos.plights import LEASE, WINDOW_S
from tests.chaos.scenes import REGION, WANTED
from tests.chaos.torture import TIMEOUT_S, strike
from tests.chaos.truth import check_nothing_is_doubled, check_runs, ours

LOOKS = int(os.environ.get("TEND_LOOKS", "60"))
"""So many in all."""
SEED = os.environ.get("TEND_SEED") or f"{random.randrange(1 << 32):08x}"  # noqa: S311
PLACES = ("host", "namespace")
"""Where the two are: neither sees the processes of the other."""
MISFORTUNES = {"stop": 20, "kill": 10, "": 70}
"""How many of a hundred looks get it."""
LONGEST_S = 1.5
"""How long a look runs at most before something befalls it."""
LATER_S = 400.0
"""So much passes with each interruption: longer than any pause before a restart."""


@dataclass
class Tale:
    """Runs on one cloud, one after another, and what befell who looked after them."""

    home: Home
    chance: random.Random
    later_s: float = 0.0
    begun: int = 0
    told: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    over: threading.Event = field(default_factory=threading.Event)

    def plight(self) -> dict[str, object]:
        """What holds for every command."""
        return {"lease": LEASE, "window": WINDOW_S, "later": self.later_s, "job": "running"}

    def look(self, place: str, seed: str, looks: int) -> None:
        """Looks of one machine, one after another."""
        chance = random.Random(seed)  # noqa: S311
        for _ in range(looks):
            process = self.home.start("tend", plight={**self.plight(), "place": place})
            what = chance.choices(list(MISFORTUNES), list(MISFORTUNES.values()))[0]
            if what:
                strike(process, what, chance.uniform(0.05, LONGEST_S), in_child=True)
            out, err = process.communicate(timeout=TIMEOUT_S)
            code = process.wait()
            self.told[what or "undisturbed"] += 1
            killed = what == "kill" and code in {-signal.SIGKILL, 128 + signal.SIGKILL}
            if not killed and (code < 0 or "unexpected:" in err or "Traceback" in err):
                self.wrong.append(f"tend ({what}) ended with {code}: {out}{err}")

    def trouble(self) -> None:
        """Takes boxes back, and begins another run where none is left, until it is over."""
        while not self.over.wait(self.chance.uniform(0.1, 1.0)):
            machines = [each["id"] for each in ours(self.home) if each["kind"] == "instance"]
            running = self.home.rows("SELECT 1 FROM runs WHERE state IN ('running', 'waiting')")
            if machines:
                self.home.lab.clouds.interrupt(self.chance.choice(machines), notice_s=0)
                self.told["interruptions"] += 1
                self.later_s += LATER_S
            elif not running:
                self.begin()

    def begin(self) -> None:
        """Begins a run."""
        self.begun += 1
        where = ("--cloud", self.home.cloud, "--region", REGION[self.home.cloud])
        line = (
            "run",
            "--detach",
            "--run-id",
            f"r{self.begun}",
            *WANTED,
            *where,
            "--spot",
            "--restarts",
            "99",
        )
        self.home.run(*line, "--", "true", plight=self.plight())


@pytest.mark.timeout(7200)
@pytest.mark.skipif(not may_leave(), reason="this system gives no namespaces to this user")
@pytest.mark.parametrize("cloud", CLOUDS)
def test_two_machines_that_tend_one_run_never_relaunch_it_twice(lab: Lab, cloud: str) -> None:
    home = lab.begin(cloud)
    tale = Tale(home, random.Random(f"{SEED} {cloud}"))  # noqa: S311
    began = time.monotonic()
    tale.begin()
    with ThreadPoolExecutor(3) as pool:
        troubled = pool.submit(tale.trouble)
        each = LOOKS // len(CLOUDS) // len(PLACES) + 1
        looking = [pool.submit(tale.look, place, f"{SEED} {cloud} {place}", each) for place in PLACES]
        try:
            for one in looking:
                one.result()
        finally:
            tale.over.set()
        troubled.result()
    boxes = sum(row[0] for row in home.rows("SELECT COUNT(*) FROM boxes"))
    wrong = [*tale.wrong, *check_runs(home), *check_nothing_is_doubled(home, 1)]
    for line in (("down", "--all", "--yes"), ("sweep", "--older-than", "0s", "--yes")):
        time.sleep(WINDOW_S)
        home.run(*line, plight=tale.plight())
    wrong += [f"{each['kind']} {each['id']} is left" for each in ours(home)]
    sys.stdout.write(
        f"seed {SEED} on {cloud}: {dict(tale.told)}, {tale.begun} runs, {boxes} boxes "
        f"in {time.monotonic() - began:.0f} s\n"
    )
    home.close()
    assert not wrong, f"TEND_SEED={SEED}\n" + "\n".join(wrong)

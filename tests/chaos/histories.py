"""Somebody's commands and bad luck in any order: Hypothesis looks for a history that ends badly.

Run by ``make torture``; a failure comes with the shortest history that shows it.
"""

from __future__ import annotations

import os
import signal
from typing import Any, ClassVar

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.chaos.lab import CLOUDS, STRANGER, Home, Lab
from tests.chaos.plights import PLIGHTS, Plight
from tests.chaos.scenes import LAUNCH, REGION, SCENES
from tests.chaos.schedules import AFTER_THE_WINDOW_S
from tests.chaos.truth import (
    check_nothing_is_doubled,
    check_nothing_is_lost,
    check_price,
    check_stranger,
    ours,
)

HISTORIES = int(os.environ.get("HISTORIES", "40"))
NAMES = st.sampled_from(["x", "y"])
NTH = st.integers(0, 12)
"""Which call is struck; one that a command does not make is no bad luck."""
LUCK = st.one_of(st.none(), st.tuples(st.sampled_from([each for each in PLIGHTS if not each.meanwhile]), NTH))
RULES: dict[str, Any] = {"luck": LUCK}


class History(RuleBasedStateMachine):
    """What is true whatever happened: see :mod:`tests.chaos.truth`."""

    lab: ClassVar[Lab]

    @initialize(cloud=st.sampled_from(CLOUDS), nodes=st.sampled_from([1, 2]))
    def begin(self, cloud: str, nodes: int) -> None:
        self.home: Home = self.lab.begin_after(_with_a_stranger, cloud)
        self.theirs = sum(each["owner"] == STRANGER for each in self.lab.billing())
        self.nodes = nodes
        self.later_s = 0.0
        self.forgotten = False

    @rule(name=NAMES, **RULES)
    def launch(self, name: str, luck: tuple[Plight, int] | None) -> None:
        where = ("--cloud", self.home.cloud, "--region", REGION[self.home.cloud])
        self._run(luck, *LAUNCH, *where, "--name", name, "--run-id", name, "--nodes", str(self.nodes))

    @rule(name=NAMES, **RULES)
    def down(self, name: str, luck: tuple[Plight, int] | None) -> None:
        self._run(luck, "down", name, "--yes")

    @rule(name=NAMES, **RULES)
    def down_run(self, name: str, luck: tuple[Plight, int] | None) -> None:
        self._run(luck, "down", "--run-id", name, "--yes")

    @rule(**RULES)
    def sweep(self, luck: tuple[Plight, int] | None) -> None:
        self._run(luck, "sweep", "--older-than", "0s", "--yes")

    @rule(**RULES)
    def recover(self, luck: tuple[Plight, int] | None) -> None:
        self._run(luck, "recover")

    @rule(**RULES)
    def look(self, luck: tuple[Plight, int] | None) -> None:
        self._run(luck, "list", "--live")

    @rule()
    @precondition(lambda self: not self.forgotten)
    def lose_the_journal(self) -> None:
        for file in self.home.state.glob("journal.db*"):
            file.unlink()
        self.forgotten = True

    @rule()
    def let_time_pass(self) -> None:
        self.later_s += AFTER_THE_WINDOW_S

    @invariant()
    def nothing_is_wrong(self) -> None:
        wrong = check_nothing_is_lost(self.home, forgotten=self.forgotten)
        wrong += check_nothing_is_doubled(self.home, self.nodes) + check_price(self.home)
        wrong += check_stranger(self.home, self.theirs)
        assert not wrong, wrong

    def teardown(self) -> None:
        if not hasattr(self, "home"):
            return
        self.later_s += AFTER_THE_WINDOW_S
        for line in (("down", "--all", "--yes"), ("sweep", "--older-than", "0s", "--yes")):
            last = self._run(None, *line)
            assert last == 0
        assert ours(self.home) == []
        assert check_stranger(self.home, self.theirs) == []

    def _run(self, luck: tuple[Plight, int] | None, *line: str) -> int:
        clouds, plight = self.lab.clouds, dict[str, Any]({"later": self.later_s})
        if luck is not None:
            struck, nth = luck
            plight |= struck.local
            clouds.fault(**{**struck.fault(self.home.cloud), "skip": nth})
        ran = self.home.run(*line, plight=plight)
        clouds.clear_faults()
        self.home.lose_what_was_not_synced()
        assert ran.code >= 0 or ran.code == -signal.SIGKILL, ran.err
        assert "unexpected:" not in ran.err, ran.err
        return ran.code


def _with_a_stranger(home: Home, cloud: str) -> None:
    launched = home.run(*SCENES["launch"].line(cloud), owner=STRANGER)
    assert launched.code == 0, launched.err
    for file in home.state.glob("journal.db*"):
        file.unlink()


def test_no_history_ends_badly(lab: Lab) -> None:
    """``History`` asserts after each step; a failure shows the shortest history that makes it."""
    History.lab = lab
    run_state_machine_as_test(
        History,
        settings=settings(
            max_examples=HISTORIES,
            stateful_step_count=8,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

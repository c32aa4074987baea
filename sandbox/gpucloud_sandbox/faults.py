"""Injected faults: which calls fail, when, and how."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import count


class Stage(StrEnum):
    """Where in a call's life a fault strikes."""

    RECEIVED = "received"  # nothing has changed yet
    APPLIED = "applied"  # the cloud has done it, the answer has not left
    ANSWERED = "answered"  # the answer has left


class Effect(StrEnum):
    """What happens then."""

    ERROR = "error"  # the cloud answers with an error
    THROTTLE = "throttle"  # the cloud answers with its own way of saying "too many requests"
    DELAY = "delay"  # the call takes longer
    HANG = "hang"  # the call is never answered
    DROP = "drop"  # the connection is closed without an answer
    RESET = "reset"  # the connection is reset without an answer, like one of a pool that has died
    REPEAT = "repeat"  # the request arrives twice
    STALE = "stale"  # nothing is done, and an earlier answer to such a call is given
    IGNORE = "ignore"  # nothing is done, and the answer says that it was; not for calls that start machines
    EMPTY = "empty"  # the lists in the answer are empty
    TRICKLE = "trickle"  # the answer comes in pieces
    DRIP = "drip"  # the answer comes byte by byte, and never ends
    PAGES = "pages"  # every list says that it goes on, without an end
    BOMB = "bomb"  # a small answer unpacks to a large one
    TRUNCATE = "truncate"  # the answer ends in its middle
    GARBLE = "garble"  # the answer makes no sense
    REDIRECT = "redirect"  # the answer sends the caller to another host
    KILL = "kill"  # the calling process gets a signal: SIGKILL, unless another is named


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as the faults and the counters see it."""

    cloud: str
    service: str
    action: str
    region: str
    mutating: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A rule. ``cloud``, ``action`` and ``region`` are globs.

    It passes over the first ``skip`` matching calls and strikes the next ``times``; ``None`` is all of them.
    ``code``, ``status`` and ``message`` are of an ``error``; ``seconds`` of a ``delay``, ``trickle`` or
    ``drip``; ``signal`` of a ``kill``.
    """

    effect: Effect
    stage: Stage = Stage.RECEIVED
    cloud: str = "*"
    action: str = "*"
    region: str = "*"
    times: int | None = 1
    skip: int = 0
    code: str = "InternalError"
    status: int = 500
    message: str = "An internal error has occurred"
    seconds: float = 0.0
    signal: str = "SIGKILL"

    def matches(self, call: Call, stage: Stage) -> bool:
        """Whether the rule applies to this call at this stage."""
        return (
            self.stage is stage
            and fnmatchcase(call.cloud, self.cloud)
            and fnmatchcase(call.action, self.action)
            and fnmatchcase(call.region, self.region)
        )


class Faults:
    """The rules in force, with what is left of each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._rules: dict[int, Fault] = {}
        self._seen: dict[int, int] = {}

    def add(self, fault: Fault) -> int:
        """Adds a rule; returns its number."""
        with self._lock:
            number = next(self._numbers)
            self._rules[number] = fault
            self._seen[number] = 0
        return number

    def clear(self, number: int | None = None) -> None:
        """Removes one rule, or all."""
        with self._lock:
            for each in list(self._rules) if number is None else [number]:
                self._rules.pop(each, None)
                self._seen.pop(each, None)

    def rules(self) -> dict[int, Fault]:
        """The rules that can still strike."""
        with self._lock:
            return {number: rule for number, rule in self._rules.items() if not self._spent(number, rule)}

    def struck(self, number: int) -> int:
        """How often a rule has struck."""
        with self._lock:
            return max(self._seen[number] - self._rules[number].skip, 0)

    def may_kill(self, call: Call) -> bool:
        """Whether a rule can still kill the process that sends this call."""
        rules = self.rules().values()
        return any(rule.effect is Effect.KILL and rule.matches(call, rule.stage) for rule in rules)

    def strike(self, call: Call, stage: Stage) -> Sequence[Fault]:
        """The faults of this call at this stage, in the order of the rules. Counts the rules down."""
        with self._lock:
            due: list[Fault] = []
            for number, rule in self._rules.items():
                if not rule.matches(call, stage) or self._spent(number, rule):
                    continue
                self._seen[number] += 1
                if self._seen[number] > rule.skip:
                    due.append(rule)
            return due

    def _spent(self, number: int, rule: Fault) -> bool:
        return rule.times is not None and self._seen[number] >= rule.skip + rule.times

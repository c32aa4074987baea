"""Budgets as the journal keeps them: what may be spent in a period, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum


class Per(StrEnum):
    """The period of a budget."""

    RUN = "run"  # the boxes of one run; a box without a run is by itself
    DAY = "day"  # in UTC, as months are
    MONTH = "month"
    TOTAL = "total"


class BudgetAction(StrEnum):
    """What a budget does to a plan that would exceed it."""

    WARN = "warn"
    REFUSE = "refuse"
    DOWN = "down"  # a launch gets an earlier end; boxes end when it is used up; all else is refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What a budget is for: a box of one of the values of each field; an empty field means all.

    ``tags`` are (name, value): a box with one of the values of each name.
    """

    owners: tuple[str, ...] = ()
    clouds: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What may be spent. ``warn`` has percentages of ``amount``, ascending."""

    amount: Decimal
    currency: str
    per: Per
    match: Match
    warn: tuple[int, ...]
    action: BudgetAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One budget: its terms, and the owner id of who set or removed it last, and when.

    ``number`` is that of its last event. Nobody holds a budget: its epoch is always 0.
    """

    id: str
    name: str
    terms: Terms
    by: str
    at: datetime
    number: int = 0
    removed: bool = False


def budget_id(name: str) -> str:
    """The id under which the events of a budget stand; no box or run has such a one."""
    return f"budget:{name}"

"""Budgets as the journal keeps them: what may be spent in a period, and on what."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from gpucloud.journal.facts import Data, plain


class Per(StrEnum):
    """The period of a budget."""

    RUN = "run"  # the boxes of one run; a box without a run is by itself
    DAY = "day"  # in UTC, as months are
    MONTH = "month"
    TOTAL = "total"


class Action(StrEnum):
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
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One budget: its terms, and the owner id of who set it last, and when."""

    id: str
    name: str
    terms: Terms
    by: str
    at: datetime


def budget_id(name: str) -> str:
    """The id under which the events of a budget stand; no box or run has such a one."""
    return f"budget:{name}"


def terms_text(terms: Terms) -> str:
    """Terms as JSON text for the journal's table."""
    return json.dumps(plain(terms), sort_keys=True)


def read_terms(data: Data) -> Terms:
    """The reverse of :func:`terms_text`."""
    match: dict[str, Any] = {name: tuple(values) for name, values in data["match"].items()}
    match["tags"] = tuple((name, value) for name, value in match["tags"])
    values: dict[str, Any] = {
        **data,
        "amount": Decimal(data["amount"]),
        "per": Per(data["per"]),
        "match": Match(**match),
        "warn": tuple(data["warn"]),
        "action": Action(data["action"]),
    }
    return Terms(**values)

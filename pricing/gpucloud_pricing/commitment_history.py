"""The commitments of accounts in the file of prices: the newest answers of each cloud's account."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from gpucloud_pricing.sqlite_file import json_list, time_of
from gpucloud_pricing.values import Commitment, Money, SavingsPlan

TABLE = """
CREATE TABLE commitments (
    cloud TEXT NOT NULL,
    account TEXT NOT NULL,
    inquiry TEXT NOT NULL,
    seen TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    region TEXT,
    zone TEXT,
    instance_type TEXT,
    count INTEGER NOT NULL,
    per_hour TEXT,
    currency TEXT,
    purchase TEXT,
    terms TEXT,
    family TEXT,
    until TEXT,
    source TEXT NOT NULL
) STRICT
"""
"""The migration to the version with this table."""

Cell = str | int | None


def replace_commitments(
    connection: sqlite3.Connection,
    cloud: str,
    account: str,
    told: Mapping[str, Sequence[Commitment]],
    untold: Collection[str],
    *,
    at: str,
) -> None:
    """Stores the commitments of an account, in place of earlier ones.

    Args:
        connection: the file, in a transaction.
        cloud: the provider's name.
        account: the account; commitments of another account are removed.
        told: the answers, by inquiry.
        untold: the inquiries without an answer: their earlier answers stay.
        at: the time of the answers, as the file has it.
    """
    connection.execute(
        "DELETE FROM commitments WHERE cloud = ? AND NOT "
        "(account = ? AND inquiry IN (SELECT value FROM json_each(?)))",
        (cloud, account, json_list(untold)),
    )
    connection.executemany(
        "INSERT INTO commitments VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(cloud, account, inquiry, at, *_row(each)) for inquiry, found in told.items() for each in found],
    )


def commitments(connection: sqlite3.Connection) -> list[Commitment]:
    """The commitments of accounts; ``as_of`` is the day of the answer."""
    rows = connection.execute(
        "SELECT * FROM commitments ORDER BY cloud, region, kind, instance_type, until, id"
    ).fetchall()
    return [_commitment(row) for row in rows]


def _row(commitment: Commitment) -> tuple[Cell, ...]:
    """The columns of a commitment after those of its origin and time."""
    plan = commitment.plan
    spending: tuple[Cell, ...] = (None,) * 5
    if plan is not None:
        money = plan.per_hour
        spending = (f"{money.amount:f}", money.currency, plan.purchase, plan.terms, plan.family)
    return (
        commitment.kind,
        commitment.id,
        commitment.region,
        commitment.zone,
        commitment.instance_type,
        commitment.count,
        *spending,
        None if commitment.until is None else commitment.until.isoformat(),
        commitment.source,
    )


def _commitment(row: Sequence[Any]) -> Commitment:
    cloud, _, _, seen, kind, id_, region, zone, instance_type, count, *spending, until, source = row
    amount, currency, purchase, terms, family = spending
    plan = None
    if amount is not None:
        money = Money(amount=Decimal(amount), currency=currency)
        plan = SavingsPlan(per_hour=money, purchase=purchase, terms=terms, family=family)
    return Commitment(
        cloud=cloud,
        kind=kind,
        id=id_,
        region=region,
        zone=zone,
        instance_type=instance_type,
        count=count,
        plan=plan,
        until=None if until is None else date.fromisoformat(until),
        as_of=time_of(seen).date(),
        source=source,
    )

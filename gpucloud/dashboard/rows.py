"""The rows of the page: boxes, what costs and should not, runs, prices. Pure functions."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.api.box import Box
from gpucloud.dashboard.money import by_currency, use
from gpucloud.journal.lifecycle import HALTING
from gpucloud.journal.records import Box as JournalBox
from gpucloud.resources import Resource, State, Tags, rfc3339
from gpucloud_pricing import format_count
from gpucloud_pricing.price_trend import moments, trend
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.api.run import Run, RunAttempt
    from gpucloud.api.snapshot import Snapshot
    from gpucloud.api.volume import Volume
    from gpucloud.dashboard.documents import (
        AttemptDocument,
        BoxRowDocument,
        PriceRowDocument,
        RunRowDocument,
        TroubleDocument,
    )
    from gpucloud.market.history import PriceTrends
    from gpucloud_pricing.documents import MoneyDocument

POINTS = 30
"""How many moments the history of a price is drawn with."""


# --- boxes


def box_row(box: Box, record: JournalBox, now: datetime) -> BoxRowDocument:
    """One box; ``record`` is the same in the journal."""
    gpu_percent, idle_s, reported_at = use(record, now)
    parts = (box.per_hour.compute, box.per_hour.disk, box.per_hour.address)
    health = {f"{what}: {said}": None for guard in box.guards if guard for what, said in guard.health.items()}
    return {
        "id": box.id,
        "name": box.name,
        "owner": box.owner,
        "run_id": box.run_id,
        "state": str(box.state),
        "signs": list(dict.fromkeys(_signs(box))),
        "gpu": None if box.gpu is None else f"{box.gpu.model}:{format_count(box.gpu.count)}",
        "nodes": len(box.nodes),
        "instance_type": box.instance_type,
        "cloud": box.cloud,
        "place": box.zone or box.region,
        "purchase": str(box.purchase) if box.purchase else None,
        "per_hour": [] if box.is_over else [money.document() for money in box.paying],
        "at_least": not box.is_over and None in parts,
        "so_far": box.cost_so_far.document() if box.cost_so_far else None,
        "at_most": box.cost_so_far != box.cost_at_least,
        "created_at": rfc3339(box.created_at),
        "expires_at": _time(box.expires_at),
        "seen_at": _time(box.seen_at),
        "ended_at": _time(box.ended_at),
        "gpu_percent": gpu_percent,
        "idle_s": idle_s,
        "reported_at": _time(reported_at),
        "faults": [*health, *([box.setup_error] if box.setup_error else [])],
    }


def _signs(box: Box) -> Iterator[str]:
    """Keys of what is remarkable about a box, the worst first."""
    if box.is_over:
        if box.ended_by:
            yield f"ended.{box.ended_by}"
        return
    if box.overdue:
        yield "overdue"
    if box.abandoned:
        yield "abandoned"
    if box.setup_error:
        yield "billed"
    if box.ended_by:
        yield f"ended.{box.ended_by}"
    elif any(node.state is State.GONE for node in box.nodes):
        yield "nodes"
    stopped = [node for node in box.nodes if node.state is State.STOPPED]
    if any(node.billed for node in stopped):
        yield "halted"
    for guard in box.guards:
        if guard is not None and guard.taken_back_at:
            yield "notice"
        if guard is not None and guard.health:
            yield "sick"


# --- what costs and should not


def box_troubles(boxes: Iterable[Box], owner: str, program: str) -> Iterator[TroubleDocument]:
    """The boxes that should have ended, were left unfinished, or do not work, with what ends each.

    Args:
        boxes: the living boxes.
        owner: whose boxes the commands end; those of others have none.
        program: the beginning of the commands.
    """
    for box in boxes:
        why, since = _why(box)
        if why is None:
            continue
        verb = "stop" if box.state in HALTING else "down"
        yield {
            "what": "box",
            "name": box.name,
            "owner": box.owner,
            "why": why,
            "since": _time(since),
            "per_hour": [money.document() for money in box.paying],
            "command": f"{program} {verb} {shlex.quote(box.name)}" if box.owner == owner else None,
        }


def _why(box: Box) -> tuple[str | None, datetime | None]:
    """The key of why a box should not cost any more, and since when; the gravest if there are several."""
    if box.overdue:
        return "why.overdue", box.expires_at
    if box.ended_by:
        return f"why.{box.ended_by}", box.compute_ended_at
    if box.abandoned:
        return "why.abandoned", None
    if box.setup_error:
        return "why.setup", None
    if any(guard and guard.health for guard in box.guards):
        return "why.sick", None
    return None, None


def stored_troubles(
    volumes: Iterable[Volume], snapshots: Iterable[Snapshot], owner: str, program: str
) -> Iterator[TroubleDocument]:
    """The volumes and snapshots that are kept beyond their end."""
    stored: list[tuple[str, Volume | Snapshot, Money | None]] = [
        *(("volume", volume, volume.per_hour) for volume in volumes),
        *(("snapshot", snapshot, snapshot.most_per_hour) for snapshot in snapshots),
    ]
    for what, each, price in stored:
        if each.overdue:
            yield {
                "what": what,
                "name": each.name,
                "owner": each.owner,
                "why": "why.overdue",
                "since": _time(each.expires_at),
                "per_hour": by_currency([price] if price else []),
                "command": f"{program} {what} delete {shlex.quote(each.name)}"
                if each.owner == owner
                else None,
            }


def untracked_troubles(untracked: Iterable[Resource], owner: str, program: str) -> Iterator[TroubleDocument]:
    """What the clouds bill and no living box in the journal has; ``sweep`` says what is to be done."""
    for resource in untracked:
        tags = resource.tags if isinstance(resource.tags, Tags) else None
        yield {
            "what": str(resource.ref.kind),
            "name": f"{resource.ref.cloud} {resource.ref.region} {resource.ref.id}",
            "owner": tags.owner if tags else "",
            "why": "why.stranger",
            "since": _time(resource.created_at),
            "per_hour": [],
            "command": f"{program} sweep" if tags and tags.owner == owner else None,
        }


# --- runs


def run_row(run: Run) -> RunRowDocument:
    """One run with its attempts."""
    whole = [each for each in run.attempts if each.checkpoint is not None]
    return {
        "run_id": run.run_id,
        "state": str(run.state),
        "abandoned": run.abandoned,
        "command": run.command if isinstance(run.command, str) else shlex.join(run.command),
        "cluster": run.cluster,
        "restarts": run.restarts,
        "most_restarts": run.most_restarts,
        "box": run.attempts[-1].box if run.attempts else None,
        "checkpoint": whole[-1].checkpoint if whole else None,
        "checkpoint_bytes": whole[-1].checkpoint_bytes if whole else None,
        "cost": by_currency(run.cost_so_far),
        "created_at": rfc3339(run.created_at),
        "restart_at": _time(run.restart_at),
        "expires_at": _time(run.expires_at),
        "ended_at": _time(run.ended_at),
        "exit_code": run.exit_code,
        "failure": run.failure.message if run.failure else None,
        "attempts": [_attempt(each) for each in run.attempts],
    }


def _attempt(attempt: RunAttempt) -> AttemptDocument:
    where = " ".join(filter(None, (attempt.cloud, attempt.zone or attempt.region)))
    return {
        "at": rfc3339(attempt.at),
        "box": attempt.box,
        "place": where or None,
        "instance_type": attempt.instance_type,
        "loss": str(attempt.loss) if attempt.loss else None,
        "lost_at": _time(attempt.lost_at),
        "message": attempt.message,
        "cost": by_currency(attempt.cost_so_far),
    }


# --- prices


def price_rows(trends: Mapping[str, PriceTrends], now: datetime) -> list[PriceRowDocument]:
    """The history of the prices of GPUs in use, by GPU."""
    return [row for gpu, found in trends.items() for row in _price_rows(gpu, found, now)]


def _price_rows(gpu: str, found: PriceTrends, now: datetime) -> Iterator[PriceRowDocument]:
    at = moments(found.since, now, POINTS)
    for spans in found.series.values():
        price, amounts = spans[-1].price, [span.price.amount for span in found.within(spans)]
        lowest, highest = (_money(bound(amounts), price.currency) for bound in (min, max))
        yield {
            "gpu": gpu,
            "place": f"{price.cloud} {price.zone or price.region}",
            "instance_type": price.instance_type,
            "purchase": price.purchase,
            "price": _money(price.amount, price.currency),
            "lowest": lowest,
            "highest": highest,
            "seen_at": rfc3339(spans[-1].seen),
            "points": [None if amount is None else float(amount) for amount in trend(spans, at)],
        }


def _money(amount: Decimal, currency: str) -> MoneyDocument:
    return Money(amount=amount, currency=currency).document()


def _time(moment: datetime | None) -> str | None:
    return rfc3339(moment) if moment else None

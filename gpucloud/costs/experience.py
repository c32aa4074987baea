"""An owner's own history on spot, from the journal: hours and interruptions by place and type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gpucloud_pricing import Offer
from gpucloud_pricing.estimate import Place, place_of
from gpucloud_pricing.values import Experience

if TYPE_CHECKING:
    from gpucloud.journal.records import SpotRun

HISTORY = timedelta(days=365)
"""How far back a history counts: markets change, and three interruptions need time."""


def experiences(runs: Iterable[SpotRun], now: datetime) -> dict[Place, Experience]:
    """The history of each place and type within :data:`HISTORY`.

    Args:
        runs: the intervals in which machines ran.
        now: the end of the history.
    """
    since = now - HISTORY
    by_place: dict[Place, list[SpotRun]] = defaultdict(list)
    for run in runs:
        if run.end > max(since, run.start):
            recent = replace(run, start=max(since, run.start))
            by_place[run.cloud, run.region, run.instance_type].append(recent)
    return {place: _experience(found) for place, found in by_place.items()}


def with_experience(offers: Iterable[Offer], known: Mapping[Place, Experience]) -> list[Offer]:
    """The offers, those on spot with the owner's own history."""
    return [
        replace(offer, experience=known.get(place_of(offer))) if offer.paid_as.interruptible else offer
        for offer in offers
    ]


def _experience(runs: list[SpotRun]) -> Experience:
    """The history of one place and type; a machine is interrupted once, however often it was started."""
    return Experience(
        hours=sum((run.end - run.start).total_seconds() for run in runs) / 3600,
        interruptions=len({run.machine for run in runs if run.taken_back}),
        since=min(run.start for run in runs).date(),
        until=max(run.end for run in runs).date(),
    )

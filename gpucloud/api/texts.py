"""What boxes, volumes, snapshots and runs have in common in tables: places, prices, GPUs, ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gpucloud.rendering.texts import duration_text
from gpucloud.resources import rfc3339
from gpucloud_pricing import format_count, format_money

if TYPE_CHECKING:
    from gpucloud.journal.facts import Gpu, GuardReport, Slice
    from gpucloud_pricing.values import Money

HOURS_PER_DAY = 24


def money_text(money: Money | None) -> str | None:
    """An amount; ``None`` if it is unknown."""
    return None if money is None else format_money(money.amount, money.currency)


def sums_text(sums: Iterable[Money]) -> str | None:
    """Amounts in several currencies; ``None`` without any."""
    return " + ".join(format_money(each.amount, each.currency) for each in sums) or None


def per_day_text(per_hour: Money | None) -> str | None:
    """A price per hour as one per day; ``None`` if it is unknown."""
    return None if per_hour is None else format_money(per_hour.amount * HOURS_PER_DAY, per_hour.currency)


def time_left_text(expires_at: datetime | None, now: datetime) -> str | None:
    """The time until a deadline, zero once it is over."""
    return None if expires_at is None else duration_text(max(expires_at - now, timedelta()))


def place_text(*words: str | None) -> str:
    """A place, of the parts that are known."""
    return " ".join(filter(None, words))


def gpu_text(gpu: Gpu | None, slices: Sequence[Slice]) -> str | None:
    """The GPUs of each node, in the grammar of ``--gpu``: ``A100:8``, ``A10:1/6``, ``H100/1g.10gb:7``."""
    if gpu is None:
        return None
    profiles = Counter(each.profile for each in slices if each.node == 0)
    cut = [f"{gpu.model}/{profile}:{count}" for profile, count in profiles.items()]
    return ",".join(cut) or f"{gpu.model}:{format_count(gpu.count)}"


def alarms(guard: GuardReport) -> Iterator[str]:
    """What needs attention on a node, by its guard."""
    yield from (f"{what}: {said}" for what, said in guard.health.items())
    if guard.taken_back_at:
        yield f"interrupted at {moment_text(guard.taken_back_at)}"
    elif guard.ending:
        yield f"ending: {guard.ending}"
    if guard.clock_ahead_s is not None and not guard.clock_is_right:
        yield f"clock wrong by {guard.clock_ahead_s:.0f} s"


def moment_text(seconds: float) -> str:
    """A moment of Unix time."""
    return rfc3339(datetime.fromtimestamp(seconds, UTC))

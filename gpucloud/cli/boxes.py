"""A box as documents and tables show it."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucloud.cli.output import Output, abandon_stdout, duration_text, money, money_text
from gpucloud.errors import OwedError, UsageError
from gpucloud.journal.lifecycle import OVER
from gpucloud.resources import State, rfc3339

if TYPE_CHECKING:
    from gpucloud.journal.store import Box


NODE = ("instance_id", "state", "public_ip", "private_ip")
"""What a document says of a node."""


def box_document(box: Box, now: datetime) -> dict[str, Any]:
    """BOX of the contract. What is not known yet is ``null``."""
    facts = box.facts
    price: dict[str, Any] = facts.get("price") or {}
    cost = box.compute_cost(now)
    return {
        "name": box.name,
        "id": box.id,
        "run_id": box.run_id,
        "owner": box.owner,
        "state": str(box.state),
        "cloud": facts.get("cloud"),
        "region": facts.get("region"),
        "zone": facts.get("zone"),
        "instance_type": facts.get("instance_type"),
        "gpu": facts.get("gpu"),
        "purchase": facts.get("purchase"),
        "nodes": [{name: node.get(name) for name in NODE} for node in facts.get("nodes") or ()],
        "price": price or None,
        "price_as_of": facts.get("price_as_of"),
        "price_source": facts.get("price_source"),
        "created_at": rfc3339(box.created_at),
        "expires_at": rfc3339(box.expires_at) if box.expires_at else None,
        "overdue": overdue(box, now),
        "seen_at": rfc3339(box.seen_at) if box.seen_at else None,
        "ended_at": rfc3339(box.ended_at) if box.ended_at else None,
        "ended_by": facts.get("ended_by"),
        "compute_ended_at": rfc3339(box.compute_ended_at) if box.compute_ended_at else None,
        "cost_so_far": money(cost, str(price.get("currency", "USD"))),
        "mig": facts.get("mig") or [],
        "accept_test": facts.get("accept_test") or [],
        "replaced": facts.get("replaced"),
        "guards": [_guard_document(said) for said in facts.get("guards") or ()],
    }


def _guard_document(said: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a node's guard said when it was last asked, its times as everywhere; ``None`` for silence."""
    if said is None:
        return None
    times = {name: said.get(name) for name in ("at", "taken_back_at", "deadline")}
    told = {name: rfc3339(datetime.fromtimestamp(value, UTC)) for name, value in times.items() if value}
    return {**said, **told}


def guard_text(guard: dict[str, Any] | None) -> str:
    """What a node's guard says, for people."""
    if guard is None:
        return "says nothing"
    words = [f"watches ({guard['at']})", f"idle for {duration_text(timedelta(seconds=guard['idle_s']))}"]
    if guard.get("gpu_percent"):
        words.append(f"GPUs at {', '.join(f'{percent} %' for percent in guard['gpu_percent'])}")
    return ", ".join([*words, *_alarms(guard)])


def _alarms(guard: dict[str, Any]) -> list[str]:
    """What somebody should know of a node."""
    words = [f"{what}: {said}" for what, said in guard.get("health", {}).items()]
    if guard.get("taken_back_at"):
        words.append(f"taken back at {guard['taken_back_at']}")
    elif guard.get("ending"):
        words.append(f"ending: {guard['ending']}")
    if guard.get("clock_ahead_s") is not None and not guard.get("clock_is_right"):
        words.append(f"its clock is wrong by {guard['clock_ahead_s']:.0f} s")
    return words


def overdue(box: Box, now: datetime) -> bool:
    """Whether a living box has passed its end."""
    return box.state not in OVER and box.expires_at is not None and box.expires_at < now


def paying_text(boxes: Sequence[Box]) -> str:
    """The sentence after each action: what is now being paid per hour."""
    from gpucloud.costs.spend import paid_per_hour

    sums: dict[str, Decimal] = {}
    for box in boxes:
        for currency, amount in paid_per_hour(box).items():
            sums[currency] = sums.get(currency, Decimal(0)) + amount
    if not sums:
        return "Nothing is being paid for now."
    return "Now paying " + " and ".join(f"{money_text(v, c)} per hour" for c, v in sorted(sums.items())) + "."


@contextmanager
def answering(done: str, living: Sequence[Box]) -> Generator[None]:
    """Answers after something was changed. Where the answer cannot be written, stderr has the news.

    Args:
        done: what was done, as a sentence without its end.
        living: the boxes that may be billed.

    Raises:
        OwedError: the answer was lost, and something is billed.
        UsageError: the answer was lost, and nothing is billed. A reader who went away is no failure then.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        lost = f"{done}, but the answer could not be written to stdout: {error.strerror}"
        billed = [box for box in living if box.facts.get("nodes")]
        if not billed and isinstance(error, BrokenPipeError):
            abandon_stdout()
            return
        if not billed:
            raise UsageError(lost, hint="see what is known: gpucloud list") from error
        names = " ".join(box.name for box in billed)
        raise OwedError(
            f"{lost}. These run and are billed: {names}",
            hint="see what is known: gpucloud list",
            left=[_left_document(box) for box in billed],
            owed_command=f"gpucloud down {names} --yes",
        ) from error


def _left_document(box: Box) -> dict[str, Any]:
    """A living box as ``left`` of the error document holds it."""
    facts = box.facts
    return {
        "kind": "instance",
        "id": facts["nodes"][0]["instance_id"],
        "cloud": facts.get("cloud"),
        "region": facts.get("region"),
        "price": facts.get("price"),
    }


def show_boxes(output: Output, boxes: Sequence[Box], now: datetime) -> None:
    """Prints boxes as a table."""
    rows: list[Sequence[object]] = []
    for box in boxes:
        facts = box.facts
        gpu: dict[str, Any] = facts.get("gpu") or {}
        price: dict[str, Any] = facts.get("price") or {}
        currency = str(price.get("currency", "USD"))
        nodes: list[dict[str, Any]] = facts.get("nodes") or []
        rows.append(
            (
                box.name,
                _state_text(box, now),
                f"{gpu.get('model')}:{_count(gpu.get('count'))}" if gpu else None,
                facts.get("instance_type"),
                " ".join(
                    part for part in (facts.get("cloud"), facts.get("zone") or facts.get("region")) if part
                ),
                (facts.get("purchase") or "").replace("_", "-") or None,
                _per_hour_text(box, currency),
                money_text(box.compute_cost(now), currency),
                duration_text(now - box.created_at),
                _left(box, now),
                (nodes[0].get("public_ip") if nodes else None) if box.state not in OVER else None,
            )
        )
    output.table(
        ("NAME", "STATE", "GPU", "TYPE", "WHERE", "PAID AS", "PER HOUR", "SO FAR", "AGE", "LEFT", "ADDRESS"),
        rows,
        right=("PER HOUR", "SO FAR", "AGE", "LEFT"),
    )


ENDED = {"ttl": "ended by its ttl", "cloud": "taken back by its cloud", "itself": "ended before its time"}
"""Why a box ended that nobody has taken down (``gpucloud.journal.lifecycle.EndedBy``), for people."""


def _state_text(box: Box, now: datetime) -> str:
    guards = [_guard_document(said) for said in box.facts.get("guards") or ()]
    remarks = ["overdue"] if overdue(box, now) else []
    if box.state not in OVER:
        ended_by = box.facts.get("ended_by")
        stopped = [node for node in box.facts.get("nodes") or () if node["state"] == State.STOPPED]
        if ended_by:
            remarks = [ENDED[ended_by]]
        elif box.gone_nodes:
            remarks.append(f"{box.gone_nodes} of {len(box.facts['nodes'])} nodes gone")
        if any(node.get("billed", True) for node in stopped):
            remarks.append("stopped, still billed")
        elif stopped:
            remarks.append("stopped: disk and address are billed")
        remarks += dict.fromkeys(word for guard in guards if guard for word in _alarms(guard))
    return f"{box.state} ({'; '.join(remarks)})" if remarks else str(box.state)


def _per_hour_text(box: Box, currency: str) -> str | None:
    """What a box costs per hour; of one that lives and has ended, what is billed of it still."""
    nodes: list[dict[str, Any]] = box.facts.get("nodes") or []
    if box.state not in OVER and not all(node.get("billed", True) for node in nodes):
        from gpucloud.costs.spend import paid_per_hour

        left = paid_per_hour(box) or {currency: Decimal(0)}
        return " + ".join(money_text(amount, name) for name, amount in left.items())
    return money_text(box.price_per_hour * max(len(nodes), 1), currency) if box.price_per_hour else None


def _count(text: str | None) -> str:
    return format(Decimal(text or "1").normalize(), "f")


def _left(box: Box, now: datetime) -> str | None:
    if box.state in OVER:
        return None
    return duration_text(box.expires_at - now) if box.expires_at else "no end"

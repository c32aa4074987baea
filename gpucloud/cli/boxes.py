"""Boxes as tables and sentences."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.cli.market import paid_cell, show_table
from gpucloud.cli.output import Output, abandon_stdout, duration_text
from gpucloud.cli.palette import Cell, Role
from gpucloud.errors import OwedError, UsageError
from gpucloud.journal.errors import JournalError
from gpucloud.journal.lifecycle import BoxState
from gpucloud.resources import State, rfc3339
from gpucloud_pricing import format_count, format_money

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.api.client import Client
    from gpucloud.cli.documents.errors import LeftDocument
    from gpucloud.journal.facts import Gpu, GuardReport, Slice


def guard_text(guard: GuardReport | None) -> str:
    """A node's guard report as text."""
    if guard is None:
        return "no report"
    words = [f"running ({_moment(guard.at)})", f"idle for {duration_text(timedelta(seconds=guard.idle_s))}"]
    if guard.gpu_percent:
        words.append(f"GPUs at {', '.join(f'{percent} %' for percent in guard.gpu_percent)}")
    return ", ".join([*words, *_alarms(guard)])


def _moment(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(seconds, UTC))


def _alarms(guard: GuardReport) -> list[str]:
    """What needs attention on a node."""
    words = [f"{what}: {said}" for what, said in guard.health.items()]
    if guard.taken_back_at:
        words.append(f"interrupted at {_moment(guard.taken_back_at)}")
    elif guard.ending:
        words.append(f"ending: {guard.ending}")
    if guard.clock_ahead_s is not None and not guard.clock_is_right:
        words.append(f"clock wrong by {guard.clock_ahead_s:.0f} s")
    return words


def paying_text(boxes: Sequence[Box] | None) -> str:
    """The sentence after each action: what the boxes cost per hour now; ``None`` if that is not known."""
    if boxes is None:
        return "What your boxes cost now is unknown: the journal cannot be read."
    sums: dict[str, Decimal] = {}
    for box in boxes:
        for money in box.paying:
            sums[money.currency] = sums.get(money.currency, Decimal(0)) + money.amount
    unknown = [box.name for box in boxes if not box.is_over and is_bound(box)]
    if not sums:
        return f"The cost of {', '.join(unknown)} is unknown." if unknown else "Your boxes cost nothing now."
    costs = [f"{format_money(amount, currency)} per hour" for currency, amount in sorted(sums.items())]
    least = "at least " if unknown else ""
    return f"Your boxes cost {least}{' and '.join(costs)} now."


def living_after(client: Client) -> Sequence[Box] | None:
    """The living boxes, after something was done; ``None`` where the journal cannot be read any more.

    What was done is done: that makes no failure of it.
    """
    try:
        return client.list()
    except JournalError:
        return None


@contextmanager
def answering(done: str, living: Sequence[Box]) -> Generator[None]:
    """Prints the answer of a command that changed something. If that fails, the error says what was done.

    Args:
        done: what was done, as a sentence without its full stop.
        living: the boxes that may be billed.

    Raises:
        OwedError: the answer could not be written, and boxes are billed.
        UsageError: the answer could not be written, and nothing is billed. A closed pipe is no failure then.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        lost = f"{done}, but the answer could not be written to stdout: {error.strerror}"
        billed = [box for box in living if box.nodes]
        if not billed and isinstance(error, BrokenPipeError):
            abandon_stdout()
            return
        if not billed:
            raise UsageError(lost, hint="list the boxes: gpucloud list") from error
        names = " ".join(box.name for box in billed)
        raise OwedError(
            f"{lost}. These run and are billed: {names}",
            hint="list the boxes: gpucloud list",
            left=[{**_left_document(box)} for box in billed],
            owed_command=f"gpucloud down {names} --yes",
        ) from error


def _left_document(box: Box) -> LeftDocument:
    """A living box as an entry of ``left`` in the error document."""
    return {
        "kind": "instance",
        "id": box.nodes[0].instance_id,
        "cloud": box.cloud,
        "region": box.region,
        "price": box.price.document() if box.price else None,
    }


COLUMNS = (
    *("NAME", "STATE", "GPU", "TYPE", "WHERE", "PAID AS"),
    *("PER HOUR", "SO FAR", "AGE", "LEFT", "ADDRESS"),
)

HIDDEN_FIRST = ("PAID AS", "TYPE", "ADDRESS", "AGE", "SO FAR", "WHERE")
"""The columns of boxes that a narrow terminal does without: money and time left are shown before them."""


def show_boxes(output: Output, boxes: Sequence[Box]) -> None:
    """Prints boxes as a table."""
    now = datetime.now(UTC)
    rows: list[Sequence[object]] = [
        (
            box.name,
            state_cell(box),
            _gpus_text(box),
            box.instance_type,
            " ".join(filter(None, (box.cloud, box.zone or box.region))),
            box.purchase and paid_cell(box.purchase),
            per_hour_text(box),
            cost_text(box),
            duration_text(now - box.created_at),
            left_text(box, now),
            box.nodes[0].public_ip if box.nodes and not box.is_over else None,
        )
        for box in boxes
    ]
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    show_table(output, columns, right=("PER HOUR", "SO FAR", "AGE", "LEFT"), optional=HIDDEN_FIRST)


ENDED = {
    "ttl": "ended by its ttl",
    "cloud": "interrupted by its cloud",
    "itself": "ended before its deadline",
}
"""Why a box ended without ``down`` (``gpucloud.journal.lifecycle.EndedBy``), as text."""


def gpu_text(gpu: Gpu | None, slices: Sequence[Slice]) -> str | None:
    """The GPUs of each node, in the grammar of ``--gpu``: ``A100:8``, ``A10:1/6``, ``H100/1g.10gb:7``."""
    if gpu is None:
        return None
    profiles = Counter(each.profile for each in slices if each.node == 0)
    cut = [f"{gpu.model}/{profile}:{count}" for profile, count in profiles.items()]
    return ",".join(cut) or f"{gpu.model}:{format_count(gpu.count)}"


def _gpus_text(box: Box) -> str | None:
    """The GPUs of a box, with the number of nodes: ``2 × T4:1``."""
    each = gpu_text(box.gpu, box.mig)
    return f"{len(box.nodes)} × {each}" if each and len(box.nodes) > 1 else each


def state_cell(box: Box) -> Cell:
    """The state of a box, and what needs attention."""
    role = Role.OVERDUE if box.overdue else Role.FAILED if box.state in _ATTENTION else None
    return Cell(state_text(box), role)


_ATTENTION = (BoxState.FAILED, BoxState.INTERRUPTED)


def state_text(box: Box) -> str:
    """The state of a box and what needs attention, as text."""
    remarks = ["overdue"] if box.overdue else []
    if not box.is_over:
        if box.setup_error:
            remarks.append("still billed")
        stopped = [node for node in box.nodes if node.state == State.STOPPED]
        gone = sum(node.state == State.GONE for node in box.nodes)
        if box.ended_by:
            said_by_state = box.state is BoxState.INTERRUPTED and box.ended_by == "cloud"
            remarks = [] if said_by_state else [ENDED[box.ended_by]]
        elif gone:
            remarks.append(f"{gone} of {len(box.nodes)} nodes gone")
        if any(node.billed for node in stopped):
            remarks.append("stopped, still billed")
        elif stopped and box.state is not BoxState.STOPPED:
            remarks.append("stopped: disk and address are billed")
        remarks += dict.fromkeys(word for guard in box.guards if guard for word in _alarms(guard))
    return f"{box.state} ({'; '.join(remarks)})" if remarks else str(box.state)


def per_hour_text(box: Box) -> str | None:
    """The present spending on a box; a lower bound if the price of a part is unknown."""
    if box.is_over or not box.nodes:
        return None
    sums = [format_money(each.amount, each.currency) for each in box.paying]
    bound = "≥ " if is_bound(box) else ""
    return bound + (" + ".join(sums) or format_money(Decimal(0), _currency(box)))


def cost_text(box: Box) -> str | None:
    """The cost so far; an upper limit if nothing tells when its machines ended."""
    cost = box.cost_so_far
    if cost is None:
        return None
    bound = "≤ " if is_at_most(box) else ""
    return bound + format_money(cost.amount, cost.currency)


def is_at_most(box: Box) -> bool:
    """Whether the cost so far is an upper limit."""
    return box.cost_so_far != box.cost_at_least


def at_most_text(names: Iterable[str]) -> str:
    """Why the costs of boxes are upper limits."""
    return (
        f"≤: until the latest time at which machines of {', '.join(names)} can have ended, at most their"
        " deadline; when somebody looked, the cloud did not tell any more when they ended."
    )


def bound_text(boxes: Sequence[Box]) -> str:
    """Why costs per hour are lower bounds: which parts of which boxes have no known price."""
    parts = [
        f"{part} of {box.name}"
        for box in boxes
        for part in ("compute", "disk", "address")
        if getattr(box.per_hour, part) is None
    ]
    return f"≥: no price is known for {', '.join(parts)}."


def is_bound(box: Box) -> bool:
    """Whether the price of a part is unknown, so that the box costs at least what is known."""
    return None in (box.per_hour.compute, box.per_hour.disk, box.per_hour.address)


def _currency(box: Box) -> str:
    return box.price.currency if box.price else "USD"


def left_text(box: Box, now: datetime) -> str | None:
    """The time until the deadline; ``None`` for a box that has ended."""
    if box.is_over:
        return None
    return duration_text(box.expires_at - now) if box.expires_at else "no end"

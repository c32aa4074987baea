"""Boxes in sentences: what they cost now, and why an amount is a limit."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from decimal import Decimal
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from gpucloud.api.box import is_bound
from gpucloud.api.texts import alarms, moment_text
from gpucloud.cli.output import abandon_stdout
from gpucloud.errors import CleanupIncompleteError, UsageError
from gpucloud.journal.errors import JournalError
from gpucloud.processes import ENDING
from gpucloud.rendering.texts import duration_text
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.api.client import Client
    from gpucloud.cli.documents.errors import LeftDocument
    from gpucloud.journal.facts import GuardReport


def guard_text(guard: GuardReport | None) -> str:
    """A node's guard report as text."""
    if guard is None:
        return "no report"
    idle = duration_text(timedelta(seconds=guard.idle_s))
    words = [f"running ({moment_text(guard.at)})", f"idle for {idle}"]
    if guard.gpu_percent:
        words.append(f"GPUs at {', '.join(f'{percent} %' for percent in guard.gpu_percent)}")
    return ", ".join([*words, *alarms(guard)])


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

    From here on a signal ends the process at once; the exit code is 8 where boxes are billed, as if the
    answer could not be written.

    Args:
        done: what was done, as a sentence without its full stop.
        living: the boxes that may be billed.

    Raises:
        CleanupIncompleteError: the answer could not be written, and boxes are billed.
        UsageError: the answer could not be written, and nothing is billed. A closed pipe is no failure then.
    """
    billed = [box for box in living if box.nodes]
    if billed:
        _end_as_owed(f"stopped after the end: {done}. These run and are billed", billed)
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        lost = f"{done}, but the answer could not be written to stdout: {error.strerror}"
        if not billed and isinstance(error, BrokenPipeError):
            abandon_stdout()
            return
        if not billed:
            raise UsageError(lost, hint="list the boxes: gpucloud list") from error
        names = " ".join(box.name for box in billed)
        raise CleanupIncompleteError(
            f"{lost}. These run and are billed: {names}",
            hint="list the boxes: gpucloud list",
            left=[{**_left_document(box)} for box in billed],
            owed_command=f"gpucloud down {names} --yes",
        ) from error


def _end_as_owed(said: str, billed: Sequence[Box]) -> None:
    """Has signals end the process with the exit code of what is still billed, until it ends by itself."""
    names = " ".join(box.name for box in billed)
    told = f"\nerror: {said}: {names}\n  delete with: gpucloud down {names} --yes\n".encode()

    def end(signum: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        with suppress(OSError):
            os.write(2, told)
        os._exit(CleanupIncompleteError.exit_code)

    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, end)


def _left_document(box: Box) -> LeftDocument:
    """A living box as an entry of ``left`` in the error document."""
    return {
        "kind": "instance",
        "id": box.nodes[0].instance_id,
        "cloud": box.cloud,
        "region": box.region,
        "price": box.price.document() if box.price else None,
    }


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

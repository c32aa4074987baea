"""The guard's decisions, as pure functions."""

from __future__ import annotations

import json
import time
from calendar import timegm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

NEVER = {"deadline": None, "limit_s": None}


def seconds_left(end: Mapping[str, Any], *, wall: float, wall_is_right: bool, spent: float) -> float | None:
    """How long the box may still live; ``None`` for ever.

    Args:
        end: ``deadline`` as the wall's time, ``limit_s`` as uptime in all; each may be ``None``.
        wall: seconds since 1970 by this box's clock.
        wall_is_right: whether a server has confirmed that clock.
        spent: uptime so far, of all boots.
    """
    left: list[float] = []
    if end["deadline"] is not None and wall_is_right:
        left.append(end["deadline"] - wall)
    if end["limit_s"] is not None:
        left.append(end["limit_s"] - spent)
    return min(left) if left else None


def saving_s(end: Mapping[str, Any]) -> float:
    """How long before its deadline a box saves its work: five minutes, or a tenth of a shorter life."""
    return min(300.0, (end["limit_s"] or 3000.0) / 10)


def spent_before(record: Mapping[str, Any] | None, boot: str) -> float:
    """What to add to this boot's uptime to get the uptime of all boots.

    Args:
        record: ``spent_s`` in all when the boot ``boot`` was ``up`` so long; ``None`` where nothing is known.
        boot: which boot this is.
    """
    if record is None:
        return 0.0
    return float(record["spent_s"]) - (float(record["up"]) if record["boot"] == boot else 0.0)


_ENDS = ("Preempt", "Terminate")


def notice_time(body: str) -> float | None:
    """When the cloud interrupts the box, by its metadata service: seconds since 1970.

    EC2 answers ``{"action": "terminate", "time": "2026-01-01T00:00:00Z"}`` and Alibaba Cloud the bare time.
    Azure lists ``Events`` with ``EventType`` and ``NotBefore`` (``Mon, 19 Sep 2016 18:29:47 GMT``, or empty
    once it has begun).
    """
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        return moment(body.strip())
    if not isinstance(answer, dict):
        return None
    fields: dict[str, Any] = {**answer}
    events: Any = fields.get("Events")
    listed: list[Any] = [*events] if isinstance(events, list) else []
    if not listed:
        return moment(str(fields.get("time", "")))
    told: list[dict[str, Any]] = [{**each} for each in listed if isinstance(each, dict)]
    ends = [each for each in told if each.get("EventType") in _ENDS]
    times = [moment(str(each.get("NotBefore") or "")) or 0.0 for each in ends]
    return min(times) if times else None


def moment(text: str) -> float | None:
    """A time as HTTP's ``Date``, or as RFC 3339 in UTC: seconds since 1970."""
    for form in ("%Y-%m-%dT%H:%M:%SZ", "%a, %d %b %Y %H:%M:%S GMT"):
        try:
            return float(timegm(time.strptime(text, form)))
        except ValueError:
            continue
    return None


def read_gpus(text: str) -> list[tuple[int, int]]:
    """Utilisation in percent and uncorrected memory errors of each GPU; 0 for what a GPU does not report."""
    rows = [line.split(",") for line in text.splitlines()]
    return [(_number(row[1]), _number(row[2])) for row in rows if len(row) >= 3 and row[0].strip().isdigit()]


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() and len(text) < 99 else 0


def read_xids(text: str) -> list[tuple[str, str]]:
    """The driver's errors in lines of the kernel's log: the GPU's bus, such as ``0000:00:1e``, and the words.

    The words are such as ``79, pid=1, GPU has fallen off the bus.``
    """
    marked = (line.partition("NVRM: Xid ") for line in text.splitlines())
    parts = [rest.partition(": ") for _, found, rest in marked if found]
    return [(bus.strip("()").replace("PCI:", ""), words.strip()[:200]) for bus, _, words in parts]


# The Xids after which NVIDIA has the GPU reset or the machine restarted at once, and 48, an uncorrected
# memory error. Source: "Analyzing Xid Errors with the Xid Catalog" (Ampere and newer), immediate actions
# RESET_GPU and RESTART_BM, as NVIDIA's NVSentinel lists them in xiderrorsmapping.csv (2025).
HARDWARE = frozenset((46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, 160, 162))


def xid_number(xid: str) -> int:
    """The number of an error of the driver."""
    return _number(xid.partition(",")[0])


def read_cpu_seconds(text: str) -> float:
    """The time on processors out of a control group's ``cpu.stat``."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == "usage_usec":
            return int(value) / 1e6
    return 0.0

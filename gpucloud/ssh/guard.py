"""The guard of a box, over ssh."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from gpucloud.errors import GpucloudError
from gpucloud.ssh.client import Target, run
from gpucloud_templates import GUARD_CONTROL, GUARD_STATUS

STATUS_TIMEOUT_S = 20.0
MOST_BYTES = 65536
MOST_ENTRIES = 64
MOST_CHARACTERS = 200
MOST = 1e11
"""The limit of times, in seconds since 1970, and of durations."""

NUMBERS = ("at", "left_s", "deadline", "clock_ahead_s", "idle_s", "sessions", "taken_back_at")
FLAGS = ("clock_is_right", "jobs")


def guard_status(target: Target) -> Mapping[str, Any] | None:
    """The guard's last status (see :func:`read_status`); ``None`` if it has written none.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    script = f"cat {GUARD_STATUS} 2>/dev/null || true"
    return read_status(
        run(target, ["sh", "-c", script], timeout_s=STATUS_TIMEOUT_S, most_bytes=MOST_BYTES).out
    )


def faulty_hardware(target: Target) -> str | None:
    """What the guard reports of faulty hardware: an error that a reset has to clear, or a GPU that is gone.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    health: Mapping[str, str] = (guard_status(target) or {}).get("health", {})
    found = [f"Xid {health['hardware']}"] if "hardware" in health else []
    found += [f"GPUs: {health['gpus']}"] if "gpus" in health else []
    return "; ".join(found) or None


def move_end(target: Target, deadline: datetime | None, *, left_s: float | None) -> None:
    """Sets the guard's deadline, by the clock and by uptime; ``None`` is no deadline.

    Raises:
        ConnectionFailedError: the box could not be reached.
        GpucloudError: the guard did not accept it.
    """
    words = [
        "none" if value is None else f"{value:.0f}" for value in (deadline and deadline.timestamp(), left_s)
    ]
    done = run(target, ["sudo", "-n", GUARD_CONTROL, "extend", *words])
    if done.code:
        said = _words(done.err.decode(errors="replace").strip()) or f"exit code {done.code}"
        raise GpucloudError(f"the guard of {target.alias} did not accept the new deadline: {said}")


def keep_results(target: Target, *, kept: bool) -> None:
    """Tells the guard that a node has results that nobody has fetched, so that being idle does not end it.

    Raises:
        ConnectionFailedError: the box could not be reached.
        GpucloudError: the guard did not accept it.
    """
    done = run(target, ["sudo", "-n", GUARD_CONTROL, "keep", "on" if kept else "off"])
    if done.code:
        said = _words(done.err.decode(errors="replace").strip()) or f"exit code {done.code}"
        raise GpucloudError(f"the guard of {target.alias} did not note that results are kept: {said}")


def read_status(text: bytes) -> Mapping[str, Any] | None:
    """The guard's status as plain JSON of known fields and types, which any user of the box may have written.

    ``at``, ``deadline`` and ``taken_back_at`` are seconds since 1970, ``left_s``, ``clock_ahead_s`` and
    ``idle_s`` durations; ``gpu_percent`` has one number per GPU, ``health`` the faults, in words. ``None``
    for text that cannot be parsed.
    """
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    said = cast("dict[str, Any]", found)
    if _number(said.get("at")) is None or _number(said.get("idle_s")) is None:
        return None
    return {
        **{name: _number(said.get(name)) for name in NUMBERS},
        **{name: said.get(name) is True for name in FLAGS},
        "gpu_percent": _percents(said.get("gpu_percent")),
        "ending": _words(said["ending"]) if isinstance(said.get("ending"), str) else None,
        "health": _health(said.get("health")),
    }


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < MOST else None


def _percents(values: Any) -> list[float | int]:
    several = cast("list[object]", values) if isinstance(values, list) else []
    return [number for value in several[:MOST_ENTRIES] if (number := _number(value)) is not None]


def _health(said: Any) -> dict[str, str]:
    entries = list(cast("dict[str, Any]", said if isinstance(said, dict) else {}).items())[:MOST_ENTRIES]
    return {_words(what): _words(words) for what, words in entries if isinstance(words, str)}


def _words(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:MOST_CHARACTERS])

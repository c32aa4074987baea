"""Bringing a box up over ssh: its host key replaced, its bootstrap waited for, its GPUs counted."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpucloud.ssh import ConnectionFailedError, Failure, Target, connect, disconnect, run
from gpucloud.ssh_keys import ONE_TIME, checked_public_key, discard_one_time_key, pin, pinned
from gpucloud_templates import FAILED_MARKER, READY_MARKER


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as the box's driver names it."""

    index: int
    name: str
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BootState:
    """How far a box's bootstrap is: ``seconds`` per step once ``ready``; ``failed`` names a step."""

    ready: bool
    seconds: Mapping[str, float]
    failed: str | None = None
    exit_code: int | None = None


# --- the host key


_NEW_HOST_KEY = """set -eu
new=/etc/ssh/gpucloud_new_host_key
[ -s $new.pub ] || { rm -f $new; ssh-keygen -q -t ed25519 -N '' -C '' -f $new; }
cat $new.pub
"""
_USE_HOST_KEY = """set -eu
new=/etc/ssh/gpucloud_new_host_key key=/etc/ssh/ssh_host_ed25519_key
[ ! -e $new ] || mv $new $key
[ ! -e $new.pub ] || mv $new.pub $key.pub
systemctl reload ssh || systemctl reload sshd
"""


def rotate_host_key(target: Target) -> None:
    """Has the box make a new host key and pins it, so that the one in the user-data is good for nothing.

    To be done in the first connection, before anything else is sent. Does nothing once it is done, and can be
    repeated after a crash at any point: both keys are accepted until the new one is in use.

    Raises:
        ConnectionFailedError: the box could not be reached, or could not change its key.
    """
    old = [key for key in pinned(target.keys, target.alias) if key.endswith(f" {ONE_TIME}")]
    if not old:
        return
    new = _public_key(_on_box(target, _NEW_HOST_KEY))
    pin(target.keys, target.alias, [*old, new])
    _on_box(target, _USE_HOST_KEY)
    disconnect(target)
    pin(target.keys, target.alias, [new])
    connect(target)
    discard_one_time_key(target.keys)


def _on_box(target: Target, script: str) -> str:
    """Runs a script of ours as root on the box, and gives its output."""
    done = run(target, ["sudo", "-n", "sh", "-c", script], timeout_s=60)
    if done.code:
        said = done.err.decode(errors="replace").strip()[:200]
        raise ConnectionFailedError(
            f"{target.alias} could not change its host key: {said}",
            failure=Failure.BROKEN,
            hint="the old key still works; the same command tries again",
        )
    return done.out.decode(errors="replace")


def _public_key(text: str) -> str:
    try:
        return checked_public_key(text)
    except ValueError as error:
        raise ConnectionFailedError(
            f"the box named no usable host key: {error}", failure=Failure.HOST_KEY
        ) from error


# --- the bootstrap


def boot_state(target: Target) -> BootState:
    """How far the bootstrap is.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    script = f"cat {FAILED_MARKER} 2>/dev/null || cat {READY_MARKER} 2>/dev/null || true"
    text = run(target, ["sh", "-c", script]).out[:65536]
    try:
        found: Any = json.loads(text) if text.strip() else {}
        if "step" in found:
            return BootState(
                ready=False, seconds={}, failed=str(found["step"]), exit_code=int(found["exit_code"])
            )
        seconds = {str(name): float(value) for name, value in found.get("seconds", {}).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConnectionFailedError(
            f"{target.alias} gave no readable boot state: {text[:80]!r}", failure=Failure.BROKEN
        ) from error
    return BootState(ready="seconds" in found, seconds=seconds)


def wait_until_ready(
    target: Target,
    *,
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> BootState:
    """Looks until the bootstrap is through.

    Raises:
        ConnectionFailedError: a step of it failed, or it is not through in time.
    """
    hint = "see what it did: gpucloud logs NAME --boot"
    end = clock() + timeout_s
    wait_s = 0.05
    while True:
        state = boot_state(target)
        if state.ready:
            return state
        if state.failed:
            raise ConnectionFailedError(
                f"the boot step {state.failed!r} failed with exit code {state.exit_code}",
                failure=Failure.BROKEN,
                hint=hint,
            )
        if clock() + wait_s > end:
            raise ConnectionFailedError(
                f"the bootstrap is not through after {timeout_s:.0f} s", failure=Failure.BROKEN, hint=hint
            )
        pause(wait_s)
        wait_s = min(wait_s * 1.5, 3.0)


def gpu_list(target: Target) -> list[Gpu]:
    """The GPUs that answer on the box; empty when the driver shows none.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    query = ["nvidia-smi", "--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits"]
    done = run(target, query, timeout_s=60)
    return parse_gpus(done.out.decode(errors="replace")) if done.code == 0 else []


def parse_gpus(text: str) -> list[Gpu]:
    """Lines of ``index, name, MiB`` as nvidia-smi prints them; other lines are left out."""
    gpus: list[Gpu] = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3 and fields[0].isdecimal() and fields[2].isdecimal():
            gpus.append(Gpu(index=int(fields[0]), name=fields[1], memory_mib=int(fields[2])))
    return gpus


def is_model(product: str, model: str) -> bool:
    """Whether a name of NVIDIA's driver (``Tesla V100-SXM2-16GB``) is this model of the market (``V100``)."""
    words = re.split(r"[^A-Z0-9]+", product.upper())
    return all(word in words for word in re.split(r"[^A-Z0-9]+", model.upper()))

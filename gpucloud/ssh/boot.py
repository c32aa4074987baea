"""Brings a box up over ssh: replaces its host key, waits for its bootstrap, lists its GPUs."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpucloud.ssh.client import (
    ConnectionFailedError,
    ConnectionFailure,
    Target,
    disconnect,
    run,
    wait_until_reachable,
)
from gpucloud.ssh.keys import ONE_TIME, checked_public_key, discard_one_time_key, pin, pinned
from gpucloud_templates import (
    BOOT_LOG,
    FAILED_MARKER,
    GUARD_STATUS,
    LIBRARY,
    READY_MARKER,
    STATE,
    STEP_MARKER,
)

GUARD_TIMEOUT_S = 600.0
REBOOT_TIMEOUT_S = 600.0
REBOOTING = {"mig"}
"""Steps that may reboot the box, once each."""
RELOAD_TIMEOUT_S = 30.0
LOG_LINES = 12
LOG_BYTES = 8192
"""How many lines of a failed boot's log to show: the box and its log are gone soon."""
MOST_BYTES = 65536
"""The most bytes to read of a box's boot state."""


NO_GPU = "No devices were found"
"""What nvidia-smi says, with exit code 6, where the driver finds no GPU on the bus."""


class NoGpuError(ConnectionFailedError):
    """A node has booted without the GPU that was bought with it: lost hardware, no fault of its set-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverGpu:
    """One GPU as the box's driver lists it."""

    index: int
    name: str
    memory_mib: int
    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BootState:
    """The progress of a box's bootstrap.

    Attributes:
        ready: whether it is finished.
        guarded: whether the guard that ends the box runs.
        seconds: how long each step took, once finished.
        step: the step that runs now, or that failed.
        exit_code: of the step that failed.
    """

    ready: bool
    seconds: Mapping[str, float]
    guarded: bool = False
    step: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevice:
    """One MIG device: ``uuid`` is its value for ``CUDA_VISIBLE_DEVICES``."""

    gpu: int
    profile: str
    uuid: str


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


def rotate_host_key(target: Target, *, steps: Sequence[str] = ()) -> None:
    """Makes the box create a new host key and pins it, so that the one in the user-data becomes useless.

    Must be called in the first connection, before anything else is sent. Does nothing if the key was
    replaced before, and can be repeated after a crash at any point: both keys are accepted until the new one
    is in use.

    Args:
        target: the node.
        steps: the steps of the boot, one of which may reboot the box meanwhile.

    Raises:
        ConnectionFailedError: the box could not be reached, or could not change its key.
    """
    for _ in range(reboots(steps)):
        with suppress(ConnectionFailedError):
            return _rotate_host_key(target)
        wait_until_reachable(target, timeout_s=REBOOT_TIMEOUT_S)
    return _rotate_host_key(target)


def reboots(steps: Sequence[str]) -> int:
    """How often a box may reboot during these steps."""
    return sum(step.partition(":")[0] in REBOOTING for step in steps)


def _rotate_host_key(target: Target) -> None:
    old = [key for key in pinned(target.keys, target.alias) if key.endswith(f" {ONE_TIME}")]
    if not old:
        return
    new = _public_key(_on_box(target, _NEW_HOST_KEY))
    pin(target.keys, target.alias, [*old, new])
    _on_box(target, _USE_HOST_KEY)
    disconnect(target)
    pin(target.keys, target.alias, [new])
    wait_until_reachable(target, timeout_s=RELOAD_TIMEOUT_S)  # no server listens during the reload
    discard_one_time_key(target.keys)


def _on_box(target: Target, script: str) -> str:
    """Runs a script of ours as root on the box, and returns its output."""
    done = run(target, ["sudo", "-n", "sh", "-c", script], timeout_s=60)
    if done.code:
        said = done.err.decode(errors="replace").strip()[:200]
        raise ConnectionFailedError(
            f"{target.alias} could not change its host key: {said}",
            failure=ConnectionFailure.BROKEN,
            hint="the old key still works; repeat the command",
        )
    return done.out.decode(errors="replace")


def _public_key(text: str) -> str:
    try:
        return checked_public_key(text)
    except ValueError as error:
        raise ConnectionFailedError(
            f"the box returned no usable host key: {error}", failure=ConnectionFailure.HOST_KEY
        ) from error


# --- the bootstrap


def boot_state(target: Target) -> BootState:
    """Reads the progress of the bootstrap.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    script = f"[ -s {GUARD_STATUS} ] && echo guarded || echo -; "
    script += "for file; do cat $file 2>/dev/null && exit; done; true"
    files = (FAILED_MARKER, READY_MARKER, STEP_MARKER)
    said = run(target, ["sh", "-c", script, "sh", *files], most_bytes=MOST_BYTES).out
    first, _, text = said.partition(b"\n")
    guarded = first == b"guarded"
    try:
        found: Any = json.loads(text) if text.strip() else {}
        if "step" in found:
            code = found.get("exit_code")
            step = str(found["step"])[:80]
            exit_code = None if code is None else int(code)
            return BootState(ready=False, seconds={}, guarded=guarded, step=step, exit_code=exit_code)
        seconds = {str(name): float(value) for name, value in found.get("seconds", {}).items()}
        if not all(map(math.isfinite, seconds.values())):
            raise ValueError("a step took no finite time")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ConnectionFailedError(
            f"{target.alias} returned no readable boot state: {text[:80]!r}", failure=ConnectionFailure.BROKEN
        ) from error
    return BootState(ready="seconds" in found, seconds=seconds, guarded=guarded)


def wait_until_ready(
    target: Target,
    *,
    timeout_s: float,
    guard_timeout_s: float = GUARD_TIMEOUT_S,
    steps: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> BootState:
    """Polls until the bootstrap is finished and the guard runs. A box with a step that reboots it may be
    unreachable meanwhile.

    Args:
        target: the node.
        timeout_s: how long to wait.
        guard_timeout_s: how long the box may run without its guard.
        steps: the steps that must have been done; the text after a colon is a step's argument.
        tell: called with the step that runs, whenever it changes.
        clock: seconds.
        pause: waits.

    Raises:
        ConnectionFailedError: a step failed or was left out, the bootstrap did not finish in time, or the
            guard did not start.
    """
    told = None
    reboots_left = reboots(steps)
    unguarded_until = clock() + guard_timeout_s
    hint = "see its log: gpucloud logs NAME --boot"
    end = clock() + timeout_s
    wait_s = 0.05
    while True:
        try:
            state = boot_state(target)
        except ConnectionFailedError:
            if not reboots_left:
                raise
            reboots_left -= 1
            tell("reboot")
            wait_until_reachable(target, timeout_s=REBOOT_TIMEOUT_S)
            continue
        if state.ready and state.guarded:
            left_out = [step for step in steps if step.partition(":")[0] not in state.seconds]
            if left_out:
                words = f"the boot finished without {', '.join(left_out)}"
                raise ConnectionFailedError(words, failure=ConnectionFailure.BROKEN, hint=hint)
            return state
        if state.exit_code is not None:
            words = f"the boot step {state.step!r} failed with exit code {state.exit_code}"
            log = _log_end(target)
            kind = NoGpuError if NO_GPU in log else ConnectionFailedError
            raise kind(f"{words}; its log ends with:\n{log}", failure=ConnectionFailure.BROKEN)
        if not state.guarded and clock() + wait_s > unguarded_until:
            words = f"the guard of {target.alias} did not start within {guard_timeout_s:.0f} s"
            raise ConnectionFailedError(words, failure=ConnectionFailure.BROKEN, hint=hint)
        if state.step and state.step != told:
            told = state.step
            tell(told)
        if clock() + wait_s > end:
            raise ConnectionFailedError(
                f"the boot did not finish within {timeout_s:.0f} s",
                failure=ConnectionFailure.BROKEN,
                hint=hint,
            )
        pause(wait_s)
        wait_s = min(wait_s * 1.25, 3.0)


_BOOT_AGAIN = f"""set -eu
exec 9>{STATE}/boot.lock
flock -n 9 || {{ echo 'the last one has not ended' >&2; exit 75; }}
rm -f {READY_MARKER} {FAILED_MARKER} {STEP_MARKER}
exec 9>&-
setsid {LIBRARY}/boot "$@" </dev/null >/dev/null 2>&1 &
"""


def boot_again(target: Target, steps: Sequence[str]) -> None:
    """Starts the steps of the first boot again, and after them the set-up commands of the user-data.

    :func:`wait_until_ready` waits for their end. A lost connection does not end them.

    Args:
        target: the node.
        steps: the steps of its first boot, each with its argument behind a colon.

    Raises:
        ConnectionFailedError: the box could not be reached, or they still run.
    """
    done = run(target, ["sudo", "-n", "sh", "-c", _BOOT_AGAIN, "sh", target.user, *steps])
    if done.code:
        said = done.err.decode(errors="replace").strip()[:200]
        raise ConnectionFailedError(
            f"{target.alias} cannot repeat its setup: {said}",
            failure=ConnectionFailure.BROKEN,
            hint="see its log: gpucloud logs NAME --boot -f",
        )


def _log_end(target: Target) -> str:
    """The last lines of the boot's log, or the reason why it cannot be read."""
    try:
        said = run(target, ["tail", "-n", str(LOG_LINES), BOOT_LOG], most_bytes=LOG_BYTES, only_end=True).out
    except ConnectionFailedError as error:
        return error.message
    return said.decode(errors="replace")


def gpu_list(target: Target) -> list[DriverGpu]:
    """The GPUs that the box's driver lists; may be empty.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    query = ["nvidia-smi", "--query-gpu=index,name,memory.total,driver_version"]
    query.append("--format=csv,noheader,nounits")
    done = run(target, query, timeout_s=60)
    return parse_gpus(done.out.decode(errors="replace")) if done.code == 0 else []


def parse_gpus(text: str) -> list[DriverGpu]:
    """Lines of ``index, name, MiB, driver`` as nvidia-smi prints them; other lines are left out."""
    gpus: list[DriverGpu] = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 4 and all(re.fullmatch("[0-9]{1,9}", fields[number]) for number in (0, 2)):
            index, name, memory, driver = fields
            gpus.append(DriverGpu(index=int(index), name=name, memory_mib=int(memory), driver=driver))
    return gpus


def mig_slices(target: Target) -> list[MigDevice]:
    """The MIG devices on the box.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    return parse_slices(run(target, ["nvidia-smi", "-L"], timeout_s=60).out.decode(errors="replace"))


def parse_slices(text: str) -> list[MigDevice]:
    """The MIG devices in the output of ``nvidia-smi -L``, each with its GPU."""
    found: list[MigDevice] = []
    gpu = 0
    for line in text.splitlines():
        if whole := re.match(r"GPU ([0-9]{1,9}):", line):
            gpu = int(whole[1])
        elif part := re.match(r" +MIG (\S{1,20}) +Device +\d+: \(UUID: (MIG-[0-9a-zA-Z/-]{1,80})\)", line):
            found.append(MigDevice(gpu=gpu, profile=part[1], uuid=part[2]))
    return found


def is_model(product: str, model: str) -> bool:
    """Whether a name of NVIDIA's driver (``Tesla V100-SXM2-16GB``) is this model of the market (``V100``)."""
    words = re.split(r"[^A-Z0-9]+", product.upper())
    return all(word in words for word in re.split(r"[^A-Z0-9]+", model.upper()))

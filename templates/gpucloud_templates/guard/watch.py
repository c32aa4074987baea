"""The guard itself: looks at the box, poll by poll, and ends it."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress

from .machine import (
    BOOT_ID,
    ROOT,
    KernelLog,
    Metadata,
    Probe,
    Record,
    clocks,
    exists,
    modified,
    names,
    read,
    say,
    spawn,
    still_alive,
    write,
)
from .metrics import GPU_FIELDS, metrics_text
from .rules import (
    HARDWARE,
    NEVER,
    notice_time,
    read_cpu_seconds,
    read_gpus,
    read_xids,
    saving_s,
    seconds_left,
    spent_before,
    xid_number,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from typing import Any

CHECKPOINT = "etc/gpucloud/checkpoint"
END, SPENT = "var/lib/gpucloud/end", "var/lib/gpucloud/uptime"
KEPT = "var/lib/gpucloud/kept"
SELF_DELETE = "usr/local/lib/gpucloud/self-delete"
BOOTED = ("var/lib/gpucloud/ready", "var/lib/gpucloud/failed")
STATUS, JOBS = "run/gpucloud/guard.json", "run/gpucloud/jobs"
METRICS = "run/gpucloud/metrics.prom"
SAVED = "home/{}/.gpucloud/checkpoints/latest.json"
CGROUPS = "sys/fs/cgroup"
GPU_QUERY = "--query-gpu=" + ",".join(GPU_FIELDS)

POLL_S, ENDING_POLL_S = 5.0, 1.0
MINUTE_S, HOUR_S = 60.0, 3600.0
STALE_S = 150.0
CLOCK_TOLERANCE_S = 300.0
WARN_AT_S = (1800, 300)
SELF_DELETE_S = 25.0
LAST_WORDS_S = 3.0
FORCE_AFTER_S, FORCE_HARDER_AFTER_S = 60.0, 120.0
BUSY_GPU_PERCENT = 5
# What nvidia-smi ends with where no GPU was found, and where one is off the bus (its man page, RETURN VALUE).
GPUS_GONE = (6, 15)
BUSY_CPU_SHARE = 0.01
FULL_SHARE = 0.02


class Ending:
    """Why the box ends, and how far that is. Times are uptimes."""

    def __init__(self, reason: str, at: float) -> None:
        self.reason = reason
        self.at = at
        self.synced = False
        self.hook_told = False
        self.power_off_since: float | None = None
        self.force = 0


class Activity:
    """Whether anybody or anything uses the box: GPUs, sessions, jobs. Looked at once a minute.

    With ``idle_below``, jobs whose GPUs are all used less than that, in percent, are idle too.
    """

    def __init__(self, up: float, idle_below: int | None) -> None:
        self.idle_below = idle_below
        self.gpus: Sequence[tuple[int, int]] | None = None
        self.gpu_text, self.gpus_at = "", up
        self.gpus_hang = False
        self.sessions = 0
        self.jobs = False
        self.busy_at = up
        query = ("nvidia-smi", GPU_QUERY, "--format=csv,noheader,nounits")
        self._gpu_probe = Probe(*query, ends_well=(0, *GPUS_GONE))
        self._session_probe = Probe("loginctl", "list-sessions", "--no-legend")
        self._cpu_s: float | None = None
        self._cpu_at = up

    def begin(self, up: float) -> None:
        """Starts the probes."""
        self._gpu_probe.start(up)
        self._session_probe.start(up)
        used = sum(read_cpu_seconds(read(f"{CGROUPS}/{group}/cpu.stat")) for group in _groups_of_users())
        share = 0.0 if self._cpu_s is None else (used - self._cpu_s) / max(up - self._cpu_at, 1.0)
        self._cpu_s, self._cpu_at = used, up
        # A job that is written down has a file named by its process id.
        self.jobs = share >= BUSY_CPU_SHARE or any(os.path.exists(f"/proc/{pid}") for pid in names(JOBS))

    def look(self, up: float) -> None:
        """Reads the probes that have finished."""
        gpus = self._gpu_probe.output(up)
        if gpus is not None:
            self.gpus, self.gpu_text, self.gpus_at = read_gpus(gpus), gpus, up
        self.gpus_hang = self._gpu_probe.hangs
        sessions = self._session_probe.output(up)
        if sessions is not None:
            self.sessions = len(sessions.splitlines())
        least = self.idle_below or BUSY_GPU_PERCENT
        busy_gpu = any(percent >= least for percent, _ in self.gpus or ())
        gpus_decide = self.idle_below and self.gpus and not self.gpus_hang
        booting = not any(exists(path) for path in BOOTED)
        if booting or busy_gpu or self.sessions or (self.jobs and not gpus_decide):
            self.busy_at = up


def _groups_of_users() -> list[str]:
    """The control groups of people's sessions and of containers."""
    services = names(f"{CGROUPS}/system.slice")
    return ["user.slice", "docker", *(f"system.slice/{name}" for name in services if name[:7] == "docker-")]


class Guard:
    """Watches over one box. ``settings`` are those of ``gpucloud_templates.cloud_config``."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        _, up = clocks()
        self.settings = settings
        self.end = Record(END)
        self.spent = Record(SPENT)
        self.boot = read(BOOT_ID)
        self.spent_before = spent_before(self.spent.read(), self.boot)
        self.metadata = Metadata(settings["metadata"]) if settings.get("metadata") else None
        self.activity = Activity(up, settings.get("idle_below"))
        self.kernel_log = KernelLog()
        self.minute_at = self.checked_at = up - HOUR_S
        self.wall_is_right = False
        self.wall_ahead_s: float | None = None
        self.drift = 0.0
        self.warned: set[int] = set()
        self.known_end: Mapping[str, Any] | None = None
        self.taken_back_at: float | None = None
        self.hook: subprocess.Popen[bytes] | None = None
        self.leaving: subprocess.Popen[bytes] | None = None
        self.ending: Ending | None = None
        self.health: dict[str, str] = {}
        self.xids: dict[str, int] = {}

    def poll(self) -> float:
        """Looks at everything once, does what is due, and gives the seconds until the next look."""
        wall, up = clocks()
        spent = self.spent_before + up
        self._check_clock(wall, up)
        if self.settings.get("spot") and self.taken_back_at is None:
            self._look_for_notice(wall, up)
        for bus, xid in read_xids(self.kernel_log.new()):
            self.xids[bus] = xid_number(xid)
            self._sick("hardware" if self.xids[bus] in HARDWARE else "xid", xid)
        self.activity.look(up)
        if up - self.minute_at >= MINUTE_S:
            self.minute_at = up
            self.activity.begin(up)
            self._write_uptime(spent, up)
        self._examine()
        end = self.end.read() or {
            "deadline": self.settings.get("deadline"),
            "limit_s": self.settings.get("ttl_s"),
        }
        left = seconds_left(end, wall=wall, wall_is_right=self.wall_is_right, spent=spent)
        self._decide(left, end, up)
        self._publish(wall, up, left, end)
        still_alive()
        pause_s = ENDING_POLL_S if self.ending else POLL_S
        return pause_s if left is None else min(pause_s, max(left, 0.2))

    # --- looking

    def _check_clock(self, wall: float, up: float) -> None:
        """Asks a server for the time: once an hour, every minute while it is wrong, and when it was set."""
        was_set = abs(wall - up - self.drift) > MINUTE_S
        self.drift = wall - up
        self.wall_is_right = self.wall_is_right and not was_set
        due = up - self.checked_at >= (HOUR_S if self.wall_is_right else MINUTE_S)
        if self.metadata is None or not (was_set or due):
            return
        self.checked_at = up
        with suppress(OSError):
            _, date = self.metadata.get("/")
            if date is not None:
                self.wall_ahead_s = round(wall - date, 1)
                self.wall_is_right = abs(wall - date) < CLOCK_TOLERANCE_S

    def _look_for_notice(self, wall: float, up: float) -> None:
        if self.metadata is None:
            return
        try:
            body, date = self.metadata.get(self.settings["metadata"]["notice"])
        except OSError:
            return
        at = notice_time(body) if body else None
        if at is None:
            return
        left = max(at - (date or wall), 0.0)
        self.taken_back_at = at
        self._tell_people(f"The cloud takes this box back in {left:.0f} seconds.")
        if self.ending is None:
            self._begin_end("interruption", up, left)

    def _write_uptime(self, spent: float, up: float) -> None:
        try:
            self.spent.write({"spent_s": round(spent, 1), "up": round(up, 1), "boot": self.boot})
            self.health.pop("uptime", None)
        except OSError as error:
            self._sick("uptime", f"cannot be written down: {error.strerror}")

    def _examine(self) -> None:
        """What is wrong with GPUs and disk."""
        gpus, expected = self.activity.gpus, self.settings.get("gpus")
        if self.activity.gpus_hang:
            self._sick("gpus", "nvidia-smi does not answer")
        elif gpus is not None and expected and len(gpus) != expected:
            self._sick("gpus", f"{len(gpus)} of {expected} answer")
        else:
            self.health.pop("gpus", None)
        errors = sum(count for _, count in gpus or ())
        if errors:
            self._sick("ecc", f"{errors} uncorrected memory errors")
        disk = os.statvfs(ROOT)
        if disk.f_bavail < disk.f_blocks * FULL_SHARE:
            self._sick("disk", "is full")
        else:
            self.health.pop("disk", None)

    def _sick(self, what: str, words: str) -> None:
        if self.health.get(what) != words:
            self.health[what] = words
            say(f"{what}: {words}")

    # --- deciding

    def _decide(self, left: float | None, end: Mapping[str, Any], up: float) -> None:
        if end != self.known_end:  # at first, and when it was moved
            self.known_end = end
            self.warned.clear()
            if self.ending and self.ending.reason == "deadline":
                say("the end was moved: this box goes on")
                self.ending = self.hook = None
        hook_s = saving_s(end) if self.settings.get("checkpoint") else 0.0
        if left is not None:
            self._warn(left)
            if left <= hook_s and (self.ending is None or self.ending.reason != "deadline"):
                self._begin_end("deadline", up, max(left, 0.0))
        idle_s = self.settings.get("idle_s")
        idle = idle_s and up - self.activity.busy_at >= idle_s
        if idle and self.ending is None and not exists(KEPT):  # results outrank the bill, until the deadline
            self._tell_people("Nobody uses this box: it ends now.")
            self._begin_end("idle", up, hook_s)
        if self.ending:
            self._go_on_ending(self.ending, up)

    def _warn(self, left: float) -> None:
        due = {at for at in WARN_AT_S if left <= at}
        if due - self.warned and left > 0:
            self._tell_people(f"This box ends in {left / 60:.0f} minutes. To move that: gpucloud extend")
        self.warned |= due

    def _tell_people(self, text: str) -> None:
        say(text)
        spawn(["wall", text])

    # --- ending

    def _begin_end(self, reason: str, up: float, seconds: float) -> None:
        say(f"ending: {reason}")
        self.ending = Ending(reason, up + seconds)
        if not self.settings.get("checkpoint") or self.hook is not None:
            return
        told = {"GPUCLOUD_END_REASON": reason, "GPUCLOUD_SECONDS_LEFT": str(int(seconds))}
        command = ["runuser", "-l", self.settings["user"], "-w", ",".join(told)]
        command += ["-c", f"exec bash {ROOT}{CHECKPOINT}"]
        self.hook = spawn(command, env={**os.environ, **told})
        say("checkpoint begins" if self.hook else "checkpoint could not be started")

    def _go_on_ending(self, ending: Ending, up: float) -> None:
        code = None if self.hook is None else self.hook.poll()
        running = self.hook is not None and code is None
        if code is not None and not ending.hook_told:
            ending.hook_told = True
            say(f"checkpoint ended with code {code}")
        if ending.reason == "interruption":  # the cloud ends the box itself, and its bill with it
            if not ending.synced and (not running or up >= ending.at - LAST_WORDS_S):
                ending.synced = True
                spawn(["sync"])
        elif up >= ending.at or (ending.reason == "idle" and not running):
            self._power_off(ending, up)

    def _power_off(self, ending: Ending, up: float) -> None:
        """Powers off, with stronger means at each repetition. Does not wait for a sync that hangs."""
        if ending.power_off_since is None:
            ending.power_off_since = up
            say("powering off")
            if self.hook is not None and self.hook.poll() is None:
                with suppress(OSError):
                    os.killpg(self.hook.pid, signal.SIGTERM)
            spawn(["sync"])
            if exists(SELF_DELETE):
                self.leaving = spawn([sys.executable, "-sS", ROOT + SELF_DELETE, f"{ROOT}{SELF_DELETE}.json"])
            if self.leaving is None:
                spawn(["systemctl", "poweroff"])
        elif self.leaving is not None:  # without a network it would never get through
            code = self.leaving.poll()
            if code is not None or up - ending.power_off_since > SELF_DELETE_S:
                say(f"deleting itself: {'asked for' if code == 0 else 'failed'}")
                self.leaving = None
                spawn(["systemctl", "poweroff"])
        elif ending.force == 0 and up - ending.power_off_since > FORCE_AFTER_S:
            ending.force = 1
            spawn(["systemctl", "poweroff", "--force", "--force"])
        elif up - ending.power_off_since > FORCE_HARDER_AFTER_S:
            with suppress(OSError), open(f"{ROOT}proc/sysrq-trigger", "r+", encoding="ascii") as trigger:
                trigger.write("o")

    # --- telling

    def _publish(self, wall: float, up: float, left: float | None, end: Mapping[str, Any]) -> None:
        activity = self.activity
        status = {
            "box": self.settings.get("box"),
            "at": round(wall),
            "left_s": None if left is None else round(left),
            "deadline": {**NEVER, **end}["deadline"],
            "clock_is_right": self.wall_is_right,
            "clock_ahead_s": self.wall_ahead_s,
            "idle_s": round(up - activity.busy_at),
            "gpu_percent": [percent for percent, _ in activity.gpus or ()],
            "sessions": activity.sessions,
            "jobs": activity.jobs,
            "taken_back_at": self.taken_back_at,
            "ending": self.ending and self.ending.reason,
            "health": self.health,
        }
        with suppress(OSError):
            told = {**status, "saved_at": modified(SAVED.format(self.settings.get("user")))}
            gpus = activity.gpu_text if up - activity.gpus_at < STALE_S else ""
            write(METRICS, metrics_text(told, gpus, self.xids if self.kernel_log.readable else None))
            write(STATUS, json.dumps(status))

"""The guard's commands: ``arm SETTINGS``, ``watch``, ``extend DEADLINE LEFT_S``, ``keep on|off``."""

from __future__ import annotations

import json
import os
import select
import signal
import sys

from .machine import BOOT_ID, ROOT, Record, clocks, exists, read, say, system, write
from .rules import spent_before
from .watch import END, JOBS, KEPT, SPENT, Guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SETTINGS = "etc/gpucloud/guard.json"
UNITS = "etc/systemd/system"
FOLDERS = ("etc/gpucloud", "var/lib/gpucloud", "var/log/gpucloud", JOBS, UNITS)
BACKSTOP_S = 900

SERVICE = """[Unit]
Description=Ends this gpucloud box
DefaultDependencies=no
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/local/lib/gpucloud/guardctl watch
Restart=always
RestartSec=2
WatchdogSec=180
NotifyAccess=main
OOMScoreAdjust=-1000
StandardOutput=journal+console
[Install]
WantedBy=basic.target\n"""
END_TIMER = """[Unit]
Description=Ends this gpucloud box
DefaultDependencies=no
[Timer]
OnActiveSec={seconds}
AccuracySec=1s
Unit=poweroff.target
[Install]
WantedBy=timers.target\n"""


def arm(settings: Mapping[str, Any]) -> None:
    """Starts the guard; on the first boot, records the deadline. A changed deadline stays."""
    for folder in FOLDERS:
        os.makedirs(ROOT + folder, exist_ok=True)
    if Record(END).read() is None:
        write(SETTINGS, json.dumps(settings))
        write(f"{UNITS}/gpucloud-guard.service", SERVICE)
        set_backstop(settings["ttl_s"])
        Record(SPENT).write({"spent_s": 0.0, "up": 0.0, "boot": ""})
        Record(END).write({"deadline": settings["deadline"], "limit_s": settings["ttl_s"]})
    units = [unit for unit in ("gpucloud-guard.service", "gpucloud-end.timer") if exists(f"{UNITS}/{unit}")]
    for verb in ("enable", "start"):  # the first has systemd read them, too
        system("--no-block", verb, *units)  # --no-block: systemd's own start is not over yet


def extend(deadline: float | None, left_s: float | None) -> None:
    """Changes the deadline: to a wall-clock time, and to a number of seconds from now by the uptime."""
    spent = spent_before(Record(SPENT).read(), read(BOOT_ID)) + clocks()[1]
    Record(END).write({"deadline": deadline, "limit_s": None if left_s is None else round(spent + left_s, 1)})
    set_backstop(left_s)
    system("daemon-reload")
    system("stop" if left_s is None else "restart", "gpucloud-end.timer")
    system("kill", "--signal=HUP", "gpucloud-guard.service")


def keep(results: bool) -> None:
    """Notes that the box has results to be fetched: being idle does not end it. Or that it has none."""
    if results:
        write(KEPT, "")
    elif exists(KEPT):
        os.remove(ROOT + KEPT)


def set_backstop(seconds: float | None) -> None:
    """Writes the timer that powers off a while after the guard should have. It counts from its start."""
    if seconds is not None:
        write(f"{UNITS}/gpucloud-end.timer", END_TIMER.format(seconds=int(seconds) + BACKSTOP_S))


def watch() -> None:
    """Polls until the machine ends. SIGHUP makes it look at once."""
    woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGHUP, lambda _signum, _frame: None)
    try:
        settings: dict[str, Any] = json.loads(read(SETTINGS))
    except ValueError:
        settings = {}  # when the box ends is written elsewhere, twice
    guard = Guard(settings)
    say("armed")
    while True:
        pause_s = guard.poll()
        if select.select([woken], [], [], pause_s)[0]:
            os.read(woken, 64)


def main(arguments: Sequence[str]) -> None:
    """Runs one command."""
    command, *values = arguments
    if command == "arm":
        arm(json.loads(values[0]))
    elif command == "extend":
        deadline, left_s = (None if value == "none" else float(value) for value in values)
        extend(deadline, left_s)
    elif command == "keep":
        keep(values == ["on"])
    else:
        watch()


if __name__ == "__main__":
    main(sys.argv[1:])

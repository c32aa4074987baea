"""Puts the guard in place and arms it. Arguments: its settings, then names and texts of its modules.

A disk that was copied from another box brings that box's deadline, guard, keys and variables. They are
removed before anybody can log in, and its mounts of volumes and data sets with them; the settings of that box
go last, so that what is cut off is repeated.
"""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress

library = "/usr/local/lib/gpucloud"
known = "/etc/gpucloud/guard.json"
settings, *modules = sys.argv[1:]
box = json.loads(settings)
try:
    with open(known, encoding="utf-8") as file:
        is_copy = json.load(file).get("id") != box["id"]
except (OSError, ValueError):  # none, or one that is damaged
    is_copy = False
if is_copy:
    mounts = r"/^LABEL=gpucloud-\|gpucloud.data\//d"
    subprocess.run(["sed", "-i", mounts, "/etc/fstab"], check=False)
    units = [f"gpucloud-{name}" for name in ("boot.service", "end.timer", "guard.service", "mig.service")]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(["systemctl", "stop", *units], check=False, timeout=60)
    state = ("end", "failed", "peers.json", "ready", "rebooted", "step", "uptime")
    new = "/etc/ssh/gpucloud_new_host_key"
    for path in (
        library,
        "/var/log/gpucloud",
        *(f"/var/lib/gpucloud/{name}" for name in state),
        *(f"/etc/systemd/system/{unit}" for unit in units),
        "/etc/gpucloud/checkpoint",
        new,
        f"{new}.pub",
        f"/home/{box['user']}/.gpucloud",
        f"/home/{box['user']}/.ssh/authorized_keys",
        known,
    ):
        shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):  # a folder, which is gone, or nothing
            os.remove(path)
os.makedirs(f"{library}/guard", exist_ok=True)
for name, text in zip(modules[::2], modules[1::2]):
    if not os.path.exists(f"{library}/guard/{name}"):
        with open(f"{library}/guard/{name}", "w", encoding="utf-8") as file:
            file.write(text)
control = f"{library}/guardctl"
if not os.path.exists(control):
    with open(control, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nPYTHONPATH={library} exec {sys.executable} -sS -m guard "$@"\n')
    os.chmod(control, 0o755)  # noqa: S103
os.execv(control, [control, "arm", settings])

"""Puts the guard in place and arms it. Arguments: its settings, then names and texts of its modules."""

import os
import sys

library = "/usr/local/lib/gpucloud"
settings, *modules = sys.argv[1:]
os.makedirs(f"{library}/guard", exist_ok=True)
for name, text in zip(modules[::2], modules[1::2]):
    if not os.path.exists(f"{library}/guard/{name}"):
        with open(f"{library}/guard/{name}", "w", encoding="utf-8") as file:
            file.write(text)
control = f"{library}/guardctl"
if not os.path.exists(control):
    with open(control, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nPYTHONPATH={library} exec {sys.executable} -sS -m guard "$@"\n')
    os.chmod(control, 0o755)  # noqa: S103  # nosec B103
os.execv(control, [control, "arm", settings])

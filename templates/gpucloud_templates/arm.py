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
os.environ["PYTHONPATH"] = library
os.execv(sys.executable, [sys.executable, "-sS", "-m", "guard", "arm", settings])

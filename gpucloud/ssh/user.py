"""The user name that ssh runs as here: it does not start for a user ID without one.

OpenShift runs containers with a random user ID of the root group. Its images let that group write
``/etc/passwd``, so that a program can name itself there ("Creating images": arbitrary user ids, 2023).
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from gpucloud.errors import UsageError

PASSWD = Path("/etc/passwd")


def ensure_named() -> None:
    """Gives the user of this process a name, unless there is one.

    Raises:
        UsageError: there is none, and nothing can be written where it belongs.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        name_user(PASSWD, os.getuid(), os.getgid(), os.environ.get("HOME", "/"))


def name_user(file: Path, uid: int, gid: int, home: str) -> None:
    """Adds a line for a user ID to a file like ``/etc/passwd``.

    Raises:
        UsageError: it cannot be written.
    """
    folder = home if home.isprintable() and ":" not in home else "/"
    line = f"gpucloud-{uid}:x:{uid}:{gid}::{folder}:/bin/sh"
    try:
        text = file.read_bytes()
        whole = text.endswith(b"\n") or not text
        with file.open("a", encoding="utf-8") as passwd:
            passwd.write(f"{line}\n" if whole else f"\n{line}\n")
    except OSError as error:
        raise UsageError(
            f"user ID {uid} has no name here, without which ssh does not start: {error.strerror} ({file})",
            hint=f"add a line to {file}, or let the image's group write it (chmod g=u {file}): {line}",
        ) from error

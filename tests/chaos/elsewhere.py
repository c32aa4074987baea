"""Another host, and another PID namespace: what Linux makes of this process when asked to (namespaces(7))."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path

MOUNTS, HOST_NAME, PROCESSES, USER = 0x20000, 0x04000000, 0x20000000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096
BOOT_ID = "/proc/sys/kernel/random/boot_id"

PLACES: Mapping[str, int] = {
    "renamed": HOST_NAME,
    "namespace": MOUNTS | PROCESSES,
    "host": MOUNTS | PROCESSES | HOST_NAME,
}
"""Where a process can be, seen from the others: under another host name only (DHCP, a name that was set), in
another PID namespace of the same host (a container), on another host (a shared home folder)."""
ASKABLE = frozenset({"renamed"})
"""From there the processes of here can be looked up."""


@cache
def may_leave() -> bool:
    """Whether a process may have a view of its own of files, names and processes: not in all containers."""
    parts = ["--user", "--map-root-user", "--mount", "--uts", "--pid", "--fork", "--mount-proc"]
    return subprocess.run(["unshare", *parts, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def go(where: str) -> None:
    """Goes on in another place, of :data:`PLACES`. Where that has other processes, in a child of its own."""
    leave(PLACES[where])
    if PLACES[where] & PROCESSES:
        child = os.fork()  # the first process of the namespace
        if child:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os._exit(code if code >= 0 else 128 - code)
        mount("proc", "/proc", kind="proc")
    if PLACES[where] & HOST_NAME:
        socket.sethostname("elsewhere")
    if where == "host":
        with tempfile.NamedTemporaryFile("w", suffix=".boot") as file:
            file.write(f"{uuid.uuid4()}\n")
            file.flush()
            mount(file.name, BOOT_ID, flags=MS_BIND)


def leave(what: int) -> None:
    """Gives this process its own view of something, and the right to change that. Raises ``OSError``."""
    user, group = os.geteuid(), os.getegid()
    _succeeded(_library().unshare(USER | what))
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def mount(source: str | None, target: str, *, kind: str | None = None, flags: int = 0) -> None:
    """As mount(2). Raises ``OSError``."""
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _succeeded(_library().mount(*texts, flags, None))


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _succeeded(code: int) -> None:
    if code:
        raise OSError(ctypes.get_errno(), "another view of this machine cannot be had here", sys.argv[0])

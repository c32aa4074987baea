"""Which process of this machine is at the other end of a loopback connection. Linux only."""

from __future__ import annotations

import os
from pathlib import Path


def peer_pid(peer_port: int, own_port: int) -> int | None:
    """The process at the client's end of a connection to ``own_port``; ``None`` if it cannot be told.

    Source: proc(5), ``/proc/net/tcp``: local and remote address in hexadecimal, the inode in column 10.
    """
    inode = _inode(peer_port, own_port)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid() and _holds(process, wanted):
            return int(process.name)
    return None


def _inode(peer_port: int, own_port: int) -> str | None:
    ends = f":{peer_port:04X} ", f":{own_port:04X} "
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            if ends[0] in line and ends[1] in line:  # most are others', and reading them takes the time
                fields = line.split()
                local, remote = (int(field.rpartition(":")[2], 16) for field in fields[1:3])
                if (local, remote) == (peer_port, own_port) and fields[9] != "0":
                    return fields[9]
    return None


def _holds(process: Path, wanted: str) -> bool:
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:  # gone meanwhile, or another user's
        return False
    return any(_target(descriptor) == wanted for descriptor in descriptors)


def _target(descriptor: Path) -> str | None:
    try:
        return str(descriptor.readlink())
    except OSError:  # closed meanwhile
        return None

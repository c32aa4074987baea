"""Boxes as hosts for every ssh client: a file as ``ssh_config(5)`` has it, and its ``Include`` line."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from gpucloud.errors import UsageError
from gpucloud.ssh.client import Target, settings

_OWN = frozenset({"ControlPath", "ConnectTimeout", "IdentityAgent"})
"""Settings of gpucloud's own connections; here they are the user's choice. ``ssh -A`` needs the agent."""

_HEAD = "# Written by gpucloud, which replaces it whenever its boxes change.\n"


class Host(NamedTuple):
    """A node of a box under the name that ssh clients use."""

    box: str
    target: Target

    @property
    def names(self) -> tuple[str, ...]:
        """``NAME.gpucloud`` and ``NAME``; for the further nodes ``nodeN.NAME.gpucloud``."""
        node = self.target.node
        return (f"node{node}.{self.box}.gpucloud",) if node else (f"{self.box}.gpucloud", self.box)


def hosts_text(hosts: Iterable[Host]) -> str:
    """The hosts in the format of ``ssh_config(5)``: pinned host keys, one key, nothing forwarded."""
    return "\n".join([_HEAD, *(block(host) for host in hosts)])


def client_settings(target: Target) -> dict[str, str]:
    """The options of ssh that any client needs to reach a node as gpucloud does."""
    return {name: value for name, value in settings(target).items() if name not in _OWN}


def block(host: Host) -> str:
    """One host in the format of ``ssh_config(5)``."""
    lines = [f"{name} {value}" for name, value in client_settings(host.target).items()]
    return "".join([f"Host {' '.join(host.names)}\n", *(f"    {line}\n" for line in lines)])


def keep(file: Path, hosts: Callable[[], Iterable[Host]]) -> None:
    """Replaces the file with these hosts, unless it has them. Of several writers the last has the newest.

    Args:
        file: the file; its folder exists.
        hosts: reads the hosts, while no other process writes.

    Raises:
        OSError: the file cannot be written.
    """
    with _alone(file.with_name(f".{file.name}.lock")):
        text = hosts_text(hosts())
        with suppress(FileNotFoundError):
            if file.read_text(encoding="utf-8") == text:
                return
        _replace(file, text, 0o600)


def include_line(file: Path) -> str:
    """The line of ``~/.ssh/config`` that reads a file of hosts."""
    text = str(file).replace("\\", "\\\\").replace('"', '\\"')
    return f'Include "{text}"'


def is_included(config: Path, file: Path) -> bool:
    """Whether a configuration of ssh has the ``Include`` line of a file of hosts.

    Raises:
        UsageError: it cannot be read.
    """
    return include_line(file) in (line.strip() for line in _lines_of(config))


def include(config: Path, file: Path) -> None:
    """Adds the ``Include`` line of a file of hosts at the top of ssh's configuration, made if missing.

    It must be the first line: what follows a ``Host`` line is for that host alone (ssh_config(5)).

    Raises:
        UsageError: the configuration cannot be read or written.
    """
    before = "".join(f"{line}\n" for line in _lines_of(config))
    place = config.resolve()  # it may be a link to a file elsewhere
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = place.stat().st_mode & 0o777 if place.exists() else 0o600
        _replace(place, f"{include_line(file)}\n\n{before}" if before else f"{include_line(file)}\n", mode)
    except OSError as error:
        raise UsageError(
            f"cannot write {config}: {error.strerror or error}",
            hint=f"add this as its first line: {include_line(file)}",
        ) from error


def _lines_of(config: Path) -> list[str]:
    try:
        return config.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"cannot read {config}: {error.strerror or error}") from error


def _replace(file: Path, text: str, mode: int) -> None:
    """Replaces a whole file: a crash leaves the old one or the new one."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8", errors="surrogateescape")
        draft.chmod(mode)
        draft.replace(file)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def _alone(path: Path) -> Generator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)

"""The services of a box: what its units start, as processes of this machine."""

from __future__ import annotations

import asyncio
import configparser
import os
import shlex
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

RESTART_S = 0.5
PATIENCE_S = 60.0

Spawn = Callable[[Sequence[str], Mapping[str, str]], Awaitable[asyncio.subprocess.Process]]
"""Starts a program of the box: argument list, and what is added to its environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of a service unit that a sandbox box supports (systemd.service(5))."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    restarts: bool


def parse_unit(text: str) -> configparser.ConfigParser:
    """A unit file. Raises ``configparser.Error``."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string(text)
    return parser


def read_service(text: str) -> Service | None:
    """A service unit; ``None`` for what starts nothing."""
    with suppress(configparser.Error, ValueError):
        unit = parse_unit(text)
        command = tuple(shlex.split(unit.get("Service", "ExecStart", fallback="")))
        pairs = shlex.split(unit.get("Service", "Environment", fallback=""))
        if command:
            return Service(
                command=command,
                environment={name: value for name, _, value in (pair.partition("=") for pair in pairs)},
                restarts=unit.get("Service", "Restart", fallback="no") == "always",
            )
    return None


class Services:
    """The services of one box, in its event loop."""

    def __init__(self, spawn: Spawn, say: Callable[[str], None]) -> None:
        self._spawn = spawn
        self._say = say
        self._running: dict[str, asyncio.Task[None]] = {}
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    def start(self, name: str, service: Service, *, after: Iterable[str] = ()) -> None:
        """Starts a service, unless it runs: once those that it comes after have ended or have long run."""
        if name not in self._running:
            task = asyncio.get_running_loop().create_task(self._run(name, service, tuple(after)))
            self._running[name] = task
            task.add_done_callback(lambda ended: self._forget(name, ended))

    def _forget(self, name: str, ended: asyncio.Task[None]) -> None:
        if self._running.get(name) is ended:  # a stopped service may have been started again
            del self._running[name]

    def stop(self, name: str) -> None:
        """Ends a service, if it runs."""
        task = self._running.pop(name, None)
        if task is not None:
            task.cancel()

    def signal(self, signum: signal.Signals, *names: str) -> None:
        """Sends a signal to these services, or to all."""
        for name, process in list(self._processes.items()):
            if not names or name in names:
                with suppress(ProcessLookupError):
                    process.send_signal(signum)

    def close(self) -> None:
        """Ends all services."""
        for name in list(self._running):
            self.stop(name)

    def is_active(self, name: str) -> bool:
        """Whether a service runs."""
        return name in self._running

    async def _run(self, name: str, service: Service, after: Sequence[str]) -> None:
        before = [self._running[each] for each in after if each in self._running]
        if before:
            await asyncio.wait(before, timeout=PATIENCE_S)
        while True:
            try:
                process = await self._spawn(service.command, service.environment)
            except OSError as error:
                self._say(f"{name}: {error}\n")
                return
            self._processes[name] = process
            assert process.stdout is not None  # noqa: S101  (it is a pipe)
            try:
                async with ended_if_cancelled(process, signal.SIGTERM):
                    async for line in process.stdout:
                        self._say(line.decode(errors="replace"))
                    await process.wait()
            finally:
                if self._processes.get(name) is process:
                    del self._processes[name]
            if not service.restarts:
                return
            await asyncio.sleep(RESTART_S)


@asynccontextmanager
async def ended_if_cancelled(
    process: asyncio.subprocess.Process, signum: signal.Signals = signal.SIGKILL
) -> AsyncGenerator[None]:
    """While the body waits for a process: a cancellation ends the process, and then the body.

    A process that is given up while it ends would leave its transport behind when the loop is closed. A
    second cancellation kills it.
    """
    try:
        yield
    except asyncio.CancelledError:
        while process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signum)
            with suppress(asyncio.CancelledError):
                await process.wait()
            signum = signal.SIGKILL
        raise


def end_processes(mark: str) -> None:
    """Ends every process with this environment entry, including those that left their session."""
    wanted = mark.encode()
    quiet = 0
    while quiet < 2:  # a process is born, or has no environment for a moment while it begins a program
        found = [pid for pid in _pids() if wanted in _environment(pid)]
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        quiet = 0 if found else quiet + 1
        time.sleep(0.01)


def _pids() -> list[int]:
    proc = Path("/proc")
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()] if proc.exists() else []


def _environment(pid: int) -> list[bytes]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []

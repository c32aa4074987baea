"""The sandbox process: ``python -m gpucloud_sandbox.serve --folder FOLDER``.

It listens on loopback only, and writes its addresses to ``FOLDER/sandbox.json`` (0600). It holds
``FOLDER/serve.lock`` for as long as it runs.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import Any

from gpucloud.processes import namespace
from gpucloud_sandbox.addresses import AddressPool
from gpucloud_sandbox.boxes import Boxes
from gpucloud_sandbox.clock import Clock
from gpucloud_sandbox.connections import Server
from gpucloud_sandbox.control import Control
from gpucloud_sandbox.database import Database
from gpucloud_sandbox.emulator import BoxHost, Dials, Emulator, Pace, World
from gpucloud_sandbox.faults import Faults
from gpucloud_sandbox.front import ECHO_PATH, RATES_PATH, Front, Traffic
from gpucloud_sandbox.gate import Gate
from gpucloud_sandbox.ledger import Ledger
from gpucloud_sandbox.market import Market

ENTRY_POINTS = "gpucloud.sandboxes"
IDLE_S = 1800.0
_TICK_S = 0.1
_LOCK_TRIES = 100
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""Those that a shell or ``nohup`` may have had ignored: what runs on the boxes would inherit that."""


@dataclass(slots=True)
class Sandbox:
    """The parts of a running sandbox."""

    world: World
    emulators: Sequence[Emulator]
    servers: Sequence[Server]
    gate: Gate
    traffic: Traffic
    stopping: threading.Event

    def start(self) -> None:
        """Serves, in threads of its own."""
        for server in (*self.servers, self.gate):
            threading.Thread(target=server.serve_forever, args=(_TICK_S,), daemon=True).start()

    def run(self, *, idle_s: float) -> None:
        """Lets time pass until the sandbox is stopped, or is idle for so long while nothing is billed."""
        while not self.stopping.wait(_TICK_S):
            for emulator in self.emulators:
                emulator.tick()
            idle = time.monotonic() - self.traffic.last_at
            if idle > idle_s and not self.world.ledger.billing():
                return

    def close(self) -> None:
        """Stops serving and ends the boxes' processes; what is emulated stays in the folder."""
        for server in (*self.servers, self.gate):
            server.shutdown()
            server.server_close()
        self.world.boxes.close()
        self.world.database.close()


def build(folder: Path, *, emulated: Sequence[Any] = (), boxes: BoxHost | None = None) -> Sandbox:
    """Builds a sandbox from the state in a folder, and writes ``sandbox.json``.

    Args:
        folder: where it lives.
        emulated: functions that make the emulators; by default those of the installed providers.
        boxes: the machines behind instances; by default real ones.
    """
    database = Database(folder / "sandbox.db")
    emulators: list[Emulator] = []

    def powered_off(box: str) -> None:
        for emulator in emulators:
            emulator.power_off(box)

    clock = Clock(offset=timedelta(seconds=database.setting("clock_offset_s") or 0))
    world = World(
        folder=folder,
        database=database,
        clock=clock,
        ledger=Ledger(database),
        market=Market(database),
        dials=Dials(database),
        addresses=AddressPool(database),
        boxes=boxes or Boxes(folder / "boxes", on_power_off=powered_off, now=clock.now),
    )
    makers = emulated or [entry.load() for entry in entry_points(group=ENTRY_POINTS)]
    emulators.extend(make(world) for make in makers)
    faults, traffic, stopping = Faults(), Traffic(), threading.Event()
    fronts = {
        emulator.name: Server(
            Front(emulator, world, faults, traffic), _port(database, emulator.name), emulator.tls
        )
        for emulator in emulators
    }
    origins = {emulator.name: _origin(emulator, fronts[emulator.name]) for emulator in emulators}
    database.keep_setting("ports", {name: server.port for name, server in fronts.items()})
    token = secrets.token_hex(16)
    control = Control(
        world=world,
        emulators=emulators,
        endpoints=origins,
        faults=faults,
        traffic=traffic,
        token=token,
        stop=stopping.set,
    )
    control_server = Server(control, 0, None)
    gate = Gate(world, emulators, secrets.token_hex(16))
    for emulator in emulators:
        emulator.resume()
    _write_private(
        folder / "sandbox.json",
        {
            "pid": os.getpid(),
            "namespace": namespace(),
            "control": {"url": f"http://127.0.0.1:{control_server.port}", "token": token},
            "gate": {"port": gate.port, "token": gate.token},
            "clouds": {emulator.name: _reached(emulator, origins[emulator.name]) for emulator in emulators},
        },
    )
    return Sandbox(world, emulators, [*fronts.values(), control_server], gate, traffic, stopping)


def _origin(emulator: Emulator, server: Server) -> str:
    return f"{'https' if emulator.tls else 'http'}://127.0.0.1:{server.port}"


def _reached(emulator: Emulator, origin: str) -> dict[str, Any]:
    """How clients reach an emulated cloud: its address, and the variables of their profile."""
    shared = {"GPUCLOUD_EXCHANGE_RATES_URL": origin + RATES_PATH}
    if not emulator.tls:  # other programs can ask it without the sandbox's certificate
        shared["GPUCLOUD_ECHO_URL"] = origin + ECHO_PATH
    return {
        "endpoint": origin,
        "environment": {**emulator.environment(origin), **shared},
        "unexported": sorted(emulator.unexported),
    }


def main() -> int:
    """Runs the process until it is stopped or idle; returns the exit code."""
    parser = argparse.ArgumentParser(prog="gpucloud_sandbox.serve")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--idle-s", type=float, default=IDLE_S)
    for field in fields(Pace):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=int if field.name == "lag_calls" else float
        )
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if not _take_lock(folder / "serve.lock"):
        sys.stderr.write("a sandbox already runs in this folder\n")
        return 1
    sandbox = build(folder)

    def stop(_signum: int, _frame: FrameType | None) -> None:
        sandbox.stopping.set()

    for signum in _STOPPING:
        signal.signal(signum, stop)
    given = {field.name: getattr(arguments, field.name) for field in fields(Pace)}
    sandbox.world.dials.set_pace({name: value for name, value in given.items() if value is not None})
    sandbox.start()
    sandbox.run(idle_s=arguments.idle_s)
    (folder / "sandbox.json").unlink(missing_ok=True)
    sandbox.close()
    return 0


def _take_lock(path: Path) -> bool:
    """Holds the lock for the rest of this process. Who asks whether it is held, holds it for a moment too."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_TICK_S)
        else:
            return True
    return False


def _port(database: Database, cloud: str) -> int:
    """The port that the cloud had last time, if it is free: earlier clients keep working."""
    kept: Mapping[str, int] = database.setting("ports") or {}
    port = kept.get(cloud, 0)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _write_private(path: Path, document: Mapping[str, Any]) -> None:
    draft = path.with_suffix(".draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(document, stream, indent=1)
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())

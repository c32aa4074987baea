"""A rehearsal of the guard: the real program, in a folder that stands for the box's root."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.processes import PROC, command_lines
from tests.waiting import until

PATIENCE_S = 20.0
GUARD = str(files("gpucloud_templates"))

ANSWERS = {
    "wall": 'echo "$*" >>"$TOLD/wall"',
    "sync": "echo sync >>$TOLD/sync",
    "systemctl": 'echo "$*" >>"$TOLD/systemctl"',
    "loginctl": 'echo $$ >>"$TOLD/loginctl"; cat "$TOLD/sessions" 2>/dev/null',
    "nvidia-smi": 'echo $$ >>"$TOLD/nvidia-smi"; cat "$TOLD/gpus" 2>/dev/null',
    "runuser": 'echo "$GPUCLOUD_END_REASON $GPUCLOUD_SECONDS_LEFT" >>"$TOLD/hook"; . "$TOLD/checkpoint"',
}
"""The programs that the guard runs, and what they do here; ``$TOLD`` is where they write that they ran."""
PROBES = ("loginctl", "nvidia-smi")
"""Those that the guard starts each minute, and reads when they have ended. They tell their number."""


@dataclass
class GuardedBox:
    """One box: its root, its programs, its clocks, its guard."""

    folder: Path
    python: str = sys.executable
    wall_ahead_s: float = 0.0
    up_s: float = 30.0
    guard: subprocess.Popen[bytes] | None = None
    servers: list[ThreadingHTTPServer] = field(default_factory=list[ThreadingHTTPServer])
    metadata_url: str = "http://127.0.0.1:1"

    def __post_init__(self) -> None:
        self.root = self.folder / "root"
        self.told = self.folder / "told"
        for path in (self.told, self.folder / "bin", self.root / "run/gpucloud", self.root / "dev"):
            path.mkdir(parents=True, exist_ok=True)
        (self.root / "proc/sys/kernel/random").mkdir(parents=True)
        for name, script in ANSWERS.items():
            self.program(name, script)
        self.new_boot()

    def program(self, name: str, script: str) -> None:
        """Puts a program in place."""
        file = self.folder / "bin" / name
        file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        file.chmod(0o755)

    def write(self, path: str, text: str) -> None:
        """Writes a file of the box's, or of what its programs answer (``told/...``)."""
        file = self.folder / path if path.startswith("told/") else self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def said(self, program: str) -> list[str]:
        """What a program was run with, a line each."""
        file = self.told / program
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    @property
    def powered_off(self) -> bool:
        """Whether it was asked for."""
        return "poweroff" in self.said("systemctl")

    @property
    def log(self) -> str:
        """The guard's own log."""
        file = self.root / "var/log/gpucloud/guard.log"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    @property
    def status(self) -> dict[str, Any]:
        """The guard's status file."""
        try:
            text = (self.root / "run/gpucloud/guard.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        status: dict[str, Any] = json.loads(text)
        return status

    @property
    def metrics(self) -> str:
        """What the guard wrote for Prometheus."""
        return (self.root / "run/gpucloud/metrics.prom").read_text(encoding="utf-8")

    # --- its clocks

    def new_boot(self) -> None:
        """The uptime begins again."""
        self.write("proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
        self.set_clocks(up_s=5.0)

    def set_clocks(self, *, up_s: float | None = None, wall_ahead_s: float | None = None) -> None:
        """Sets the uptime, and by how much the wall clock is ahead."""
        self.up_s = self.up_s if up_s is None else up_s
        self.wall_ahead_s = self.wall_ahead_s if wall_ahead_s is None else wall_ahead_s
        ahead = self.up_s - time.clock_gettime(time.CLOCK_BOOTTIME)
        clock = self.root / "run/gpucloud/clock"
        clock.touch()
        with clock.open("r+", encoding="ascii") as file:  # in place and of one size: the guard may be reading
            file.write(f"{self.wall_ahead_s:>20.3f} {ahead:>20.3f}")

    def pass_time(self, seconds: float) -> None:
        """Moves both clocks on, and waits until the guard has looked again."""
        self.set_clocks(up_s=self.up_s + seconds, wall_ahead_s=self.wall_ahead_s + seconds)
        self.look()

    def look(self) -> None:
        """Makes the guard look now, and waits until it has, by the clocks as they are now."""
        file = self.root / "run/gpucloud/guard.json"
        now = int(time.time() + self.wall_ahead_s)
        file.unlink(missing_ok=True)
        if self.guard is not None and self.guard.poll() is None:
            self.guard.send_signal(signal.SIGHUP)
            until(lambda: self.status.get("at", 0) >= now, "the guard's look")

    def shows(self, condition: Callable[[], Any]) -> None:
        """Looks until something is so."""

        def looked() -> Any:
            self.look()
            return condition()

        until(looked)

    def minutes(self, count: int) -> None:
        """Lets minutes pass one by one. The guard has its answers before the next: who takes longer hangs."""
        self.shows(partial(self._answered_since, dict.fromkeys(PROBES, 0)))
        for _ in range(count):
            before = {name: len(self.said(name)) for name in PROBES}
            self.pass_time(61)
            self.shows(partial(self._answered_since, before))

    def _answered_since(self, before: Mapping[str, int]) -> bool:
        """Whether each probe was started since, and is gone: the guard reads it as it takes its end."""
        started = [self.said(name)[count:] for name, count in before.items()]
        return all(started) and not any((PROC / numbers[-1]).exists() for numbers in started)

    # --- the guard

    def settings(self, **changes: Any) -> Mapping[str, Any]:
        """What the guard is told: an hour to live, by both clocks, and nothing else."""
        usual = {
            "box": "mine",
            "user": "gpucloud",
            "deadline": int(time.time()) + 3600,
            "ttl_s": 3600,
            "idle_s": None,
            "idle_below": None,
            "checkpoint": False,
            "gpus": 1,
            "spot": False,
            "metadata": None,
        }
        return {**usual, **changes}

    def run(self, *arguments: str) -> None:
        """Runs one of the guard's short commands."""
        command = [self.python, "-sS", "-m", "guard", *arguments]
        subprocess.run(command, env=self._environment(), check=True, timeout=PATIENCE_S)

    def arm(self, **changes: Any) -> None:
        """What the first boot stage does, and systemd after it."""
        self.write("told/gpus", "0, 0, 0\n")
        self.run("arm", json.dumps(self.settings(**changes)))
        self.start()

    def start(self) -> None:
        """Starts the service, and waits until it watches."""
        (self.root / "run/gpucloud/guard.json").unlink(missing_ok=True)
        command = [self.python, "-sS", "-m", "guard", "watch"]
        with (self.folder / "guard.out").open("ab") as out:
            self.guard = subprocess.Popen(
                command, env=self._environment(), stdout=out, stderr=out, start_new_session=True
            )
        until(lambda: self.status, f"the guard: {(self.folder / 'guard.out').read_text()}")

    def stop(self) -> None:
        """Kills the service."""
        if self.guard is not None:
            self.guard.kill()
            self.guard.wait()

    def reboot(self) -> None:
        """A new boot: memory is empty, the uptime begins again, the first boot stage runs as at the first."""
        self.stop()
        shutil.rmtree(self.root / "run/gpucloud")
        (self.root / "run/gpucloud").mkdir()
        self.new_boot()
        self.run("arm", json.dumps(self.settings()))
        self.start()

    def close(self) -> None:
        """Ends everything, also what hangs: each program that the guard starts leads a group of its own."""
        self.stop()
        ours = os.fsencode(self.folder)
        for number in [number for number, line in command_lines().items() if ours in line]:
            with suppress(ProcessLookupError):
                os.killpg(number, signal.SIGKILL)
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def serve(self, answer: Callable[[str, str, Mapping[str, str]], tuple[int, str]]) -> None:
        """Gives the box a metadata service, whose time is this machine's."""

        class Handler(BaseHTTPRequestHandler):
            def do(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, body = answer(self.command, self.path, headers)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_PUT = do  # noqa: N815  (http.server's names)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.servers.append(server)
        self.metadata_url = f"http://127.0.0.1:{server.server_port}"

    def _environment(self) -> Mapping[str, str]:
        return {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": GUARD,
            "PYTHONDONTWRITEBYTECODE": "1",
            "GPUCLOUD_GUARD_ROOT": str(self.root),
            "GPUCLOUD_METADATA_URL": self.metadata_url,
            "TOLD": str(self.told),
        }

"""The real program without its start: a process that has imported everything forks one for each command.

A forked command is a process of its own, with its own arguments, environment, folder and streams; it runs
``main`` as the console script does. What a start itself does is shown by tests that start the script.
"""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import gc
import importlib
import importlib.metadata
import io
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

PRELOADED = (
    "azure.identity",
    "azure.mgmt.compute",
    "azure.mgmt.computeschedule",
    "azure.mgmt.resource.resources",
    "alibabacloud_credentials.client",
    "alibabacloud_ecs20140526.client",
    "boto3.session",
    "gpucloud_sandbox.client",
    "gpucloud_sandbox.ledger",
    "gpucloud_sandbox.serve",
    "gpucloud_templates.software",
    "multiprocessing.pool",
    "rich.console",
    "rich.table",
    "typer.main",
)
"""Besides gpucloud itself: what commands and the sandbox import when they need it."""

NOT_PRELOADED = frozenset({"gpucloud.api.ray", "gpucloud.cli.plots", "gpucloud.elastic.kubernetes.service"})
"""Ray is no dependency; matplotlib and gRPC are 50 MB that few commands need."""
OURS = ("gpucloud", "gpucloud_pricing", "gpucloud_aws", "gpucloud_azure", "gpucloud_alibaba")
NO_AUTHORITIES = {"SSL_CERT_FILE": os.devnull}
"""For what makes a sandbox: its file of certificates has its own alone then, and no client reads others."""
REGIONS = {
    "aws": ("us-east-1", "us-east-2", "us-west-2", "eu-central-1", "eu-west-1"),
    "alibaba": ("cn-beijing", "cn-hangzhou", "cn-shenzhen", "ap-southeast-1", "us-east-1"),
}
"""The regions of the accounts of a forked sandbox, but where a test wants all.

A search asks in each region, of which there are 28 and 22: that was half of a launch and most of a sweep.
"""
LARGE_PAGE, MADV_COLLAPSE = 1 << 21, 25
MESSAGE = 1 << 20
STATUS = struct.Struct("i")


# --- the process that forks


def serve(control: socket.socket, more: Sequence[str]) -> None:
    """Forks a command for each message, until the other end is closed. ``more`` is imported besides."""
    _preload(more)
    children: dict[int, int] = {}
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, _nothing)
    waiting = select.poll()  # select() knows no descriptor from 1024 on, and a long test run has many
    for descriptor in (control.fileno(), wake_read):
        waiting.register(descriptor, select.POLLIN)
    control.send(b"ready")
    while True:
        ready = {descriptor for descriptor, _ in waiting.poll()}
        if wake_read in ready:
            os.read(wake_read, 4096)
        for pid, status in _ended():
            os.write(children[pid], STATUS.pack(os.waitstatus_to_exitcode(status)))
            os.close(children.pop(pid))
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE, 4)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (control.fileno(), wake_read, wake_write, *children.values()):
                os.close(descriptor)
            _become(json.loads(message), descriptors)
        for descriptor in descriptors[:3]:
            os.close(descriptor)
        children[pid] = descriptors[3]
        control.send(str(pid).encode())


def _preload(more: Sequence[str]) -> None:
    gc.disable()  # nothing of this is garbage
    packages: Any = importlib.metadata
    importlib.import_module("tests.quick_jsonschema")
    packages.entry_points = functools.cache(packages.entry_points)  # each call reads every package's metadata
    for name in (*PRELOADED, *more):
        importlib.import_module(name)
    for name in OURS:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__") and module.name not in NOT_PRELOADED:
                importlib.import_module(module.name)
    for group in ("gpucloud.commands", "gpucloud.sandboxes", "gpucloud.providers", "gpucloud.markets"):
        for plug_in in packages.entry_points(group=group):
            plug_in.load()
    # Each session reads the services' models anew; here they are read once.
    loader: Any = importlib.import_module("botocore.loaders").JSONFileLoader
    load, loaded = loader.load_file, dict[str, Any]()

    def load_once(self: Any, path: str) -> Any:
        if path not in loaded:
            loaded[path] = load(self, path)
        return loaded[path]

    loader.load_file = load_once
    folders: Any = importlib.import_module("botocore.loaders").Loader
    listed = functools.cache(folders().list_available_services)
    folders.list_available_services = lambda _self, type_name: listed(type_name)
    listed("paginators-1")
    hooks: Any = importlib.import_module("botocore.hooks")
    alias = functools.cache(hooks.EventAliaser(hooks.HierarchicalEmitter())._alias_event_name)
    hooks.EventAliaser._alias_event_name = lambda _self, name: alias(name)  # 4 % of a launch
    importlib.import_module("tests.rehearsal").rehearse()
    assert threading.active_count() == 1, "a fork would lose threads"
    gc.collect()
    gc.freeze()
    gc.enable()
    _collapse()


def _collapse() -> None:
    """Makes large pages of memory where the kernel can: a fork and its end take 20 ms of CPU then, not 45.

    They copy and clear a table of pages.
    """
    madvise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        addresses, rights, *_, name = [*line.split(), ""][:6]
        if rights.startswith("rw") and name in {"", "[heap]"}:
            begin, end = (int(address, 16) for address in addresses.split("-"))
            for page in range(-(-begin // LARGE_PAGE) * LARGE_PAGE, end - LARGE_PAGE + 1, LARGE_PAGE):
                madvise(ctypes.c_void_p(page), ctypes.c_size_t(LARGE_PAGE), MADV_COLLAPSE)


def _nothing(_signum: int, _frame: FrameType | None) -> None:
    """Only wakes up."""


def _ended() -> list[tuple[int, int]]:
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def _become(command: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Runs a command in this process, which ends with it."""
    code = 1
    try:
        for number, descriptor in enumerate(descriptors[:3]):
            os.dup2(descriptor, number)
        faulthandler.enable(2)
        for descriptor in descriptors:
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(command["environment"])
        os.chdir(command["folder"])
        if command["uid"] is not None:
            os.setgroups(())
            os.setgid(command["uid"])
            os.setuid(command["uid"])
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8")
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(2, "w", closefd=False)), encoding="utf-8", line_buffering=True
        )
        sys.argv = [command["program"], *command["arguments"]]
        module, _, function = command["main"].partition(":")
        try:
            getattr(importlib.import_module(module), function)()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception:
            traceback.print_exc()  # as the interpreter does
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def serve_sandbox() -> None:
    """A sandbox whose accounts have few regions."""
    aws: Any = importlib.import_module("gpucloud_sandbox.aws.network")
    alibaba: Any = importlib.import_module("gpucloud_sandbox.alibaba.catalog")
    aws.region_names = lambda _region: list(REGIONS["aws"])
    alibaba.known_regions = lambda _world: list(REGIONS["alibaba"])
    serve_everywhere()


def serve_everywhere() -> None:
    """A sandbox, started as ``ensure_started`` does it: a session of its own, a log in its folder."""
    os.setsid()
    log = os.open("sandbox.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    sys.exit(importlib.import_module("gpucloud_sandbox.serve").main())


# --- who asks it to


class ForkServer:
    """Starts commands by forking. One for a test process; ends with it."""

    def __init__(self, *more: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from tests.forked import main; main()", str(theirs.fileno()), *more],
                pass_fds=[theirs.fileno()],
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": os.pathsep.join(sys.path),
                    "LC_ALL": "C.UTF-8",
                    "MALLOC_ARENA_MAX": "2",  # many short-lived threads: an arena for each costs page faults
                },
                stdin=subprocess.DEVNULL,
            )
        self._control = ours
        self._lock = threading.Lock()
        assert ours.recv(16) == b"ready", "the fork server did not start"

    def start(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: str,
        program: str = "gpucloud",
        main: str = "gpucloud.__main__:main",
        uid: int | None = None,
    ) -> Forked:
        """Starts a command; with ``uid``, as that user and group alone."""
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        status_read, status_write = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        command = {
            "program": program,
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": folder,
            "main": main,
            "uid": uid,
        }
        given = [nothing, out_write, err_write, status_write]
        with self._lock:
            socket.send_fds(self._control, [json.dumps(command).encode()], given)
            pid = int(self._control.recv(64))
        for descriptor in given:
            os.close(descriptor)
        return Forked(
            pid, status_read, os.fdopen(out_read, encoding="utf-8"), os.fdopen(err_read, encoding="utf-8")
        )

    def start_sandbox(self, folder: Path, *, everywhere: bool) -> Forked:
        """Starts a sandbox in a new folder, in which no change of state takes time."""
        folder.mkdir(mode=0o700, parents=True)
        started = self.start(
            ["--folder", str(folder), "--transition-s=0"],
            environment={**os.environ, **NO_AUTHORITIES},
            folder=str(folder),
            program="gpucloud_sandbox.serve",
            main="tests.forked:serve_everywhere" if everywhere else "tests.forked:serve_sandbox",
        )
        for stream in (started.stdout, started.stderr):
            stream.close()  # what it says is in its log
        return started

    def close(self) -> None:
        """Ends it; what it has forked goes on."""
        self._control.close()
        self._process.wait(timeout=10)


class Forked:
    """A forked command, with as much of ``subprocess.Popen`` as tests use."""

    def __init__(self, pid: int, status: int, stdout: IO[str], stderr: IO[str]) -> None:
        self.pid = pid
        self.stdout, self.stderr = stdout, stderr
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; ``None`` while it runs."""
        try:
            return self.wait(timeout=0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end."""
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._status, select.POLLIN)
            if not ended.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(["gpucloud"], timeout or 0)
            (self.returncode,) = STATUS.unpack(os.read(self._status, STATUS.size))
            os.close(self._status)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Waits for its end; what it has written. One that takes too long dies, and shows where it hung."""
        end = None if timeout is None else time.monotonic() + timeout
        texts = ["", ""]

        def read(number: int, stream: IO[str]) -> None:
            with stream:
                for line in stream:
                    texts[number] += line

        readers = [
            threading.Thread(target=read, args=each, daemon=True)
            for each in enumerate((self.stdout, self.stderr))
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(None if end is None else max(end - time.monotonic(), 0))
            if reader.is_alive():
                self.send_signal(signal.SIGABRT)
                reader.join(5)
                raise AssertionError(f"no end within {timeout} s ({self.poll()}): {texts}")
        self.wait(None if end is None else max(end - time.monotonic(), 1))
        return texts[0], texts[1]


def main() -> None:
    """The forking process."""
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])

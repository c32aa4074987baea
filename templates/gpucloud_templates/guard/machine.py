"""What the guard uses: clocks, files, programs, the metadata service.

For rehearsals, ``GPUCLOUD_GUARD_ROOT`` is a folder that stands for ``/``; its ``run/gpucloud/clock`` holds
the seconds by which the wall clock, and the uptime, are ahead.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
import zlib
from contextlib import suppress
from urllib.parse import urlsplit

from .rules import moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO, Any

ROOT = os.environ.get("GPUCLOUD_GUARD_ROOT", "").rstrip("/") + "/"
BOOT_ID = "proc/sys/kernel/random/boot_id"
CLOCK = "run/gpucloud/clock"
LOG = "var/log/gpucloud/guard.log"
LOG_BYTES = 1_000_000
HANGS_AFTER_S = 30.0
HTTP_TIMEOUT_S = 2.0
TOKEN_TTL_S = 21600


def clocks() -> tuple[float, float]:
    """The wall clock, and the uptime of this boot with suspensions, in seconds."""
    wall, up = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
    if "GPUCLOUD_GUARD_ROOT" in os.environ:
        wall_ahead, up_ahead = read(CLOCK).split() or (0.0, 0.0)
        wall, up = wall + float(wall_ahead), up + float(up_ahead)
    return wall, up


# --- files


def read(path: str) -> str:
    """A small file's text; empty where there is none."""
    try:
        with open(ROOT + path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def exists(path: str) -> bool:
    """Whether there is a file of this name."""
    return os.path.exists(ROOT + path)


def modified(path: str) -> float | None:
    """When a file was written; ``None`` where there is none."""
    try:
        return round(os.stat(ROOT + path).st_mtime)
    except OSError:
        return None


def names(path: str) -> list[str]:
    """What a folder holds; nothing where there is none."""
    try:
        return os.listdir(ROOT + path)
    except OSError:
        return []


def write(path: str, text: str) -> None:
    """Replaces a file that everybody may read. Raises ``OSError``."""
    draft = f"{ROOT}{path}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(draft, 0o644)
    os.replace(draft, ROOT + path)


class Record:
    """A small JSON value in a file of fixed size, written in place: two halves in turn, each with a checksum.

    A write that is cut off leaves the other half; a full disk has room for what is there already.
    """

    HALF = 512

    def __init__(self, path: str) -> None:
        self._path = ROOT + path

    def read(self) -> Mapping[str, Any] | None:
        """The newest whole half; ``None`` where there is none."""
        return self._newest()[1]

    def write(self, value: Mapping[str, Any]) -> None:
        """Overwrites the older half. Raises ``OSError`` where the disk takes nothing."""
        number = self._newest()[0] + 1
        body = json.dumps({**value, "n": number})
        data = f"{zlib.crc32(body.encode()):08x} {body}".ljust(self.HALF).encode()
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if os.fstat(handle).st_size < 2 * self.HALF:
                os.pwrite(handle, b" " * 2 * self.HALF, 0)
            os.pwrite(handle, data, number % 2 * self.HALF)
            os.fsync(handle)
        finally:
            os.close(handle)

    def _newest(self) -> tuple[int, dict[str, Any] | None]:
        found: list[tuple[int, dict[str, Any]]] = []
        try:
            with open(self._path, "rb") as file:
                halves = (file.read(self.HALF), file.read(self.HALF))
        except OSError:
            return 0, None
        for half in halves:
            checksum, _, body = half.decode(errors="replace").strip().partition(" ")
            if checksum == f"{zlib.crc32(body.encode()):08x}":
                value = json.loads(body)
                found.append((value.pop("n"), value))
        return max(found, key=lambda each: each[0], default=(0, None))


def say(text: str) -> None:
    """Writes to the console, the journal and the log, where possible."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clocks()[0]))
    with suppress(OSError):
        print(f"{stamp} gpucloud-guard: {text}", flush=True)
    with suppress(OSError), open(ROOT + LOG, "a", encoding="utf-8") as log:
        if log.tell() < LOG_BYTES:
            log.write(f"{stamp} {text}\n")


class KernelLog:
    """The new lines of the kernel log."""

    LINES = 1000  # at most per poll: a flooded log must not delay the guard

    def __init__(self) -> None:
        try:
            self._handle = os.open(f"{ROOT}dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            self._handle = -1
        self.readable = self._handle >= 0

    def new(self) -> str:
        """What came since the last look; the first look gives what came since the boot."""
        lines: list[bytes] = []
        with suppress(OSError):  # also where nothing more is to be read
            while len(lines) < self.LINES and (line := os.read(self._handle, 8192)):
                lines.append(line)
        return b"".join(lines).decode(errors="replace")


# --- programs


def spawn(
    argv: Sequence[str], *, stdout: int = subprocess.DEVNULL, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes] | None:
    """Starts a program in a session of its own; ``None`` where there is none of this name."""
    null = subprocess.DEVNULL
    try:
        return subprocess.Popen(argv, stdin=null, stdout=stdout, stderr=null, env=env, start_new_session=True)
    except OSError:
        return None


class Probe:
    """A program that is started now and looked at later, however long it takes. Its output fits in a pipe."""

    def __init__(self, *argv: str, ends_well: Sequence[int] = (0,)) -> None:
        self._argv = argv
        self._ends_well = ends_well
        self._child: subprocess.Popen[bytes] | None = None
        self._since = 0.0
        self._wanted = False
        self.hangs = False

    def start(self, up: float) -> None:
        """Starts it; where it still runs, once that has ended."""
        self._wanted = self._child is not None
        if self._child is None:
            self._since = up
            self._child = spawn(self._argv, stdout=subprocess.PIPE)

    def output(self, up: float) -> str | None:
        """What it wrote, once, after it has ended well; ``None`` before that, and otherwise."""
        child = self._child
        if child is None:
            return None
        code = child.poll()
        self.hangs = code is None and up - self._since > HANGS_AFTER_S
        if code is None:
            if self.hangs:
                with suppress(OSError):  # what the kernel holds does not end by that, and is not waited for
                    os.killpg(child.pid, signal.SIGKILL)
            return None
        text = _drained(child.stdout)
        self._child = None
        if self._wanted:
            self.start(up)
        return text if code in self._ends_well else None


def _drained(pipe: IO[bytes] | None) -> str:
    """What is in a pipe now; does not wait for other writers."""
    if pipe is None:
        return ""
    with pipe:
        os.set_blocking(pipe.fileno(), False)
        return (pipe.read() or b"").decode(errors="replace")


def system(*arguments: str) -> None:
    """Runs systemctl. What it says goes where the caller's words go."""
    subprocess.run(["systemctl", *arguments], check=False, stdin=subprocess.DEVNULL, timeout=60)


def still_alive() -> None:
    """Notifies systemd, which restarts a service that does not report."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.connect("\0" + address[1:] if address[0] == "@" else address)
            notify.send(b"WATCHDOG=1")


# --- the cloud's metadata service


class Metadata:
    """The service as the provider describes it: see ``gpucloud_templates.Metadata``."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._told = told
        self._token: str | None = None

    def get(self, path: str) -> tuple[str, float | None]:
        """The body, empty for any status but 200, and the server's time. Raises ``OSError``."""
        status, body, date = self._ask("GET", path)
        if status in {401, 403} and self._told["token_path"]:
            _, self._token, _ = self._ask("PUT", self._told["token_path"])
            status, body, date = self._ask("GET", path)
        return (body if status == 200 else ""), date

    def _ask(self, method: str, path: str) -> tuple[int, str, float | None]:
        told = self._told
        headers = dict(told["headers"])
        if method == "PUT":
            headers[told["token_ttl_header"]] = str(TOKEN_TTL_S)
        elif self._token:
            headers[told["token_header"]] = self._token
        url = urlsplit(os.environ.get("GPUCLOUD_METADATA_URL") or told["url"])
        connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=HTTP_TIMEOUT_S)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            body = answer.read(65536).decode(errors="replace")
            return answer.status, body, moment(answer.getheader("Date") or "")
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

"""Connects to a box with OpenSSH and rsync: never through a shell, never to a host that is not pinned.

All commands on a box share one connection, which ends by itself a minute after its last use.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import IO

from gpucloud.errors import GpucloudError, UsageError
from gpucloud.processes import handling_signals
from gpucloud.ssh.bounded import MOST_WORDS, Finished, TooMuchError, talk
from gpucloud.ssh.environment import LOAD
from gpucloud.ssh.keys import OWN_KEY, delete_keys, find_program, has_own_key, host_alias, known_hosts

CONNECT_TIMEOUT_S = 10
PERSIST_S = 60
DISCONNECT_TIMEOUT_S = 5.0
SOCKET_PATH_LIMIT = 104
"""The shortest ``sun_path`` of the systems in use (macOS, BSD); ssh adds 17 characters while it binds."""

RUN_TIMEOUT_S = 60.0
MOST_BYTES = 1 << 20
"""The default limits of a command on a box."""
LONGEST_LINE = 65536

IDENTITY = "GPUCLOUD_IDENTITY"
"""The variable that names the user's own key: a private key, or the ``.pub`` file of an agent's."""

SSH_FAILED = 255
OWN_FILES = Path("/proc/self/fd")
"""Linux names open files there, for other processes of the same user too."""
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class ConnectionFailure(StrEnum):
    """Why ssh could not connect; each has its own hint."""

    UNREACHABLE = "unreachable"  # no answer: gone, or our address is not allowed
    REFUSED = "refused"  # the machine answers, its ssh server does not (yet)
    HOST_KEY = "host_key"  # another machine answers
    AUTH = "auth"  # the box does not accept our key
    BROKEN = "broken"  # any other failure, and a connection that broke


class ConnectionFailedError(GpucloudError):
    """ssh could not connect, or lost the connection. ``failure`` is the kind; the message quotes ssh."""

    def __init__(self, message: str, *, failure: ConnectionFailure, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.failure = failure
        self.error_class = f"ssh_{failure}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One node of one box, and how to reach it.

    ``keys`` is the box's key folder. ``proxy_command`` is OpenSSH's, with ``%h`` and ``%p`` for the address.
    ``has_environment`` says that the variables of the launch are on the node, for the user's own commands.
    """

    box_id: str
    host: str
    user: str
    keys: Path
    port: int = 22
    node: int = 0
    proxy_command: str | None = None
    has_environment: bool = False

    def __post_init__(self) -> None:
        """Refuses values that ssh could read as options; all of them may have come from a cloud."""
        host_alias(self.box_id)
        if not _USER_NAME.fullmatch(self.user):
            raise ValueError(f"{self.user[:80]!r} is not a user name")
        if not (_HOST_NAME.fullmatch(self.host) or _is_address(self.host)):
            raise ValueError(f"{self.host[:80]!r} is neither a host name nor an address")

    @property
    def alias(self) -> str:
        """The name of this node on ssh's command line, under which its host key is pinned."""
        return host_alias(self.box_id, self.node)

    @property
    def key_file(self) -> Path:
        """The private key of the box; of one that was launched elsewhere, the user's own."""
        return self.keys / OWN_KEY if has_own_key(self.keys) else identity()


def identity() -> Path:
    """The user's own key, for the boxes that others have shared."""
    return Path(os.environ.get(IDENTITY) or "~/.ssh/id_ed25519").expanduser().absolute()


# --- connecting


def connect(target: Target, *, timeout_s: int = CONNECT_TIMEOUT_S) -> None:
    """Opens the shared connection, unless it is open already.

    Raises:
        ConnectionFailedError: ssh could not connect.
        UsageError: ssh is not installed.
    """
    if _control(target, "check"):
        return
    # To files: the connection that stays open would keep a pipe open. The proxy has a file of its own,
    # because ssh discards its messages when ControlPersist is set.
    with tempfile.TemporaryFile() as words, _named_file() as (proxy_words, its_name):
        argv = client(_heard(target, its_name), timeout_s)
        argv += ["-o", "ControlMaster=yes", "-o", f"ControlPersist={PERSIST_S}"]
        try:
            done = subprocess.run(
                [*argv, "-f", "-N", target.alias],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
                timeout=timeout_s + 30,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise explained(target, "Connection timed out") from error
        words.seek(0)
        said = (proxy_words.read(MOST_WORDS) + words.read(MOST_WORDS)).decode(errors="replace").strip()
    if done.returncode and not _control(target, "check"):  # another process may have been faster
        raise explained(target, said)


@contextmanager
def _named_file() -> Generator[tuple[IO[bytes], str]]:
    """A file for what another process writes, and its name there: on Linux one that no kill leaves behind."""
    if OWN_FILES.is_dir():
        with tempfile.TemporaryFile() as file:
            yield file, f"/proc/{os.getpid()}/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            yield file, file.name


def _heard(target: Target, file: str) -> Target:
    """The same target, with its proxy's messages kept in a file."""
    if target.proxy_command is None:
        return target
    return replace(target, proxy_command=f"{target.proxy_command} 2>{shlex.quote(file).replace('%', '%%')}")


def is_connected(target: Target) -> bool:
    """Whether the shared connection is open."""
    return _control(target, "check")


def connected(target: Target) -> None:
    """Opens the shared connection if there is none. ssh ignores a socket left by a dead one."""
    if not _socket(target).exists():
        connect(target)


def disconnect(target: Target) -> None:
    """Closes the shared connection, if there is one, and waits until its socket is gone.

    A connection that is closing removes the socket by name, even the socket of a new connection.
    """
    if _control(target, "exit"):
        end = time.monotonic() + DISCONNECT_TIMEOUT_S
        while _socket(target).exists() and time.monotonic() < end:
            time.sleep(0.002)


def wait_until_reachable(
    target: Target,
    *,
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Tries to connect until the box answers: often at first, then every few seconds.

    Raises:
        ConnectionFailedError: ssh could not connect in time.
    """
    end = clock() + timeout_s
    wait_s = 0.05
    while True:
        try:
            connect(target)
        except ConnectionFailedError:
            # sshd may be up before cloud-init has put host key and user in place: no failure is final yet.
            if clock() + wait_s > end:
                raise
        else:
            return
        pause(wait_s)
        wait_s = min(wait_s * 1.5, 3.0)


# --- commands


def run(
    target: Target,
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout_s: float = RUN_TIMEOUT_S,
    most_bytes: int = MOST_BYTES,
    only_end: bool = False,
) -> Finished:
    """Runs a command on the box with exactly these arguments, and returns its output.

    The output of a box may be endless: it is limited while it is read.

    Args:
        target: the node.
        argv: the command's arguments, passed unchanged.
        stdin: its input.
        timeout_s: how long it may take.
        most_bytes: how much it may write to stdout, and to stderr.
        only_end: keep only the end of a longer output, instead of failing.

    Raises:
        ConnectionFailedError: the box could not be reached, the connection broke, or a limit was passed.
    """
    connected(target)
    command = [*client(target), "-T", target.alias, "--", shlex.join(argv)]
    try:
        done = talk(command, stdin, timeout_s=timeout_s, most_bytes=most_bytes, only_end=only_end)
    except (TimeoutError, TooMuchError) as error:
        raise ConnectionFailedError(
            f"{argv[0]} on {target.alias} {error}", failure=ConnectionFailure.BROKEN
        ) from error
    if done.code < 0:  # nobody knows how far the command has come
        raise ConnectionFailedError(
            f"{argv[0]} on {target.alias}: ssh was ended by signal {-done.code}",
            failure=ConnectionFailure.BROKEN,
        )
    check_not_broken(target, done.code, done.err.decode(errors="replace"))
    return done


def users_words(target: Target, argv: Sequence[str]) -> list[str]:
    """What ssh runs for a user: the command or the login shell, with the variables of the launch, if any."""
    if target.has_environment:
        return ["--", LOAD + (shlex.join(argv) or 'exec "${SHELL:-bash}" -l')]
    return ["--", shlex.join(argv)] if argv else []


def lines(target: Target, argv: Sequence[str], *, timeout_s: float | None = None) -> Generator[str]:
    """Runs a command on the box and yields the lines of its stdout, until it ends or the reader stops.

    A line that is longer than :data:`LONGEST_LINE` bytes is split.

    Args:
        target: the node.
        argv: the command's arguments, passed unchanged.
        timeout_s: how long it may take; ``None`` for as long as there is a reader.

    Raises:
        ConnectionFailedError: the box could not be reached, or the connection broke.
    """
    connected(target)
    command = [*client(target), "-T", target.alias, "--", shlex.join(argv)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None  # noqa: S101  (it is a pipe)
        watch = threading.Timer(timeout_s or 0, child.kill)
        if timeout_s is not None:
            watch.start()
        try:
            while line := child.stdout.readline(LONGEST_LINE):
                yield line.decode(errors="replace").rstrip("\n")
        finally:
            watch.cancel()
            child.terminate()
            code = child.wait()
    check_not_broken(target, code, "the connection was lost")


def forget(keys: Path, box_id: str, *, nodes: int = 1) -> None:
    """Closes the connections to a box that is gone and deletes its keys. May be repeated."""
    for node in range(nodes):
        disconnect(Target(box_id=box_id, host="127.0.0.1", user="nobody", keys=keys, node=node))
    delete_keys(keys)


# --- internals


def client(target: Target, timeout_s: int = CONNECT_TIMEOUT_S) -> list[str]:
    """ssh with every setting that matters; the user's and the system's configuration are ignored."""
    return command_line(settings(target, timeout_s))


def settings(target: Target, timeout_s: int = CONNECT_TIMEOUT_S) -> dict[str, str]:
    """The options of ssh for a node, in the format of ``ssh_config(5)``."""
    options = {
        "HostName": target.host,
        "Port": str(target.port),
        "User": target.user,
        "HostKeyAlias": target.alias,
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": _quoted(known_hosts(target.keys, target.alias)),
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlgorithms": "ssh-ed25519",
        "UpdateHostKeys": "no",
        "CheckHostIP": "no",
        "IdentitiesOnly": "yes",
        "IdentityFile": _quoted(target.key_file),
        "IdentityAgent": "none" if has_own_key(target.keys) else "SSH_AUTH_SOCK",
        "PreferredAuthentications": "publickey",
        "BatchMode": "yes",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ConnectTimeout": str(timeout_s),
        "ServerAliveInterval": "15",
        "ServerAliveCountMax": "4",
        "LogLevel": "ERROR",
        "ControlPath": _quoted(_socket(target)),
    }
    if target.proxy_command:
        options["ProxyCommand"] = target.proxy_command
    return options


def command_line(options: Mapping[str, str]) -> list[str]:
    """The start of a command line of ssh that reads no configuration but these options."""
    argv = [find_program("ssh"), "-F", "/dev/null"]
    for name, value in options.items():
        argv += ["-o", f"{name}={value}"]
    return argv


def _quoted(path: Path) -> str:
    """A path as an option's value: with its spaces, and percent signs not expanded."""
    text = str(path).replace("%", "%%")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _socket(target: Target) -> Path:
    """The path of the shared connection's socket: short, in a folder of the user's own."""
    name = hashlib.sha256(f"{target.keys.absolute()}\n{target.alias}".encode()).hexdigest()[:16]
    path = socket_folder() / name
    if len(os.fsencode(path)) + 17 >= SOCKET_PATH_LIMIT:
        raise UsageError(
            f"{path} is too long for the path of a socket",
            hint="set XDG_RUNTIME_DIR or TMPDIR to a folder with a shorter name",
        )
    return path


def socket_folder() -> Path:
    """The folder of the shared connections' sockets, created if missing.

    Raises:
        UsageError: it belongs to another user, or others can access it: they could impersonate a box.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime, "gpucloud") if runtime and Path(runtime).is_dir() else None
    folder = folder or Path(tempfile.gettempdir(), f"gpucloud-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)  # independently of the umask
    found = folder.lstat()
    if found.st_uid != os.getuid():
        raise UsageError(
            f"{folder}, the folder for ssh's sockets, belongs to another user (uid {found.st_uid})",
            hint="set XDG_RUNTIME_DIR or TMPDIR to a folder of your own",
        )
    if found.st_mode & 0o170077 != 0o040000:
        raise UsageError(
            f"{folder} must be a folder that only you can read",
            hint=f"remove it, or close it to others: chmod 700 {folder}",
        )
    return folder


def _control(target: Target, verb: str) -> bool:
    """Sends a control command to the shared connection; False if there is none."""
    if not _socket(target).exists():
        return False
    try:
        done = subprocess.run(
            [*client(target), "-O", verb, target.alias],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DISCONNECT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@contextmanager
def passing_signals_to(*children: subprocess.Popen[bytes]) -> Generator[list[int]]:
    """Passes the signals that end us on to the commands while the body runs; yields those that came."""
    came: list[int] = []

    def pass_on(signum: int, _: object) -> None:
        came.append(signum)
        for child in children:
            child.send_signal(signum)

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    with handling_signals(pass_on):
        yield came


def check_not_broken(target: Target, code: int, said: str) -> None:
    """Distinguishes ssh's own exit code 255 from a command's: after the latter the connection still works.

    Raises:
        ConnectionFailedError: the connection broke.
    """
    if code == SSH_FAILED and not _control(target, "check"):
        raise explained(target, said)


_WORDS: Mapping[str, ConnectionFailure] = {
    "Host key verification failed": ConnectionFailure.HOST_KEY,
    "REMOTE HOST IDENTIFICATION HAS CHANGED": ConnectionFailure.HOST_KEY,
    "no matching host key type": ConnectionFailure.HOST_KEY,
    "Permission denied": ConnectionFailure.AUTH,
    "Too many authentication failures": ConnectionFailure.AUTH,
    "timed out": ConnectionFailure.UNREACHABLE,
    "Connection refused": ConnectionFailure.REFUSED,
    "No route to host": ConnectionFailure.UNREACHABLE,
    "Network is unreachable": ConnectionFailure.UNREACHABLE,
    "Could not resolve hostname": ConnectionFailure.UNREACHABLE,
    "Connection reset": ConnectionFailure.REFUSED,
    "Connection closed": ConnectionFailure.REFUSED,
}
_HINTS: Mapping[ConnectionFailure, str] = {
    ConnectionFailure.UNREACHABLE: "it may be gone, or not accept your present address: gpucloud list --live",
    ConnectionFailure.REFUSED: "it may still be booting: gpucloud logs NAME --boot",
    ConnectionFailure.HOST_KEY: "the machine at this address is not the box that was launched;"
    " nothing was sent to it",
    ConnectionFailure.AUTH: "the box does not accept the key that it was launched with",
    ConnectionFailure.BROKEN: "try again; gpucloud list shows whether the box is still there",
}


def explain_failure(said: str) -> ConnectionFailure:
    """The kind of failure by ssh's own message."""
    return next(
        (failure for words, failure in _WORDS.items() if words.lower() in said.lower()),
        ConnectionFailure.BROKEN,
    )


def explained(target: Target, said: str) -> ConnectionFailedError:
    """The error for a failure of ssh, by its own message, with what to do next."""
    failure = explain_failure(said)
    lines = [line.strip() for line in said.splitlines() if line.strip(" @\r")]
    telling = [line for line in lines if explain_failure(line) is failure]
    words = (telling or lines or ["ssh gave no reason"])[0]
    return ConnectionFailedError(
        f"cannot reach {target.user}@{target.host} ({target.alias}): {words}",
        failure=failure,
        hint=_ask_for_access(target, failure) or _HINTS[failure],
    )


def _ask_for_access(target: Target, failure: ConnectionFailure) -> str | None:
    """What to do about a box that was launched elsewhere and does not let this user in."""
    unknown = failure is ConnectionFailure.HOST_KEY and not known_hosts(target.keys, target.alias).exists()
    if has_own_key(target.keys) or not (unknown or failure is ConnectionFailure.AUTH):
        return None
    key = str(identity()).removesuffix(".pub")
    ask = f"it was launched elsewhere; ask its owner: gpucloud share {target.box_id} --key {key}.pub"
    return f"{ask} ({IDENTITY} names another key; one with a passphrase must be in ssh-agent)"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text

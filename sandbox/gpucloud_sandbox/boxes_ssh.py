"""The ssh server of a box: who may log in, and how a session's command runs."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import struct
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import asyncssh

from gpucloud_sandbox.boxes_services import ended_if_cancelled

# Makes the pseudo-terminal on stdin the controlling one. A program of its own, because code between fork and
# exec is not safe in a process with threads.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " os.execvp(sys.argv[1], sys.argv[1:])"
)

_CHUNK = 1 << 16
_IN_BETWEEN = (asyncssh.BreakReceived, asyncssh.SignalReceived, asyncssh.TerminalSizeChanged)
"""What a client may send amid the input, and a reader gets as an exception."""
_SECLUDED = re.compile(r"rsync --server (--sender )?-[a-zA-Z]*s")


class Serving(Protocol):
    """The box, as its ssh server sees it."""

    @property
    def running(self) -> bool:
        """Whether the box is switched on."""
        ...

    @property
    def connections(self) -> set[asyncssh.SSHServerConnection]:
        """The open connections."""
        ...

    def may_log_in(self, user: str, key: asyncssh.SSHKey, address: str) -> bool:
        """Whether this user has this public key, for logins from an address."""
        ...

    def shell(self, command: str | None) -> Sequence[str]:
        """The argument list for a command line, or for an interactive shell."""
        ...

    def environment(self, user: str) -> Mapping[str, str]:
        """The environment of a user's processes; its ``HOME`` is also where they start."""
        ...

    def local_path(self, user: str, path: str) -> str:
        """Where a path of the box is on this machine; a relative one begins at the home folder."""
        ...

    def entered(self, user: str) -> None:
        """A session begins."""
        ...

    def left(self, user: str) -> None:
        """A session ended."""
        ...


class _Server(asyncssh.SSHServer):
    def __init__(self, box: Serving) -> None:
        self._box = box

    def begin_auth(self, username: str) -> bool:  # noqa: ARG002
        """Every login needs a key."""
        return True

    def public_key_auth_supported(self) -> bool:
        """Only public keys are accepted."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Only the users and keys of the user-data."""
        return self._box.may_log_in(username, key, str(self._connection.get_extra_info("peername")[0]))

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Registers the connection, so that the box can end it; one that came too late ends here."""
        self._box.connections.add(conn)
        self._connection = conn
        if not self._box.running:
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Removes the connection."""
        self._box.connections.discard(self._connection)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:  # noqa: ARG002
        """Allows ``ssh -L``: the box's ports are this machine's."""
        return True


async def listen(box: Serving, host_key: asyncssh.SSHKey) -> asyncssh.SSHAcceptor:
    """Serves a box on a loopback port of its own, until it is closed."""

    def sftp(channel: asyncssh.SSHServerChannel[bytes]) -> asyncssh.SFTPServer:
        return _Files(channel, box)

    async def session(process: asyncssh.SSHServerProcess[bytes]) -> None:
        await _session(box, process)

    return await asyncssh.create_server(
        lambda: _Server(box),
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        process_factory=session,
        sftp_factory=sftp,
        allow_scp=True,
        encoding=None,
        agent_forwarding=False,
        gss_host=None,
        password_auth=False,
        kbdint_auth=False,
    )


class _Files(asyncssh.SFTPServer):
    """sftp and scp, with the box's own paths moved into its folder."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], box: Serving) -> None:
        super().__init__(channel)  # pyright: ignore[reportUnknownMemberType]
        self._box = box
        self._session = channel
        self._user = str(channel.get_extra_info("username"))

    def map_path(self, path: bytes) -> bytes:
        """A path of the box as one of this machine."""
        return os.fsencode(self._box.local_path(self._user, os.fsdecode(path)))

    def exit(self) -> None:
        """Sends an exit code, as sshd does: without one, OpenSSH's clients report a failure."""
        self._session.exit(0)


async def _session(box: Serving, process: asyncssh.SSHServerProcess[bytes]) -> None:
    user = str(process.get_extra_info("username"))
    environment = dict(box.environment(user))
    arguments = box.shell(process.command)
    box.entered(user)
    try:
        if process.term_type is not None:  # empty where the caller has none
            terminal = {**environment, "TERM": process.term_type or "dumb"}
            code = await _in_terminal(process, arguments, terminal)
        else:
            head = b""
            if _SECLUDED.match(process.command or ""):
                head = await _moved_arguments(box, user, process)
            code = await _in_pipes(process, arguments, environment, head)
    except OSError as error:
        code = 126
        with suppress(BrokenPipeError):  # its client is gone; what is raised here would end the connection
            process.stderr.write(f"sandbox: {error}\n".encode())
    finally:
        box.left(user)
    with suppress(TimeoutError, OSError):
        if -code in _SIGNAL_NAMES:
            process.exit_with_signal(_SIGNAL_NAMES[-code])
        else:
            process.exit(code)
        await asyncio.wait_for(process.wait_closed(), 5)


async def _moved_arguments(box: Serving, user: str, process: asyncssh.SSHServerProcess[bytes]) -> bytes:
    """What rsync's -s sends ahead on stdin: arguments, each ended by NUL, the last one empty."""
    sent = await process.stdin.readuntil(b"\0\0")
    words = [os.fsdecode(word) for word in sent[:-2].split(b"\0")]
    moved = [box.local_path(user, word) if word.startswith("/") else word for word in words]
    return b"".join(os.fsencode(word) + b"\0" for word in (*moved, ""))


async def _in_pipes(
    process: asyncssh.SSHServerProcess[bytes],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    head: bytes,
) -> int:
    # Bare pipes: asyncssh reads asyncio's streams twice at once when a slow client makes it pause.
    (child_in, our_in), (our_out, child_out), (our_err, child_err) = pipes = [os.pipe() for _ in range(3)]
    try:
        child = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=child_in,
            stdout=child_out,
            stderr=child_err,
            env=environment,
            cwd=environment["HOME"],
            start_new_session=True,
        )
    except BaseException:
        for end in (each for pipe in pipes for each in pipe):
            os.close(end)
        raise
    for end in (child_in, child_out, child_err):
        os.close(end)
    # An end of file before the exit code makes OpenSSH close the channel, and the code is lost.
    await process.redirect(stdout=our_out, stderr=our_err, send_eof=False)
    feeding = asyncio.create_task(_feed(process, our_in, head))
    async with ended_if_cancelled(child):
        code = await child.wait()
    feeding.cancel()
    await process.stdout.drain()
    await process.stderr.drain()
    return code


async def _feed(process: asyncssh.SSHServerProcess[bytes], pipe: int, head: bytes) -> None:
    """Passes a session's input on to its command, until either ends, and closes the pipe.

    A redirection by asyncssh would lose what is left: asyncio closes a pipe that is told of the end of file
    while it resumes its writer, although that has just added to its buffer (_UnixWritePipeTransport).
    """
    os.set_blocking(pipe, False)
    try:
        await _write(pipe, head)
        while not process.stdin.at_eof():
            with suppress(*_IN_BETWEEN):
                await _write(pipe, await process.stdin.read(_CHUNK))
    except (OSError, asyncssh.Error):
        pass  # the command has closed its input, or the client is gone
    finally:
        os.close(pipe)


async def _write(pipe: int, data: bytes) -> None:
    """Writes all of it, and waits while the pipe is full. Raises ``BrokenPipeError``."""
    loop = asyncio.get_running_loop()
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(pipe, left) :]
        except BlockingIOError:
            writable = loop.create_future()
            loop.add_writer(pipe, writable.set_result, None)
            try:
                await writable
            finally:
                loop.remove_writer(pipe)


async def _in_terminal(
    process: asyncssh.SSHServerProcess[bytes], arguments: Sequence[str], environment: Mapping[str, str]
) -> int:
    master, slave = os.openpty()
    try:
        width, height, *_ = process.term_size
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *arguments),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            cwd=environment["HOME"],
        )
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    await process.redirect(stdin=os.dup(master), stdout=master, send_eof=False, recv_eof=False)
    async with ended_if_cancelled(child):
        code = await child.wait()
    # A background job may hold the terminal open; the session ends with the shell all the same.
    with suppress(TimeoutError):
        await asyncio.wait_for(process.stdout.drain(), 1)
    return code


_SIGNAL_NAMES = {1: "HUP", 2: "INT", 3: "QUIT", 6: "ABRT", 9: "KILL", 13: "PIPE", 14: "ALRM", 15: "TERM"}

"""Runs a program with limits on its time and output: the output of a box may be endless."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import IO, NamedTuple

CHUNK = 65536
MOST_WORDS = 65536
"""How many bytes of a program's standard error are kept, where it may write more."""
ENDLESS = 16 * 1024 * 1024
"""So many bytes on its standard error end a program: rsync names every file that it cannot copy."""
LAST_WORDS_S = 1.0
"""How long to wait for the last words of programs that have ended: a child of theirs may be silent."""


class Finished(NamedTuple):
    """A command that ended: its exit code and its output."""

    code: int
    out: bytes
    err: bytes


class TooMuchError(Exception):
    """A program wrote more than it may."""


def talk(
    command: Sequence[str], stdin: bytes, *, timeout_s: float, most_bytes: int, only_end: bool = False
) -> Finished:
    """Runs a program to its end. A program that exceeds a limit is killed.

    Args:
        command: the program and its arguments.
        stdin: its input.
        timeout_s: how long it may take.
        most_bytes: how much it may write to stdout, and to stderr.
        only_end: keep only the end of a longer output, instead of failing.

    Raises:
        TimeoutError: it took longer.
        TooMuchError: it wrote more.
    """
    pipe = subprocess.PIPE
    end = time.monotonic() + timeout_s
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as child:
        try:
            out, err = _exchange(child, stdin, end, most_bytes, only_end=only_end)
            code = child.wait(max(end - time.monotonic(), 0.0))
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            raise TimeoutError(f"did not end within {timeout_s:.0f} s") from error
        finally:
            child.kill()
    return Finished(code, out, err)


def _exchange(
    child: subprocess.Popen[bytes], stdin: bytes, end: float, most_bytes: int, *, only_end: bool
) -> tuple[bytes, bytes]:
    """Writes a program's input and reads its output, until it has closed both of its streams."""
    assert child.stdin is not None  # noqa: S101  (all three are pipes)
    assert child.stdout is not None  # noqa: S101
    assert child.stderr is not None  # noqa: S101
    written = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    left = memoryview(stdin)
    os.set_blocking(child.stdin.fileno(), False)
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdin, selectors.EVENT_WRITE)
        for stream in written:
            ready.register(stream, selectors.EVENT_READ)
        while ready.get_map():
            events = ready.select(max(end - time.monotonic(), 0.0))
            if not events:
                raise TimeoutError
            for key, _ in events:
                if key.fd not in written:
                    left = _feed(child.stdin, left)
                    if not left:
                        ready.unregister(child.stdin)
                        with suppress(BrokenPipeError):
                            child.stdin.close()
                    continue
                chunk, kept = os.read(key.fd, CHUNK), written[key.fd]
                if not chunk:
                    ready.unregister(key.fd)
                kept += chunk
                if len(kept) > most_bytes and not only_end:
                    raise TooMuchError(f"wrote more than {most_bytes:,} bytes")
                del kept[:-most_bytes]
    out, err = written.values()
    return bytes(out), bytes(err)


def _feed(stdin: IO[bytes], left: memoryview) -> memoryview:
    """Writes as much as fits; returns the rest, which is empty for a program that has closed its input."""
    try:
        return left[os.write(stdin.fileno(), left[:CHUNK]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]


class ErrorOutput:
    """The standard error of programs: its beginning is kept, and the rest read and dropped.

    Attributes:
        file: the descriptor to which they write.
    """

    def __init__(self) -> None:
        self._from, self.file = os.pipe()
        self._kept, self._length = bytearray(), 0
        self._programs: list[subprocess.Popen[bytes]] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def of(self, program: subprocess.Popen[bytes]) -> None:
        """One more program that writes here; it is killed if all write more than :data:`ENDLESS`."""
        self._programs.append(program)

    def close(self) -> None:
        """Ends the reading; of what still writes, nothing more is kept."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
            self._reader.join(LAST_WORDS_S)

    @property
    def text(self) -> str:
        """The words of programs that have ended."""
        self.close()
        if self._length > ENDLESS:
            return f"it wrote more than {ENDLESS:,} bytes of errors and was ended"
        return self._kept.decode(errors="replace")

    def _read(self) -> None:
        while chunk := os.read(self._from, CHUNK):
            self._kept += chunk[: MOST_WORDS - len(self._kept)]
            self._length += len(chunk)
            if self._length > ENDLESS:
                for program in self._programs:
                    program.kill()
        os.close(self._from)


@contextmanager
def error_output() -> Generator[ErrorOutput]:
    """A standard error for programs that may write without an end."""
    words = ErrorOutput()
    try:
        yield words
    finally:
        words.close()

"""Runs a program with limits on its time and output: the output of a box may be endless."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, NamedTuple

CHUNK = 65536


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

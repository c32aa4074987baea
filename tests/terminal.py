"""Somebody at a terminal: types keys, and reads the screen."""

from __future__ import annotations

import os
import pty
import re
import select
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.waiting import PATIENCE_S

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[=>(]B?|\x1b\][^\x07]*\x07|[\x07\x08\r]")


class Terminal:
    """A program on a pseudo-terminal, and what it shows there."""

    def __init__(self, argv: list[str], environment: Mapping[str, str], folder: Path) -> None:
        self._screen = ""
        pid, self._handle = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execve(argv[0], argv, dict(environment))  # noqa: S606  (the program under test)
        self._pid = pid

    def type(self, text: str) -> None:
        self._screen = ""
        os.write(self._handle, text.encode())

    def sees(self, *texts: str) -> str:
        """Asserts that the screen comes to show all of these texts since the last keys, and returns it."""
        end = time.monotonic() + PATIENCE_S
        while not all(text in self._screen for text in texts):
            ready, _, _ = select.select([self._handle], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{texts} not in {self._screen!r}"
            self._screen += _ESCAPES.sub("", os.read(self._handle, 65536).decode(errors="replace"))
        return self._screen

    def end(self) -> int:
        """Reads until the program has ended; its exit code."""
        with suppress(OSError):  # EIO: nobody has the other side any more
            while os.read(self._handle, 65536):
                pass
        return self.close()

    def close(self) -> int:
        """Closes the window, which the program is told by SIGHUP; returns its exit code when it has ended."""
        os.close(self._handle)
        _, status = os.waitpid(self._pid, 0)
        return os.waitstatus_to_exitcode(status)

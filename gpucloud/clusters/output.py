"""The output of several nodes as one: whole lines, each with its node in front."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Lock

from gpucloud.ssh.client import LONGEST_LINE

_END = re.compile(rb"\r?\n|\r(?!\Z)")
"""The end of a line; a progress bar has ``\\r``, which at the very end may be half of ``\\r\\n``."""


class Labelled:
    """Receives one stream of a node as it arrives; passes whole lines on, labelled with the node: ``[0] …``.

    Args:
        node: the number of the node.
        write: receives each line at once.
        lock: shared by all that write to the same place.
        longest: a line that is longer is split after so many bytes.
    """

    def __init__(
        self, node: int, write: Callable[[bytes], object], lock: Lock, *, longest: int = LONGEST_LINE
    ) -> None:
        self._label = f"[{node}] ".encode()
        self._write = write
        self._lock = lock
        self._longest = longest
        self._rest = b""

    def __call__(self, chunk: bytes) -> None:
        """Takes a piece of the stream."""
        with self._lock:
            *whole, self._rest = _END.split(self._rest + chunk)
            while len(self._rest) > self._longest:
                whole.append(self._rest[: self._longest])
                self._rest = self._rest[self._longest :]
            if whole:
                self._write(b"".join(self._label + line + b"\n" for line in whole))

    def close(self) -> None:
        """Passes a last line on that has no end."""
        with self._lock:
            rest, self._rest = self._rest.rstrip(b"\r"), b""
            if rest:
                self._write(self._label + rest + b"\n")

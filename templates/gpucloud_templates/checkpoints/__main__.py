"""Runs one command; its answer is a line of JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

from . import ending, manifest
from .logs import upload_logs
from .rclone import FailedError
from .restoring import begin
from .uploading import status, upload, watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REASON, ENDED = "GPUCLOUD_END_REASON", "ended"
"""Why the box ends, if it does; the command has ended by itself."""
EARLY = "early"
"""The user's command saves at the same time, and another upload follows."""


def upload_now(how: str = "") -> dict[str, Any]:
    """Uploads once; at the end of the box also its logs, unless it is early. Raises ``FailedError``."""
    reason = os.environ.get(REASON)
    ended, last = reason == ENDED, bool(reason) and how != EARLY
    try:
        return manifest.about(upload(last=last, ended=ended))
    finally:
        if last:
            with suppress(FailedError, OSError, ValueError, subprocess.TimeoutExpired):
                upload_logs()


def main() -> None:
    """Runs the command of the command line."""
    command, *values = sys.argv[1:]
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # who opens a file whose lease is tried must not end this
    try:
        if command == "begin":
            print(json.dumps(begin(values[0])))
        elif command == "upload":
            print(json.dumps(upload_now(*values)))
        elif command == "status":
            print(json.dumps(status()))
        elif command == "wait":
            ending.wait()
        else:
            watch(float(values[0]))
    except (FailedError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

"""rclone: every call of it."""

from __future__ import annotations

import os
import subprocess

from . import own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

READING, WRITING = "store:", "own:"  # its remotes
NOT_THERE = (3, 4)  # exit codes: no such folder, no such file
NOT_FOR_RCLONE = ("AWS_", "AZURE_", "RCLONE_")
LONGEST_WORDS = 500
MIB = 1024 * 1024
SMALL_FILE = 4 * MIB
# A small file waits for its answer: many at once. A large one has parts, which go at once.
MANY = ("--transfers", "32", "--checkers", "32")
FEW = ("--transfers", "4", "--s3-chunk-size", "16M", "--s3-upload-concurrency", "8")


class FailedError(Exception):
    """What could not be done, in one line."""


class NothingThereError(FailedError):
    """A folder or file that does not exist."""


def call(
    settings: Mapping[str, Any], *arguments: str, sent: bytes = b"", within_s: float | None = None
) -> bytes:
    """Runs rclone and gives its output. Raises ``FailedError``, and ``TimeoutExpired`` after ``within_s``."""
    log = ("--stats", "0", "--log-level", "ERROR")
    command = [settings["rclone"], "--config", f"{own.FOLDER}/rclone.conf", *log]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(NOT_FOR_RCLONE)}
    environment["TZ"] = "UTC"  # of the times that it lists
    pipe = subprocess.PIPE
    done = subprocess.run(
        [*command, *arguments],
        input=sent,
        env=environment,
        stdout=pipe,
        stderr=pipe,
        check=False,
        timeout=within_s,
    )
    if done.returncode:
        lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip("- ")]
        words = " ".join(lines)[:LONGEST_WORDS] or f"exit code {done.returncode}"
        failed = NothingThereError if done.returncode in NOT_THERE else FailedError
        raise failed(f"rclone {arguments[0]}: {words}")
    return done.stdout


def copy(
    settings: Mapping[str, Any], source: str, target: str, names: Iterable[str], size: int, *options: str
) -> None:
    """Copies these files of so many bytes in all from one folder to another. Raises ``FailedError``."""
    listed = [os.fsencode(name) + b"\n" for name in names]
    if not listed:
        return
    at_once = MANY if size / len(listed) < SMALL_FILE else FEW
    # An object's time cannot be changed without a right to copy it, and nothing here needs that.
    fixed = ("--files-from-raw", "-", "--no-update-modtime", *at_once, *options)
    call(settings, "copy", source, target, *fixed, sent=b"".join(listed))

"""The ends of the box's logs, without the values of its variables."""

from __future__ import annotations

import os
import shlex
import time

from . import own, rclone
from .uploading import SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES = 7 * 1000 * 1000  # of each file: with all seven, less than 50 MB
WITHIN_S = 60.0
VARIABLES = "~/.gpucloud/env"
SHORTEST_VALUE = 4  # a shorter one is no secret, and replacing it would make a log unreadable


def upload_logs() -> None:
    """Uploads the ends of the logs, as far as that goes. Raises ``FailedError``, ``TimeoutExpired``."""
    settings, hidden = own.load(SETTINGS), values()
    target = f"{rclone.WRITING}{settings['run']}/attempts/{settings['attempt']}/logs"
    until = time.monotonic() + WITHIN_S
    logs: dict[str, Sequence[str]] = settings["logs"]
    for kind, names in logs.items():
        text = b"".join(map(end_of, names))
        for value in hidden:
            text = text.replace(value, b"[hidden]")
        if text:
            left_s = max(until - time.monotonic(), 0.0)
            rclone.call(settings, "rcat", f"{target}/{kind}.log", sent=text, within_s=left_s)


def end_of(name: str) -> bytes:
    """The end of a log, in whole lines; nothing of one that is not there, or not readable."""
    try:
        with open(os.path.join(os.path.expanduser("~"), name), "rb") as file:
            start = max(file.seek(0, os.SEEK_END) - MOST_BYTES, 0)
            file.seek(start)
            text = file.read(MOST_BYTES)
    except OSError:
        return b""
    return text.partition(b"\n")[2] if start else text


def values() -> list[bytes]:
    """The values of the box's variables, the longest first: one may be a part of another."""
    try:
        with open(os.path.expanduser(VARIABLES), encoding="utf-8") as file:
            words = shlex.split(file.read())
    except FileNotFoundError:
        return []
    found = {word.partition("=")[2] for word in words}
    return sorted((each.encode() for each in found if len(each) >= SHORTEST_VALUE), key=len, reverse=True)

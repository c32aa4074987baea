"""How far a command goes through the code: frames at the billable call, and the files that take part.

Whoever wants to understand a launch reads those files and follows those frames. The goals are those of the
architecture; nothing fails over them yet.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, NoReturn

from benchmarks.launch import launch_argv, sandbox, timed
from benchmarks.round_trips import down_argv
from benchmarks.startup import COST
from benchmarks.table import Row
from gpucloud.runtime import tasks

ROOT = Path(__file__).parent.parent
OURS = tuple(f"{ROOT / folder}/" for folder in ("gpucloud", "providers", "pricing", "templates"))
CREATE = str(ROOT / "providers/gpucloud_aws/provider.py"), "create"
"""The file and the name of the call through which a bill grows."""
FRAMES = 10
"""Of the thread that makes the call, and of the main thread, which waits for it."""
TAKES_PART = 3
"""So many functions of a file have run when it counts."""
FILES = {"launch": 60, "down": 45, "cost": 40}


class Trace:
    """What runs in a process: the functions of ours, and the most frames of ours at the billable call."""

    def __init__(self) -> None:
        self._functions: set[CodeType] = set()
        self._frames = 0

    def begin(self) -> None:
        """Notes from now on, in this thread and in those that begin later: Python's, and those of a call."""
        start = vars(tasks)["start_new_thread"]

        def noted(run: Callable[[], object], arguments: tuple[()]) -> int:
            def begin() -> None:
                sys.setprofile(self._note)
                run()

            thread: int = start(begin, arguments)
            return thread

        setattr(tasks, "start_new_thread", noted)  # noqa: B010  (threading's hook does not see it)
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        function = code.co_flags & inspect.CO_NEWLOCALS  # else the body of a module or of a class
        if function and code not in self._functions and code.co_filename.startswith(OURS):
            self._functions.add(code)
        if (code.co_filename, code.co_name) == CREATE:
            self._frames = max(self._frames, len(_stack(frame)) + len(_stack(_waiting())))

    def document(self) -> dict[str, Any]:
        """The files that take part, and the frames."""
        functions: defaultdict[str, set[CodeType]] = defaultdict(set)
        for code in self._functions.copy():
            functions[code.co_filename].add(code)
        files = sorted(file for file, found in functions.items() if len(found) >= TAKES_PART)
        return {"files": files, "frames": self._frames}


def _stack(frame: FrameType | None) -> list[FrameType]:
    """The frames of ours, from one to where its thread began."""
    found: list[FrameType] = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(OURS):
            found.append(frame)
        frame = frame.f_back
    return found


def _waiting() -> FrameType | None:
    """The main thread's frame, which waits for the call of another; ``None`` in the main thread."""
    main = threading.main_thread()
    return None if threading.current_thread() is main else sys._current_frames()[main.ident or 0]  # pyright: ignore[reportPrivateUsage]


def traced(out: str, argv: Sequence[str]) -> None:
    """Runs gpucloud in this process, and writes what ran into a file."""
    from gpucloud.__main__ import main as gpucloud

    trace, leave = Trace(), os._exit

    def write() -> None:
        sys.setprofile(None)
        Path(out).write_text(json.dumps(trace.document()), encoding="utf-8")

    def end(status: int) -> NoReturn:
        write()
        leave(status)

    os._exit = end  # how gpucloud ends while a thread still waits for an answer
    sys.argv = ["gpucloud", *argv]
    trace.begin()
    try:
        gpucloud()
    finally:
        write()


def _trace(argv: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        out = Path(folder, "trace.json")
        timed((sys.executable, "-m", "benchmarks.paths", str(out), *argv[1:]), environment)
        document: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return document


def main() -> list[Row]:
    """A launch and its end on one cloud, and an estimate."""
    with sandbox() as (_, environment):
        commands = {"launch": launch_argv("aws", "x"), "down": down_argv("x"), "cost": COST}
        found = {name: _trace(argv, environment) for name, argv in commands.items()}
    rows = [
        Row(
            f"files that take part in {name}, against the goal",
            goal,
            len(found[name]["files"]),
            math.inf,
            "files",
        )
        for name, goal in FILES.items()
    ]
    frames = found["launch"]["frames"]
    if not frames:
        raise RuntimeError(f"{CREATE[1]} of {CREATE[0]} was not seen")
    return [
        Row("frames at the create call of launch, against the goal", FRAMES, frames, math.inf, "frames"),
        *rows,
    ]


if __name__ == "__main__":
    traced(sys.argv[1], sys.argv[2:])

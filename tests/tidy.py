"""``python -m tests.tidy COMMAND …``: runs the tests, and sees that nothing of them is left on the machine.

Whatever outlives its parent becomes a child of this process, also when a worker crashed or the tests were
interrupted. What is left then (processes with their ports, mounts, files in the folder for temporary files,
new folders of the user's own gpucloud) is named, and fails a run that was not interrupted. All but those
folders is removed: whoever uses gpucloud for the first time meanwhile fails the run, and loses nothing.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.processes import ENDED, PROC, descendants, look, states

LEFT_BEHIND = 9
"""The exit code of a run that would have succeeded; pytest has none so high."""
INTERRUPTED = 2
SUBREAPER = 36
ENDING_S = float(os.environ.get("TIDY_ENDING_S", "20"))
"""How long what is ending anyway may take: a sandbox ends its boxes one by one."""
PAUSE_S = 0.1
OF_PYTEST = "pytest-of-"
OURS = (".config/gpucloud", ".local/state/gpucloud", ".local/share/gpucloud", ".cache/gpucloud", ".gpucloud")


def main(command: Sequence[str]) -> int:
    """Runs; gives the exit code of the command, or :data:`LEFT_BEHIND`."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    before = _folders_of_the_user()
    folder = Path(tempfile.mkdtemp(prefix="gc-"))  # short: the paths of sockets are in it
    folder.chmod(0o711)  # root's PostgreSQL runs as somebody else
    code = _run(command, folder)
    left = [
        *_end(),
        *(f"the mount {mount}" for mount in _unmount(folder)),
        *(f"the file {path.name}" for path in folder.iterdir() if not path.name.startswith(OF_PYTEST)),
        *(f"the folder {path}" for path in _folders_of_the_user() - before),
    ]
    if code in {0, INTERRUPTED}:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"the files of the failed tests: {folder}", file=sys.stderr)
    if left and code != INTERRUPTED:
        print("\nLEFT BEHIND", *left, sep="\n", file=sys.stderr)
        return code or LEFT_BEHIND
    return code


def _folders_of_the_user() -> set[Path]:
    return {path for name in OURS if (path := Path.home() / name).exists()}


def _run(command: Sequence[str], folder: Path) -> int:
    """Runs the command to its end, and takes the ends of all that lost their parents."""
    # Ctrl-C reaches the tests themselves, also while they start; what is ignored here they would ignore too.
    signal.signal(signal.SIGINT, lambda *_: None)
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(folder)}) as started:
        signal.signal(signal.SIGTERM, lambda *_: started.send_signal(signal.SIGTERM))
        while True:
            number, status = os.waitpid(-1, 0)
            if number == started.pid:
                started.returncode = os.waitstatus_to_exitcode(status)
                return started.returncode if started.returncode >= 0 else 128 - started.returncode


def _end() -> list[str]:
    """Ends what still runs below this process; says what did not end by itself."""
    end = time.monotonic() + ENDING_S
    while (living := list(_living())) and time.monotonic() < end:
        time.sleep(PAUSE_S)
    left = [f"process {number}: {_words(number)}" for number in living]
    while living := list(_living()):
        for number in living:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(PAUSE_S)
    return left


def _living() -> Iterator[int]:
    """The processes below this one that have not ended; those that have are taken."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                break
        except ChildProcessError:
            return
    known = states()
    yield from (each for each in descendants(os.getpid(), known) if known[each][0] not in ENDED)


def _words(number: int) -> str:
    line = look(PROC / str(number) / "cmdline") or b""
    return line.replace(b"\0", b" ").decode(errors="replace").strip()[:200] or "(without a command line)"


def _unmount(folder: Path) -> list[str]:
    """Unmounts what is mounted below a folder, the innermost first."""
    points = [line.split()[4] for line in (PROC / "self/mountinfo").read_text().splitlines()]
    below = sorted((point for point in points if Path(point).is_relative_to(folder)), key=len, reverse=True)
    for point in below:
        subprocess.run(["umount", "--lazy", point], check=False)
    return below


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Uploads of checkpoints from a folder in which a job rotates them, against ``rclone copy`` of the files.

Both at the rate of a slow line, while a job writes one large file after the other; and of many small files,
to a store on this machine, where nothing but the number of files counts: a real one answers more slowly.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter

from benchmarks.table import Row
from gpucloud.ssh.checkpoints import PROGRAM, archive

MIB = 1 << 20
RCLONE = Path(sys.executable).parent / "rclone"
BLOCK = os.urandom(MIB)
FLAGS = ("--transfers", "32", "--no-check-dest")
"""What makes rclone alone as fast as it goes for many small files."""
KEYS = ("key", "secret")
READY_S = 30.0


class Box:
    """A home folder with the program, and a folder as the store."""

    def __init__(
        self, root: Path, limit: str = "", remote: str = "type = alias\nremote = {root}/store"
    ) -> None:
        self.home = root / "home"
        self.saved = self.home / "saved"
        self.saved.mkdir(parents=True)
        own = self.home / PROGRAM
        own.parent.mkdir(parents=True)
        own.write_bytes(archive())
        (root / "store/lab").mkdir(parents=True, exist_ok=True)
        remotes = (f"[{each}]\n{remote.format(root=root)}\n" for each in ("store", "own"))
        (own.parent / "rclone.conf").write_text("".join(remotes), encoding="utf-8")
        self.rclone = root / "rclone"
        self.rclone.write_text(f'#!/bin/sh\nexec {RCLONE} {limit} "$@"\n', encoding="utf-8")
        self.rclone.chmod(0o755)

    def ask(self, *words: str) -> dict[str, int]:
        """Runs the program."""
        done = subprocess.run(
            [sys.executable, PROGRAM, *words],
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin", "GPUCLOUD_END_REASON": "ended"},
            check=True,
            capture_output=True,
        )
        found: dict[str, int] = json.loads(done.stdout)
        return found

    def begin(self) -> None:
        """Begins an attempt."""
        settings: dict[str, object] = {
            "rclone": str(self.rclone),
            "folder": "saved",
            "run": "lab/r",
            "attempt": 1,
            "logs": {},
        }
        self.ask("begin", json.dumps(settings))

    def bare(self, source: Path, *flags: str) -> float:
        """The seconds that rclone alone takes for a folder."""
        config = (self.home / PROGRAM).with_name("rclone.conf")
        command: list[str | Path] = [self.rclone, "--config", config, "copy", source, "own:lab/bare", *flags]
        began = perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return perf_counter() - began


def write(file: Path, mib: int) -> None:
    """Writes a large file."""
    with file.open("wb") as out:
        for _ in range(mib):
            out.write(BLOCK)


@contextmanager
def rotated(folder: Path, mib: int, every_s: float) -> Generator[None]:
    """A job that keeps its newest two files in a folder, and writes one each moment."""
    done = threading.Event()

    def work() -> None:
        step = 2
        while not done.wait(every_s):
            step += 1
            write(folder / ".draft", mib)
            (folder / ".draft").rename(folder / f"step-{step}")
            (folder / f"step-{step - 2}").unlink()

    for step in (1, 2):
        write(folder / f"step-{step}", mib)
    job = threading.Thread(target=work)
    job.start()
    try:
        yield
    finally:
        done.set()
        job.join()


def rotating(mib: int, mib_per_s: int) -> Row:
    """Two large files, at the rate of a line."""
    with tempfile.TemporaryDirectory() as root:
        box = Box(Path(root), f"--bwlimit {mib_per_s}M")
        box.begin()
        still = Path(root) / "still"
        still.mkdir()
        for step in (1, 2):
            write(still / f"step-{step}", mib)
        with rotated(box.saved, mib, 1.0):
            bare = box.bare(still)
            began = perf_counter()
            uploaded = box.ask("upload")
            seconds = perf_counter() - began
    assert uploaded["bytes"] == 2 * mib * MIB, uploaded
    return Row(f"a set of 2 x {mib} MiB, one written each second, at {mib_per_s} MiB/s", bare, seconds, 1.2)


@contextmanager
def serving(folder: Path) -> Generator[str]:
    """A store over HTTP, whose buckets are the folders in this one; yields how rclone reaches it."""
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command: list[str | Path] = [
        RCLONE,
        "serve",
        "s3",
        folder,
        "--addr",
        f"127.0.0.1:{port}",
        "--auth-key",
        ",".join(KEYS),
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            end = perf_counter() + READY_S
            while perf_counter() < end and server.poll() is None:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
            yield (
                f"type = s3\nprovider = Rclone\nendpoint = http://127.0.0.1:{port}\n"
                f"access_key_id = {KEYS[0]}\nsecret_access_key = {KEYS[1]}"
            )
        finally:
            server.terminate()


def many(count: int) -> Row:
    """Many small files, over HTTP."""
    with tempfile.TemporaryDirectory() as root, serving(Path(root) / "store") as remote:
        box = Box(Path(root), remote=remote)
        box.begin()
        for number in range(count):
            file = box.saved / str(number // 1000) / str(number)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(b"x" * 100)
        bare = box.bare(box.saved, *FLAGS)
        began = perf_counter()
        uploaded = box.ask("upload")
        seconds = perf_counter() - began
    assert uploaded["files"] == count, uploaded
    return Row(f"a set of {count:,} files of 100 bytes, to a store on this machine", bare, seconds, 1.2)


def main() -> list[Row]:
    """Measures."""
    return [rotating(235, 100), many(20_000)]


def short() -> list[Row]:
    """A quarter of the bytes, at a quarter of the rate."""
    return [rotating(60, 25)]


if __name__ == "__main__":
    from benchmarks.table import render

    print(render(main()))

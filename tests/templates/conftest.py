"""A box whose folder is kept in an object store: the real program and rclone, and a folder as the store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpucloud.ssh.checkpoints import PROGRAM, archive
from tests.shell import PROGRAMS

LOGS = {"boot": ["boot.log", "setup.log"], "job": ["out"]}
RCLONE = str(PROGRAMS / "rclone")
FROZEN, MANIFESTS = ".gpucloud-frozen", ".gpucloud/checkpoints/manifests"
"""What a call of rclone has in its arguments that sends files, or manifests."""


@dataclass(frozen=True)
class Box:
    """A box with the program in the home folder of its user."""

    home: Path
    store: Path
    rclone: str = RCLONE

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, PROGRAM, *words]
        return subprocess.run(
            command, cwd=self.home, env=self.environ, capture_output=True, text=True, check=False
        )

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}

    def begin(self, attempt: int, **changes: str) -> Any:
        return self.answer("begin", json.dumps({**self.settings, "attempt": attempt, **changes}))

    @property
    def settings(self) -> dict[str, Any]:
        return {"rclone": self.rclone, "folder": "saved", "run": "bucket/lab/r1", "attempt": 1, "logs": LOGS}

    def upload(self) -> Any:
        return self.answer("upload")

    def status(self) -> Any:
        return self.answer("status")

    def answer(self, *words: str) -> Any:
        done = self.ask(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def saved(self) -> Path:
        """The folder that is kept."""
        return self.home / "saved"

    def write(self, name: str, text: str) -> None:
        file = self.home / "saved" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def write_folder(self, name: str, texts: Mapping[str, str]) -> None:
        """Writes a folder under another name, and renames it when it is whole, a second later."""
        draft = self.home / "draft"
        for inner, text in texts.items():
            self.write(f"../draft/{inner}", text)
        for each in (draft, *draft.rglob("*")):
            written = each.stat().st_mtime - 1
            os.utime(each, (written, written))
        draft.rename(self.home / "saved" / name)

    def use(self, rclone: str) -> None:
        """Has the program use another rclone from now on."""
        settings = self.home / ".gpucloud/checkpoints/settings.json"
        settings.write_text(json.dumps({**json.loads(settings.read_text()), "rclone": rclone}))

    def files(self) -> dict[str, str]:
        folder = self.home / "saved"
        found = (file for file in folder.rglob("*") if file.is_file())
        return {str(file.relative_to(folder)): file.read_text(encoding="utf-8") for file in found}

    def attempt(self, number: int) -> Path:
        """What an attempt has written."""
        return self.store / "bucket/lab/r1/attempts" / str(number)


@pytest.fixture
def box(tmp_path: Path) -> Callable[..., Box]:
    store = tmp_path / "store"

    def made(name: str, **changes: str) -> Box:
        own = tmp_path / name / ".gpucloud/checkpoints"
        own.mkdir(parents=True)
        remotes = (f"[{each}]\ntype = alias\nremote = {store}\n" for each in ("store", "own"))
        (own / "rclone.conf").write_text("".join(remotes), encoding="utf-8")
        (tmp_path / name / PROGRAM).write_bytes(archive())
        return Box(tmp_path / name, store, **changes)

    return made


def failing(folder: Path, word: str) -> str:
    """An rclone that fails at one of its commands, as one whose connection is lost."""
    return meanwhile(folder, word, "exit 1")


def meanwhile(folder: Path, word: str, shell: str) -> str:
    """An rclone before whose work, where its arguments have a word, something else happens."""
    script = folder / f"rclone-{uuid.uuid4().hex}"
    script.write_text(f'#!/bin/sh\ncase " $* " in *"{word}"*) {shell} ;; esac\nexec {RCLONE} "$@"\n')
    script.chmod(0o755)
    return str(script)

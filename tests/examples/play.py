"""The examples of docs/examples: their commands, run on the sandbox as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.pages import ROOT
from tests.shell import PROGRAMS, Result, Shell

EXAMPLES = ROOT / "docs" / "examples"
SHELL = ("bash", "-eu", "-o", "pipefail", "-c")
TIMEOUT_S = 240


def example(name: str) -> Path:
    """The folder of an example."""
    return EXAMPLES / name


def commands(name: str, heading: str = "In the sandbox") -> str:
    """The commands of a section of an example's page."""
    page = (example(name) / "README.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    [block] = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return str(block)


@dataclass(frozen=True, slots=True)
class Play:
    """An example that runs in a copy of its folder."""

    process: subprocess.Popen[str]
    folder: Path

    def end(self) -> Result:
        """Waits for its end."""
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return Result(self.process.returncode, out, err)

    def interrupt(self) -> None:
        """What Ctrl-C does: every process of the terminal gets the signal."""
        os.killpg(self.process.pid, signal.SIGINT)


def start(cli: Shell, name: str, instead: Mapping[str, object] | None = None) -> Play:
    """Starts the commands for the sandbox as a user types them.

    Args:
        instead: other words for some, here and in the files: ports that are free on this machine.
    """
    folder = cli.home / name
    shutil.copytree(example(name), folder)
    script = commands(name)
    for word, other in (instead or {}).items():
        assert word in script, word
        script = script.replace(word, str(other))
        for file in folder.iterdir():
            file.write_text(file.read_text(encoding="utf-8").replace(word, str(other)), encoding="utf-8")
    process = subprocess.Popen(
        [*SHELL, script],
        env={**cli.environ, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"},
        cwd=folder,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    return Play(process, folder)


def play(cli: Shell, name: str, instead: Mapping[str, object] | None = None) -> tuple[Result, Path]:
    """Runs the commands to their end: how it was, and the folder with what they have left there."""
    begun = start(cli, name, instead)
    return begun.end(), begun.folder

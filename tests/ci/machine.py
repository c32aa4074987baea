"""A machine of a CI system: the programs of its image, a user's project, and the sandbox as its clouds."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.pages import ROOT
from tests.shell import PROGRAMS, Shell

PUBLISHED = ("action.yml", "pyproject.toml", "README.md", "LICENSE", "release", "requirements")
SOURCES = ("gpucloud", "providers", "pricing", "templates", "sandbox")
URL = "https://github.com/OWNER/gpucloud"
"""What the recipes call the repository; git is told where it is (``insteadOf``)."""
PROJECT = {
    "answer": "42\n",
    "requirements.txt": "pytest\n",
    "pytest.ini": "[pytest]\nmarkers = gpu\n",
    "test_answer.py": "import pathlib, pytest, time\n@pytest.mark.gpu\ndef test_answer():\n"
    "    assert pathlib.Path('answer').read_text() == '42\\n'\n"
    "    time.sleep(60 * pathlib.Path('slow').exists())\n",
}
"""The user's project: one test for a GPU, which takes long if there is a file ``slow``."""
OFFLINE = {"PYTHONPATH": sysconfig.get_path("purelib"), "PIP_NO_INDEX": "1"}
"""For pip in a test that must not use a network: what the lock names is here already."""
NETWORK = re.compile(r"PIP_\w+|\w+_PROXY|\w+_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE")
"""For pip with a network: the variables that say where this machine's package index is."""
CANCELLED = ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5), (signal.SIGKILL, 0.0))
"""What GitHub's runner sends a cancelled step, and how long it waits after each
(github.com/actions/runner, ProcessInvoker)."""
Watch = Callable[[str, "subprocess.Popen[str]"], None]


@dataclass(frozen=True, slots=True)
class Repository:
    """gpucloud's own repository as it is published, with one commit."""

    folder: Path
    commit: str

    def pinned(self, text: str) -> str:
        """A recipe whose ``COMMIT`` a user has filled in."""
        return re.sub(r"\bCOMMIT\b", self.commit, text)


def publish(folder: Path) -> Repository:
    """Commits what an installation needs of this checkout, but for what git ignores."""

    def git(*arguments: str) -> str:
        line = ["git", "--git-dir", str(folder), "--work-tree", str(ROOT), *arguments]
        ran = subprocess.run(line, check=True, capture_output=True, text=True)
        return ran.stdout.strip()

    git("init", "--quiet")
    git("add", "--", *PUBLISHED, *SOURCES)
    git("-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "--quiet", "--message", "published")
    return Repository(folder, git("rev-parse", "HEAD"))


@dataclass(slots=True)
class Machine:
    """Runs scripts one after the other, each a process in the project's checkout."""

    cli: Shell
    workspace: Path
    temp: Path
    environment: dict[str, str]
    watch: Watch | None = None
    """Called with each line that a script prints, and its process."""
    log: list[str] = field(default_factory=list[str])
    """What the scripts have printed."""

    def start(
        self, script: str, shell: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        """Starts a script as runners do: in a file, run by a shell."""
        file = self.cli.home / "script.sh"
        file.write_text(script, encoding="utf-8")
        return subprocess.Popen(
            [*shell, str(file)],
            env={**self.environment, **environment},
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> int:
        """Waits for a script; its exit code."""
        assert process.stdout is not None
        for line in process.stdout:
            self.log.append(line)
            if self.watch is not None:
                self.watch(line, process)
        process.stdout.close()
        return process.wait()

    def run(self, script: str, shell: Sequence[str], environment: Mapping[str, str]) -> int:
        """Runs a script to its end; its exit code."""
        return self.finish(self.start(script, shell, environment))

    @property
    def said(self) -> str:
        """All that the scripts have printed."""
        return "".join(self.log)


def a_machine(
    cli: Shell, repository: Repository, *, without: Collection[str] = (), online: bool = False
) -> Machine:
    """A machine with this one's programs, but without gpucloud and those in ``without``.

    Args:
        cli: whose clouds it uses.
        repository: what is at :data:`URL`.
        without: programs that its image has not; ``apt-get install`` brings them.
        online: whether pip asks the package index.
    """
    programs, workspace, temp = (cli.home / name for name in ("bin", "the checkout", "temp of the runner"))
    for folder in (programs, workspace, temp):
        folder.mkdir()
    for name, content in PROJECT.items():
        (workspace / name).write_text(content)
    _link_programs(programs, {"gpucloud", *without})
    (cli.home / ".gitconfig").write_text(f'[url "{repository.folder.as_uri()}"]\n  insteadOf = {URL}\n')
    pip = {k: v for k, v in os.environ.items() if NETWORK.fullmatch(k)} if online else OFFLINE
    environment = {
        "PATH": str(programs),
        "HOME": str(cli.home),
        "LC_ALL": "C.UTF-8",
        "GPUCLOUD_HOME": str(cli.home),
        "XDG_RUNTIME_DIR": str(cli.runtime),
        "GPUCLOUD_SANDBOX": "1",
        **pip,
    }
    return Machine(cli, workspace, temp, environment)


def install(machine: Machine, folder: Path) -> None:
    """What the install step has left in its virtual environment, for a test that begins after it."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "gpucloud").symlink_to(PROGRAMS / "gpucloud")


def cancel(process: subprocess.Popen[str]) -> None:
    """What happens to a step of a cancelled job; then everything of it that is left is killed."""
    for number, patience_s in CANCELLED:
        process.send_signal(number)
        try:
            process.wait(timeout=patience_s or 10)
            break
        except subprocess.TimeoutExpired:
            continue
    kill(process)
    process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    """Ends a script and all that it has started, without a word."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def killer(cli: Shell) -> Watch:
    """Kills a run when its command has begun on the box, which is billed then."""

    def watch(line: str, process: subprocess.Popen[str]) -> None:
        if "  job " in line:
            assert len(cli.billed()) == 1
            kill(process)

    return watch


def _link_programs(folder: Path, without: Collection[str]) -> None:
    """Fills a folder with the programs of the PATH, a Python that gpucloud can use, and an apt-get."""
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    (folder / "apt-get").write_text(APT_GET.format(path=os.environ["PATH"], folder=folder))
    (folder / "apt-get").chmod(0o755)
    for place in map(Path, os.get_exec_path()):
        for program in place.glob("*") if place != PROGRAMS else ():
            link = folder / program.name
            if program.name not in without and not link.is_symlink() and not link.exists():
                link.symlink_to(program)


APT_GET = """#!/bin/sh
# Stands in for apt-get: what is installed is this machine's program of that name.
[ "$1" = install ] || exit 0
for each; do :; done
ln -s "$(PATH='{path}' command -v "$each")" '{folder}'/
"""

"""The version before and this one, on one journal with living boxes: ``python -m release.upgrade``.

The older one launches a box; this one sees it, moves its deadline, launches another and ends both. In
between the older one goes on with both, if the journal is still in its form; otherwise it says that the
journal is too new for it, before it asks any cloud for anything. On the sandbox.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from sysconfig import get_path

from release.checks import git
from release.lock import ROOT

TABLES = "gpucloud/journal/sqlite/schema.py"
"""The last commit before this file changed is the version before, until there is a tag."""
JOURNAL = "state-sandbox/journal.db"
REFUSAL = "was written by a newer gpucloud"
BAD_USAGE = 2


@dataclass(frozen=True, slots=True)
class Program:
    """An installed gpucloud."""

    name: str
    path: Path
    variables: Mapping[str, str]

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What a command prints, on both streams.

        Raises:
            SystemExit: it exits with another code.
        """
        print(f"$ {self.name} {' '.join(arguments)}", flush=True)
        done = subprocess.run(
            [str(self.path), *arguments],
            env={**os.environ, **self.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(done.stdout, end="", flush=True)
        if done.returncode != code:
            raise SystemExit(
                f"{self.name} {' '.join(arguments)}: exit code {done.returncode} instead of {code}"
            )
        return done.stdout


def upgrade_and_back(older: Program, newer: Program, journal: Path) -> None:
    """The course of an upgrade that is taken back, and done again.

    Raises:
        SystemExit: it is not as promised.
    """
    older("launch", "--gpu", "T4", "--name", "old-box", "--ttl", "1h", "--yes")
    form = _form(journal)
    _demand("old-box" in newer("list"), "the box of the older version is not listed")
    newer("extend", "old-box", "--ttl", "2h", "--yes")
    newer("launch", "--gpu", "T4", "--name", "new-box", "--ttl", "1h", "--yes")
    if _form(journal) == form:
        _go_on(older)
    else:
        held = newer("sandbox", "status")
        _refuse(older)
        _demand(newer("sandbox", "status") == held, "the older version has changed something")
    _demand("new-box" in newer("list"), "the older version has harmed the journal")
    newer("down", "old-box", "new-box", "--yes")
    _demand("$0.0000 per hour" in newer("sandbox", "status"), "something is still billed")


def _go_on(older: Program) -> None:
    """The older version knows what the newer one has written."""
    listed = older("list")
    _demand("old-box" in listed and "new-box" in listed, "the older version does not list both boxes")
    older("extend", "new-box", "--ttl", "2h", "--yes")


def _refuse(older: Program) -> None:
    """The older version does not know what the newer one has written."""
    for command in ("list", "launch --gpu T4 --name never --ttl 1h --yes", "down old-box --yes"):
        _demand(REFUSAL in older(*command.split(), code=BAD_USAGE), "the older version does not say why")


def _form(journal: Path) -> int:
    """The number of the tables' form."""
    with closing(sqlite3.connect(journal)) as connection:
        [[version]] = connection.execute("PRAGMA user_version")
    return int(version)


def _demand(what: bool, otherwise: str) -> None:
    if not what:
        raise SystemExit(otherwise)


def _install(commit: str, folder: Path) -> Path:
    """Installs a commit in an environment of its own, with our dependencies; gives the program."""
    source, environment = folder / "source", folder / "environment"
    source.mkdir(parents=True)
    with subprocess.Popen(["git", "-C", ROOT, "archive", commit], stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", source], stdin=archive.stdout, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(environment), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--ignore-installed", str(source)], check=True)
    return environment / "bin" / "gpucloud"


def main() -> int:
    """Runs; gives the exit code."""
    here = git("tag", "--points-at", "HEAD").split()
    tags = [tag for tag in git("tag", "--list", "v*", "--sort=-v:refname").split() if tag not in here]
    before = tags[0] if tags else git("log", "-1", "--format=%h~1", "HEAD", "--", TABLES).strip()
    with tempfile.TemporaryDirectory(prefix="gpucloud-upgrade.") as name:
        folder = Path(name)
        variables = {"HOME": name, "GPUCLOUD_HOME": f"{name}/home", "GPUCLOUD_SANDBOX": "1"}
        older = Program("older", _install(before, folder / "older"), variables)
        newer = Program("newer", _install("HEAD", folder / "newer"), variables)
        try:
            upgrade_and_back(older, newer, folder / "home" / JOURNAL)
        finally:
            newer("sandbox", "stop")
    print(f"\n{before} -> this commit -> {before} -> this commit: nothing was lost, and nothing is left.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

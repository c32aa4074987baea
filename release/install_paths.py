"""Installs what is in ``dist/`` as users do, and runs the demo: ``python -m release.install_paths TOOLS``.

By pip, pipx and uv, and as one file; each with a home of its own and nothing else of this checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic

from release.build import DIST
from release.lock import ROOT
from release.zipapp import ZIPAPP

DEMO = ROOT / "docs" / "demo.sh"
PASSED_ON = ("PATH", "LANG")
"""Of this process's environment, what a demo sees; an installer sees all, such as where the index is."""


def _pip(tools: Path, home: Path, requirement: str) -> Path:
    _run([sys.executable, "-m", "venv", str(home / "venv")], home)
    _run([str(home / "venv/bin/python"), "-m", "pip", "install", "--quiet", requirement], home)
    return home / "venv" / "bin"


def _pipx(tools: Path, home: Path, requirement: str) -> Path:
    _run([str(tools / "pipx"), "install", "--quiet", requirement], home)
    return home / ".local" / "bin"


def _uv(tools: Path, home: Path, requirement: str) -> Path:
    _run([str(tools / "uv"), "tool", "install", "--quiet", "--python", sys.executable, requirement], home)
    return home / ".local" / "bin"


def _one_file(tools: Path, home: Path, requirement: str) -> Path:
    program = home / "bin" / "gpucloud"
    program.parent.mkdir()
    program.symlink_to(ZIPAPP)
    return program.parent


WAYS: Mapping[str, Callable[[Path, Path, str], Path]] = {
    "pip": _pip,
    "pipx": _pipx,
    "uv": _uv,
    "one file": _one_file,
}
"""Each installs into a home, and gives the folder of the program."""


def main(tools: Path) -> int:
    """Runs; gives the exit code."""
    (wheel,) = DIST.glob("gpucloud-*.whl")
    for name, install in WAYS.items():
        with tempfile.TemporaryDirectory(prefix="gpucloud-path.") as folder:
            home, started = Path(folder), monotonic()
            programs = install(tools, home, f"gpucloud[sandbox] @ {wheel.as_uri()}")
            variables = {each: os.environ[each] for each in PASSED_ON if each in os.environ}
            variables |= {"HOME": folder, "PATH": f"{programs}{os.pathsep}{variables['PATH']}"}
            print(f"\n== {name}: installed in {monotonic() - started:.0f} s ==", flush=True)
            subprocess.run([str(DEMO)], env=variables, cwd=home, check=True)
    print(f"\nThe demo has run after each of: {', '.join(WAYS)}.")
    return 0


def _run(command: list[str], home: Path) -> None:
    """Runs an installer whose home is this one; what it caches stays there too."""
    subprocess.run(command, env={**os.environ, "HOME": str(home)}, cwd=home, check=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() / "bin"))

"""Makes ``dist/gpucloud.pyz`` from the wheel in ``dist/``: ``python -m release.zipapp PEX_ENVIRONMENT``.

One file with the program, every cloud's SDK and the sandbox, for a pipeline that has Python and nothing
else. What it holds beside the program is what ``requirements/all.txt`` names by its hash. It unpacks itself
once, into a folder named by its digest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from release.build import DIST, write_sums
from release.checks import git
from release.lock import LOCK, extras, locked_for, project_of, read_lock

ZIPAPP = DIST / "gpucloud.pyz"
EXTRA = "sandbox"
RUNS_ON = "CPython==3.11.*"
"""Compiled packages are of one version of Python and one system: this, on the system that builds."""


def main(environment: str) -> int:
    """Runs; gives the exit code.

    Args:
        environment: the folder of the virtual environment with pip and pex (``requirements/release.txt``).
    """
    programs = Path(environment) / "bin"
    at = git("log", "-1", "--format=%ct").strip()
    variables = {**os.environ, "SOURCE_DATE_EPOCH": at}
    (wheel,) = DIST.glob("*.whl")
    with tempfile.TemporaryDirectory(prefix="gpucloud-zipapp.") as folder:
        wheels = Path(folder) / "wheels"
        _fetch(programs, Path(folder) / "locked.txt", wheels, variables)
        command: list[str | Path] = [
            *(programs / "pex", f"gpucloud[{EXTRA}]", "--console-script", "gpucloud", "--venv"),
            *("--pre-resolved-dists", wheels, "--pre-resolved-dist", wheel),
            *("--python", programs / "python", "--interpreter-constraint", RUNS_ON),
            *("--python-shebang", "/usr/bin/env python3.11", "--no-compile"),
            *("--pex-root", Path(folder) / "root", "--output-file", ZIPAPP),
        ]
        subprocess.run(command, env=variables, check=True)
    write_sums(DIST)
    return 0


def _fetch(programs: Path, locked: Path, wheels: Path, variables: dict[str, str]) -> None:
    """Fetches what the extra needs, by hash, and builds wheels of what has none."""
    lock = read_lock(LOCK.read_text(encoding="utf-8"))
    packages = locked_for(lock, extras(project_of())[EXTRA])
    locked.write_text("".join(f"{package.text}\n" for package in packages), encoding="utf-8")
    command: list[str | Path] = [
        *(programs / "python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--require-hashes", "--requirement", locked, "--wheel-dir", wheels),
    ]
    subprocess.run(command, env=variables, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

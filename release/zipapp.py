"""Makes ``dist/gpucloud.pyz`` from the wheel in ``dist/``: ``python -m release.zipapp PEX_ENVIRONMENT``.

One file with the program, every cloud's SDK and the sandbox, for a pipeline that has Python and nothing
else. What it holds beside the program is what ``requirements/all.txt`` names by its hash. It unpacks itself
once, into a folder named by its digest. It is built twice, in two folders with other time zones and
languages, and compared.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from release.build import DIST, UMASKS_AND_VARIABLES, digest, write_sums
from release.checks import git
from release.lock import LOCK, extras, locked_for, project_of, read_lock

ZIPAPP = DIST / "gpucloud.pyz"
EXTRA = "sandbox"
RUNS_ON = "CPython==3.11.*"
"""Compiled packages are of one version of Python and one system: this, on the system that builds."""
UMASK = 0o022
"""A wheel that is built from others' sources records the permissions of its files."""


def main(environment: str) -> int:
    """Runs; gives the exit code.

    Args:
        environment: the folder of the virtual environment with pip and pex (``requirements/release.txt``).
    """
    programs = Path(environment) / "bin"
    at = git("log", "-1", "--format=%ct").strip()
    with tempfile.TemporaryDirectory(prefix="gpucloud-zipapp.") as name, ThreadPoolExecutor() as pool:
        folder = Path(name)
        packages = _fetched(programs, folder)

        def build(number: int) -> Path:
            _, variables = UMASKS_AND_VARIABLES[number]
            variables = {**os.environ, **variables, "SOURCE_DATE_EPOCH": at}
            return _built(programs, packages, folder / f"build-{number}", variables)

        first, second = pool.map(build, range(2))
        if digest(first) != digest(second):
            print(f"two builds of {ZIPAPP.name} differ", file=sys.stderr)
            return 1
        shutil.copy(first, ZIPAPP)
    write_sums(DIST)
    print(f"Two builds of {ZIPAPP.name} are equal, bit by bit: {digest(ZIPAPP)}")
    return 0


def _fetched(programs: Path, folder: Path) -> list[Path]:
    """What the extra needs, by hash: wheels, and the sources of what has none."""
    lock = read_lock(LOCK.read_text(encoding="utf-8"))
    packages = locked_for(lock, extras(project_of())[EXTRA])
    locked, fetched = folder / "locked.txt", folder / "fetched"
    locked.write_text("".join(f"{package.text}\n" for package in packages), encoding="utf-8")
    command: list[str | Path] = [
        *(programs / "python", "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--require-hashes", "--requirement", locked, "--dest", fetched),
    ]
    subprocess.run(command, check=True)
    return sorted(fetched.iterdir())


def _built(programs: Path, packages: Sequence[Path], folder: Path, variables: dict[str, str]) -> Path:
    """The file of one build.

    Wheels of sources are made here: pip's cache may have them of another time.
    """
    wheels, file = folder / "wheels", folder / ZIPAPP.name
    (wheel,) = DIST.glob("*.whl")
    from_packages: list[str | Path] = [
        *(programs / "python", "-m", "pip", "wheel", "--quiet", "--no-cache-dir", "--no-index", "--no-deps"),
        *("--no-build-isolation", "--wheel-dir", wheels),
        *packages,
    ]
    from_wheels: list[str | Path] = [
        *(programs / "pex", f"gpucloud[{EXTRA}]", "--console-script", "gpucloud", "--venv"),
        *("--pre-resolved-dists", wheels, "--pre-resolved-dist", wheel),
        *("--python", programs / "python", "--interpreter-constraint", RUNS_ON),
        *("--python-shebang", "/usr/bin/env python3.11", "--no-compile"),
        *("--pex-root", folder / "root", "--output-file", file),
    ]
    for command in (from_packages, from_wheels):
        subprocess.run(command, env=variables, umask=UMASK, check=True)
    return file


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

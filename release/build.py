"""Builds wheel and source distribution of the last commit twice, and compares: ``python -m release.build``.

The two builds differ in all that must not matter: folder, umask, time zone, language, and the times of the
files. The wheel is built a third time from the source distribution. What is equal goes to ``dist/``, with
the bills of materials and ``SHA256SUMS``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from release.checks import git
from release.lock import ROOT
from release.sbom import write_boms
from release.wheel_hook import BOMS

DIST = ROOT / "dist"
SUMS = "SHA256SUMS"
UMASKS_AND_VARIABLES = (
    (0o022, {"TZ": "UTC", "LC_ALL": "C.UTF-8"}),
    (0o077, {"TZ": "Asia/Kolkata", "LC_ALL": "C"}),
)


def main() -> int:
    """Runs; gives the exit code."""
    at = int(git("log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory(prefix="gpucloud-release.") as folder:
        first, second = (
            _built(Path(folder) / f"build-{number}", at, umask, variables)
            for number, (umask, variables) in enumerate(UMASKS_AND_VARIABLES)
        )
        again = _from_source(first, Path(folder) / "from-source", at)
        different = [name for name, file in first.items() if digest(file) != digest(second[name])]
        different += [name for name, file in again.items() if digest(file) != digest(first[name])]
        if different:
            print(f"two builds of one commit differ in {', '.join(different)}", file=sys.stderr)
            return 1
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for file in first.values():
            shutil.copyfile(file, DIST / file.name)
    write_sums(DIST)
    print(f"Two builds of {git('rev-parse', '--short', 'HEAD').strip()} are equal, bit by bit:")
    print((DIST / SUMS).read_text(), end="")
    return 0


def write_sums(folder: Path) -> None:
    """Writes the digests of a folder's files, as ``sha256sum --check`` reads them."""
    files = sorted(file for file in folder.iterdir() if file.name != SUMS)
    (folder / SUMS).write_text("".join(f"{digest(file)}  {file.name}\n" for file in files))


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _built(folder: Path, at: int, umask: int, variables: dict[str, str]) -> dict[str, Path]:
    """The files of one build, by name."""
    source = folder / "gpucloud"
    source.mkdir(parents=True)
    with subprocess.Popen(["git", "-C", ROOT, "archive", "HEAD"], stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "--touch", "-C", source], stdin=archive.stdout, check=True, umask=umask)
    (source / BOMS).mkdir()
    for name, bom in write_boms(source, at).items():
        (source / BOMS / name).write_bytes(bom)
    made = _run_hatchling(source, folder / "out", at, umask, variables)
    return made | {file.name: file for file in (source / BOMS).iterdir()}


def _from_source(first: dict[str, Path], folder: Path, at: int) -> dict[str, Path]:
    """The wheel that the source distribution of a build gives, by name."""
    archive = next(file for name, file in first.items() if name.endswith(".tar.gz"))
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    source = folder / archive.name.removesuffix(".tar.gz")
    return _run_hatchling(source, folder / "out", at, *UMASKS_AND_VARIABLES[0], "--target", "wheel")


def _run_hatchling(
    source: Path, out: Path, at: int, umask: int, variables: dict[str, str], *options: str
) -> dict[str, Path]:
    environment = {**os.environ, **variables, "SOURCE_DATE_EPOCH": str(at)}
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out), *options]
    subprocess.run(command, cwd=source, env=environment, umask=umask, check=True, stdout=subprocess.DEVNULL)
    return {file.name: file for file in out.iterdir()}


if __name__ == "__main__":
    sys.exit(main())

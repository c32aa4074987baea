"""Builds ``gpucloud-prices``, the price data alone, as a wheel: ``python -m release.prices_wheel``.

Its version is the day of its newest price. A program that finds it installed, and newer than its own data,
uses it (``gpucloud_pricing/snapshot.py``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gpucloud_pricing.snapshot import AS_OF, FORM, OWN, PACKAGE, SNAPSHOT, TARIFFS
from release.build import DIST
from release.checks import git
from release.lock import ROOT

OUT = DIST / "prices"
PROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "gpucloud-prices"
version = "{version}"
description = "Prices of GPU machines for gpucloud: data alone, newer than those of its releases."
license = "Apache-2.0"
license-files = ["LICENSE"]
requires-python = ">=3.11"

[tool.hatch.build.targets.wheel]
packages = ["{package}"]
"""


def build_wheel(data: Path, out: Path, at: int) -> Path:
    """The wheel of a folder with ``snapshot.json``, ``tariffs.json`` and ``as_of.txt``.

    Args:
        data: the folder.
        out: where the wheel is written.
        at: the time in the wheel, in seconds since 1970.
    """
    version = (data / AS_OF).read_text(encoding="ascii").strip().replace("-", ".")
    with tempfile.TemporaryDirectory(prefix="gpucloud-prices.") as name:
        folder = Path(name)
        form = folder / PACKAGE / f"form_{FORM}"
        form.mkdir(parents=True)
        for file in (SNAPSHOT.name, TARIFFS.name, AS_OF):
            shutil.copyfile(data / file, form / file)
        shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
        (folder / PACKAGE / "__init__.py").write_text('"""Prices for gpucloud: data alone."""\n')
        (folder / "pyproject.toml").write_text(PROJECT.format(version=version, package=PACKAGE))
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(at)}
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    (wheel,) = out.glob(f"{PACKAGE}-*.whl")
    return wheel


def main() -> int:
    """Runs; gives the exit code."""
    shutil.rmtree(OUT, ignore_errors=True)
    print(build_wheel(OWN, OUT, int(git("log", "-1", "--format=%ct"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

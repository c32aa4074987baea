"""Debian's Slurm, unpacked into a folder of its own: nothing is installed, and no service is started."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / ".venv-engines" / "slurm"
SLURM = """
slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libmunge2 libhwloc15 liblua5.1-0 libnuma1 liblz4-1
"""
CLOCK = "libfaketime"
"""Has a program see another time than this machine's."""
ACCOUNTING = """
slurmdbd slurm-wlm-mysql-plugin mariadb-server mariadb-server-core mariadb-client-core mariadb-common
libmariadb3 liburing2 libaio1
"""
COMMANDS = "sacct sacctmgr salloc sbatch scancel scontrol sinfo squeue srun sshare sprio"
DAEMONS = "slurmctld slurmd slurmstepd slurmdbd munged mariadbd"


def unpack(*, accounting: bool = False) -> Path:
    """The folder of the programs, for PATH; the first time, their packages are fetched."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip("Slurm comes from the packages of Debian or Ubuntu")
    root = FOLDER / "root"
    packages = [*SLURM.split(), CLOCK, *(ACCOUNTING.split() if accounting else [])]
    missing = [name for name in packages if not (FOLDER / f"{name}.unpacked").exists()]
    if missing:
        _fetch(missing, root)
    bin_ = FOLDER / "bin"
    bin_.mkdir(exist_ok=True)
    for name in (*COMMANDS.split(), *DAEMONS.split()):
        _wrap(root, bin_, name)
    return bin_


def _fetch(packages: list[str], root: Path) -> None:
    archives, lists = FOLDER / "archives", FOLDER / "lists"
    for folder in (archives / "partial", lists / "partial", root):
        folder.mkdir(parents=True, exist_ok=True)
    options = ["-qq", "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={archives}"]
    options += ["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"]
    for command in (["update"], ["download", *packages]):
        subprocess.run(["apt-get", *options, *command], cwd=archives, check=True, timeout=240)
    for name in packages:
        for archive in archives.glob(f"{name}_*.deb"):
            subprocess.run(["dpkg", "-x", archive, root], check=True, timeout=120)
        (FOLDER / f"{name}.unpacked").touch()
    shutil.rmtree(archives)
    shutil.rmtree(lists)


def _wrap(root: Path, folder: Path, name: str) -> None:
    """A program with its libraries. Under Debian's own names Slurm's daemons drop every GRES of a node."""
    found = next(
        (path for path in (root / "usr/sbin" / name, root / "usr/bin" / name) if path.exists()), None
    )
    if found is None and (renamed := root / "usr/sbin" / f"{name}-wlm").exists():
        found = renamed.with_name(name)
        found.symlink_to(renamed.name)
    if found is None:
        return
    libraries = _libraries()
    stepd = f" -d {folder / 'slurmstepd'}" if name == "slurmd" else ""
    draft = folder / f".{name}.{os.getpid()}"
    draft.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH={libraries}:{libraries}/slurm-wlm exec {found}{stepd} "$@"\n'
    )
    draft.chmod(0o755)
    draft.replace(folder / name)


def plugins() -> Path:
    """The folder of Slurm's plug-ins."""
    return _libraries() / "slurm-wlm"


def wrong_clock(shift: str) -> dict[str, str]:
    """The variables with which a program sees a time that is ahead or behind: ``+3h``, ``-3h``."""
    return {"LD_PRELOAD": str(_libraries() / "faketime/libfaketime.so.1"), "FAKETIME": shift}


def _libraries() -> Path:
    return FOLDER / "root/usr/lib" / f"{os.uname().machine}-linux-gnu"

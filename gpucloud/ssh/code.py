"""The frozen files of a run on a node: an archive is sent, checked by its digest, and unpacked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpucloud.ssh.client import Target, run
from gpucloud.ssh.files import NotCopiedError, rsync_up

FOLDER = ".gpucloud/code"
UNPACK_S = 3600.0

_PREPARE = f"umask 077; mkdir -p {FOLDER}"
# tar refuses names that lead out of its folder, and makes links last: nothing is written through one.
_UNPACK = f"""set -eu
file={FOLDER}/$1.tar.gz
echo "$1  $file" | sha256sum --check --status || {{ echo 'it is not what was sent' >&2; exit 1; }}
tar -xzpf "$file" --no-same-owner --strip-components=1 home
[ "$2" = "" ] || tar -xzpf "$file" --no-same-owner --strip-components=1 -C / root
rm -f "$file"
"""


def unpack(
    node: Target, *, archive: Path, sha256: str, absolute: bool, tell: Callable[[str], None] | None = None
) -> None:
    """Sends an archive to a node, and unpacks it in the home folder; what is there already is replaced.

    Args:
        node: the node.
        archive: the archive here.
        sha256: its digest.
        absolute: whether it has files with absolute paths.
        tell: is told the progress.

    Raises:
        NotCopiedError: it arrived damaged, or a file cannot be written there.
        ConnectionFailedError: the node could not be reached.
    """
    run(node, ["sh", "-c", _PREPARE])
    rsync_up(node, str(archive), f"{FOLDER}/{sha256}.tar.gz", tell=tell)
    words = ["sh", "-c", _UNPACK, "sh", sha256, "absolute" if absolute else ""]
    done = run(node, words, timeout_s=UNPACK_S, only_end=True)
    if done.code:
        said = done.err.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise NotCopiedError(f"the files could not be unpacked on {node.alias}: {said[-1][:500]}")

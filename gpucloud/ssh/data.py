"""Data sets on a node: copied by rclone as the box's user, then root's, read-only, and mounted read-only.

The rights to read them come with the copy, on a pipe, and are deleted with its end.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucloud.errors import GpucloudError
from gpucloud.ssh import rclone
from gpucloud.ssh.client import Target, run

REMOTE = "data"
ON_DISK, ON_SCRATCH = "/var/lib/gpucloud/data", "/scratch/.gpucloud-data"
MOST_BYTES = 65536
COPY_S = 24 * 3600.0
"""Copies have no limit of their own: the deadline of the box comes first."""
ROUND = "45m"
"""How long one lease is used for new files; those under way have the rest of its hour."""
GOES_ON = 10
"""rclone's exit code when this time was over (rclone's manual, "Exit code")."""
PREPARE = f"""set -eu
dir={ON_DISK}/$1
[ "$2" != scratch ] || ! mountpoint -q /scratch || dir={ON_SCRATCH}/$1
mkdir -p "$dir"
chown -R "$3:" "$dir"
chmod -R u+rwX "$dir"
echo "$dir"
"""
"""Arguments: the name of the folder, ``scratch`` or nothing, the user. Prints the folder."""
COPY = f"""set -u; umask 077
mkdir -p .gpucloud && config=$(mktemp .gpucloud/data.XXXXXX) || exit
trap 'rm -f "$config"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$config"
{rclone.PROGRAM} --config "$config" copy "$1" "$2" --retries 1 --use-server-modtime --transfers 8 \
  --max-duration {ROUND} --cutoff-mode soft --stats 0 --log-level ERROR
"""
"""Arguments: the folder in rclone's words, the folder on the box. The configuration is its input."""
LOCK = f"""set -eu
chown -R root:root "$1"
chmod -R a-w,a+rX "$1"
mountpoint -q "$2" || mount -o bind,ro,X-mount.mkdir "$1" "$2"
case $1 in {ON_SCRATCH}/*) exit ;; esac
grep -q "^$1 $2 " /etc/fstab || echo "$1 $2 none bind,ro,nofail,X-mount.mkdir 0 0" >>/etc/fstab
"""
"""Arguments: the folder, and the path at which it is mounted. Local disks are made after fstab is read."""


class DataNotCopiedError(GpucloudError):
    """A data set could not be copied to a box; the message quotes the box."""


def install(node: Target) -> None:
    """Puts rclone on a node.

    Raises:
        DataNotCopiedError: it could not be installed.
        ConnectionFailedError: the node could not be reached.
    """
    if (said := rclone.install(node)) is not None:
        raise DataNotCopiedError(f"rclone could not be installed on {node.alias}: {said}")


def prepare(node: Target, path: str, *, scratch: bool) -> str:
    """Makes the folder of a data set, writable by the box's user, and returns it.

    Args:
        node: the node.
        path: the path at which the data set is wanted.
        scratch: on the local disks, if the node has any.

    Raises:
        DataNotCopiedError: the node refused.
        ConnectionFailedError: it could not be reached.
    """
    name = path.strip("/").replace("/", "=")  # no path has this character
    return _as_root(node, PREPARE, name, "scratch" if scratch else "", node.user)


def copy(node: Target, options: Mapping[str, str], source: str, folder: str) -> bool:
    """Copies what is missing; False if the time of a lease was over before everything was there.

    Args:
        node: the node.
        options: those of rclone's remote, with its secrets.
        source: the folder in the store, as rclone's path without the remote.
        folder: the result of :func:`prepare`.

    Raises:
        DataNotCopiedError: a file could not be copied.
        ConnectionFailedError: the node could not be reached.
    """
    config = rclone.configuration({REMOTE: options})
    words = ["sh", "-c", COPY, "sh", f"{REMOTE}:{source}", folder]
    done = run(node, words, stdin=config, timeout_s=COPY_S, most_bytes=MOST_BYTES, only_end=True)
    if done.code not in {0, GOES_ON}:
        raise DataNotCopiedError(f"{node.alias}: {rclone.last_words(done.err)}")
    return done.code == 0


def lock(node: Target, folder: str, path: str) -> None:
    """Gives a folder to root, without a right to write for anybody, and mounts it read-only.

    Raises:
        DataNotCopiedError: the node refused.
        ConnectionFailedError: it could not be reached.
    """
    _as_root(node, LOCK, folder, path)


def _as_root(node: Target, script: str, *words: str) -> str:
    command = ["sudo", "-n", "sh", "-c", script, "sh", *words]
    done = run(node, command, timeout_s=rclone.INSTALL_S, most_bytes=MOST_BYTES, only_end=True)
    if done.code:
        raise DataNotCopiedError(f"{node.alias}: {rclone.last_words(done.err)}")
    return done.out.decode(errors="replace").strip()

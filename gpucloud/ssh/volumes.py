"""Mounts volumes on a node: by the label of their file system, and formatted only if they are blank."""

from __future__ import annotations

from collections.abc import Sequence

from gpucloud.errors import GpucloudError
from gpucloud.ssh.client import Target, run

MOUNT_TIMEOUT_S = 240.0
UNMOUNT_TIMEOUT_S = 15.0
NO_DEVICE, NOT_BLANK, LOST = 3, 4, 5
"""Exit codes of :data:`MOUNT`."""
MOUNT = f"""set -eu
label=$1 path=$2 user=$3 may_format=$4 copied=$5; shift 5
tries=0
until for device in "$@"; do [ -e "$device" ] && break 2; done; false; do
  tries=$((tries + 1)); [ "$tries" -lt 240 ] || exit {NO_DEVICE}
  sleep 0.5
done
code=0; blkid -p "$device" >/dev/null 2>&1 || code=$?
case $code in
  0)
    if [ -n "$copied" ] && [ "$(blkid -p -s LABEL -o value "$device")" = "$copied" ]; then
      e2fsck -p "$device" >&2 || [ $? -le 2 ]
      e2label "$device" "$label"
    fi
    ;;
  2) [ "$may_format" = yes ] || exit {LOST}; mkfs.ext4 -q -L "$label" "$device" ;;
  *) exit {NOT_BLANK} ;;
esac
grep -q "^LABEL=$label " /etc/fstab ||
  echo "LABEL=$label $path ext4 defaults,nofail,X-mount.mkdir 0 2" >> /etc/fstab
mountpoint -q "$path" || mount -o X-mount.mkdir "LABEL=$label" "$path"
chown "$user:" "$path"
"""
"""Arguments: label, path, the user of the box, ``yes`` if the volume may be formatted, the label that a copy
has from its source, the possible devices.

A copy gets a label of its own, so that a box can mount it beside its source. Before, its journal is replayed:
the replay may restore the label (``e2fsck -p``; codes 1 and 2 tell that errors were corrected, e2fsck(8)).
``blkid -p`` exits with 2 if it finds neither a file system nor a partition table (blkid(8)).
"""
UNMOUNT = """sync
for path in "$@"; do umount "$path" || mount -o remount,ro "$path" || true; done
sync
"""


class NotMountedError(GpucloudError):
    """A volume that is attached and could not be mounted."""


def mount(
    node: Target, path: str, *, label: str, devices: Sequence[str], may_format: bool, copied: str = ""
) -> None:
    """Mounts a volume that is attached, for the user of the box; one that is mounted already stays.

    Args:
        node: the node.
        path: where; made if it is missing.
        label: of its file system, at most 16 characters.
        devices: where the node may show the device.
        may_format: whether a blank volume is formatted.
        copied: the label that a copy has from its source; empty for what is no copy.

    Raises:
        NotMountedError: the node did not mount it; says why.
        ConnectionFailedError: the node could not be reached.
    """
    words = [label, path, node.user, "yes" if may_format else "no", copied, *devices]
    done = run(node, ["sudo", "-n", "sh", "-c", MOUNT, "sh", *words], timeout_s=MOUNT_TIMEOUT_S)
    if done.code:
        said = done.err.decode(errors="replace").strip()
        raise NotMountedError(
            f"{node.alias}: cannot mount {path}: {_WHY.get(done.code, said or done.code)}",
            hint="the volume stays as it is; look at it: gpucloud volume list",
        )


_WHY = {
    NO_DEVICE: "the system does not show its device",
    NOT_BLANK: "it holds neither one file system nor nothing, and is not formatted",
    LOST: "it is blank, although it was mounted before, and is not formatted",
}


def unmount(node: Target, paths: Sequence[str]) -> None:
    """Unmounts volumes; what is still in use is made read-only, with everything written."""
    run(node, ["sudo", "-n", "sh", "-c", UNMOUNT, "sh", *paths], timeout_s=UNMOUNT_TIMEOUT_S)

"""Volumes: folders that outlive boxes, and the programs by which a box formats and mounts them.

A volume that is plugged into a box is a file below its ``/dev/disk``, which names the volume's folder. A
mounted one is a link to the ``files`` in that folder, and its path is one of the box's own from then on.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

Result = tuple[int, str]
DEVICES = "/dev/disk"
NOTHING_FOUND, FAILED = 2, 32
"""Exit codes of blkid(8), and of mount(8)."""


class Mounting(Protocol):
    """The box, as these programs use it."""

    def path(self, path: str) -> Path:
        """Where a path of the box is on this machine."""
        ...

    @property
    def mounts(self) -> Mounts:
        """What is mounted."""
        ...


class Mounts:
    """The paths of a box at which volumes are mounted, in a file that outlives the process."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def paths(self) -> list[str]:
        """The paths, such as ``/data``."""
        with suppress(FileNotFoundError):
            return self.file.read_text(encoding="utf-8").splitlines()
        return []

    def write(self, paths: Sequence[str]) -> None:
        """Replaces them."""
        self.file.write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")


def plug(root: Path, device: str, volume: Path) -> None:
    """Shows a volume to the box with this root folder, as a device."""
    volume.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = root / device.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{volume}\n", encoding="utf-8")


def unplug(root: Path, mounts: Mounts, volume: Path) -> None:
    """Takes a volume away from a box, mounted or not."""
    for file in _devices(root / DEVICES.lstrip("/")):
        if _volume_of(file) == volume:
            file.unlink()
    gone = [path for path in mounts.paths() if (root / path.lstrip("/")).readlink() == volume / "files"]
    for path in gone:
        (root / path.lstrip("/")).unlink()
    if gone:
        mounts.write([path for path in mounts.paths() if path not in gone])


def copy(source: Path, target: Path) -> None:
    """Fills a volume, or a snapshot, with the files of another one as they are now."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)


def wipe(volume: Path) -> None:
    """Deletes a volume with its files."""
    shutil.rmtree(volume, ignore_errors=True)


# --- the programs


def blkid(box: Mounting, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    """``blkid -p [-s LABEL -o value] DEVICE``: whether it holds a file system, or its label."""
    label = _label_of(_volume_of(Path(arguments[-1])))
    if "value" in arguments and label:
        return 0, f"{label}\n"
    return (0, f'{arguments[-1]}: LABEL="{label}" TYPE="ext4"\n') if label else (NOTHING_FOUND, "")


def mkfs(box: Mounting, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    """``mkfs.ext4 -q -L LABEL DEVICE``: what was there is lost."""
    volume = _volume_of(Path(arguments[-1]))
    shutil.rmtree(volume / "files", ignore_errors=True)
    (volume / "files").mkdir()
    label = arguments[arguments.index("-L") + 1] if "-L" in arguments else ""
    (volume / "label").write_text(label, encoding="utf-8")
    return 0, ""


def e2fsck(box: Mounting, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    """``e2fsck -p DEVICE``: a volume here is always clean."""
    return 0, f"{arguments[-1]}: clean\n"


def e2label(box: Mounting, arguments: Sequence[str]) -> Result:  # noqa: ARG001
    """``e2label DEVICE LABEL``."""
    device, label = arguments
    (_volume_of(Path(device)) / "label").write_text(label, encoding="utf-8")
    return 0, ""


def mount(box: Mounting, arguments: Sequence[str]) -> Result:
    """``mount [-o OPTIONS] LABEL=LABEL PATH``, and of a folder; makes the folder."""
    if "remount,ro" in arguments:
        return 0, ""
    if "bind" in arguments[1].split(","):
        return _bind(box, Path(arguments[-2]), arguments[-1])
    source, label = arguments[-2], arguments[-2].removeprefix("LABEL=")
    volumes = [_volume_of(file) for file in _devices(box.path(DEVICES))]
    found = [volume for volume in volumes if _label_of(volume) == label]
    if not found:
        return FAILED, f"mount: {arguments[-1]}: can't find {source}.\n"
    return _show(box, found[0] / "files", arguments[-1])


def _bind(box: Mounting, folder: Path, at: str) -> Result:
    """``mount -o bind,ro FOLDER PATH``: that nobody can write there is left to the folder's own rights."""
    if not folder.is_dir():
        return FAILED, f"mount: {at}: special device {folder} does not exist.\n"
    return _show(box, folder, at)


def _show(box: Mounting, folder: Path, at: str) -> Result:
    """Shows a folder at a path of the box, which is one of its own from then on."""
    path = _own(box, at)
    target = box.path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir() and not target.is_symlink():
        target.rmdir()
    target.symlink_to(folder)
    box.mounts.write([*box.mounts.paths(), path])
    return 0, ""


def umount(box: Mounting, arguments: Sequence[str]) -> Result:
    """``umount PATH``."""
    path = _own(box, arguments[-1])
    if path not in box.mounts.paths():
        return FAILED, f"umount: {path}: not mounted.\n"
    box.path(path).unlink()
    box.mounts.write([each for each in box.mounts.paths() if each != path])
    return 0, ""


def mountpoint(box: Mounting, arguments: Sequence[str]) -> Result:
    """``mountpoint -q PATH``."""
    return (0, "") if _own(box, arguments[-1]) in box.mounts.paths() else (FAILED, "")


def _own(box: Mounting, path: str) -> str:
    """A path of the box, which may have been replaced by that of this machine."""
    root = box.path("/")
    return f"/{Path(path).relative_to(root)}" if Path(path).is_relative_to(root) else path


def _devices(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def _volume_of(device: Path) -> Path:
    return Path(device.read_text(encoding="utf-8").strip())


def _label_of(volume: Path) -> str:
    with suppress(FileNotFoundError):
        return (volume / "label").read_text(encoding="utf-8")
    return ""

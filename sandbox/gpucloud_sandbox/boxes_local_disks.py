"""The local disks of a box of the sandbox, as the programs that format and mount them show them.

What is mounted is a folder of the box; nothing of it touches a disk of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class LocalDisks:
    """The local disks of one box.

    Args:
        models: the model of each.
        formatted: a file that is there once they are formatted.
    """

    def __init__(self, models: Sequence[str], formatted: Path) -> None:
        self._disks = {f"/dev/nvme{number}n1": model for number, model in enumerate(models, start=1)}
        self._formatted = formatted
        self._mounted: set[str] = set()

    def begin_boot(self) -> None:
        """Nothing is mounted yet."""
        self._mounted.clear()

    def has(self, device: str) -> bool:
        """Whether a device is one of them, or an array of them."""
        return device in self._disks or device.startswith("/dev/md")

    def play(self, program: str, arguments: Sequence[str]) -> tuple[int, str]:
        """Runs one of the programs: its exit code and output."""
        match program:
            case "lsblk":
                return 0, "".join(f"{name} {model}\n" for name, model in self._disks.items())
            case "wipefs":
                return 0, "0x438 ext4\n" if self._formatted.exists() else ""
            case "mkfs.ext4":
                self._formatted.touch()
            case "mount":
                return self._mount(arguments)
            case "mountpoint":
                return int(arguments[-1] not in self._mounted), ""
            case _:  # mdadm: the array needs no state of its own
                pass
        return 0, ""

    def _mount(self, arguments: Sequence[str]) -> tuple[int, str]:
        """Mounts what is formatted; without arguments, shows what is mounted."""
        if not arguments:
            return 0, "".join(f"scratch on {target} type ext4 (rw,relatime)\n" for target in self._mounted)
        if not self._disks or not self._formatted.exists() or "--bind" in arguments:
            return 32, f"mount: {arguments[-1]}: no formatted local disk (the sandbox mounts nothing else)\n"
        self._mounted.add(arguments[-1])
        return 0, ""

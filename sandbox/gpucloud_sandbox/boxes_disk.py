"""What a box stores in its folder: its disk, its console, and which one-time steps are done."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import time
import uuid
from contextlib import suppress
from pathlib import Path

import asyncssh

from gpucloud_sandbox import boxes_shims
from gpucloud_sandbox.boxes_user_data import CloudConfig, PathMap
from gpucloud_sandbox.boxes_volumes import Mounts

PEERS = "var/lib/gpucloud/peers.json"
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
CLOCK, BOOT_ID, KERNEL_LOG = "run/gpucloud/clock", "proc/sys/kernel/random/boot_id", "dev/kmsg"
GPU_PERCENT = "tmp/gpu-percent"
GPU_SICK = "tmp/gpu-sick"
IN_MEMORY = ("dev", "proc", "run")
"""The folders of a root disk that no copy of it has."""
DRIVER = "driver.done"
FOLDERS = (
    "root",
    "tmp",
    "workspace",
    "etc/profile.d",
    "etc/security/limits.d",
    "etc/systemd/system",
    "etc/ssh",
    str(Path(KERNEL_LOG).parent),
    str(Path(CLOCK).parent),
    str(Path(BOOT_ID).parent),
)


class Disk:
    """The disk of one box.

    Args:
        folder: the box's own; ``root`` in it stands for the box's ``/``, ``shims`` holds emulated programs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.shims = folder / "bin"
        self.mounts = Mounts(folder / "mounts")
        self.paths = PathMap(self.root, self.shims, boxes_shims.ASKING | {"nvidia-smi"}, self.mounts)

    def begin_boot(self) -> None:
        """Clears what a real machine has in memory, and creates the folders that every system has."""
        shutil.rmtree(self.root / "run", ignore_errors=True)
        for name in FOLDERS:
            (self.root / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("etc/environment", "etc/fstab"):
            (self.root / name).touch()
        (self.root / KERNEL_LOG).write_bytes(b"")
        (self.root / BOOT_ID).write_text(f"{uuid.uuid4()}\n", encoding="ascii")

    def write_files(self, config: CloudConfig) -> None:
        """Writes the files of the user-data, with their paths replaced."""
        for file in config.write_files:
            target = self.paths.path(file.path)
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            target.write_bytes(self._moved(file.content))
            target.chmod(file.mode)
        if config.host_key:
            self._write_host_key(config.host_key)

    def write_clock(self, *, ahead_s: float, up_s: float) -> None:
        """Writes down what the guard adds to this machine's clocks (gpucloud_templates.guard.machine)."""
        up_ahead_s = up_s - time.clock_gettime(time.CLOCK_BOOTTIME)
        draft = self.root / f"{CLOCK}.new"
        draft.write_text(f"{ahead_s:.3f} {up_ahead_s:.3f}\n", encoding="ascii")
        draft.replace(self.root / CLOCK)

    def used_percent(self) -> int:
        """How much the GPUs are used: what is in the box's ``/tmp/gpu-percent``."""
        try:
            return min(int((self.root / GPU_PERCENT).read_text(encoding="ascii")), 100)
        except (OSError, ValueError):
            return 0

    def sickness(self) -> str | None:
        """What has become wrong with the GPUs since the boot: what is in the box's ``/tmp/gpu-sick``."""
        try:
            return (self.root / GPU_SICK).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None

    def per_boot(self) -> list[Path]:
        """The scripts that cloud-init runs at every boot."""
        return sorted(self.paths.path("/var/lib/cloud/scripts/per-boot").glob("*"))

    def environment(self) -> dict[str, str]:
        """The variables that every session gets (pam_env(8))."""
        lines = (self.root / "etc/environment").read_text(encoding="utf-8").splitlines()
        return {name: value for name, equals, value in (line.partition("=") for line in lines) if equals}

    def home(self, user: str) -> Path:
        """A user's home folder."""
        return self.root / "home" / user

    def make_home(self, user: str) -> None:
        """Makes a user's home folder, unless it is there.

        This machine's /etc/profile sets the search path anew: by the user's own profile a login shell finds
        the emulated programs again.
        """
        home = self.home(user)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        profile = home / ".profile"
        if not profile.exists():
            profile.write_text(f'PATH={shlex.quote(str(self.shims))}:"$PATH"\n', encoding="utf-8")

    def authorizes(self, user: str, key: asyncssh.SSHKey, address: str) -> bool:
        """Whether a key was added to a user since the first boot, for logins from this address."""
        file = self.home(user) / ".ssh/authorized_keys"
        try:
            return asyncssh.read_authorized_keys(str(file)).validate(key, address, address) is not None
        except (OSError, ValueError):
            return False

    def host_key(self) -> asyncssh.SSHKey:
        """The key of the box's ssh server, made if missing."""
        file = self.paths.path(HOST_KEY)
        if not file.exists():
            key: asyncssh.SSHKey = asyncssh.generate_private_key("ssh-ed25519")  # pyright: ignore[reportUnknownMemberType]
            self._write_host_key(key.export_private_key().decode())
        return asyncssh.read_private_key(file)

    def done(self, step: str) -> bool:
        """Whether a one-time step is done."""
        return (self.folder / f"{step}.done").exists()

    def mark(self, step: str) -> None:
        """Marks a one-time step as done."""
        (self.folder / f"{step}.done").touch()

    def installed(self, package: str) -> bool:
        """Whether a package was installed."""
        return (self.folder / "packages" / package).exists()

    def install(self, package: str) -> None:
        """Marks a package as installed."""
        (self.folder / "packages").mkdir(exist_ok=True)
        (self.folder / "packages" / Path(package).name).touch()

    def say(self, text: str) -> None:
        """Writes to the console."""
        with (self.folder / "console.log").open("a", encoding="utf-8") as console:
            console.write(text)

    def console(self) -> str:
        """The console's text."""
        with suppress(FileNotFoundError):
            return (self.folder / "console.log").read_text(encoding="utf-8", errors="replace")
        return ""

    def copy_to(self, folder: Path) -> None:
        """Fills a folder with the files of the root disk; without the volumes that are mounted on it."""
        mounted = {self.paths.path(path) for path in self.mounts.paths()}
        memory = {self.root / name for name in IN_MEMORY}

        def left_out(parent: str, names: list[str]) -> set[str]:
            return {name for name in names if Path(parent, name) in mounted | memory}

        if self.root.is_dir():
            with suppress(shutil.Error):  # the files of a box that runs may go meanwhile
                shutil.copytree(self.root, folder / "root", symlinks=True, ignore=left_out)
            self._copy_installed(self.folder, folder)

    def fill(self, folder: Path) -> None:
        """Fills a disk that is new with what :meth:`copy_to` has left in a folder, if it has."""
        if (folder / "root").is_dir():
            shutil.copytree(folder / "root", self.root, symlinks=True)
            self._copy_installed(folder, self.folder)

    def _copy_installed(self, source: Path, target: Path) -> None:
        """Copies the notes of what is installed on a disk."""
        if (source / "packages").is_dir():
            shutil.copytree(source / "packages", target / "packages")
        if (source / DRIVER).exists():
            (target / DRIVER).touch()

    def local_text(self, text: str, private_ip: str) -> str:
        """Text of a box, with the private addresses of its nodes as addresses of this machine.

        Nothing has 172.31.48.4 here; 127.31.48.4 is this machine's, as all of 127.0.0.0/8 is on Linux. So
        programs of several boxes meet. Boxes with the same private address cannot use the same port at once.
        """
        for address in {private_ip, *self.peers()}:
            text = as_local(text, address)
        return text

    def peers(self) -> list[str]:
        """The private addresses of the box's nodes, once it was told them."""
        with suppress(OSError, ValueError):
            return list(json.loads((self.root / PEERS).read_text(encoding="utf-8"))["peers"])
        return []

    def erase(self) -> None:
        """Removes everything but the console."""
        for locked, _, _ in os.walk(self.root):  # a job may have made a folder read-only
            with suppress(OSError):
                Path(locked).chmod(0o700)
        for folder in (self.root, self.shims):
            shutil.rmtree(folder, ignore_errors=True)
        self.mounts.file.unlink(missing_ok=True)

    def _moved(self, content: bytes) -> bytes:
        try:
            return self.paths.text(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def _write_host_key(self, text: str) -> None:
        file = self.paths.path(HOST_KEY)
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
        public = asyncssh.import_private_key(text).export_public_key().decode()
        file.with_suffix(".pub").write_text(public, encoding="utf-8")


def as_local(text: str, address: str) -> str:
    """Text with a private address as one of this machine."""
    first, _, rest = address.partition(".")
    return re.sub(rf"(?<![\w.]){re.escape(first)}(\.{re.escape(rest)})(?!\w|\.\d)", r"127\1", text)

"""A machine to boot: a small Debian system on an overlay, in namespaces of its own, cloud-init, and sshd.

What would need a network or systemd is played by scripts in ``/usr/local/sbin``, which write down in
``/var/log/played`` what they were asked. Nothing of it reaches this machine's own disks and power.
"""

from __future__ import annotations

import shutil
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from gpucloud.ssh.boot import BootState, rotate_host_key, wait_until_ready
from gpucloud.ssh.client import Target, disconnect, wait_until_reachable
from tests.boot.tree import PATH, tree
from tests.ports import free_port
from tests.waiting import PATIENCE_S

ADDRESS = "127.0.0.41"

INIT = r"""
trap 'exit 0' TERM
set -eu
base=$1 tree=$2 port=$3 metadata=$4
root=$base/mnt
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$base/disk/up,workdir=$base/disk/work" "$root"
mount -t proc proc "$root/proc"
trigger=$root/proc/sysrq-trigger # with it, a guard that is not obeyed would end this very machine
[ ! -e "$trigger" ] || mount --bind /dev/null "$trigger"
mount --bind "$base/boot_id" "$root/proc/sys/kernel/random/boot_id"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -p "$root/run/sshd" "$root/run/gpucloud"
mkdir -p "$root/run/systemd/system" # or cloud-init starts services itself
touch "$root/run/gpucloud/clock"
mount --bind "$base/clock" "$root/run/gpucloud/clock"
mount --rbind /dev "$root/dev"
hostname booting
inside() { env -i PATH="$PATH" HOME=/root LANG=C.UTF-8 chroot "$root" "$@"; }
printf 'GPUCLOUD_GUARD_ROOT=/\nGPUCLOUD_METADATA_URL=%s\n' "$metadata" >"$root/run/guard.env"
inside cloud-init init --local
inside cloud-init init
[ "$port" = 0 ] || inside /usr/sbin/sshd -D -o ListenAddress=127.0.0.41 -o Port="$port" -E /var/log/sshd.log &
inside cloud-init modules --mode=config
inside cloud-init modules --mode=final || true # a step may fail; the machine lives on
sleep infinity &
wait $!
"""

PLAYED = {
    "systemctl": r"""
case $1 in --*) shift ;; esac
verb=$1
case $verb in
  poweroff) kill -TERM 1 ;;
  start)
    shift
    for name; do
      case $name in
        *.timer) ;;
        *) command=$(sed -n 's/^ExecStart=//p' "/etc/systemd/system/$name")
          setsid env -i PATH="$PATH" $(cat /run/guard.env) $command >>/run/service.log 2>&1 </dev/null & ;;
      esac
    done ;;
  kill) pkill -HUP -f 'guard watch' ;;
  reload) pkill -HUP -o sshd ;;
esac
exit 0
""",
    "apt-get": r"""
case " $* " in *" install "*) ;; *) exit 0 ;; esac
case " $* " in *" nvidia-utils-"*)
  mkdir -p /usr/local/bin
  printf '%s\n' '#!/bin/sh' 'case $* in *driver_version*) echo "0, Tesla T4, 15360, 580.95.05" ;;' \
    '*utilization*) echo "0, 0, 0" ;; *) echo "GPU 0: Tesla T4 (UUID: GPU-1)" ;; esac' \
    >/usr/local/bin/nvidia-smi
  chmod 755 /usr/local/bin/nvidia-smi ;;
esac
case " $* " in *" docker.io "*) echo '{"runc":{}}' >/etc/played-runtimes ;; esac
case " $* " in *" nvidia-container-toolkit "*) touch /etc/played-toolkit ;; esac
exit 0
""",
    "docker": "cat /etc/played-runtimes",
    "nvidia-ctk": r"""
[ -e /etc/played-toolkit ] || exit 127
case $1 in runtime) echo '{"nvidia":{},"runc":{}}' >/etc/played-runtimes ;; esac
""",
    "curl": r"""
while [ $# -gt 1 ]; do case $1 in -o) file=$2 ;; esac; shift; done
echo "$1" >"$file"
""",
    "gpg": r"""
case $(tail -n 1 "$(for last; do :; done; echo "$last")") in
  *nvidia.github.io*) key=C95B321B61E88C1809C4F759DDCAE044F796ECB0 ;;
  *developer.download.nvidia.com*) key=EB693B3035CD5710E231E123A4B469963BF863CC ;;
esac
printf 'pub:-\nfpr:::::::::%s:\n' "$key"
""",
    "modprobe": "exit 0",
    "rmmod": "exit 0",
    "wall": "exit 0",
    "loginctl": "exit 0",
    "usermod": "exit 0",
}
CLOUD = """datasource_list: [NoCloud, None]
network: {config: disabled}
locale: false
growpart: {mode: "off"}
resize_rootfs: false
"""


@dataclass
class BootedMachine:
    """One machine; its disk stays between boots.

    Attributes:
        folder: where it lives.
        user_data: what cloud-init reads, as it travels.
        keys: the box's key folder.
        metadata_url: where its metadata service answers.
        network: whether it has one: without, nobody reaches it.
        disk_mib: the size of its disk; ``None`` for no limit.
    """

    folder: Path
    user_data: bytes
    keys: Path
    metadata_url: str = "http://127.0.0.1:1"
    network: bool = True
    disk_mib: int | None = None
    up_s: float = 5.0
    wall_ahead_s: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    target: Target | None = None
    _mounted: list[Path] = field(default_factory=list[Path])

    def __post_init__(self) -> None:
        disk = self.folder / "disk"
        for path in (disk, self.folder / "mnt"):
            path.mkdir(parents=True)
        if self.disk_mib is not None:
            size = f"size={self.disk_mib}m"
            subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(disk)], check=True)
            self._mounted.append(disk)
        (disk / "work").mkdir()
        self.write("etc/cloud/cloud.cfg.d/99-test.cfg", CLOUD)
        self.write("var/lib/cloud/seed/nocloud/meta-data", "instance-id: i-1\nlocal-hostname: unnamed\n")
        seed = self.disk("var/lib/cloud/seed/nocloud/user-data")
        seed.write_bytes(self.user_data)
        for name, script in PLAYED.items():
            note = f'echo "{name} $*" >>/var/log/played 2>/dev/null\n'
            self.write(f"usr/local/sbin/{name}", f"#!/bin/sh\n{note}{script}\n", mode=0o755)
        self.folder.joinpath("clock").touch()

    def disk(self, path: str) -> Path:
        """A file that was written on the machine's own disk."""
        return self.folder / "disk/up" / path

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Puts a file on its disk."""
        file = self.disk(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)

    def read(self, path: str) -> str:
        """A file of its disk; empty where there is none."""
        file = self.disk(path)
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def set_clocks(self, *, up_s: float | None = None, wall_ahead_s: float | None = None) -> None:
        """Sets its uptime, and by how much its wall clock is ahead, as its guard sees them."""
        self.up_s = self.up_s if up_s is None else up_s
        self.wall_ahead_s = self.wall_ahead_s if wall_ahead_s is None else wall_ahead_s
        ahead = self.up_s - time.clock_gettime(time.CLOCK_BOOTTIME)
        with (self.folder / "clock").open("r+", encoding="ascii") as file:
            file.write(f"{self.wall_ahead_s:>20.3f} {ahead:>20.3f}")

    def boot(self) -> None:
        """Starts it."""
        self.set_clocks(up_s=5.0)
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n", encoding="ascii")
        port = free_port() if self.network else 0
        spaces = ["-m", "-p", "-u", "-i", *([] if self.network else ["-n"])]
        command = ["unshare", *spaces, "--fork", "--kill-child", "sh", "-c", INIT, "init"]
        with (self.folder / "console").open("ab") as console:
            self.process = subprocess.Popen(
                [*command, str(self.folder), str(tree()), str(port), self.metadata_url],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={"PATH": PATH},
            )
        self.target = Target(box_id="b-1", host=ADDRESS, user="gpucloud", keys=self.keys, port=port)

    def come_up(self, *steps: str) -> BootState:
        """Waits as a launch does."""
        assert self.target is not None
        wait_until_reachable(self.target, timeout_s=PATIENCE_S)
        rotate_host_key(self.target)
        return wait_until_ready(self.target, timeout_s=PATIENCE_S, steps=steps)

    @property
    def runs(self) -> bool:
        """Whether it has not powered itself off."""
        return self.process is not None and self.process.poll() is None

    @property
    def console(self) -> str:
        """What it wrote to its console."""
        return (self.folder / "console").read_text(encoding="utf-8", errors="replace")

    def pull_the_plug(self) -> None:
        """Ends it at once."""
        if self.target is not None:
            disconnect(self.target)
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """Ends it for good."""
        self.pull_the_plug()
        for path in self._mounted:
            subprocess.run(["umount", "-l", str(path)], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)

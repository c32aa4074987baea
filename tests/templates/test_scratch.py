"""``/scratch`` from local disks: the script that travels, run by bash, among played programs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml

from gpucloud_sandbox.boxes_user_data import PathMap
from gpucloud_sandbox.boxes_volumes import Mounts
from gpucloud_templates import BootPlan, render
from gpucloud_templates.cloud_config import SCRATCH
from tests.templates.test_templates import PLAN

EBS, INSTANCE = "Amazon Elastic Block Store", "Amazon EC2 NVMe Instance Storage"
NETWORK = {
    "nvme0n1": EBS,
    "nvme8n1": "MSFT NVMe Accelerator v1.0",
    "nvme9n1": "Alibaba Cloud Elastic Block Storage",
}
VARIABLES = {
    "GPUCLOUD_SCRATCH": "",
    "PIP_CACHE_DIR": "/pip",
    "HF_HOME": "/huggingface",
    "RCLONE_CACHE_DIR": "/rclone",
}
PLAYED = {
    "lsblk": 'cat "$DISKS/models"',
    "wipefs": '[ ! -e "$DISKS/failing" ] || exit 1; cat "$DISKS/signature-${1##*/}" 2>/dev/null; exit 0',
    "mdadm": 'echo "mdadm $*" >>"$DISKS/told"; [ ! -e "$DISKS/no-mdadm" ] || exit 127',
    "mkfs.ext4": 'echo "mkfs $*" >>"$DISKS/told"; touch "$DISKS/label-gpucloud-scratch"',
    "mount": 'case $1 in -L) [ -e "$DISKS/label-$2" ] || exit 1 ;; esac; echo "mount $*" >>"$DISKS/told"',
    "mountpoint": 'grep -qx -- "$2" "$DISKS/mounts"',
}


@dataclass
class Machine:
    """A machine with these disks; ``mounts`` are there before the script runs."""

    folder: Path
    disks: dict[str, str]
    signatures: Sequence[str] = ()
    mounts: Sequence[str] = ()
    root: Path = field(init=False)

    def __post_init__(self) -> None:
        self.root = self.folder / "root"
        for path in ("etc/profile.d", "var/log/gpucloud", "usr/local/lib/gpucloud"):
            (self.root / path).mkdir(parents=True)
        programs = self.folder / "bin"
        programs.mkdir()
        for name, script in PLAYED.items():
            (programs / name).write_text(f"#!/bin/bash\n{script}\n")
            (programs / name).chmod(0o755)
        models = "".join(f"/dev/{name} {model}\n" for name, model in self.disks.items())
        (self.folder / "models").write_text(f"/dev/vda Virtual Disk\n{models}")
        (self.folder / "mounts").write_text("".join(f"{self.root}/{path}\n" for path in self.mounts))
        (self.root / "etc/environment").write_text('PATH="/usr/bin"\n')
        for name in self.signatures:
            (self.folder / f"signature-{name}").write_text("0x438 ext4\n")

    def boot(self) -> list[str]:
        """What the script did to disks."""
        files = {
            each["path"]: each["content"] for each in yaml.safe_load(render(PLAN_OF_TYPE))["write_files"]
        }
        script = PathMap(self.root, self.folder / "bin", frozenset(), Mounts(self.folder / "none")).text(
            files[SCRATCH]
        )
        script = script.replace("reuse /", f"reuse {self.root}/")
        (self.folder / "told").write_text("")
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        subprocess.run(["bash", "-c", script], env={"PATH": path, "DISKS": str(self.folder)}, check=True)
        return (self.folder / "told").read_text().replace(str(self.root), "").splitlines()

    @property
    def variables(self) -> dict[str, str]:
        """Those of every session, in which the folder is ``/scratch`` again."""
        lines = (self.root / "etc/environment").read_text().splitlines()[1:]
        assert len(lines) == len(set(lines)), "told once"
        return dict(line.replace(str(self.root), "").split("=", 1) for line in lines)


PLAN_OF_TYPE: BootPlan = replace(PLAN, scratch=True)
FORMATTED = "mkfs -qF -m0 -E nodiscard -L gpucloud-scratch"
WHERE = {name: f"/scratch{path}" for name, path in VARIABLES.items()}


def test_one_local_disk_is_formatted_and_told_to_every_session(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {**NETWORK, "nvme1n1": INSTANCE})
    assert machine.boot() == [f"{FORMATTED} /dev/nvme1n1", "mount /dev/nvme1n1 /scratch"]
    assert machine.variables == WHERE
    profile = machine.root / "etc/profile.d/gpucloud-scratch.sh"
    login = subprocess.run(
        ["bash", "-c", f". {profile}; env"], capture_output=True, text=True, check=True
    ).stdout
    assert f"HF_HOME={machine.root}/scratch/huggingface" in login.splitlines()
    assert (machine.root / "scratch").stat().st_mode & 0o7777 == 0o1777


def test_several_are_striped(tmp_path: Path) -> None:
    machine = Machine(
        tmp_path, {"nvme1n1": "Microsoft NVMe Direct Disk v2", "nvme2n1": "Microsoft NVMe Direct Disk v2"}
    )
    assert machine.boot()[1:] == [
        "mdadm -C /dev/md/scratch --run -l0 -n2 /dev/nvme1n1 /dev/nvme2n1",
        f"{FORMATTED} /dev/md/scratch",
        "mount /dev/md/scratch /scratch",
    ]


def test_only_blank_local_disks_are_formatted(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {**NETWORK, "nvme1n1": INSTANCE, "nvme2n1": ""}, signatures=["nvme1n1"])
    assert machine.boot() == [f"{FORMATTED} /dev/nvme2n1", "mount /dev/nvme2n1 /scratch"]


@pytest.mark.parametrize("state", ["network disks alone", "data on the disk", "a disk that cannot be read"])
def test_without_a_blank_local_disk_nothing_is_touched_and_nothing_told(tmp_path: Path, state: str) -> None:
    local = {} if state == "network disks alone" else {"nvme1n1": INSTANCE}
    machine = Machine(tmp_path, {**NETWORK, **local}, signatures=["nvme1n1"] if "data" in state else ())
    if "cannot" in state:
        (tmp_path / "failing").touch()
    assert machine.boot() == []
    assert machine.variables == {}


def test_a_reboot_mounts_what_is_there_and_a_stop_begins_anew(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"nvme1n1": INSTANCE})
    machine.boot()
    (tmp_path / "signature-nvme1n1").touch()
    assert machine.boot() == ["mount -L gpucloud-scratch /scratch"]
    (tmp_path / "label-gpucloud-scratch").unlink()
    assert machine.boot() == [f"{FORMATTED} /dev/nvme1n1", "mount /dev/nvme1n1 /scratch"]
    assert machine.variables == WHERE


@pytest.mark.parametrize(
    ("mounted", "disks"),
    [("opt/dlami/nvme", {"nvme1n1": INSTANCE}), ("mnt", {})],
    ids=["AWS's deep-learning image", "Azure's temporary disk"],
)
def test_a_mount_of_the_images_is_used(tmp_path: Path, mounted: str, disks: dict[str, str]) -> None:
    machine = Machine(tmp_path, disks, mounts=[mounted])
    [done] = machine.boot()
    assert done == f"mount --bind /{mounted}/scratch /scratch"
    assert machine.variables == WHERE

"""What cloud-init itself says of the boot configuration."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpucloud.ssh.keys import BoxKeys, create_keys
from gpucloud_templates import BootPlan, render
from gpucloud_templates.guard.__main__ import END_TIMER, SERVICE
from tests.templates.test_templates import FULL, PLAN

CLOUD_INIT = shutil.which("cloud-init")


def plans(keys: BoxKeys) -> list[BootPlan]:
    plan = replace(
        PLAN,
        public_key=keys.public_key,
        host_private_key=keys.host_private_key,
        host_public_key=keys.host_public_key,
    )
    full = replace(plan, software=FULL, checkpoint="echo 'a: b' | tee \"$HOME/x\" \u202e\0${{ x }}")
    return [plan, replace(plan, deadline=None), full]


@pytest.mark.skipif(CLOUD_INIT is None, reason="cloud-init is not installed")
def test_cloud_init_finds_the_boot_configuration_valid(tmp_path: Path) -> None:
    for number, plan in enumerate(plans(create_keys(tmp_path / "keys", "b-1"))):
        file = tmp_path / f"{number}.yaml"
        file.write_text(render(plan), encoding="utf-8")
        assert CLOUD_INIT is not None
        done = subprocess.run(
            [CLOUD_INIT, "schema", "--config-file", str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_the_units_that_end_the_box_valid(tmp_path: Path) -> None:
    units = {
        "gpucloud-guard.service": SERVICE.replace("/usr/local/lib/gpucloud/guardctl", "/bin/true"),
        "gpucloud-end.timer": END_TIMER.format(seconds=3600),
    }
    for name, text in units.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / name) for name in units)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "gpucloud-" not in done.stderr, done.stderr

"""Real cloud-init boots rendered user-data, on each cloud's data; the guard ends the box in every weather."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import gpucloud_alibaba.provider
import gpucloud_aws.provider
import gpucloud_azure.provider
from gpucloud.clouds.abilities import Boot
from gpucloud.clouds.profile import Profile
from gpucloud.ssh.boot import gpu_list
from gpucloud.ssh.client import run
from gpucloud.ssh.guard import guard_status
from gpucloud.ssh.keys import create_keys
from gpucloud_templates import BootPlan, Software, packed, render
from tests.boot.machine import BootedMachine
from tests.boot.tree import why_not
from tests.providers.abilities import able
from tests.waiting import until

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no system can be booted: {REASON}")

PROVIDERS: dict[str, Callable[[Profile], Any]] = {
    "alibaba": gpucloud_alibaba.provider.AlibabaProvider,
    "aws": gpucloud_aws.provider.AwsProvider,
    "azure": gpucloud_azure.provider.AzureProvider,
}
TOOLKIT = Software(driver="580", containers=True, toolkit="12.6", system="ubuntu-22.04")
Make = Callable[..., BootedMachine]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Make]:
    made: list[BootedMachine] = []

    def make(plan: dict[str, Any] | None = None, **about: Any) -> BootedMachine:
        keys = create_keys(tmp_path / "keys", "b-1")
        values: dict[str, Any] = {
            "box": "b-1",
            "name": "trainer",
            "user": "gpucloud",
            "public_key": keys.public_key,
            "host_private_key": keys.host_private_key,
            "host_public_key": keys.host_public_key,
            "deadline": datetime.now(UTC) + timedelta(hours=1),
            "ttl_s": 3600,
            "gpus": 1,
        }
        text = render(BootPlan(**{**values, **(plan or {})}))
        made.append(
            BootedMachine(
                folder=tmp_path / f"machine-{len(made)}",
                user_data=packed(text),
                keys=tmp_path / "keys",
                **about,
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("cloud", sorted(PROVIDERS))
def test_a_box_comes_up_on_the_data_of_each_cloud(machine: Make, cloud: str) -> None:
    plan = {
        "software": TOOLKIT,
        "metadata": able(PROVIDERS[cloud](Profile({})), Boot).metadata,
        "spot": True,
    }
    box = machine(plan)
    began = time.monotonic()
    box.boot()
    state = box.come_up(*TOOLKIT.steps)
    assert list(state.seconds) == ["driver", "containers", "toolkit"]
    assert box.target is not None
    said = run(box.target, ["nvidia-smi", "-L"]).out.decode().splitlines()
    assert said == ["GPU 0: Tesla T4 (UUID: GPU-1)"]
    assert [gpu.name for gpu in gpu_list(box.target)] == ["Tesla T4"]
    assert run(box.target, ["hostname"]).out == b"trainer\n"
    assert run(box.target, ["sudo", "-n", "id", "-u"]).out == b"0\n"
    assert run(box.target, ["sudo", "-n", "grep", "-c", "PRIVATE", "/etc/shadow"]).out == b"0\n"
    status = guard_status(box.target)
    assert status is not None
    assert 3540 - (time.monotonic() - began) < status["left_s"] <= 3600
    assert_armed_first(box.read("var/log/played").splitlines())


def assert_armed_first(played: Sequence[str]) -> None:
    """The guard was started before anything of the user's, as the machine noted what was run."""
    started = next(n for n, line in enumerate(played) if "start gpucloud-guard.service" in line)
    assert started < min(n for n, line in enumerate(played) if not line.startswith("systemctl"))


def test_a_step_that_fails_is_told_with_its_log_and_the_guard_watches_on(machine: Make) -> None:
    box = machine({"software": TOOLKIT})
    box.write(
        "usr/local/sbin/modprobe", "#!/bin/sh\necho 'modprobe: ERROR: key was rejected' >&2\nexit 1\n", 0o755
    )
    box.boot()
    with pytest.raises(Exception, match=r"step 'driver' failed with exit code 1(.|\n)*key was rejected"):
        box.come_up(*TOOLKIT.steps)
    box.set_clocks(up_s=3700)
    until(lambda: not box.runs, "the end")


# --- the end, in every weather


def armed(box: BootedMachine) -> None:
    until(lambda: "armed" in box.read("var/log/gpucloud/guard.log"), "the guard")


def test_a_reboot_gives_it_no_more_time(machine: Make) -> None:
    box = machine()
    box.boot()
    box.come_up()
    box.set_clocks(up_s=2000)
    until(lambda: '"spent_s": 200' in box.read("var/lib/gpucloud/uptime"), "the uptime on disk")
    box.pull_the_plug()
    box.boot()
    assert box.target is not None
    until(lambda: box.read("var/log/gpucloud/guard.log").count("armed") == 2, "the guard again")
    box.set_clocks(up_s=1500)
    assert box.runs
    box.set_clocks(up_s=1700)
    until(lambda: not box.runs, "the end")


def test_it_ends_without_a_network(machine: Make) -> None:
    box = machine({"metadata": able(PROVIDERS["aws"](Profile({})), Boot).metadata}, network=False)
    box.boot()
    armed(box)
    box.set_clocks(up_s=3601)
    until(lambda: not box.runs, "the end")
    assert "powering off" in box.read("var/log/gpucloud/guard.log")


@pytest.mark.parametrize("days", [-2, 2])
def test_it_ends_on_time_with_a_wrong_clock(machine: Make, days: int) -> None:
    box = machine()
    box.set_clocks(wall_ahead_s=days * 86400.0)
    box.boot()
    armed(box)
    box.set_clocks(up_s=3500)
    assert box.runs
    box.set_clocks(up_s=3601)
    until(lambda: not box.runs, "the end")
    assert "powering off" in box.read("var/log/gpucloud/guard.log")


def test_it_ends_on_a_full_disk_also_after_a_reboot(machine: Make) -> None:
    box = machine(disk_mib=64)
    box.boot()
    box.come_up()
    with pytest.raises(OSError, match="No space left"):
        (box.folder / "disk/up/filler").write_bytes(bytes(65 << 20))
    box.set_clocks(up_s=2000)
    until(lambda: '"spent_s": 200' in box.read("var/lib/gpucloud/uptime"), "the uptime on disk")
    box.pull_the_plug()
    box.boot()
    until(lambda: '"boot"' in box.read("var/lib/gpucloud/uptime") and box.runs, "the second boot")
    box.set_clocks(up_s=1700)
    until(lambda: not box.runs, "the end")

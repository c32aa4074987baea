"""The guard ends its box, whatever happens to it: the real program, with the test's clocks and neighbours."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import gpucloud_alibaba.provider
import gpucloud_aws.provider
import gpucloud_azure.provider
import gpucloud_sandbox.alibaba.metadata
import gpucloud_sandbox.aws.metadata
import gpucloud_sandbox.azure.metadata
from gpucloud.clouds.abilities import Boot
from gpucloud_sandbox.boxes_metadata import Answerer, Facts
from gpucloud_templates import Metadata
from gpucloud_templates.guard.rules import notice_time, read_gpus, read_xids, seconds_left, spent_before
from tests.boot.guarded import GuardedBox
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.waiting import until

AS_LAUNCHED = {"HttpTokens": "required", "InstanceMetadataTags": "enabled"}
CLOUDS: Mapping[str, tuple[Any, Answerer]] = {
    "alibaba": (gpucloud_alibaba.provider.AlibabaProvider, gpucloud_sandbox.alibaba.metadata.answer),
    "aws": (gpucloud_aws.provider.AwsProvider, gpucloud_sandbox.aws.metadata.service(AS_LAUNCHED)),
    "azure": (gpucloud_azure.provider.AzureProvider, gpucloud_sandbox.azure.metadata.answer),
}
PYTHONS = [f"python3.{minor}" for minor in range(8, 16)]


def runs(python: str) -> bool:
    """Whether this is an interpreter, and not a program that only tells how to install it."""
    return not subprocess.run([python, "--version"], capture_output=True, check=False).returncode


SILENT = asdict(Metadata(url="", notice="/notice", notice_s=120))


@pytest.fixture
def box(tmp_path: Path) -> Iterator[GuardedBox]:
    box = GuardedBox(tmp_path / "box")
    yield box
    box.close()


WHILE_GUARDED = "while kill -0 $PPID; do sleep 0.1; done"
"""A program of the guard's that hangs, and ends with it: here no machine is switched off."""


def has_left(box: GuardedBox, left_s: float, began: float) -> bool:
    """Whether so much time is left to a box, but for what has passed since then; its guard counts seconds."""
    passed_s = time.monotonic() - began
    return bool(left_s - passed_s - 2 < box.status["left_s"] <= left_s)


# --- the end


def test_the_box_ends_when_its_uptime_is_spent(box: GuardedBox) -> None:
    """Without a server's time the wall clock is worth nothing; uptime needs nobody."""
    box.arm()
    box.pass_time(3500)
    assert not box.powered_off
    box.pass_time(101)
    until(lambda: box.powered_off)
    assert "powering off" in box.log


def test_a_wall_clock_that_a_server_confirms_ends_the_box_at_its_deadline(box: GuardedBox) -> None:
    """A launch takes minutes, so the wall's deadline comes before the uptime's."""
    box.serve(lambda *_: (200, ""))
    box.arm(deadline=int(time.time()) + 2, metadata=SILENT)
    assert box.status["clock_is_right"]
    until(lambda: box.powered_off)
    until(lambda: box.status["left_s"] <= 0, "the look that powered off to be told")


@pytest.mark.parametrize("days", [-2, 2])
def test_a_wrong_wall_clock_ends_nothing_and_the_uptime_still_holds(box: GuardedBox, days: int) -> None:
    box.serve(lambda *_: (200, ""))
    box.set_clocks(wall_ahead_s=days * 86400.0)
    began = time.monotonic()
    box.arm(metadata=SILENT)
    assert not box.status["clock_is_right"]
    assert abs(box.status["clock_ahead_s"] - days * 86400) < 5
    assert has_left(box, 3595, began)
    box.set_clocks(up_s=3601)
    box.look()
    until(lambda: box.powered_off)


def test_a_clock_that_is_set_later_is_asked_about_again(box: GuardedBox) -> None:
    box.serve(lambda *_: (200, ""))
    box.arm(metadata=SILENT)
    assert box.status["clock_is_right"]
    box.set_clocks(wall_ahead_s=7200)  # past the deadline, by a clock that nobody confirms
    box.look()
    assert not box.status["clock_is_right"]
    assert not box.powered_off


def test_without_a_deadline_the_box_stays(box: GuardedBox) -> None:
    box.arm(deadline=None, ttl_s=None)
    box.pass_time(10 * 365 * 86400)
    assert box.status["left_s"] is None
    assert not box.powered_off


def test_a_reboot_does_not_give_the_box_more_time(box: GuardedBox) -> None:
    box.arm()
    box.minutes(40)
    box.reboot()
    assert abs(box.status["left_s"] - (3600 - 40 * 61)) < 70, (
        "at most what passed since the last minute is lost"
    )
    box.pass_time(1100)
    assert not box.powered_off
    box.pass_time(150)
    until(lambda: box.powered_off)


def test_a_guard_that_is_killed_goes_on_where_it_was(box: GuardedBox) -> None:
    box.arm()
    box.minutes(30)
    began, left_s = time.monotonic(), box.status["left_s"]
    box.stop()
    box.start()
    assert has_left(box, left_s, began)


def test_arming_again_does_not_move_the_end(box: GuardedBox) -> None:
    box.arm()
    box.run("extend", str(time.time() + 7200), "7200")
    box.reboot()
    assert box.status["left_s"] > 7000


@pytest.fixture
def disk_of_its_own(tmp_path: Path) -> Iterator[GuardedBox]:
    """A box whose root is a small file system; as on every machine, ``/run`` is another."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system to fill")
    root = tmp_path / "box/root"
    root.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(root)], check=True)
    (root / "run").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(root / "run")], check=True)
    box = GuardedBox(tmp_path / "box")
    yield box
    box.close()
    subprocess.run(["umount", "-l", str(root / "run"), str(root)], check=True)


def test_the_end_holds_on_a_full_disk_also_after_a_reboot(disk_of_its_own: GuardedBox) -> None:
    box = disk_of_its_own
    box.arm()
    with pytest.raises(OSError, match="No space left"):
        (box.root / "filler").write_bytes(bytes(1 << 20))
    box.minutes(40)
    assert box.status["health"]["disk"] == "is full"
    box.reboot()
    assert box.status["left_s"] < 1300
    box.pass_time(1300)
    until(lambda: box.powered_off)


def test_the_end_holds_on_a_disk_that_became_read_only(disk_of_its_own: GuardedBox) -> None:
    box = disk_of_its_own
    box.arm()
    subprocess.run(["mount", "-o", "remount,ro", str(box.root)], check=True)
    box.minutes(2)
    assert "Read-only" in box.status["health"]["uptime"]
    box.pass_time(3600)
    until(lambda: box.powered_off)


def test_a_torn_write_leaves_the_state_before_it(box: GuardedBox) -> None:
    began = time.monotonic()
    box.arm()
    box.run("extend", "none", "600")
    record = box.root / "var/lib/gpucloud/end"
    data = bytearray(record.read_bytes())
    newest = 0 if b'"n": 2' in data[:512] else 512
    data[newest + 12] ^= 0xFF
    record.write_bytes(bytes(data))
    box.look()
    assert has_left(box, 3595, began), "the half before the torn one: the first end"


def test_settings_and_state_that_are_lost_leave_the_first_end(box: GuardedBox) -> None:
    began = time.monotonic()
    box.arm()
    box.stop()
    (box.root / "var/lib/gpucloud/end").write_bytes(b"\0" * 1024)
    box.start()
    assert has_left(box, 3595, began)
    box.stop()
    began = time.monotonic()
    box.run("extend", "none", "600")
    box.write("etc/gpucloud/guard.json", "{")
    box.start()
    assert has_left(box, 600, began)


# --- deleting itself


def with_self_delete(box: GuardedBox, script: str) -> None:
    """A box that has been given the program; here it does what a test says."""
    box.write("usr/local/lib/gpucloud/self-delete", f"import pathlib, sys, time\n{script}\n")
    box.write("usr/local/lib/gpucloud/self-delete.json", "{}")
    box.arm()
    box.pass_time(3601)


def test_a_box_with_an_identity_asks_for_its_deletion_before_it_powers_off(box: GuardedBox) -> None:
    asked = box.folder / "asked"
    with_self_delete(box, f"pathlib.Path({str(asked)!r}).write_text(sys.argv[1])")
    until(lambda: box.powered_off)
    assert asked.read_text() == str(box.root / "usr/local/lib/gpucloud/self-delete.json")
    assert "deleting itself: asked for" in box.log


@pytest.mark.parametrize("script", ["raise OSError", "time.sleep(600)"])
def test_a_deletion_that_fails_or_hangs_does_not_keep_the_box(box: GuardedBox, script: str) -> None:
    with_self_delete(box, script)
    until(lambda: "powering off" in box.log)
    if "sleep" in script:
        box.look()
        assert not box.powered_off, "it has a while to get through"
    box.pass_time(26)
    until(lambda: box.powered_off)
    assert "deleting itself: failed" in box.log


def test_a_power_off_that_does_nothing_is_asked_for_again_and_then_forced(box: GuardedBox) -> None:
    box.write("proc/sysrq-trigger", "")
    box.arm()
    box.pass_time(3601)
    until(lambda: box.powered_off)
    assert "poweroff --force --force" not in box.said("systemctl")
    box.pass_time(61)
    until(lambda: "poweroff --force --force" in box.said("systemctl"))
    assert (box.root / "proc/sysrq-trigger").read_text() == ""
    box.pass_time(61)
    until(lambda: (box.root / "proc/sysrq-trigger").read_text() == "o")


def test_should_the_guard_fail_systemd_ends_the_box_a_quarter_of_an_hour_later(box: GuardedBox) -> None:
    box.arm()
    timer = (box.root / "etc/systemd/system/gpucloud-end.timer").read_text()
    assert "OnActiveSec=4500\n" in timer
    assert "--no-block enable gpucloud-guard.service gpucloud-end.timer" in box.said("systemctl")
    assert "--no-block start gpucloud-guard.service gpucloud-end.timer" in box.said("systemctl")


# --- moving it


def test_extending_moves_every_layer_and_the_old_end_does_nothing(box: GuardedBox) -> None:
    box.serve(lambda *_: (200, ""))
    box.arm(metadata=SILENT)
    began = time.monotonic()
    box.run("extend", str(int(time.time()) + 7200), "7200")
    box.look()
    assert has_left(box, 7200, began)
    box.set_clocks(up_s=box.up_s + 3700)
    box.look()
    assert not box.powered_off
    assert "OnActiveSec=8100\n" in (box.root / "etc/systemd/system/gpucloud-end.timer").read_text()
    assert "restart gpucloud-end.timer" in box.said("systemctl")
    box.set_clocks(up_s=box.up_s + 3600)
    box.look()
    until(lambda: box.powered_off)


def test_the_end_may_come_sooner(box: GuardedBox) -> None:
    box.arm()
    box.run("extend", "none", "60")
    box.look()
    assert box.status["left_s"] <= 60
    box.pass_time(61)
    until(lambda: box.powered_off)


def test_the_end_can_be_taken_away(box: GuardedBox) -> None:
    box.arm()
    box.run("extend", "none", "none")
    box.pass_time(86400)
    assert not box.powered_off
    assert "stop gpucloud-end.timer" in box.said("systemctl")


def test_a_box_that_has_begun_to_end_goes_on_when_its_end_is_moved(box: GuardedBox) -> None:
    box.write("told/checkpoint", WHILE_GUARDED)
    box.arm(checkpoint=True)
    box.pass_time(3400)
    until(lambda: box.said("hook"))
    assert box.status["ending"] == "deadline"
    box.run("extend", "none", "7200")
    box.look()
    assert box.status["ending"] is None
    box.pass_time(300)
    assert not box.powered_off


# --- before it


def test_who_is_logged_in_is_warned_half_an_hour_and_five_minutes_before_once_each(box: GuardedBox) -> None:
    box.arm()
    assert box.said("wall") == []
    box.pass_time(1800)
    until(lambda: len(box.said("wall")) == 1)
    assert "ends in 29 minutes" in box.said("wall")[0] or "ends in 30 minutes" in box.said("wall")[0]
    box.pass_time(600)
    box.pass_time(901)
    until(lambda: len(box.said("wall")) == 2)
    assert "ends in 5 minutes" in box.said("wall")[1]
    box.pass_time(100)
    assert len(box.said("wall")) == 2


def test_the_checkpoint_command_runs_in_the_last_minutes_and_the_box_ends_on_time(
    box: GuardedBox,
) -> None:
    box.write("told/checkpoint", "exit 3")
    box.arm(checkpoint=True)
    box.pass_time(3290)
    assert box.said("hook") == []
    box.pass_time(20)
    until(lambda: box.said("hook"))
    assert box.said("hook")[0].startswith("deadline ")
    box.shows(lambda: "ended with code 3" in box.log)
    assert not box.powered_off, "the time that was paid for is the user's"
    box.pass_time(300)
    until(lambda: box.powered_off)


def test_a_checkpoint_command_that_hangs_does_not_keep_the_box(box: GuardedBox) -> None:
    box.write("told/checkpoint", f"trap '' TERM; {WHILE_GUARDED}")
    box.arm(checkpoint=True)
    box.pass_time(3400)
    until(lambda: box.said("hook"))
    assert not box.powered_off
    box.pass_time(200)
    until(lambda: box.powered_off)


# --- nobody needs it


def idle_box(box: GuardedBox, **changes: Any) -> None:
    box.arm(idle_s=600, **changes)
    box.write("var/lib/gpucloud/ready", "{}")


def test_an_idle_box_ends(box: GuardedBox) -> None:
    idle_box(box)
    box.minutes(9)
    assert not box.powered_off
    box.minutes(2)
    until(lambda: box.powered_off)
    assert "ending: idle" in box.log


def test_a_box_with_results_that_nobody_has_fetched_does_not_end_for_being_idle(box: GuardedBox) -> None:
    """Until they are fetched; its deadline ends it in any case."""
    idle_box(box)
    box.run("keep", "on")
    box.minutes(30)
    assert not box.powered_off
    box.run("keep", "off")
    box.minutes(1)
    until(lambda: box.powered_off)


@pytest.mark.parametrize("use", ["gpu", "session", "job", "processor", "container"])
def test_a_box_in_use_does_not(box: GuardedBox, use: str) -> None:
    idle_box(box)
    if use == "gpu":
        box.write("told/gpus", "0, 0, 0\n1, 37, 0\n")
    if use == "session":
        box.write("told/sessions", "    1 1000 gpucloud -\n")
    if use == "job":
        box.write(f"run/gpucloud/jobs/{os.getpid()}", "")
    for minute in range(15):
        group = {"processor": "user.slice", "container": "system.slice/docker-1f.scope"}.get(use)
        if group:
            box.write(f"sys/fs/cgroup/{group}/cpu.stat", f"usage_usec {minute * 1_000_000}\nuser_usec 1\n")
        box.minutes(1)
    assert box.status["idle_s"] < 70
    assert not box.powered_off


def minutes_with_a_job(box: GuardedBox, minutes: int) -> None:
    """Minute by minute, with a job that runs and computes."""
    box.write(f"run/gpucloud/jobs/{os.getpid()}", "")
    for minute in range(minutes):
        box.write("sys/fs/cgroup/user.slice/cpu.stat", f"usage_usec {minute * 30_000_000}\nuser_usec 1\n")
        box.minutes(1)


def test_a_job_whose_gpus_are_used_less_than_was_asked_for_is_idle(box: GuardedBox) -> None:
    idle_box(box, idle_below=30)
    box.write("told/gpus", "0, 29, 0\n1, 12, 0\n")
    minutes_with_a_job(box, 9)
    assert not box.powered_off
    minutes_with_a_job(box, 3)
    until(lambda: box.powered_off)


@pytest.mark.parametrize("use", ["one busy GPU", "a session", "no figures"])
def test_a_box_with_a_limit_of_gpu_use_stays_while(box: GuardedBox, use: str) -> None:
    idle_box(box, idle_below=30)
    box.write("told/gpus", {"one busy GPU": "0, 0, 0\n1, 30, 0\n", "no figures": ""}.get(use, "0, 0, 0\n"))
    if use == "a session":
        box.write("told/sessions", "    1 1000 gpucloud -\n")
    minutes_with_a_job(box, 15)
    assert box.status["idle_s"] < 70
    assert not box.powered_off


def test_a_box_that_still_boots_is_not_idle(box: GuardedBox) -> None:
    box.arm(idle_s=600)
    box.minutes(15)
    assert not box.powered_off
    box.write("var/lib/gpucloud/failed", "{}")
    box.minutes(11)
    until(lambda: box.powered_off)


def test_an_idle_box_checkpoints_first_and_then_ends_at_once(box: GuardedBox) -> None:
    box.write("told/checkpoint", 'touch "$TOLD/saved"')
    idle_box(box, checkpoint=True)
    box.minutes(11)
    box.shows(lambda: box.powered_off)
    assert (box.told / "saved").exists()
    assert box.said("hook")[0].startswith("idle 300")


# --- the cloud takes it back


@pytest.mark.parametrize("cloud", sorted(CLOUDS))
def test_the_checkpoint_command_runs_when_the_cloud_takes_the_box_back(box: GuardedBox, cloud: str) -> None:
    """Each provider's description of its metadata service, against its emulator's."""
    provider, answer = CLOUDS[cloud]
    facts = Facts(
        id="i-1",
        hostname="mine",
        public_ip="203.0.113.1",
        private_ip="10.0.0.1",
        user_data="",
        tags={},
        spot=True,
        token="one-of-this-box",
        interruption=None,
        now=datetime.now(UTC),
    )
    known = [facts]
    box.serve(lambda method, path, headers: answer(known[0], method, path, headers))
    box.write("told/checkpoint", 'echo "$GPUCLOUD_SECONDS_LEFT" >"$TOLD/saved"')
    metadata = able(provider(own_profile()), Boot).metadata
    assert metadata is not None
    box.arm(spot=True, checkpoint=True, metadata=asdict(metadata))
    box.look()
    assert box.said("hook") == []
    assert box.status["clock_is_right"]
    known[0] = replace(facts, interruption=datetime.now(UTC) + timedelta(seconds=1000))
    box.shows((box.told / "saved").exists)
    assert 900 <= int((box.told / "saved").read_text()) <= 1000
    box.shows(lambda: box.said("sync"))
    assert "takes this box back in" in box.said("wall")[0]
    assert not box.powered_off, "the cloud ends it, and says why: a power-off would look like the user's"
    assert box.status["ending"] == "interruption"


def test_a_box_on_demand_does_not_ask_for_notices(box: GuardedBox) -> None:
    asked: list[str] = []

    def answer(method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        asked.append(path)
        return 404, ""

    box.serve(answer)
    box.arm(metadata=SILENT)
    box.look()
    box.look()
    assert asked == ["/"], "only the time, once"


@pytest.mark.parametrize(
    ("body", "time_"),
    [
        ('{"action": "terminate", "time": "2026-01-01T00:00:00Z"}', 1767225600),
        ("2026-01-01T00:00:00Z", 1767225600),
        (
            '{"Events": [{"EventType": "Preempt", "NotBefore": "Thu, 01 Jan 2026 00:00:00 GMT"}]}',
            1767225600,
        ),
        ('{"Events": [{"EventType": "Preempt", "EventStatus": "Started", "NotBefore": ""}]}', 0.0),
        ('{"Events": [{"EventType": "Freeze", "NotBefore": "Thu, 01 Jan 2026 00:00:00 GMT"}]}', None),
        ('{"DocumentIncarnation": 1, "Events": []}', None),
        ("<html>", None),
        ("[]", None),
        ("", None),
    ],
)
def test_a_notice_is_read_in_each_clouds_form(body: str, time_: float | None) -> None:
    assert notice_time(body) == time_


# --- what is wrong with it


def test_a_gpu_that_fell_off_the_bus_is_told(box: GuardedBox) -> None:
    box.write("dev/kmsg", "")
    box.arm(gpus=2)
    box.write("told/gpus", "0, 0, 0\n")
    with (box.root / "dev/kmsg").open("a") as log:
        log.write("4,1,2,-;NVRM: Xid (PCI:0000:00:1e): 79, pid=7, GPU has fallen off the bus.\n")
        log.write("4,1,3,-;NVRM: Xid (PCI:0000:00:1e): 45, pid=7, Preemptive Channel Removal\n")
    box.minutes(1)
    box.shows(lambda: box.status["health"].get("gpus"))
    assert box.status["health"]["gpus"] == "1 of 2 answer"
    box.shows(lambda: box.status["health"].get("xid"))
    assert box.status["health"]["hardware"] == "79, pid=7, GPU has fallen off the bus."
    assert box.status["health"]["xid"] == "45, pid=7, Preemptive Channel Removal"
    assert not box.powered_off


@pytest.mark.parametrize("code", [6, 15])
def test_the_only_gpu_that_is_gone_is_told(box: GuardedBox, code: int) -> None:
    box.program("nvidia-smi", f"echo 'No devices were found'; exit {code}")
    box.arm(gpus=1)
    box.pass_time(60)
    box.shows(lambda: box.status["health"].get("gpus"))
    assert box.status["health"]["gpus"] == "0 of 1 answer"


def test_an_nvidia_smi_that_hangs_keeps_nothing_else_from_being_done(box: GuardedBox) -> None:
    box.program("nvidia-smi", f"trap '' TERM; {WHILE_GUARDED}")
    box.arm()
    box.pass_time(120)
    assert box.status["health"]["gpus"] == "nvidia-smi does not answer"
    box.pass_time(3500)
    until(lambda: box.powered_off)


def test_memory_errors_are_told_and_numbers_that_a_gpu_does_not_tell_are_none(box: GuardedBox) -> None:
    assert read_gpus("0, 12, 0\n1, [N/A], [N/A]\nUnable to determine\n") == [(12, 0), (0, 0)]
    box.arm(gpus=2)
    box.write("told/gpus", "0, 0, 2\n1, 0, 1\n")
    box.minutes(1)
    box.shows(lambda: box.status["health"].get("ecc") == "3 uncorrected memory errors")


def test_the_gpus_are_asked_once_a_minute_at_most(box: GuardedBox) -> None:
    box.arm()
    until(lambda: box.said("nvidia-smi"))
    for _ in range(12):
        box.pass_time(5)
    assert len(box.said("nvidia-smi")) <= 2


def test_a_box_without_a_driver_is_guarded_too(box: GuardedBox) -> None:
    (box.folder / "bin/nvidia-smi").unlink()
    box.arm()
    box.pass_time(3500)
    assert not box.powered_off
    box.pass_time(101)
    until(lambda: box.powered_off)


# --- for Prometheus

TOLD = "0, 87, 2, 41, 1024, 14336, 61, 66.25, 1410, Disabled, 00000000:00:1E.0, Tesla T4, GPU-1\n"
CUT = "1, 0, 0, [N/A], 0, 81920, 30, [N/A], 1980, Enabled, 00000000:00:1F.0, NVIDIA H100, GPU-2\n"


def test_the_metrics_of_gpus_have_the_names_and_labels_that_dashboards_know(box: GuardedBox) -> None:
    box.write("dev/kmsg", "4,1,2,-;NVRM: Xid (PCI:0000:00:1e): 48, pid=7, DBE\n")
    box.arm(gpus=2)
    box.write("told/gpus", TOLD + CUT)
    box.minutes(1)
    box.shows(lambda: "GPU_UTIL" in box.metrics)
    of_first = 'gpu="0",UUID="GPU-1",device="nvidia0",modelName="Tesla T4",Hostname="mine"'
    of_cut = 'gpu="1",UUID="GPU-2",device="nvidia1",modelName="NVIDIA H100",Hostname="mine"'
    lines = box.metrics.splitlines()
    for name, value in {
        "GPU_UTIL": "87",
        "MEM_COPY_UTIL": "41",
        "FB_USED": "1024",
        "FB_FREE": "14336",
        "GPU_TEMP": "61",
        "POWER_USAGE": "66.25",
        "SM_CLOCK": "1410",
        "ECC_DBE_VOL_TOTAL": "2",
        "XID_ERRORS": "48",
    }.items():
        assert f"DCGM_FI_DEV_{name}{{{of_first}}} {value}" in lines
    of_second = [line for line in lines if of_cut in line]
    assert f"DCGM_FI_DEV_FB_FREE{{{of_cut}}} 81920" in of_second
    assert f"DCGM_FI_DEV_XID_ERRORS{{{of_cut}}} 0" in of_second
    assert not [line for line in of_second if "UTIL" in line or "POWER" in line], "unknown is not zero"


def test_the_metrics_of_the_box_are_there_and_each_name_is_explained(box: GuardedBox) -> None:
    box.arm(idle_s=7200)
    box.write("home/gpucloud/.gpucloud/checkpoints/latest.json", "{}")
    box.write("told/gpus", TOLD)
    box.minutes(1)
    box.shows(lambda: "GPU_UTIL" in box.metrics)
    names = [line.partition("{")[0].partition(" ")[0] for line in box.metrics.splitlines() if line[0] != "#"]
    for name in set(names):
        assert f"# HELP {name} " in box.metrics
        assert f"# TYPE {name} {'counter' if name.endswith('TOTAL') else 'gauge'}\n" in box.metrics
    assert {each for each in names if not each.startswith("DCGM")} == {
        "gpucloud_box_seconds_left",
        "gpucloud_box_idle_seconds",
        "gpucloud_box_health",
        "gpucloud_guard_poll_timestamp_seconds",
        "gpucloud_checkpoint_timestamp_seconds",
    }
    assert 'gpucloud_box_health{what="ecc"} 1\n' in box.metrics
    assert 'gpucloud_box_health{what="disk"} 0\n' in box.metrics


def test_figures_of_gpus_that_do_not_answer_any_more_are_no_longer_told(box: GuardedBox) -> None:
    box.arm()
    box.write("told/gpus", TOLD)
    box.minutes(1)
    box.shows(lambda: "GPU_UTIL" in box.metrics)
    box.program("nvidia-smi", "exit 9")
    box.pass_time(200)
    assert "DCGM" not in box.metrics
    assert "gpucloud_guard_poll_timestamp_seconds" in box.metrics


# --- rules


def test_the_earlier_end_counts_and_the_walls_only_where_it_is_right() -> None:
    end = {"deadline": 1000, "limit_s": 500}
    assert seconds_left(end, wall=900, wall_is_right=True, spent=100) == 100
    assert seconds_left(end, wall=900, wall_is_right=False, spent=100) == 400
    assert seconds_left(end, wall=0, wall_is_right=True, spent=450) == 50
    assert seconds_left({"deadline": 1000, "limit_s": None}, wall=0, wall_is_right=False, spent=0) is None


def test_the_uptime_of_earlier_boots_counts_and_that_of_this_one_once() -> None:
    record = {"spent_s": 700.0, "up": 200.0, "boot": "b"}
    assert spent_before(record, "b") == 500.0
    assert spent_before(record, "c") == 700.0
    assert spent_before(None, "b") == 0.0


def test_the_drivers_errors_are_found_among_the_kernels_words() -> None:
    text = "6,1,2,-;usb 1-1: new\n4,2,3,-;NVRM: Xid (PCI:0000:00:1e): 48, pid=1, DBE\n4,3,4,-;NVRM: loading\n"
    assert read_xids(text) == [("0000:00:1e", "48, pid=1, DBE")]


def test_the_guard_is_written_in_python_3_8() -> None:
    """What that version cannot read does not parse here."""
    modules = [
        each for each in files("gpucloud_templates").joinpath("guard").iterdir() if each.name.endswith(".py")
    ]
    assert modules
    for module in modules:
        ast.parse(module.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_the_guard_runs_on_every_python_at_hand(tmp_path: Path) -> None:
    tried = [python for python in PYTHONS if shutil.which(python) and runs(python)]
    assert tried
    for python in tried:
        with closing(GuardedBox(tmp_path / python, python=python)) as box:
            box.arm()
            box.pass_time(3500)
            assert not box.powered_off
            box.pass_time(101)
            until(partial(getattr, box, "powered_off"))

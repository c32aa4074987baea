"""The steps of the first boot, run for real in a box of the sandbox: none of them may be left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpucloud.ssh.boot import boot_state, gpu_list, wait_until_ready
from gpucloud.ssh.client import ConnectionFailedError, run
from gpucloud_templates import Software
from tests.sandbox.box_rental import CLIENTS_GO_AWAY, Rental
from tests.waiting import PATIENCE_S, until

pytestmark = CLIENTS_GO_AWAY

FULL = Software(
    driver="580",
    mig="1g.10gb=7",
    erdma=True,
    containers=True,
    toolkit="12.6",
    wheels="pytorch-2.10",
    system="ubuntu-24.04",
)
STEPS = ("driver", "mig", "erdma", "containers", "toolkit", "wheels")
PLAIN: dict[str, Any] = {"driver": "", "gpu_model": "H100", "gpu_memory_mib": 81920}
"""A machine whose image has nothing, and whose GPU can be cut."""
LIBRARY = "/usr/local/lib/gpucloud"


@pytest.fixture
def rental(tmp_path: Path) -> Iterator[Rental]:
    rental = Rental(tmp_path)
    yield rental
    rental.close()


def boots(rental: Rental, change: Callable[[dict[str, Any]], None], **waiting: Any) -> None:
    """Boots a plain image on user-data that was changed, and waits for it as a launch does."""
    spec = rental.spec(plan={"software": FULL}, **PLAIN)
    document = yaml.safe_load(spec.user_data)
    change(document)
    text = "#cloud-config\n" + yaml.safe_dump(document)
    rental.boxes.boot(rental.spec(user_data=text, **PLAIN))
    wait_until_ready(rental.target(), timeout_s=PATIENCE_S, steps=FULL.steps, **waiting)


def test_a_plain_image_gets_driver_containers_toolkit_and_framework_in_this_order(rental: Rental) -> None:
    target = rental.boot(rental.spec(plan={"software": FULL}, **PLAIN))
    state = boot_state(target)
    assert state.ready
    assert state.guarded
    assert tuple(state.seconds) == STEPS
    assert len(gpu_list(target)) == 1
    log = run(target, ["cat", "/var/log/gpucloud/boot.log"]).out.decode()
    for package in (
        "nvidia-utils-580-server",
        "dkms",
        "docker.io",
        "nvidia-container-toolkit",
        "cuda-toolkit-12-6",
        "cudnn9-cuda-12",
        "python3-venv",
    ):
        assert f"Setting up {package} " in log
    assert '"nvidia"' in run(target, ["docker", "info", "-f", "{{json .Runtimes}}"]).out.decode()
    wheels = run(target, ["cat", "/opt/gpucloud/venv/wheels"]).out.decode()
    assert "torch==2.10.0 --hash=sha256:" in wheels


def test_an_image_that_has_it_all_installs_nothing_but_what_it_lacks(rental: Rental) -> None:
    target = rental.boot(rental.spec(plan={"software": Software(driver="580", containers=True)}))
    assert "Setting up" not in run(target, ["cat", "/var/log/gpucloud/boot.log"]).out.decode()


@pytest.mark.parametrize("step", STEPS)
def test_a_box_without_the_program_of_a_step_is_not_ready(rental: Rental, step: str) -> None:
    def change(document: dict[str, Any]) -> None:
        document["write_files"] = [
            file for file in document["write_files"] if file["path"] != f"{LIBRARY}/{step}"
        ]

    with pytest.raises(ConnectionFailedError, match=f"the boot step '{step}' failed with exit code 127"):
        boots(rental, change)


@pytest.mark.parametrize("step", STEPS)
def test_a_box_that_passed_a_step_over_is_not_ready(rental: Rental, step: str) -> None:
    def change(document: dict[str, Any]) -> None:
        document["runcmd"][0] = [word for word in document["runcmd"][0] if word.partition(":")[0] != step]

    with pytest.raises(ConnectionFailedError, match=f"without {step}|step '\\w+' failed"):
        boots(rental, change)


def test_a_box_that_never_began_its_steps_is_not_ready(rental: Rental) -> None:
    spec = rental.spec(plan={"software": FULL}, **PLAIN)
    document = yaml.safe_load(spec.user_data)
    del document["runcmd"]
    text = "#cloud-config\n" + yaml.safe_dump(document)
    rental.boxes.boot(rental.spec(user_data=text, **PLAIN))
    target = rental.target()
    with pytest.raises(ConnectionFailedError, match="did not finish within"):
        wait_until_ready(target, timeout_s=2, steps=FULL.steps)


def test_a_box_that_nothing_would_end_is_not_ready(rental: Rental) -> None:
    def change(document: dict[str, Any]) -> None:
        del document["bootcmd"]

    with pytest.raises(ConnectionFailedError, match="the guard of i-1 did not start within 1 s"):
        boots(rental, change, guard_timeout_s=1)


def test_an_installer_with_another_digest_is_not_run(rental: Rental) -> None:
    def change(document: dict[str, Any]) -> None:
        for file in document["write_files"]:
            if file["path"] == f"{LIBRARY}/erdma":
                file["content"] = file["content"].replace("cb44f4c4", "00000000")

    with pytest.raises(ConnectionFailedError, match="is not 00000000"):
        boots(rental, change)


def test_a_repository_whose_key_is_another_is_not_used(rental: Rental) -> None:
    def change(document: dict[str, Any]) -> None:
        for file in document["write_files"]:
            if file["path"] == f"{LIBRARY}/containers":
                file["content"] = file["content"].replace("C95B321B", "00000000")

    with pytest.raises(ConnectionFailedError, match="is not the key 00000000"):
        boots(rental, change)


def test_a_step_that_hangs_is_ended(rental: Rental) -> None:
    def change(document: dict[str, Any]) -> None:
        for file in document["write_files"]:
            if file["path"] == f"{LIBRARY}/boot":
                file["content"] = file["content"].replace("timeout -k 10 1500", "timeout -k 10 1")
            if file["path"] == f"{LIBRARY}/toolkit":
                file["content"] = "#!/bin/sh\nexec sleep 1000\n"

    with pytest.raises(ConnectionFailedError, match="the boot step 'toolkit' failed with exit code 124"):
        boots(rental, change)


def test_the_step_that_runs_is_told(rental: Rental) -> None:
    def change(document: dict[str, Any]) -> None:
        for file in document["write_files"]:
            if file["path"] == f"{LIBRARY}/toolkit":
                file["content"] = "#!/bin/sh\nexec sleep 1\n"

    told: list[str] = []
    boots(rental, change, tell=told.append)
    assert "toolkit" in told


def test_local_disks_become_scratch_for_every_session_and_stay_through_a_reboot(rental: Rental) -> None:
    rented = rental.spec(plan={"scratch": True}, local_disks=("", ""))
    target = rental.boot(rented)
    command = 'env; mountpoint -q /scratch && echo hello >"$GPUCLOUD_SCRATCH/file"'
    said = run(target, ["sh", "-c", command]).out.decode().splitlines()
    scratch = next(line.partition("=")[2] for line in said if line.startswith("GPUCLOUD_SCRATCH="))
    assert {
        f"HF_HOME={scratch}/huggingface",
        f"PIP_CACHE_DIR={scratch}/pip",
        f"RCLONE_CACHE_DIR={scratch}/rclone",
    } <= set(said)
    rental.boxes.stop("i-1")
    rental.boxes.boot(rented)
    target = rental.target()
    until(lambda: run(target, ["mountpoint", "-q", "/scratch"]).code == 0)
    assert run(target, ["cat", "/scratch/file"]).out == b"hello\n"


def test_a_machine_without_local_disks_has_no_scratch(rental: Rental) -> None:
    target = rental.boot(rental.spec(plan={"scratch": True}))
    assert b"GPUCLOUD_SCRATCH" not in run(target, ["env"]).out
    assert run(target, ["sudo", "mount"]).out == b""

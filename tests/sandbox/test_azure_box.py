"""Azure's boxes in the sandbox as users have it: a process, real ssh, and the metadata service inside."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucloud_sandbox.azure.metadata import answer
from gpucloud_sandbox.boxes_metadata import Facts
from gpucloud_sandbox.client import Endpoint, ensure_started, find
from tests.sandbox.azure_lab import GROUP, SPOT, Azure, machine, scale_set
from tests.sandbox.running import TAGS, HollowBoxes, running_sandbox
from tests.waiting import PATIENCE_S, until


class Shell:
    """ssh to a box of the sandbox."""

    def __init__(self, folder: Path) -> None:
        self._key = folder / "key"
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._key)]
        subprocess.run(argv, check=True)
        public = self._key.with_suffix(".pub").read_text().strip()
        text = f"#cloud-config\nusers:\n  - name: box\n    ssh_authorized_keys: ['{public}']\n"
        self.custom_data = base64.b64encode(text.encode()).decode()

    def run(self, endpoint: Endpoint, address: str, command: str) -> subprocess.CompletedProcess[str]:
        """A command on the box."""
        options = (
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "BatchMode=yes",
            "LogLevel=ERROR",
        )
        argv = ["ssh", "-F", "none", "-i", str(self._key), "-o", f"ProxyCommand={endpoint.ssh_proxy_command}"]
        argv += [word for option in options for word in ("-o", option)]
        return subprocess.run(
            [*argv, f"box@{address}", command],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[Azure]:
    with running_sandbox(tmp_path / "sandbox") as endpoint:
        lab = Azure(endpoint, HollowBoxes())
        yield lab
        lab.close()


def launched(azure: Azure, shell: Shell, **changes: Any) -> str:
    """The address of a machine that answers."""
    azure.put(machine(azure.make_parts(), osProfile__customData=shell.custom_data, **changes)).result()
    address: str = azure.network.public_ip_addresses.get(GROUP, "vm-ip").ip_address
    until(lambda: shell.run(azure.endpoint, address, "true").returncode == 0)
    return address


METADATA = "curl -s -H Metadata:true $GPUCLOUD_METADATA_URL/metadata/"


def test_a_box_answers_ssh_through_its_firewall_and_outlives_its_sandbox(
    azure: Azure, tmp_path: Path
) -> None:
    shell = Shell(tmp_path)
    address = launched(azure, shell)
    os.kill(azure.endpoint.pid, signal.SIGKILL)
    until(lambda: find(azure.endpoint.folder) is None)
    again = ensure_started(azure.endpoint.folder)
    until(lambda: shell.run(again, address, "true").returncode == 0)
    assert shell.run(again, address, "echo $USER; hostname").stdout.split()[1] == "n0"
    firewalls = azure.network.network_security_groups
    firewalls.begin_create_or_update(GROUP, "fw", {"location": "eastus", "tags": TAGS}).result()
    assert shell.run(again, address, "true").returncode == 255
    assert again.client.status()["billing"]


def test_instances_of_a_scale_set_answer_ssh_at_their_own_addresses(azure: Azure, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    azure.make_ground()
    body = scale_set(azure, 2, osProfile__customData=shell.custom_data)
    azure.compute.virtual_machine_scale_sets.begin_create_or_update(GROUP, "set", body).result()
    listed = azure.network.public_ip_addresses.list_virtual_machine_scale_set_public_ip_addresses
    addresses = [each.ip_address for each in listed(GROUP, "set")]
    until(lambda: all(shell.run(azure.endpoint, each, "true").returncode == 0 for each in addresses))
    named = [shell.run(azure.endpoint, each, "hostname").stdout.strip() for each in addresses]
    assert named == ["n0000000", "n0000001"]


def test_a_guest_that_switches_itself_off_goes_on_being_billed(azure: Azure, tmp_path: Path) -> None:
    """Unlike on the other clouds: the reason for all timers of this provider."""
    shell = Shell(tmp_path)
    address = launched(azure, shell)
    shell.run(azure.endpoint, address, "sudo poweroff")
    until(lambda: azure.power() == "PowerState/stopped")
    assert azure.billed() == ["address", "disk", "instance"]
    assert shell.run(azure.endpoint, address, "true").returncode == 255


def test_files_outlive_a_restart_and_a_stop_and_end_with_their_machine(azure: Azure, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    address = launched(azure, shell)
    boot_id = "cat $GPUCLOUD_BOX_ROOT/proc/sys/kernel/random/boot_id"
    before = shell.run(azure.endpoint, address, f"echo kept > kept; {boot_id}").stdout
    machines = azure.compute.virtual_machines
    machines.begin_restart(GROUP, "vm").result()
    until(lambda: shell.run(azure.endpoint, address, boot_id).stdout not in {"", before})
    assert shell.run(azure.endpoint, address, "cat kept").stdout == "kept\n"
    machines.begin_power_off(GROUP, "vm").result()
    until(lambda: shell.run(azure.endpoint, address, "true").returncode == 255)
    machines.begin_start(GROUP, "vm").result()
    until(lambda: shell.run(azure.endpoint, address, "true").returncode == 0)
    assert shell.run(azure.endpoint, address, "cat kept").stdout == "kept\n"
    machines.begin_delete(GROUP, "vm").result()
    kept = azure.endpoint.folder / "boxes"
    until(lambda: not list(kept.glob("*/root")))


FACTS = Facts(
    id="f3b1a1f6-0000-4000-8000-000000000001",
    hostname="n0",
    public_ip="203.0.113.7",
    private_ip="10.42.0.4",
    user_data="",
    tags={"gpucloud:box": "b"},
    spot=True,
    token="",
    interruption=None,
    now=datetime(2026, 11, 21, tzinfo=UTC),
)
KNOWS = {"metadata": "true"}
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"


def test_the_metadata_service_wants_its_header_a_version_and_no_proxy() -> None:
    instance = "/metadata/instance?api-version=2021-02-01"
    for path, headers in (
        (instance, {}),
        (instance, {"metadata": "false"}),
        (instance, {**KNOWS, "x-forwarded-for": "1.2.3.4"}),
        ("/metadata/instance", KNOWS),
    ):
        assert answer(FACTS, "GET", path, headers)[0] == 400
    assert answer(FACTS, "GET", "/metadata/nothing?api-version=1", KNOWS)[0] == 404
    assert answer(FACTS, "PUT", instance, KNOWS)[0] == 405
    status, body = answer(FACTS, "GET", instance, KNOWS)
    compute = json.loads(body)["compute"]
    assert (status, compute["vmId"], compute["priority"]) == (200, FACTS.id, "Spot")
    assert compute["tagsList"] == [{"name": "gpucloud:box", "value": "b"}]


def test_one_value_can_be_asked_for_as_text() -> None:
    head, tail = "/metadata/instance", "?api-version=2021-02-01&format=text"
    assert answer(FACTS, "GET", f"{head}/compute/name{tail}", KNOWS) == (200, "n0")
    address = f"{head}/network/interface/0/ipv4/ipAddress/0/publicIpAddress{tail}"
    assert answer(FACTS, "GET", address, KNOWS) == (200, "203.0.113.7")
    assert answer(FACTS, "GET", f"{head}/compute/nothing{tail}", KNOWS)[0] == 404


def test_a_spot_box_is_told_of_its_end_and_others_of_nothing() -> None:
    assert json.loads(answer(FACTS, "GET", EVENTS, KNOWS)[1])["Events"] == []
    soon = _with(interruption=FACTS.now + timedelta(seconds=30))
    document = json.loads(answer(soon, "GET", EVENTS, KNOWS)[1])
    (event,) = document["Events"]
    assert (event["EventType"], event["EventStatus"], event["Resources"]) == ("Preempt", "Scheduled", ["n0"])
    assert event["NotBefore"] == "Sat, 21 Nov 2026 00:00:30 GMT"
    assert answer(soon, "POST", EVENTS, KNOWS)[0] == 200
    ordinary = _with(interruption=soon.interruption, spot=False)
    assert json.loads(answer(ordinary, "GET", EVENTS, KNOWS)[1])["Events"] == []


def _with(**changes: Any) -> Facts:
    return replace(FACTS, **changes)


def test_the_notice_reaches_the_box(azure: Azure, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    address = launched(azure, shell, **SPOT)
    command = f"{METADATA}scheduledevents?api-version=2020-07-01"
    assert '"Events": []' in shell.run(azure.endpoint, address, command).stdout
    azure.sandbox.interrupt(azure.id_of("Microsoft.Compute/virtualMachines", "vm"), notice_s=600)
    assert "Preempt" in shell.run(azure.endpoint, address, command).stdout
    azure.sandbox.clock(advance_s=601)
    assert azure.billed() == []

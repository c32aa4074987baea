"""The sandbox as a process: starting, being killed, stopping, and the tools of others against it."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpucloud_sandbox.aws import AwsSandbox
from gpucloud_sandbox.client import Endpoint, SandboxBusyError, ensure_started, find, read_status
from gpucloud_sandbox.emulator import World
from tests.sandbox.running import (
    HollowBoxes,
    client,
    hollow_sandbox,
    launch,
    make_group,
    running_sandbox,
    shown,
)
from tests.waiting import PATIENCE_S, until


def run_program(endpoint: Endpoint, *argv: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in endpoint.unexported}
    environment = {**kept, **endpoint.exports(os.environ), "AWS_PAGER": ""}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)


def aws(endpoint: Endpoint, *arguments: str) -> Any:
    """The vendor's own command line client."""
    done = run_program(endpoint, str(Path(sys.executable).with_name("aws")), *arguments, "--output", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_shells_that_start_it_at_once_get_the_same_sandbox(tmp_path: Path) -> None:
    folder = tmp_path / "sandbox"
    with ThreadPoolExecutor(4) as pool:
        endpoints = list(pool.map(lambda _: ensure_started(folder, transition_s=0.0), range(4)))
    try:
        assert len({endpoint.pid for endpoint in endpoints}) == 1
        assert stat.S_IMODE((folder / "sandbox.json").stat().st_mode) == 0o600
        assert stat.S_IMODE((folder / "sandbox.db").stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        endpoints[0].stop(force=True)


def test_a_killed_sandbox_comes_back_with_everything_that_it_billed(tmp_path: Path) -> None:
    with running_sandbox(tmp_path) as endpoint:
        ec2 = client(endpoint)
        group = make_group(ec2)
        made = ec2.run_instances(**launch(group, ClientToken="t"))["Instances"][0]["InstanceId"]
        address = shown(ec2, made)[0]["PublicIpAddress"]
        before = endpoint.client.status()["billing"]
        os.kill(endpoint.pid, signal.SIGKILL)
        until(lambda: find(tmp_path) is None)
        dead = read_status(tmp_path)
        assert (dead["running"], dead["billing"]) == (False, before)
        again = ensure_started(tmp_path)
        assert again.pid != endpoint.pid
        assert again.endpoints == endpoint.endpoints
        assert again.client.status()["billing"] == before
        (seen,) = shown(ec2, made)
        assert (seen["State"]["Name"], seen["PublicIpAddress"]) == ("running", address)
        assert ec2.run_instances(**launch(group, ClientToken="t"))["Instances"][0]["InstanceId"] == made
        ec2.terminate_instances(InstanceIds=[made])
        assert again.client.status()["billing"] == []


def test_it_does_not_stop_while_something_is_billed(tmp_path: Path) -> None:
    with running_sandbox(tmp_path) as endpoint:
        ec2 = client(endpoint)
        made = ec2.run_instances(**launch(make_group(ec2)))["Instances"][0]["InstanceId"]
        with pytest.raises(SandboxBusyError) as busy:
            endpoint.client.stop()
        assert made in {each["id"] for each in busy.value.left}
        ec2.terminate_instances(InstanceIds=[made])
        endpoint.stop()
        assert find(tmp_path) is None


def test_idle_it_ends_itself_but_never_while_something_is_billed(tmp_path: Path) -> None:
    with running_sandbox(tmp_path) as endpoint:
        ec2 = client(endpoint)
        made = ec2.run_instances(**launch(make_group(ec2)))["Instances"][0]["InstanceId"]
        endpoint.client.stop(force=True)  # the next one is never idle before the machine has ended
    argv = [sys.executable, "-m", "gpucloud_sandbox.serve", "--folder", str(tmp_path), "--idle-s", "4"]
    process = subprocess.Popen([*argv, "--transition-s", "0"])
    try:
        until(lambda: find(tmp_path))
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(6)
        ec2.terminate_instances(InstanceIds=[made])
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()


def test_the_vendors_command_line_client_sees_what_was_launched(tmp_path: Path) -> None:
    with running_sandbox(tmp_path) as endpoint:
        ec2 = client(endpoint)
        made = ec2.run_instances(**launch(make_group(ec2)))["Instances"][0]["InstanceId"]
        answer = aws(endpoint, "ec2", "describe-instances", "--instance-ids", made)
        (instance,) = answer["Reservations"][0]["Instances"]
        assert instance["MetadataOptions"]["HttpTokens"] == "required"
        assert {"Key": "gpucloud:box", "Value": "b"} in instance["Tags"]
        volume = instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
        assert aws(endpoint, "ec2", "describe-volumes", "--volume-ids", volume)["Volumes"][0]["Encrypted"]
        ended = aws(endpoint, "ec2", "terminate-instances", "--instance-ids", made)
        assert ended["TerminatingInstances"][0]["CurrentState"]["Name"] == "shutting-down"
        assert aws(endpoint, "sts", "get-caller-identity")["Account"] == "123456789012"


def test_a_users_own_profile_and_endpoints_do_not_leak_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    (own_home / ".aws").mkdir()
    (own_home / ".aws" / "config").write_text(
        "[profile mine]\nregion = eu-west-1\nendpoint_url = http://127.0.0.1:1\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with running_sandbox(tmp_path) as endpoint:
        assert aws(endpoint, "sts", "get-caller-identity")["Account"] == "123456789012"


def proxied(endpoint: Endpoint, address: str, port: int = 22) -> subprocess.CompletedProcess[bytes]:
    """What ssh's ProxyCommand gives before anything is said."""
    command = endpoint.ssh_proxy_command.replace("%h", address).replace("%p", str(port)).split()
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False
    )


def test_boxes_are_reached_through_their_firewall_only(tmp_path: Path) -> None:
    with running_sandbox(tmp_path) as endpoint:
        ec2 = client(endpoint)
        made = ec2.run_instances(**launch(make_group(ec2)))["Instances"][0]["InstanceId"]
        address = shown(ec2, made)[0]["PublicIpAddress"]
        until(lambda: proxied(endpoint, address).stdout.startswith(b"SSH-2.0-"))
        assert b"timed out" in proxied(endpoint, "203.0.113.200").stderr
        assert b"timed out" in proxied(endpoint, address, 80).stderr
        assert endpoint.client.address("198.51.100.8") == "198.51.100.8"
        with urllib.request.urlopen(endpoint.environ["GPUCLOUD_ECHO_URL"]) as echo:  # noqa: S310  (loopback)
            assert echo.read().decode().strip() == "198.51.100.8"
        shut = proxied(endpoint, address)
        assert (shut.returncode, b"timed out" in shut.stderr) == (1, True)
        endpoint.client.address("198.51.100.7")
        ec2.terminate_instances(InstanceIds=[made])
        assert proxied(endpoint, address).returncode == 1


def test_it_listens_on_loopback_only_and_wants_its_token(tmp_path: Path) -> None:
    with running_sandbox(tmp_path) as endpoint:
        for url in (*endpoint.endpoints.values(), endpoint.control_url):
            assert url.partition("://")[2].startswith("127.0.0.1:")
            with pytest.raises(OSError, match="refused"), socket.socket() as probe:
                probe.connect(("127.0.0.2", int(url.rpartition(":")[2])))
        request = urllib.request.Request(f"{endpoint.control_url}/status", b"{}")  # noqa: S310  (loopback)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request)  # noqa: S310  (loopback)


def test_the_client_imports_nothing_heavy() -> None:
    program = (
        "import sys; from gpucloud_sandbox import client; "
        "print([name for name in ('boto3', 'botocore', 'moto', 'flask', 'werkzeug', 'asyncssh', 'typer') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_guest_that_switches_itself_off_ends_its_instance(tmp_path: Path) -> None:
    with running_sandbox(tmp_path) as endpoint:
        ec2 = client(endpoint)
        parameters = launch(make_group(ec2), UserData="#cloud-config\nruncmd:\n  - [poweroff]\n")
        made = ec2.run_instances(**parameters)["Instances"][0]["InstanceId"]
        until(lambda: shown(ec2, made)[0]["State"]["Name"] == "terminated")
        assert shown(ec2, made)[0]["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"
        assert endpoint.client.status()["billing"] == []


def test_a_box_knows_that_the_clock_was_moved_when_the_call_that_moves_it_returns(tmp_path: Path) -> None:
    """Its guard would otherwise measure a new limit by the old time, and end the box at once."""
    with running_sandbox(tmp_path) as endpoint:
        ec2 = client(endpoint)
        ec2.run_instances(**launch(make_group(ec2), UserData="#cloud-config\n"))
        [clock] = until(lambda: list(tmp_path.glob("boxes/*/root/run/gpucloud/clock")))
        for _ in range(5):
            ahead_s = endpoint.client.clock(advance_s=3600) and endpoint.client.status()["clock_ahead_s"]
            assert float(clock.read_text().split()[0]) == pytest.approx(ahead_s, abs=0.1)


def test_a_guest_that_switches_itself_off_while_it_is_being_stopped_stays(tmp_path: Path) -> None:
    """What it has begun comes after the call that stopped it: the instance is stopped, and does not end."""
    made: list[AwsSandbox] = []

    def cloud(world: World) -> AwsSandbox:
        made.append(AwsSandbox(world))
        return made[0]

    with hollow_sandbox(tmp_path, HollowBoxes(), cloud) as endpoint:
        ec2 = client(endpoint)
        instance = ec2.run_instances(**launch(make_group(ec2)))["Instances"][0]["InstanceId"]
        until(lambda: shown(ec2, instance)[0]["State"]["Name"] == "running")
        ec2.stop_instances(InstanceIds=[instance])
        made[0].power_off(instance)
        assert shown(ec2, instance)[0]["State"]["Name"] in {"stopping", "stopped"}
        assert [each["kind"] for each in endpoint.client.status()["billing"]] == ["disk"]


def test_what_was_set_outlives_the_process(tmp_path: Path) -> None:
    with running_sandbox(tmp_path, latency_s=0.001) as endpoint:
        endpoint.client.stock(count=0, instance_type="p5.*")
        endpoint.client.price(amount="9", instance_type="g4dn.xlarge")
        endpoint.client.address("198.51.100.8")
        endpoint.client.clock(advance_s=3600)
        set_before = _set(endpoint)
        endpoint.stop()
        again = ensure_started(tmp_path)
        assert _set(again) == set_before
        assert again.environ == endpoint.environ


def _set(endpoint: Endpoint) -> Any:
    steering = endpoint.client
    status = steering.status()
    return steering.stock(), steering.price(), steering.address(), status["pace"], status["clock_ahead_s"]

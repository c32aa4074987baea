"""ssh as the client: what it is told, and what its words mean. Against real servers: tests/sandbox."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpucloud.errors import UsageError
from gpucloud.ssh.boot import DriverGpu, is_model, parse_gpus
from gpucloud.ssh.client import ConnectionFailure, Target, client, connect, explain_failure
from gpucloud.ssh.keys import create_keys, delete_keys, find_program, pinned, renew_host_key
from gpucloud_pricing.gpu_models import MODELS
from tests.waiting import until


def target(folder: Path, **changes: object) -> Target:
    values: dict[str, object] = {"box_id": "b-1", "host": "203.0.113.7", "user": "gpucloud", "keys": folder}
    return Target(**{**values, **changes})  # type: ignore[arg-type]


def settings(of: Target) -> dict[str, str]:
    """What OpenSSH itself makes of our arguments."""
    argv = [*client(of), "-G", of.alias]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return {name: value for name, _, value in (line.partition(" ") for line in done.stdout.splitlines())}


@pytest.mark.parametrize(
    "bad",
    [
        {"host": "-oProxyCommand=touch /tmp/x"},
        {"host": "host name"},
        {"host": "a;b"},
        {"host": ""},
        {"host": "fe80::1%eth0;x"},
        {"user": "-l"},
        {"user": "a b"},
        {"box_id": "-F/etc/passwd"},
        {"box_id": "../x"},
        {"box_id": "*"},
    ],
)
def test_what_ssh_could_take_for_an_option_or_a_pattern_is_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"is (not|neither) a"):
        target(Path("keys"), **bad)


@pytest.mark.parametrize("host", ["203.0.113.7", "2001:db8::7", "ec2-203-0-113-7.compute.amazonaws.com"])
def test_addresses_and_names_of_both_families_are_taken(host: str, tmp_path: Path) -> None:
    assert settings(target(tmp_path, host=host))["hostname"] == host


def test_ssh_checks_the_host_key_uses_one_key_and_forwards_nothing(tmp_path: Path) -> None:
    folder = tmp_path / 'a "folder" with 100% odd characters'
    create_keys(folder, "b-1")
    told = settings(target(folder))
    wanted = {
        "stricthostkeychecking": "true",
        "globalknownhostsfile": "/dev/null",
        "hostkeyalias": "b-1",
        "identitiesonly": "yes",
        "identityagent": "none",
        "batchmode": "yes",
        "forwardagent": "no",
        "forwardx11": "no",
        "updatehostkeys": "false",
        "preferredauthentications": "publickey",
    }
    assert {name: told[name] for name in wanted} == wanted


def test_the_users_own_ssh_configuration_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host *\n  ForwardAgent yes\n  ProxyCommand false\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    told = settings(target(tmp_path))
    assert told["forwardagent"] == "no"
    assert "proxycommand" not in told


def test_keys_are_private_and_go_with_the_box(tmp_path: Path) -> None:
    folder = tmp_path / "keys" / "b-1"
    made = create_keys(folder, "b-1", nodes=2)
    assert folder.stat().st_mode & 0o777 == 0o700
    for name in ("id_ed25519", "host_ed25519", "known_hosts-b-1", "known_hosts-b-1.1"):
        assert (folder / name).stat().st_mode & 0o077 == 0
    assert pinned(folder, "b-1") == pinned(folder, "b-1.1") == [f"{made.host_public_key} one-time"]
    assert made.public_key != made.host_public_key
    assert create_keys(folder, "b-1", nodes=2) == made
    delete_keys(folder)
    delete_keys(folder)
    assert not folder.exists()


def test_a_machine_in_place_of_another_has_a_host_key_of_its_own_and_the_same_user(tmp_path: Path) -> None:
    made = create_keys(tmp_path, "b-1", nodes=2)
    (other,) = pinned(tmp_path, "b-1")
    renewed = renew_host_key(tmp_path, "b-1", 1)
    assert renewed.public_key == made.public_key
    assert renewed.host_public_key != made.host_public_key
    assert pinned(tmp_path, "b-1.1") == [f"{renewed.host_public_key} one-time"]
    assert pinned(tmp_path, "b-1") == [other]
    assert renew_host_key(tmp_path, "b-1", 1).host_public_key != renewed.host_public_key


def test_two_boxes_never_share_a_key(tmp_path: Path) -> None:
    made = [create_keys(tmp_path / box, box) for box in ("b-1", "b-2")]
    assert len({key for each in made for key in (each.public_key, each.host_public_key)}) == 4


@pytest.mark.parametrize(
    ("program", "package"), [("ssh", "openssh-client"), ("ssh-keygen", "openssh-client"), ("rsync", "rsync")]
)
def test_a_missing_program_names_the_package_to_install(
    program: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UsageError) as error:
        find_program(program)
    assert program in error.value.message
    assert package in (error.value.hint or "")
    assert error.value.exit_code == 2


def test_a_socket_folder_that_others_can_enter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "gpucloud").mkdir()
    (tmp_path / "gpucloud").chmod(0o755)
    with pytest.raises(UsageError, match="only you can read"):
        connect(target(tmp_path))


def test_a_socket_path_that_no_system_takes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with pytest.raises(UsageError, match="too long for the path"):
        connect(target(tmp_path))


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        ("ssh: connect to host 203.0.113.7 port 22: Connection timed out", ConnectionFailure.UNREACHABLE),
        ("ssh: connect to host 203.0.113.7 port 22: No route to host", ConnectionFailure.UNREACHABLE),
        (
            "connect to host 203.0.113.7 port 22: timed out (no such address, or a firewall drops it)\n"
            "kex_exchange_identification: Connection closed by remote host\n"
            "Connection closed by UNKNOWN port 65535",
            ConnectionFailure.UNREACHABLE,
        ),
        ("ssh: connect to host 203.0.113.7 port 22: Connection refused", ConnectionFailure.REFUSED),
        ("Host key verification failed.", ConnectionFailure.HOST_KEY),
        ("gpucloud@203.0.113.7: Permission denied (publickey).", ConnectionFailure.AUTH),
        ("client_loop: send disconnect: Broken pipe", ConnectionFailure.BROKEN),
    ],
)
def test_a_changed_address_is_told_apart_from_a_wrong_key_and_an_impostor(
    said: str, failure: ConnectionFailure
) -> None:
    assert explain_failure(said) is failure


def test_gpus_are_read_as_the_driver_lists_them_and_its_complaints_are_not() -> None:
    text = "0, Tesla T4, 15360, 580.95.05\n1, Tesla T4, 15360, 580.95.05\n"
    text += "NVIDIA-SMI has failed, no driver, at all\n2, x, [N/A], 580.95.05\n"
    assert parse_gpus(text) == [
        DriverGpu(index=0, name="Tesla T4", memory_mib=15360, driver="580.95.05"),
        DriverGpu(index=1, name="Tesla T4", memory_mib=15360, driver="580.95.05"),
    ]


@pytest.mark.parametrize(
    ("product", "model"),
    [
        ("Tesla T4", "T4"),
        ("NVIDIA T4G", "T4G"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A10-4Q", "A10"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 NVL", "H100"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
    ],
)
def test_the_drivers_name_of_a_gpu_is_one_model_of_the_market(product: str, model: str) -> None:
    of_nvidia = {each.name for each in MODELS}
    assert model in of_nvidia
    fits = {each for each in of_nvidia if is_model(product, each)}
    assert model in fits
    assert not {each for each in fits if len(each) > len(model)}


def test_nothing_of_the_environment_reaches_the_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/canary/agent")
    assert not [word for word in client(target(tmp_path)) if "canary" in word]
    assert os.environ["SSH_AUTH_SOCK"] == "/canary/agent"


CONNECT = """
import sys
from pathlib import Path
from gpucloud.ssh.client import Target, connect
keys, proxy = Path(sys.argv[1]), "sh -c 'echo $$ >proxy; exec sleep 600'"
connect(Target(box_id="b-1", host="203.0.113.7", user="gpucloud", keys=keys, proxy_command=proxy))
"""


def test_who_is_killed_while_it_connects_leaves_no_file(tmp_path: Path) -> None:
    keys, folder = tmp_path / "keys", tmp_path / "tmp"
    create_keys(keys, "b-1")
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", CONNECT, str(keys)],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    until((tmp_path / "proxy").exists, "the proxy")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert list(folder.iterdir()) == []

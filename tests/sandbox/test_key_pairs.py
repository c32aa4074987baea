"""Key pairs as users have them: ssh into a machine of the sandbox with nothing but the key of its pair."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.sandbox.alibaba_lab import Alibaba
from tests.sandbox.running import HollowBoxes, client, launch, make_group, running_sandbox, shown
from tests.waiting import PATIENCE_S, until

OPTIONS = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes", "LogLevel=ERROR")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with running_sandbox(tmp_path_factory.mktemp("sandbox")) as endpoint:
        endpoint.client.review(Review.OFF)
        yield endpoint


def ssh(
    endpoint: Endpoint, key: Path, target: str, command: str = "true"
) -> subprocess.CompletedProcess[str]:
    """A command on a machine."""
    argv = ["ssh", "-F", "none", "-i", str(key), "-o", f"ProxyCommand={endpoint.ssh_proxy_command}"]
    argv += [word for option in (*OPTIONS, "IdentitiesOnly=yes") for word in ("-o", option)]
    return subprocess.run(
        [*argv, target, command], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def logs_in(endpoint: Endpoint, key: Path, target: str) -> bool:
    """Whether a key logs in, once the machine is up."""

    def tried() -> subprocess.CompletedProcess[str] | None:
        ran = ssh(endpoint, key, target)
        return ran if ran.returncode == 0 or "Permission denied" in ran.stderr else None

    ran: subprocess.CompletedProcess[str] = until(tried, f"an answer of {target}")
    return ran.returncode == 0


def keep(folder: Path, name: str, private: str) -> Path:
    """A private key as a file that ssh takes."""
    path = folder / name
    path.touch(mode=0o600)
    path.write_text(private)
    return path


@pytest.fixture
def own_key(tmp_path: Path) -> Path:
    """An RSA key of the user's own."""
    path = tmp_path / "own"
    argv = ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f", str(path)]
    subprocess.run(argv, check=True)
    return path


def test_an_alibaba_key_pair_logs_in_as_root_and_an_attached_one_after_a_restart(
    endpoint: Endpoint, tmp_path: Path, own_key: Path
) -> None:
    alibaba = Alibaba(endpoint, HollowBoxes())
    made = alibaba.ask("CreateKeyPair", KeyPairName="made")
    private = keep(tmp_path, "made", made["PrivateKeyBody"])
    public = own_key.with_suffix(".pub").read_text()
    alibaba.ask("ImportKeyPair", KeyPairName="own", PublicKeyBody=public)
    id_ = alibaba.launch(KeyPairName="made")
    [address] = alibaba.instances()[0]["PublicIpAddress"]["IpAddress"]
    target = f"root@{address}"
    assert logs_in(endpoint, private, target)
    assert not logs_in(endpoint, own_key, target)
    ids = {"InstanceIds": json.dumps([id_])}
    attached = alibaba.ask("AttachKeyPair", KeyPairName="own", **ids)
    assert (attached["TotalCount"], attached["FailCount"]) == (1, 0)
    assert not logs_in(endpoint, own_key, target), "not before the restart"
    alibaba.ask("RebootInstance", InstanceId=id_)
    until(lambda: ssh(endpoint, own_key, target).returncode == 0)
    assert not logs_in(endpoint, private, target)
    assert alibaba.ask("DetachKeyPair", KeyPairName="made", **ids)["FailCount"] == 1
    assert alibaba.ask("DetachKeyPair", KeyPairName="own", **ids)["FailCount"] == 0


def test_an_ec2_key_pair_logs_in_as_the_images_user_unless_user_data_leaves_him_out(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    ec2 = client(endpoint)
    private = keep(tmp_path, "pair", ec2.create_key_pair(KeyName="pair")["KeyMaterial"])
    group = make_group(ec2)
    none = "#cloud-config\nusers: []\n"
    addresses: list[str] = []
    for user_data in ("", none):
        made = ec2.run_instances(**launch(group, KeyName="pair", UserData=user_data))
        [instance] = shown(ec2, made["Instances"][0]["InstanceId"])
        addresses.append(instance["PublicIpAddress"])
    assert [logs_in(endpoint, private, f"ubuntu@{address}") for address in addresses] == [True, False]


# --- what the cloud refuses


NOBODY = '["i-0"]'


@pytest.mark.parametrize(
    ("action", "asked", "code"),
    [
        ("CreateKeyPair", {"KeyPairName": "x"}, "InvalidKeyPairName.Malformed"),
        ("ImportKeyPair", {"PublicKeyBody": "x"}, "InvalidPublicKeyBody.ValueNotSupported"),
        ("AttachKeyPair", {"InstanceIds": NOBODY}, "InvalidKeyPairName.NotFound"),
        ("DetachKeyPair", {"InstanceIds": NOBODY}, "InvalidInstanceIds.ValueNotSupported"),
    ],
)
def test_key_pairs_that_the_cloud_refuses_are_refused(
    endpoint: Endpoint, action: str, asked: dict[str, str], code: str
) -> None:
    alibaba = Alibaba(endpoint, HollowBoxes())
    assert alibaba.refused(action, **{"KeyPairName": "none", **asked}) == (code, 400)


BOOT_ID = "cat $GPUCLOUD_BOX_ROOT/proc/sys/kernel/random/boot_id"
KEPT = "cat kept"


def test_files_outlive_a_reboot_and_a_stop_on_alibaba(endpoint: Endpoint, tmp_path: Path) -> None:
    alibaba = Alibaba(endpoint, HollowBoxes())
    private = keep(tmp_path, "files", alibaba.ask("CreateKeyPair", KeyPairName="files")["PrivateKeyBody"])
    id_ = alibaba.launch(KeyPairName="files")
    shown_now = next(each for each in alibaba.instances() if each["InstanceId"] == id_)
    target = f"root@{shown_now['PublicIpAddress']['IpAddress'][0]}"
    assert logs_in(endpoint, private, target)
    boots = [ssh(endpoint, private, target, f"echo kept > kept; {BOOT_ID}").stdout]
    for actions in (("RebootInstance",), ("StopInstance", "StartInstance")):
        for action in actions:
            alibaba.ask(action, InstanceId=id_)
        until(lambda: ssh(endpoint, private, target, BOOT_ID).stdout not in {"", *boots})
        assert ssh(endpoint, private, target, KEPT).stdout == "kept\n"
        boots.append(ssh(endpoint, private, target, BOOT_ID).stdout)


def test_files_outlive_a_reboot_and_a_stop_on_ec2(endpoint: Endpoint, tmp_path: Path) -> None:
    ec2 = client(endpoint)
    private = keep(tmp_path, "pair", ec2.create_key_pair(KeyName="files")["KeyMaterial"])
    id_ = ec2.run_instances(**launch(make_group(ec2, "files"), KeyName="files"))["Instances"][0]["InstanceId"]

    def target() -> str:
        """A start gives it another address."""
        return f"ubuntu@{shown(ec2, id_)[0]['PublicIpAddress']}"

    assert logs_in(endpoint, private, target())
    before = ssh(endpoint, private, target(), f"echo kept > kept; {BOOT_ID}").stdout
    ec2.reboot_instances(InstanceIds=[id_])
    until(lambda: ssh(endpoint, private, target(), BOOT_ID).stdout not in {"", before})
    assert ssh(endpoint, private, target(), KEPT).stdout == "kept\n"
    ec2.stop_instances(InstanceIds=[id_])
    until(lambda: shown(ec2, id_)[0]["State"]["Name"] == "stopped")
    ec2.start_instances(InstanceIds=[id_])
    assert logs_in(endpoint, private, target())
    assert ssh(endpoint, private, target(), KEPT).stdout == "kept\n"

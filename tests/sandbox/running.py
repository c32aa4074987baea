"""A sandbox for tests: in this process, with boxes that have no inside, or as the process that users have."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from gpucloud_sandbox.aws import AwsSandbox
from gpucloud_sandbox.boxes import BoxSpec
from gpucloud_sandbox.client import Endpoint, ensure_started, find
from gpucloud_sandbox.emulator import Emulator, World
from gpucloud_sandbox.review import Review
from gpucloud_sandbox.serve import build
from tests.forked import NO_AUTHORITIES

GROUP_PORT = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22}
HERE = "198.51.100.7/32"
IMAGE = (
    "resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)
TAGS = {
    "gpucloud:owner": "u",
    "gpucloud:box": "b",
    "gpucloud:op": "o",
    "gpucloud:run": "",
    "gpucloud:expires": "none",
}
KINDS = ("instance", "volume", "network-interface", "spot-instances-request")


@dataclass
class HollowBoxes:
    """Boxes without an inside: remembers what was asked of them."""

    alive: dict[str, BoxSpec] = field(default_factory=dict[str, BoxSpec])
    plugged: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    notices: dict[str, datetime] = field(default_factory=dict[str, datetime])
    stopped: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def boot(self, spec: BoxSpec) -> None:
        self.alive[spec.id] = spec

    def stop(self, id_: str) -> None:
        self.alive.pop(id_, None)
        self.stopped.set()

    def end(self, id_: str) -> None:
        self.alive.pop(id_, None)
        self.ended.set()

    def make_unhealthy(self, sickness: str, times: int) -> None:
        pass

    def plug(self, id_: str, device: str, volume: str) -> None:
        self.plugged[volume] = (id_, device)

    def unplug(self, id_: str, volume: str) -> None:
        self.plugged.pop(volume, None)

    def copy(self, source: str, target: str) -> None:
        pass

    def copy_root(self, id_: str, target: str) -> None:
        pass

    def wipe(self, volume: str) -> None:
        self.plugged.pop(volume, None)

    def ssh_port(self, id_: str) -> int | None:
        return None

    def console(self, id_: str) -> str:
        return f"boot of {id_}\n\x1b[0mdone\n"

    def tell_time(self) -> None:
        pass

    def notice_interruption(self, id_: str, at: datetime) -> None:
        self.notices[id_] = at

    def close(self) -> None:
        self.alive.clear()


@contextmanager
def hollow_sandbox(
    folder: Path, boxes: HollowBoxes, cloud: Callable[[World], Emulator] = AwsSandbox
) -> Iterator[Endpoint]:
    """A sandbox with one cloud, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in NO_AUTHORITIES.items():
            patch.setenv(name, value)
        sandbox = build(folder, emulated=[cloud], boxes=boxes)
    sandbox.world.dials.set_pace({"transition_s": 0.0})
    sandbox.world.dials.set_review(Review.ALL)
    sandbox.start()
    runner = threading.Thread(target=sandbox.run, kwargs={"idle_s": 3600.0})
    runner.start()
    try:
        with (folder / "serve.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            endpoint = find(folder)
        assert endpoint is not None
        yield endpoint
    finally:
        sandbox.stopping.set()
        runner.join()
        sandbox.close()


@contextmanager
def running_sandbox(folder: Path, **pace: float) -> Iterator[Endpoint]:
    """A sandbox as a process of its own, ended whatever it bills."""
    endpoint = ensure_started(folder, **{"transition_s": 0.0, **pace})
    try:
        yield endpoint
    finally:
        running = find(folder)
        if running is not None:
            running.stop(force=True)


def client(endpoint: Endpoint, service: str = "ec2", region: str = "us-east-1", **options: Any) -> Any:
    """A client of boto3 that sends every call once; ``validated=False`` sends wrong ones too."""
    return boto3.client(
        service,  # type: ignore[call-overload]
        region_name=region,
        endpoint_url=endpoint.endpoints["aws"],
        aws_access_key_id=options.pop("key", endpoint.environ["AWS_ACCESS_KEY_ID"]),
        aws_secret_access_key=options.pop("secret", endpoint.environ["AWS_SECRET_ACCESS_KEY"]),
        config=Config(
            retries={"total_max_attempts": options.pop("attempts", 1), "mode": "standard"},
            signature_version=options.pop("signature", None),
            parameter_validation=options.pop("validated", True),
        ),
    )


def launch(group: str, **changes: Any) -> dict[str, Any]:
    """A launch that a careful reviewer lets pass, with some parameters changed (``None`` leaves one out)."""
    tags = [{"Key": key, "Value": value} for key, value in TAGS.items()]
    kinds = KINDS if "InstanceMarketOptions" in changes else KINDS[:3]
    interface = {"DeviceIndex": 0, "Groups": [group], "AssociatePublicIpAddress": True}
    if "zone_subnet" in changes:
        interface["SubnetId"] = changes.pop("zone_subnet")
    parameters = {
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": "g4dn.xlarge",
        "ImageId": IMAGE,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "BlockDeviceMappings": [
            {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 100, "VolumeType": "gp3", "Encrypted": True}}
        ],
        "NetworkInterfaces": [interface],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in kinds],
        **changes,
    }
    return {name: value for name, value in parameters.items() if value is not None}


SPOT = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}}


def make_group(ec2: Any, name: str = "g") -> str:
    """A security group that lets the caller in on ssh."""
    group: str = ec2.create_security_group(GroupName=name, Description="test")["GroupId"]
    permission = {**GROUP_PORT, "IpRanges": [{"CidrIp": HERE}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission])
    return group


def subnet_in(ec2: Any, zone_id: str) -> str:
    """The default subnet of a zone."""
    subnets = ec2.describe_subnets(Filters=[{"Name": "availability-zone-id", "Values": [zone_id]}])["Subnets"]
    subnet: str = subnets[0]["SubnetId"]
    return subnet


def shown(ec2: Any, *ids: str) -> list[dict[str, Any]]:
    """Instances as DescribeInstances shows them."""
    reservations = ec2.describe_instances(InstanceIds=list(ids))["Reservations"]
    return [instance for reservation in reservations for instance in reservation["Instances"]]

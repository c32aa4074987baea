"""Boots boxes of the sandbox for tests: a folder, a key, and what was rented."""

from __future__ import annotations

import gc
import warnings
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucloud.ssh.boot import rotate_host_key, wait_until_ready
from gpucloud.ssh.client import Target, disconnect, wait_until_reachable
from gpucloud.ssh.keys import create_keys
from gpucloud_sandbox.aws import metadata
from gpucloud_sandbox.boxes import Boxes, BoxSpec
from gpucloud_templates import BootPlan, render
from tests.waiting import PATIENCE_S, until

CLIENTS_GO_AWAY = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""For tests of boxes: their own ssh server complains of a client that goes away: one that gives up, say."""


@dataclass
class MovableClock:
    """This machine's time, moved ahead."""

    ahead: timedelta = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Rental:
    """The boxes of one test, in one folder, and who of them powered off."""

    folder: Path
    clock: MovableClock = field(default_factory=MovableClock)
    powered_off: list[str] = field(default_factory=list[str])
    targets: dict[str, Target] = field(default_factory=dict[str, Target])

    def __post_init__(self) -> None:
        self.boxes = self.open()

    def open(self) -> Boxes:
        return Boxes(self.folder / "boxes", on_power_off=self.powered_off.append, now=self.clock.now)

    def spec(self, box: str = "i-1", *, plan: dict[str, Any] | None = None, **changes: Any) -> BoxSpec:
        """What is rented, with keys of its own; a T4 with its driver in the image unless said otherwise."""
        keys = create_keys(self.folder / "keys" / box, box)
        values: dict[str, Any] = {
            "box": "b-1",
            "name": "mine",
            "user": "gpucloud",
            "public_key": keys.public_key,
            "host_private_key": keys.host_private_key,
            "host_public_key": keys.host_public_key,
            "deadline": self.clock.now() + timedelta(hours=1),
            "ttl_s": 3600,
        }
        rented: dict[str, Any] = {
            "id": box,
            "hostname": "mine",
            "public_ip": "203.0.113.7",
            "private_ip": "10.0.0.7",
            "user_data": render(BootPlan(**{**values, **(plan or {})})),
            "gpu_model": "T4",
            "gpu_count": 1,
            "gpu_memory_mib": 15360,
            "driver": "580.95.05",
            "tags": {"gpucloud:box": box},
            "spot": False,
            "metadata": metadata.service({"HttpTokens": "required", "InstanceMetadataTags": "enabled"}),
        }
        return BoxSpec(**{**rented, **changes})

    def target(self, box: str = "i-1") -> Target:
        """Where it is now, once its ssh server listens."""
        port = until(lambda: self.boxes.ssh_port(box))
        keys = self.folder / "keys" / box
        self.targets[box] = Target(box_id=box, host="127.0.0.1", user="gpucloud", keys=keys, port=port)
        return self.targets[box]

    def boot(self, spec: BoxSpec) -> Target:
        """Boots a box and brings it up as a launch does."""
        self.boxes.boot(spec)
        target = self.target(spec.id)
        wait_until_reachable(target, timeout_s=PATIENCE_S)
        rotate_host_key(target)
        wait_until_ready(target, timeout_s=PATIENCE_S)
        return target

    def close(self) -> None:
        for target in self.targets.values():
            disconnect(target)
        self.boxes.close()
        with warnings.catch_warnings():
            # Of a client that was killed asyncio leaves a socket, which would be blamed on a later test.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
            gc.freeze()  # the next one looks only through what is new

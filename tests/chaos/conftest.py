"""A sandbox and a user at a terminal, for tests that kill and cut."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpucloud.sandbox.client import Endpoint, SandboxClient, ensure_started

GPUCLOUD = [sys.executable, "-m", "gpucloud"]


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its document."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody with a home folder and a sandbox, who runs commands."""

    home: Path
    sandbox: SandboxClient

    @property
    def environment(self) -> dict[str, str]:
        """What their shell has set."""
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "GPUCLOUD_"))}
        return keep | {"GPUCLOUD_HOME": str(self.home), "GPUCLOUD_SANDBOX": "1", "NO_COLOR": "1"}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts a command."""
        return subprocess.Popen(
            [*GPUCLOUD, *arguments],
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str) -> Result:
        """Runs a command to its end."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return Result(process.returncode, out, err)

    def boxes(self) -> list[dict[str, Any]]:
        """What ``list`` shows."""
        found: list[dict[str, Any]] = self.run("list", "--json").json["boxes"]
        return found

    def billed(self) -> list[dict[str, Any]]:
        """The instances that the ledger bills: the ground truth."""
        entries: list[dict[str, Any]] = self.sandbox.status()["billing"]
        return [entry for entry in entries if entry["kind"] == "instance"]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    started = ensure_started(tmp_path_factory.mktemp("clouds") / "sandbox", transition_s=0.0)
    yield started
    started.client.stop(force=True)


@pytest.fixture
def user(endpoint: Endpoint, tmp_path: Path) -> Iterator[User]:
    """A newcomer: nothing in the home folder, nothing in the clouds."""
    endpoint.client.reset()
    (tmp_path / "sandbox").symlink_to(endpoint.folder)
    yield User(tmp_path, endpoint.client)
    endpoint.client.reset()

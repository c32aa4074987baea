"""A program that uses gpucloud as a library, with a sandbox and a home folder of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpucloud import Client, Profile
from gpucloud_sandbox.client import Endpoint, ensure_started
from tests.shell import endpoint

__all__ = ["endpoint"]

NewClient = Callable[..., Client]
"""Opens a client of the sandbox; ``home`` tells apart journals and owners."""


def profile_at(home: Path, clouds: Endpoint) -> Profile:
    """The settings of somebody whose home folder this is, and whose sandbox that is."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (home / "sandbox").exists():
        (home / "sandbox").symlink_to(clouds.folder)
    return Profile({"PATH": os.environ["PATH"], "HOME": str(home), "GPUCLOUD_HOME": str(home)})


@pytest.fixture
def profile(endpoint: Endpoint, tmp_path: Path) -> Iterator[Profile]:
    """The settings of somebody with empty clouds."""
    endpoint.client.reset()
    yield profile_at(tmp_path / "home", endpoint)
    endpoint.client.reset()


@pytest.fixture
def client(profile: Profile) -> Iterator[Client]:
    """A client of the sandbox."""
    with Client.sandbox(profile=profile) as opened:
        yield opened


@pytest.fixture
def another_sandbox(tmp_path: Path) -> Iterator[Endpoint]:
    """A second sandbox, which runs beside the first."""
    started = ensure_started(tmp_path / "another" / "sandbox", transition_s=0.0)
    yield started
    started.client.stop(force=True)
    os.waitpid(started.pid, 0)

"""A shell whose sandbox has boxes with pip and pytest, and the repository that recipes install from."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from gpucloud_sandbox.client import Endpoint
from tests.ci.machine import Repository, publish
from tests.forked import ForkServer
from tests.shell import PROGRAMS, cli, forked_sandbox

__all__ = ["cli"]

PIP = """#!/bin/sh
# Stands in for pip on a box, which has no network: what the project needs is here already.
test "$*" = "install -r requirements.txt" && test -f requirements.txt
"""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Iterator[Endpoint]:
    """A sandbox of its own for each file of tests."""
    programs = tmp_path_factory.mktemp("image")
    (programs / "pip").write_text(PIP)
    (programs / "pip").chmod(0o755)
    (programs / "pytest").symlink_to(PROGRAMS / "pytest")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        with forked_sandbox(tmp_path_factory.mktemp("clouds") / "sandbox", forks) as started:
            yield started


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """This checkout, committed and published."""
    return publish(tmp_path_factory.mktemp("published") / "gpucloud.git")

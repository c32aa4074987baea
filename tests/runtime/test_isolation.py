"""What every other test stands on: it reaches no other machine and sees nobody's settings."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from gpucloud.config import find_paths
from tests.conftest import ClosedNetworkError


def test_another_machine_cannot_be_reached() -> None:
    with socket.socket() as plain, pytest.raises(ClosedNetworkError):
        plain.connect(("192.0.2.1", 443))
    with pytest.raises(ClosedNetworkError):
        socket.create_connection(("ec2.us-east-1.amazonaws.com", 443), timeout=1)


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()


def test_no_credential_or_folder_of_the_user_is_visible() -> None:
    assert not [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "ALIBABA_"))]
    home = Path(os.environ["HOME"])
    assert not list(home.iterdir())
    paths = find_paths(os.environ, sandbox=False)
    assert all(folder.is_relative_to(home) for folder in (paths.state, paths.config, paths.sandbox))

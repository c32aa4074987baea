"""What holds for every test: no network beyond this machine, no settings of the person who runs it."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("repeatable", parent=settings.get_profile("default"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

_OF_THE_USER = ("AWS_", "AZURE_", "ARM_", "ALIBABA_", "ALICLOUD_", "GPUCLOUD_", "BOTO_", "SSH_")
_FOLDERS = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
    "GPUCLOUD_HOME": "gpucloud",
}


class ClosedNetworkError(RuntimeError):
    """A test tried to reach another machine."""


def _is_loopback(host: str) -> bool:
    if host in {"", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def closed_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets reach this machine only, so that no test can touch a real cloud; ``live`` tests are for that."""
    if request.node.get_closest_marker("live"):
        return

    class LocalSocket(socket.socket):
        def connect(self, address: Any) -> None:
            self._refuse_far(address)
            super().connect(address)

        def connect_ex(self, address: Any) -> int:
            self._refuse_far(address)
            return super().connect_ex(address)

        def sendto(self, data: Any, *rest: Any) -> int:
            self._refuse_far(rest[-1])
            return super().sendto(data, *rest)

        def _refuse_far(self, address: Any) -> None:
            if self.family in {socket.AF_INET, socket.AF_INET6} and not _is_loopback(str(address[0])):
                raise ClosedNetworkError(f"a test tried to reach {address[0]}:{address[1]}")

    resolve = socket.getaddrinfo

    def resolve_here(host: Any, *rest: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and not _is_loopback(name) and not _is_address(name):
            raise ClosedNetworkError(f"a test tried to resolve {name}")
        return resolve(host, *rest, **options)

    monkeypatch.setattr(socket, "socket", LocalSocket)
    monkeypatch.setattr(socket, "getaddrinfo", resolve_here)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return False
    return True


@pytest.fixture(autouse=True)
def own_home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A home folder of its own for each test, and no credentials or settings from outside (0700)."""
    home = tmp_path_factory.mktemp("home")
    home.chmod(0o700)
    if not request.node.get_closest_marker("live"):
        for name in list(os.environ):
            if name.startswith(_OF_THE_USER) or name.lower().endswith("_proxy"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(home))
    for name, folder in _FOLDERS.items():
        monkeypatch.setenv(name, str(home / folder))
    yield home

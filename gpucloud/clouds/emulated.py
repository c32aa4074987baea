"""Finds the endpoints of emulated clouds, which a package announces by an entry point."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from gpucloud.errors import UsageError


class Endpoint(Protocol):
    """Emulated clouds that run, as a client sees them."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of a profile that point the vendors' SDKs, and gpucloud, at them."""
        ...

    @property
    def ssh_proxy_command(self) -> str:
        """For ssh's ``ProxyCommand``: the only way to the boxes' addresses."""
        ...

    @property
    def mend_clock(self) -> str:
        """What to do where their clock and this machine's differ."""
        ...


def ensure_started(folder: Path) -> Endpoint:
    """The emulated clouds of a folder, started if they do not run: the entry point ``sandbox``.

    Raises:
        UsageError: no package brings them.
        GpucloudError: they do not start.
    """
    from importlib.metadata import entry_points

    for entry in entry_points(group="gpucloud.endpoints", name="sandbox"):
        endpoint: Endpoint = entry.load()(folder)
        return endpoint
    raise UsageError("the sandbox is not installed", hint="pip install 'gpucloud[sandbox]'")

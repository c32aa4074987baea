"""Azure in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from werkzeug.wrappers import Request, Response

from gpucloud.sandbox.emulator import Control, UnknownThingError, World
from gpucloud.sandbox.faults import Call, Fault


class AzureSandbox:
    """The emulated Azure (an :class:`gpucloud.sandbox.emulator.Emulator`)."""

    name = "azure"
    tls = None

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def controls(self) -> Mapping[str, Control]:
        """None yet."""
        return {}

    def environment(self, origin: str) -> Mapping[str, str]:
        """Nothing yet."""
        return {}

    def identify(self, request: Request) -> Call:
        """Which call this is."""
        return Call(cloud=self.name, service="?", action=request.path, region="?", mutating=False)

    def answer(self, request: Request, call: Call) -> Response:
        """Nothing is emulated yet."""
        return Response(status=501)

    def fail(self, call: Call, fault: Fault) -> Response:
        """The answer that a fault makes."""
        return Response(status=fault.status)

    def admits(self, box: str, port: int, source: str) -> bool:
        """Nobody."""
        return False

    def tick(self) -> None:
        """Nothing is due."""

    def resume(self) -> None:
        """Nothing lived."""

    def power_off(self, box: str) -> None:
        """Nothing lives."""

    def interrupt(self, instance: str, at: datetime) -> None:
        """Nothing runs."""
        raise UnknownThingError(instance)

    def reset(self) -> None:
        """Nothing is kept."""

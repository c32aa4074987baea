"""What stands before every emulated cloud: latency, faults, counting, the echo of the caller's address."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request, Response

from gpucloud.sandbox.emulator import Emulator, World
from gpucloud.sandbox.faults import Call, Effect, Faults, Stage
from gpucloud.sandbox.peer import peer_pid

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

ECHO_PATH = "/caller-address"
_HANG_S = 3600.0


class _DroppedError(ConnectionError):
    """The connection was closed on purpose; the server sees a client that went away."""


@dataclass(slots=True)
class Traffic:
    """What came in: how often each call, and when the last one."""

    calls: Counter[Call] = field(default_factory=Counter[Call])
    last_at: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, call: Call) -> None:
        """Counts a call."""
        with self.lock:
            self.calls[call] += 1
            self.last_at = time.monotonic()

    def clear(self) -> None:
        """Starts counting anew."""
        with self.lock:
            self.calls.clear()


class Front:
    """The WSGI application of one emulated cloud."""

    def __init__(self, emulator: Emulator, world: World, faults: Faults, traffic: Traffic) -> None:
        self._emulator = emulator
        self._world = world
        self._faults = faults
        self._traffic = traffic

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answers one request."""
        request = Request(environ)
        if request.path == ECHO_PATH:
            echo = Response(self._world.dials.caller_address + "\n", mimetype="text/plain")
            return echo(environ, start_response)
        request.get_data(cache=True)
        try:
            response = self._answer(request)
        except HTTPException as refusal:
            response = Response.force_type(refusal.get_response(environ), environ)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        call = self._emulator.identify(request)
        self._traffic.count(call)
        if latency := self._world.dials.pace.latency_s:
            time.sleep(latency)
        # Found out while the caller waits: once it has its answer, it may close the connection at any moment
        pid = _caller(request) if self._faults.may_kill(call) else None
        failed = self._strike(request, call, Stage.RECEIVED, pid)
        if failed is not None:
            return failed
        response = self._emulator.answer(request, call)
        failed = self._strike(request, call, Stage.APPLIED, pid)
        response = failed or response
        response.date = self._world.clock.now()
        response.call_on_close(lambda: self._strike(request, call, Stage.ANSWERED, pid))
        return response

    def _strike(self, request: Request, call: Call, stage: Stage, pid: int | None) -> Response | None:
        for fault in self._faults.strike(call, stage):
            match fault.effect:
                case Effect.ERROR | Effect.THROTTLE:
                    return self._emulator.fail(call, fault)
                case Effect.DELAY:
                    time.sleep(fault.seconds)
                case Effect.HANG:
                    time.sleep(_HANG_S)
                case Effect.DROP:
                    _drop(request)
                case Effect.KILL:
                    if pid is None:
                        raise RuntimeError(f"cannot tell which process sent {call}, to kill it")
                    os.kill(pid, signal.SIGKILL)
                    _drop(request)
        return None


def _drop(request: Request) -> None:
    connection: socket.socket = request.environ["werkzeug.socket"]
    with suppress(OSError):  # the client was faster
        connection.shutdown(socket.SHUT_RDWR)
    raise _DroppedError


def _caller(request: Request) -> int | None:
    return peer_pid(int(request.environ["REMOTE_PORT"]), int(request.environ["SERVER_PORT"]))

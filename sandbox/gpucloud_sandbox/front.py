"""The layer before every emulated cloud: latency, faults, counters, the echo of the caller's address."""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import signal
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request, Response

from gpucloud_sandbox.emulator import Emulator, World
from gpucloud_sandbox.faults import Call, Effect, Fault, Faults, Stage
from gpucloud_sandbox.market import reference_rates
from gpucloud_sandbox.peer import peer_pid
from gpucloud_sandbox.review import examining

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

ECHO_PATH = "/caller-address"
RATES_PATH = "/eurofxref-daily.xml"
MOST_RECEIVED = 10_000
"""How many of the newest calls are kept one by one."""
_HANG_S = 3600.0
_ELSEWHERE = "https://elsewhere.invalid/"
_NONSENSE = {"application/json": b'{"nonsense": [null, {"id": 7}], "value": "none"}'}
_ALTERS = frozenset(
    {
        Effect.TRUNCATE,
        Effect.GARBLE,
        Effect.REDIRECT,
        Effect.EMPTY,
        Effect.TRICKLE,
        Effect.DRIP,
        Effect.PAGES,
        Effect.BOMB,
    }
)
_BOMB_BYTES = 64 * 1024 * 1024
_PIECES = 10
_DRIP_S = 0.2
_LAST_TAG = re.compile(rb"</[^>]*>\s*\Z")
_ITEMS = re.compile(rb"<item>.*</item>", re.DOTALL)


class _UndoneError(Exception):
    """Undoes the effects of a call."""


class _DroppedError(ConnectionError):
    """The connection was closed on purpose; the server sees a client that went away."""


@dataclass(slots=True, kw_only=True)
class ReceivedCall:
    """One call that came in.

    Attributes:
        at: when, by the clouds' clock.
        concurrent: how many calls were under way in all clouds at that moment, this one included.
        status: the HTTP status of the answer; ``None`` while there is none, and where the connection was cut.
        milliseconds: how long the answer took; ``None`` while there is none.
    """

    call: Call
    at: datetime
    concurrent: int
    status: int | None = None
    milliseconds: float | None = None


@dataclass(slots=True)
class Traffic:
    """What came in: how often each call, the newest ones one by one, and when the last one."""

    calls: Counter[Call] = field(default_factory=Counter[Call])
    last_at: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _newest: deque[ReceivedCall] = field(default_factory=lambda: deque(maxlen=MOST_RECEIVED))
    _under_way: int = 0

    @contextmanager
    def under_way(self, call: Call, at: datetime) -> Generator[ReceivedCall]:
        """Counts a call; it is under way while the body runs, which sets its status."""
        began = time.monotonic()
        with self.lock:
            self.calls[call] += 1
            self.last_at = began
            self._under_way += 1
            received = ReceivedCall(call=call, at=at, concurrent=self._under_way)
            self._newest.append(received)
        try:
            yield received
        finally:
            with self.lock:
                self._under_way -= 1
                received.milliseconds = (time.monotonic() - began) * 1000

    def received(self) -> Sequence[ReceivedCall]:
        """The newest calls, oldest first."""
        with self.lock:
            return tuple(self._newest)

    def clear(self) -> None:
        """Resets the counters."""
        with self.lock:
            self.calls.clear()
            self._newest.clear()


class Front:
    """The WSGI application of one emulated cloud."""

    def __init__(self, emulator: Emulator, world: World, faults: Faults, traffic: Traffic) -> None:
        self._emulator = emulator
        self._world = world
        self._faults = faults
        self._traffic = traffic
        self._earlier: dict[Call, bytes] = {}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answers one request."""
        request = Request(environ)
        if request.path == ECHO_PATH:
            echo = Response(self._world.dials.caller_address + "\n", mimetype="text/plain")
            return echo(environ, start_response)
        if request.path == RATES_PATH:
            rates = Response(reference_rates(), mimetype="text/xml")
            return rates(environ, start_response)
        try:
            request.get_data(cache=True)  # a client that dies meanwhile is no fault of the server
            response = self._answer(request)
        except HTTPException as refusal:
            response = Response.force_type(refusal.get_response(environ), environ)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        call = self._emulator.identify(request)
        with self._traffic.under_way(call, self._world.clock.now()) as received:
            response = self._answer_call(request, call)
            received.status = response.status_code
        return response

    def _answer_call(self, request: Request, call: Call) -> Response:
        if latency := self._world.dials.pace.latency_s:
            time.sleep(latency)
        # Found out while the caller waits: once it has its answer, it may close the connection at any moment
        pid = _caller(request) if self._faults.may_kill(call) else None
        failed = self._strike(request, call, Stage.RECEIVED, pid)
        if failed is not None:
            failed.date = self._world.clock.now()
            return failed
        response = self._reviewed_answer(request, call)
        self._earlier[call] = response.get_data()
        failed = self._strike(request, call, Stage.APPLIED, pid)
        response = failed or response
        response.date = self._world.clock.now()
        response.call_on_close(lambda: self._strike(request, call, Stage.ANSWERED, pid))
        return response

    def _strike(self, request: Request, call: Call, stage: Stage, pid: int | None) -> Response | None:
        for fault in self._faults.strike(call, stage):
            _disturb(fault, request, call, pid)
            response = self._instead(fault, request, call)
            if response is not None:
                return response
        return None

    def _instead(self, fault: Fault, request: Request, call: Call) -> Response | None:
        """The answer that a fault puts in place of the right one, if it does."""
        match fault.effect:
            case Effect.ERROR | Effect.THROTTLE:
                return self._emulator.fail(call, fault)
            case Effect.STALE if call in self._earlier:
                return _like(self._emulator.fail(call, fault), self._earlier[call])
            case effect if effect in _ALTERS:
                return _altered(self._reviewed_answer(request, call), fault, request.url)
            case Effect.IGNORE:
                return self._undone(request, call)
            case Effect.REPEAT:
                self._reviewed_answer(request, call)
            case _:
                pass
        return None

    def _undone(self, request: Request, call: Call) -> Response:
        """The answer to a call whose effects are undone."""
        response = Response()
        with suppress(_UndoneError), self._world.database.transaction():
            response = self._reviewed_answer(request, call)
            raise _UndoneError
        return response

    def _reviewed_answer(self, request: Request, call: Call) -> Response:
        with examining(self._world.dials.review, request):
            return self._emulator.answer(request, call)


def _disturb(fault: Fault, request: Request, call: Call, pid: int | None) -> None:
    """What a fault does to the connection, or to its client."""
    match fault.effect:
        case Effect.DELAY:
            time.sleep(fault.seconds)
        case Effect.HANG:
            time.sleep(_HANG_S)
        case Effect.DROP:
            _drop(request)
        case Effect.RESET:
            _reset(request)
        case Effect.KILL:
            if pid is None:
                raise RuntimeError(f"cannot tell which process sent {call}, to kill it")
            os.kill(pid, signal.Signals[fault.signal])
            if fault.signal == "SIGKILL":
                _drop(request)
        case _:
            pass


def _like(answer: Response, body: bytes) -> Response:
    """An answer of success in this cloud's manner, with another body."""
    return Response(body, 200, content_type=answer.content_type)


def _altered(answer: Response, fault: Fault, url: str) -> Response:
    """An answer damaged in transit."""
    body, kind = answer.get_data(), answer.mimetype or ""
    match fault.effect:
        case Effect.TRUNCATE:
            return Response(body[: len(body) // 2], answer.status_code, content_type=answer.content_type)
        case Effect.GARBLE:
            return _like(answer, _NONSENSE.get(kind, b"<nonsense/>"))
        case Effect.REDIRECT:
            return Response(status=307, headers={"Location": _ELSEWHERE})
        case Effect.EMPTY:
            answer.set_data(_without_items(body, kind))
        case Effect.PAGES:
            answer.set_data(_going_on(body, kind, url))
        case Effect.TRICKLE:
            answer.response = _in_pieces(body, fault.seconds)
        case Effect.DRIP:
            answer.response = _without_end(body, fault.seconds)
            answer.headers.pop("Content-Length", None)
        case _:  # blanks after a document belong to it
            answer.set_data(gzip.compress(body + b" " * _BOMB_BYTES))
            answer.headers["Content-Encoding"] = "gzip"
    return answer


def _without_items(body: bytes, kind: str) -> bytes:
    """A document whose lists are empty: in XML they are made of elements called ``item``."""
    if kind != "application/json":
        return _ITEMS.sub(b"", body)

    def emptied(value: Any) -> Any:
        match value:
            case list():
                return []
            case dict():
                members = cast("dict[str, Any]", value)
                return {name: 0 if name == "TotalCount" else emptied(each) for name, each in members.items()}
            case _:
                return value

    return json.dumps(emptied(json.loads(body or b"null"))).encode()


def _in_pieces(body: bytes, seconds: float) -> Iterable[bytes]:
    size = max(len(body) // _PIECES, 1)
    for at in range(0, len(body), size):
        time.sleep(seconds / _PIECES)
        yield body[at : at + size]


def _without_end(body: bytes, seconds: float) -> Iterable[bytes]:
    """The beginning of a document, and then blanks for ever."""
    yield body[:1]
    while True:
        time.sleep(seconds or _DRIP_S)
        yield b" "


def _going_on(body: bytes, kind: str, url: str) -> bytes:
    """A document that names a next page, in the manner of each cloud; no two names are the same."""
    token = secrets.token_hex(8)
    if kind != "application/json":
        return _LAST_TAG.sub(rb"<nextToken>" + token.encode() + rb"</nextToken>\g<0>", body)
    document: Any = json.loads(body or b"null")
    if not isinstance(document, dict):
        return body
    members = cast("dict[str, Any]", document)
    return json.dumps({**members, "nextLink": url, "NextToken": token, "TotalCount": 10**9}).encode()


def _drop(request: Request) -> None:
    connection: socket.socket = request.environ["werkzeug.socket"]
    with suppress(OSError):  # the client was faster
        connection.shutdown(socket.SHUT_RDWR)
    raise _DroppedError


def _reset(request: Request) -> None:
    connection: socket.socket = request.environ["werkzeug.socket"]
    # With nothing to linger for, a close discards what is on its way and says so: RST in place of FIN.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(connection.detach())
    raise _DroppedError


def _caller(request: Request) -> int | None:
    return peer_pid(int(request.environ["REMOTE_PORT"]), int(request.environ["SERVER_PORT"]))

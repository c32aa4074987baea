"""A TCP proxy in front of a server: it delays, cuts and goes silent as it is told."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK = 1 << 16
SSL_REQUEST, GSS_REQUEST = (code.to_bytes(4, "big") for code in (80877103, 80877104))


class Wire:
    """Forwards connections to a port of this machine.

    Attributes:
        port: where it listens.
        round_trip_s: how long an answer takes longer than without it.
        exchanges: how many messages were sent after which a client waits for the server: the start of a
            session, a password, the end of a transaction's questions.
        silent: whether nothing is forwarded any more; nobody is told.
        on_exchange: is told the number of each exchange before it is forwarded; ``cut`` in the answer drops
            the request with its connection, ``deaf`` forwards the request and drops the connection instead
            of the answer; ``mute`` and ``unheard`` do the same, and leave the connection open and silent.
    """

    def __init__(self, target: int, *, round_trip_s: float = 0.0) -> None:
        self._target = target
        self.round_trip_s = round_trip_s
        self.exchanges = 0
        self.silent = False
        self.on_exchange: Callable[[int], str | None] = lambda _: None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listener, *self._open):
            _end(each)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _Connection(self, client, server).begin()


class _Connection:
    """One connection, which may be cut."""

    def __init__(self, wire: Wire, client: socket.socket, server: socket.socket) -> None:
        self._wire, self._client, self._server = wire, client, server
        self._signals_deferred, self._typed, self._rest = False, False, b""
        self._asks, self._answered = True, True

    def begin(self) -> None:
        for pump in (self._requests, self._answers):
            threading.Thread(target=pump, daemon=True).start()

    def _requests(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(CHUNK):
                if self._fate(data) == "cut":
                    break
                self._wait()
                if self._asks and not self._wire.silent:
                    self._server.sendall(data)
        self._cut()

    def _answers(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(CHUNK):
                if self._signals_deferred:
                    break
                self._wait()
                if self._answered and not self._wire.silent:
                    self._client.sendall(data)
        self._cut()

    def _fate(self, data: bytes) -> str | None:
        """Counts the messages after which the client waits; what is to become of the last one."""
        fate, self._rest = None, self._rest + data
        while len(self._rest) >= 5:
            head = 1 if self._typed else 0
            length = head + int.from_bytes(self._rest[head : head + 4], "big")
            if len(self._rest) < length:
                break
            message, self._rest = self._rest[:length], self._rest[length:]
            if not self._typed or message[:1] in {b"S", b"Q", b"p"}:
                self._wire.exchanges += 1
                fate = self._wire.on_exchange(self._wire.exchanges) or fate
            self._typed = self._typed or message[4:8] not in {SSL_REQUEST, GSS_REQUEST}
        self._signals_deferred = self._signals_deferred or fate == "deaf"
        self._asks = self._asks and fate != "mute"
        self._answered = self._answered and fate not in {"mute", "unheard"}
        return fate

    def _wait(self) -> None:
        if self._wire.round_trip_s:
            time.sleep(self._wire.round_trip_s / 2)

    def _cut(self) -> None:
        _end(self._client)
        _end(self._server)


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()

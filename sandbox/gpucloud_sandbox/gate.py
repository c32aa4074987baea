"""The way from ssh to an emulated instance: by its public address, through its emulated firewall.

``connect.py`` is the other end. It says ``TOKEN HOST PORT`` on one line; the gate answers ``+`` and pipes, or
``-REASON`` and closes.
"""

from __future__ import annotations

import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from gpucloud_sandbox.emulator import Emulator, World

_FIREWALL_DELAY_S = 0.3
_CHUNK = 1 << 16


class Gate(socketserver.ThreadingTCPServer):
    """The gate's server, on loopback.

    Args:
        world: the addresses and boxes.
        emulators: the clouds, which know their firewalls.
        token: the secret that a caller must send.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, world: World, emulators: Sequence[Emulator], token: str) -> None:
        super().__init__(("127.0.0.1", 0), _Visit)
        self.world = world
        self.emulators = emulators
        self.token = token

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self.server_address[1])

    def box_at(self, address: str, port: int) -> str | None:
        """The instance that a packet from the caller would reach; ``None`` if a firewall drops it."""
        box = self.world.addresses.holder(address)
        source = self.world.dials.caller_address
        if box is None or not any(emulator.admits(box, port, source) for emulator in self.emulators):
            return None
        return box


class _Visit(socketserver.StreamRequestHandler):
    """One connection to the gate."""

    def handle(self) -> None:
        """Reads where to, and connects or refuses."""
        gate = self.server
        assert isinstance(gate, Gate)  # noqa: S101  (for the type checker)
        token, _, target = self.rfile.readline(512).decode("ascii", "replace").rstrip("\n").partition(" ")
        host, _, port = target.partition(" ")
        if not (secrets.compare_digest(token, gate.token) and port.isdigit()):
            self.wfile.write(b"-not allowed\n")
            return
        box = gate.box_at(host, int(port))
        if box is None:
            time.sleep(_FIREWALL_DELAY_S)
            self.wfile.write(b"-timed out (no such address, or a firewall drops it)\n")
            return
        box_port = gate.world.boxes.ssh_port(box) if port == "22" else None
        if box_port is None:
            self.wfile.write(b"-connection refused\n")
            return
        try:
            inside = socket.create_connection(("127.0.0.1", box_port), timeout=5)
        except OSError:
            self.wfile.write(b"-connection refused\n")
            return
        inside.settimeout(None)
        self.wfile.write(b"+\n")
        _pipe_both(self.connection, inside)


def _pipe_both(outside: socket.socket, inside: socket.socket) -> None:
    for each in (outside, inside):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    inward = threading.Thread(target=_pipe, args=(outside, inside), daemon=True)
    inward.start()
    _pipe(inside, outside)
    inward.join()
    inside.close()


def _pipe(source: socket.socket, sink: socket.socket) -> None:
    try:
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)
    except OSError:  # one end is gone: so is the connection
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

"""ssh's ProxyCommand for boxes of the sandbox: ``connect.py FOLDER HOST PORT`` pipes to the sandbox's gate.

Inside a box ``connect.py --from ADDRESS HOST PORT`` pipes to any port, from an address of this machine.

A separate program with few imports: it runs before every ssh connection.
"""

import json
import os
import select
import socket
import sys

CHUNK = 1 << 16


def main() -> int:
    """Connects standard input and output to the box; returns the exit code."""
    if sys.argv[1] == "--from":
        return pipe_from(*sys.argv[2:5])
    folder, host, port = sys.argv[1:4]
    try:
        with open(os.path.join(folder, "sandbox.json"), encoding="utf-8") as stream:  # noqa: PTH118, PTH123
            gate = json.load(stream)["gate"]
        connection = socket.create_connection(("127.0.0.1", gate["port"]))
    except (OSError, KeyError, ValueError) as error:
        return refuse(host, port, f"the sandbox does not run: {error}")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(f"{gate['token']} {host} {port}\n".encode())
    reply = read_line(connection)
    if not reply.startswith(b"+"):
        return refuse(host, port, reply[1:].decode("ascii", "replace") or "closed by the sandbox")
    pipe(connection)
    return 0


def pipe_from(source: str, host: str, port: str) -> int:
    """Connects to a port from one of this machine's addresses, any for ``-``; returns the exit code."""
    own = None if source == "-" else (source, 0)
    try:
        connection = socket.create_connection((host, int(port)), source_address=own)
    except (OSError, ValueError) as error:
        return refuse(host, port, getattr(error, "strerror", None) or str(error))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    pipe(connection)
    return 0


def refuse(host: str, port: str, reason: str) -> int:
    """Says why there is no connection, in the words of ssh."""
    sys.stderr.write(f"connect to host {host} port {port}: {reason}\n")
    return 1


def read_line(connection: socket.socket) -> bytes:
    """The gate's answer. Byte by byte: what follows belongs to ssh."""
    line = b""
    while (byte := connection.recv(1)) not in (b"", b"\n"):
        line += byte
    return line


def pipe(connection: socket.socket) -> None:
    """Moves bytes both ways until the box closes."""
    sources = [0, connection.fileno()]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if connection.fileno() in ready:
            chunk = connection.recv(CHUNK)
            if not chunk:
                return
            while chunk:
                chunk = chunk[os.write(1, chunk) :]
        if 0 in ready:
            chunk = os.read(0, CHUNK)
            if chunk:
                connection.sendall(chunk)
            else:
                sources.remove(0)
                connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BrokenPipeError, ConnectionError, KeyboardInterrupt):
        sys.exit(1)

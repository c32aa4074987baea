"""``gpucloud forward``: ports of a box at this machine."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from gpucloud.cli.context import App
from gpucloud.cli.ssh import Node
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.cli.documents.nodes import ForwardDocument, PortDocument

_PORTS = re.compile(r"(\d{1,5})(?::(\d{1,5}))?", re.ASCII)


class Forwarded(NamedTuple):
    """A port on a box, and the local port that leads to it."""

    port: int
    local_port: int


def forward(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    ports: Annotated[
        list[str],
        typer.Argument(help="Port on the box, and the local one if it differs.", metavar="PORT[:LOCAL]..."),
    ],
    node: Node = 0,
) -> None:
    """Make ports of a box reachable at this machine, until Ctrl-C: gpucloud forward train 8888 6006:7007

    The programs on the box need to listen at its loopback address only; nothing is opened to the network.

    Examples:
        gpucloud forward trainer 8888
        gpucloud forward trainer 8888:9999 6006
    """
    from gpucloud.ssh.forwarding import forward as forward_ports

    pairs = [read_ports(text) for text in ports]
    for pair in pairs:
        _refuse_taken(pair.local_port)
    target = app.client.nodes.connect(name, node=node)

    def ready() -> None:
        if app.output.json:
            shown: list[PortDocument] = [
                {
                    "port": pair.port,
                    "local_port": pair.local_port,
                    "address": f"127.0.0.1:{pair.local_port}",
                    "node": node,
                }
                for pair in pairs
            ]
            answer: ForwardDocument = {"box": name, "ports": shown}
            app.output.record("forward", answer)
            return
        for pair in pairs:
            app.output.line(f"127.0.0.1:{pair.local_port} leads to port {pair.port} of {name}")
        app.output.say("End with Ctrl-C.")

    forward_ports(target, pairs, ready)


def read_ports(text: str) -> Forwarded:
    """Reads ``PORT`` or ``PORT:LOCAL``.

    Raises:
        UsageError: it is neither, or a port is not in 1 to 65535.
    """
    found = _PORTS.fullmatch(text)
    numbers = [int(each) for each in found.groups() if each] if found else []
    if not numbers or not all(1 <= number <= 65535 for number in numbers):
        raise UsageError(
            f"{text[:40]!r} is not PORT or PORT:LOCAL; allowed: 1 to 65535",
            hint="for example: gpucloud forward NAME 8888:9999",
        )
    return Forwarded(numbers[0], numbers[-1])


def _refuse_taken(port: int) -> None:
    """Refuses a local port that cannot be opened, before the box is connected to."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as ssh does
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UsageError(
                f"the local port {port} cannot be opened: {error.strerror or error}",
                hint="choose another local port: PORT:LOCAL",
            ) from error

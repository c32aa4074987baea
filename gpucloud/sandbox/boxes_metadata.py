"""The metadata service of a box, version 2 of EC2's: a token by PUT, then text by GET.

Paths and bodies: EC2 User Guide, "Instance metadata categories" and "Spot Instance interruption notices".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping

Answer = tuple[int, str]


class MetadataService:
    """Serves one box on a loopback port of its own.

    Args:
        token: what a PUT of ``/latest/api/token`` gives, and every GET must bring.
        values: gives the text of each path below ``/latest/`` as it is now.
    """

    def __init__(self, token: str, values: Callable[[], Mapping[str, str]]) -> None:
        self._token = token
        self._values = values
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listens, and gives the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Stops listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            request, *lines = head.decode("latin-1").split("\r\n")
            method, path, _ = request.split(" ", 2)
            headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
            status, body = self._answer(method, path, headers)
            data = body.encode()
            writer.write(
                f"HTTP/1.1 {status} {'OK' if status == 200 else 'No'}\r\nContent-Type: text/plain\r\n"
                f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
                + data
            )
            await writer.drain()
        except (ValueError, OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # whoever asked so gets no answer
        finally:
            writer.close()

    def _answer(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        if method == "PUT" and path == "/latest/api/token":
            known = "x-aws-ec2-metadata-token-ttl-seconds" in headers
            return (200, self._token) if known else (400, "")
        if method != "GET":
            return 405, ""
        if headers.get("x-aws-ec2-metadata-token") != self._token:
            return 401, ""
        values = self._values()
        key = path.removeprefix("/latest/").rstrip("/")
        if key in values:
            return 200, values[key]
        below = {name[len(key) + 1 :].partition("/")[0] for name in values if name.startswith(f"{key}/")}
        return (200, "\n".join(sorted(below))) if below else (404, "")


def spot_notice(time: str) -> str:
    """The body of ``spot/instance-action`` (RFC 3339 time in UTC)."""
    return json.dumps({"action": "terminate", "time": time})

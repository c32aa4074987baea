"""The metadata service of a box: one HTTP server each; its answers are the cloud's own (:data:`Answerer`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime

Answer = tuple[int, str]
"""An HTTP status and a body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The data that a metadata service can return.

    ``token`` is secret to the box, for clouds that require one in requests. ``interruption`` is when a spot
    box will be interrupted, once that is announced; ``now`` is the sandbox's time.
    """

    id: str
    hostname: str
    public_ip: str
    private_ip: str
    user_data: str
    tags: Mapping[str, str]
    spot: bool
    token: str
    interruption: datetime | None
    now: datetime


Answerer = Callable[[Facts, str, str, Mapping[str, str]], Answer]
"""A cloud's metadata service: facts, method, path with query, headers (names in lower case) to an answer."""


def silent(facts: Facts, method: str, path: str, headers: Mapping[str, str]) -> Answer:  # noqa: ARG001
    """The metadata service of a cloud that has none."""
    return 404, ""


def listed(values: Mapping[str, str], key: str) -> Answer:
    """The text of a key, or the names below it, as the clouds with a tree of keys answer."""
    key = key.rstrip("/")
    if key in values:
        return 200, values[key]
    below = {name[len(key) + 1 :].partition("/")[0] for name in values if name.startswith(f"{key}/")}
    return (200, "\n".join(sorted(below))) if below else (404, "")


class MetadataService:
    """Serves one box on a loopback port of its own.

    Args:
        answerer: makes the answers.
        facts: returns the current facts of the box.
    """

    def __init__(self, answerer: Answerer, facts: Callable[[], Facts]) -> None:
        self._answerer = answerer
        self._facts = facts
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
            facts = self._facts()
            status, body = self._answerer(facts, method, path, headers)
            data = body.encode()
            writer.write(
                f"HTTP/1.1 {status} {'OK' if status == 200 else 'No'}\r\nContent-Type: text/plain\r\n"
                f"Date: {format_datetime(facts.now, usegmt=True)}\r\n"
                f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
                + data
            )
            await writer.drain()
        except (ValueError, OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # a malformed request gets no answer
        finally:
            writer.close()

"""Answers Prometheus over HTTP on loopback: the metrics of the journal and of boxes, and where these are."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol
from urllib.parse import parse_qs

from gpucloud.errors import GpucloudError, UsageError
from gpucloud.monitor.exposition import CONTENT_TYPE
from gpucloud.monitor.targets import Targets
from gpucloud.redaction import redact

HOST = "127.0.0.1"
CLIENT_TIMEOUT_S = 10.0
Answer = tuple[int, str, str]
"""Status, type of content, text."""


class MetricsSource(Protocol):
    """What is asked for. Its functions are called from several threads at once."""

    def text(self) -> str:
        """The metrics of the journal."""
        ...

    def targets(self, address: str) -> Targets:
        """Where the metrics of boxes are."""
        ...

    def box_text(self, box: str, node: int) -> str:
        """The metrics of a node. Raises :class:`UsageError` if there is none, or :class:`GpucloudError`."""
        ...


@contextmanager
def serving(source: MetricsSource, port: int, token: str | None) -> Generator[str]:
    """Answers requests while the body runs.

    Args:
        source: what is asked for.
        port: the port on loopback; 0 for any.
        token: what a caller must send as ``Authorization: Bearer``; ``None`` for nothing.

    Yields:
        The address, host and port.

    Raises:
        UsageError: the port cannot be used.
    """
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(source, token))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot listen at {HOST}:{port}: {reason}", hint="name another --port") from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _handler(source: MetricsSource, token: str | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_TIMEOUT_S

        def do_GET(self) -> None:
            status, content_type, text = self._answer()
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (its name in the library)
            """Says nothing: Prometheus knows what failed."""

        def _answer(self) -> Answer:
            port: int = self.connection.getsockname()[1]
            address = f"{HOST}:{port}"
            # A page on the web can make a browser ask here, by a name of its own for this address.
            if self.headers.get("Host") not in {address, f"localhost:{port}"}:
                return _text(421, "this server has another name")
            given = self.headers.get("Authorization", "")
            if token is not None and not secrets.compare_digest(given.encode(), f"Bearer {token}".encode()):
                return _text(401, "the token is missing or wrong; Prometheus: authorization, type: Bearer")
            return answer(source, self.path, address)

    return Handler


def answer(source: MetricsSource, path: str, address: str) -> Answer:
    """The answer for a path with its query, of a server at that host and port."""
    try:
        return _find(source, path, address)
    except UsageError as error:
        return _text(404, error.message)
    except GpucloudError as error:
        return _text(503, redact(error.message))


def _find(source: MetricsSource, path: str, address: str) -> Answer:
    """The answer for a path. Raises :class:`GpucloudError`."""
    where, _, query = path.partition("?")
    match where.strip("/").split("/"):
        case ["metrics"]:
            return 200, CONTENT_TYPE, source.text()
        case ["sd"]:
            return 200, "application/json", json.dumps(source.targets(address))
        case ["box", box, "metrics"]:
            node = parse_qs(query).get("node", ["0"])[0]
            if not (node.isascii() and node.isdigit() and len(node) < 6):
                raise UsageError("node: a number is needed")
            return 200, CONTENT_TYPE, source.box_text(box, int(node))
        case _:
            raise UsageError("there is /metrics, /sd, and /box/ID/metrics?node=N")


def _text(status: int, text: str) -> Answer:
    return status, "text/plain; charset=utf-8", f"{text}\n"

"""HTTP/1.1 for the emulated clouds: connections are kept, and what is no proper request is refused.

werkzeug's own handler closes a connection after each answer, which no cloud does: the SDKs' pools would never
be used, and a pooled connection that dies never be met.
"""

from __future__ import annotations

import io
import re
import socket
import ssl
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

IDLE_S = 60.0
"""After how long without a request a connection is closed; load balancers of AWS use 60 seconds by default.

Source: https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html
"""
BODY_S = 20.0
"""How long the body of a request may take."""
HEADERS = "gpucloud.headers"
"""Where a request's environment has its headers as they came; WSGI has none with an underscore."""
_PIECE = 1 << 16
_LONGEST_LINE = 1 << 12
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(;.*)?\r\n")
_BODILESS = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class _MalformedError(Exception):
    """A request that is refused before it reaches a cloud; the connection is of no use afterwards."""

    def __init__(self, why: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(why)
        self.status = status


class Server(ThreadedWSGIServer):
    """A server on loopback with a thread for each connection; it ends them when it is closed.

    Args:
        app: what answers.
        port: where to listen; 0 for any port.
        tls: its certificate, where it speaks TLS.
    """

    def __init__(self, app: WSGIApplication, port: int, tls: ssl.SSLContext | None) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__("127.0.0.1", port, app, Connection)
        if tls is not None:
            # The handshake is the visitor's own thread's: a slow one keeps nobody else waiting.
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
            self.ssl_context = tls
        self.socket.listen(256)  # twenty parallel calls must not wait for a second SYN

    def server_close(self) -> None:
        """Closes the socket, and what came in by it: nobody reads an answer of what has ended."""
        super().server_close()
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Connection(WSGIRequestHandler):
    """Serves one connection: kept alive, without Nagle's delay, without a log line for each request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave together
    timeout = IDLE_S

    def setup(self) -> None:
        """Registers the connection with its server."""
        super().setup()
        cast("Server", self.server).connections.add(self.connection)

    def finish(self) -> None:
        """Removes it."""
        cast("Server", self.server).connections.discard(self.connection)
        with suppress(OSError):  # the last answer was not read
            super().finish()

    def handle_one_request(self) -> None:
        """Waits for a request and answers it; a client that sends none for a while, or closes, is done."""
        self.connection.settimeout(IDLE_S)
        try:
            begins = cast("io.BufferedReader", self.rfile).peek(1)
        except TimeoutError:
            begins = b""
        if begins:
            super().handle_one_request()
        else:
            self.close_connection = True

    def handle_expect_100(self) -> bool:
        """Asks for the body at once; it may wait for this."""
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def run_wsgi(self) -> None:
        """Answers the request whose head was read."""
        if self.request_version < "HTTP/1.1":
            self.close_connection = True
        try:
            body = self._body()
        except _MalformedError as malformed:
            self.send_error(malformed.status, explain=str(malformed))
            return
        self._begun = False
        self.environ = environ = self.make_environ()
        environ.pop("wsgi.input_terminated", None)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        environ[HEADERS] = tuple(self.headers.items())
        try:
            self._answer(environ)
        except (ConnectionError, TimeoutError, ssl.SSLEOFError):
            self.close_connection = True  # the client is gone, or a fault has closed it
        except Exception:  # a fault of ours
            self.log("error", "%s", traceback.format_exc())
            if self._begun:
                self.close_connection = True
            else:
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)

    def send_response(self, code: int, message: str | None = None) -> None:
        """Begins an answer; its date is the clouds' own, not this machine's."""
        self.send_response_only(code, message)

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002  (werkzeug's name)
        """Writes errors only."""
        if type == "error":
            sys.stderr.write(message % args + "\n")

    # --- the answer

    def _answer(self, environ: WSGIEnvironment) -> None:
        status, headers = "", list[tuple[str, str]]()

        def start_response(
            said: str, fields: list[tuple[str, str]], _error: Any = None
        ) -> Callable[[bytes], Any]:
            nonlocal status, headers
            status, headers = said, fields
            return self.wfile.write

        pieces = self.server.app(environ, start_response)
        try:
            code, _, reason = status.partition(" ")
            silent = self.command == "HEAD" or int(code) in _BODILESS
            sized = any(name.lower() == "content-length" for name, _ in headers)
            chunked = not (sized or silent or self.close_connection)
            self.close_connection = self.close_connection or not (sized or silent or chunked)
            self._begin(int(code), reason, headers, chunked=chunked)
            for piece in pieces:
                if piece and not silent:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
                    self.wfile.flush()
            if chunked:
                self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        finally:
            if hasattr(pieces, "close"):
                cast("Any", pieces).close()

    def _begin(self, code: int, reason: str, headers: list[tuple[str, str]], *, chunked: bool) -> None:
        self._begun = True
        self.send_response(code, reason)
        for name, value in headers:
            self.send_header(name, value)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    # --- the body of a request

    def _body(self) -> bytes:
        """The whole body: what is left of one would be read as the next request."""
        lengths = set(self.headers.get_all("Content-Length") or ())
        encodings = self.headers.get_all("Transfer-Encoding") or []
        self._body_ends = time.monotonic() + BODY_S
        try:
            if encodings:
                if lengths or [each.strip().lower() for each in encodings] != ["chunked"]:
                    raise _MalformedError("Transfer-Encoding must be chunked, without Content-Length")
                return self._chunks()
            if not lengths:
                return b""
            (length, *others) = lengths
            if others or not _LENGTH.fullmatch(length.strip()):
                raise _MalformedError("Content-Length is not one number")
            return self._read(int(length))
        except TimeoutError:
            raise _MalformedError("the body takes too long", HTTPStatus.REQUEST_TIMEOUT) from None
        finally:
            self.connection.settimeout(IDLE_S)

    def _chunks(self) -> bytes:
        body = b""
        while True:
            size = _CHUNK_SIZE.fullmatch(self._line())
            if size is None:
                raise _MalformedError("a chunk does not begin with its size")
            length = int(size[1], 16)
            if not length:
                break
            body += self._read(length)
            if self._read(2) != b"\r\n":
                raise _MalformedError("a chunk is longer than its size")
        while self._line() != b"\r\n":
            pass  # trailers mean nothing here
        return body

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            if len(line) > _LONGEST_LINE:
                raise _MalformedError("a line of the body is too long")
            line += self._read(1)
        return line

    def _read(self, length: int) -> bytes:
        """So many bytes of the body. Raises ``TimeoutError``."""
        pieces = list[bytes]()
        while length:
            left_s = self._body_ends - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self.connection.settimeout(left_s)
            piece = cast("io.BufferedReader", self.rfile).read1(min(length, _PIECE))
            if not piece:
                raise _MalformedError("the body ends too early")
            length -= len(piece)
            pieces.append(piece)
        return b"".join(pieces)

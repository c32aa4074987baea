"""Who gets notices in tests: real servers on loopback, for HTTP and for mail, that also misbehave."""

from __future__ import annotations

import socketserver
import ssl
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.waiting import PATIENCE_S

HANG = 0


@dataclass(frozen=True, slots=True)
class Got:
    """One request. The names of headers are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Receiver:
    """An HTTP server. ``answers`` are the next ones, by status, then 200; :data:`HANG` is none at all."""

    url: str = ""
    got: list[Got] = field(default_factory=list[Got])
    answers: list[int] = field(default_factory=list[int])
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def receiving(context: ssl.SSLContext | None = None) -> Generator[Receiver]:
    """Receives until the end of the body, over https with a context."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.got.append(Got(self.path, headers, body))
            status = receiver.answers.pop(0) if receiver.answers else 200
            if status == HANG:
                receiver.over.wait(PATIENCE_S)
                return
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{receiver.url}elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST  # noqa: N815  (http.server's names)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver.url = f"http{'s' if context else ''}://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        server.shutdown()
        server.server_close()


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for loopback that signs itself, and the context of a server that has it."""
    file, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-keyout", key, "-out", file, "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    return file, context


@dataclass(slots=True)
class Mailbox:
    """A mail server: which letters came, whether over TLS, and what was said first."""

    url: str = ""
    letters: list[str] = field(default_factory=list[str])
    encrypted: list[bool] = field(default_factory=list[bool])
    logins: list[str] = field(default_factory=list[str])
    refuse: str = ""


class _MailHandler(socketserver.StreamRequestHandler):
    box: Mailbox
    context: ssl.SSLContext | None
    encrypted = False

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            self.say("220 test")
            while line := self.rfile.readline().decode().strip():
                self.answer(line.split(" ")[0].upper(), line)

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        self.connection.close()

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())
        self.wfile.flush()

    def answer(self, verb: str, line: str) -> None:
        match verb:
            case "EHLO":
                starttls = "250-STARTTLS\r\n" if self.context and not self.encrypted else ""
                self.say(f"250-test\r\n{starttls}250 AUTH PLAIN")
            case "STARTTLS" if self.context:
                self.say("220 go")
                secure = self.context.wrap_socket(self.connection, server_side=True)
                self.connection, self.rfile, self.wfile = (
                    secure,
                    secure.makefile("rb"),
                    secure.makefile("wb"),
                )
                self.encrypted = True
            case "AUTH":
                self.box.logins.append(line)
                self.say("235 welcome")
            case "MAIL" if self.box.refuse:
                self.say(self.box.refuse)
            case "DATA":
                self.say("354 go on")
                self.take()
            case _:
                self.say("250 fine")

    def take(self) -> None:
        lines: list[str] = []
        while (text := self.rfile.readline().decode().rstrip("\r\n")) != ".":
            lines.append(text)
        self.box.letters.append("\n".join(lines))
        self.box.encrypted.append(self.encrypted)
        self.say("250 taken")


@contextmanager
def mailbox(context: ssl.SSLContext | None) -> Generator[Mailbox]:
    """Takes mail until the end of the body; with a context, by STARTTLS."""
    box = Mailbox()

    class Handler(_MailHandler):
        pass

    Handler.box, Handler.context = box, context

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    box.url = f"smtp://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield box
    finally:
        server.shutdown()
        server.server_close()

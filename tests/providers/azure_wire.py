"""A loopback server over TLS with answers written by the test, and the orders that the tests place."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from gpucloud.resources import Order, Ref, ResourceKind, Tags
from gpucloud_pricing.purchases import Purchase
from tests.providers.payload import payload_of

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
TENANT = "00000000-0000-0000-0000-000000000001"
SECRET = "canary-of-the-client-secret"


def refusal(code: str, message: str = "No.", **more: Any) -> dict[str, Any]:
    """Resource Manager's error body."""
    return {"error": {"code": code, "message": message, **more}}


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; ``hang_up`` closes the connection instead. A function makes another body each time.

    A text and bytes are sent as they are, anything else as JSON.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hang_up: bool = False


@dataclass(frozen=True)
class Sent:
    """One request that came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: str


class Wire:
    """Answers by method and end of path, the last answer again and again.

    What a test says nothing of is put at once, and is not found.
    """

    def __init__(self, certificate: Path) -> None:
        self.sent: list[Sent] = []
        self._answers: dict[tuple[str, str], list[Answer]] = {}
        wire = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                body = self.rfile.read(length).decode()
                at = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                query = dict(parse_qsl(at.query))
                wire.sent.append(Sent(self.command, unquote(at.path), query, headers, body))
                given = wire.answer_to(self.command, unquote(at.path), body)
                if given.hang_up:
                    self.close_connection = True
                    return
                content = given.body() if callable(given.body) else given.body
                payload = b"" if content is None else payload_of(content)
                self.send_response(given.status)
                usual = {"content-type": "application/json", "x-ms-request-id": "req-1"}
                for name, value in (usual | given.headers).items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815  (the base class's names)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self.say("GET", "/.well-known/openid-configuration", Answer(self._openid()))
        self.say(
            "POST",
            "/oauth2/v2.0/token",
            Answer({"token_type": "Bearer", "expires_in": 3600, "access_token": "t"}),
        )
        self.say("GET", f"/subscriptions/{SUBSCRIPTION}", Answer({"subscriptionId": SUBSCRIPTION}))

    def say(self, method: str, end_of_path: str, *answers: Answer) -> None:
        """Answers requests to paths with this end, in order."""
        self._answers[method, end_of_path] = list(answers)

    def calls(self, method: str, end_of_path: str = "") -> list[Sent]:
        """What was asked so."""
        return [sent for sent in self.sent if sent.method == method and sent.path.endswith(end_of_path)]

    def answer_to(self, method: str, path: str, body: str) -> Answer:
        """The answer to a request."""
        ends = [end for kind, end in self._answers if kind == method and path.endswith(end)]
        if not ends and method == "PUT":
            put = json.loads(body)
            properties = {**put.get("properties", {}), "provisioningState": "Succeeded"}
            return Answer({**put, "id": path, "name": path.rpartition("/")[2], "properties": properties}, 201)
        if not ends:
            return Answer(refusal("ResourceNotFound", path), 404)
        answers = self._answers[method, max(ends, key=len)]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def _openid(self) -> dict[str, Any]:
        base = f"{self.url}/{TENANT}"
        return {
            "token_endpoint": f"{base}/oauth2/v2.0/token",
            "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "issuer": f"{base}/v2.0",
        }

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def self_signed(folder: Path) -> Path:
    """A certificate for 127.0.0.1, with its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    path.chmod(0o600)
    return path


class Remembered:
    """A record that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ResourceKind, str]] = []
        self.timers: list[str] = []

    def making(self, kind: ResourceKind, name: str, /) -> None:
        self.told.append(("making", kind, name))

    def made(self, ref: Ref, /) -> None:
        self.told.append(("made", ref.kind, ref.id))

    def armed(self, timers: Sequence[str], /) -> None:
        self.timers.extend(timers)


def order(**changes: Any) -> Order:
    """One T4 in eastus; a test names only what it is about."""
    values: dict[str, Any] = {
        "key": "gpc-0123456789",
        "name": "gpucloud-blue-0a1b2c3d",
        "account": SUBSCRIPTION,
        "region": "eastus",
        "zone": "1",
        "instance_type": "Standard_NC4as_T4_v3",
        "arch": "x86_64",
        "gpu_model": "T4",
        "gpu_count": Decimal(1),
        "purchase": Purchase.ON_DEMAND,
        "nodes": 1,
        "disk_gib": 100,
        "image": "ubuntu-22.04",
        "user_data": b"#cloud-config\n",
        "allow_from": ("203.0.113.7/32",),
        "ports": (),
        "max_price_usd": Decimal(9),
        "tags": Tags(owner="u-1", box="b-1", op="o-1", run="r-1", expires="none"),
    }
    return Order(**values | changes)


def ref(kind: ResourceKind, resource_id: str, **changes: Any) -> Ref:
    """A name for one thing of this subscription."""
    values: dict[str, Any] = {
        "cloud": "azure",
        "account": SUBSCRIPTION,
        "region": "eastus",
        "kind": kind,
        "id": resource_id,
    }
    return Ref(**values | changes)

"""A loopback server with answers written by the test, and the orders that the tests place."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

from gpucloud.resources import Order, Ref, ResourceKind, Tags
from gpucloud_pricing.purchases import Purchase

ACCOUNT = "123456789012"
IDENTITY = (
    '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
    f"<Arn>arn:aws:iam::{ACCOUNT}:user/u</Arn><UserId>U</UserId><Account>{ACCOUNT}</Account>"
    "</GetCallerIdentityResult></GetCallerIdentityResponse>"
)


def refusal(code: str, message: str = "no") -> str:
    """EC2's error body."""
    return (
        f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>req-1</RequestID></Response>"
    )


def answer(operation: str, body: str = "") -> str:
    """EC2's body of a success."""
    name = f"{operation}Response"
    return f'<{name} xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>req-2</requestId>{body}</{name}>'


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; ``hang_up`` closes the connection instead. A function makes another body each time."""

    body: str | Callable[[], str]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hang_up: bool = False


class Wire:
    """Answers by action or end of path, the last answer again and again.

    What has none is answered with InvalidAction.
    """

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {"GetCallerIdentity": [Answer(IDENTITY)]}
        self.sent: dict[str, list[dict[str, str]]] = defaultdict(list)
        wire = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                body = self.rfile.read(length).decode()
                form = dict(parse_qsl(body))
                action = (
                    form.get("Action")
                    or self.headers.get("x-amz-target", "").rpartition(".")[2]
                    or self.path.rpartition("/")[2]
                )
                wire.sent[action].append(form or {"json": body})
                answers = wire.answers.get(action, [Answer(refusal("InvalidAction", action), 400)])
                given = answers.pop(0) if len(answers) > 1 else answers[0]
                if given.hang_up:
                    self.close_connection = True
                    return
                payload = (given.body() if callable(given.body) else given.body).encode()
                self.send_response(given.status)
                for name, value in given.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            do_GET = do_PUT = do_POST  # noqa: N815  (the base class's names)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def say(self, action: str, *answers: Answer | str) -> None:
        """Answers an action with these, in order; a text is a body with status 200."""
        self.answers[action] = [Answer(given) if isinstance(given, str) else given for given in answers]

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


class Remembered:
    """A record that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.timers: list[str] = []

    def making(self, kind: ResourceKind, name: str, /) -> None:
        self.told.append(("making", name))

    def made(self, ref: Ref, /) -> None:
        self.told.append(("made", ref.id))

    def armed(self, timers: Sequence[str], /) -> None:
        self.timers.extend(timers)


def order(**changes: Any) -> Order:
    """One T4 in us-east-1; a test names only what it is about."""
    values: dict[str, Any] = {
        "key": "gpc-0123456789",
        "name": "gpucloud-blue-0a1b2c3d",
        "account": ACCOUNT,
        "region": "us-east-1",
        "zone": "use1-az2",
        "instance_type": "g4dn.xlarge",
        "arch": "x86_64",
        "gpu_model": "T4",
        "gpu_count": Decimal(1),
        "purchase": Purchase.ON_DEMAND,
        "nodes": 1,
        "disk_gib": 100,
        "image": "cuda-12.4",
        "user_data": b"#cloud-config\n",
        "allow_from": ("203.0.113.7/32",),
        "ports": (),
        "max_price_usd": Decimal(9),
        "tags": Tags(owner="own-1", box="box-1", op="op-1", run="run-1", expires="2026-11-21T00:00:00Z"),
    }
    return Order(**(values | changes))


def ref(kind: ResourceKind, resource_id: str, *, account: str = ACCOUNT, region: str = "us-east-1") -> Ref:
    return Ref(cloud="aws", account=account, region=region, kind=kind, id=resource_id)

"""A loopback server with answers written by the test, and the orders that the tests place."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from gpucloud.resources import Order, Ref, ResourceKind, Tags
from gpucloud_pricing.purchases import Purchase
from tests.providers.payload import payload_of

ACCOUNT = "1234567890123456"
REQUEST_ID = "473469C7-AA6F-4DC5-B3DB-A3DC0DE3C83E"
IDENTITY = {
    "AccountId": ACCOUNT,
    "Arn": f"acs:ram::{ACCOUNT}:user/u",
    "IdentityType": "RAMUser",
    "PrincipalId": "2",
    "UserId": "2",
}


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; ``hang_up`` closes the connection instead. A function makes another body each time."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hang_up: bool = False


def refusal(
    code: str, message: str = "no", *, status: int = 400, headers: dict[str, str] | None = None
) -> Answer:
    """An error in the form of the RPC APIs."""
    body = {"RequestId": REQUEST_ID, "HostId": "ecs.aliyuncs.com", "Code": code, "Message": message}
    recommend = "https://api.aliyun.com/troubleshoot"
    return Answer({**body, "Recommend": recommend}, status, headers or {})


PROVEN = refusal("DryRunOperation", "Request validation has been passed with DryRun flag set.")
"""The answer to a dry run of somebody who may."""


def dry_run(action: str) -> str:
    """A dry run of an action, which is sent beside it and has answers of its own where they are given."""
    return f"{action} (dry run)"


class Wire:
    """Answers by action, the last answer again and again; what has none is answered with InvalidAction."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {"GetCallerIdentity": [Answer(IDENTITY)]}
        self.sent: dict[str, list[dict[str, str]]] = defaultdict(list)
        wire = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", "0")))
                action = self.headers["x-acs-action"]
                query = dict(parse_qsl(urlsplit(self.path).query))
                if query.get("DryRun") and dry_run(action) in wire.answers:
                    action = dry_run(action)
                wire.sent[action].append(query)
                answers = wire.answers.get(action, [refusal("InvalidAction.NotFound", action, status=404)])
                given = answers.pop(0) if len(answers) > 1 else answers[0]
                if given.hang_up:
                    self.close_connection = True
                    return
                body = given.body() if callable(given.body) else given.body
                payload = payload_of(body)
                self.send_response(given.status)
                for name, value in {"content-type": "application/json", **given.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def say(self, action: str, *answers: Any) -> None:
        """Answers an action with these, in order; what is no :class:`Answer` is a body with status 200."""
        self.answers[action] = [given if isinstance(given, Answer) else Answer(given) for given in answers]

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
    """One T4 in Hangzhou; a test names only what it is about."""
    values: dict[str, Any] = {
        "key": "gpc-0123456789",
        "name": "gpucloud-blue-0a1b2c3d",
        "account": ACCOUNT,
        "region": "cn-hangzhou",
        "zone": "cn-hangzhou-i",
        "instance_type": "ecs.gn6i-c4g1.xlarge",
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


def ref(kind: ResourceKind, resource_id: str, *, account: str = ACCOUNT, region: str = "cn-hangzhou") -> Ref:
    return Ref(cloud="alibaba", account=account, region=region, kind=kind, id=resource_id)

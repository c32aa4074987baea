"""The wire below the clouds: HTTP/1.1 as their front servers speak it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ConnectionClosedError

from gpucloud_sandbox import connections
from gpucloud_sandbox.alibaba import AlibabaSandbox
from gpucloud_sandbox.aws import AwsSandbox
from gpucloud_sandbox.azure import AzureSandbox
from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.emulator import Emulator, World
from gpucloud_sandbox.front import ECHO_PATH
from tests.sandbox.running import HollowBoxes, hollow_sandbox, launch
from tests.waiting import PATIENCE_S

HEAD = f"POST {ECHO_PATH} HTTP/1.1\r\nHost: sandbox\r\n"


@pytest.mark.parametrize("cloud", [AwsSandbox, AzureSandbox, AlibabaSandbox])
def test_a_connection_serves_one_request_after_another(
    tmp_path: Path, boxes: HollowBoxes, cloud: Callable[[World], Emulator]
) -> None:
    with hollow_sandbox(tmp_path, boxes, cloud) as endpoint, closing(_client_of(endpoint)) as kept:
        kept.connect()
        used = kept.sock
        for body in (b"", b"x" * 100_000, iter([b"x" * 100_000, b"y"])):
            kept.request("POST", ECHO_PATH, body, encode_chunked=not isinstance(body, bytes))
            answer = kept.getresponse()
            assert (answer.status, answer.read()) == (200, b"198.51.100.7\n")
            assert kept.sock is used


def test_the_vendors_sdk_keeps_its_connection(ec2: Any, endpoint: Endpoint) -> None:
    ec2.describe_vpcs()
    before = _established(endpoint)
    for _ in range(3):
        ec2.describe_vpcs()
    assert _established(endpoint) == before
    assert len(before) == 1


def test_a_pooled_connection_that_dies_leaves_what_was_made_and_the_token_finds_it(
    ec2: Any, group: str, endpoint: Endpoint
) -> None:
    parameters = launch(group, ClientToken="t")
    endpoint.client.fault(effect="reset", action="RunInstances", stage="received")
    with pytest.raises(ConnectionClosedError):
        ec2.run_instances(**parameters)
    assert endpoint.client.status()["billing"] == []
    ec2.describe_vpcs()  # its connection goes back to the pool
    endpoint.client.fault(effect="reset", action="RunInstances", stage="applied")
    with pytest.raises(ConnectionClosedError, match="closed before we received a valid response"):
        ec2.run_instances(**parameters)
    (billed,) = [each for each in endpoint.client.status()["billing"] if each["kind"] == "instance"]
    assert ec2.run_instances(**parameters)["Instances"][0]["InstanceId"] == billed["id"]


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        ("Content-Length: x\r\n\r\n", 400),
        ("Content-Length: -1\r\n\r\n", 400),
        ("Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("Transfer-Encoding: gzip\r\n\r\n", 400),
        ("Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        ("Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        ("Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400),
        ("Transfer-Encoding: chunked\r\n\r\n" + "1" * 10_000, 400),
        ("no colon\r\n\r\n", 200),
        ("Transfer-Encoding: chunked\r\n\r\n1;name=value\r\na\r\n0\r\nTrailer: x\r\n\r\n", 200),
    ],
)
def test_a_malformed_body_is_refused_and_its_connection_closed(
    endpoint: Endpoint, rest: str, status: int
) -> None:
    with _open(endpoint) as plain:
        plain.sendall((HEAD + rest).encode())
        answer = _answer_of(plain)
        assert answer.status == status
        assert answer.will_close == (status == 400)


def test_a_body_that_never_ends_is_not_waited_for(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BODY_S", 0.2)
    with _open(endpoint) as plain:
        plain.sendall((HEAD + "Content-Length: 10\r\n\r\nabc").encode())
        assert _answer_of(plain).status == 408


def test_a_silent_client_is_hung_up_on(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.2)
    with _open(endpoint) as plain:
        plain.sendall((HEAD + "\r\n").encode())
        assert _answer_of(plain).status == 200
        assert plain.recv(1) == b""


def test_an_old_client_gets_an_answer_that_ends_with_the_connection(endpoint: Endpoint) -> None:
    with _open(endpoint) as plain:
        plain.sendall(f"GET {ECHO_PATH} HTTP/1.0\r\n\r\n".encode())
        said = b"".join(iter(lambda: plain.recv(4096), b""))
        assert said.endswith(b"\r\n\r\n198.51.100.7\n")


def test_who_asks_first_whether_to_send_a_body_is_told_to(endpoint: Endpoint) -> None:
    with _open(endpoint) as plain:
        plain.sendall((HEAD + "Content-Length: 1\r\nExpect: 100-continue\r\n\r\n").encode())
        assert plain.recv(4096).startswith(b"HTTP/1.1 100 ")
        plain.sendall(b"a")
        assert _answer_of(plain).status == 200


@contextmanager
def _open(endpoint: Endpoint) -> Generator[socket.socket]:
    port = urlsplit(endpoint.endpoints["aws"]).port
    with socket.create_connection(("127.0.0.1", port or 0), timeout=PATIENCE_S) as plain:
        yield plain


def _answer_of(plain: socket.socket) -> HTTPResponse:
    answer = HTTPResponse(plain)
    answer.begin()
    answer.read()
    return answer


def _client_of(endpoint: Endpoint) -> HTTPConnection:
    """A client of the only cloud of a sandbox."""
    (url,) = map(urlsplit, endpoint.endpoints.values())
    if url.scheme == "http":
        return HTTPConnection("127.0.0.1", url.port, timeout=PATIENCE_S)
    trusted = ssl.create_default_context(cafile=endpoint.environ["REQUESTS_CA_BUNDLE"])
    return HTTPSConnection("127.0.0.1", url.port, timeout=PATIENCE_S, context=trusted)


def _established(endpoint: Endpoint) -> set[str]:
    """The clients' ports of the connections to the emulated AWS."""
    port = urlsplit(endpoint.endpoints["aws"]).port or 0
    with open("/proc/net/tcp", encoding="ascii") as table:  # noqa: PTH123
        rows = [line.split() for line in table.readlines()[1:]]
    return {row[1] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"}

"""Learning this machine's own address."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gpucloud.clouds.abilities import Echo
from gpucloud.errors import UsageError
from gpucloud_aws.provider import AwsProvider
from tests.profiles import own_profile
from tests.providers.abilities import able


class Says(ThreadingHTTPServer):
    """Answers every GET with what it was told to say."""

    def __init__(self) -> None:
        self.status, self.body, self.headers = 200, b"203.0.113.7\n", dict[str, str]()
        self.asked = 0
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    server: Says

    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Iterator[Says]:
    server = Says()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv("GPUCLOUD_AWS_ECHO_URL", server.url)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::7", "127.0.0.1"])
def test_the_answer_is_an_address(echo: Says, address: str) -> None:
    echo.body = f" {address}\n".encode()
    assert able(AwsProvider(own_profile()), Echo).caller_address() == address


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"203.0.113.7/0",
        b"0.0.0.0",
        b"::",
        b"224.0.0.1",
        b"203.0.113.7 " * 10_000,
        b"\xff\xfe",
    ],
)
def test_anything_else_is_refused_and_the_flag_is_named(echo: Says, body: bytes) -> None:
    echo.body = body
    with pytest.raises(UsageError) as caught:
        able(AwsProvider(own_profile()), Echo).caller_address()
    assert caught.value.hint is not None
    assert "--allow-from" in caught.value.hint


def test_a_redirect_is_not_followed(echo: Says) -> None:
    other = Says()
    thread = threading.Thread(target=other.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    echo.status, echo.headers = 302, {"location": other.url}
    with pytest.raises(UsageError, match="302"):
        able(AwsProvider(own_profile()), Echo).caller_address()
    other.shutdown()
    other.server_close()
    thread.join()
    assert (echo.asked, other.asked) == (1, 0)


def test_a_failure_of_the_echo_is_refused(echo: Says) -> None:
    echo.status = 503
    with pytest.raises(UsageError, match="503"):
        able(AwsProvider(own_profile()), Echo).caller_address()


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1/", "http://example.com/", "file:///etc/hostname", "ftp://127.0.0.1/"]
)
def test_an_echo_without_tls_elsewhere_is_not_asked(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("GPUCLOUD_AWS_ECHO_URL", url)
    with pytest.raises(UsageError, match="TLS"):
        able(AwsProvider(own_profile()), Echo).caller_address()


def test_importing_and_constructing_the_provider_loads_no_sdk_and_asks_nobody() -> None:
    program = (
        "import sys; from gpucloud.clouds.profile import Profile; "
        "from gpucloud_aws.provider import AwsProvider; AwsProvider(Profile({})); "
        "heavy = {'boto3', 'botocore', 'urllib.request', 'multiprocessing.pool'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

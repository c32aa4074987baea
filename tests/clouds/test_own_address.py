"""This machine's own address: asked of several services, since it opens a port of a box to whoever has it."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gpucloud.clouds.own_address import agreed, own_address
from gpucloud.errors import UsageError
from tests.profiles import own_profile


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


@contextmanager
def saying(*bodies: str | None) -> Generator[list[Says]]:
    """Services that say these, each its own; ``None`` for one that fails."""
    servers = [Says() for _ in bodies]
    threads = [threading.Thread(target=each.serve_forever, args=(0.01,), daemon=True) for each in servers]
    for server, body, thread in zip(servers, bodies, threads, strict=True):
        server.status, server.body = (503, b"") if body is None else (200, body.encode())
        thread.start()
    yield servers
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Iterator[Says]:
    """The user's own service."""
    with saying("203.0.113.7") as [server]:
        monkeypatch.setenv("GPUCLOUD_ECHO_URL", server.url)
        yield server


@pytest.mark.parametrize(
    ("said", "address"),
    [
        (("203.0.113.7", "203.0.113.7"), "203.0.113.7"),
        (("198.51.100.9", "203.0.113.7", "203.0.113.7"), "203.0.113.7"),
        ((None, "<html>", "203.0.113.7"), "203.0.113.7"),
    ],
    ids=["two", "two of three", "one"],
)
def test_an_address_is_what_two_services_say_or_the_only_one_that_answers(
    said: tuple[str | None, ...], address: str
) -> None:
    with saying(*said) as servers:
        assert agreed(own_profile(), [each.url for each in servers]) == address


def test_services_that_differ_are_no_answer_and_are_named() -> None:
    with (
        saying("203.0.113.7", "198.51.100.9", None) as servers,
        pytest.raises(UsageError, match="not certain") as refused,
    ):
        agreed(own_profile(), [each.url for each in servers])
    assert "203.0.113.7" in refused.value.message
    assert "198.51.100.9" in refused.value.message
    assert "--allow-from" in str(refused.value.hint)


def test_a_machine_without_ipv4_has_the_address_that_it_has() -> None:
    with saying(None, "2001:db8::7") as [ipv4, ipv6]:
        assert agreed(own_profile(), [ipv4.url], [ipv6.url]) == "2001:db8::7"


@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::7", "127.0.0.1"])
def test_the_answer_is_an_address(echo: Says, address: str) -> None:
    echo.body = f" {address}\n".encode()
    assert own_address(own_profile()) == address


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
        own_address(own_profile())
    assert caught.value.hint is not None
    assert "--allow-from" in caught.value.hint


def test_a_redirect_is_not_followed(echo: Says) -> None:
    with saying("203.0.113.8") as [other]:
        echo.status, echo.headers = 302, {"location": other.url}
        with pytest.raises(UsageError, match="302"):
            own_address(own_profile())
        assert (echo.asked, other.asked) == (1, 0)


def test_a_failure_of_the_echo_is_refused(echo: Says) -> None:
    echo.status = 503
    with pytest.raises(UsageError, match="503"):
        own_address(own_profile())


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1/", "http://example.com/", "file:///etc/hostname", "ftp://127.0.0.1/"]
)
def test_an_echo_without_tls_elsewhere_is_not_asked(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("GPUCLOUD_ECHO_URL", url)
    with pytest.raises(UsageError, match="TLS"):
        own_address(own_profile())

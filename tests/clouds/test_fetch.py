"""Which URLs are asked at all, and what a refusal leaves open."""

from __future__ import annotations

import gc
import threading
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from gpucloud.clouds.fetch import fetched, is_trusted
from gpucloud.clouds.profile import Profile


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("https://example.com/rates", True),
        (" https://example.com/rates\n", True),
        ("http://127.0.0.1:9/rates", True),
        ("http://example.com/rates", False),
        ("http://[", False),
        ("\x01https://example.com/rates", False),
        ("htt\nps://example.com/rates", False),
    ],
)
def test_a_url_is_trusted_as_it_is_written(url: str, trusted: bool) -> None:
    assert is_trusted(url) is trusted


class Refusing(BaseHTTPRequestHandler):
    """Answers with an error, whose page may be read."""

    def do_GET(self) -> None:
        self.send_response(503)
        self.end_headers()
        self.wfile.write(b"<html>Sorry</html>")

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_refusal_leaves_no_connection_open() -> None:
    """Also where the error is garbage that refers to itself, as errors with tracebacks do."""
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with pytest.raises(OSError, match="503") as caught:
                fetched(f"http://127.0.0.1:{server.server_port}/", Profile({}), most_bytes=99, timeout_s=60)
            caught.value.__context__ = RefusedError(caught.value)
            del caught
            gc.collect()
    assert [each for each in told if each.category is ResourceWarning] == []


class RefusedError(Exception):
    """Holds what it was caused by."""

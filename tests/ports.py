"""Ports for programs that must be told one: nobody else on this machine gets them by chance."""

from __future__ import annotations

import itertools
import os
import re
import socket

FIRST = 20_000
"""Below all that a system gives to who asks for any port (32768 on Linux, 49152 on macOS)."""
OF_ONE = 600
"""How many ports the tests of one process have for themselves; twenty processes have some."""

_numbers = itertools.count(os.getpid())  # another run of the tests on this machine begins elsewhere


def free_port() -> int:
    """A port that nobody uses, which only this process of the tests gives away."""
    worker = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0) % 20
    for number in itertools.islice(_numbers, OF_ONE):
        port = FIRST + worker * OF_ONE + number % OF_ONE
        with socket.socket() as probe:
            probe.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # connections that have ended are none
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("every port of these tests is used")

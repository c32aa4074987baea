"""A page of real boxes of the sandbox: one was interrupted, one is past its end, one works."""

from __future__ import annotations

import http.client
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from gpucloud import Client, Profile
from gpucloud.dashboard.access import Access
from gpucloud.dashboard.reading import PageReader
from gpucloud.dashboard.server import serving
from gpucloud_sandbox.client import Endpoint
from tests.forked import ForkServer
from tests.shell import Shell, cli, endpoint, newcomer, run
from tests.waiting import until

__all__ = ["cli", "endpoint", "run"]

LATER = timedelta(minutes=15)
"""How far the clock of the page is ahead: a box with a ttl of ten is past its end."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A shell whose boxes the page shows, and the page's client."""

    shell: Shell
    client: Client

    def reader(self) -> PageReader:
        """What reads for a page."""
        return PageReader(client=self.client, clock=lambda: datetime.now(UTC) + LATER)

    @contextmanager
    def serving(self) -> Generator[Access]:
        """A page of its own."""
        with serving(self.reader(), 0) as access:
            yield access


@pytest.fixture(scope="module")
def scene(endpoint: Endpoint, forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Three boxes and a run."""
    home = tmp_path_factory.mktemp("scene")
    with newcomer(endpoint, home, forks) as shell:
        wanted = {
            "late": ("--cloud", "aws", "--ttl", "10m"),
            "works": ("--cloud", "azure", "--ttl", "8h"),
            "taken": ("--cloud", "aws", "--spot", "--ttl", "8h"),
        }
        launches = [
            shell.start("launch", "--gpu", "T4", "--name", name, "--yes", *each)
            for name, each in wanted.items()
        ]
        assert [shell.finish(each).code for each in launches] == [0, 0, 0]
        assert shell("sandbox", "interrupt", "taken", "--notice", "0").code == 0
        until(lambda: {box["name"]: box["state"] for box in shell.boxes("--live")}["taken"] == "interrupted")
        with Client.sandbox(profile=Profile(shell.environ)) as client:
            yield Scene(shell, client)


@pytest.fixture(scope="module")
def site(scene: Scene) -> Iterator[Access]:
    """A page that is served."""
    with scene.serving() as access:
        yield access


Answer = tuple[int, dict[str, str], str]


def ask(port: int, path: str, *, method: str = "GET", first: str = "event: ", **headers: str) -> Answer:
    """An answer: its status, its headers by small names, and its body; of a stream, up to ``first``."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(
            method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        with connection.getresponse() as answer:
            found = {name.lower(): value for name, value in answer.headers.items()}
            body = b""
            if "event-stream" in found.get("content-type", ""):
                while first.encode() not in body:
                    body += answer.read1()
            else:
                body = answer.read()
            return answer.status, found, body.decode()


def token_of(url: str) -> str:
    """The secret of a printed address."""
    return url.partition("token=")[2]

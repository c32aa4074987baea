"""A sandbox, and somebody at a shell who has the real program, the real ``aws`` and the real ssh."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from gpucloud.__main__ import main
from gpucloud_sandbox.client import Endpoint, SandboxClient, ensure_started, find
from tests.documents import check_documents
from tests.forked import Forked, ForkServer
from tests.journals import URL, url_of
from tests.waiting import until

PROGRAMS = Path(sysconfig.get_path("scripts"))
TIMEOUT_S = 240


OF_GPUCLOUD = {
    "GPUCLOUD_SANDBOX": "1",
    "SSL_CERT_FILE": os.devnull,  # as in conftest.py; Libcloud, for one, refuses what is not a regular file
}
"""What the commands of ``gpucloud`` are given, and programs of others are not."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)

    @property
    def box(self) -> Any:
        """The box of ``launch`` and ``show``; a command that failed shows what it said."""
        assert self.code == 0, self.err or self.out
        return self.json["box"]

    @property
    def error(self) -> Any:
        """The error of a command that failed with ``--json``."""
        assert self.code != 0, self.out
        assert self.json["schema"] == "gpucloud.error/v1"
        return self.json["error"]


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands with a home folder and a sandbox, and nothing of whoever runs the tests."""

    home: Path
    runtime: Path
    endpoint: Endpoint
    forks: ForkServer | None = None
    """Forks the commands; without one they are started as the console script is."""

    @property
    def sandbox(self) -> SandboxClient:
        """Steers the sandbox behind the program's back."""
        return self.endpoint.client

    def __call__(self, *arguments: str, **environment: str) -> Result:
        """Runs ``gpucloud`` to its end."""
        return self.finish(self.start(*arguments, **environment))

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str] | Forked:
        """Starts ``gpucloud``."""
        given = {**OF_GPUCLOUD, **environment}
        if self.forks is None:
            return self._start("gpucloud", *arguments, **given)
        return self.forks.start(arguments, environment=self._environ(given), folder=str(self.home))

    def finish(self, process: subprocess.Popen[str] | Forked) -> Result:
        """Waits for what was started."""
        out, err = process.communicate(timeout=TIMEOUT_S)
        check_documents(out)
        return Result(process.wait(), out, err)

    def launch(self, *arguments: str) -> Any:
        """The box of a launch that succeeds."""
        return self("launch", "--yes", "--json", *arguments).box

    def boxes(self, *arguments: str) -> Any:
        """What ``list`` shows."""
        return self("list", "--json", *arguments).json["boxes"]

    def aws(self, *arguments: str) -> Any:
        """What the ``aws`` program says, pointed at the sandbox as its documentation tells."""
        ran = self.run("aws", "--output", "json", *arguments)
        assert ran.code == 0, ran.err
        return ran.json

    def ec2(self, region: str) -> Any:
        """The vendor's own client of a region of the sandbox's AWS."""
        from tests.sandbox.running import client

        return client(self.endpoint, region=region)

    def run(self, program: str | Path, *arguments: str | Path, **environment: str) -> Result:
        """Runs a program that is not gpucloud, pointed at the sandbox."""
        return self.finish(self._start(program, *arguments, **{**self.endpoint.exports({}), **environment}))

    def billed(self, kind: str = "instance") -> list[dict[str, Any]]:
        """What the ledger bills of a kind: the ground truth."""
        return [entry for entry in self.sandbox.status()["billing"] if entry["kind"] == kind]

    def changes_asked(self) -> list[str]:
        """The calls that changed something, or tried to, since the last reset."""
        return [call["action"] for call in self.sandbox.calls() if call["mutating"]]

    def _start(
        self, program: str | Path, *arguments: str | Path, **environment: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(PROGRAMS / program), *arguments],
            env=self._environ(environment),
            cwd=self.home,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a ``gpucloud`` that is started otherwise."""
        return self._environ(OF_GPUCLOUD)

    def _environ(self, given: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.home),
            "GPUCLOUD_HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.runtime),
            **({"GPUCLOUD_JOURNAL": url_of(self.home, kind="sandbox")} if URL in os.environ else {}),
            **given,
        }


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Iterator[Endpoint]:
    """A sandbox of its own for each file of tests, ended with everything in it."""
    with forked_sandbox(tmp_path_factory.mktemp("clouds") / "sandbox", forks) as started:
        yield started


@pytest.fixture(scope="module")
def endpoint_everywhere(tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Iterator[Endpoint]:
    """The same with all regions of each cloud, for what asks in each of them."""
    with forked_sandbox(tmp_path_factory.mktemp("clouds") / "sandbox", forks, everywhere=True) as started:
        yield started


@contextmanager
def forked_sandbox(folder: Path, forks: ForkServer, *, everywhere: bool = False) -> Generator[Endpoint]:
    """A sandbox in this folder without its start, ended with everything in it.

    ``everywhere``: its accounts have all regions, and not those alone that tests use.
    """
    process = forks.start_sandbox(folder, everywhere=everywhere)
    started: Endpoint = until(lambda: find(folder), "the sandbox")
    yield started
    started.client.stop(force=True)
    process.wait(TIMEOUT_S)


@contextmanager
def running_sandbox(folder: Path) -> Generator[Endpoint]:
    """A sandbox in this folder, ended with everything in it."""
    started = ensure_started(folder, transition_s=0.0)
    yield started
    started.client.stop(force=True)
    os.waitpid(started.pid, 0)


@contextmanager
def newcomer(
    endpoint: Endpoint, home: Path, forks: ForkServer | None = None, *, reset: bool = True
) -> Generator[Shell]:
    """A shell with nothing in the home folder and nothing in the clouds, which leaves nothing there.

    ``reset``: whether the clouds are emptied; they are not where several share them.
    """
    if reset:
        endpoint.client.reset()
    (home / "sandbox").symlink_to(endpoint.folder)
    with TemporaryDirectory(prefix="run-") as runtime:  # sockets live here: their paths must be short
        yield Shell(home, Path(runtime), endpoint, forks)
    if reset:
        endpoint.client.reset()


@pytest.fixture
def cli(endpoint: Endpoint, tmp_path: Path, forks: ForkServer) -> Iterator[Shell]:
    """A newcomer's shell for each test."""
    with newcomer(endpoint, tmp_path, forks) as shell:
        yield shell


@pytest.fixture
def own_clouds(tmp_path: Path, forks: ForkServer) -> Iterator[Shell]:
    """A newcomer's shell with clouds of its own, for tests that move their clock: it only goes forward."""
    home = tmp_path / "home"
    home.mkdir()
    with (
        forked_sandbox(tmp_path / "clouds" / "sandbox", forks) as started,
        newcomer(started, home, forks) as shell,
    ):
        yield shell


Run = Callable[..., tuple[int, str, str]]
"""Runs a command line in this process: its exit code, stdout and stderr."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """For commands that need nothing besides their arguments."""

    def call(*line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(line)
        out, err = capsys.readouterr()
        check_documents(out)
        return int(ended.value.code or 0), out, err

    return call

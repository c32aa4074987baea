"""What holds for every test: no network beyond this machine, no settings of the person who runs it."""

from __future__ import annotations

import functools
import gc
import ipaddress
import math
import os
import signal
import socket
import threading
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pytest
from hypothesis import settings

import tests.quick_jsonschema  # noqa: F401  (before anything else imports jsonschema)
from tests.cpu import costs
from tests.forked import ForkServer
from tests.journals import FILES, POOLER, SERVER, URL, Pooler, Postgres, a_pooler, a_server

pytest.register_assert_rewrite("tests.conformance")

if threading.current_thread() is threading.main_thread():
    # A test run that was started in the background, or with nohup, ignores these, and so would every program
    # that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("repeatable", parent=settings.get_profile("default"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

THOROUGH = Path(__file__).with_name("thorough.toml")
LEFT_OUT = "not thorough"
COSTS = Path(__file__).parents[1] / "benchmarks/tests.csv"
BUSY = 0.9
"""The share of the cores' time that tests use; for the rest, all of them wait."""
_OF_THE_USER = ("AWS_", "AZURE_", "ARM_", "ALIBABA_", "ALICLOUD_", "GPUCLOUD_", "BOTO_", "SSH_")
_FOLDERS = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
    "GPUCLOUD_HOME": "gpucloud",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the journals of the tests are."""
    parser.addoption("--journal", choices=(FILES, SERVER, POOLER), default=FILES)


@pytest.fixture(scope="session")
def team_server() -> Iterator[Postgres]:
    """A PostgreSQL server of these tests."""
    with a_server() as server:
        yield server


@pytest.fixture(scope="session")
def team_pooler(team_server: Postgres) -> Iterator[Pooler]:
    """A pgbouncer in front of it."""
    with a_pooler(team_server) as pooler:
        yield pooler


@pytest.fixture(scope="session", autouse=True)
def journals(request: pytest.FixtureRequest) -> None:
    """Puts the journals of all tests where ``--journal`` says."""
    match request.config.getoption("--journal"):
        case "postgresql":
            os.environ[URL] = request.getfixturevalue("team_server").url
        case "pgbouncer":
            os.environ[URL] = request.getfixturevalue("team_pooler").url
        case _:
            pass


def pytest_report_header(config: pytest.Config) -> str | None:
    """How long all tests take, and what they leave out."""
    if not _is_make_test(config):
        return None
    cores, files = len(os.sched_getaffinity(0)), left_out()
    run = [cpu_s for file, cpu_s in costs(COSTS).items() if files.get(file.removeprefix("tests/")) != {}]
    minutes = sum(run) / 60 / cores / BUSY
    tests = [kept for file in files.values() for kept in file.values()]
    whole, wholes = tests.count([]), sum(not file for file in files.values())
    return (
        f"about {minutes:.0f} minutes on {cores} cores. Left to make thorough: {wholes} files, {whole} tests"
        f" and cases of {len(tests) - whole} others; to suites of their own: fidelity, engines, team, chaos,"
        " torture"
    )


@functools.cache
def left_out() -> dict[str, dict[str, list[str]]]:
    """What only ``make thorough`` runs: of each file, the tests, and of each the cases that are kept."""
    files: dict[str, dict[str, list[str]]] = tomllib.loads(THOROUGH.read_text(encoding="utf-8"))
    return files


def _is_make_test(config: pytest.Config) -> bool:
    return (config.args, config.option.markexpr) == (config.getini("testpaths"), LEFT_OUT)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of which nothing is run is not even imported."""
    if not _is_make_test(config) or collection_path.suffix != ".py":
        return None
    file = collection_path.relative_to(THOROUGH.parent).as_posix()
    return True if left_out().get(file) == {} else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three processes for two cores, eight at most: what they start keeps the cores busy while they wait."""
    return min(math.ceil(1.5 * len(os.sched_getaffinity(0))), 8)


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs an account or a GPU runs only where its marker is asked for, and so does the long tail.

    A test that is named (``FILE::TEST``) is run in any case.
    """
    for item in items:
        if config.getoption("--journal") != FILES and item.get_closest_marker("files"):
            item.add_marker(pytest.mark.skip(reason="it is about the file of a journal"))
    asked: str = config.option.markexpr
    if not any("::" in name for name in config.args):
        _mark_thorough(items, whole=not config.getoption("lf", default=False))
    for marker in ("live", "gpu"):
        for item in items:
            if marker not in asked and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=f"opt-in: pytest -m {marker}"))


def _mark_thorough(items: list[pytest.Item], *, whole: bool) -> None:
    """Marks what only ``make thorough`` runs.

    Raises:
        pytest.UsageError: a case that is to be kept is none of its test. After ``--last-failed`` only those
            that failed are collected, so nobody can tell.
    """
    missing = dict[tuple[str, str], set[str]]()
    for item in items:
        file, test = str(item.path.relative_to(THOROUGH.parent)), str(getattr(item, "originalname", ""))
        tests = left_out().get(file)
        kept = [] if tests == {} else (tests or {}).get(test)
        if kept is None:
            continue
        case = item.name.removeprefix(test).removeprefix("[").removesuffix("]")
        matched = {each for each in kept if fnmatchcase(case, each)}
        if not matched:
            item.add_marker(pytest.mark.thorough)
        missing[file, test] = missing.get((file, test), set(kept)) - matched
    if whole and (gone := {place: cases for place, cases in missing.items() if cases}):
        raise pytest.UsageError(f"{THOROUGH.name} keeps cases that there are not: {gone}")


def pytest_collectstart() -> None:
    """Nothing of what is imported and collected is garbage: looking for it was a third of the collection."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was imported and collected stays: no collection of garbage looks through it again."""
    gc.freeze()
    gc.enable()


class ClosedNetworkError(RuntimeError):
    """A test tried to reach another machine."""


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.split("%", maxsplit=1)[0])
    except ValueError:
        return None


def _refuse_far(sock: socket.socket, address: Any) -> None:
    if sock.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    host = str(address[0])
    ip = _address(host)
    if not (ip.is_loopback if ip else host in {"", "localhost"}):
        raise ClosedNetworkError(f"a test tried to reach {host}:{address[1]}")


@pytest.fixture(autouse=True)
def closed_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets reach this machine only, so that no test can touch a real cloud (``live`` tests may)."""
    if request.node.get_closest_marker("live"):
        return
    connect, connect_ex, sendto = socket.socket.connect, socket.socket.connect_ex, socket.socket.sendto
    resolve = socket.getaddrinfo

    def connect_here(sock: socket.socket, address: Any) -> None:
        _refuse_far(sock, address)
        connect(sock, address)

    def connect_ex_here(sock: socket.socket, address: Any) -> int:
        _refuse_far(sock, address)
        return connect_ex(sock, address)

    def sendto_here(sock: socket.socket, data: Any, *rest: Any) -> int:
        _refuse_far(sock, rest[-1])
        return sendto(sock, data, *rest)

    def resolve_here(host: Any, *rest: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in {None, "", "localhost"} and _address(name) is None:
            raise ClosedNetworkError(f"a test tried to resolve {name}")
        return resolve(host, *rest, **options)

    monkeypatch.setattr(socket.socket, "connect", connect_here)
    monkeypatch.setattr(socket.socket, "connect_ex", connect_ex_here)
    monkeypatch.setattr(socket.socket, "sendto", sendto_here)
    monkeypatch.setattr(socket, "getaddrinfo", resolve_here)


@pytest.fixture(scope="session", autouse=True)
def service_models_read_once() -> Iterator[None]:
    """Every session of boto3 reads EC2's model anew; for many tests that would be most of their time."""
    import botocore.session

    read = botocore.session.create_loader
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", functools.cache(read))
        yield


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkServer]:
    """What forks commands, sandboxes and what dies in chaos, for all tests of a process: a start is 6 s."""
    server = ForkServer("tests.chaos.victims", "tests.chaos.crowd")
    yield server
    server.close()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the home folders are."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(scope="session", autouse=True)
def runtime() -> Iterator[None]:
    """A folder of the tests for sockets: their paths must be short."""
    with TemporaryDirectory(prefix="run-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.fixture(autouse=True)
def own_home(request: pytest.FixtureRequest, homes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own for each test, and no credentials or settings from outside (0700)."""
    home = Path(mkdtemp(dir=homes))  # pytest's numbered folders are counted anew for each further one
    if not request.node.get_closest_marker("live"):
        for name in list(os.environ):
            if name.startswith(_OF_THE_USER) or name.lower().endswith("_proxy"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(home))
        # No test meets a certificate of the world's authorities, and each client would read all of them.
        monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    for name, folder in _FOLDERS.items():
        monkeypatch.setenv(name, str(home / folder))
    return home

"""Every command against clouds that say nothing, or never come to an end: how long each may take.

Run by ``make torture``; that no command is forgotten is a test of ``make test``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from gpucloud_sandbox.client import Endpoint, ensure_started
from tests.forked import ForkServer
from tests.shell import Shell, newcomer

LOCAL_S = 20.0
"""For what asks no cloud."""
LOADED = float(os.environ.get("PATIENCE_FACTOR", "2"))
"""How much longer things take on a machine that has much else to do."""

Journal = Literal["scenes", "one look", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A command line, and how long it may take. ``box``: one named ``x`` is launched before.

    ``journal`` is what it says to a team's journal: ``scenes`` play it message by message; ``one look``,
    then it goes to a box, and those of that lab have no inside (``share`` is in
    ``tests/team/test_two_homes.py``); ``nothing``, or, as the engines' services, what ``engine-up`` says.
    """

    line: tuple[str, ...]
    limit_s: float = LOCAL_S
    box: bool = False
    journal: Journal = "scenes"


T4 = ("--gpu", "T4")
CLUSTER = "cluster: lab\nclasses: {t4: {gpu: T4, max: 2}}\n"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJsa4ZVVI86TP7In+GcERlMXN9RIwqyk0732C07mIIwR"
ROWS: Mapping[str, Row] = {
    "offers": Row(line=("offers", *T4), journal="nothing"),
    "cost": Row(line=("cost", *T4, "--hours", "2"), journal="nothing"),
    "plan": Row(line=("plan", *T4), limit_s=150, journal="nothing"),
    "images": Row(line=("images", *T4), limit_s=120, journal="nothing"),
    "equivalents": Row(line=("equivalents", "A100"), journal="nothing"),
    "prices": Row(line=("prices", "refresh"), limit_s=900, journal="nothing"),
    "commitments": Row(line=("commitments",), limit_s=900, journal="nothing"),
    "launch": Row(line=("launch", *T4, "--yes"), limit_s=180),
    "list": Row(line=("list", "--live"), limit_s=30, box=True),
    "show": Row(line=("show", "x", "--live"), limit_s=15, box=True),
    "ssh": Row(line=("ssh", "x"), box=True, journal="one look"),
    "exec": Row(line=("exec", "x", "--", "true"), box=True, journal="one look"),
    "ssh-config": Row(line=("ssh-config",), box=True),
    "hosts": Row(line=("hosts", "x"), box=True, journal="one look"),
    "share": Row(line=("share", "x", "--key", "bob.pub"), box=True, journal="one look"),
    # With a box that is there, it goes on until a signal.
    "forward": Row(line=("forward", "y", "8888"), journal="one look"),
    "sync": Row(line=("sync", "x:.gpucloud", "."), box=True, journal="one look"),
    "logs": Row(line=("logs", "x"), box=True, journal="one look"),
    "extend": Row(line=("extend", "x", "--ttl", "2h", "--yes"), limit_s=330, box=True),
    "setup": Row(line=("setup", "x"), limit_s=330, box=True),
    "stop": Row(line=("stop", "x", "--yes"), limit_s=690, box=True),
    "start": Row(line=("start", "x", "--yes"), limit_s=330, box=True),
    "move": Row(line=("move", "x", "--to", "azure", "--yes"), limit_s=330, box=True),
    "volume": Row(line=("volume", "create", "data", "--size", "10", "--near", "T4", "--yes"), limit_s=330),
    "snapshot": Row(line=("snapshot", "list")),
    "down": Row(line=("down", "x", "--yes"), limit_s=630, box=True),
    "run": Row(line=("run", *T4, "--", "true"), limit_s=180),
    "runs": Row(line=("runs", "list", "--all"), box=True),
    "tend": Row(line=("tend",), limit_s=330, box=True),
    "sweep": Row(line=("sweep", "--yes"), limit_s=300, box=True),
    "recover": Row(line=("recover",), limit_s=150),
    "spend": Row(line=("spend",), box=True),
    "dashboard": Row(line=("dashboard", "--html", "page.html"), box=True),  # a page that is served goes on
    "budget": Row(line=("budget", "list"), box=True),
    "policy": Row(line=("policy", "show"), box=True),
    "check": Row(line=("check",), limit_s=180, journal="nothing"),
    "metrics": Row(line=("metrics", "--once"), box=True),
    "notify": Row(line=("notify", "test"), journal="nothing"),
    "journal": Row(line=("journal", "verify"), box=True),
    "audit": Row(line=("audit",), box=True, journal="nothing"),
    # What waits for an engine goes on until it is told: what it is set up with asks no cloud.
    "slurm": Row(line=("slurm", "init"), journal="nothing"),
    "ray": Row(line=("ray", "init"), journal="nothing"),
    "k8s": Row(
        line=("k8s", "manifests", "cluster.yaml", "--image", "i:1", "--server", "https://192.0.2.1:6443"),
        journal="nothing",
    ),
    "sandbox": Row(line=("sandbox", "status"), journal="nothing"),
    "schema": Row(line=("schema",), journal="nothing"),
    "completion": Row(line=("completion", "bash"), journal="nothing"),
    "version": Row(line=("version",), journal="nothing"),
}
LONGEST_S = max(row.limit_s for row in ROWS.values())
PLIGHTS: Mapping[str, dict[str, Any]] = {
    "hangs": {"effect": "hang"},
    "drips": {"effect": "drip"},
    "goes-on": {"effect": "pages"},
    "nonsense": {"effect": "garble"},
}


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    """Clouds of its own for each plight: what hangs there keeps hanging."""
    started = ensure_started(tmp_path / "clouds" / "sandbox", transition_s=0.0)
    yield started
    started.client.stop(force=True)
    os.waitpid(started.pid, 0)


@pytest.mark.timeout(LOADED * LONGEST_S + 300)
@pytest.mark.parametrize("plight", PLIGHTS)
def test_every_command_ends_in_its_time_whatever_the_clouds_do(
    plight: str, endpoint: Endpoint, tmp_path: Path, forks: ForkServer
) -> None:
    """All at once: they wait more than they do."""
    with ExitStack() as stack:
        shells: dict[str, Shell] = {}
        for name, row in ROWS.items():
            home = tmp_path / name
            home.mkdir()
            (home / "cluster.yaml").write_text(CLUSTER)
            (home / "bob.pub").write_text(KEY)
            shells[name] = stack.enter_context(newcomer(endpoint, home, forks, reset=False))
            if row.box:
                launched = shells[name]("launch", *T4, "--name", "x", "--yes", GPUCLOUD_OWNER=f"u-{name}")
                assert launched.code == 0, launched.err
        endpoint.client.fault(**PLIGHTS[plight], times=None)
        began = time.monotonic()
        running = {
            name: shell.start(*ROWS[name].line, GPUCLOUD_OWNER=f"u-{name}") for name, shell in shells.items()
        }
        took_s: dict[str, float] = {}
        while len(took_s) < len(running) and time.monotonic() < began + LOADED * LONGEST_S:
            for name in running.keys() - took_s.keys():
                if running[name].poll() is not None:
                    took_s[name] = time.monotonic() - began
            time.sleep(0.2)
        for name in running.keys() - took_s.keys():
            running[name].kill()
            took_s[name] = float("inf")
        said = {name: running[name].communicate(timeout=30)[1] for name in running}
        endpoint.client.clear_faults()
    late = {
        name: (took_s[name], said[name]) for name, row in ROWS.items() if took_s[name] > LOADED * row.limit_s
    }
    unexpected = {name: words for name, words in said.items() if "unexpected:" in words}
    assert (late, unexpected) == ({}, {})

"""What a launch costs: against a bare script, in mutating calls, and with many nodes on a slow cloud."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.startup import GPUCLOUD
from benchmarks.table import Row
from gpucloud.sandbox.client import Endpoint, ensure_started

BARE = str(Path(__file__).with_name("bare_launch.py"))
RUNS = 7
NODES = 16
LATENCY_S = 0.1


@contextmanager
def sandbox() -> Generator[tuple[Endpoint, dict[str, str]]]:
    """A running sandbox without delays, and the environment of somebody who uses it."""
    with tempfile.TemporaryDirectory(prefix="gpucloud-bench-") as home:
        endpoint = ensure_started(Path(home, "sandbox"), transition_s=0.0)
        environment = {
            **os.environ,
            "GPUCLOUD_HOME": home,
            "GPUCLOUD_SANDBOX": "1",
            "GPUCLOUD_OWNER": "bench",
        }
        try:
            yield endpoint, environment
        finally:
            endpoint.stop(force=True)


def timed(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[float, str]:
    """Seconds of a whole process, and what it printed; it must succeed."""
    begin = time.perf_counter()
    done = subprocess.run(
        argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise RuntimeError(f"{argv[:3]} ended with {done.returncode}: {done.stderr}")
    return seconds, done.stdout


def launched(environment: Mapping[str, str], name: str, *more: str) -> float:
    """Seconds of a launch to ready."""
    argv = (GPUCLOUD, "launch", "--gpu", "T4", "--name", name, "--yes", *more)
    return timed(argv, environment)[0]


def main() -> list[Row]:
    """Time to ready; mutating calls; 16 nodes against 100 ms per call."""
    with sandbox() as (endpoint, environment):
        plan = json.loads(timed((GPUCLOUD, "plan", "--gpu", "T4", "--json"), environment)[1])
        first = plan["attempts"][0]
        regions = list(dict.fromkeys(attempt["region"] for attempt in plan["attempts"]))[1:]
        where = (first["region"], first["zone"], first["instance_type"], "bench", *regions)
        bare_environment = {**environment, **endpoint.environ, "SSH_PROXY": endpoint.ssh_proxy_command}
        turns = [
            (timed((sys.executable, BARE, *where), bare_environment)[0], launched(environment, f"b{turn}"))
            for turn in range(RUNS + 1)
        ][1:]
        bare, ours = (statistics.median(column) for column in zip(*turns, strict=True))
        endpoint.client.reset()
        launched(environment, "prepared")
        endpoint.client.calls(clear=True)
        launched(environment, "counted")
        calls = sum(call["count"] for call in endpoint.client.calls() if call["mutating"])
        endpoint.client.reset()
        endpoint.client.pace(latency_s=LATENCY_S)
        pairs = [
            (launched(environment, f"one{turn}"), launched(environment, f"many{turn}", "--nodes", str(NODES)))
            for turn in range(3)
        ]
        one, many = (statistics.median(column) for column in zip(*pairs, strict=True))
    return [
        Row("launch to ready, against a bare script", bare, ours, 1.5),
        Row("mutating calls: group, its rule, RunInstances", 3, calls, 1, "calls"),
        Row(f"{NODES} nodes against 1, {LATENCY_S * 1000:.0f} ms per call", one, many, 2),
    ]

"""What a launch costs: CPU against a bare script, memory and calls; and what a slow cloud costs a search."""

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

from benchmarks.startup import GPUCLOUD, Run, best, run
from benchmarks.table import Row
from gpucloud_sandbox.client import Endpoint, ensure_started

CLOUDS = ("aws", "azure", "alibaba")
RUNS = 5
LATENCY_S = 0.1
MEMORY_BUDGET_MB = 105.0
LIVE_BUDGET_S = 1.5


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


def launch_argv(cloud: str, name: str | None = None, *more: str) -> tuple[str, ...]:
    """The launch that is measured; without a name the box gets one that nobody else has."""
    named = () if name is None else ("--name", name)
    return (GPUCLOUD, "launch", "--gpu", "T4", "--cloud", cloud, *named, "--yes", *more)


def against_bare(
    cloud: str, endpoint: Endpoint, environment: Mapping[str, str], runs: int = RUNS
) -> list[Row]:
    """What a launch costs this machine against the cloud's bare script, A B A B, and its peak of memory.

    The script gives its box a name that nobody else has. So does the launch that is compared with it; one
    with ``--name`` also asks every region whether the name is taken, and has the higher peak.
    """
    argv = (GPUCLOUD, "plan", "--gpu", "T4", "--cloud", cloud, "--json")
    attempts = json.loads(timed(argv, environment)[1])["attempts"]
    offer = {**attempts[0], "regions": list(dict.fromkeys(attempt["region"] for attempt in attempts))}
    bare_environment = {
        **environment,
        **endpoint.environ,
        "SSH_PROXY": endpoint.ssh_proxy_command,
        "BARE": json.dumps(offer),
    }
    bare_argv = (sys.executable, "-m", f"benchmarks.bare.{cloud}")
    turns: list[tuple[Run, Run]] = []
    for _ in range(runs):
        turns.append((run(bare_argv, bare_environment), run(launch_argv(cloud), environment)))
        endpoint.client.reset()  # or the account's quota of networks would be full
    bare, ours = (best(column) for column in zip(*turns, strict=True))
    named = run(launch_argv(cloud, f"{cloud}-memory"), environment)
    endpoint.client.reset()
    return [
        Row(f"launch on {cloud}: the client's CPU, against a bare script's", bare.cpu_s, ours.cpu_s, 1.5),
        Row("  its peak memory, against the budget", MEMORY_BUDGET_MB, named.peak_mb, 1, "MB"),
    ]


def mutating_calls(endpoint: Endpoint, environment: Mapping[str, str]) -> Row:
    """How many calls of a launch change something."""
    timed(launch_argv("aws", "prepared"), environment)
    endpoint.client.calls(clear=True)
    timed(launch_argv("aws", "counted"), environment)
    calls = sum(call["count"] for call in endpoint.client.calls() if call["mutating"])
    endpoint.client.reset()
    return Row("mutating calls on aws: group, its rule, RunInstances", 3, calls, 1, "calls")


def live_list(endpoint: Endpoint, environment: Mapping[str, str]) -> Row:
    """How much longer a look at every region of every cloud takes when each call takes a while."""
    seconds: dict[float, float] = {}
    for latency_s in (0.0, LATENCY_S):
        endpoint.client.pace(latency_s=latency_s)
        turns = [timed((GPUCLOUD, "list", "--live"), environment)[0] for _ in range(4)][1:]
        seconds[latency_s] = statistics.median(turns)
    more = seconds[LATENCY_S] - seconds[0.0]
    what = f"list --live, all regions: seconds more with {LATENCY_S * 1000:.0f} ms per call"
    return Row(what, LIVE_BUDGET_S, more, 1)


def main() -> list[Row]:
    """Each cloud against its bare script; calls; a slow cloud."""
    with sandbox() as (endpoint, environment):
        rows = [row for cloud in CLOUDS for row in against_bare(cloud, endpoint, environment)]
        return [*rows, mutating_calls(endpoint, environment), live_list(endpoint, environment)]


def short() -> list[Row]:
    """What no other load on the machine changes much: CPU seconds, memory, calls."""
    with sandbox() as (endpoint, environment):
        rows = [row for cloud in CLOUDS for row in against_bare(cloud, endpoint, environment, runs=6)]
        return [*rows, mutating_calls(endpoint, environment)]

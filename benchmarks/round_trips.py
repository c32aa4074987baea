"""How many answers of the clouds a command waits for one after another, where each answer takes a second.

Seconds on a shared machine say little, so that round trips are counted: the longest chain of calls in the
sandbox's log in which each came after the answer to the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from benchmarks.launch import CLOUDS, launch_argv, sandbox, timed
from benchmarks.startup import GPUCLOUD
from benchmarks.table import Row
from gpucloud_sandbox.client import Endpoint

LATENCY_S = 1.0
LONG_LATENCY_S = 3.0
"""For hundreds of calls: of short ones, two cores of this machine would be what a command waits for."""
SLACK_S = LATENCY_S / 20
"""By so much an answer may overlap with the call that it led to: the log rounds, and reads two clocks."""
LAUNCH = {"aws": 6, "azure": 9, "alibaba": 9}
DOWN = {"aws": 5, "azure": 9, "alibaba": 8}
"""The look before the deletion (when a machine ended by itself, for the bill) goes beside the check of the
account. On Azure it comes after: a client is of a subscription, which must have been confirmed; goal 8."""
DOWN_OF_MANY = 6
SWEEP = 8
MANY = 8
BOXES = 6
NODES = 16
MORE_NODES = 1.0
"""What only several nodes need is asked and made beside what one needs."""


def round_trips(calls: Iterable[Mapping[str, Any]]) -> int:
    """The longest chain of calls in which each came after the answer to the one before."""
    spans: list[tuple[float, float]] = []
    for call in calls:
        came = datetime.fromisoformat(call["at"]).timestamp()
        spans.append((came + call["milliseconds"] / 1000, came))
    chain, answered = 0, 0.0
    for ended, came in sorted(spans):  # who is answered first leaves most room for those that follow
        if came >= answered - SLACK_S:
            chain, answered = chain + 1, ended
    return chain


def counted(
    endpoint: Endpoint, environment: Mapping[str, str], argv: Sequence[str], latency_s: float = LATENCY_S
) -> tuple[int, float]:
    """The round trips of a command, and its seconds, on clouds that answer after so long."""
    endpoint.client.pace(latency_s=latency_s)
    endpoint.client.calls(clear=True)
    seconds, _ = timed(argv, environment)
    endpoint.client.pace(latency_s=0.0)
    return round_trips(endpoint.client.received()), seconds


def row(what: str, budget: int, measured: tuple[int, float]) -> Row:
    """A figure and its budget."""
    trips, seconds = measured
    return Row(f"round trips of {what} ({seconds:.1f} s in all)", budget, trips, 1, "calls")


def down_argv(*names: str) -> tuple[str, ...]:
    """What takes boxes down."""
    return (GPUCLOUD, "down", *names, "--yes")


def one_box(cloud: str, endpoint: Endpoint, environment: Mapping[str, str]) -> list[Row]:
    """A launch on one cloud, and its end."""
    launched = counted(endpoint, environment, launch_argv(cloud, f"{cloud}-one"))
    ended = counted(endpoint, environment, down_argv(f"{cloud}-one"))
    return [
        row(f"a launch on {cloud}", LAUNCH[cloud], launched),
        row(f"down on {cloud}", DOWN[cloud], ended),
    ]


def many_nodes(endpoint: Endpoint, environment: Mapping[str, str]) -> list[Row]:
    """A launch of many nodes against one, and the end of several."""
    one, _ = counted(endpoint, environment, launch_argv("aws", "single"))
    many, _ = counted(endpoint, environment, launch_argv("aws", "many", "--nodes", str(NODES)))
    timed(launch_argv("aws", "several", "--nodes", str(MANY)), environment)
    ended = counted(endpoint, environment, down_argv("several"))
    return [
        Row(f"round trips of {NODES} nodes against 1 on aws", one, many, MORE_NODES, "calls"),
        row(f"down of {MANY} nodes", DOWN_OF_MANY, ended),
    ]


def all_boxes(endpoint: Endpoint, environment: Mapping[str, str]) -> list[Row]:
    """The end of all boxes, and a look at every region of three clouds."""
    for number in range(BOXES):
        timed(launch_argv("aws", f"box-{number}"), environment)
    ended = counted(endpoint, environment, down_argv("--all"))
    swept = counted(endpoint, environment, (GPUCLOUD, "sweep", "--dry-run"), LONG_LATENCY_S)
    return [
        row(f"down --all of {BOXES} boxes", DOWN_OF_MANY, ended),
        row("sweep over all regions", SWEEP, swept),
    ]


def main() -> list[Row]:
    """Every figure."""
    with sandbox() as (endpoint, environment):
        rows = [each for cloud in CLOUDS for each in one_box(cloud, endpoint, environment)]
        rows += many_nodes(endpoint, environment)
        endpoint.client.reset()
    with sandbox() as (endpoint, environment):
        return rows + all_boxes(endpoint, environment)


def short() -> list[Row]:
    """One launch on one cloud, and its end."""
    with sandbox() as (endpoint, environment):
        return one_box("aws", endpoint, environment)

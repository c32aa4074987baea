"""cluster-autoscaler's loop against ``gpucloud k8s serve``, up and down again and again, with bad luck.

``ROUNDS`` sets their number, ``SEED`` what happens in them: a seed replays a failure.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.chaos.truth import most_at_once
from tests.elastic.kubernetes import certificates as made
from tests.elastic.kubernetes.autoscaler import K3S, Autoscaler, Calls, Server, connected, serving
from tests.shell import Shell, cli, endpoint, own_clouds
from tests.waiting import until

__all__ = ["cli", "endpoint", "own_clouds"]

ROUNDS, SEED = int(os.environ.get("ROUNDS", "50")), int(os.environ.get("SEED", "1"))
MOST = 3
COMMON = ("nothing", "kill", "kill", "interruption", "slow")
UNLUCKY = {
    f"{name}-{n}": (region, error_class)
    for n in range(5)
    for name, region, error_class in (("out", "us-west-2", 1), ("bare", "us-east-2", 99))
}
"""Classes without stock or without k3s, by the error that is told. Each is for one round: it pauses then."""
LATENCY_S = 2.0


def lab() -> str:
    """A cluster: two classes for each round, and the unlucky ones."""
    lucky = "\n    clouds: aws\n    regions: us-east-1\n    purchase: spot"
    used = [f"  {name}:\n    gpu: {name}{lucky}\n    max: {MOST}{K3S}" for name in ("t4", "a10g")]
    once = [
        f"  {name}: {{gpu: T4, clouds: aws, regions: {region}, max: 2}}"
        for name, (region, _) in UNLUCKY.items()
    ]
    return "\n".join(["cluster: lab", "classes:", *used, *once, "lease: 10m\n"])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.make(tmp_path_factory.mktemp("tls") / "pem")


class Struck:
    """The calls of a client; in the middle of one, the server is killed and started again."""

    def __init__(self, calls: Calls, server: Server, luck: random.Random) -> None:
        self._calls, self._server, self._luck = calls, server, luck
        self._left: int | None = None

    def strike(self) -> None:
        """At one of the next calls."""
        self._left = self._luck.randrange(12)

    def __getattr__(self, name: str) -> Any:
        if self._left is None:
            return getattr(self._calls, name)
        self._left -= 1
        if self._left >= 0:
            return getattr(self._calls, name)
        self._left = None
        return lambda **fields: self._in_the_middle(name, fields)

    def _in_the_middle(self, name: str, fields: dict[str, Any]) -> Any:
        answer = self._calls.begun(name, **fields)
        time.sleep(self._luck.random() / 20)
        self._server.kill()
        self._server.start()
        return answer.result()


def play(cli: Shell, server: Server, certificates: Path, rounds: int) -> dict[str, float]:
    """Rounds of scale-ups and downs; each ends with the nodes that are wanted, and no other thing billed.

    Returns:
        The longest time of each call, in seconds.
    """
    luck = random.Random(SEED)  # noqa: S311  (bad luck that can be repeated)
    cli.sandbox.stock(count=0, region="us-west-2")
    faults = [*UNLUCKY][: rounds // 5]
    faults += luck.choices(COMMON, k=rounds - len(faults))
    luck.shuffle(faults)
    with connected(server.address, certificates) as calls:
        struck = Struck(calls, server, luck)
        loop = Autoscaler(struck)
        for number, fault in enumerate(faults):
            loop.wanted |= {group: luck.randrange(MOST + 1) for group in ("t4", "a10g")}
            loop.errors.clear()
            happens(fault, cli, loop, struck)
            settle(loop, f"round {number} ({fault}), wanted {loop.wanted}")
            if fault in UNLUCKY:
                told(loop, fault, UNLUCKY[fault][1])
            check(cli, loop)
            cli.sandbox.pace(latency_s=0.0)
        loop.wanted = dict.fromkeys(loop.wanted, 0)
        settle(loop, "nothing")
        until(lambda: (loop.settled(), cli.sandbox.status()["billing"])[1] == [], "nothing billed")
        assert most_at_once(cli.sandbox.ledger()) <= 2 * (2 * MOST) + 1, "what goes, and what comes"
        return calls.slowest


def happens(fault: str, cli: Shell, loop: Autoscaler, struck: Struck) -> None:
    """The bad luck of a round."""
    match fault:
        case "kill":
            struck.strike()
        case "slow":
            cli.sandbox.pace(latency_s=LATENCY_S)
        case "interruption":
            for instance in sorted(box["id"] for box in cli.billed())[:1]:
                cli.sandbox.interrupt(instance, notice_s=0)
        case "nothing":
            pass
        case _:
            loop.wanted[fault] = 1


def settle(loop: Autoscaler, what: str) -> None:
    """Loops until all is as wanted. A loop that fails is followed by the next one, as the real one does."""

    def settled() -> bool:
        with suppress(grpc.RpcError):
            return loop.settled()
        return False

    until(settled, what)


def told(loop: Autoscaler, group: str, error_class: int) -> None:
    """A group that cannot be is told as such, and given back."""
    assert {(name, number) for name, _, number, _ in loop.errors} == {(group, error_class)}
    del loop.wanted[group]
    loop.backed_off.discard(group)
    until(lambda: loop.settled() and loop.targets[group] == 0, "what was given back")


def check(cli: Shell, loop: Autoscaler) -> None:
    """The ids are those of the machines, and nothing else is billed."""

    def machines() -> list[str]:
        return sorted(box["id"] for box in cli.billed())

    up = sorted(each.rpartition("/")[2] for group in ("t4", "a10g") for each in loop.up(group))
    until(lambda: machines() == up, f"{up} to be all that is billed")


@pytest.fixture
def server(cli: Shell, certificates: Path) -> Iterator[Server]:
    (cli.home / "cluster.yaml").write_text(lab())
    with serving(cli, cli.home / "cluster.yaml", certificates) as server:
        yield server


def shown(slowest: dict[str, float]) -> Sequence[str]:
    """The longest time of each call, for who reads the report (``-rP``)."""
    return [f"{name}: {1000 * seconds:.0f} ms" for name, seconds in sorted(slowest.items())]


def test_smoke_nodes_come_and_go(cli: Shell, server: Server, certificates: Path) -> None:
    play(cli, server, certificates, 2)


@pytest.mark.timeout(3600)
def test_fifty_scale_ups_and_downs_with_faults(cli: Shell, server: Server, certificates: Path) -> None:
    for line in shown(play(cli, server, certificates, ROUNDS)):
        print(line)  # noqa: T201


@pytest.mark.timeout(600)
def test_when_the_server_is_dead_nothing_is_billed_one_lease_later(
    own_clouds: Shell, certificates: Path
) -> None:
    (own_clouds.home / "cluster.yaml").write_text(lab())
    file = own_clouds.home / "cluster.yaml"
    with (
        serving(own_clouds, file, certificates) as server,
        connected(server.address, certificates) as calls,
    ):
        settle(Autoscaler(calls, wanted={"t4": 2, "a10g": 1}), "three nodes")
    assert len(own_clouds.billed()) == 3
    own_clouds.sandbox.clock(advance_s=620)
    until(lambda: own_clouds.sandbox.status()["billing"] == [], "the leases to end")

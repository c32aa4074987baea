"""cluster-autoscaler's loop against ``gpucloud k8s serve``, up and down again and again, with bad luck.

Each round is a scale-up of one group and a scale-down of the other. ``SEED`` sets what happens in them: a
seed replays a failure. ``-rP`` shows how long the calls took.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import grpc
import pytest

from tests.chaos.truth import most_at_once
from tests.elastic.kubernetes import certificates as made
from tests.elastic.kubernetes.autoscaler import K3S, Autoscaler, Calls, Server, connected, serving
from tests.shell import Shell, cli, endpoint, own_clouds
from tests.waiting import until

__all__ = ["cli", "endpoint", "own_clouds"]

SEED = int(os.environ.get("SEED", "1"))
UNLUCKY = {
    f"{name}-{n}": (region, error_class)
    for n in range(2)
    for name, region, error_class in (("out", "us-west-2", 1), ("bare", "us-east-2", 99))
}
"""Classes without stock or without k3s, by the error that is told. Each is for one round: it pauses then."""
ROUNDS = {
    "nothing": 11,
    "second thoughts": 6,
    "kill": 20,
    "interruption": 6,
    "slow": 3,
    **dict.fromkeys(UNLUCKY, 1),
}
"""How many there are of each kind: fifty."""
MOST = 2
LATENCY_S = 1.0
"""Of each call to a cloud, in a slow round."""
STRUCK = (("Refresh", 2), ("NodeGroupNodes", 8), ("NodeGroupIncreaseSize", 1), ("NodeGroupDeleteNodes", 1))
"""A kill is in the middle of one of these calls; the first two are of a round's second loop."""


def lab() -> str:
    """A cluster: two classes for all rounds, and the unlucky ones."""
    lucky = "\n    clouds: aws\n    regions: us-east-1\n    purchase: spot"
    used = [f"  {name}:\n    gpu: {name}{lucky}\n    max: {MOST}{K3S}" for name in ("t4", "a10g")]
    once = [
        f"  {name}: {{gpu: T4, clouds: aws, regions: {region}, max_price: 0.60, max: 1}}"
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
        self._name, self.left = "", 0

    def strike(self) -> None:
        """At one of the next calls; ``left`` is 0 once it has happened."""
        self._name, self.left = self._luck.choice(STRUCK)

    def __getattr__(self, name: str) -> Any:
        if self.left and name == self._name:
            self.left -= 1
            if not self.left:
                return partial(self._in_the_middle, name)
        return getattr(self._calls, name)

    def _in_the_middle(self, name: str, **fields: Any) -> Any:
        """Takes no times: neither this call is measured, nor how long it takes to connect again."""
        answer = self._calls.begun(name, **fields)
        time.sleep(self._luck.random() / 20)
        self._server.kill()
        self._server.start()
        self._calls.begun("NodeGroups").result()
        return answer.result()


def play(
    cli: Shell, server: Server, certificates: Path, faults: Sequence[str], luck: random.Random
) -> Mapping[str, Sequence[float]]:
    """Rounds of scale-ups and downs; each ends with the nodes that are wanted, and no other machine billed.

    Returns:
        The times of each call, in seconds.
    """
    cli.sandbox.stock(count=0, region="us-west-2")
    with connected(server.address, certificates) as calls:
        struck = Struck(calls, server, luck)
        loop = Autoscaler(struck)
        up, down = "t4", "a10g"
        for number, fault in enumerate(faults):
            what = f"round {number} ({fault})"
            loop.wanted |= {up: luck.choice((1, 1, 1, MOST)), down: 0}
            loop.errors.clear()
            happens(fault, cli, loop, struck, up)
            settle(cli, loop, what)
            assert struck.left == 0, f"{what}: the server was not killed"
            if fault == "interruption":
                cli.sandbox.interrupt(cli.billed()[0]["id"], notice_s=0)
                settle(cli, loop, f"{what}, the one that was taken back")
            if fault in UNLUCKY:
                told(cli, loop, fault)
            cli.sandbox.pace(latency_s=0.0)
            up, down = down, up
        loop.wanted = dict.fromkeys(loop.wanted, 0)
        settle(cli, loop, "nothing")
        until(lambda: (loop.settled(), cli.sandbox.status()["billing"])[1] == [], "nothing billed")
        assert most_at_once(cli.sandbox.ledger()) <= 2 * MOST + 1, (
            "what goes, what comes, and one without k3s"
        )
        return calls.took


def happens(fault: str, cli: Shell, loop: Autoscaler, struck: Struck, up: str) -> None:
    """The bad luck of a round, at its beginning."""
    match fault:
        case "kill":
            struck.strike()
        case "slow":
            cli.sandbox.pace(latency_s=LATENCY_S)
        case "second thoughts":
            loop.wanted[up] = MOST
            loop.loop()
            loop.wanted[up] = 1
        case "nothing" | "interruption":
            pass
        case _:
            loop.wanted[fault] = 1


def settle(cli: Shell, loop: Autoscaler, what: str) -> None:
    """Loops until targets, states and ids are as wanted, and no other machine is billed.

    A loop that fails is followed by the next one, as the real one does.
    """

    def settled() -> bool:
        with suppress(grpc.RpcError):
            machines = {box["id"] for box in cli.billed()} if loop.settled() else None
            up = {each for group in ("t4", "a10g") for each in loop.up(group)}
            return machines == {each.rpartition("/")[2] for each in up}
        return False

    until(settled, f"{what}, wanted {loop.wanted}")


def told(cli: Shell, loop: Autoscaler, group: str) -> None:
    """A group that cannot be is told as such, and given back."""
    assert {(name, number) for name, _, number, _ in loop.errors} == {(group, UNLUCKY[group][1])}
    del loop.wanted[group]
    loop.backed_off.discard(group)
    settle(cli, loop, "what was given back")
    assert loop.targets[group] == 0


@pytest.fixture
def server(cli: Shell, certificates: Path) -> Iterator[Server]:
    (cli.home / "cluster.yaml").write_text(lab())
    with serving(cli, cli.home / "cluster.yaml", certificates) as server:
        yield server


def shown(took: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """A table of the calls: their number, and the median and the longest of their times."""
    yield f"{'call':<28}{'count':>7}{'median':>11}{'longest':>11}"
    for name, times in sorted(took.items()):
        yield f"{name:<28}{len(times):>7}{1000 * median(times):>8.0f} ms{1000 * max(times):>8.0f} ms"


def test_smoke_nodes_come_and_go(cli: Shell, server: Server, certificates: Path) -> None:
    play(cli, server, certificates, ["kill"], random.Random(SEED))  # noqa: S311


@pytest.mark.timeout(1800)
def test_fifty_scale_ups_and_downs_with_faults(cli: Shell, server: Server, certificates: Path) -> None:
    luck = random.Random(SEED)  # noqa: S311  (bad luck that can be repeated)
    faults = luck.sample([*ROUNDS], k=sum(ROUNDS.values()), counts=[*ROUNDS.values()])
    print(*shown(play(cli, server, certificates, faults, luck)), sep="\n")  # noqa: T201


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
        settle(own_clouds, Autoscaler(calls, wanted={"t4": 1, "a10g": 1}), "two nodes")
    assert len(own_clouds.billed()) == 2
    own_clouds.sandbox.clock(advance_s=620)
    until(lambda: own_clouds.sandbox.status()["billing"] == [], "the leases to end")

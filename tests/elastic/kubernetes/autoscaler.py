"""cluster-autoscaler's part, by its contract: the client of the service, and the loop that it plays.

The client is made from the messages and calls that ``externalgrpc.proto`` names, with nothing of the server.
The loop does what the real one does about node groups: what it wants more or fewer of, what it does with an
instance that has an error or is not registered in time, and that it leaves a group alone that failed.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

import grpc

from gpucloud.elastic.kubernetes import externalgrpc_pb2 as wire
from tests.forked import Forked
from tests.shell import Shell

TIMEOUT_S = 5.0
"""The default of ``grpc_timeout`` in the autoscaler's cloud-config."""
PAUSE_S = 0.5
"""Between two loops; the real one pauses for 10 s."""
CONNECT_AGAIN_MS = 100
"""Between two attempts to connect to a server that is being started again; by default it is 1 s and more."""
API, TOKEN = "https://10.0.0.5:6443", "K10ab::server:a-secret-token"
K3S = """
    setup: |
      program="$(dirname "$(command -v systemctl)")/k3s"
      cat >"$program" <<END
      #!/bin/sh
      printf '%s\\n' "\\$@" >$HOME/k3s.words
      cp "\\$3" $HOME/k3s.json
      exec sleep 3600
      END
      chmod 755 "$program"
"""
"""Of a class: its nodes have a stand-in for k3s, which keeps what it was started with."""
CREATING, RUNNING, DELETING = (
    wire.InstanceStatus.instanceCreating,
    wire.InstanceStatus.instanceRunning,
    wire.InstanceStatus.instanceDeleting,
)


class Calls:
    """The calls of the contract, each by its name: ``calls.NodeGroupNodes(id="t4")``.

    ``took`` keeps the times of each, in seconds. A ``patient`` one waits for a server that is being started
    again.
    """

    def __init__(self, channel: grpc.Channel, *, patient: bool = False) -> None:
        self._patient = patient
        self.took: defaultdict[str, list[float]] = defaultdict(list)
        self._channel = channel
        self._contract = wire.DESCRIPTOR.services_by_name["CloudProvider"]

    def __getattr__(self, name: str) -> Any:
        def ask(**fields: Any) -> Any:
            began = time.monotonic()
            try:
                return self.begun(name, **fields).result()
            finally:
                self.took[name].append(time.monotonic() - began)

        return ask

    def begun(self, name: str, **fields: Any) -> Any:
        """A call that was sent; its ``result`` is awaited by who wants it."""
        call, messages = self._contract.methods_by_name[name], vars(wire)
        send = self._channel.unary_unary(
            f"/{self._contract.full_name}/{name}",
            request_serializer=messages[call.input_type.name].SerializeToString,
            response_deserializer=messages[call.output_type.name].FromString,
        )
        return send.future(
            messages[call.input_type.name](**fields), timeout=TIMEOUT_S, wait_for_ready=self._patient
        )


@contextmanager
def connected(address: str, certificates: Path, name: str = "client") -> Generator[Calls]:
    """A client with a certificate."""
    credentials = grpc.ssl_channel_credentials(
        (certificates / "ca.crt").read_bytes(),
        (certificates / f"{name}.key").read_bytes(),
        (certificates / f"{name}.crt").read_bytes(),
    )
    pauses = [(f"grpc.{which}_reconnect_backoff_ms", CONNECT_AGAIN_MS) for which in ("initial", "max")]
    with grpc.secure_channel(address, credentials, pauses) as channel:
        yield Calls(channel, patient=name == "client")


@dataclass
class Server:
    """``gpucloud k8s serve`` as a process of its own, which can be killed and started again."""

    cli: Shell
    cluster: Path
    certificates: Path
    more: Sequence[str] = ()
    process: Popen[str] | Forked | None = None
    address: str = "127.0.0.1:0"

    def start(self) -> str:
        """Starts it; the address where it answers, which stays the same."""
        given = {"--cert": "server.crt", "--key": "server.key", "--client-ca": "ca.crt"}
        files = [word for option, name in given.items() for word in (option, str(self.certificates / name))]
        where = ("--listen", self.address, "--server", API)
        line = ("k8s", "serve", str(self.cluster), *files, *where, *self.more, "--json")
        self.process = self.cli.start(*line, GPUCLOUD_K8S_TOKEN=TOKEN)
        assert self.process.stdout is not None
        told = self.process.stdout.readline()
        assert told, self.process.communicate()[1]
        self.address = json.loads(told)["address"]
        return self.address

    def kill(self) -> None:
        """Ends it as a dead host does."""
        assert self.process is not None
        self.process.kill()
        self.process.communicate()


@contextmanager
def serving(cli: Shell, cluster: Path, certificates: Path, *more: str) -> Generator[Server]:
    """A server, ended with the block."""
    server = Server(cli, cluster, certificates, more)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@dataclass
class Autoscaler:
    """The loop. ``wanted`` is how many nodes the pods of each group need; its nodes register by themselves.

    Attributes:
        calls: the client.
        wanted: the number by group.
        targets: the last target of each group.
        instances: the instances of each group, as the last loop saw them: id, state.
        errors: the errors that were seen: group, code, class, message.
        backed_off: the groups that failed; nothing more is asked of them until they are taken out.
    """

    calls: Any
    wanted: dict[str, int] = field(default_factory=dict[str, int])
    targets: dict[str, int] = field(default_factory=dict[str, int])
    instances: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    errors: list[tuple[str, str, int, str]] = field(default_factory=list[tuple[str, str, int, str]])
    backed_off: set[str] = field(default_factory=set[str])

    def loop(self) -> None:
        """One loop over all groups."""
        self.calls.Refresh()
        for group in self.calls.NodeGroups().nodeGroups:
            self._of_group(group.id)

    def up(self, group: str) -> set[str]:
        """The ids of the nodes that run."""
        return {id for id, state in self.instances.get(group, {}).items() if state == RUNNING}

    def settled(self) -> bool:
        """Loops once, after a pause; whether every group has what is wanted, and nothing else."""
        time.sleep(PAUSE_S)
        self.loop()
        return all(
            self.targets[group] == count == len(self.up(group)) == len(self.instances[group])
            for group, count in self.wanted.items()
            if group not in self.backed_off
        )

    def _of_group(self, group: str) -> None:
        self.targets[group] = self.calls.NodeGroupTargetSize(id=group).targetSize
        found = list(self.calls.NodeGroupNodes(id=group).instances)
        self.instances[group] = {each.id: each.status.instanceState for each in found}
        failed = [each for each in found if each.status.errorInfo.errorCode]
        if failed:
            told = [each.status.errorInfo for each in failed]
            self.errors += [
                (group, each.errorCode, each.instanceErrorClass, each.errorMessage) for each in told
            ]
            self.backed_off.add(group)
            self.delete(group, [each.id for each in failed])
            return
        more = self.wanted.get(group, 0) - self.targets[group]
        if more > 0 and group not in self.backed_off:
            self.calls.NodeGroupIncreaseSize(id=group, delta=more)
        elif more < 0:
            self._shrink(group, -more)

    def _shrink(self, group: str, count: int) -> None:
        """What is idle goes by name; what is not up yet, by the target alone."""
        idle = sorted(self.up(group))[:count]
        if idle:
            self.delete(group, idle)
        coming = sum(state == CREATING for state in self.instances[group].values())
        if count > len(idle) and coming:
            self.calls.NodeGroupDecreaseTargetSize(id=group, delta=-min(count - len(idle), coming))

    def delete(self, group: str, ids: Sequence[str]) -> None:
        """Deletes nodes by their ids."""
        nodes = [wire.ExternalGrpcNode(providerID=id, name=id) for id in ids]
        self.calls.NodeGroupDeleteNodes(id=group, nodes=nodes)

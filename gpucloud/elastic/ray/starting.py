"""The commands that make a machine a node of a Ray cluster. Pure functions."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucloud.errors import UsageError

PORT = 6379
"""The port of Ray's control service (GCS)."""
PATH = 'export PATH="$HOME/.local/bin:$PATH"\n'
"""Where ``pip install --user`` puts programs; an ssh session without a terminal does not look there."""
STARTED = "Ray runtime started"
"""What ``ray start`` says once the node runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of a cluster, as nodes need to know it.

    Attributes:
        address: of its control service, ``HOST:PORT``.
        version: of its Ray.
        session: changes when the head is started anew: a node of an older session has to join again.
        token: what every call to the cluster has to carry; ``None`` without ``RAY_AUTH_MODE=token``.
    """

    address: str
    version: str
    session: str
    token: str | None = field(default=None, repr=False)

    @property
    def job(self) -> str:
        """The id of the job in which a node of this session runs."""
        return f"ray{self.session[:16]}"


def head_address(text: str) -> str:
    """Reads ``HOST[:PORT]``, where the host is a private address.

    Whoever reaches Ray's ports runs code on its nodes (CVE-2023-48022): a public address is refused.

    Raises:
        UsageError: it is not one.
    """
    host, _, port = text.partition(":")
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        raise UsageError(f"{text!r} is not the address of a Ray head", hint="such as 10.0.0.5:6379") from None
    if not address.is_private:
        raise UsageError(
            f"{host} is a public address: whoever reaches the ports of Ray runs code on its nodes",
            hint="use the private address of the head, in a network that the nodes share",
        )
    if port and not (re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536):
        raise UsageError(f"{port!r} is not a port", hint="such as 10.0.0.5:6379")
    return f"{host}:{port or PORT}"


def drain_command(head: str) -> str:
    """What a box runs before it ends: Ray gives its node no more work, and moves what it can.

    ``ray drain-node`` needs the id of the node, which is among the arguments of its raylet, in the session of
    the job; the variables of the job may hold the token.

    Args:
        head: the address of the head's control service.
    """
    return _DRAIN.format(path=PATH, head=head)


def version_in(text: str) -> str | None:
    """The version that ``ray --version`` says; ``None`` if it says none."""
    found = re.search(r"^ray, version (\S+)$", text, re.MULTILINE)
    return found and found[1]


def start_command(head: Head, resources: Mapping[str, float], ports: tuple[int, ...]) -> list[str]:
    """The command that starts Ray on a node, and ends with it.

    Args:
        head: the head.
        resources: what the node offers; what Ray counts on exactly this.
        ports: the ports that the node may be reached at; if there are none, Ray takes any.

    Raises:
        UsageError: there are too few ports.
    """
    others = {name: amount for name, amount in resources.items() if name not in _OPTIONS}
    options = [f"--{_OPTIONS[name]}={_plain(resources[name])}" for name in _OPTIONS if name in resources]
    if others:
        listed = ", ".join(f'"{name}": {_plain(amount)}' for name, amount in others.items())
        options.append(f"--resources={{{listed}}}")
    return ["ray", "start", "--block", f"--address={head.address}", *options, *port_options(ports)]


def port_options(ports: tuple[int, ...]) -> list[str]:
    """The options that make Ray use these ports alone; the last ones are for its workers.

    Raises:
        UsageError: there are too few.
    """
    if not ports:
        return []
    if len(ports) <= len(_PORTS):
        raise UsageError(
            f"{len(ports)} ports are too few: Ray needs {len(_PORTS)} on each node, and one for each worker",
            hint="name more ports in the class, or none",
        )
    own = [f"--{name}={port}" for name, port in zip(_PORTS, ports, strict=False)]
    return [*own, f"--worker-port-list={','.join(map(str, ports[len(_PORTS) :]))}"]


def start_script(head: Head, command: list[str], node: str, node_class: str) -> str:
    """The script of the job of a node: Ray knows the node by its id, and its class by its type.

    It may hold the token: it is sent over ssh, into a file that the user of the node alone can read.
    """
    told = {"RAY_CLOUD_INSTANCE_ID": node, "RAY_NODE_TYPE_NAME": node_class}
    if head.token is not None:
        told |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": head.token}
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in told.items()]
    return f"{PATH}{''.join(lines)}exec {shlex.join(command)}\n"


_DRAIN = """{path}pid="$(cat .gpucloud/jobs/ray*/pid | tail -n 1)"
while IFS= read -r -d '' each; do
  case "$each" in RAY_*) export "${{each?}}";; esac
done <"/proc/$pid/environ"
node="$(ps -s "$pid" -o args= | tr ' ' '\\n' | sed -n 's/^--node_id=//p' | head -n 1)"
exec ray drain-node --address={head} --node-id="$node" --reason=DRAIN_NODE_REASON_PREEMPTION \\
  --reason-message="$GPUCLOUD_END_REASON" --deadline-remaining-seconds="$GPUCLOUD_SECONDS_LEFT"
"""
_OPTIONS = {
    "CPU": "num-cpus",
    "GPU": "num-gpus",
    "memory": "memory",
    "object_store_memory": "object-store-memory",
}
"""The resources that have an option of their own, by Ray's names for them."""
_PORTS = (
    "node-manager-port",
    "object-manager-port",
    "runtime-env-agent-port",
    "metrics-export-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
)


def _plain(amount: float) -> str:
    return str(int(amount)) if amount == int(amount) else str(amount)

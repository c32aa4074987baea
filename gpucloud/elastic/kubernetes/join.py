"""A fresh box becomes a node: its kubelet is configured and started over the pinned ssh connection.

The token is a secret: it is sent as input, and is on the node in a file of root's alone; it is never an
argument, in user-data or in the journal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from gpucloud.bring_up.bring_up import targets
from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.kubernetes.groups import node_name, provider_id
from gpucloud.elastic.kubernetes.shapes import labels
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.records import Box
from gpucloud.redaction import redact
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import run
from gpucloud.ssh.keys import key_folder

TIMEOUT_S = 300.0
"""How long a node may take to join: kubeadm fetches the cluster's settings, and waits for kubelet."""
PORT = 6443
"""The port of Kubernetes' API, unless the address says another one."""

_K3S = """command -v k3s >/dev/null || { echo 'k3s is not on the PATH' >&2; exit 127; }
umask 077
mkdir -p /etc/gpucloud/kubernetes && cat >/etc/gpucloud/kubernetes/k3s.yaml || exit
cat >/etc/systemd/system/k3s-agent.service <<'UNIT' || exit
[Unit]
Description=Kubernetes node of gpucloud
Wants=network-online.target
After=network-online.target
[Service]
Type=exec
ExecStart=/usr/bin/env k3s agent --config /etc/gpucloud/kubernetes/k3s.yaml
KillMode=process
Delegate=yes
LimitNOFILE=1048576
LimitNPROC=infinity
TasksMax=infinity
Restart=always
RestartSec=5
[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload && systemctl enable --now k3s-agent.service
"""
"""``k3s agent`` as a service, as k3s's own installer writes it (get.k3s.io, 2026-11)."""

_KUBEADM = """command -v kubeadm >/dev/null || { echo 'kubeadm is not on the PATH' >&2; exit 127; }
umask 077
mkdir -p /etc/gpucloud/kubernetes && cat >/etc/gpucloud/kubernetes/kubeadm.yaml || exit
kubeadm join --config /etc/gpucloud/kubernetes/kubeadm.yaml
code=$?
rm -f /etc/gpucloud/kubernetes/kubeadm.yaml
exit $code
"""
"""The token of ``kubeadm join`` is of no use afterwards: kubelet has a certificate of its own."""


class Program(StrEnum):
    """What makes a machine a node."""

    K3S = "k3s"
    KUBEADM = "kubeadm"


class JoinFailedError(GpucloudError):
    """A box could not become a node. What it said is quoted without the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """How nodes find their cluster.

    Attributes:
        program: what makes a machine a node; an image, or the ``setup`` of the class, brings it.
        server: the address of Kubernetes' API, as the nodes reach it.
        ca_hash: of the cluster's certificate authority, ``sha256:…``; kubeadm needs it.

    Raises:
        UsageError: one of them cannot be right.
    """

    program: Program
    server: str
    ca_hash: str | None = None

    def __post_init__(self) -> None:
        try:
            address = urlsplit(self.server)
            usable = address.scheme == "https" and address.hostname and address.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise UsageError(
                f"{self.server[:80]!r} is not the address of Kubernetes' API",
                hint="such as https://10.0.0.5:6443",
            )
        if self.program is Program.KUBEADM and not re.fullmatch("sha256:[0-9a-f]{64}", self.ca_hash or ""):
            raise UsageError(
                "kubeadm needs the hash of the cluster's certificate authority, as sha256:HEX",
                hint="`kubeadm token create --print-join-command` on the control plane shows it",
            )

    def options(self) -> list[str]:
        """The options of ``gpucloud k8s serve`` that say this, but for the token."""
        known = {"--server": self.server, "--join": str(self.program), "--ca-hash": self.ca_hash}
        return [word for option, value in known.items() if value is not None for word in (option, value)]

    def script(self) -> str:
        """What a node runs, with its configuration as input."""
        return _K3S if self.program is Program.K3S else _KUBEADM

    def configuration(self, token: str, name: str, provider: str, named: Mapping[str, str]) -> str:
        """The configuration of a node, in JSON, which is YAML too.

        Args:
            token: the secret that lets it join.
            name: the name of the node.
            provider: its provider id, which kubelet registers as ``spec.providerID``.
            named: its labels.
        """
        if self.program is Program.K3S:
            return json.dumps(self._k3s(token, name, provider, named))
        return json.dumps(self._kubeadm(token, name, provider, named))

    def _k3s(self, token: str, name: str, provider: str, named: Mapping[str, str]) -> dict[str, Any]:
        """The options of ``k3s agent`` by their names (docs.k3s.io/installation/configuration)."""
        return {
            "server": self.server,
            "token": token,
            "node-name": name,
            "node-label": [f"{key}={value}" for key, value in named.items()],
            "kubelet-arg": [f"provider-id={provider}"],
        }

    def _kubeadm(self, token: str, name: str, provider: str, named: Mapping[str, str]) -> dict[str, Any]:
        """A ``JoinConfiguration`` (kubeadm 1.31 and later: v1beta4)."""
        address = urlsplit(self.server)
        arguments = {
            "provider-id": provider,
            "node-labels": ",".join(f"{key}={value}" for key, value in named.items()),
        }
        return {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "JoinConfiguration",
            "discovery": {
                "bootstrapToken": {
                    "apiServerEndpoint": f"{address.hostname}:{address.port or PORT}",
                    "token": token,
                    "caCertHashes": [self.ca_hash],
                }
            },
            "nodeRegistration": {
                "name": name,
                "kubeletExtraArgs": [{"name": key, "value": value} for key, value in arguments.items()],
            },
        }


@dataclass(frozen=True, slots=True)
class Joiner:
    """Makes boxes nodes. ``token`` is the secret that lets them join.

    Raises:
        UsageError: the token is empty, or has other signs than tokens have.
    """

    cluster: Cluster
    joining: Joining
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\x21-\x7e]+", self.token):
            raise UsageError("the token that lets nodes join is empty, or has spaces or other signs in it")

    def join(self, context: Context, box: Box, slots: Sequence[str]) -> None:
        """Makes the box of a slot a node of the cluster.

        Raises:
            JoinFailedError: it cannot be one.
            ConnectionFailedError: it could not be reached.
        """
        assert context.state is not None  # noqa: S101  (who buys has a state folder)
        provider = provider_id(box)
        if provider is None or box.offer is None:
            raise JoinFailedError(f"box {box.name!r} has no machine that could join")
        gpu = box.offer.gpu.model if box.offer.gpu else ""
        named = labels(self.cluster.name, self.cluster.class_of(slots[0]), gpu)
        text = self.joining.configuration(self.token, node_name(slots[0], box), provider, named)
        [target] = targets(box, key_folder(context.state, box.id), context.proxy_command)
        words = ["sudo", "bash", "-c", self.joining.script()]
        context.tell("join", f"{box.name} joins {self.joining.server}")
        call = partial(run, target, words, stdin=text.encode(), timeout_s=TIMEOUT_S, only_end=True)
        done = context.tasks.run(call, TIMEOUT_S)
        if done.code:
            said = done.err.decode(errors="replace").strip().splitlines()
            last = redact(said[-1], [self.token]) if said else "no output"
            program = f"{self.joining.program}, exit code {done.code}"
            raise JoinFailedError(
                f"{box.name} could not join {self.joining.server}: {program}: {last}",
                hint="the image or the setup of its class brings the program",
            )

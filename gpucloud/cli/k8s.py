"""``gpucloud k8s``: nodes for a Kubernetes cluster, from whichever cloud has them."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gpucloud.cli.context import App
from gpucloud.cli.token_file import read_token
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.cli.documents.engines import K8sManifestsDocument, K8sServeDocument

LISTEN = "127.0.0.1:8086"
TOKEN = "GPUCLOUD_K8S_TOKEN"  # noqa: S105  (the name of a variable)

ClusterFile = Annotated[
    Path, typer.Argument(help="File with the classes of nodes.", metavar="CLUSTER.YAML", show_default=False)
]


Server = Annotated[
    str,
    typer.Option("--server", help="Kubernetes' API, as nodes reach it: https://HOST:6443.", metavar="URL"),
]
Join = Annotated[
    str, typer.Option("--join", help="What makes a box a node: k3s or kubeadm.", metavar="PROGRAM")
]
CaHash = Annotated[
    str | None,
    typer.Option("--ca-hash", help="Hash of the cluster's authority, for kubeadm.", metavar="sha256:HEX"),
]


def serve(
    app: App,
    cluster: ClusterFile,
    cert: Annotated[Path, typer.Option("--cert", help="Certificate of this server, PEM.", metavar="FILE")],
    key: Annotated[Path, typer.Option("--key", help="Its private key, PEM.", metavar="FILE")],
    client_ca: Annotated[
        Path, typer.Option("--client-ca", help="Certificate of the clients' authority, PEM.", metavar="FILE")
    ],
    server: Server,
    join: Join = "k3s",
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", help=f"File with the token that lets nodes join (or set {TOKEN}).", metavar="FILE"
        ),
    ] = None,
    ca_hash: CaHash = None,
    listen: Annotated[
        str, typer.Option("--listen", help="Where to answer the autoscaler.", metavar="ADDRESS:PORT")
    ] = LISTEN,
) -> None:
    """Bring nodes for cluster-autoscaler (--cloud-provider=externalgrpc), until a signal.

    It answers only clients with a certificate of --client-ca. A node lives as long as the autoscaler wants
    it; when that, or this server, is dead, every node ends with its lease. A box becomes a node over ssh: its
    image, or the setup of its class, brings k3s or kubeadm.

    Examples:
        gpucloud k8s serve cluster.yaml --cert s.crt --key s.key --client-ca ca.crt --server https://10.0.0.5:6443
        gpucloud k8s serve a.yaml --cert s.crt --key s.key --client-ca ca.crt --server https://10.0.0.5:6443
    """
    from gpucloud.elastic.kubernetes.join import Joining, Program
    from gpucloud.runtime.tasks import Tasks

    try:
        from gpucloud.elastic.kubernetes.service import Certificates
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed", hint="install it: pip install 'gpucloud[kubernetes]'"
        ) from error
    program, token = _chosen("--join", join, Program), _token(app, token_file)
    joining = Joining(program=program, server=server, ca_hash=ca_hash)
    tasks = Tasks()
    certificates = Certificates(certificate=cert, key=key, client_ca=client_ca)
    groups = app.client.engines.kubernetes(cluster, joining, token)
    with tasks.listening(), groups.serving(listen, certificates) as address:
        if app.output.json:
            answer: K8sServeDocument = {"address": address}
            app.output.record("k8s-serve", answer)
        app.output.say(f"Listening at {address}. End with Ctrl-C.")
        tasks.pause(math.inf)


def manifests(
    app: App,
    cluster: ClusterFile,
    image: Annotated[
        str, typer.Option("--image", help="Image with gpucloud, by tag or digest.", metavar="IMAGE")
    ],
    server: Server,
    join: Join = "k3s",
    ca_hash: CaHash = None,
    part: Annotated[
        list[str] | None,
        typer.Option(
            "--part", help="Only this part; repeatable: autoscaler, gpu, kueue, keda, alerts.", metavar="PART"
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option("--scale", help="Deployment to scale by its GPU use (KEDA).", metavar="DEPLOYMENT"),
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", help="Where KEDA asks for GPU use.", metavar="URL")
    ] = None,
) -> None:
    """Print the YAML that lets a Kubernetes cluster use the nodes: for `kubectl apply -f -`.

    Parts: autoscaler (cluster-autoscaler with gpucloud beside it, RBAC; certificates by cert-manager), gpu
    (device plugin, DCGM exporter), kueue (a queue for each class), keda (with --scale), alerts. It holds no
    secret, and names those that are to be made.

    Examples:
        gpucloud k8s manifests cluster.yaml --image registry.lab/gpucloud:0.1.0 --server https://10.0.0.5:6443
        gpucloud k8s manifests cluster.yaml --image gpucloud:0.1.0 --server https://10.0.0.5:6443 --part kueue
    """
    from gpucloud.elastic.kubernetes.join import Joining, Program
    from gpucloud.elastic.kubernetes.manifests import ManifestPart

    joining = Joining(program=_chosen("--join", join, Program), server=server, ca_hash=ca_hash)
    text = app.client.engines.manifests(
        cluster,
        image=image,
        joining=joining,
        parts={_chosen("--part", each, ManifestPart) for each in part or ()},
        deployment=scale,
        prometheus=prometheus,
    )
    if app.output.json:
        from yaml import safe_load_all

        answer: K8sManifestsDocument = {"manifests": list(safe_load_all(text))}
        app.output.document("k8s-manifests", answer)
        return
    app.output.line(text.rstrip())


COMMANDS = {"serve": serve, "manifests": manifests}


Choice = TypeVar("Choice", bound=StrEnum)


def _chosen(option: str, word: str, choices: type[Choice]) -> Choice:
    """The choice of an option.

    Raises:
        UsageError: there is no such one.
    """
    if word in set(choices):
        return choices(word)
    raise UsageError(f"{option}: unknown {word[:40]!r}; allowed: {', '.join(choices)}")


def _token(app: App, file: Path | None) -> str:
    """The token of a file, or of the environment.

    Raises:
        UsageError: the file cannot be read, or is empty, or there is none.
    """
    if file is not None:
        return read_token(file)
    if token := app.environment.get(TOKEN, "").strip():
        return token
    raise UsageError(
        "the token that lets nodes join is missing",
        hint=f"--token-file FILE, or {TOKEN}; k3s keeps it in /var/lib/rancher/k3s/server/node-token",
    )

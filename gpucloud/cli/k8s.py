"""``gpucloud k8s``: nodes for a Kubernetes cluster, from whichever cloud has them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.cli.documents import K8sServeDocument

LISTEN = "127.0.0.1:8086"

ClusterFile = Annotated[
    Path, typer.Argument(help="File with the classes of nodes.", metavar="CLUSTER.YAML", show_default=False)
]


def serve(
    app: App,
    cluster: ClusterFile,
    cert: Annotated[Path, typer.Option("--cert", help="Certificate of this server, PEM.", metavar="FILE")],
    key: Annotated[Path, typer.Option("--key", help="Its private key, PEM.", metavar="FILE")],
    client_ca: Annotated[
        Path, typer.Option("--client-ca", help="Certificate of the clients' authority, PEM.", metavar="FILE")
    ],
    listen: Annotated[
        str, typer.Option("--listen", help="Where to answer the autoscaler.", metavar="ADDRESS:PORT")
    ] = LISTEN,
) -> None:
    """Bring nodes for cluster-autoscaler (--cloud-provider=externalgrpc), until a signal.

    It answers only clients with a certificate of --client-ca. A node lives as long as the autoscaler wants
    it; when that, or this server, is dead, every node ends with its lease.
    """
    from gpucloud.runtime.tasks import Tasks

    try:
        from gpucloud.elastic.kubernetes.service import Certificates
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed", hint="install it: pip install 'gpucloud[kubernetes]'"
        ) from error
    tasks = Tasks()
    certificates = Certificates(certificate=cert, key=key, client_ca=client_ca)
    groups = app.client.kubernetes(cluster)
    with tasks.listening(), groups.serving(listen, certificates) as address:
        if app.output.json:
            answer: K8sServeDocument = {"address": address}
            app.output.record("k8s-serve", answer)
        app.output.say(f"Listening at {address}. End with Ctrl-C.")
        tasks.pause(math.inf)


COMMANDS = {"serve": serve}

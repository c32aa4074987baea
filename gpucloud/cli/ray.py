"""``gpucloud ray``: capacity for a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App

if TYPE_CHECKING:
    from gpucloud.cli.documents.engines import RayInitDocument


def init(
    app: App,
    file: Annotated[
        Path, typer.Argument(help="The cluster: its classes, lease and idle time.", metavar="FILE")
    ] = Path("cluster.yaml"),
    head: Annotated[
        str | None,
        typer.Option(
            "--head",
            help="Private address of the head, with or without a port. The default is this machine's.",
            metavar="ADDRESS",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the configuration of Ray's autoscaler for the classes of a cluster. Asks no cloud.

    Each class is a node type. The head is a machine of yours; the other nodes are boxes that
    Ray launches and gives back. Each ends by itself unless the head still wants it.

    Examples:
        gpucloud ray init
        gpucloud ray init lab.yaml --head 10.0.0.5
    """
    from gpucloud.api.ray_init import ray_init

    found = ray_init(app.client, file, head=head, sandbox=app.sandbox)
    if app.output.json:
        answer: RayInitDocument = {
            "configuration": found.configuration,
            "head_command": found.head_command,
        }
        app.output.document("ray-init", answer)
    else:
        import yaml

        app.output.line(yaml.safe_dump(found.configuration, sort_keys=False).rstrip("\n"))
    app.output.say("Save it as ray.yaml on the machine of the head, and start the head there:")
    app.output.say(f"  {found.head_command}")
    if found.closed:
        app.output.say(
            f"Nodes of {', '.join(found.closed)} name no ports: the network must let the head and the nodes"
            " reach each other at all of them, on private addresses alone."
        )


COMMANDS = {"init": init}

"""``gpucloud hosts``: the nodes of a box in the format of another program."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.cli.documents.nodes import HostsDocument, NodeHostDocument
    from gpucloud.clusters.members import Member


class Format(StrEnum):
    """The formats, with ``json`` for the document of ``--json``."""

    HOSTFILE = "hostfile"
    TORCHRUN = "torchrun"
    ANSIBLE = "ansible"
    SSH_CONFIG = "ssh-config"
    SKY = "sky"
    DSTACK = "dstack"
    JSON = "json"


def hosts(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    form: Annotated[
        Format | None,
        typer.Option("--format", help="The format. The default is hostfile.", show_default=False),
    ] = None,
) -> None:
    """Print the nodes of a box for another program. Asks no cloud.

    \b
    hostfile    for mpirun and DeepSpeed on the nodes: private addresses, GPUs as slots
    torchrun    the beginning of its command line on each node
    ansible     an inventory, with pinned host keys
    ssh-config  for ssh and its relatives, with pinned host keys
    sky         for ~/.sky/ssh_node_pools.yaml of SkyPilot
    dstack      an SSH fleet

    Examples:
        gpucloud hosts trainer
        gpucloud hosts trainer --format ansible
    """
    if app.output.json and form not in {None, Format.JSON}:
        raise UsageError(f"--json prints a document: leave --format {form} out")
    members = app.client.nodes.hosts(name)
    if app.output.json or form is Format.JSON:
        answer: HostsDocument = {
            "box": members.box,
            "nodes": [_document(each) for each in members.nodes],
            "missing": list(members.missing),
        }
        app.output.document("hosts", answer)
    else:
        from gpucloud.clusters.formats import FORMATS

        app.output.line(FORMATS[form or Format.HOSTFILE](members).rstrip("\n"))
    for node in members.missing:
        app.output.say(f"Node {node} of {members.box} is left out: it is gone, or not reachable from here.")


def _document(member: Member) -> NodeHostDocument:
    target = member.host.target
    return {
        "node": member.node,
        "host": member.name,
        "address": target.host,
        "port": target.port,
        "user": target.user,
        "identity_file": str(target.key_file),
        "host_keys": list(member.host_keys),
        "proxy_command": target.proxy_command,
        "private_ip": member.private_ip,
        "gpus": member.gpus,
    }

"""``gpucloud ssh-config``: the boxes as hosts ``NAME.gpucloud`` for every ssh client."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.errors import UsageError
from gpucloud.ssh.hosts import Host, include, include_line, is_included

if TYPE_CHECKING:
    from gpucloud.cli.documents.nodes import HostDocument, SshConfigDocument


def ssh_config(
    app: App,
    install: Annotated[
        bool, typer.Option("--install", help="Add the Include line to ~/.ssh/config, after asking.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Print the boxes as hosts for ssh: `ssh NAME.gpucloud`, scp, rsync and editors reach them.

    The hosts are also written to a file, which launch, extend, down and the others keep up to date.
    --install makes ssh read it: one Include line at the top of ~/.ssh/config.

    Examples:
        gpucloud ssh-config
        gpucloud ssh-config --install
    """
    config = _user_config(app)
    if install and not yes and not app.output.interactive:
        raise UsageError(
            "changing ~/.ssh/config needs confirmation, and there is no terminal to ask on", hint="add --yes"
        )
    found = app.client.boxes.ssh_hosts()
    line, included = include_line(found.file), is_included(config, found.file)
    if install and not included:
        if not yes and not app.output.ask(f"Add this line at the top of {config}?\n  {line}\n"):
            raise UsageError(f"{config} was not changed")
        include(config, found.file)
        included = True
        app.output.say(f"{config} now reads the boxes from {found.file}.")
    if app.output.json:
        answer: SshConfigDocument = {
            "file": str(found.file),
            "included": included,
            "hosts": [_document(host) for host in found.hosts],
            "text": found.text,
        }
        app.output.document("ssh-config", answer)
    elif not install:
        app.output.line(found.text.rstrip("\n"))
    if not included:
        app.output.say(f"ssh does not read {found.file} yet: gpucloud ssh-config --install")
    elif install and found.hosts:
        app.output.say(f"Connect with: ssh {found.hosts[0].names[0]}")


def _user_config(app: App) -> Path:
    """The user's configuration of ssh. ssh finds it by the user's home folder, whatever ``HOME`` is."""
    home = Path(app.environment.get("HOME") or Path.home())
    own = Path(pwd.getpwuid(os.getuid()).pw_dir)
    if home != own:
        app.output.say(f"HOME is {home}, but ssh reads {own}/.ssh/config: use ssh -F {home}/.ssh/config")
    return home / ".ssh" / "config"


def _document(host: Host) -> HostDocument:
    return {
        "host": host.names[0],
        "box": host.box,
        "node": host.target.node,
        "address": host.target.host,
        "port": host.target.port,
        "user": host.target.user,
        "identity_file": str(host.target.key_file),
    }

"""``gpucloud completion``: what a shell needs to complete gpucloud's commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gpucloud.cli.context import App


class Shell(StrEnum):
    """The shells that can complete gpucloud."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    app: App, shell: Annotated[Shell, typer.Argument(help="Which shell's script.", show_choices=True)]
) -> None:
    """Print a shell's completion script.

    For bash: gpucloud completion bash >> ~/.bashrc
    """
    from typer.completion import (  # type: ignore[attr-defined]  # typer's own module for it, undeclared
        get_completion_script,  # pyright: ignore[reportPrivateImportUsage]
    )

    # The name of a shell, whose script is made here: nothing is run.
    script = get_completion_script(  # nosec B604
        prog_name="gpucloud", complete_var="_GPUCLOUD_COMPLETE", shell=shell.value
    )
    if app.output.json:
        app.output.document("completion", {"shell": shell.value, "script": script})
    else:
        app.output.line(script)

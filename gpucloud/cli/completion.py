"""``gpucloud completion``: the script with which a shell completes gpucloud's commands and options."""

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
    app: App, shell: Annotated[Shell, typer.Argument(help="Shell: bash, zsh or fish.", metavar="SHELL")]
) -> None:
    """Print a shell's completion script.

    For bash: gpucloud completion bash >> ~/.bashrc
    """
    from typer.completion import (  # type: ignore[attr-defined]  # typer does not export it
        get_completion_script,  # pyright: ignore[reportPrivateImportUsage]
    )

    # ``shell`` is a shell's name: no program is run.
    script = get_completion_script(  # nosec B604
        prog_name="gpucloud", complete_var="_GPUCLOUD_COMPLETE", shell=shell.value
    )
    if app.output.json:
        app.output.document("completion", {"shell": shell.value, "script": script})
    else:
        app.output.line(script)

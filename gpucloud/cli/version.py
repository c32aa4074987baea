"""``gpucloud version``: the version, the folders of its files, and the user's defaults."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud import __version__
from gpucloud.cli.context import App

if TYPE_CHECKING:
    from gpucloud.cli.documents.program import PathsDocument, VersionDocument


def version(
    app: App,
    paths: Annotated[
        bool,
        typer.Option("--paths", help="Only the folders, and the file of your defaults with its fields."),
    ] = False,
) -> None:
    """Show the version and the folders in use. Creates no folder.

    Your defaults for offers, plan, launch and run are a YAML file of clouds, regions, purchase, max_price,
    ttl and tags. A flag wins over a spec file, and a spec file over the defaults.

    Examples:
        gpucloud version
        gpucloud version --paths
    """
    found = {name: str(path) for name, path in asdict(app.paths).items()}
    if app.output.json:
        from gpucloud.config import DEFAULTS

        paths_in_use: PathsDocument = {
            "state": found["state"],
            "config": found["config"],
            "sandbox": found["sandbox"],
        }
        answer: VersionDocument = {
            "version": __version__,
            "python": platform.python_version(),
            "paths": paths_in_use,
            "defaults": str(app.paths.config / DEFAULTS),
        }
        app.output.document("version", answer)
        return
    if not paths:
        app.output.line(f"gpucloud {__version__} (Python {platform.python_version()})")
    for name, path in found.items():
        app.output.line(f"{name:8} {path}")
    if paths:
        app.output.line(f"defaults {_defaults_text(app)}")


def _defaults_text(app: App) -> str:
    from gpucloud.cli.context import defaults_of, fields_text

    defaults = defaults_of(app)
    if not defaults.file.exists():
        return f"{defaults.file} (does not exist)"
    return f"{defaults.file}: {fields_text(defaults.spec.document()) or 'nothing'}"

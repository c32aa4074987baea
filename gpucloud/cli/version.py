"""``gpucloud version``: the version, and the folders of its files."""

from __future__ import annotations

import platform
from dataclasses import asdict

from gpucloud import __version__
from gpucloud.cli.context import App


def version(app: App) -> None:
    """Show the version and the folders in use. Creates no folder."""
    paths = {name: str(path) for name, path in asdict(app.paths).items()}
    if app.output.json:
        fields = {"version": __version__, "python": platform.python_version(), "paths": paths}
        app.output.document("version", fields)
        return
    app.output.line(f"gpucloud {__version__} (Python {platform.python_version()})")
    for name, path in paths.items():
        app.output.line(f"{name:8} {path}")

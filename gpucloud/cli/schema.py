"""``gpucloud schema``: the JSON Schema of a spec file, for editors."""

from __future__ import annotations

from importlib.resources import files

from gpucloud.cli.context import App


def schema(app: App) -> None:
    """Print the JSON Schema of a spec file. Editors use it to complete and check specs."""
    app.output.line(files("gpucloud").joinpath("spec.schema.json").read_text(encoding="utf-8").rstrip())

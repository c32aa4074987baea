"""``gpucloud schema``: the JSON Schema of a spec file, for editors, and of the documents of ``--json``."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.errors import UsageError


def schema(
    app: App,
    document: Annotated[
        str | None,
        typer.Argument(help="Name of a document: offers for gpucloud.offers/v1.", metavar="DOCUMENT"),
    ] = None,
) -> None:
    """Print the JSON Schema of a spec file, or of a document that --json prints.

    Editors use the first to complete and check specs, and programs the second to check answers.

    Examples:
        gpucloud schema
        gpucloud schema offers
    """
    if document is None:
        app.output.line(files("gpucloud").joinpath("spec.schema.json").read_text(encoding="utf-8").rstrip())
        return
    from gpucloud.cli.documents import DOCUMENTS
    from gpucloud.cli.json_schema import schema_of
    from gpucloud.spec.fields import nearest

    short = document.removeprefix("gpucloud.").removesuffix("/v1")
    if short not in DOCUMENTS:
        raise UsageError(
            f"there is no document {document!r}{nearest(short, DOCUMENTS)}",
            hint=f"allowed: {', '.join(DOCUMENTS)}",
        )
    app.output.line(json.dumps(schema_of(short), indent=2))

"""``gpucloud show``: every field of one box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from gpucloud.cli.boxes import guard_text
from gpucloud.cli.context import App
from gpucloud.resources import short_id


def show(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    live: Annotated[bool, typer.Option("--live", help="Also read the cloud, not the journal alone.")] = False,
) -> None:
    """Show every field of one box."""
    if live:
        with app.working(quiet=True) as (client, _):
            box = client.get(name, live=True)
    else:
        box = app.client.get(name)
    document = box.document()
    if app.output.json:
        app.output.document("show", {"box": document})
        return
    shown = {key: value for key, value in document.items() if value is not None and value != []}
    width = max(map(len, shown))
    for key, value in shown.items():
        text = "; ".join(map(guard_text, box.guards)) if key == "guards" else _text(key, value)
        app.output.line(f"{key.replace('_', ' '):<{width}} {text}")


def _text(key: str, value: Any) -> str:
    """A field of a box as text."""
    if key in SHOWN_AS:
        return SHOWN_AS[key](value)
    match value:
        case bool():
            return "yes" if value else "no"
        case {"amount": amount, "currency": currency}:
            return f"{amount} {currency}"
        case {"total": _}:
            parts = ((name, part) for name, part in value.items() if part)
            return ", ".join(f"{name} {part['amount']} {part['currency']}" for name, part in parts)
        case {"model": model, "count": count, "memory_gib": memory}:
            return f"{count} x {model}, {memory} GiB each"
        case _:
            return str(value)


def _node_text(node: dict[str, Any]) -> str:
    words = (short_id(node["instance_id"]), node["state"], node["public_ip"])
    return " ".join(filter(None, words))


SHOWN_AS: dict[str, Callable[[Any], str]] = {
    "purchase": lambda purchase: purchase.replace("_", "-"),
    "nodes": lambda nodes: ", ".join(map(_node_text, nodes)),
    "mig": lambda slices: ", ".join(f"{each['profile']} {each['uuid']}" for each in slices),
    "accept_test": lambda _: "passed by every GPU",
}
"""The fields that are not written as they are, and how each is written."""

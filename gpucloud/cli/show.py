"""``gpucloud show``: one box, whole."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpucloud.cli.boxes import box_document, guard_text
from gpucloud.cli.context import App
from gpucloud.cli.engine import engine, find_box, now, open_journal
from gpucloud.cli.reached import look_at_guards
from gpucloud.model import short_id


def show(
    app: App,
    name: Annotated[str, typer.Argument(help="The box's name or id.")],
    live: Annotated[bool, typer.Option("--live", help="Ask the cloud instead of the journal alone.")] = False,
) -> None:
    """Show one box."""
    if live:
        from gpucloud.recover import refresh

        with engine(app) as world:
            box = refresh(world, find_box(world.journal, app.owner, name))
            for trouble in look_at_guards(app, world, [box]):
                app.output.say(f"Not asked: {trouble.message}")
            box = world.journal.box(box.id)
    else:
        box = find_box(open_journal(app), app.owner, name)
    document = box_document(box, now())
    if app.output.json:
        app.output.document("show", {"box": document})
        return
    for key, value in document.items():
        if value is not None and value != []:
            app.output.line(f"{key.replace('_', ' '):<14} {_text(key, value)}")


def _text(key: str, value: Any) -> str:
    """One of a box's fields, for people."""
    match value:
        case {"amount": amount, "currency": currency}:
            return f"{amount} {currency}"
        case {"model": model, "count": count, "memory_gib": memory}:
            return f"{count} x {model}, {memory} GiB each"
        case [*nodes] if key == "nodes":
            return ", ".join(f"{short_id(n['instance_id'])} {n['state']} {n['public_ip']}" for n in nodes)
        case [*guards] if key == "guards":
            return "; ".join(guard_text(guard) for guard in guards)
        case [*_] if key == "accept_test":
            return "passed by every GPU"
        case _:
            return str(value)

"""``gpucloud show``: every field of one box."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucloud.cli.boxes import (
    at_most_text,
    cost_text,
    guard_text,
    is_at_most,
    left_text,
    per_hour_text,
    state_text,
)
from gpucloud.cli.context import App
from gpucloud.cli.output import utc_now
from gpucloud.journal.lifecycle import BoxState
from gpucloud.resources import short_id
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.cli.documents import ShowDocument


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
        answer: ShowDocument = {"box": document}
        app.output.document("show", answer)
        return
    texts = {key: _text(key, value) for key, value in document.items() if value is not None and value != []}
    if (cost := cost_text(box)) is not None:
        texts["cost_so_far"] = cost
    if "guards" in texts:
        texts["guards"] = "; ".join(map(guard_text, box.guards))
    texts["state"] = state_text(box)
    if left := left_text(box, utc_now()):
        texts["time_left"] = left
    if "per_hour" in texts:
        texts["per_hour"] = f"{per_hour_text(box) or 'unknown'} ({_parts_text(document['per_hour'])})"
    if box.state is BoxState.READY or (box.setup_error and not box.is_over):
        texts["ssh"] = f"gpucloud ssh {box.name}"
    width = max(map(len, texts))
    for key in dict.fromkeys((*FIRST, *texts)):
        if key in texts:
            first, *others = texts[key].rstrip().split("\n")
            app.output.sentence(f"{key.replace('_', ' '):<{width}} {first}", indent=width + 1)
            for line in others:
                app.output.sentence(" " * (width + 1) + line)
    if is_at_most(box):
        app.output.say(at_most_text([box.name]))


FIRST = ("name", "state", "time_left", "per_hour", "cost_so_far", "ssh")
"""What a user looks for first."""


def _text(key: str, value: Any) -> str:
    """A field of a box as text."""
    if key in SHOWN_AS:
        return SHOWN_AS[key](value)
    match value:
        case bool():
            return "yes" if value else "no"
        case {"amount": _, "currency": _}:
            return _money_text(value)
        case {"model": model, "count": count, "memory_gib": memory}:
            return f"{count} x {model}, {memory} GiB each"
        case _:
            return str(value)


def _money_text(money: Mapping[str, str]) -> str:
    return format_money(Decimal(money["amount"]), money["currency"])


def _parts_text(parts: Mapping[str, Any]) -> str:
    """The parts of the present price: ``compute $0.5260, disk $0.0890, address unknown``."""
    return ", ".join(
        f"{name} {_money_text(part) if part else 'unknown'}"
        for name, part in parts.items()
        if name != "total"
    )


def _node_text(node: dict[str, Any]) -> str:
    words = (short_id(node["instance_id"]), node["state"], node["public_ip"])
    return " ".join(filter(None, words))


SHOWN_AS: dict[str, Callable[[Any], str]] = {
    "purchase": lambda purchase: purchase.replace("_", "-"),
    "nodes": lambda nodes: "\n".join(map(_node_text, nodes)),
    "mig": lambda slices: "\n".join(f"{each['profile']} {each['uuid']}" for each in slices),
    "accept_test": lambda _: "passed by every GPU",
}
"""The fields that are not written as they are, and how each is written."""

"""``gpucloud show``: one box: its place, price, cost, nodes and timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from gpucloud.api.box import cost_text, is_at_most, left_text, per_hour_text, state_text
from gpucloud.cli.boxes import at_most_text, guard_text
from gpucloud.cli.context import App
from gpucloud.cli.output import utc_now
from gpucloud.journal.lifecycle import BoxState
from gpucloud.resources import short_id
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.api.documents import BoxDocument
    from gpucloud.cli.documents.boxes import ShowDocument


def show(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    live: Annotated[bool, typer.Option("--live", help="Also read the cloud, not the journal alone.")] = False,
) -> None:
    """Show one box: its state, place, price, cost, nodes and end.

    Examples:
        gpucloud show trainer
        gpucloud show trainer --live --json
    """
    if live:
        with app.working(quiet=True) as (client, _):
            box = client.get(name, live=True)
    else:
        box = app.client.get(name)
    document = box.document()
    if app.output.json:
        answer: ShowDocument = {"box": document, "spec": dict(box.spec)}
        app.output.document("show", answer)
        return
    known = {key: _text(key, value) for key, value in document.items() if value is not None and value != []}
    texts = {**known, **_spec_texts(box.spec), **_judged_texts(box, document)}
    first = {name: texts.get(name) for name in FIRST}
    app.output.fields({name.replace("_", " "): text for name, text in {**first, **texts}.items()})
    if is_at_most(box):
        app.output.say(at_most_text([box.name]))


FIRST = ("name", "state", "time_left", "per_hour", "cost_so_far", "ssh", "start")
"""What a user looks for first."""


OF_SPEC = ("image", "disk", "volumes", "data", "ports", "setup", "run", "tags")
"""The fields of its spec that a user looks for besides."""


def _spec_texts(spec: Mapping[str, Any]) -> dict[str, str]:
    """What its launch asked for, as far as it is not the default."""
    return {name: _asked_text(spec[name]) for name in OF_SPEC if spec.get(name)}


def _asked_text(value: Any) -> str:
    match value:
        case [*items]:
            return "\n".join(map(str, items))
        case dict():
            pairs = cast("Mapping[str, Any]", value)
            return "\n".join(f"{name}={text}" for name, text in pairs.items())
        case _:
            return str(value)


def _judged_texts(box: Box, document: BoxDocument) -> dict[str, str | None]:
    """The fields that are shown otherwise than in the document; ``None`` for those that are not shown."""
    now = per_hour_text(box)
    return {
        "state": state_text(box),
        "time_left": left_text(box, utc_now()),
        "per_hour": now and f"{now} ({_parts_text(document['per_hour'])})",
        "cost_so_far": cost_text(box),
        "ssh": f"gpucloud ssh {box.name}" if _can_be_entered(box) else None,
        "start": f"gpucloud start {box.name}" if box.state is BoxState.STOPPED else None,
        "overdue": "yes" if box.overdue else None,
        "cost_at_least": _text("cost_at_least", document["cost_at_least"]) if is_at_most(box) else None,
        "guards": "\n".join(map(guard_text, box.guards)) or None,
    }


def _can_be_entered(box: Box) -> bool:
    return box.state is BoxState.READY or (bool(box.setup_error) and not box.is_over)


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

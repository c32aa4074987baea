"""Where and of what nothing may be concluded, as people and documents are told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpucloud.cli.context import App
from gpucloud.resources import BadTags, Resource, short_id

if TYPE_CHECKING:
    from gpucloud.inventory.discovery import Survey


def say_unread(app: App, survey: Survey) -> None:
    """For people."""
    for cloud, reason in survey.left_out.items():
        app.output.say(f"Left out: {cloud}: {reason}")
    for region in survey.unread:
        app.output.say(f"Not read: {region.cloud} {region.region}: {region.error}")


def say_unjudged(app: App, things: Iterable[Resource]) -> None:
    """For people: things whose tags name the user as their owner, and are otherwise not gpucloud's own."""
    for thing in things:
        ref = thing.ref
        app.output.say(
            f"Left alone: {ref.kind} {short_id(ref.id)} in {ref.cloud} {ref.region} carries your owner tag, "
            f"and {wrong_in(thing)}"
        )
        app.output.say(
            "  gpucloud does not end it: end it in the cloud's own console, or mend its tags there"
        )


def unjudged_document(things: Iterable[Resource]) -> dict[str, Any]:
    """The same for documents."""
    return {
        "unjudged": [
            {
                "kind": str(thing.ref.kind),
                "id": thing.ref.id,
                "cloud": thing.ref.cloud,
                "region": thing.ref.region,
                "wrong": wrong_in(thing),
            }
            for thing in things
        ]
    }


def wrong_in(thing: Resource) -> str | None:
    """What is wrong with a thing's tags; ``None`` for tags that gpucloud may have written, or for none."""
    return thing.tags.wrong if isinstance(thing.tags, BadTags) else None


def unread_document(survey: Survey) -> dict[str, Any]:
    """``unread`` of the contract, and the clouds that are not set up here."""
    return {"unread": [asdict(region) for region in survey.unread], "left_out": dict(survey.left_out)}

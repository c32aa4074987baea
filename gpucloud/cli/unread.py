"""Where and of what nothing may be concluded, as people and documents are told."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpucloud.cli.context import App
from gpucloud.resources import BadTags, Resource, short_id

if TYPE_CHECKING:
    from gpucloud.api.results import Searched


def say_unread(app: App, searched: Searched) -> None:
    """For people."""
    for cloud, reason in searched.left_out.items():
        app.output.say(f"Left out: {cloud}: {reason}")
    for region in searched.unread:
        app.output.say(f"Not read: {region.cloud} {region.region}: {region.error}")


def say_unjudged(app: App, searched: Searched) -> None:
    """For people: what carries the user's owner tag, and tags that gpucloud never wrote."""
    for resource in searched.unjudged:
        ref = resource.ref
        app.output.say(
            f"Left alone: {ref.kind} {short_id(ref.id)} in {ref.cloud} {ref.region} carries your owner tag, "
            f"and {wrong_in(resource)}"
        )
        app.output.say(
            "  gpucloud does not end it: end it in the cloud's own console, or mend its tags there"
        )


def unjudged_document(searched: Searched | None) -> dict[str, Any]:
    """The same for documents."""
    return {
        "unjudged": [
            {
                "kind": str(resource.ref.kind),
                "id": resource.ref.id,
                "cloud": resource.ref.cloud,
                "region": resource.ref.region,
                "wrong": wrong_in(resource),
            }
            for resource in (searched.unjudged if searched else ())
        ]
    }


def wrong_in(resource: Resource) -> str | None:
    """What is wrong with a resource's tags; ``None`` for tags that gpucloud may have written, or for none."""
    return resource.tags.wrong if isinstance(resource.tags, BadTags) else None


def unread_document(searched: Searched) -> dict[str, Any]:
    """``unread`` of the contract, and the clouds that are not set up here."""
    return {"unread": [asdict(region) for region in searched.unread], "left_out": dict(searched.left_out)}

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


def say_unjudged(app: App, resources: Iterable[Resource]) -> None:
    """For people: things whose tags name the user as their owner, and are otherwise not gpucloud's own."""
    for resource in resources:
        ref = resource.ref
        app.output.say(
            f"Left alone: {ref.kind} {short_id(ref.id)} in {ref.cloud} {ref.region} carries your owner tag, "
            f"and {wrong_in(resource)}"
        )
        app.output.say(
            "  gpucloud does not end it: end it in the cloud's own console, or mend its tags there"
        )


def unjudged_document(resources: Iterable[Resource]) -> dict[str, Any]:
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
            for resource in resources
        ]
    }


def wrong_in(resource: Resource) -> str | None:
    """What is wrong with a thing's tags; ``None`` for tags that gpucloud may have written, or for none."""
    return resource.tags.wrong if isinstance(resource.tags, BadTags) else None


def unread_document(survey: Survey) -> dict[str, Any]:
    """``unread`` of the contract, and the clouds that are not set up here."""
    return {"unread": [asdict(region) for region in survey.unread], "left_out": dict(survey.left_out)}

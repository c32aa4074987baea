"""Regions that could not be read and resources that could not be judged, as text and in documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucloud.cli.context import App
from gpucloud.errors import RULES, CleanupIncompleteError, ErrorClass
from gpucloud.resources import BadTags, Resource, short_id

if TYPE_CHECKING:
    from gpucloud.api.results import Searched
    from gpucloud.cli.documents.searches import UnjudgedDocument, UnreadDocument


def say_unread(app: App, searched: Searched) -> None:
    """Prints the clouds left out and the regions that could not be read."""
    for cloud, reason in searched.left_out.items():
        app.output.say(f"Left out: {cloud}: {reason}")
    for region in searched.unread:
        app.output.say(f"Could not read: {region.cloud} {region.region}: {region.error}")
    if searched.nowhere:
        app.output.say("No cloud was searched.")


def search_code(searched: Searched | None, *, owed: bool = False) -> int:
    """The exit code of a search: 4 if no cloud could be asked, 8 if a region could not be read.

    Args:
        searched: what was searched; ``None`` if nothing was to be.
        owed: whether something else may still be billed.
    """
    if owed or (searched and searched.unread):
        return CleanupIncompleteError.exit_code
    return RULES[ErrorClass.AUTH].exit_code if searched and searched.nowhere else 0


def say_unjudged(app: App, searched: Searched) -> None:
    """Prints the resources that have the user's owner tag, and tags that gpucloud never writes."""
    for resource in searched.unjudged:
        ref = resource.ref
        app.output.say(
            f"Left alone: {ref.kind} {short_id(ref.id)} in {ref.cloud} {ref.region} has your owner tag, "
            f"but {wrong_in(resource)}"
        )
    if searched.unjudged:
        app.output.say("  delete them in the cloud's console, or correct their tags there")


def unjudged_documents(searched: Searched | None) -> list[UnjudgedDocument]:
    """The same for documents."""
    return [
        {
            "kind": str(resource.ref.kind),
            "id": resource.ref.id,
            "cloud": resource.ref.cloud,
            "region": resource.ref.region,
            "wrong": wrong_in(resource),
        }
        for resource in (searched.unjudged if searched else ())
    ]


def wrong_in(resource: Resource) -> str | None:
    """What is wrong with a resource's tags; ``None`` if they may be gpucloud's, or if there are none."""
    return resource.tags.wrong if isinstance(resource.tags, BadTags) else None


def unread_documents(searched: Searched) -> list[UnreadDocument]:
    """The regions that could not be read, for documents."""
    return [
        {"cloud": region.cloud, "region": region.region, "error": region.error} for region in searched.unread
    ]

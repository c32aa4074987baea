"""Where nothing may be concluded, as people and documents are told."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpucloud.cli.context import App

if TYPE_CHECKING:
    from gpucloud.survey import Survey


def say_unread(app: App, survey: Survey) -> None:
    """For people."""
    for cloud, reason in survey.left_out.items():
        app.output.say(f"Left out: {cloud}: {reason}")
    for region in survey.unread:
        app.output.say(f"Not read: {region.cloud} {region.region}: {region.error}")


def unread_document(survey: Survey) -> dict[str, Any]:
    """``unread`` of the contract, and the clouds that are not set up here."""
    return {"unread": [asdict(region) for region in survey.unread], "left_out": dict(survey.left_out)}

"""``gpucloud notify``: messages to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.rendering.table import Role

if TYPE_CHECKING:
    from gpucloud.cli.documents.monitoring import NotifyTestDocument


def notify_test(
    app: App,
    channels: Annotated[
        list[str] | None, typer.Argument(help="Only these channels.", metavar="CHANNEL...")
    ] = None,
) -> int:
    """Send a test message to each channel of notify.yaml, or of GPUCLOUD_NOTIFY, and list what it gets.

    Exit code 1 if a channel did not take it.

    Examples:
        gpucloud notify test
        gpucloud notify test ops --json
    """
    done = app.client.notices.test(channels or ())
    if app.output.json:
        answer: NotifyTestDocument = {
            "channels": [
                {
                    "channel": each.channel,
                    "kind": each.kind,
                    "occasions": list(each.occasions),
                    "sent": not each.error,
                    "error": each.error,
                }
                for each in done
            ]
        }
        app.output.document("notify-test", answer)
    for each in done:
        if each.error:
            app.output.say(each.error, role=Role.ERROR)
        else:
            gets = ", ".join(each.occasions)
            app.output.say(f"channel {each.channel!r} ({each.kind}): sent; it gets: {gets}")
    return int(any(each.error for each in done))


COMMANDS = {"test": notify_test}

"""``gpucloud logs``: what a box wrote while it booted, and what its job wrote."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.engine import engine, find_box, open_journal
from gpucloud.cli.output import clean
from gpucloud.cli.reached import reached
from gpucloud.cli.ssh import Node
from gpucloud.errors import UsageError

BOOT_LOGS = ("/var/log/cloud-init-output.log", "/var/log/gpucloud/boot.log")
JOB_LOG = "/var/log/gpucloud/job.log"


def logs(
    app: App,
    name: Annotated[str, typer.Argument(help="The box's name or id.")],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as more is written.")] = False,
    boot: Annotated[bool, typer.Option("--boot", help="The boot's log (default).")] = False,
    job: Annotated[bool, typer.Option("--job", help="The job's log.")] = False,
    node: Node = 0,
) -> None:
    """Show a box's boot and job logs; the console as the cloud has it where the box cannot be reached."""
    if boot and job:
        raise UsageError("one of --boot and --job")
    from gpucloud.ssh import ConnectionFailedError, lines

    files = (JOB_LOG,) if job else BOOT_LOGS
    try:
        target = reached(app, name, node=node)
    except ConnectionFailedError as error:
        text = "" if job else _console(app, name, node)
        if not text:
            raise
        app.output.say(f"{error.message}\nThis is the console, as the cloud has it:")
        _show(app, "console", clean(text).splitlines(), follow=False)
        return
    script = 'for file; do [ ! -r "$file" ] || files="$files $file"; done; exec '
    script += 'tail -q -n +1 -F "$@"' if follow else "cat $files </dev/null"
    with closing(lines(target, ["sh", "-c", script, "sh", *files])) as stream:
        _show(app, "job" if job else "boot", map(clean, stream), follow)


def _show(app: App, source: str, lines: Iterable[str], follow: bool) -> None:
    if app.output.json and not follow:
        app.output.document("logs", {"source": source, "text": "\n".join(lines)})
        return
    for line in lines:
        if app.output.json:
            app.output.record({"schema": "gpucloud.logs/v1", "source": source, "line": line})
        else:
            app.output.line(line)


def _console(app: App, name: str, node: int) -> str:
    from gpucloud.model import Kind, Ref

    box = find_box(open_journal(app), app.owner, name)
    with engine(app) as world:
        cloud = world.clouds[box.facts["cloud"]]
        ref = Ref(
            cloud=cloud.name,
            account=str(box.facts.get("account", "")),
            region=box.facts["region"],
            kind=Kind.INSTANCE,
            id=box.facts["nodes"][node]["instance_id"],
        )
        return world.waiter.run(lambda: cloud.console(ref))

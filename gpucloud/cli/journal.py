"""``gpucloud journal``: the tables of a team's journal, copies of a journal, and whether it is whole."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.share import text_of
from gpucloud.errors import UsageError
from gpucloud.rendering.texts import counted

if TYPE_CHECKING:
    from gpucloud.cli.documents.team import (
        JournalCopyDocument,
        JournalMigrateDocument,
        JournalUsersDocument,
        JournalVerifyDocument,
    )


class UsersAction(StrEnum):
    """What ``journal users`` can do."""

    APPLY = "apply"
    KEY = "key"


def migrate(
    app: App,
    sql: Annotated[
        bool, typer.Option("--sql", help="Only print the SQL that makes a journal; asks no server.")
    ] = False,
) -> None:
    """Make or update the tables of the journal that GPUCLOUD_JOURNAL names: all, or nothing.

    The login must own the schema of the journal, or be allowed to create it; others cannot do this.

    Examples:
        gpucloud journal migrate
        gpucloud journal migrate --sql
    """
    if sql:
        app.output.line(app.client.journals.script().rstrip())
        return
    done = app.client.journals.migrate()
    if app.output.json:
        answer: JournalMigrateDocument = {
            "journal": done.journal,
            "before": done.before,
            "version": done.version,
        }
        app.output.document("journal-migrate", answer)
        return
    was = "made" if not done.before else "as it was" if done.before == done.version else "updated"
    app.output.say(f"The journal {done.journal} is {was}: schema {done.version}.")


def copy(
    app: App,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Journal to copy this one to: a URL or a file.", metavar="JOURNAL"),
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="Journal to copy into this one.", metavar="JOURNAL")
    ] = None,
) -> None:
    """Copy every event of a journal to another one. What is there already stays; a second copy adds the rest.

    Your login in the team's journal gets the owner ID of your file, so that boxes are found, deleted and
    swept as before; it may have those of several files. Afterwards use one of the two only: set
    GPUCLOUD_JOURNAL.

    Examples:
        gpucloud journal copy --to postgresql://alice@db.lab/gpucloud
        gpucloud journal copy --from ~/.local/state/gpucloud/state/journal.db
    """
    if (to is None) == (from_ is None):
        raise UsageError(
            "copy needs one of --to and --from", hint="gpucloud journal copy --to postgresql://…"
        )
    journals = app.client.journals
    done = journals.copy_to(to) if to is not None else journals.copy_from(from_ or "")
    if app.output.json:
        answer: JournalCopyDocument = {"events": done.events, "owner": done.owner}
        app.output.document("journal-copy", answer)
        return
    app.output.say(f"Copied {counted(done.events, 'event')}; your boxes are those of owner {done.owner}.")


def verify(app: App) -> int:
    """Replay every event, and compare the result with the journal's tables. Exit code 1 if they differ.

    Examples:
        gpucloud journal verify
        gpucloud journal verify --json
    """
    found = app.client.journals.verify()
    if app.output.json:
        answer: JournalVerifyDocument = {"events": found.events, "differences": list(found.differences)}
        app.output.document("journal-verify", answer)
    else:
        for each in found.differences:
            app.output.line(each)
        app.output.say(
            f"Replayed {counted(found.events, 'event')}: {counted(len(found.differences), 'difference')}."
        )
    return 1 if found.differences else 0


def users(
    app: App,
    action: Annotated[UsersAction, typer.Argument(help="apply or key.", metavar="apply|key")],
    file: Annotated[
        Path, typer.Argument(help="apply: YAML, users with their roles. key: a .pub file.", metavar="FILE")
    ],
) -> None:
    """Give every login of a file its role, and take the roles of all others; or publish your own ssh key.

    apply: the file has `users: {alice: admin, bob: operator, vera: viewer}`. A viewer reads, an operator
    changes own boxes, an admin every box. Logins that are missing are made, without a password.
    `keys: {bob: ssh-ed25519 AAAA…}` sets public keys.

    key: publishes your own public key, so that others can let you in: gpucloud share NAME --user LOGIN.

    Examples:
        gpucloud journal users apply users.yaml
        gpucloud journal users key ~/.ssh/id_ed25519.pub
    """
    if action is UsersAction.KEY:
        app.client.journals.publish_key(text_of(str(file), "the key"))
        done = ["your key set"]
    else:
        done = app.client.journals.apply_users(file)
    if app.output.json:
        answer: JournalUsersDocument = {"changes": done}
        app.output.document("journal-users", answer)
        return
    for each in done:
        app.output.line(each)
    app.output.say(f"{counted(len(done), 'change')}.")


COMMANDS = {"migrate": migrate, "copy": copy, "verify": verify, "users": users}

"""Puts the engine together for one command: journal, clouds, signals, progress."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from gpucloud.cli.context import App
from gpucloud.config import make_private
from gpucloud.errors import OwedError, UsageError

if TYPE_CHECKING:
    from gpucloud.clouds.profile import Profile
    from gpucloud.journal.store import Box, Journal
    from gpucloud.runtime.context import Context, Tell
    from gpucloud.sandbox.client import Endpoint

JOURNAL = "journal.db"
MOST_TROUBLES = 3
"""How many of what could not be settled are told one by one."""


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def open_journal(app: App) -> Journal:
    """The journal of this user, made if there is none."""
    from gpucloud.journal.store import Journal

    return Journal.open(make_private(app.paths.state) / JOURNAL, now)


@contextmanager
def engine(app: App, tell: Tell | None = None) -> Generator[Context]:
    """The engine for a command that talks to clouds; signals are answered while the body runs."""
    from gpucloud.clouds.audit import Audit
    from gpucloud.clouds.cloud import Clouds
    from gpucloud.journal.leases import renewing
    from gpucloud.runtime.context import Context, say_nothing
    from gpucloud.runtime.tasks import Tasks

    profile = profile_of(app)
    journal = open_journal(app)
    audit = Audit(
        app.paths.state,
        owner=app.owner,
        command=app.command,
        clock=now,
        new_id=lambda: secrets.token_hex(8),
        complain=app.output.say,
    )
    tasks = Tasks()
    if tell is not None:
        tasks.heard = partial(tell, "down")
    with tasks.listening(), renewing(journal):
        yield Context(
            owner=app.owner,
            journal=journal,
            clouds=Clouds.installed(profile, audit.witness),
            tasks=tasks,
            tell=tell or say_nothing,
            clock=now,
            cache=app.paths.state,
            state=app.paths.state,
        )


def connect(app: App) -> str | None:
    """ssh's way into the sandbox, which is started if needed; ``None`` without ``--sandbox``."""
    endpoint = _sandbox(app)
    return None if endpoint is None else endpoint.ssh_proxy_command


def profile_of(app: App) -> Profile:
    """Where the clouds are, and whose: the environment's, or the sandbox's with ``--sandbox``."""
    from gpucloud.clouds.profile import Profile

    endpoint = _sandbox(app)
    return Profile({**app.environment, **(endpoint.environ if endpoint is not None else {})})


def _sandbox(app: App) -> Endpoint | None:
    """The sandbox, started if it does not run; ``None`` without ``--sandbox``."""
    if not app.sandbox:
        return None
    from gpucloud.sandbox.client import ensure_started

    return ensure_started(make_private(app.paths.sandbox))


def settle_owed(app: App, context: Context) -> None:
    """Finishes what earlier commands left, within a budget of seconds; of the rest a few lines are said."""
    from gpucloud.inventory.reconcile import settle

    troubles = settle(context)
    for trouble in troubles[:MOST_TROUBLES]:
        is_owed = isinstance(trouble, OwedError)
        app.output.say(f"{'Still owed' if is_owed else 'Not asked'}: {trouble.message}")
        if trouble.owed_command or trouble.hint:
            app.output.say(f"  {trouble.owed_command or trouble.hint}")
    if len(troubles) > MOST_TROUBLES:
        app.output.say(f"{len(troubles) - MOST_TROUBLES} more boxes are not settled: gpucloud list")


def find_box(journal: Journal, owner: str, name: str) -> Box:
    """The living box with this name or id; else the newest one that is over.

    Raises:
        UsageError: there is none; names the nearest.
    """
    found = journal.named(owner, name)
    living = [box for box in found if box.ended_at is None]
    if found:
        return (living or found)[-1]
    from difflib import get_close_matches

    near = get_close_matches(name, [box.name for box in journal.boxes(owner=owner)], n=1)
    raise UsageError(
        f"there is no box named {name!r}" + (f"; did you mean {near[0]}?" if near else ""),
        hint="see yours: gpucloud list",
    )

"""``gpucloud prices watch``: refreshes prices repeatedly, and reports an offer below a limit."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.options import SpecFlags
from gpucloud.errors import UsageError
from gpucloud.market.search import offer_text
from gpucloud.rendering.texts import counted
from gpucloud.resources import rfc3339
from gpucloud_pricing import Offer

if TYPE_CHECKING:
    from gpucloud.market.watch import Look


def watch(
    app: App,
    spec: SpecFlags,
    below: Annotated[str, typer.Option("--below", help="The limit, in USD per hour and box.", metavar="USD")],
    every: Annotated[
        str, typer.Option("--every", help="Time between two refreshes.", metavar="TIME")
    ] = "15m",
    execute: Annotated[
        str | None,
        typer.Option(
            "--exec",
            help="Command to run, without a shell, each time; GPUCLOUD_OFFER has the offer in JSON.",
            metavar="CMD",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Exit after the first offer below the limit.")] = False,
) -> int:
    """Refresh prices repeatedly, and report when the cheapest offer falls below a limit. Ends with Ctrl-C.

    Prices that are not as they should be are named too: spot above its usual range or above on demand, a
    changed list price, a price that no GPU of its model has.

    With --json, one line for each refresh.

    Examples:
        gpucloud prices watch --gpu T4 --spot --below 0.20
        gpucloud prices watch --gpu T4 --spot --below 0.20 --once --exec ./train.sh
    """
    command = None if execute is None else _command(execute)
    with app.working(quiet=True) as (client, _):
        looks = client.prices.watch(spec, below=_limit(below), every=_pause(every))
        for look in looks:
            _tell(app, look)
            if look.offer is not None and look.fell:
                code = 0 if command is None else _run(app, command, look.offer)
                if once:
                    return code
    return 0


def _limit(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise UsageError(f"--below: {text!r} is not a price; allowed: a number above 0") from None


def _pause(text: str) -> timedelta:
    from gpucloud.spec.fields import end

    try:
        pause = end(text)
    except ValueError as error:
        raise UsageError(f"--every: {error}") from error
    if isinstance(pause, str):
        raise UsageError(f"--every: {text!r} is not allowed; allowed: 1m or more")
    return pause


def _command(text: str) -> list[str]:
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--exec: {error}") from error
    if not command or which(command[0]) is None:
        raise UsageError(f"--exec: there is no program {text!r}")
    return command


def _tell(app: App, look: Look) -> None:
    if app.output.json:
        app.output.record("prices-watch", look.document())
        return
    offer = "no offer" if look.offer is None else offer_text(look.offer)
    at = f"{rfc3339(look.at)}  "
    app.output.sentence(f"{at}{'BELOW' if look.below else 'above'}  {offer}", indent=len(at))
    for odd in look.anomalies:
        app.output.sentence(f"{at}UNUSUAL  {odd.text}", indent=len(at))
    sys.stdout.flush()
    if look.failures:
        were = "was" if look.failures == 1 else "were"
        queries = counted(look.failures, "query")
        app.output.say(f"{queries} {were} not answered: gpucloud prices refresh says why")


def _run(app: App, command: Sequence[str], offer: Offer) -> int:
    """Runs the user's command and returns its exit code. With --json, its output goes to stderr."""
    app.output.say(f"Running: {shlex.join(command)}")
    environment = {**os.environ, "GPUCLOUD_OFFER": json.dumps(offer.document())}
    out = sys.stderr if app.output.json else None
    code = subprocess.run(command, env=environment, stdout=out, check=False).returncode
    if code:
        app.output.say(f"It ended with exit code {code}.")
    return code

"""``gpucloud prices watch``: asks again and again, and says when something costs less than a limit."""

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
from typing import Annotated

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.options import takes_spec
from gpucloud.cli.output import time_text, utc_now
from gpucloud.cli.prices_refresh import wanted_of
from gpucloud.errors import UsageError
from gpucloud.spec.model import Spec
from gpucloud_pricing import Offer

LEAST = timedelta(minutes=1)
"""Prices move a few times a day at most: to ask more often helps nobody."""


@takes_spec
def watch(
    app: App,
    spec: Spec,
    below: Annotated[str, typer.Option("--below", help="USD per hour and box.", metavar="USD")],
    every: Annotated[
        str, typer.Option("--every", help="How long to wait between two looks.", metavar="TIME")
    ] = "15m",
    execute: Annotated[
        str | None,
        typer.Option(
            "--exec",
            help="Run this, without a shell, each time it falls below; GPUCLOUD_OFFER is the offer in JSON.",
            metavar="CMD",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End with the first that is below.")] = False,
) -> int:
    """Ask the clouds again and again, and say when the cheapest offer falls below a limit. Ends with Ctrl-C.

    With --json a line for each look.
    """
    from gpucloud.market.refresh import refresh

    limit, pause_s = _limit(below), _pause_s(every)
    command = None if execute is None else _command(execute)
    market = app.client.catalog.shipped
    demand = spec.demand()
    was_below = False
    with (
        app.working(quiet=True) as (client, _),
        client.operation() as context,
        app.client.catalog.history() as history,
    ):
        wanted = wanted_of(market, spec, context.clouds.names())
        while True:
            results = refresh(context, market, history, wanted, anew=True, progress=_silent)
            found = market.refreshed(history.current, history.interruptions).search(
                demand, shown.today(), limit=1
            )
            best = next((offer for offer in found if offer.price_usd is not None), None)
            is_below = best is not None and (best.price_usd or limit) < limit
            _tell(app, best, is_below=is_below, failures=sum(len(r.failures) for r in results.values()))
            if best is not None and is_below and not was_below:
                code = 0 if command is None else _run(app, command, best)
                if once:
                    return code
            was_below = is_below
            context.tasks.pause(pause_s)


def _silent(cloud: str, answered: int, asked: int) -> None:
    """Each look is one line, and nothing in between."""


def _limit(text: str) -> Decimal:
    try:
        limit = Decimal(text)
    except InvalidOperation:
        limit = Decimal("NaN")
    if not limit.is_finite() or limit <= 0:
        raise UsageError(f"--below: {text!r} is no price; allowed: a number above 0")
    return limit


def _pause_s(text: str) -> float:
    from gpucloud.spec.fields import end

    try:
        pause = end(text)
    except ValueError as error:
        raise UsageError(f"--every: {error}") from error
    if isinstance(pause, str) or pause < LEAST:
        raise UsageError(f"--every: {text!r} is not allowed; allowed: 1m or more")
    return pause.total_seconds()


def _command(text: str) -> list[str]:
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--exec: {error}") from error
    if not command or which(command[0]) is None:
        raise UsageError(f"--exec: there is no program {text!r}")
    return command


def _tell(app: App, best: Offer | None, *, is_below: bool, failures: int) -> None:
    at = time_text(utc_now())
    if app.output.json:
        document = {
            "schema": "gpucloud.prices-watch/v1",
            "at": at,
            "below": is_below,
            "offer": best and best.document(),
            "failures": failures,
        }
        app.output.line(json.dumps(document))
        sys.stdout.flush()
        return
    app.output.line(
        f"{at}  {'BELOW' if is_below else 'above'}  {(best and shown.offer_text(best)) or 'no offer'}"
    )
    sys.stdout.flush()
    if failures:
        app.output.say(f"{failures} inquiries were not answered: gpucloud prices refresh says why")


def _run(app: App, command: Sequence[str], offer: Offer) -> int:
    """Runs what the user wants run; its exit code. With --json, what it prints goes to stderr."""
    app.output.say(f"Running: {shlex.join(command)}")
    environment = {**os.environ, "GPUCLOUD_OFFER": json.dumps(offer.document())}
    out = sys.stderr if app.output.json else None
    code = subprocess.run(command, env=environment, stdout=out, check=False).returncode
    if code:
        app.output.say(f"It ended with exit code {code}.")
    return code

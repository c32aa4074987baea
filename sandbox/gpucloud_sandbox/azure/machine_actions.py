"""POST to a machine: its power, its eviction, its console."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from werkzeug.wrappers import Request

from gpucloud_sandbox.azure import instances, operations
from gpucloud_sandbox.azure.subscription import Subscription
from gpucloud_sandbox.azure.wire import Answer, AzureError
from gpucloud_sandbox.database import Document

Console = Callable[[str, int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request, and what its answer may name.

    Attributes:
        request: with its query and body.
        origin: of the addresses in answers.
        console: returns the address of a box's console, which is valid for so many minutes.
    """

    request: Request
    origin: str
    console: Console


def act(subscription: Subscription, machine: Document, action: str, exchange: Exchange) -> Answer | None:
    """Does an action; ``None`` for one that is not emulated.

    Args:
        subscription: the subscription.
        machine: what it is done to.
        action: the last word of the address.
        exchange: the request.

    Raises:
        AzureError: Azure would refuse.
    """
    instances.check_not_ending(machine, action)
    word = action.lower()
    if word == "simulateeviction":
        instances.evict(subscription, machine, subscription.now)
        return Answer(status=204)
    if word == "retrievebootdiagnosticsdata":
        url = exchange.console(machine["_box"], _minutes(exchange.request))
        return Answer(body={"consoleScreenshotBlobUri": url, "serialConsoleLogBlobUri": url})
    switch = instances.SWITCHES.get(word)
    if switch is None:
        return None
    failure = switch(subscription, machine)
    headers = operations.begin(
        subscription, exchange.origin, machine, "switched", located=True, failure=failure
    )
    return Answer(status=202, headers=headers)


def _minutes(request: Request) -> int:
    """For how long the address of a console is valid (azure-mgmt-compute, retrieve_boot_diagnostics_data)."""
    given = request.args.get("sasUriExpirationTimeInMinutes", "120")
    if not given.isdecimal() or not 1 <= int(given) <= 1440:
        text = f"The value '{given}' of parameter 'sasUriExpirationTimeInMinutes' is not between 1 and 1440."
        raise AzureError("InvalidParameter", text)  # UNVERIFIED: code
    return int(given)

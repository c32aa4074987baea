"""``gpucloud sandbox``: runs the emulated local clouds, and makes them fail on purpose."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.output import time_text
from gpucloud.errors import UsageError
from gpucloud.rendering.table import Table
from gpucloud.resources import short_id
from gpucloud_pricing import format_money
from gpucloud_sandbox.review import Review

if TYPE_CHECKING:
    from gpucloud.cli.documents.sandbox import SandboxStatusDocument
    from gpucloud_sandbox.client import SandboxClient

Json = Mapping[str, Any]

Cloud = Annotated[str, typer.Option("--cloud", help="Cloud, or a glob.", metavar="NAME")]
Region = Annotated[str, typer.Option("--region", help="Region, or a glob.", metavar="NAME")]
Zone = Annotated[str, typer.Option("--zone", help="Zone as `offers` shows it, or a glob.", metavar="NAME")]
InstanceType = Annotated[str, typer.Option("--type", help="Instance type, or a glob.", metavar="NAME")]
Purchase = Annotated[
    str, typer.Option("--purchase", help="Purchase option: on_demand, spot, or a glob.", metavar="NAME")
]


_EFFECTS = (
    "error, throttle (an error answer); delay, hang (a late answer, or none); drop, reset (the connection is"
    " closed); repeat (the request arrives twice); stale (an earlier answer); ignore (success, but nothing is"
    " done); empty (empty lists); trickle, drip (the answer in pieces, or in bytes without end); pages (lists"
    " without end); bomb (a small answer that unpacks to a large one); truncate, garble (a damaged answer);"
    " redirect (to another host); kill (a signal to the caller)"
)
"""The values of :class:`gpucloud_sandbox.faults.Effect` and what they do."""

Transition = Annotated[
    float | None,
    typer.Option(
        "--pace", help="Seconds that an instance takes to start, and to stop.", min=0, metavar="SECONDS"
    ),
]
Latency = Annotated[
    float | None, typer.Option(help="Seconds added to every API call.", min=0, metavar="SECONDS")
]
Lag = Annotated[
    float | None,
    typer.Option(help="Seconds until reads show a new instance.", min=0, metavar="SECONDS"),
]


class Shell(StrEnum):
    """A family of shells, by how variables are set in it."""

    POSIX = "posix"
    FISH = "fish"
    POWERSHELL = "powershell"


def start(
    app: App,
    transition: Transition = None,
    latency: Latency = None,
    lag: Lag = None,
    review: Annotated[
        Review | None,
        typer.Option(
            "--review",
            help="Whose unsafe requests (open ports, unencrypted disks, missing tags) are refused: all, own"
            " (gpucloud's), or off.",
            metavar="WHOSE",
        ),
    ] = None,
    shell: Annotated[
        Shell, typer.Option(help="Shell that the printed lines are for: posix, fish or powershell.")
    ] = Shell.POSIX,
) -> None:
    """Start the emulated clouds; prints the variables that point the vendors' tools at them.

    Examples:
        gpucloud sandbox start
        gpucloud sandbox start --review off
    """
    from gpucloud_sandbox.client import ensure_started

    given = _pace_changes(transition, latency, lag)
    endpoint = ensure_started(app.paths.sandbox, **given)
    if given:
        endpoint.client.pace(**given)
    if review:
        endpoint.client.review(review)
    exports = endpoint.exports(app.environment)
    if app.output.json:
        answer = _status(endpoint.client.status())
        answer["environment"], answer["unset"] = exports, sorted(endpoint.unexported)
        app.output.document("sandbox", answer)
        return
    for name in sorted(endpoint.unexported):
        app.output.line(_UNSETS[shell].format(name))
    for name, value in exports.items():
        app.output.line(_SETS[shell](name, value))
    app.output.say(
        f"The sandbox runs (pid {endpoint.pid}). With these variables, the vendors' tools and SDKs call it."
    )
    app.output.say("Next: gpucloud --sandbox launch --gpu T4")


_FISH_SPECIAL, _ESCAPED = r"([\\'])", r"\\\1"
_UNSETS: Mapping[Shell, str] = {
    Shell.POSIX: "unset {}",
    Shell.FISH: "set --erase {}",
    Shell.POWERSHELL: "Remove-Item -ErrorAction Ignore Env:{}",
}
_SETS: Mapping[Shell, Callable[[str, str], str]] = {
    Shell.POSIX: lambda name, value: f"export {name}={shlex.quote(value)}",
    Shell.FISH: lambda name, value: f"set -gx {name} '{re.sub(_FISH_SPECIAL, _ESCAPED, value)}'",
    Shell.POWERSHELL: lambda name, value: "$Env:{} = '{}'".format(name, value.replace("'", "''")),
}


def stop(
    app: App,
    force: Annotated[bool, typer.Option("--force", help="Stop even while resources are billed.")] = False,
) -> None:
    """Stop the emulated clouds; refused while resources are billed. The next start restores everything.

    Examples:
        gpucloud sandbox stop
        gpucloud sandbox stop --force
    """
    from gpucloud_sandbox.client import find

    endpoint = find(app.paths.sandbox)
    if endpoint is None:
        _answer(app, {"running": False}, "The sandbox does not run.")
        return
    endpoint.stop(force=force)
    _answer(app, {"running": False}, "The sandbox has stopped.")


@lists("billing", name="id")
def status(app: App) -> None:
    """Show whether the emulated clouds run, and the resources they bill.

    Examples:
        gpucloud sandbox status
        gpucloud sandbox status --json
    """
    from gpucloud_sandbox.client import read_status

    found = read_status(app.paths.sandbox)
    if app.output.json:
        app.output.document("sandbox", _status(found))
        return
    app.output.line(f"running   {'yes' if found['running'] else 'no'}")
    for cloud, url in sorted(found["endpoints"].items()):
        app.output.line(f"{cloud:<9} {url}")
    if found["running"]:
        app.output.line(f"review    {found['review']}")
    if found["clock_ahead_s"]:
        app.output.line(
            f"clock     {found['clock_ahead_s']:g} s ahead; `gpucloud sandbox reset` sets it right"
        )
    price = found["billed_per_hour"]
    app.output.line(f"billed    {format_money(Decimal(price['amount']), price['currency'])} per hour")
    if found["billing"]:
        columns = ["KIND", "ID", "CLOUD", "REGION", "BOX", "OWNER", "PER HOUR"]
        rows = _billing_rows(found["billing"])
        app.output.table(
            Table.of_rows(columns, rows, right=["PER HOUR"], optional=["OWNER", "BOX", "REGION"])
        )
    if not found["running"] and found["billing"]:
        app.output.say("The sandbox was killed or stopped by force; the next start restores what it bills.")


def reset(
    app: App, yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False
) -> int | None:
    """Reset instances, stock, prices, faults and the clock. The ledger keeps what was billed.

    Examples:
        gpucloud sandbox reset
        gpucloud sandbox reset --json
    """
    client = _client(app)
    if not yes:
        if not app.output.interactive:
            raise UsageError("reset deletes all emulated resources and needs confirmation", hint="add --yes")
        if not app.output.ask("Delete all emulated resources and settings?"):
            return 2
    client.reset()
    _answer(app, {}, "The sandbox is reset.")
    return None


def pace(
    app: App,
    transition: Annotated[
        float | None,
        typer.Option(
            "--transition",
            help="Seconds that an instance takes to start, and to stop.",
            min=0,
            metavar="SECONDS",
        ),
    ] = None,
    latency: Latency = None,
    lag: Lag = None,
) -> None:
    """Set the delays of the running clouds; without options, show them.

    Examples:
        gpucloud sandbox pace
        gpucloud sandbox pace --latency 0.2
    """
    found = _client(app).pace(**_pace_changes(transition, latency, lag))
    text = (
        f"transition  {found['transition_s']:g} s\nlatency     {found['latency_s']:g} s\n"
        f"lag         {found['lag_s']:g} s"
    )
    _answer(app, {"pace": found}, text)


@lists("calls", name="action")
def calls(
    app: App,
    clear: Annotated[bool, typer.Option("--clear", help="Clear the list afterwards.")] = False,
) -> None:
    """Show the API calls that the clouds received, oldest first.

    Examples:
        gpucloud sandbox calls
        gpucloud sandbox calls --json
    """
    received = _client(app).received(clear=clear)
    columns = ["at", "cloud", "action", "region", "status", "milliseconds", "concurrent"]
    if app.output.json:
        app.output.document("sandbox", {"calls": received})
        return
    _table(app, "calls", [{**each, **_short(each)} for each in received], columns)


@lists("rules", name="instance_type")
def stock(
    app: App,
    count: Annotated[
        int | None,
        typer.Argument(help="Instances that each matching zone can run at a time.", min=0, metavar="N"),
    ] = None,
    cloud: Cloud = "*",
    region: Region = "*",
    zone: Zone = "*",
    instance_type: InstanceType = "*",
    purchase: Purchase = "*",
) -> None:
    """Limit the instances in stock; without a number, show the rules. The newest matching rule applies.

    Examples:
        gpucloud sandbox stock
        gpucloud sandbox stock 0 --type g4dn.xlarge
    """
    place = _place(cloud, region, zone, instance_type, purchase)
    rule = {} if count is None else {**place, "count": count}
    rules = _client(app).stock(**rule)
    _table(app, "rules", rules, [*place, "count"])


@lists("moves", name="instance_type")
def price(
    app: App,
    amount: Annotated[
        str | None,
        typer.Argument(
            help="Price per hour in the price's own currency, or a factor such as x1.5.", metavar="PRICE"
        ),
    ] = None,
    cloud: Cloud = "*",
    region: Region = "*",
    zone: Zone = "*",
    instance_type: InstanceType = "*",
    purchase: Purchase = "*",
) -> None:
    """Change prices; without an amount, show the changes. The newest matching change applies.

    Examples:
        gpucloud sandbox price
        gpucloud sandbox price x1.5 --type g4dn.xlarge
    """
    place = _place(cloud, region, zone, instance_type, purchase)
    move = {} if amount is None else {**place, **_amount(amount)}
    moves = _client(app).price(**move)
    _table(app, "moves", moves, [*place, "amount", "factor"])


@lists("faults", name="number")
def fault(
    app: App,
    effect: Annotated[
        str | None,
        typer.Argument(
            help=f"Effect: {_EFFECTS}.",
            metavar="EFFECT",
        ),
    ] = None,
    cloud: Cloud = "*",
    region: Region = "*",
    action: Annotated[
        str, typer.Option(help="API call such as RunInstances, or a glob.", metavar="NAME")
    ] = "*",
    stage: Annotated[
        str,
        typer.Option(
            help="When: received (before it is applied), applied (before the answer), or answered.",
            metavar="STAGE",
        ),
    ] = "received",
    times: Annotated[int, typer.Option(help="How many calls fail; 0 for all.", min=0, metavar="N")] = 1,
    skip: Annotated[int, typer.Option(help="How many matching calls succeed first.", min=0, metavar="N")] = 0,
    code: Annotated[str, typer.Option(help="Error code.", metavar="CODE")] = "InternalError",
    http_status: Annotated[
        int, typer.Option("--status", help="HTTP status of the error.", min=400, max=599, metavar="CODE")
    ] = 500,
    message: Annotated[
        str, typer.Option(help="Message of the error.", metavar="MESSAGE")
    ] = "An internal error has occurred",
    seconds: Annotated[float, typer.Option(help="Length of a delay.", min=0, metavar="SECONDS")] = 0.0,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all faults first.")] = False,
) -> None:
    """Make coming calls fail; without an effect, show the faults that are still active.

    Examples:
        gpucloud sandbox fault
        gpucloud sandbox fault throttle --cloud aws --times 3
    """
    client = _client(app)
    if clear:
        client.clear_faults()
    rule: dict[str, Any] = {}
    if effect is not None:
        rule = {
            "effect": effect,
            "stage": stage,
            "cloud": cloud,
            "action": action,
            "region": region,
            "times": times or None,
            "skip": skip,
            "code": code,
            "status": http_status,
            "message": message,
            "seconds": seconds,
        }
    columns = ["number", "effect", "stage", "cloud", "action", "region", "times", "skip"]
    _table(app, "faults", client.fault(**rule), columns)


def interrupt(
    app: App,
    name: Annotated[str, typer.Argument(help="Name of a spot box, or an instance ID.", metavar="NAME")],
    notice: Annotated[
        float | None,
        typer.Option(
            help="Seconds from the notice to the end. Default: as on the real cloud.",
            min=0,
            metavar="SECONDS",
        ),
    ] = None,
) -> None:
    """Interrupt a spot box, after a notice.

    Examples:
        gpucloud sandbox interrupt trainer
        gpucloud sandbox interrupt trainer --notice 30
    """

    client = _client(app)
    try:
        box = app.client.get(name)
        instances, called = [str(node.instance_id) for node in box.nodes], f"{box.name}: "
    except UsageError:
        instances, called = [name], ""
    taken = [{"instance": instance, **client.interrupt(instance, notice_s=notice)} for instance in instances]
    told = [
        f"{called}{short_id(each['instance'])} ends at {time_text(datetime.fromisoformat(each['at']))}."
        for each in taken
    ]
    _answer(app, {"taken": taken}, "\n".join(told))


def gpu(
    app: App,
    sickness: Annotated[
        str, typer.Argument(help="lost, memory, slow, hangs, driver, or tcp.", metavar="FAILURE")
    ],
    times: Annotated[int, typer.Option(help="How many boxes get a faulty GPU.", min=0, metavar="N")] = 1,
) -> None:
    """Give the next boxes a fault: a GPU lost, with bad memory, slow, hanging; an old driver; no RDMA.

    Examples:
        gpucloud sandbox gpu lost
        gpucloud sandbox gpu memory --times 2
    """
    _client(app).gpu(sickness, times=times)
    _answer(
        app,
        {"sickness": sickness, "times": times},
        f"The next {'box gets' if times == 1 else f'{times} boxes get'} a faulty GPU ({sickness}).",
    )


def clock(
    app: App,
    advance: Annotated[
        float, typer.Argument(help="Seconds to move the clock ahead.", min=0, metavar="SECONDS")
    ] = 0,
) -> None:
    """Show the emulated clouds' clock, or move it ahead.

    Examples:
        gpucloud sandbox clock
        gpucloud sandbox clock 3600
    """
    answer = _client(app).clock(advance_s=advance)
    _answer(app, answer, f"The clouds' time is {time_text(datetime.fromisoformat(answer['now']))}.")


def address(
    app: App,
    new: Annotated[
        str | None, typer.Argument(metavar="ADDRESS", help="New public address of the caller.")
    ] = None,
) -> None:
    """Show the caller's public address as the clouds see it, or change it.

    Examples:
        gpucloud sandbox address
        gpucloud sandbox address 203.0.113.9
    """
    found = _client(app).address(new)
    _answer(app, {"address": found}, f"The clouds see the caller at {found}.")


def control(
    app: App,
    cloud: Annotated[str, typer.Argument(help="Name of the cloud.", metavar="CLOUD")],
    name: Annotated[
        str, typer.Argument(help="What to set: quota, deny, reserve, commit, ...", metavar="SETTING")
    ],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="Parameters of the setting; values may be JSON."),
    ] = None,
) -> None:
    """Change a setting of one cloud: quotas, permissions, capacity reservations, other commitments.

    Examples:
        gpucloud sandbox control aws commit per_hour=10 until=2027-05-31
        gpucloud sandbox control aws deny actions='["ec2:RunInstances"]'
    """
    answer = _client(app).cloud(cloud, name, **dict(map(_pair, values or ())))
    _answer(app, {"answer": answer}, "Done." if answer in (None, {}) else str(answer))


COMMANDS: dict[str, Callable[..., int | None]] = {
    "start": start,
    "stop": stop,
    "status": status,
    "reset": reset,
    "pace": pace,
    "calls": calls,
    "stock": stock,
    "price": price,
    "fault": fault,
    "interrupt": interrupt,
    "gpu": gpu,
    "clock": clock,
    "address": address,
    "control": control,
}


def _client(app: App) -> SandboxClient:
    from gpucloud_sandbox.client import find

    endpoint = find(app.paths.sandbox)
    if endpoint is None:
        raise UsageError("the sandbox does not run", hint="gpucloud sandbox start")
    return endpoint.client


def _status(found: Json) -> SandboxStatusDocument:
    """The documented fields; the endpoint of a cloud that does not run is ``None``."""
    from importlib.metadata import entry_points

    emulated = sorted(entry.name for entry in entry_points(group="gpucloud.sandboxes"))
    return {
        "running": found["running"],
        "endpoints": {**dict.fromkeys(emulated), **found["endpoints"]},
        "billed_per_hour": found["billed_per_hour"],
        "billing": found["billing"],
        "clock_ahead_s": found["clock_ahead_s"],
        "review": found["review"],
    }


def _billing_rows(billing: Sequence[Json]) -> Iterator[Sequence[object]]:
    for each in billing:
        price = format_money(Decimal(each["price"]["amount"]), each["price"]["currency"])
        about = (each[key] for key in ("cloud", "region", "box", "owner"))
        yield each["kind"], short_id(each["id"]), *about, price


def _pace_changes(transition: float | None, latency: float | None, lag: float | None) -> dict[str, float]:
    """The delays that were given, by field name."""
    fields = {"transition_s": transition, "latency_s": latency, "lag_s": lag}
    return {name: value for name, value in fields.items() if value is not None}


def _short(call: Json) -> dict[str, Any]:
    """A call's time of day and whole milliseconds, for the table."""
    took = call["milliseconds"]
    return {
        "at": call["at"].partition("T")[2].partition("+")[0],
        "milliseconds": None if took is None else round(took),
    }


def _place(cloud: str, region: str, zone: str, instance_type: str, purchase: str) -> dict[str, str]:
    return {
        "cloud": cloud,
        "region": region,
        "zone": zone,
        "instance_type": instance_type,
        "purchase": purchase,
    }


def _amount(text: str) -> dict[str, str]:
    name, digits = ("factor", text[1:]) if text.startswith("x") else ("amount", text)
    try:
        number = Decimal(digits)
    except InvalidOperation:
        number = Decimal(0)
    if not (number.is_finite() and number > 0):
        raise UsageError(f"{text!r} is not a price; allowed: an amount above 0, or a factor such as x1.5")
    return {name: digits}


def _pair(text: str) -> tuple[str, Any]:
    key, is_pair, value = text.partition("=")
    if not is_pair:
        raise UsageError(f"{text!r} is not KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _answer(app: App, fields: Json, text: str) -> None:
    if app.output.json:
        app.output.document("sandbox", fields)
    else:
        app.output.line(text)


def _table(app: App, field: str, rows: Sequence[Json], columns: Sequence[str]) -> None:
    if app.output.json:
        app.output.document("sandbox", {field: list(rows)})
        return
    if not rows:
        app.output.say(f"No {field}.")
        return
    headings = {column: column.replace("_", " ").upper() for column in columns}
    numbers = [headings[column] for column in columns if isinstance(rows[0].get(column), (int, float))]
    cells = {headings[column]: [row.get(column) for row in rows] for column in columns}
    app.output.table(Table(cells, right=numbers))

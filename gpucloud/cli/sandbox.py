"""``gpucloud sandbox``: the local clouds, and how to make them misbehave on purpose."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucloud.cli.context import App
from gpucloud.errors import UsageError
from gpucloud.resources import money_text, short_id

if TYPE_CHECKING:
    from gpucloud.sandbox.client import SandboxClient

Json = Mapping[str, Any]

Cloud = Annotated[str, typer.Option("--cloud", help="A cloud, or a glob.", metavar="NAME")]
Region = Annotated[str, typer.Option("--region", help="A region, or a glob.", metavar="NAME")]
Zone = Annotated[str, typer.Option("--zone", help="A zone, as offers shows it, or a glob.", metavar="NAME")]
InstanceType = Annotated[str, typer.Option("--type", help="An instance type, or a glob.", metavar="NAME")]
Purchase = Annotated[str, typer.Option("--purchase", help="on_demand, spot, or a glob.", metavar="NAME")]


Transition = Annotated[
    float | None,
    typer.Option("--pace", help="Seconds that an instance is pending, and ending.", min=0, metavar="SECONDS"),
]
Latency = Annotated[
    float | None, typer.Option(help="Seconds added to every call to the clouds.", min=0, metavar="SECONDS")
]
Lag = Annotated[
    float | None,
    typer.Option(help="Seconds for which reads do not see a new instance.", min=0, metavar="SECONDS"),
]


def start(app: App, transition: Transition = None, latency: Latency = None, lag: Lag = None) -> None:
    """Start the local clouds; prints what makes the vendors' own tools go to them."""
    from gpucloud.sandbox.client import ensure_started

    given = _pace_changes(transition, latency, lag)
    endpoint = ensure_started(app.paths.sandbox, **given)
    if given:
        endpoint.client.pace(**given)
    exports = endpoint.exports(app.environment)
    if app.output.json:
        fields = {**_status(endpoint.client.status()), "environment": exports}
        app.output.document("sandbox", fields)
        return
    for name, value in exports.items():
        app.output.line(f"export {name}={shlex.quote(value)}")
    app.output.say(
        f"The sandbox runs (pid {endpoint.pid}). With these lines set, the vendors' tools and SDKs ask it."
    )
    app.output.say("Next: gpucloud --sandbox launch --gpu T4")


def stop(
    app: App,
    force: Annotated[bool, typer.Option("--force", help="Even while something is billed.")] = False,
) -> None:
    """Stop the local clouds; refuses while something is billed. The next start brings everything back."""
    from gpucloud.sandbox.client import find

    endpoint = find(app.paths.sandbox)
    if endpoint is None:
        _answer(app, {"running": False}, "The sandbox does not run.")
        return
    endpoint.stop(force=force)
    _answer(app, {"running": False}, "The sandbox has stopped.")


def status(app: App) -> None:
    """Show whether the local clouds run, and what they bill."""
    from gpucloud.sandbox.client import read_status

    found = read_status(app.paths.sandbox)
    if app.output.json:
        app.output.document("sandbox", _status(found))
        return
    app.output.line(f"running   {'yes' if found['running'] else 'no'}")
    for cloud, url in sorted(found["endpoints"].items()):
        app.output.line(f"{cloud:<9} {url}")
    price = found["billed_per_hour"]
    app.output.line(f"billed    {money_text(Decimal(price['amount']), price['currency'])} per hour")
    if found["billing"]:
        columns = ["KIND", "ID", "CLOUD", "REGION", "BOX", "OWNER", "PER HOUR"]
        app.output.table(columns, _billing_rows(found["billing"]), right=["PER HOUR"])
    if not found["running"] and found["billing"]:
        app.output.say("It was killed, or stopped by force; what it bills comes back with the next start.")


def reset(app: App, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> int | None:
    """Forget everything: instances, stock, prices, faults, the clock. The ledger keeps what was billed."""
    client = _client(app)
    if not yes:
        if not app.output.interactive:
            raise UsageError("reset forgets everything that is emulated", hint="say --yes")
        if not app.output.ask("Forget everything that is emulated?"):
            return 2
    client.reset()
    _answer(app, {}, "Everything is as on the first day.")
    return None


def pace(
    app: App,
    transition: Annotated[
        float | None,
        typer.Option(
            "--transition", help="Seconds that an instance is pending, and ending.", min=0, metavar="SECONDS"
        ),
    ] = None,
    latency: Latency = None,
    lag: Lag = None,
) -> None:
    """Set how fast the running clouds are; without options, show it."""
    found = _client(app).pace(**_pace_changes(transition, latency, lag))
    text = (
        f"transition  {found['transition_s']:g} s\nlatency     {found['latency_s']:g} s\n"
        f"lag         {found['lag_s']:g} s"
    )
    _answer(app, {"pace": found}, text)


def calls(
    app: App,
    clear: Annotated[bool, typer.Option("--clear", help="Forget them afterwards.")] = False,
) -> None:
    """Show the calls that the clouds received, one by one, oldest first."""
    received = _client(app).received(clear=clear)
    columns = ["at", "cloud", "action", "region", "status", "milliseconds", "concurrent"]
    if app.output.json:
        app.output.document("sandbox", {"calls": received})
        return
    _table(app, "calls", [{**each, **_short(each)} for each in received], columns)


def stock(
    app: App,
    count: Annotated[
        int | None, typer.Argument(help="How many instances at a time a zone gives out.", min=0)
    ] = None,
    cloud: Cloud = "*",
    region: Region = "*",
    zone: Zone = "*",
    instance_type: InstanceType = "*",
    purchase: Purchase = "*",
) -> None:
    """Say how many instances there are; without a number, show the rules. The newest match counts."""
    place = _place(cloud, region, zone, instance_type, purchase)
    rule = {} if count is None else {**place, "count": count}
    rules = _client(app).stock(**rule)
    _table(app, "rules", rules, [*place, "count"])


def price(
    app: App,
    amount: Annotated[
        str | None, typer.Argument(help="The price per hour, or a factor such as x1.5.")
    ] = None,
    cloud: Cloud = "*",
    region: Region = "*",
    zone: Zone = "*",
    instance_type: InstanceType = "*",
    purchase: Purchase = "*",
) -> None:
    """Move prices away from the snapshot; without an amount, show the moves. The newest match counts."""
    place = _place(cloud, region, zone, instance_type, purchase)
    move = {} if amount is None else {**place, **_amount(amount)}
    moves = _client(app).price(**move)
    _table(app, "moves", moves, [*place, "amount", "factor"])


def fault(
    app: App,
    effect: Annotated[
        str | None,
        typer.Argument(
            help="error, throttle, delay, hang, drop, repeat, stale, ignore, empty, trickle, drip, pages,"
            " bomb, truncate, garble, redirect, kill."
        ),
    ] = None,
    cloud: Cloud = "*",
    region: Region = "*",
    action: Annotated[
        str, typer.Option(help="A call such as RunInstances, or a glob.", metavar="NAME")
    ] = "*",
    stage: Annotated[
        str,
        typer.Option(help="received (before), applied (after, unanswered), or answered.", metavar="STAGE"),
    ] = "received",
    times: Annotated[int, typer.Option(help="How often it strikes; 0 for always.", min=0, metavar="N")] = 1,
    skip: Annotated[int, typer.Option(help="How many matching calls pass before.", min=0, metavar="N")] = 0,
    code: Annotated[str, typer.Option(help="The error's code.", metavar="CODE")] = "InternalError",
    http_status: Annotated[
        int, typer.Option("--status", help="The error's HTTP status.", min=400, max=599, metavar="CODE")
    ] = 500,
    message: Annotated[
        str, typer.Option(help="The error's message.", metavar="WORDS")
    ] = "An internal error has occurred",
    seconds: Annotated[float, typer.Option(help="How long a delay is.", min=0, metavar="SECONDS")] = 0.0,
    clear: Annotated[bool, typer.Option("--clear", help="Take all faults away.")] = False,
) -> None:
    """Make a coming call fail; without an effect, show the faults that can still strike."""
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
    name: Annotated[str, typer.Argument(help="A spot box's name, or an instance's own id.")],
    notice: Annotated[
        float | None,
        typer.Option(
            help="Seconds between the notice and the end. Default: as the cloud does.",
            min=0,
            metavar="SECONDS",
        ),
    ] = None,
) -> None:
    """Take a spot box back, after a notice."""

    client = _client(app)
    try:
        nodes = app.client.get(name).nodes
        instances = [str(node.instance_id) for node in nodes]
    except UsageError:
        instances = [name]
    taken = [{"instance": instance, **client.interrupt(instance, notice_s=notice)} for instance in instances]
    _answer(app, {"taken": taken}, "\n".join(f"{each['instance']} ends at {each['at']}." for each in taken))


def gpu(
    app: App,
    sickness: Annotated[str, typer.Argument(help="lost, memory, slow, hangs, or driver.")],
    times: Annotated[int, typer.Option(help="How many boxes get one.", min=0, metavar="N")] = 1,
) -> None:
    """Give the next boxes a sick GPU: it does not answer, forgets, is slow, hangs, or has an old driver."""
    _client(app).gpu(sickness, times=times)
    _answer(app, {"sickness": sickness, "times": times}, f"New boxes with a sick GPU: {times} ({sickness}).")


def clock(
    app: App,
    advance: Annotated[
        float, typer.Argument(help="Seconds by which the clouds' time moves ahead.", min=0)
    ] = 0,
) -> None:
    """Move the clouds' time ahead, or show it."""
    answer = _client(app).clock(advance_s=advance)
    _answer(app, answer, f"The clouds' time is {answer['now']}.")


def address(
    app: App,
    new: Annotated[str | None, typer.Argument(metavar="ADDRESS", help="The caller's next address.")] = None,
) -> None:
    """Move the caller to another public address, or show the one that the clouds see."""
    found = _client(app).address(new)
    _answer(app, {"address": found}, f"The clouds see the caller at {found}.")


def control(
    app: App,
    cloud: Annotated[str, typer.Argument(help="The cloud.")],
    name: Annotated[str, typer.Argument(help="What to set there: quota, deny, reserve, commit, ...")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="With what; a value may be JSON.")
    ] = None,
) -> None:
    """Set what only one cloud has: a quota, a permission, held capacity, commitments."""
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
    from gpucloud.sandbox.client import find

    endpoint = find(app.paths.sandbox)
    if endpoint is None:
        raise UsageError("the sandbox does not run", hint="gpucloud sandbox start")
    return endpoint.client


def _status(found: Json) -> dict[str, Any]:
    """The documented fields; the endpoint of an emulated cloud that does not run is ``None``."""
    from importlib.metadata import entry_points

    emulated = sorted(entry.name for entry in entry_points(group="gpucloud.sandboxes"))
    return {
        "running": found["running"],
        "endpoints": {**dict.fromkeys(emulated), **found["endpoints"]},
        "billed_per_hour": found["billed_per_hour"],
        "billing": found["billing"],
    }


def _billing_rows(billing: Sequence[Json]) -> Iterator[Sequence[object]]:
    for each in billing:
        price = money_text(Decimal(each["price"]["amount"]), each["price"]["currency"])
        about = (each[key] for key in ("cloud", "region", "box", "owner"))
        yield each["kind"], short_id(each["id"]), *about, price


def _pace_changes(transition: float | None, latency: float | None, lag: float | None) -> dict[str, float]:
    """What was given of the pace, by the names of its fields."""
    fields = {"transition_s": transition, "latency_s": latency, "lag_s": lag}
    return {name: value for name, value in fields.items() if value is not None}


def _short(call: Json) -> dict[str, Any]:
    """A call's time of day and its whole milliseconds, for people."""
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
        raise UsageError(f"{text!r} is no price; allowed are an amount above 0 and a factor such as x1.5")
    return {name: digits}


def _pair(text: str) -> tuple[str, Any]:
    key, is_pair, value = text.partition("=")
    if not is_pair:
        raise UsageError(f"{text!r} is no KEY=VALUE")
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
    headings = [column.replace("_", " ").upper() for column in columns]
    app.output.table(headings, [[row.get(column) for column in columns] for row in rows])

"""The table of commands, and what reads a command line into a call of one.

Commands are plain functions in modules of their own, imported when they are called. Their options are typer's
``Annotated`` parameters; a parameter annotated :class:`~gpucloud.cli.context.App` receives the
running program. They return ``None``, or an exit code.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from gpucloud.cli.context import App

Function = Callable[..., int | None]
Call = Callable[[], int | None]
"""A command with its arguments."""

HELP_ALL = "--help-all"
BEFORE, BOXES, ENGINES, PROGRAM = "Before buying", "Boxes", "Nodes for engines", "This program"


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: where its function (or its table of sub-commands) is, and its line in the help.

    Without a ``target``, another package brings it: the entry point of its name in ``gpucloud.commands``.
    ``relays`` marks commands that return a remote command's exit code; their own failures then exit with 125.
    ``passes_on`` marks those that take options of another program, with their arguments.
    """

    target: str
    help: str
    panel: str
    relays: bool = False
    passes_on: bool = False


COMMANDS: dict[str, Entry] = {
    "offers": Entry("gpucloud.cli.offers:offers", "Search the market, cheapest first.", BEFORE),
    "cost": Entry("gpucloud.cli.cost:cost", "Compare the cost of all purchase options.", BEFORE),
    "plan": Entry("gpucloud.cli.plan:plan", "Show or save the attempts of a launch.", BEFORE),
    "images": Entry("gpucloud.cli.images:images", "Show the image and software of each offer.", BEFORE),
    "equivalents": Entry("gpucloud.cli.equivalents:show", "List GPU sets of equal memory or speed.", BEFORE),
    "prices": Entry("gpucloud.cli.prices:COMMANDS", "Show, refresh and watch prices.", BEFORE),
    "commitments": Entry(
        "gpucloud.cli.commitments:commitments", "Read the accounts' reservations and savings plans.", BEFORE
    ),
    "launch": Entry("gpucloud.cli.launch:launch", "Launch the cheapest box that starts.", BOXES),
    "list": Entry("gpucloud.cli.list:list_boxes", "List boxes with cost and time left.", BOXES),
    "show": Entry("gpucloud.cli.show:show", "Show one box.", BOXES),
    "ssh": Entry("gpucloud.cli.ssh:ssh", "Open a shell on a box.", BOXES, passes_on=True),
    "ssh-config": Entry("gpucloud.cli.ssh_config:ssh_config", "Let ssh, scp, rsync and editors in.", BOXES),
    "hosts": Entry("gpucloud.cli.hosts:hosts", "Print a box's nodes for mpirun, Ansible and others.", BOXES),
    "share": Entry("gpucloud.cli.share:share", "Let a colleague in on a box.", BOXES),
    "forward": Entry("gpucloud.cli.forward:forward", "Make ports of a box reachable here.", BOXES),
    "exec": Entry("gpucloud.cli.exec:exec_command", "Run a command on a box.", BOXES, relays=True),
    "sync": Entry("gpucloud.cli.sync:sync", "Copy files to or from a box.", BOXES),
    "logs": Entry("gpucloud.cli.logs:logs", "Show a box's boot and job logs.", BOXES),
    "setup": Entry("gpucloud.cli.setup:setup", "Repeat a box's setup.", BOXES),
    "extend": Entry("gpucloud.cli.extend:extend", "Change a box's deadline.", BOXES),
    "stop": Entry("gpucloud.cli.stop:stop", "Stop a box; only its disk is billed on.", BOXES),
    "start": Entry("gpucloud.cli.start:start", "Start a stopped box at today's price.", BOXES),
    "move": Entry("gpucloud.cli.move:move", "Launch a box elsewhere with the files of this one.", BOXES),
    "down": Entry("gpucloud.cli.down:down", "Delete boxes; wait until nothing is billed.", BOXES),
    "volume": Entry("gpucloud.cli.volume:COMMANDS", "Create and delete disks that outlive boxes.", BOXES),
    "snapshot": Entry("gpucloud.cli.snapshot:COMMANDS", "Copy volumes and stopped boxes.", BOXES),
    "run": Entry("gpucloud.cli.run:run", "Launch a box for one command, then delete it.", BOXES, relays=True),
    "runs": Entry("gpucloud.cli.runs:COMMANDS", "List, show and cancel runs; their output.", BOXES),
    "tend": Entry("gpucloud.cli.tend:tend", "Look after detached runs; end what is overdue.", BOXES),
    "k8s": Entry("gpucloud.cli.k8s:COMMANDS", "Bring nodes for a Kubernetes cluster.", BOXES),
    "sweep": Entry("gpucloud.cli.sweep:sweep", "Find and delete expired and orphaned resources.", BOXES),
    "recover": Entry("gpucloud.cli.recover:recover", "Restore lost journal entries from cloud tags.", BOXES),
    "spend": Entry("gpucloud.cli.spend:spend", "Show what boxes have cost.", BOXES),
    "budget": Entry("gpucloud.cli.budget:COMMANDS", "Limit what is spent per run, day or month.", BOXES),
    "policy": Entry("gpucloud.cli.policy:COMMANDS", "Show and set launch policies.", BOXES),
    "dashboard": Entry("gpucloud.cli.dashboard:dashboard", "Show it all as a local page.", BOXES),
    "slurm": Entry("gpucloud.cli.slurm:COMMANDS", "Launch and end nodes for Slurm.", ENGINES),
    "ray": Entry("gpucloud.cli.ray:COMMANDS", "Launch and end nodes for Ray.", ENGINES),
    "check": Entry(
        "gpucloud.cli.check:check", "Check credentials, permissions, quotas, ssh, clock.", PROGRAM
    ),
    "metrics": Entry("gpucloud.cli.metrics:metrics", "Export Prometheus metrics.", PROGRAM),
    "notify": Entry("gpucloud.cli.notify:COMMANDS", "Test the channels for messages.", PROGRAM),
    "journal": Entry(
        "gpucloud.cli.journal:COMMANDS", "Share the journal on PostgreSQL; copy and verify it.", PROGRAM
    ),
    "audit": Entry("gpucloud.cli.audit:audit", "Show the cloud calls that changed something.", PROGRAM),
    "sandbox": Entry("", "Run and control local emulated clouds.", PROGRAM),
    "schema": Entry("gpucloud.cli.schema:schema", "Print JSON Schemas of specs and answers.", PROGRAM),
    "completion": Entry("gpucloud.cli.completion:completion", "Print a shell's completion script.", PROGRAM),
    "version": Entry("gpucloud.cli.version:version", "Show the version and the folders in use.", PROGRAM),
}


ALIASES = {"clean": "sweep", "ls": "list", "ps": "list", "status": "list"}
"""Other names of commands: whoever tunes models takes a sweep for a search of parameters."""
MEANT = {
    **dict.fromkeys(("delete", "destroy", "kill", "remove", "rm", "terminate"), "'down'"),
    **dict.fromkeys(("create", "up"), "'launch'"),
    "serve": "'run' with a server as the command, and 'forward', which makes its port reachable here",
}
"""What the words of other tools are here. They do nothing: what deletes or buys has one name."""


@dataclass(slots=True, kw_only=True)
class Switches:
    """The options that every command takes, before or after its name."""

    json: bool = False
    sandbox: bool = False
    verbose: int = 0
    no_color: bool = False

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Switches:
        """Those that the environment sets."""
        sandbox = environment.get("GPUCLOUD_SANDBOX", "").strip().lower()
        return cls(sandbox=sandbox not in {"", "0", "false", "no", "off"})


Json = Annotated[bool, typer.Option("--json", help="Print a JSON document.")]
Sandbox = Annotated[
    bool, typer.Option("--sandbox", help="Use local emulated clouds (or set GPUCLOUD_SANDBOX=1).")
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose", "-v", count=True, show_default=False, help="Log more to stderr; -vv in detail."
    ),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="Print without colour.")]


def _switches(
    *, json: Json = False, sandbox: Sandbox = False, verbose: Verbose = 0, no_color: NoColor = False
) -> None:
    """Declares the options that every command takes."""


class Command(TyperCommand):
    """A command whose help begins with examples and its common options; ``--help-all`` shows all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Answers ``--help-all``, as ``--help`` is answered: before anything else is read."""
        if HELP_ALL in (args[: args.index("--")] if "--" in args else args):
            ctx.meta[HELP_ALL] = True
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes examples, arguments and options."""
        from gpucloud.cli.help import write_help

        write_help(self.get_params(ctx), ctx, formatter, whole=HELP_ALL in ctx.meta)


class Group(TyperGroup):
    """Commands that are imported only when they are called; the help reads the table alone."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  (typer's signature)
        """Writes the commands under the headings of their panels, in the table's order."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(panel, []).append((name, command.get_short_help_str(100)))
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)


class SubGroup(Group):
    """The sub-commands of one command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes two examples, then the commands."""
        from gpucloud.cli.help import write_examples

        write_examples(ctx.command, formatter)
        super().format_commands(ctx, formatter)


class LazyGroup(Group):
    """The commands of :data:`COMMANDS`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds a command by its name, or its other one, and imports it."""
        if args[0] in MEANT:
            ctx.fail(f"No such command '{args[0]}'. Did you mean {MEANT[args[0]]}?")
        name, command, rest = super().resolve_command(ctx, [ALIASES.get(args[0], args[0]), *args[1:]])
        return name, command and load(str(name)), rest


def build() -> LazyGroup:
    """The whole command line, with nothing imported yet."""
    app = _typer(cls=LazyGroup, invoke_without_command=True)
    app.callback()(_root)
    group = typer.main.get_command(app)
    assert isinstance(group, LazyGroup)  # noqa: S101  (tells the type checker what `cls` above says)
    for name, entry in COMMANDS.items():
        group.add_command(TyperCommand(name, help=entry.help, rich_help_panel=entry.panel))
    return group


def load(name: str) -> TyperCommand | TyperGroup:
    """Imports one command of the table and hands its function to typer."""
    entry = COMMANDS[name]
    found = functions_of(name)
    if callable(found):
        app = _typer()
        settings = {"ignore_unknown_options": entry.passes_on}
        app.command(name, cls=Command, context_settings=settings)(bind(found))
    else:
        app = _typer(cls=SubGroup, name=name, help=entry.help)
        app.callback()(lambda: None)
        for sub_name, function in found.items():
            app.command(sub_name, cls=Command)(bind(function))
    command = typer.main.get_command(app)
    assert isinstance(command, (TyperCommand, TyperGroup))  # noqa: S101  (for the type checker)
    return command


def functions_of(name: str) -> Function | Mapping[str, Function]:
    """The function of a command of the table, or those of its sub-commands by name."""
    if target := COMMANDS[name].target:
        module, _, attribute = target.partition(":")
        own: Function | Mapping[str, Function] = getattr(import_module(module), attribute)
        return own
    from importlib.metadata import entry_points

    for entry in entry_points(group="gpucloud.commands", name=name):
        brought: Function | Mapping[str, Function] = entry.load()
        return brought
    from gpucloud.errors import UsageError

    raise UsageError(f"`{name}` is not installed", hint=f"pip install 'gpucloud[{name}]'")


def bind(function: Function) -> Callable[..., Call]:
    """What reads the options of a command, and those that every command takes, into a call of its function.

    The function also receives the running program, and what is read from several options.
    """
    from gpucloud.cli.context import App, ReadFrom
    from gpucloud.cli.examples import split_examples

    parameters = inspect.signature(function, eval_str=True).parameters.values()
    receivers = [each.name for each in parameters if each.annotation is App]
    sources = {
        each.name: source
        for each in parameters
        for source in getattr(each.annotation, "__metadata__", ())
        if isinstance(source, ReadFrom)
    }
    own = [each for each in parameters if each.name not in {*receivers, *sources}]
    of_sources = [option for source in sources.values() for option in source.options]
    common = inspect.signature(_switches, eval_str=True).parameters

    def command(ctx: typer.Context, **values: Any) -> Call:
        switches = _merge(ctx.ensure_object(Switches), {name: values.pop(name) for name in common})
        app = start(switches, ctx.command_path.partition(" ")[2])
        for name, source in sources.items():
            values[name] = source.read(app, {each.name: values.pop(each.name) for each in source.options})
        return partial(function, **dict.fromkeys(receivers, app), **values)

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    options = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *of_sources, *common.values())
    ]
    command.__signature__ = inspect.Signature([context, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {}
    command.__doc__, examples = split_examples(inspect.getdoc(function) or "")
    command.examples = examples  # type: ignore[attr-defined]
    return command


def start(switches: Switches, command: str) -> App:
    """The running program, for one command."""
    from gpucloud.cli.context import App
    from gpucloud.cli.failure import log_to_stderr
    from gpucloud.cli.output import Output

    log_to_stderr(switches.verbose)
    return App(
        output=Output(json=switches.json, color=not switches.no_color),
        environment=os.environ,
        command=command,
        sandbox=switches.sandbox,
        verbose=switches.verbose,
    )


def parse(line: Sequence[str], switches: Switches) -> Call:
    """The call that a command line asks for; one that gives an exit code where the options were all."""
    group = build()
    try:
        with group.make_context("gpucloud", list(line), obj=switches) as context:
            call: Call = group.invoke(context)
    except typer.Exit as stop:
        return partial(int, stop.exit_code)
    return call


def _root(
    ctx: typer.Context,
    *,
    json: Json = False,
    sandbox: Sandbox = False,
    verbose: Verbose = 0,
    no_color: NoColor = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Find, cost and launch the cheapest GPU box on AWS, Azure or Alibaba Cloud; delete it completely.

    Without a cloud account: `gpucloud --sandbox launch --gpu T4` uses local emulated clouds.

    \b
    Examples:
      gpucloud cost --gpu A100:8 --hours 72
      gpucloud run --gpu T4 --ttl 1h --sync . -- python3 train.py
    """
    values = {"json": json, "sandbox": sandbox, "verbose": verbose, "no_color": no_color}
    _merge(ctx.ensure_object(Switches), values)
    if version:
        from gpucloud import __version__

        sys.stdout.write(f"gpucloud {__version__}\n")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        if json:
            ctx.fail("Missing command.")
        sys.stderr.write(ctx.get_help() + "\n")
        raise typer.Exit(2)


def relays(line: Sequence[str]) -> bool:
    """Whether a command line names a command that gives a remote command's exit code."""
    name = next((word for word in line if not word.startswith("-")), "")
    return name in COMMANDS and COMMANDS[name].relays


def _merge(switches: Switches, values: Mapping[str, Any]) -> Switches:
    for name, value in values.items():
        setattr(switches, name, getattr(switches, name) or value)
    return switches


def _typer(**settings: Any) -> typer.Typer:
    return typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help: reads the same in a pipe, and costs half the start-up time
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 110},
        **settings,
    )
